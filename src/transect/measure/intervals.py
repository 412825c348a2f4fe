"""Intervals from the group bootstrap, honest where the data look perfect.

The percentile interval of a perfect AUROC is [1, 1], and just below 1 it covers far too seldom: with 16 groups and a true
AUROC of 0.95 it held the truth in 7 of 10 trials here, where 0.95 was promised. So the bootstrap gives only the variance. For
a bounded statistic the variance becomes an effective sample size ``m = p (1 - p) / var`` and the interval is Wilson's score
interval for p with that m (Korn and Graubard 1998 and Dean and Pagano 2015 do so for proportions in cluster samples), with
Student's t for the number of groups instead of the normal quantile. Where fewer than ten groups disagree with the ranking, m may
not exceed what that many independent groups could tell (Hanley and McNeil 1982). So forty perfect pairs give about
[0.95, 1], not [1, 1]. Measured on independent, paired, nested and whole-group labels, with 16 to 120 groups and AUROC from 0.5
to 0.99, it covers in 0.89 to 0.99 of trials (percentile: 0.31 to 0.97).

Unbounded statistics (R2, Brier, log loss) get the percentile interval.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import stats

from transect.errors import InputError
from transect.measure._inputs import Floats, Ints, as_floats
from transect.measure.estimate import Estimate
from transect.measure.resampling import resample_counts, units
from transect.measure.statistic import Statistic, auroc_statistic

_FEWEST_DRAWS = 20


@dataclasses.dataclass(frozen=True, eq=False)
class Bootstrap:
    """Statistics of the same rows on the same resamples.

    Args:
        statistics: what was measured.
        values: ``[s]``, on the rows as they are.
        draws: ``[s, r]``, on the resamples in which every statistic is defined.
        left_out: how many resamples are not among them, for want of a class.
        unit_of_row: ``[n]``, the unit (group, or bundle of groups) that each row was drawn with.
        n_units: how many units were drawn from.
        n_groups: how many groups there are.
    """

    statistics: tuple[Statistic, ...]
    values: Floats
    draws: Floats
    left_out: int
    unit_of_row: Ints
    n_units: int
    n_groups: int

    @property
    def spread(self) -> Floats:
        """Bootstrap variance ``[s]``, with the correction for few units and `Statistic.inflation`; NaN where too few resamples are defined."""
        if self.draws.shape[1] < _FEWEST_DRAWS or self.n_units < 2:
            return np.full(len(self.values), np.nan)
        return self.inflation * self.draws.var(axis=1) * self.n_units / (self.n_units - 1)

    @property
    def inflation(self) -> Floats:
        """How many times the variance over resamples the variance of each statistic is, ``[s]``."""
        return np.array([statistic.inflation for statistic in self.statistics])

    @property
    def words(self) -> str:
        """How it was made, in words."""
        bundled = f", dealt into {self.n_units} bundles" if self.n_units < self.n_groups else ""
        left_out = f", {self.left_out} more left out for want of a class" if self.left_out else ""
        return f"group bootstrap: {self.draws.shape[1]} resamples of {self.n_groups} groups{bundled}{left_out}"


def bootstrap(statistics: Sequence[Statistic], *, groups: Any = None, resamples: int = 2000, seed: int = 0) -> Bootstrap:
    """Evaluate statistics on the same group-bootstrap resamples.

    A resample in which a statistic is undefined (AUROC without both classes) is left out and counted, which is the same as
    drawing again until both classes are there.

    Args:
        statistics: all over the same rows.
        groups: ``[n]`` names or numbers; None makes each row its own group.
        resamples: how many.
        seed: of the draws.

    Raises:
        InputError: no statistics, rows that differ, or groups of another length.
    """
    sizes = {statistic.n for statistic in statistics}
    if len(sizes) != 1:
        raise InputError(f"the bootstrap needs statistics of the same rows, got {len(statistics)} of them over {sorted(sizes)} rows.")
    unit_of_row, n_units, n_groups = units(groups, n=sizes.pop(), seed=seed)
    draws = np.concatenate(
        [
            np.stack([statistic.evaluate(counts, unit_of_row) for statistic in statistics])
            for counts in resample_counts(n_units, resamples=resamples, seed=seed)
        ],
        axis=1,
    )
    defined = np.isfinite(draws).all(axis=0)
    values = np.array([statistic.value() for statistic in statistics])
    return Bootstrap(tuple(statistics), values, draws[:, defined], int((~defined).sum()), unit_of_row, n_units, n_groups)


def interval(statistic: Statistic, *, groups: Any = None, level: float = 0.95, resamples: int = 2000, seed: int = 0) -> Estimate:
    """The value of a statistic with its interval (see the head of this module).

    Examples:
        >>> import numpy as np
        >>> from transect.measure.statistic import accuracy_statistic
        >>> right = interval(accuracy_statistic(np.ones(40), np.ones(40)), groups=np.arange(40) // 2)
        >>> print(right)
        1.00 [0.82, 1.00]
    """
    return estimates(bootstrap([statistic], groups=groups, resamples=resamples, seed=seed), level=level)[0]


def estimates(result: Bootstrap, *, level: float = 0.95, simultaneous: bool = False) -> list[Estimate]:
    """An `Estimate` for each statistic of a bootstrap.

    ``simultaneous=True`` widens them so that, at the level promised, all intervals hold at once: the critical value is the
    quantile over resamples of the largest studentised deviation, max |t| (Romano and Wolf 2005; Westfall and Young 1993),
    which uses how strongly the statistics move together and so is narrower than Bonferroni.
    """
    critical = _student(result.n_units, level)
    together = ""
    if simultaneous:
        critical = _joint_critical(result, level)
        together = f"; simultaneous over {len(result.values)} by max |t|"
    return [_estimate(result, index, critical=critical, level=level, together=together) for index in range(len(result.values))]


def auroc_interval(
    scores: Any, positives: Any, *, groups: Any = None, level: float = 0.95, resamples: int = 2000, seed: int = 0
) -> Estimate:
    """AUROC with a group-bootstrap interval.

    Args:
        scores: ``[n]``, higher for the positive class.
        positives: ``[n]``, booleans or 0 and 1.
        groups: ``[n]``; None makes each row its own group.
        level: the share of intervals that should hold the truth.
        resamples: how many.
        seed: of the draws.

    Raises:
        InputError: one class only, NaN, or lengths that differ.

    Examples:
        >>> import numpy as np
        >>> labels = np.tile([0, 1], 40)
        >>> print(auroc_interval(labels + 0.1, labels, groups=np.arange(80) // 2))
        1.00 [0.95, 1.00]
    """
    return interval(auroc_statistic(scores, positives), groups=groups, level=level, resamples=resamples, seed=seed)


def auroc_bootstrap(scores: Any, positives: Any, *, groups: Any = None, resamples: int = 2000, seed: int = 0) -> Floats:
    """AUROC ``[resamples]`` of each group-bootstrap resample; NaN where a resample lacks a class.

    One sort and one pass for all resamples; `naive.naive_auroc_bootstrap` draws the same resamples and measures them one by one.
    """
    statistic = auroc_statistic(scores, positives)
    unit_of_row, n_units, _ = units(groups, n=statistic.n, seed=seed)
    return np.concatenate([statistic.evaluate(counts, unit_of_row) for counts in resample_counts(n_units, resamples=resamples, seed=seed)])


def simultaneous_auroc(
    scores: Any, positives: Any, *, groups: Any = None, level: float = 0.95, resamples: int = 2000, seed: int = 0
) -> list[Estimate]:
    """AUROC of many sites whose intervals hold all at once.

    Args:
        scores: ``[s, n]``, a row of scores for each site.
        positives: ``[n]``.
        groups: ``[n]``; None makes each row its own group.
        level: how often all s intervals should hold the truth together.
        resamples: how many.
        seed: of the draws.
    """
    values = as_floats(scores, name="scores", ndim=(2,))
    statistics = [auroc_statistic(row, positives) for row in values]
    return estimates(bootstrap(statistics, groups=groups, resamples=resamples, seed=seed), level=level, simultaneous=True)


def difference(
    first: Statistic, second: Statistic, *, groups: Any = None, level: float = 0.95, resamples: int = 2000, seed: int = 0
) -> Estimate:
    """``first - second`` on the same rows, paired: both are measured on the same resamples.

    For bounded statistics the ends come from the two intervals and the bootstrap correlation of the two values (Zou and Donner
    2008), so that two perfect scores give an interval around 0 and not the certainty [0, 0]; else from percentiles.

    Raises:
        InputError: the statistics read different numbers of rows.
    """
    result = bootstrap([first, second], groups=groups, resamples=resamples, seed=seed)
    gap = float(result.values[0] - result.values[1])
    words = f"paired {result.words}"
    n = first.n
    if np.isnan(result.spread).any():
        return Estimate.bare(gap, n=n, method=f"{words}; too few for an interval")
    if first.bounds is None or second.bounds is None:
        tail = (1 - level) / 2
        low, high = np.quantile(result.draws[0] - result.draws[1], [tail, 1 - tail])
        return Estimate(gap, float(low), float(high), level, n, result.n_groups, f"{words}, percentiles")
    one, two = estimates(result, level=level)
    together = _correlation(result.draws[0], result.draws[1])
    low = gap - _combine(one.value - one.low, two.high - two.value, together)
    high = gap + _combine(one.high - one.value, two.value - two.low, together)
    return Estimate(gap, low, high, level, n, result.n_groups, f"{words}, both intervals and their correlation")


def wilson(value: float, size: float, critical: float) -> tuple[float, float]:
    """Wilson's score interval (1927) of a proportion seen in ``size`` independent trials, which need not be whole.

    Examples:
        >>> [round(end, 3) for end in wilson(1.0, 20, 1.96)]
        [0.839, 1.0]
    """
    square = critical**2
    centre = (value + square / (2 * size)) / (1 + square / size)
    half = critical / (1 + square / size) * np.sqrt(value * (1 - value) / size + square / (4 * size**2))
    # Rounding must not push an end past the value at 0 and 1, where they coincide.
    return min(max(float(centre - half), 0.0), value), max(min(float(centre + half), 1.0), value)


def no_surer_than_groups(
    low: float, high: float, value: float, statistic: Statistic, unit_of_row: Ints, n_units: int, *, level: float
) -> tuple[float, float]:
    """An interval from draws, widened to what the groups can tell: where hardly any disagrees, draws are all alike and promise too much."""
    limit = statistic.unit_limit(unit_of_row, value)
    if statistic.bounds is None or np.isinf(limit):
        return low, high
    least, most = statistic.bounds
    ends = wilson((value - least) / (most - least), limit, _student(n_units, level))
    return min(low, least + ends[0] * (most - least)), max(high, least + ends[1] * (most - least))


def _estimate(result: Bootstrap, index: int, *, critical: float, level: float, together: str) -> Estimate:
    statistic, value, variance = result.statistics[index], float(result.values[index]), float(result.spread[index])
    draws, n = result.draws[index], statistic.n
    if statistic.bounds is None:
        if np.isnan(variance):
            return Estimate.bare(value, n=n, method=f"{result.words}; too few for an interval")
        if together:
            half = critical * np.sqrt(variance)
            return Estimate(value, value - half, value + half, level, n, result.n_groups, f"{result.words}, t interval{together}")
        low, high = np.quantile(draws, [(1 - level) / 2, (1 + level) / 2])
        return Estimate(value, float(low), float(high), level, n, result.n_groups, f"{result.words}, percentiles")
    least, most = statistic.bounds
    if np.isnan(variance):
        return Estimate(value, least, most, level, n, result.n_groups, f"{result.words}; too few to say anything")
    share, variance = (value - least) / (most - least), variance / (most - least) ** 2
    # At a bound no resample can differ, but for rounding: there only the groups say how sure the value is.
    size = share * (1 - share) / variance if variance > 0 and 0 < share < 1 else np.inf
    limit = statistic.unit_limit(result.unit_of_row, value)
    capped = size > limit
    if np.isinf(min(size, limit)):
        return Estimate(value, value, value, level, n, result.n_groups, f"{result.words}; the value is the same in every resample")
    low, high = wilson(share, min(size, limit), critical)
    note = "; at most as sure as so many groups allow, for hardly any disagree" if capped else ""
    larger = "" if statistic.inflation == 1 else f", variance times {statistic.inflation:g} for folds that train one another"
    words = f"{result.words}{larger}, Wilson score interval with {min(size, limit):.0f} effective units{note}{together}"
    return Estimate(value, least + low * (most - least), least + high * (most - least), level, n, result.n_groups, words)


def _student(n_units: int, level: float) -> float:
    return float(stats.t.ppf((1 + level) / 2, max(n_units - 1, 1)))


def _joint_critical(result: Bootstrap, level: float) -> float:
    alone = _student(result.n_units, level)
    error = np.sqrt(result.spread / result.inflation)  # of the draws, which are what is studentised here
    moving = error > 0
    if not moving.any():
        return float(stats.t.ppf(1 - (1 - level) / (2 * len(error)), max(result.n_units - 1, 1)))
    deviation = np.abs(result.draws[moving] - result.values[moving, None]) / error[moving, None]
    normal = float(stats.norm.ppf((1 + level) / 2))
    return max(alone, float(np.quantile(deviation.max(axis=0), level)) * alone / normal)


def _correlation(first: Floats, second: Floats) -> float:
    if first.std() == 0 or second.std() == 0:
        return 0.0
    return float(np.clip(np.corrcoef(first, second)[0, 1], -1, 1))


def _combine(first: float, second: float, correlation: float) -> float:
    return float(np.sqrt(max(first**2 + second**2 - 2 * correlation * first * second, 0.0)))
