r"""Do probes agree with each other: those of other seeds, other folds, other layers?

For ``m`` sets of scores of the same rows, the mean over all pairs of Pearson's correlation, of Spearman's, and of the share of rows on
which two judge alike (score above the threshold); for ``m`` directions, the mean cosine. The matrices ``[m, m]`` behind the means are
kept for a picture.

Intervals of what is measured on rows draw whole groups of rows. The cosine knows no rows: its interval is the jackknife of a mean over
pairs (Arvesen 1969), each of the m directions left out in turn, with Student's t for m - 1 degrees of freedom; with fewer than three
directions there is none.
"""

import dataclasses
from itertools import combinations
from typing import Any

import numpy as np
from scipy import stats

from transect.errors import InputError
from transect.measure import _ranked
from transect.measure._inputs import Bools, Floats, Ints, as_floats, as_groups
from transect.measure.estimate import Estimate
from transect.measure.intervals import interval
from transect.measure.similarity import score_correlation
from transect.measure.statistic import Statistic, mean_statistic

_AT_ONCE = 2**22


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Agreement:
    """How far ``m`` probes agree, on average over their pairs; None for what was not given.

    Args:
        pearson: correlation of scores.
        spearman: rank correlation of scores.
        alike: share of rows judged alike.
        cosine: of directions.
        pearson_matrix: ``[m, m]``; NaN for a probe whose scores are all equal.
        spearman_matrix: ``[m, m]``.
        alike_matrix: ``[m, m]``.
        cosine_matrix: ``[m, m]``.
        names: of the probes.
    """

    pearson: Estimate | None
    spearman: Estimate | None
    alike: Estimate | None
    cosine: Estimate | None
    pearson_matrix: Floats | None
    spearman_matrix: Floats | None
    alike_matrix: Floats | None
    cosine_matrix: Floats | None
    names: tuple[str, ...]

    @property
    def sentence(self) -> str:
        """The finding, ready to print."""
        words = {
            "pearson": "score correlation",
            "spearman": "rank correlation",
            "alike": "rows judged alike",
            "cosine": "cosine of directions",
        }
        parts = [f"{word} {getattr(self, name)}" for name, word in words.items() if getattr(self, name) is not None]
        return f"{len(self.names)} probes, mean over pairs: {', '.join(parts)}."

    def to_json(self) -> dict[str, Any]:
        """Plain values; what is undefined is None."""
        result: dict[str, Any] = {"names": list(self.names), "sentence": self.sentence}
        for name in ("pearson", "spearman", "alike", "cosine"):
            one, matrix = getattr(self, name), getattr(self, f"{name}_matrix")
            result[name] = None if one is None else one.to_json()
            rows = None if matrix is None else [[None if np.isnan(value) else value for value in row] for row in matrix.tolist()]
            result[f"{name}_matrix"] = rows
        return result


def agreement(
    *,
    scores: Any = None,
    directions: Any = None,
    threshold: float = 0.0,
    names: Any = None,
    groups: Any = None,
    level: float = 0.95,
    resamples: int = 500,
    seed: int = 0,
) -> Agreement:
    """Agreement of probes by their scores, their directions, or both (see the head of this module).

    Args:
        scores: ``[m, n]``, a row of scores for each probe, on the same examples.
        directions: ``[m, d]``, of the same probes.
        threshold: above it a score says yes.
        names: ``m`` of them: seeds, folds, layers; numbers by default.
        groups: ``[n]``; None makes each example its own group.
        level: of the intervals.
        resamples: of the group bootstrap.
        seed: of the draws.

    Raises:
        InputError: neither given, fewer than two probes, numbers of probes that differ, NaN (its row is named), or a direction of length 0.

    Examples:
        >>> found = agreement(scores=[[1.0, 2.0, -3.0, 0.5], [2.0, 4.0, -6.0, 1.0]], directions=[[1.0, 0.0], [1.0, 1.0]])
        >>> round(found.pearson.value, 6), found.alike.value, round(found.cosine.value, 3)
        (1.0, 1.0, 0.707)
    """
    if scores is None and directions is None:
        raise InputError("agreement needs scores [m, n], directions [m, d], or both.")
    values = None if scores is None else as_floats(scores, name="scores", ndim=(2,))
    vectors = None if directions is None else as_floats(directions, name="directions", ndim=(2,))
    counts = {len(part) for part in (values, vectors) if part is not None}
    if len(counts) > 1 or min(counts) < 2:
        raise InputError(f"agreement needs two probes or more, as many scores as directions, got {sorted(counts)}.")
    m = counts.pop()
    listed = tuple(str(name) for name in range(m)) if names is None else tuple(str(name) for name in names)
    if len(listed) != m:
        raise InputError(f"expected {m} names, one for each probe, got {len(listed)}.")
    fields: dict[str, Any] = dict.fromkeys([name + end for name in ("pearson", "spearman", "alike", "cosine") for end in ("", "_matrix")])
    if values is not None:
        as_groups(groups, n=values.shape[1])
        pairs = list(combinations(range(m), 2))
        judged = values > threshold
        ranks = np.asarray(stats.rankdata(values, axis=1))
        fields["pearson_matrix"], fields["spearman_matrix"] = score_correlation(values.T), score_correlation(ranks.T)
        fields["alike_matrix"] = np.array([[np.mean(one == two) for two in judged] for one in judged])
        each = {"pearson": _pearson(values, pairs), "spearman": _spearman(values, pairs), "alike": _alike(judged, pairs)}
        for name, statistic in each.items():
            fields[name] = _estimate(statistic, groups, n=values.shape[1], level=level, resamples=resamples, seed=seed)
    if vectors is not None:
        length = np.linalg.norm(vectors, axis=1)
        if (length == 0).any():
            raise InputError(f"direction {int(np.flatnonzero(length == 0)[0])} has length 0 and points nowhere; was this probe fitted?")
        unit = vectors / length[:, None]
        fields["cosine_matrix"] = np.clip(unit @ unit.T, -1, 1)
        fields["cosine"] = _jackknife(fields["cosine_matrix"], level=level)
    return Agreement(names=listed, **fields)


