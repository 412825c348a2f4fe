"""Thresholds with an exact finite-sample bound: a false-positive rate from negatives, or a recall from positives.

A row fires where ``score > threshold``. Which row of a calibration set may serve as the threshold is a matter of counting only
(Tong, Feng and Li 2018, "Neyman-Pearson classification algorithms and NP receiver operating characteristics", the umbrella rule):
with n independent negatives and the threshold at their k-th smallest score,

    P(false-positive rate > alpha) <= P(Binomial(n, 1 - alpha) >= k)

whatever the distribution of the scores. So k is the smallest with that tail at most ``1 - confidence``. At k = n the tail is
``(1 - alpha)^n``: 299 negatives are needed for 1% at 95% confidence, and fewer are refused. Ties only help, since the inequality that
fires is strict; with all scores equal nothing fires. A recall is the same rule on the positives' negated scores.

Rows of one group (paraphrases, one conversation) are not independent. With groups, the largest score of each group (for a recall the
smallest) takes the place of the rows, so the promise is about groups: the share of new groups in which *any* row fires (for a recall:
in which any row is missed). A row drawn at random from a random group then fires no more often.

A threshold that was fixed before the data were seen is certified by the exact interval of Clopper and Pearson (1934).
"""

import math
from typing import Any, Literal, get_args

import numpy as np
from scipy import special

from transect.decide.certificate import Certificate, Side, check_rate
from transect.errors import InputError, SampleSizeError
from transect.measure import Estimate, interval, mean_statistic
from transect.measure._inputs import Floats, as_floats, as_groups, plain

Ends = Literal["upper", "lower", "two-sided"]


def needed_examples(rate: float, *, confidence: float = 0.95) -> int:
    """The fewest independent examples that can certify an error rate: the smallest n with ``(1 - rate)^n <= 1 - confidence``.

    Examples:
        >>> needed_examples(0.01), needed_examples(0.1, confidence=0.99)
        (299, 44)
    """
    check_rate(rate, name="rate")
    check_rate(confidence, name="confidence")
    n = max(1, math.ceil(math.log1p(-confidence) / math.log1p(-rate)))
    # The logarithms may round across a whole number, so the definition has the last word.
    while n > 1 and _tail(n - 1, n - 1, rate) <= 1 - confidence:
        n -= 1
    while _tail(n, n, rate) > 1 - confidence:
        n += 1
    return n


def order_statistic(n: int, *, rate: float, confidence: float = 0.95) -> int:
    """Which of n scores in rising order (from 1) serves as the threshold: the smallest k with ``P(Bin(n, 1 - rate) >= k) <= 1 - confidence``.

    Raises:
        SampleSizeError: not even the largest of n will do; says how many are needed.

    Examples:
        >>> order_statistic(299, rate=0.01), order_statistic(1000, rate=0.01)
        (299, 996)
    """
    needed = needed_examples(rate, confidence=confidence)
    if n < needed:
        raise SampleSizeError(
            f"an error rate of {rate:g} at confidence {confidence:g} needs at least {needed} independent examples or groups "
            f"((1 - {rate:g})^n <= {1 - confidence:.3g}), got {n}. Give more, or ask for a larger rate or a smaller confidence.",
            needed=needed,
            got=n,
        )
    ranks = np.arange(1, n + 1)
    return int(ranks[_tail(n, ranks, rate) <= 1 - confidence][0])


