"""A drift alarm that may watch for ever: P(it ever goes off | nothing has drifted) <= alpha, whatever the scores look like.

Conformal test martingales (Vovk, Nouretdinov and Gammerman 2003; Vovk 2021, "Testing randomness online"). Every new value is ranked among
the reference and all values before it, its own included, with u uniform on (0, 1] drawn for it:

    p_t = (#{values above the new one} + u_t #{values equal to it}) / (how many values there are)

While reference and stream are exchangeable, p_1, p_2, ... are independent and uniform on (0, 1), for any n and any distribution. (Ranking
among the reference alone would not do: such p-values share the luck of the reference and are not independent.) Against them bets a
wealth that starts at 1. A bet f is a density on (0, 1); here ``e q^(e - 1)`` with e in `EXPONENTS` and q one of p (values rise), 1 - p
(they fall), 2 min(p, 1 - p) (they spread) and |2 p - 1| (they gather). A part ``w_t = 1 / (t (t + 1))`` of each bet's money enters at time t:

    S_t = (S_{t-1} + w_t) f(p_t)        wealth_t = mean over bets of S_t + 1 / (t + 1)

1 / (t + 1) is the money still waiting. E[f(p_t) | past] = 1, so E[wealth_t | past] = S_{t-1} + w_t + 1 / (t + 1) = wealth_{t-1}: a martingale, and
by Ville's inequality P(wealth_t >= 1 / alpha for any t) <= alpha. Entering late costs a factor t (t + 1), so a drift after a long calm is seen
about ``2 log t`` nats later than one at the start, instead of after winning back all that was lost in the calm.

How many reference rows it takes: after m new values that lie all beyond n reference values, p_m <= m / (n + m) whatever the ties, so
the wealth is at least

    w_1 / (number of bets) * prod_{i=1..m} e ((n + i) / i)^(1 - e)

for each e. The smallest n for which this reaches 1 / alpha within ``within`` rows is what is asked for: a smaller reference could not promise to
notice even a stream that is wholly beyond it.
"""

import bisect
import dataclasses
import functools
import math
from typing import Any

import numpy as np

from transect.decide.abstain import halves
from transect.decide.certificate import check_rate
from transect.decide.distance import Distance, fit_distance
from transect.errors import InputError, SampleSizeError
from transect.measure._inputs import Floats, as_floats, plain

EXPONENTS = (0.25, 0.5, 0.75)
"""The exponents e of the bets: the smaller, the more is staked on extreme ranks."""

_SHAPES = 4
_SMALLEST = 1e-12  # a bet's density is cut here, which can only lower the wealth


@dataclasses.dataclass(frozen=True, kw_only=True)
class DriftReading:
    """What a drift alarm knows after some rows.

    Args:
        seen: rows since the start.
        log_wealth: the log of the wealth, in nats; above ``log(1 / alpha)`` the alarm goes off.
        alarm: whether it has ever gone off.
        alarm_at: the row (from 0) at which it did; None where it did not.
        p_value: ``1 / largest wealth so far``, at most 1: valid at any time, also one chosen after looking.
    """

    seen: int
    log_wealth: float
    alarm: bool
    alarm_at: int | None
    p_value: float


class DriftAlarm:
    """Watches scores for drift, for ever, with at most a chance alpha of ever raising a false alarm.

    The one object of this room that changes: it remembers every value it has seen (8 bytes each), for the ranks need them.

    Args:
        reference: ``[n]`` scores from before, exchangeable with the stream while nothing drifts: one row per conversation or document.
        alpha: the largest chance of ever raising a false alarm.
        within: rows within which a stream wholly beyond the reference must be noticed; sets how large the reference has to be.
        seed: of the numbers that break ties; nothing else is random.

    Raises:
        SampleSizeError: the reference is too small; says how many rows are needed.
        InputError: NaN (the row is named), or alpha outside 0 to 1.

    Examples:
        >>> import numpy as np
        >>> rng = np.random.default_rng(0)
        >>> alarm = DriftAlarm(rng.normal(size=200), alpha=0.01)
        >>> alarm.update(rng.normal(size=300)).alarm, alarm.update(rng.normal(2, 1, size=60)).alarm
        (False, True)
    """

    def __init__(self, reference: Any, *, alpha: float = 0.01, within: int = 20, seed: int = 0) -> None:
        values = as_floats(reference, name="reference")
        check_rate(alpha, name="alpha")
        _require(len(values), alpha=alpha, within=within, each=1)
        self.alpha = alpha
        self._bag: list[float] = np.sort(values).tolist()
        self._random = np.random.default_rng(seed)
        self._money = np.full(len(EXPONENTS) * _SHAPES, -np.inf)  # log S of every bet
        self._seen = 0
        self._alarm_at: int | None = None
        self._highest = 0.0
        self._log_wealth = 0.0

    def update(self, scores: Any) -> DriftReading:
        """Take in the next scores, ``[m]`` or one number, in order; the same reading whether they come together or one by one.

        Raises:
            InputError: a score is NaN or infinite; its row is named, and none of these scores is taken in.
        """
        values = as_floats(np.atleast_1d(plain(scores)), name="scores")
        for logs in _log_bets(self._rank(values)):
            self._seen += 1
            t = self._seen
            self._money = np.logaddexp(self._money, -math.log(t * (t + 1))) + logs
            best = float(self._money.max())
            invested = best + math.log(float(np.exp(self._money - best).mean()))
            self._log_wealth = float(np.logaddexp(invested, -math.log(t + 1)))
            self._highest = max(self._highest, self._log_wealth)
            if self._alarm_at is None and self._log_wealth >= -math.log(self.alpha):
                self._alarm_at = t - 1
        return self.reading

    @property
    def reading(self) -> DriftReading:
        """What is known now."""
        return DriftReading(
            seen=self._seen,
            log_wealth=self._log_wealth,
            alarm=self._alarm_at is not None,
            alarm_at=self._alarm_at,
            p_value=math.exp(-self._highest),
        )

    def _rank(self, values: Floats) -> Floats:
        """The conformal p-value ``[m]`` of each value; every value joins the bag after its turn."""
        ties = 1.0 - self._random.random(len(values))
        found = np.empty(len(values))
        for at, value in enumerate(values.tolist()):
            left, right = bisect.bisect_left(self._bag, value), bisect.bisect_right(self._bag, value)
            found[at] = (len(self._bag) - right + ties[at] * (right - left + 1)) / (len(self._bag) + 1)
            self._bag.insert(right, value)
        return found


