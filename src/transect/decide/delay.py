"""How many tokens pass between a marked onset and the alarm; what was missed is censored, never dropped.

A sequence has an onset (the first token at which the alarm should be on) and perhaps an alarm (the first token at which it was). The delay
is ``alarm - onset``, 0 being the best. A sequence that ends without an alarm is *missed*: its delay is known only to be at least the number
of tokens that were watched after the onset, so it is censored there and enters the estimator of Kaplan and Meier (1958),

    P(delay > u) = prod_{v <= u} (1 - alarms at delay v / sequences still watched at delay v)

which asks that a sequence's end says nothing about the delay that would have been. Leaving missed ones out would make an alarm that
fires seldom look quick. The median is the first u with P(delay > u) <= 1/2, infinite where that is never reached; the mean is that of
``min(delay, horizon)``, since the mean of what was not seen cannot be known. Sequences whose first alarm lies before the onset are *early*:
false alarms, counted, and left out of the delays, which are those of alarms that were still silent at the onset.
"""

import dataclasses
import math
from typing import Any

import numpy as np
from scipy import stats

from transect.decide.certificate import check_rate
from transect.errors import InputError
from transect.measure import Estimate, Statistic, interval
from transect.measure._inputs import Bools, Floats, Ints, as_classes, as_floats, as_groups, check_length
from transect.measure.intervals import wilson
from transect.measure.resampling import resample_counts, units

_FEW = 10  # with fewer detected or missed groups than this, the bootstrap's spread is not trusted alone