def threshold_for_fpr(
    negatives: Any,
    *,
    fpr: float,
    confidence: float = 0.95,
    groups: Any = None,
    positives: Any = None,
    positive_groups: Any = None,
    fitted_groups: Any = None,
) -> Certificate:
    """The lowest threshold whose false-positive rate is at most ``fpr``, for all but ``1 - confidence`` of calibration sets.

    Args:
        negatives: ``[n]`` scores of negatives that neither fitted nor chose the scorer.
        fpr: the false-positive rate to keep.
        confidence: the share of calibration sets for which it must be kept.
        groups: ``[n]``; rows that are not independent share one. None: every row is independent.
        positives: ``[m]`` scores of positives, to say what the threshold catches.
        positive_groups: ``[m]``.
        fitted_groups: the groups that the scorer was fitted on; one of them among ``groups`` is refused.

    Raises:
        SampleSizeError: too few independent negatives; says how many are needed.
        InputError: NaN (the row is named), a rate outside 0 to 1, or groups that straddle the fit and these rows.

    Examples:
        >>> import numpy as np
        >>> rng = np.random.default_rng(0)
        >>> print(threshold_for_fpr(rng.normal(size=500), fpr=0.01, positives=rng.normal(3, 1, 200)).other)
        0.61 [0.54, 0.68]
    """
    scores, n_groups, grouped = extremes(negatives, groups, name="negatives", largest=True, fitted_groups=fitted_groups)
    k = order_statistic(n_groups, rate=fpr, confidence=confidence)
    threshold = float(np.sort(scores)[k - 1])
    return Certificate(
        threshold=threshold,
        side="fpr",
        target=fpr,
        confidence=confidence,
        bound=float(special.betaincinv(n_groups - k + 1, k, confidence)),
        rule="order statistic",
        n=len(plain(negatives)),
        n_groups=n_groups,
        grouped=grouped,
        empirical=float((scores > threshold).mean()),
        needed=needed_examples(fpr, confidence=confidence),
        other=_rate(positives, positive_groups, threshold, name="positives"),
    )


def threshold_for_recall(
    positives: Any,
    *,
    recall: float,
    confidence: float = 0.95,
    groups: Any = None,
    negatives: Any = None,
    negative_groups: Any = None,
    fitted_groups: Any = None,
) -> Certificate:
    """The highest threshold whose recall is at least ``recall``, for all but ``1 - confidence`` of calibration sets.

    The arguments are those of `threshold_for_fpr` with the classes exchanged; with groups, a group counts as caught where every row fires.

    Raises:
        SampleSizeError: too few independent positives; says how many are needed.
        InputError: NaN (the row is named), a rate outside 0 to 1, or groups that straddle the fit and these rows.

    Examples:
        >>> import numpy as np
        >>> certificate = threshold_for_recall(np.arange(100.0), recall=0.9)
        >>> int(certificate.fires(np.arange(100.0)).sum()), round(certificate.bound, 3)
        (96, 0.911)
    """
    check_rate(recall, name="recall")
    scores, n_groups, grouped = extremes(positives, groups, name="positives", largest=False, fitted_groups=fitted_groups)
    k = order_statistic(n_groups, rate=1 - recall, confidence=confidence)
    lowest = float(np.sort(scores)[n_groups - k])
    threshold = float(np.nextafter(lowest, -np.inf))  # rows at the order statistic itself must fire
    return Certificate(
        threshold=threshold,
        side="recall",
        target=recall,
        confidence=confidence,
        bound=float(special.betaincinv(k, n_groups - k + 1, 1 - confidence)),
        rule="order statistic",
        n=len(plain(positives)),
        n_groups=n_groups,
        grouped=grouped,
        empirical=float((scores > threshold).mean()),
        needed=needed_examples(1 - recall, confidence=confidence),
        other=_rate(negatives, negative_groups, threshold, name="negatives"),
    )


def certify_threshold(
    threshold: float, scores: Any, *, side: Side, target: float, confidence: float = 0.95, groups: Any = None, fitted_groups: Any = None
) -> Certificate:
    """What can be promised of a threshold that was fixed before these scores were seen, by Clopper and Pearson's exact bound.

    Args:
        threshold: the threshold; choosing it on these very scores voids the promise.
        scores: ``[n]`` of negatives (``fpr``) or of positives (``recall``).
        side: which rate.
        target: the rate asked for; `Certificate.holds` says whether it is certified.
        confidence: the confidence of the one-sided bound.
        groups: ``[n]``; rows that are not independent share one.
        fitted_groups: the groups that the scorer was fitted on; one of them among ``groups`` is refused.

    Raises:
        SampleSizeError: even without a single error so few examples could not certify the target.
        InputError: NaN (the row is named), a rate outside 0 to 1, an unknown side, or groups that straddle.

    Examples:
        >>> import numpy as np
        >>> certificate = certify_threshold(2.0, np.linspace(-3, 2, 400), side="fpr", target=0.01)
        >>> round(certificate.bound, 4), certificate.holds
        (0.0075, True)
    """
    if side not in get_args(Side):
        raise InputError(f"side must be one of {get_args(Side)}, got {side!r}.")
    if not math.isfinite(threshold):
        raise InputError(f"a threshold must be finite, got {threshold}.")
    check_rate(target, name="target")
    values, n_groups, grouped = extremes(scores, groups, name="scores", largest=side == "fpr", fitted_groups=fitted_groups)
    rate = target if side == "fpr" else 1 - target
    order_statistic(n_groups, rate=rate, confidence=confidence)  # refuses where no outcome could certify the target
    fired = int((values > threshold).sum())
    exact = clopper_pearson(fired, n_groups, confidence=confidence, ends="upper" if side == "fpr" else "lower")
    return Certificate(
        threshold=float(threshold),
        side=side,
        target=target,
        confidence=confidence,
        bound=exact.high if side == "fpr" else exact.low,
        rule="fixed beforehand",
        n=len(plain(scores)),
        n_groups=n_groups,
        grouped=grouped,
        empirical=exact.value,
        needed=needed_examples(rate, confidence=confidence),
    )


