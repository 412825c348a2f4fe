"""Names of nobody and nothing, made of syllables by rule; the same ones every time.

That no village or person anywhere has such a name cannot be promised, only that none is known for anything.
"""

import numpy as np

_OPEN = ("ba", "do", "fe", "ga", "ki", "lo", "mu", "ne", "po", "ra", "se", "ti", "va", "wo", "yu", "zi")
_CLOSED = ("bren", "dax", "fol", "grim", "kesh", "lorn", "mask", "nov", "plen", "rusk", "sarn", "tov", "vand", "wick", "yel", "zorn")


def made_up_names(count: int, *, seed: int, ending: str = "") -> list[str]:
    """Different capitalised names of two or three syllables.

    Examples:
        >>> made_up_names(2, seed=0) == made_up_names(3, seed=0)[:2]
        True
    """
    rng = np.random.default_rng(seed)
    found: dict[str, None] = {}
    while len(found) < count:
        middle = _OPEN[rng.integers(16)] if rng.integers(2) else ""
        found[f"{_OPEN[rng.integers(16)]}{middle}{_CLOSED[rng.integers(16)]}{ending}".capitalize()] = None
    return list(found)
