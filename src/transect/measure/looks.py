r"""Many looks at the same data: p values and differences that say so, and the summary over held-out datasets.

Holm 1979 keeps the chance of any false finding at the level: sorted ``p_(1) <= .. <= p_(m)``, adjusted ``max_{j<=i} (m - j + 1) p_(j)``.
Benjamini and Hochberg 1995 keep the expected share of false findings: ``min_{j>=i} m p_(j) / j``. Differences whose intervals hold all
at once take the quantile of the largest studentised deviation over group-bootstrap resamples (Westfall and Young 1993).
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Literal, get_args

import numpy as np
from scipy import stats

from transect.errors import InputError
from transect.measure._inputs import Floats, as_floats
from transect.measure.estimate import Estimate
from transect.measure.intervals import Bootstrap, auroc_interval, bootstrap, estimates
from transect.measure.statistic import Statistic

Adjustment = Literal["holm", "bh"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class LeftOut:
    """How a probe does on datasets that it was not made on, each left out in turn.

    Args:
        datasets: AUROC of each dataset with its interval.
        mean: over datasets, with Student's interval for the number of datasets (which are the units here, not the rows).
        worst: name of the dataset with the lowest AUROC.
    """

    datasets: Mapping[str, Estimate]
    mean: Estimate
    worst: str

    @property
    def sentence(self) -> str:
        """The finding, ready to print."""
        low = self.datasets[self.worst]
        return f"mean AUROC {self.mean} over {len(self.datasets)} datasets left out in turn; the worst is {self.worst} with {low}."

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        each = {name: one.to_json() for name, one in self.datasets.items()}
        return {"datasets": each, "mean": self.mean.to_json(), "worst": self.worst, "sentence": self.sentence}


def adjust_p(p_values: Any, *, method: Adjustment = "holm") -> Floats:
    """P values ``[m]`` adjusted for having looked m times, in their own order.

    Args:
        p_values: ``[m]``.
        method: ``holm`` (no false finding at all, at the level) or ``bh`` (few false findings among the findings).

    Raises:
        InputError: a number outside 0 to 1, NaN (its row is named), or an unknown method.

    Examples:
        >>> adjust_p([0.01, 0.04, 0.03]).tolist()
        [0.03, 0.06, 0.06]
        >>> adjust_p([0.01, 0.04, 0.03], method="bh").tolist()
        [0.03, 0.04, 0.04]
    """
    values = as_floats(p_values, name="p_values")
    if method not in get_args(Adjustment):
        raise InputError(f"method must be one of {get_args(Adjustment)}, got {method!r}.")
    if ((values < 0) | (values > 1)).any():
        bad = int(np.flatnonzero((values < 0) | (values > 1))[0])
        raise InputError(f"a p value lies between 0 and 1, got {values[bad]:g} in row {bad}.")
    order, m = np.argsort(values, kind="stable"), len(values)
    if method == "holm":
        adjusted = np.maximum.accumulate(values[order] * np.arange(m, 0, -1))
    else:
        adjusted = np.minimum.accumulate((values[order] * m / np.arange(1, m + 1))[::-1])[::-1]
    result = np.empty(m)
    result[order] = np.minimum(adjusted, 1.0)
    return result


def simultaneous_differences(
    firsts: Sequence[Statistic],
    seconds: Sequence[Statistic],
    *,
    groups: Any = None,
    level: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
) -> list[Estimate]:
    """``first - second`` for many pairs of bounded statistics of the same rows, with intervals that hold all at once.

    As `difference`, but with the critical value of the largest of all studentised differences. One second serves all firsts.

    Args:
        firsts: ``m`` statistics, such as AUROC at each site.
        seconds: ``m`` of them, or one that every first is compared with.
        groups: ``[n]``; None makes each row its own group.
        level: how often all intervals should hold together.
        resamples: of the group bootstrap.
        seed: of the draws.

    Raises:
        InputError: numbers of statistics that do not fit, other rows, or a statistic without bounds.

    Examples:
        >>> from transect.measure import auroc_statistic
        >>> labels = np.arange(60) % 2
        >>> good, poor = auroc_statistic(labels, labels), auroc_statistic(np.arange(60), labels)
        >>> [one.excludes(0) for one in simultaneous_differences([good, poor], [poor])]
        [True, False]
    """
    if not firsts or len(seconds) not in {1, len(firsts)}:
        raise InputError(f"expected as many seconds as firsts, or one for all, got {len(firsts)} firsts and {len(seconds)} seconds.")
    if any(statistic.bounds is None for statistic in [*firsts, *seconds]):
        raise InputError("simultaneous differences need bounded statistics, such as AUROC or accuracy.")
    result = bootstrap([*firsts, *seconds], groups=groups, resamples=resamples, seed=seed)
    m = len(firsts)
    other = np.arange(m) + m if len(seconds) == m else np.full(m, m)
    gaps, draws = result.values[:m] - result.values[other], result.draws[:m] - result.draws[other]
    words = f"paired {result.words}; simultaneous over {m} by max |t|"
    if np.isnan(result.spread).any():
        return [Estimate.bare(float(gap), n=firsts[0].n, method=f"{words}; too few for an interval") for gap in gaps]
    # The level at which one interval alone has the critical value of all of them together.
    alone = 2 * float(stats.t.cdf(_critical(result, gaps, draws, level), max(result.n_units - 1, 1))) - 1
    ends = estimates(result, level=min(alone, 1 - 1e-12))
    found = []
    for at, gap in enumerate(gaps):
        one, two = ends[at], ends[other[at]]
        moving = result.draws[at].std() > 0 and result.draws[other[at]].std() > 0
        together = float(np.corrcoef(result.draws[at], result.draws[other[at]])[0, 1]) if moving else 0.0
        down, up = _width(one.value - one.low, two.high - two.value, together), _width(one.high - one.value, two.value - two.low, together)
        found.append(Estimate(float(gap), float(gap - down), float(gap + up), level, firsts[0].n, result.n_groups, words))
    return found


def leave_one_out(
    scored: Mapping[str, tuple[Any, Any] | tuple[Any, Any, Any]], *, level: float = 0.95, resamples: int = 2000, seed: int = 0
) -> LeftOut:
    """Summarise scores on datasets that were each left out of the fit that scored them.

    Args:
        scored: name of the dataset left out to its ``(scores [n], labels [n])`` or ``(scores, labels, groups [n])``.
        level: of the intervals.
        resamples: of the group bootstrap.
        seed: of the draws.

    Raises:
        InputError: fewer than two datasets, or as for `auroc_interval`; the dataset is named.

    Examples:
        >>> leave_one_out({"a": ([1, 2], [0, 1]), "b": ([1, 2], [1, 0])}).mean.value
        0.5
    """
    if len(scored) < 2:
        raise InputError(f"leaving one out needs at least two datasets, got {list(scored)}.")
    found = {}
    for name, (scores, labels, *rest) in scored.items():
        try:
            found[name] = auroc_interval(scores, labels, groups=rest[0] if rest else None, level=level, resamples=resamples, seed=seed)
        except InputError as error:
            raise InputError(f"dataset {name!r}: {error}") from error
    values, m = np.array([one.value for one in found.values()]), len(found)
    half = float(stats.t.ppf((1 + level) / 2, m - 1) * values.std(ddof=1) / np.sqrt(m))
    mean = float(values.mean())
    words = f"Student's t over {m} datasets"
    total = Estimate(mean, max(mean - half, 0.0), min(mean + half, 1.0), level, sum(one.n or 0 for one in found.values()), m, words)
    return LeftOut(datasets=found, mean=total, worst=min(found, key=lambda name: found[name].value))


def _critical(result: Bootstrap, gaps: Floats, draws: Floats, level: float) -> float:
    """As that of `estimates`: the quantile of the largest |t|, carried from the normal to Student's for few groups."""
    alone = float(stats.t.ppf((1 + level) / 2, max(result.n_units - 1, 1)))
    error = draws.std(axis=1)
    if not (error > 0).any():
        return float(stats.t.ppf(1 - (1 - level) / (2 * len(gaps)), max(result.n_units - 1, 1)))
    deviation = np.abs(draws - gaps[:, None])[error > 0] / error[error > 0, None]
    return max(alone, float(np.quantile(deviation.max(axis=0), level)) * alone / float(stats.norm.ppf((1 + level) / 2)))


def _width(first: float, second: float, correlation: float) -> float:
    return float(np.sqrt(max(first**2 + second**2 - 2 * correlation * first * second, 0.0)))
