"""Does a probe carry over to another set? One record for each pair of sets and site, and the rules that name the outcome."""

import dataclasses
from typing import Any, Literal

from transect.measure.estimate import Estimate
from transect.measure.metric import AUROC, Metric

Status = Literal["yes", "no", "inverted", "unclear"]

MARGIN = 0.05
"""How far from chance, on the scale of AUROC, an interval must lie to count as above (or below) chance."""

KEPT = 0.5
"""The share of its advantage over chance at home that a probe must keep for "yes"."""

TRANSFER_RULES: dict[Status, str] = {
    "inverted": f"inverted: the whole interval lies below {0.5 - MARGIN:.2f}, and the value is at least {KEPT:.0%} of the advantage over "
    "chance that the probe has on held-out groups of its own set, but on the other side; the probe says the opposite there.",
    "yes": f"yes: the whole interval lies above {0.5 + MARGIN:.2f}, and the value keeps at least {KEPT:.0%} of the advantage over chance "
    "that the probe has on held-out groups of its own set.",
    "no": f"no: the label is readable at home, and the whole interval lies below {KEPT:.0%} of that advantage (a weak opposite is a no).",
    "unclear": "unclear: anything else; the interval is too wide to say, or there is nothing readable that could carry over.",
}
"""The rules, tried in this order, quoted in every report. Correlations r count as AUROC (r + 1) / 2."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Transfer:
    """A probe made on one set, measured on another, at one site.

    Args:
        train: name of the set it was made on.
        test: name of the set it was measured on.
        site: where it reads.
        estimate: what it scored, with its interval.
        metric: what was measured; its name is the key of the estimate in JSON.
        cosine: cosine with the direction of a probe made on the test set; None where there is none.
        mcs: Mahalanobis cosine similarity with it, under the covariance of the test set's activations.
        n: rows measured.
        status: the outcome, by `TRANSFER_RULES`.
    """

    train: str
    test: str
    site: str
    estimate: Estimate
    metric: Metric = AUROC
    cosine: float | None = None
    mcs: float | None = None
    n: int | None = None
    status: Status = "unclear"

    def to_json(self) -> dict[str, Any]:
        """Plain values; the estimate stands under the name of its metric."""
        return {
            "train": self.train,
            "test": self.test,
            "site": self.site,
            self.metric.name: self.estimate.to_json(),
            "cosine": self.cosine,
            "mcs": self.mcs,
            "n": self.n,
            "status": self.status,
        }


def is_above_chance(estimate: Estimate, metric: Metric = AUROC) -> bool:
    """Whether the whole interval lies above chance by more than the margin."""
    return metric.on_auroc_scale(estimate.low) > 0.5 + MARGIN


def transfer_status(there: Estimate, home: Estimate, *, metric: Metric = AUROC) -> Status:
    """Name the outcome by `TRANSFER_RULES`.

    Args:
        there: what the probe scored on the other set.
        home: what it scored on held-out groups of its own set.
        metric: what both measure.

    Examples:
        >>> home = Estimate(0.98, 0.96, 0.99)
        >>> [transfer_status(Estimate(*e), home) for e in [(0.01, 0.0, 0.03), (0.52, 0.44, 0.60), (0.9, 0.8, 0.95), (0.7, 0.4, 0.9)]]
        ['inverted', 'no', 'yes', 'unclear']
    """
    value, low, high = (metric.on_auroc_scale(x) for x in (there.value, there.low, there.high))
    enough = 0.5 + KEPT * (metric.on_auroc_scale(home.value) - 0.5)
    if high < 0.5 - MARGIN and 1 - value >= enough:
        return "inverted"
    if low > 0.5 + MARGIN and value >= enough:
        return "yes"
    if is_above_chance(home, metric) and high < enough:
        return "no"
    return "unclear"