def clopper_pearson(count: int, n: int, *, confidence: float = 0.95, ends: Ends = "two-sided") -> Estimate:
    """Exact interval of a proportion (Clopper and Pearson 1934).

    Args:
        count: how many of the n independent trials counted.
        n: the trials.
        confidence: of the interval; for ``upper`` and ``lower`` of the one bound.
        ends: ``upper`` (from 0 to a bound), ``lower`` (from a bound to 1) or ``two-sided``.

    Raises:
        InputError: a count outside 0 to n, no trials, or an unknown kind of interval.

    Examples:
        >>> print(clopper_pearson(0, 299, ends="upper"))
        0.00 [0.00, 0.01]
    """
    check_rate(confidence, name="confidence")
    if ends not in get_args(Ends):
        raise InputError(f"ends must be one of {get_args(Ends)}, got {ends!r}.")
    if n < 1 or not 0 <= count <= n:
        raise InputError(f"a count must lie between 0 and n with n at least 1, got {count} of {n}.")
    tail = (1 - confidence) / 2 if ends == "two-sided" else 1 - confidence
    low = 0.0 if count == 0 or ends == "upper" else float(special.betaincinv(count, n - count + 1, tail))
    high = 1.0 if count == n or ends == "lower" else float(special.betaincinv(count + 1, n - count, 1 - tail))
    return Estimate(count / n, low, high, confidence, n, n, f"Clopper-Pearson, exact, {ends}")


def extremes(scores: Any, groups: Any, *, name: str, largest: bool, fitted_groups: Any = None) -> tuple[Floats, int, bool]:
    """The most extreme score of each group ``[g]``, how many groups there are, and whether any groups were given.

    Raises:
        InputError: NaN (the row is named), groups of another length, or a group that the scorer was fitted on.
    """
    values = as_floats(scores, name=name)
    codes, n_groups = as_groups(groups, n=len(values))
    if fitted_groups is not None:
        if groups is None:
            raise InputError(f"fitted_groups were given without groups of the {name}; give groups [n] too, so that they can be compared.")
        shared = sorted({str(group) for group in plain(fitted_groups).tolist()} & {str(group) for group in plain(groups).tolist()})
        if shared:
            raise InputError(
                f"{len(shared)} groups straddle the rows that the scorer was fitted on and the {name}, the first is {shared[0]!r}. "
                f"A scorer is surer of what it has seen, so the promise would be void; leave these rows out."
            )
    best = np.full(n_groups, -np.inf)
    np.maximum.at(best, codes, values if largest else -values)
    return best if largest else -best, n_groups, groups is not None


def _tail(n: int, k: Any, rate: float) -> Any:
    """``P(Binomial(n, 1 - rate) >= k)``, counted as ``P(Binomial(n, rate) <= n - k)``, which keeps small tails exact."""
    return special.bdtr(n - np.asarray(k), n, rate)


def _rate(scores: Any, groups: Any, threshold: float, *, name: str) -> Estimate | None:
    """How often rows of the other class fire; their scores had no say in the threshold."""
    if scores is None:
        return None
    fired = as_floats(scores, name=name) > threshold
    if groups is None:
        return clopper_pearson(int(fired.sum()), len(fired))
    return interval(mean_statistic(fired, name="fired", bounds=(0.0, 1.0)), groups=groups)