class ActivationDriftAlarm:
    """Watches unlabelled activations for drift: a `DriftAlarm` on their distance from the reference.

    Half of the reference, dealt at random, fits the distance (see `transect.decide.distance`); the other half is the reference of the
    alarm. The distance is then fixed before any ranked row is seen, so the ranks are exchangeable and the bound holds as for scores.

    Args:
        reference: activations ``[n, d]``, one row per conversation or document.
        alpha: the largest chance of ever raising a false alarm.
        within: rows within which a stream wholly beyond the reference must be noticed.
        seed: of the halves and of the numbers that break ties.

    Raises:
        SampleSizeError: the reference is too small; says how many rows are needed.
        InputError: NaN (the row is named), or rows that are all equal.

    Examples:
        >>> import numpy as np
        >>> rng = np.random.default_rng(0)
        >>> alarm = ActivationDriftAlarm(rng.normal(size=(400, 5)), alpha=0.01)
        >>> alarm.update(rng.normal(size=(200, 5))).alarm, alarm.update(3 * rng.normal(size=(60, 5))).alarm
        (False, True)
    """

    def __init__(self, reference: Any, *, alpha: float = 0.01, within: int = 20, seed: int = 0) -> None:
        x = as_floats(reference, name="reference", ndim=(2,))
        check_rate(alpha, name="alpha")
        _require(len(x), alpha=alpha, within=within, each=2)
        fitted, ranked = halves(x, seed=seed)
        self.distance: Distance = fit_distance(fitted)
        self._alarm = DriftAlarm(self.distance(ranked), alpha=alpha, within=within, seed=seed)

    def update(self, activations: Any) -> DriftReading:
        """Take in the next activations ``[m, d]``, in order.

        Raises:
            InputError: NaN or infinity; the row is named, and none of these rows is taken in.
            MismatchError: the activations have another width.
        """
        return self._alarm.update(self.distance(activations))

    @property
    def reading(self) -> DriftReading:
        """What is known now."""
        return self._alarm.reading


def needed_reference(*, alpha: float = 0.01, within: int = 20) -> int:
    """The fewest reference rows with which a stream wholly beyond them is certain to be noticed within so many rows.

    Raises:
        InputError: alpha outside 0 to 1, or no rows to notice it in.

    Examples:
        >>> needed_reference(alpha=0.01, within=20)
        63
    """
    check_rate(alpha, name="alpha")
    if within < 1:
        raise InputError(f"within must be at least 1 row, got {within}.")
    return _smallest(-math.log(alpha), within)


@functools.cache
def _smallest(growth: float, within: int) -> int:
    low, high = 0, 1
    while _guaranteed(high, within) < growth:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if _guaranteed(middle, within) < growth else (low, middle)
    return high


def _guaranteed(n: int, within: int) -> float:
    """The log of the wealth that is certain within so many rows, all beyond n reference rows."""
    steps = np.arange(1, within + 1)
    exponents = np.array(EXPONENTS)[:, None]
    growth = np.cumsum(np.log(exponents) + (1 - exponents) * np.log((n + steps) / steps), axis=1)
    return float(growth.max()) - math.log(2 * _SHAPES * len(EXPONENTS))


def _require(n: int, *, alpha: float, within: int, each: int) -> None:
    needed = each * needed_reference(alpha=alpha, within=within)
    if n < needed:
        halved = " (half of them fit the distance)" if each == 2 else ""
        raise SampleSizeError(
            f"a drift alarm at alpha {alpha:g} needs at least {needed} reference rows{halved}, got {n}: with fewer, even a stream wholly "
            f"beyond the reference might not be noticed within {within} rows. Give more, or a larger alpha or within.",
            needed=needed,
            got=n,
        )


def _log_bets(p: Floats) -> Floats:
    """``[m, bets]`` the log density of every bet at each p-value."""
    places = np.stack([p, 1 - p, 2 * np.minimum(p, 1 - p), np.abs(2 * p - 1)], axis=1)
    logs = np.log(np.maximum(places, _SMALLEST))
    return np.concatenate([math.log(exponent) + (exponent - 1) * logs for exponent in EXPONENTS], axis=1)
