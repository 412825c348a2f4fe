"""What the page, the pictures and the terminal have in common: how numbers are written, and which numbers are shown where.

Nothing is computed here that a reader could mistake for a result: every number shown is a number of the `Report`.
"""

import dataclasses
import math
import re
from collections.abc import Sequence

from transect.measure import Estimate
from transect.report.palette import OTHERS, UNTRAINED
from transect.report.records import MetricInfo, Scores, TransferScore, score
from transect.report.report import Report

MOST_NUMBERS_IN_CELLS = 25
"""A heat map with more columns than this shows colours only."""


def number(value: float | None, digits: int = 3) -> str:
    """A number with a fixed number of decimals; a dash for None, and never a negative zero.

    >>> number(-0.0001), number(None), number(0.98765)
    ('0.000', '-', '0.988')
    """
    if value is None:
        return "-"
    text = f"{value:.{digits}f}"
    return text.removeprefix("-") if float(text) == 0 else text


def interval(estimate: Estimate) -> str:
    """The interval of an estimate in brackets; a dash where none was made."""
    return f"[{number(estimate.low)}, {number(estimate.high)}]" if estimate.has_interval else "-"


def small(value: float | None) -> str:
    """A number of unknown size, such as a p value or a strength, with two digits that count.

    >>> small(0.004975), small(None), small(100.0)
    ('0.005', '-', '100')
    """
    return "-" if value is None else f"{value:.3g}" if abs(value) >= 100 else f"{value:.2g}"


def seconds(value: float) -> str:
    """A duration.

    >>> seconds(0.123), seconds(83.0)
    ('0.12 s', '83.0 s')
    """
    return f"{value:.2f} s" if value < 1 else f"{value:.1f} s"


def words(name: str) -> str:
    """A field's name for people.

    >>> words("bag_of_words")
    'bag of words'
    """
    return name.replace("_", " ")


def metric_title(name: str) -> str:
    """What people call a metric: short names of one word in capitals.

    >>> metric_title("auroc"), metric_title("log_loss"), metric_title("ece"), metric_title("r2")
    ('AUROC', 'Log loss', 'ECE', 'R²')
    """
    special = {"auroc": "AUROC", "ece": "ECE", "r2": "R²"}
    return special.get(name, words(name).capitalize())


def short_site(site: str) -> str:
    """A site's name where there is little room.

    >>> short_site("layers[12]"), short_site("layers[3].mlp.out"), short_site("final_norm")
    ('12', '3.mlp.out', 'norm')
    """
    return re.sub(r"layers\[(\d+)\]", r"\1", site).replace("final_norm", "norm")


def ticks(sites: Sequence[str], chosen: str, *, room: int = 110) -> list[int]:
    """Which positions on an axis of sites get a label, so that about ``room`` characters are drawn at most.

    The chosen one always does, and the first and the last where they do not crowd it.

    >>> ticks([f"layers[{index}]" for index in range(10)], "layers[4]", room=24)
    [0, 2, 4, 6, 9]
    """
    lengths = [len(short_site(site)) + 2 for site in sites]
    step = max(1, -(-sum(lengths) // room))
    last, here = len(sites) - 1, list(sites).index(chosen)
    regular = {*range(0, last - step + 1, step), last}
    return sorted({position for position in regular if abs(position - here) >= step} | {here})


def bounds(metric: MetricInfo) -> tuple[float, float]:
    """The worst and the best value of a metric."""
    return (0.0, 1.0) if metric.name == "auroc" else (-1.0, 1.0)


@dataclasses.dataclass(frozen=True)
class Line:
    """A baseline as a horizontal line across the sites."""

    name: str
    estimate: Estimate
    colour: str


def colours_of_baselines(report: Report) -> dict[str, str]:
    """A colour for every baseline; the untrained model has its own."""
    others = [name for name in report.baselines if name != "untrained"]
    colours = {name: OTHERS[index % len(OTHERS)] for index, name in enumerate(others)}
    return {name: colours.get(name, UNTRAINED) for name in report.baselines}


def baseline_lines(report: Report) -> list[Line]:
    """The baselines to draw as lines: all, but the untrained model only where it has no curve of its own."""
    colours = colours_of_baselines(report)
    has_curve = any(point.untrained is not None for point in report.by_site)
    shown = {name: base for name, base in report.baselines.items() if name != "untrained" or not has_curve}
    return [Line(words(name), score(base, report.metric), colours[name]) for name, base in shown.items()]


def band_of(report: Report) -> tuple[list[float], list[float]] | None:
    """The lower and upper edge of the band for all sites at once; None where a site lacks it."""
    pairs = [(point.band_low, point.band_high) for point in report.by_site]
    edges = [(low, high) for low, high in pairs if low is not None and high is not None]
    return ([low for low, _ in edges], [high for _, high in edges]) if len(edges) == len(pairs) else None


def curve_range(report: Report) -> tuple[float, float]:
    """The extent of the score axis: everything drawn fits, and chance is always in it."""
    lows = [report.metric.chance - 0.1]
    for point in report.by_site:
        lows += [
            value for value in (point.test.low, point.test.value, point.band_low, point.untrained, point.validation) if value is not None
        ]
    lows += [line.estimate.low for line in baseline_lines(report)]
    return min(low for low in lows if not math.isnan(low)) - 0.02, 1.02


@dataclasses.dataclass(frozen=True)
class HeatRow:
    """One row of the transfer heat map: a training table, a test table, and a cell for each site (None where nothing was measured)."""

    train: str
    test: str
    cells: tuple[TransferScore | None, ...]


def sites_of(report: Report) -> tuple[str, ...]:
    """The sites of the transfer rows in the order of `by_site`; any that are not there come last."""
    order = {point.site: position for position, point in enumerate(report.by_site)}
    return tuple(sorted({row.site for row in report.transfer}, key=lambda site: (order.get(site, len(order)), site)))


def heat_rows(report: Report) -> list[HeatRow]:
    """The rows of the transfer heat map, in the order in which the report has them."""
    cells = {(row.train, row.test, row.site): row for row in report.transfer}
    pairs = dict.fromkeys((row.train, row.test) for row in report.transfer)
    sites = sites_of(report)
    return [HeatRow(train, test, tuple(cells.get((train, test, site)) for site in sites)) for train, test in pairs]


def chosen_transfers(report: Report) -> list[TransferScore]:
    """The transfer rows at the site of the chosen probe."""
    return [row for row in report.transfer if row.selected]


def metrics_of(scores: Scores) -> list[tuple[str, Estimate]]:
    """The metrics that apply, by name, in the record's order."""
    named = ((field.name, getattr(scores, field.name)) for field in dataclasses.fields(scores))
    return [(name, value) for name, value in named if isinstance(value, Estimate)]


def answer(value: bool | None) -> str:
    """Yes, no or unclear."""
    return "unclear" if value is None else "yes" if value else "no"