@dataclasses.dataclass(frozen=True, kw_only=True)
class Delay:
    """Detection delays of an alarm.

    Args:
        median: of the delay, in tokens; infinite, as its upper end may be, where at least half are never detected.
        mean: of ``min(delay, horizon)``, in tokens.
        detected: the share detected within the horizon.
        horizon: tokens after the onset within which mean and share are taken.
        n: sequences with an onset.
        n_detected: sequences with an alarm at or after the onset.
        n_missed: sequences that ended without an alarm; censored.
        n_early: sequences whose first alarm came before the onset; not among the delays.
    """

    median: Estimate
    mean: Estimate
    detected: Estimate
    horizon: int
    n: int
    n_detected: int
    n_missed: int
    n_early: int

    @property
    def sentence(self) -> str:
        """The numbers in one sentence."""
        return (
            f"Of {self.n} sequences with an onset {self.n_detected} were detected, {self.n_missed} missed (counted as delays longer than what "
            f"was watched) and {self.n_early} had an alarm before the onset; the median delay is {self.median} tokens, the mean within "
            f"{self.horizon} tokens {self.mean}."
        )

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values; an infinite median or end is None."""
        fields = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return {name: _plain(value.to_json()) if isinstance(value, Estimate) else value for name, value in fields.items()}


def first_alarms(scores: Any, lengths: Any, *, threshold: float) -> Ints:
    """The first token ``[n]`` of each sequence whose score is above the threshold; -1 where there is none.

    Args:
        scores: ``[sum of lengths]``, token scores or running statistics.
        lengths: ``[n]``.
        threshold: an alarm is a score above it.

    Raises:
        InputError: NaN (the row is named), an empty sequence, or lengths that do not add up.

    Examples:
        >>> first_alarms([0.0, 2.0, 0.0, 0.0, 3.0], [2, 3], threshold=1.0).tolist()
        [1, 2]
    """
    from transect.decide.sequences import ragged

    values, counts = ragged(scores, lengths)
    begins = np.cumsum(counts) - counts
    position = np.arange(len(values)) - np.repeat(begins, counts)
    first = np.minimum.reduceat(np.where(values > threshold, position, len(values)), begins)
    return np.where(first == len(values), -1, first)


def detection_delay(
    alarms: Any,
    onsets: Any,
    lengths: Any,
    *,
    horizon: int | None = None,
    groups: Any = None,
    level: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
) -> Delay:
    """Delays from the onset to the first alarm, with group-bootstrap intervals.

    Args:
        alarms: ``[n]``, the token of the first alarm, from 0; -1 where there was none (`first_alarms`).
        onsets: ``[n]``, the token at which the alarm should be on.
        lengths: ``[n]``, tokens in each sequence.
        horizon: tokens after the onset for the mean; None takes what at least half of the sequences were watched for.
        groups: ``[n]``; sequences that are not independent share one.
        level: the share of intervals that should hold the truth.
        resamples: how many.
        seed: of the draws.

    Raises:
        InputError: an onset or alarm outside its sequence, a horizon beyond what was watched, or no alarm that was silent at its onset.

    Examples:
        >>> delay = detection_delay([5, 7, -1, 2, 6, 8], [5, 5, 5, 5, 5, 5], [20] * 6)
        >>> delay.n_detected, delay.n_missed, delay.n_early, delay.median.value
        (4, 1, 1, 2.0)
    """
    onset = as_classes(onsets, n=len(onsets), name="onsets")
    length = as_classes(lengths, n=len(onset), name="lengths")
    alarm = as_floats(alarms, name="alarms").astype(np.int64)
    check_length(alarm, n=len(onset), name="alarms")
    for name, token in (("onset", onset), ("alarm", alarm)):
        wrong = np.flatnonzero((token >= length) | (token < (0 if name == "onset" else -1)))
        if len(wrong):
            raise InputError(f"the {name} of sequence {wrong[0]} is token {token[wrong[0]]}, but it has {length[wrong[0]]} tokens, from 0.")
    check_rate(level, name="level")
    early = (alarm >= 0) & (alarm < onset)
    if early.all():
        raise InputError(f"all {len(onset)} sequences had an alarm before the onset, so there is no delay; raise the threshold.")
    codes, _ = as_groups(groups, n=len(onset))
    codes, silent = codes[~early], ~early
    seen = alarm[silent] >= 0
    watched = (length - onset)[silent]
    time = np.where(seen, alarm[silent] - onset[silent], watched)
    limit = int(np.quantile(watched, 0.5, method="lower")) if horizon is None else horizon
    if not 1 <= limit <= watched.max():
        raise InputError(f"horizon must lie between 1 and the {watched.max()} tokens watched after an onset, got {horizon}.")
    settings = {"groups": codes, "level": level, "resamples": resamples, "seed": seed}
    share = _bounded(time, seen, limit, mean=False)
    return Delay(
        median=_median(time, seen, codes, level=level, resamples=resamples, seed=seed),
        mean=interval(_bounded(time, seen, limit, mean=True), **settings),
        detected=_certain(share, codes, level=level) if share.value() == 1 else interval(share, **settings),
        horizon=limit,
        n=len(onset),
        n_detected=int(seen.sum()),
        n_missed=int((~seen).sum()),
        n_early=int(early.sum()),
    )


def _survival(time: Ints, seen: Bools, counts: Floats, groups: Ints) -> tuple[Ints, Floats]:
    """Delays ``[m]`` at which there are alarms, and P(delay > them) ``[m, b]`` in each resample."""
    steps = np.unique(time[seen]).astype(np.int64)
    alarms, at_risk = np.zeros((len(steps), len(counts))), np.zeros((len(steps), len(counts)))
    place = np.searchsorted(steps, time)
    np.add.at(alarms, (place[seen], groups[seen]), 1.0)
    # One that ended at delay c was watched at the delays before c only; an alarm at c was watched at c too.
    last = np.where(seen, place, place - 1)
    np.add.at(at_risk, (last[last >= 0], groups[last >= 0]), 1.0)
    at_risk = at_risk[::-1].cumsum(axis=0)[::-1]
    hazard = (alarms @ counts) / np.maximum(at_risk @ counts, 1e-300)
    return steps, np.cumprod(1.0 - np.minimum(hazard, 1.0), axis=0).astype(np.float64)


def _bounded(time: Ints, seen: Bools, limit: int, *, mean: bool) -> Statistic:
    """The mean of min(delay, limit), or the share detected within the limit."""

    def evaluate(counts: Floats, groups: Ints) -> Floats:
        steps, survival = _survival(time, seen, counts, groups)
        within = steps < limit
        levels = np.concatenate([np.ones((1, counts.shape[1])), survival[within]])
        if not mean:
            return 1 - levels[-1]
        widths = np.diff(np.concatenate([[0], steps[within], [limit]]))
        return widths @ levels

    def unit_limit(groups: Ints, _value: float) -> float:
        fewer = min(len(np.unique(groups[seen])), len(np.unique(groups[~seen])))
        return np.inf if (mean and len(np.unique(time)) > 1) or fewer >= _FEW else len(np.unique(groups))

    return Statistic("delay" if mean else "detected", len(time), evaluate, (0.0, float(limit) if mean else 1.0), unit_limit)


def _certain(share: Statistic, codes: Ints, *, level: float) -> Estimate:
    """The interval of a share of 1: no surer than so many groups that were all detected."""
    n_groups = len(np.unique(codes))
    low, high = wilson(1.0, n_groups, float(stats.t.ppf((1 + level) / 2, max(n_groups - 1, 1))))
    return Estimate(1.0, low, high, level, share.n, n_groups, f"Wilson score interval with {n_groups} groups")


def _median(time: Ints, seen: Bools, codes: Ints, *, level: float, resamples: int, seed: int) -> Estimate:
    unit, n_units, n_groups = units(codes, n=len(time), seed=seed)

    def medians(counts: Floats, groups: Ints) -> Floats:
        steps, survival = _survival(time, seen, counts, groups)
        reached = survival <= 0.5 + 1e-12
        first = np.concatenate([steps, [0]]).astype(float)[reached.argmax(axis=0)] if len(steps) else np.zeros(counts.shape[1])
        return np.where(reached.any(axis=0), first, math.inf)

    value = float(medians(np.ones((1, 1)), np.zeros(len(time), dtype=np.int64))[0])
    if n_units < 2:
        return Estimate.bare(value, n=len(time), method="one group; too few for an interval")
    draws = np.concatenate([medians(counts, unit) for counts in resample_counts(n_units, resamples=resamples, seed=seed)])
    low, high = (float(np.quantile(draws, tail, method="inverted_cdf")) for tail in ((1 - level) / 2, (1 + level) / 2))
    words = f"group bootstrap: {resamples} resamples of {n_groups} groups, percentiles of the Kaplan-Meier median"
    return Estimate(value, min(low, value), max(high, value), level, len(time), n_groups, words)


def _plain(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: None if isinstance(item, float) and math.isinf(item) else item for name, item in fields.items()}
