"""The one number that leads a report, by the kind of label: AUROC, macro AUROC, or Spearman's correlation."""

import dataclasses
from collections.abc import Callable
from typing import Any, Literal, get_args

from transect.errors import InputError, near_matches
from transect.measure.cross_validated import (
    cross_validated_auroc_statistic,
    cross_validated_macro_auroc_statistic,
    cross_validated_spearman_statistic,
)
from transect.measure.scores import auroc, multiclass_auroc, spearman
from transect.measure.statistic import Statistic, auroc_statistic, macro_auroc_statistic, spearman_statistic

Kind = Literal["binary", "multiclass", "number"]


@dataclasses.dataclass(frozen=True)
class Metric:
    """A measure of scores against targets, higher is better, 1 is perfect.

    Args:
        name: its key in files; that of macro AUROC is ``auroc`` too.
        title: its name in sentences.
        chance: its value for scores that know nothing.
        worst: its value for perfectly inverted scores.
        measure: (scores, targets) to the value.
        statistic: (scores, targets) to what the bootstrap evaluates.
        statistic_in_folds: (out-of-fold scores, targets, folds) to the same, taken inside folds.
    """

    name: str
    title: str
    chance: float
    worst: float
    measure: Callable[[Any, Any], float]
    statistic: Callable[[Any, Any], Statistic]
    statistic_in_folds: Callable[[Any, Any, Any], Statistic]

    def on_auroc_scale(self, value: float) -> float:
        """The value moved to the scale of AUROC: inverted 0, chance 0.5, perfect 1.

        Examples:
            >>> metric_for("number").on_auroc_scale(0.8)
            0.9
        """
        return (value - self.worst) / (1 - self.worst)


AUROC = Metric("auroc", "AUROC", 0.5, 0.0, auroc, auroc_statistic, cross_validated_auroc_statistic)
MACRO_AUROC = Metric(
    "auroc",
    "macro AUROC (each class against the rest)",
    0.5,
    0.0,
    multiclass_auroc,
    macro_auroc_statistic,
    cross_validated_macro_auroc_statistic,
)
SPEARMAN = Metric("spearman", "Spearman correlation", 0.0, -1.0, spearman, spearman_statistic, cross_validated_spearman_statistic)


def metric_for(kind: Kind) -> Metric:
    """The leading metric of a kind of label.

    Raises:
        InputError: no such kind.

    Examples:
        >>> metric_for("binary").title
        'AUROC'
    """
    metrics: dict[str, Metric] = {"binary": AUROC, "multiclass": MACRO_AUROC, "number": SPEARMAN}
    if kind not in metrics:
        raise InputError(f"kind must be one of {get_args(Kind)}, got {kind!r}; {near_matches(str(kind), metrics)}.")
    return metrics[kind]
