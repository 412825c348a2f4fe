"""Statistics of weighted groups: what the bootstrap evaluates, thousands of resamples at a time.

A `Statistic` maps counts ``[G, b]`` (how often each group stands in each of b resamples) to values ``[b]``. It also knows the
range of its values, and how many independent units stand behind it where the data are too perfect for the bootstrap to tell.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from transect.errors import InputError
from transect.measure import _ranked
from transect.measure._inputs import Bools, Floats, Ints, as_classes, as_floats, as_positives, check_length
from transect.measure.scores import one_against_rest

FEW_DISAGREEING = 10
"""With fewer groups than this in disagreement with the ranking (or in error), the bootstrap's spread is not trusted alone."""

_RANKS_AT_ONCE = 2**22


@dataclasses.dataclass(frozen=True, eq=False)
class Statistic:
    """A number of weighted rows.

    Args:
        name: what it is called.
        n: how many rows it reads.
        evaluate: (counts ``[G, b]``, group of each row ``[n]``) to values ``[b]``, NaN where undefined.
        bounds: the smallest and the largest possible value; None where it has no such bounds.
        unit_limit: (group of each row, value) to the most independent units to believe in; infinite where the bootstrap can tell.
        inflation: how many times the variance over resamples its variance is; above 1 where its rows depend on one another in a way
            that resamples do not show, as out-of-fold scores do. Used where it has bounds.
    """

    name: str
    n: int
    evaluate: Callable[[Floats, Ints], Floats]
    bounds: tuple[float, float] | None
    unit_limit: Callable[[Ints, float], float]
    inflation: float = 1.0

    def value(self) -> float:
        """Its value on the rows as they are."""
        return float(self.evaluate(np.ones((1, 1)), np.zeros(self.n, dtype=np.int64))[0])


def auroc_statistic(scores: Any, positives: Any) -> Statistic:
    """AUROC of ``scores [n]`` against ``positives [n]``.

    Raises:
        InputError: one class only, NaN, or lengths that differ.
    """
    values = as_floats(scores, name="scores")
    labels = as_positives(positives, n=len(values))
    if labels.all() or not labels.any():
        raise InputError(f"AUROC needs both classes, but all {len(labels)} rows are {'positive' if labels[0] else 'negative'}.")
    steps = _ranked.plan(values, labels)

    def evaluate(counts: Floats, groups: Ints) -> Floats:
        return _ranked.weighted_auroc(steps, counts, groups, labels)

    def unit_limit(groups: Ints, value: float) -> float:
        return auroc_unit_limit(labels, groups, in_disagreement(values, labels, value), value)

    return Statistic("auroc", len(values), evaluate, (0.0, 1.0), unit_limit)


def macro_auroc_statistic(scores: Any, codes: Any) -> Statistic:
    """Macro AUROC of ``scores [n, k]`` against class indices ``codes [n]``; undefined in a resample that lacks a class."""
    values = as_floats(scores, name="scores", ndim=(2,))
    labels = one_against_rest(as_classes(codes, n=len(values)), values.shape[1])
    parts = [auroc_statistic(values[:, k], labels[:, k]) for k in range(values.shape[1])]

    def evaluate(counts: Floats, groups: Ints) -> Floats:
        return np.mean([part.evaluate(counts, groups) for part in parts], axis=0)

    def unit_limit(groups: Ints, value: float) -> float:
        return min(part.unit_limit(groups, value) for part in parts)

    return Statistic("macro_auroc", len(values), evaluate, (0.0, 1.0), unit_limit)


def mean_statistic(values: Any, *, name: str, bounds: tuple[float, float] | None = None) -> Statistic:
    """The mean over rows of a number per row: accuracy (bounds 0 and 1), Brier score, log loss."""
    numbers = as_floats(values, name=name)

    def evaluate(counts: Floats, groups: Ints) -> Floats:
        total = np.bincount(groups, weights=numbers, minlength=len(counts)) @ counts
        return total / (np.bincount(groups, minlength=len(counts)) @ counts)

    def unit_limit(groups: Ints, value: float) -> float:
        rarer = numbers < value if (numbers < value).sum() <= (numbers > value).sum() else numbers > value
        return np.inf if len(np.unique(groups[rarer])) >= FEW_DISAGREEING else len(np.unique(groups))

    return Statistic(name, len(numbers), evaluate, bounds, unit_limit)


