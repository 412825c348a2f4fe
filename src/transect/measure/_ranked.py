"""AUROC under thousands of weightings: sort once, then one pass over the rows for all weightings together.

With rows in the order of their scores, AUROC is a sum over positives of the negative weight below them. Runs of
negatives followed by positives make a step, so the pass has a step for each change of class rather than for each row, and
every step works on all weightings at once. Weights are whole numbers, so the sums are exact and equal the definition's.
"""

import dataclasses

import numpy as np

from transect.measure._inputs import Bools, Floats, Ints

_FEW = 16  # longer runs are summed through the counts of their groups


@dataclasses.dataclass(frozen=True, eq=False)
class RankPlan:
    """Rows in the order of their scores, cut into steps: negatives first, then positives; in a tied step all scores are equal."""

    order: Ints
    starts: list[int]
    middles: list[int]
    stops: list[int]
    tied: list[bool]


def plan(scores: Floats, positives: Bools) -> RankPlan:
    """Cut the rows into steps."""
    order = np.lexsort((positives, scores))
    ordered, is_positive = scores[order], positives[order]
    first = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
    size = np.diff(np.append(first, len(order)))
    n_positive = np.add.reduceat(is_positive.astype(np.int64), first)
    only_negative, both = n_positive == 0, (n_positive > 0) & (n_positive < size)
    before_both = np.concatenate([[True], both[:-1]])
    before_positive = np.concatenate([[False], (n_positive == size)[:-1]])
    begins = both | before_both | (only_negative & before_positive)
    starts = first[begins]
    stops = np.append(starts[1:], len(order))
    middles = stops - np.add.reduceat(is_positive.astype(np.int64), starts)
    return RankPlan(order, starts.tolist(), middles.tolist(), stops.tolist(), both[begins].tolist())


def weighted_auroc(steps: RankPlan, counts: Floats, groups: Ints, positives: Bools) -> Floats:
    """AUROC ``[b]`` where each row counts as often as its group, ``counts [G, b]``; NaN where a class is missing."""
    member = groups[steps.order]
    listed = member.tolist()
    n_draws = counts.shape[1]
    below, wins, scratch = np.zeros(n_draws), np.zeros(n_draws), np.empty(n_draws)

    def total(start: int, stop: int) -> Floats:
        if stop - start == 1:
            return counts[listed[start]]
        if stop - start <= _FEW:
            return np.add.reduce(counts[listed[start:stop]], axis=0)
        present, times = np.unique(member[start:stop], return_counts=True)
        return times @ counts[present]

    for start, middle, stop, tied in zip(steps.starts, steps.middles, steps.stops, steps.tied, strict=True):
        if tied:
            negative = total(start, middle)
            wins += total(middle, stop) * (below + negative / 2)
            below += negative
            continue
        if middle > start:
            below += total(start, middle)
        if stop > middle:
            np.multiply(total(middle, stop), below, out=scratch)
            wins += scratch
    above = np.bincount(groups[positives], minlength=len(counts)) @ counts
    with np.errstate(invalid="ignore"):
        return wins / (above * below)


def weighted_ranks(values: Floats, weights: Floats) -> Floats:
    """Mid-ranks ``[n, b]`` up to a constant, where row i stands ``weights[i, b]`` times in the sample."""
    order = np.argsort(values, kind="stable")
    ordered = values[order]
    first = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
    block = np.cumsum(np.concatenate([[0], (ordered[1:] != ordered[:-1]).astype(np.int64)]))
    mass = np.add.reduceat(weights[order], first, axis=0)
    middle = np.cumsum(mass, axis=0) - mass / 2
    ranks = np.empty_like(weights)
    ranks[order] = middle[block]
    return ranks
