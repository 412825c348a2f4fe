"""Scores of rows written differently beside the same rows as they were, with intervals that hold for all of them at once."""

import dataclasses
from collections.abc import Sequence

import numpy as np

from transect.measure import Statistic, difference
from transect.report import StressPoint
from transect.study.statistics import Judge


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class PairedScore:
    """One way of writing the rows differently.

    Args:
        name: of the way.
        new: the metric on the rows written differently.
        old: the metric on the same rows as they were.
        groups: ``[m]`` of those rows.
        n_excluded: test rows that are not among them.
        note: why.
    """

    name: str
    new: Statistic
    old: Statistic
    groups: np.ndarray
    n_excluded: int = 0
    note: str = ""


def paired_points(pairs: Sequence[PairedScore], judge: Judge, *, series: str = "") -> list[StressPoint]:
    """A point for each way, with the paired difference from the rows as they were.

    Each way keeps other rows, so one bootstrap over all of them would have to throw most away; the differences hold at once by
    Bonferroni instead, which is a little wider.
    """
    level = 1 - (1 - judge.level) / max(1, len(pairs))
    points = []
    for pair in pairs:
        gap = difference(pair.new, pair.old, groups=pair.groups, level=level, resamples=judge.resamples, seed=judge.seed)
        points.append(
            StressPoint(
                name=pair.name, series=series, estimate=judge.estimate(pair.new, pair.groups), difference=gap, n=len(pair.groups),
                n_excluded=pair.n_excluded, note=pair.note,
            )
        )  # fmt: skip
    return points
