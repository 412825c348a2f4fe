"""The colours of the page and the pictures. Each hue can be told from its neighbours with the common colour blindnesses,
and each has enough contrast on white and on near-black; dashes and labels carry the same distinctions without colour.
"""

PROBE = "#1f83c4"
UNTRAINED = "#d9730d"
POSITIVE = PROBE
NEGATIVE = UNTRAINED
OTHERS = ("#0f9d76", "#b565a7", "#8a8f98", "#b08c00", "#c0564f", "#5b6ee1")
"""The baselines, and the classes beyond two, take these in order."""

BELOW, MIDDLE, ABOVE = (200, 90, 10), (247, 247, 247), (20, 100, 175)
"""The ends and the middle of the diverging scale: orange below chance, white at chance, blue above."""


def class_colours(n: int) -> tuple[str, ...]:
    """A colour for each of n classes; two classes are (negative, positive)."""
    every = (NEGATIVE, POSITIVE, *OTHERS)
    return tuple(every[index % len(every)] for index in range(n))


def diverging(value: float, *, low: float, middle: float, high: float) -> str:
    """The colour of a value on the diverging scale, as ``#rrggbb``; values beyond the ends take the ends' colours.

    >>> diverging(0.5, low=0.0, middle=0.5, high=1.0)
    '#f7f7f7'
    """
    end, reach = (ABOVE, high - middle) if value >= middle else (BELOW, middle - low)
    share = min(1.0, abs(value - middle) / reach)
    return "#" + "".join(f"{round(start + (stop - start) * share):02x}" for start, stop in zip(MIDDLE, end, strict=True))


def ink(colour: str) -> str:
    """Black or white, whichever reads better on a colour given as ``#rrggbb``.

    >>> ink("#ffffff"), ink("#14324b")
    ('#000000', '#ffffff')
    """
    red, green, blue = (int(colour[start : start + 2], 16) / 255 for start in (1, 3, 5))
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in (red, green, blue)]
    luminance = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]  # WCAG 2.2, relative luminance
    return "#000000" if (luminance + 0.05) ** 2 > 0.05 * 1.05 else "#ffffff"
