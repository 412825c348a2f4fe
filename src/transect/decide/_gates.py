"""The arithmetic of gates: ragged rounds, thresholds among survivors, saved cost, and the divisions of a budget of losses."""

import itertools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy import optimize, special, stats

from transect.errors import InputError, SampleSizeError
from transect.measure import Statistic
from transect.measure._inputs import Bools, Floats, Ints, as_floats, as_positives, check_length

_MOST_DIVISIONS = 4000  # divisions of the budget that are tried


def check_shares(**shares: float) -> None:
    for name, value in shares.items():
        if not 0 < value < 1:
            raise InputError(f"{name} must lie between 0 and 1, got {value}.")


def fewest_to_certify(target: float, confidence: float) -> int:
    """How many successes certify a recall when none is lost."""
    return math.ceil(math.log(1 - confidence) / math.log(target))


def most_lost(m: int, target: float, confidence: float) -> int:
    """The most losses among m with which the lower bound still reaches the target; -1 when none does.

    The bound reaches the target when so few losses would have a chance of at most 1 - confidence were the recall the target.
    """
    k = int(stats.binom.ppf(1 - confidence, m, 1 - target))
    while k >= 0 and special.bdtr(k, m, 1 - target) > 1 - confidence:
        k -= 1
    return k


def divisions(budget: int, gates: int) -> Iterator[list[int]]:
    """Ways to divide a budget of whole losses among the gates; in coarser steps where there are too many."""
    step = 1
    while math.comb(budget // step + gates - 1, gates - 1) > _MOST_DIVISIONS:
        step += 1
    parts = budget // step
    for bars in itertools.combinations(range(parts + gates - 1), gates - 1):
        edges = (-1, *bars, parts + gates - 1)
        division = [(after - before - 1) * step for before, after in itertools.pairwise(edges)]
        division[0] += budget - parts * step
        yield division


def threshold_after(scores: Floats, spent: int) -> float:
    """The lowest threshold above which no more than `spent` of these scores lie."""
    known = np.sort(scores[~np.isnan(scores)])[::-1]
    return float(known[spent]) if spent < len(known) else -np.inf


def cost_after(price: Floats, gates: int) -> Floats:
    """``[n, gates]``: what comes after each gate."""
    return (price.sum(axis=1, keepdims=True) - np.cumsum(price, axis=1))[:, :gates]


def saved_by_gates(rounds: Floats, thresholds: Floats, later: Floats) -> Floats:
    """``[n]``: what is saved of each episode."""
    over = rounds > thresholds
    return np.where(over.any(axis=1), later[np.arange(len(later)), over.argmax(axis=1)], 0.0)


def ratio_statistic(part: Floats, whole: Floats) -> Statistic:
    """Sum of one number per row over the sum of another, both in proportion to the rows drawn."""

    def evaluate(counts: Floats, groups: Ints) -> Floats:
        above, below = (np.bincount(groups, weights=column, minlength=len(counts)) @ counts for column in (part, whole))
        return above / below

    def unit_limit(groups: Ints, _value: float) -> float:
        return len(np.unique(groups))

    return Statistic("saved compute", len(part), evaluate, (0.0, 1.0), unit_limit)


def as_rounds(scores: Any) -> Floats:
    """``[n, r]`` with NaN from where an episode had ended."""
    if isinstance(scores, (list, tuple)) and scores and all(isinstance(row, (list, tuple)) for row in scores):
        width = max(map(len, scores))
        scores = [[*row, *[math.nan] * (width - len(row))] for row in scores]
    rounds = np.asarray(scores, dtype=np.float64)
    if rounds.ndim != 2 or 0 in rounds.shape:
        raise InputError(f"scores must be [n, r], a row per episode and a column per round, got shape {list(rounds.shape)}.")
    missing = np.isnan(rounds)
    came_back = (missing[:, :-1] & ~missing[:, 1:]).any(axis=1)
    broken = np.flatnonzero(missing[:, 0] | came_back | np.isinf(rounds).any(axis=1))
    if len(broken):
        raise InputError(
            f"episode {broken[0]} (counted from 0) has scores {rounds[broken[0]].tolist()}; expected finite ones from the first round on, and "
            f"NaN only after its end. {len(broken)} episodes are like it."
        )
    return rounds


def as_episodes(scores: Any, success: Any, costs: Any) -> tuple[Floats, Bools, Floats]:
    rounds = as_rounds(scores)
    labels = as_positives(success, n=len(rounds), name="success")
    if costs is None:
        return rounds, labels, (~np.isnan(rounds)).astype(np.float64)
    price = as_floats(np.nan_to_num(np.asarray(costs, dtype=np.float64), nan=0.0), name="costs", ndim=(2,))
    check_length(price, n=len(rounds), name="costs")
    if price.shape[1] < rounds.shape[1] or (price < 0).any() or not price.sum() > 0:
        raise InputError(
            f"costs must be [n, R], at least 0 and not all 0, with at least the {rounds.shape[1]} scored rounds, got shape {list(price.shape)}."
        )
    return rounds, labels, price


def loss_allowed(m: int, target: float, confidence: float, power: float) -> float:
    """The largest loss rate with which the certificate comes out with the probability `power`."""
    most = most_lost(m, target, confidence)
    if most < 0:
        needed = fewest_to_certify(target, confidence)
        raise SampleSizeError(
            f"a recall of {target:g} at confidence {confidence:g} takes at least {needed} independent successful episodes to certify, even if "
            f"none of them is lost; got {m}. Run more episodes, or ask for a lower recall.",
            needed=needed,
            got=m,
        )
    return float(optimize.brentq(lambda loss: special.bdtr(most, m, loss) - power, 0.0, 1 - target))  # pyright: ignore[reportArgumentType]