def accuracy_statistic(predicted: Any, codes: Any) -> Statistic:
    """Share of rows whose predicted class index is right."""
    labels = as_classes(codes, n=len(codes))
    right = as_classes(predicted, n=len(labels), name="predicted") == labels
    return mean_statistic(right, name="accuracy", bounds=(0.0, 1.0))


def spearman_statistic(scores: Any, targets: Any) -> Statistic:
    """Spearman's rank correlation of ``scores [n]`` and ``targets [n]``; 0 for equal scores, undefined where the targets are."""
    values = as_floats(scores, name="scores")
    truth = as_floats(targets, name="targets")
    check_length(truth, n=len(values), name="targets")
    if (truth == truth[0]).all():
        raise InputError(f"Spearman correlation needs targets that differ, got {len(truth)} times {truth[0]:g}.")

    def evaluate(counts: Floats, groups: Ints) -> Floats:
        width = max(1, _RANKS_AT_ONCE // len(values))  # the ranks of every row in every resample are held, a slice at a time
        slices = [counts[:, start : start + width] for start in range(0, counts.shape[1], width)]
        return np.concatenate([_spearman(values, truth, part[groups]) for part in slices])

    def unit_limit(groups: Ints, value: float) -> float:
        return len(np.unique(groups)) if abs(value) == 1 else np.inf

    return Statistic("spearman", len(values), evaluate, (-1.0, 1.0), unit_limit)


def r2_statistic(predicted: Any, targets: Any) -> Statistic:
    """Coefficient of determination of ``predicted [n]`` against ``targets [n]``."""
    truth = as_floats(targets, name="targets")
    guess = as_floats(predicted, name="predicted")
    check_length(guess, n=len(truth), name="predicted")
    centred = truth - truth.mean()  # so that the squares do not cancel
    columns = np.stack([(truth - guess) ** 2, centred**2, centred, np.ones(len(truth))])

    def evaluate(counts: Floats, groups: Ints) -> Floats:
        error, square, total, rows = (np.bincount(groups, weights=column, minlength=len(counts)) @ counts for column in columns)
        spread = square - total**2 / rows
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.where(spread > 1e-12 * np.abs(square), 1 - error / spread, np.nan)

    return Statistic("r2", len(truth), evaluate, None, lambda _groups, _value: np.inf)


def in_disagreement(values: Floats, labels: Bools, value: float) -> Bools:
    """``[n]``: rows in a pair that is ordered against an AUROC of `value` (below 0.5: that the other way round is the right one)."""
    if value < 0.5:
        values = -values
    return np.where(labels, values <= values[~labels].max(), values >= values[labels].min())


def auroc_unit_limit(labels: Bools, groups: Ints, wrong: Bools, value: float) -> float:
    """Infinite where ten groups or more hold a row of a pair in the wrong order; else the effective number of Hanley and McNeil (1982).

    Their variance for exponential scores, with groups counted instead of rows, divided into value * (1 - value).
    """
    value = max(value, 1 - value)
    if len(np.unique(groups[wrong])) >= FEW_DISAGREEING:
        return np.inf
    n_positive, n_negative = len(np.unique(groups[labels])), len(np.unique(groups[~labels]))
    shared = (n_positive + n_negative) / 2 - 1
    return n_positive * n_negative / (1 + shared * ((1 - value) / (2 - value) + value / (1 + value)))


def _spearman(values: Floats, truth: Floats, weights: Floats) -> Floats:
    total = np.maximum(weights.sum(axis=0), 1)  # a resample of no rows has no correlation, which is found below
    ranked = [_ranked.weighted_ranks(numbers, weights) for numbers in (values, truth)]
    first, second = (ranks - (weights * ranks).sum(axis=0) / total for ranks in ranked)
    norm = np.sqrt((weights * first**2).sum(axis=0) * (weights * second**2).sum(axis=0))
    defined = (weights * second**2).sum(axis=0) > 1e-9
    with np.errstate(invalid="ignore", divide="ignore"):
        result = np.where(norm > 1e-9, (weights * first * second).sum(axis=0) / norm, 0.0)
    return np.where(defined, np.clip(result, -1, 1), np.nan)
