"""From numbers to a status and a sentence, by rules that are quoted beside every finding."""

from collections.abc import Sequence

from transect.measure import AUROC, Estimate, transfer_status
from transect.measure.transfer import KEPT, MARGIN
from transect.report import StressPoint
from transect.report.stress import StressStatus

LOST = 0.02
"""A probe weakens where its paired loss is surely larger than this, on the scale of AUROC."""

SCORE_RULE = (
    f"Each point is judged as a transfer: it holds where its interval lies above {0.5 + MARGIN:.2f} and it keeps at least {KEPT:.0%} of the "
    f"advantage over chance at home; it is fooled where the interval lies below that, or on the other side of chance. It weakens where it "
    f"is not fooled but the whole interval of the paired difference lies below -{LOST}. The worst point is the status."
)

_ORDER: tuple[StressStatus, ...] = ("fooled", "weakens", "unclear", "holds")


def point_status(point: StressPoint, home: Estimate) -> StressStatus:
    """The status of one AUROC, by `SCORE_RULE`.

    Examples:
        >>> home = Estimate(0.99, 0.97, 1.0)
        >>> point_status(StressPoint(name="case", estimate=Estimate(0.51, 0.4, 0.6)), home)
        'fooled'
    """
    found = transfer_status(point.estimate, home, metric=AUROC)
    if found in ("no", "inverted"):
        return "fooled"
    if point.difference is not None and point.difference.high < -LOST:
        return "weakens"
    return "holds" if found == "yes" else "unclear"


def worst(statuses: Sequence[StressStatus]) -> StressStatus:
    """The worst of several; unclear where there is none.

    Examples:
        >>> worst(["holds", "fooled", "weakens"]), worst([])
        ('fooled', 'unclear')
    """
    for status in _ORDER:
        if status in statuses:
            return status
    return "unclear"


def listed(names: Sequence[str]) -> str:
    """Names in a sentence.

    Examples:
        >>> listed(["case", "typos", "filler"])
        'case, typos and filler'
    """
    words = [name.replace("_", " ") for name in names]
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