def _estimate(statistic: Statistic, groups: Any, *, n: int, level: float, resamples: int, seed: int) -> Estimate:
    if np.isnan(statistic.value()):
        return Estimate.bare(np.nan, n=n, method="some probe gives every row the same score, so its correlation is undefined")
    return interval(statistic, groups=groups, level=level, resamples=resamples, seed=seed)


def _pearson(values: Floats, pairs: list[tuple[int, int]]) -> Statistic:
    """The mean over pairs of the correlation, from sums of each group: undefined where a probe's scores are all equal."""
    centred = values - values.mean(axis=1, keepdims=True)
    spread = np.abs(centred).max(axis=1, keepdims=True)
    level = np.abs(values).max(axis=1, keepdims=True)
    unit = np.where(spread > 1e-12 * level, centred / np.where(spread > 0, spread, 1), 0.0)
    left, right = (np.array(side) for side in zip(*pairs, strict=True))

    def evaluate(counts: Floats, groups: Ints) -> Floats:
        def total(rows: Floats) -> Floats:
            return np.stack([np.bincount(groups, row, minlength=len(counts)) for row in rows]) @ counts

        size = np.bincount(groups, minlength=len(counts)) @ counts
        mean, square = total(unit) / size, total(unit**2) / size
        cross = total(unit[left] * unit[right]) / size
        variance = square - mean**2
        return _mean_correlation(cross - mean[left] * mean[right], variance, left, right, floor=1e-12)

    return Statistic("pearson", values.shape[1], evaluate, (-1.0, 1.0), _perfect)


def _spearman(values: Floats, pairs: list[tuple[int, int]]) -> Statistic:
    left, right = (np.array(side) for side in zip(*pairs, strict=True))

    def evaluate(counts: Floats, groups: Ints) -> Floats:
        width = max(1, _AT_ONCE // values.size)  # the ranks of every row in every resample are held, a slice at a time
        parts = []
        for start in range(0, counts.shape[1], width):
            weights = counts[groups, start : start + width]
            size = weights.sum(axis=0)
            ranks = np.stack([_ranked.weighted_ranks(row, weights) for row in values])
            ranks = (ranks - (ranks * weights).sum(axis=1, keepdims=True) / size) / size
            variance = (ranks**2 * weights).sum(axis=1) / size
            cross = np.stack([(ranks[one] * ranks[two] * weights).sum(axis=0) / size for one, two in pairs])
            parts.append(_mean_correlation(cross, variance, left, right, floor=1e-15))
        return np.concatenate(parts)

    return Statistic("spearman", values.shape[1], evaluate, (-1.0, 1.0), _perfect)


def _alike(judged: Bools, pairs: list[tuple[int, int]]) -> Statistic:
    share = np.mean([judged[one] == judged[two] for one, two in pairs], axis=0)
    return mean_statistic(share, name="alike", bounds=(0.0, 1.0))


def _mean_correlation(cross: Floats, variance: Floats, left: Ints, right: Ints, *, floor: float) -> Floats:
    known = np.where(variance > floor, variance, np.nan)
    # Rounded, so that probes that agree perfectly do so in every resample, not up to an error that would pass for spread.
    return np.round(np.clip(cross / np.sqrt(known[left] * known[right]), -1, 1), 12).mean(axis=0)


def _perfect(groups: Ints, value: float) -> float:
    """Where every resample is perfect, no more is known than so many groups can tell."""
    return len(np.unique(groups)) if abs(value) > 1 - 1e-9 else np.inf


def _jackknife(matrix: Floats, *, level: float) -> Estimate:
    m = len(matrix)

    def mean_of(keep: Ints) -> float:
        part = matrix[np.ix_(keep, keep)]
        return float(part[np.triu_indices(len(keep), 1)].mean())

    value = mean_of(np.arange(m))
    if m < 3:
        return Estimate.bare(value, n=m, method="two directions; an interval takes three")
    left = np.array([mean_of(np.delete(np.arange(m), at)) for at in range(m)])
    error = float(np.sqrt((m - 1) / m * ((left - left.mean()) ** 2).sum()))
    half = float(stats.t.ppf((1 + level) / 2, m - 1)) * error
    words = f"jackknife over {m} directions, Student's t"
    return Estimate(value, min(max(value - half, -1.0), value), max(min(value + half, 1.0), value), level, m, m, words)
