"""A threshold for whole sequences whose false-positive rate holds in every range of lengths at once.

An alarm reads token scores and goes off at the first token whose running statistic is above the threshold. A threshold calibrated on
tokens would go off on nearly every long sequence, so whole sequences are calibrated: a sequence fires where its peak, the largest running
value (`SequenceStatistic.peak`), is above the threshold. That is the streaming alarm's own event, so both keep the same promise; and as a
peak never falls as tokens come in, a sequence that is cut short, or looked at only at its end, fires no more often.

A rate over all lengths together would let long sequences fire often and short ones pay for it. So the sequences are divided by length
into B bins, and with confidence c

    in every bin at once, the mean over the bin's calibration sequences of P(fires | its length) is at most alpha.

Proof. Condition on all lengths; bins may then depend on them in any way. In a bin with n independent sequences whose peaks have the
distribution functions F_i, let F be their mean, and take the k-th smallest peak T. If F(T) < 1 - alpha, at least k peaks lie at or below a
point where F is at most 1 - alpha. Their number is a sum of independent, not identical, indicators of mean at most n (1 - alpha), so by
Hoeffding (1956, theorem 4) the chance is at most P(Binomial(n, 1 - alpha) >= k), provided that k >= n (1 - alpha) + 1. k is the smallest with
that tail at most (1 - c) / B. The union over B bins is at most 1 - c, and the threshold is the largest of the B, which lowers every
rate further. Nothing is assumed of the scores within a sequence.

What follows and what does not: the promise is a mean over the lengths of a bin, since nobody can promise anything of one single length that
was seen a few times. Where a sequence's length says nothing about its scores (it could have been cut anywhere), P(fires | length) rises with
the length, so the mean over the last bin bounds *every* single length up to the start of that bin. Sequences longer than any that was seen
are refused; or give a ``horizon``: then only the first so many tokens are watched, in calibration and afterwards, so nothing is too long.

Sequences of one group (one conversation, one document) are not independent: the largest peak of a group within a bin counts, and the promise is
about groups in which any sequence of that bin fires.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy import special

from transect.decide._length_bins import divide, needed, rank
from transect.decide.certificate import check_rate
from transect.decide.sequences import SequenceStatistic, ragged
from transect.errors import InputError
from transect.measure._inputs import Bools, Floats, Ints, as_groups


@dataclasses.dataclass(frozen=True, kw_only=True)
class LengthBin:
    """What is promised of the sequences of a range of lengths.

    Args:
        shortest: tokens in the shortest sequence of the bin.
        longest: tokens in the longest (at most the horizon).
        n: independent sequences, or groups, in it.
        threshold: the threshold that this bin alone would need; minus infinity where hardly any of it outlasts the warm-up.
        bound: the exact bound on its false-positive rate, at the joint confidence.
        empirical: the share that fires at the common threshold.
    """

    shortest: int
    longest: int
    n: int
    threshold: float
    bound: float
    empirical: float


@dataclasses.dataclass(frozen=True, kw_only=True)
class SequenceCertificate:
    """A threshold for sequences and what is promised of it in every range of lengths.

    Args:
        threshold: a sequence fires where its peak is above this.
        target: the largest false-positive rate.
        confidence: the share of calibration sets for which it holds in all bins at once.
        statistic: what is computed of the token scores.
        bins: the ranges of lengths, the shortest first.
        longest: tokens in the longest sequence that is covered.
        horizon: only so many tokens are watched; None watches all and refuses longer sequences.
        n: calibration sequences.
        grouped: whether the promise is about groups.
        needed: the fewest independent sequences with which one bin can be certified, had it all of the confidence.
    """

    threshold: float
    target: float
    confidence: float
    statistic: SequenceStatistic
    bins: tuple[LengthBin, ...]
    longest: int
    horizon: int | None
    n: int
    grouped: bool
    needed: int

    def fires(self, scores: Any, lengths: Any) -> Bools:
        """Which of ``n`` sequences fire, ``[n]``; exactly those for which `alarm` goes off at some token.

        Args:
            scores: ``[sum of lengths]``, token scores.
            lengths: ``[n]``.

        Raises:
            InputError: NaN (the row is named), or a sequence longer than any that was calibrated on.
        """
        return self.peaks(scores, lengths) > self.threshold

    def peaks(self, scores: Any, lengths: Any) -> Floats:
        """What is compared with the threshold, ``[n]``: minus infinity before the warm-up; arguments and errors are those of `fires`."""
        values, counts = ragged(scores, lengths)
        if self.horizon is None and (counts > self.longest).any():
            which = int(np.flatnonzero(counts > self.longest)[0])
            raise self._too_long(f"sequence {which} has {counts[which]} tokens")
        return self.statistic.peak(*_cut(values, counts, self.horizon))

    def alarm(self) -> "SequenceAlarm":
        """The streaming alarm for one sequence."""
        return SequenceAlarm(self)

    @property
    def sentence(self) -> str:
        """The promise in one sentence."""
        where = ", ".join(f"{part.shortest}-{part.longest}" for part in self.bins)
        unit = "groups with any sequence that fires" if self.grouped else "sequences that fire at any token"
        early = self.statistic.watched_from
        short = f"; sequences of fewer than {early} tokens never fire" if early > 1 else ""
        after = (
            f"only the first {self.horizon} tokens are watched"
            if self.horizon
            else f"sequences of more than {self.longest} tokens are refused"
        )
        return (
            f"With confidence {self.confidence:g}, at most {self.target:g} of new negative sequences fire ({unit}; {self.statistic} above "
            f"{self.threshold:.6g}), in each range of lengths at once ({where} tokens; {self.n} sequences); {after}{short}."
        )

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values; `from_json` gives back an equal object."""
        bins = [dataclasses.asdict(part) for part in self.bins]
        for part in bins:
            part["threshold"] = part["threshold"] if np.isfinite(part["threshold"]) else None
        return {**dataclasses.asdict(self), "bins": bins, "sentence": self.sentence}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "SequenceCertificate":
        """The inverse of `to_json`."""
        fields = {name: item for name, item in value.items() if name != "sentence"}
        bins = tuple(
            LengthBin(**{**part, "threshold": -np.inf if part["threshold"] is None else part["threshold"]}) for part in fields["bins"]
        )
        return cls(**{**fields, "bins": bins, "statistic": SequenceStatistic(**fields["statistic"])})

    def _too_long(self, what: str) -> InputError:
        return InputError(
            f"{what}, but the threshold was certified for up to {self.longest}, and nothing can be promised beyond. Certify with longer "
            f"sequences, or with a horizon of at most {self.longest} tokens."
        )


class SequenceAlarm:
    """A certified alarm that reads one sequence token by token and goes off at the first crossing.

    Args:
        certificate: from `certify_sequences`.
    """

    def __init__(self, certificate: SequenceCertificate) -> None:
        self.certificate = certificate
        self.n = 0
        self.fired_at: int | None = None
        self._running = certificate.statistic.start()

    def update(self, score: float) -> bool:
        """Whether the alarm has gone off, this token included; `fired_at` says at which token (from 0).

        Raises:
            InputError: the score is NaN or infinite, or the sequence grows longer than any that was calibrated on.
        """
        limit = self.certificate.horizon or self.certificate.longest
        if self.n >= limit and self.certificate.horizon is None:
            raise self.certificate._too_long(f"this sequence has more than {self.n} tokens")
        if self.n < limit:
            crossed = self._running.update(score) > self.certificate.threshold and self._running.warm
            self.fired_at = self.n if crossed and self.fired_at is None else self.fired_at
        self.n += 1
        return self.fired_at is not None


def certify_sequences(
    scores: Any,
    lengths: Any,
    *,
    fpr: float,
    confidence: float = 0.95,
    statistic: SequenceStatistic | None = None,
    groups: Any = None,
    bins: int | None = None,
    horizon: int | None = None,
) -> SequenceCertificate:
    """The lowest threshold whose false-positive rate per sequence is at most ``fpr`` in every range of lengths at once.

    Args:
        scores: ``[sum of lengths]``, token scores of negative sequences that neither fitted nor chose the scorer.
        lengths: ``[n]``, tokens in each.
        fpr: the false-positive rate per sequence.
        confidence: the share of calibration sets for which it must hold in all bins at once.
        statistic: what is computed of the token scores; None takes the maximum.
        groups: ``[n]``; sequences that are not independent share one.
        bins: ranges of length, of about equal numbers of sequences; None takes as many as the data can certify, at most 8.
        horizon: watch only so many tokens of each sequence.

    Raises:
        SampleSizeError: too few independent sequences; says how many are needed.
        InputError: NaN (the row is named), a rate outside 0 to 1, a horizon beyond the longest sequence, or so few sequences longer than
            the statistic's warm-up that any threshold would do.

    Examples:
        >>> import numpy as np
        >>> rng = np.random.default_rng(0)
        >>> lengths = rng.integers(5, 50, size=1000)
        >>> certificate = certify_sequences(rng.normal(size=lengths.sum()), lengths, fpr=0.05, bins=3)
        >>> [(part.shortest, part.longest) for part in certificate.bins]
        [(5, 21), (22, 35), (36, 49)]
        >>> bool(certificate.fires([0.0] * 9 + [9.0], [10])[0]), certificate.alarm().update(9.0)
        (True, True)
    """
    values, counts = ragged(scores, lengths)
    check_rate(fpr, name="fpr")
    check_rate(confidence, name="confidence")
    codes, _ = as_groups(groups, n=len(counts))
    if horizon is not None and not 1 <= horizon <= counts.max():
        raise InputError(f"horizon must lie between 1 and the {counts.max()} tokens of the longest calibration sequence, got {horizon}.")
    if bins is not None and bins < 1:
        raise InputError(f"bins must be at least 1, got {bins}.")
    how = statistic or SequenceStatistic()
    watched = counts if horizon is None else np.minimum(counts, horizon)
    peaks = how.peak(*_cut(values, counts, horizon))
    placed = divide(watched, codes, bins=bins, fpr=fpr, confidence=confidence)
    miss = (1 - confidence) / (placed.max() + 1)
    units = [_unit_peaks(peaks[placed == at], codes[placed == at]) for at in range(placed.max() + 1)]
    ranks = [rank(len(part), rate=fpr, miss=miss) for part in units]
    alone = [float(np.sort(part)[k - 1]) for part, k in zip(units, ranks, strict=True)]
    threshold = max(alone)
    if np.isinf(threshold):
        raise InputError(
            f"only {int(np.isfinite(peaks).sum())} of {len(peaks)} sequences have the {how.watched_from} tokens from which on the {how} is watched, "
            f"too few to calibrate on. Give longer sequences, or a smaller size or warm_up."
        )
    return SequenceCertificate(
        threshold=threshold,
        target=fpr,
        confidence=confidence,
        statistic=how,
        bins=tuple(
            LengthBin(
                shortest=int(watched[placed == at].min()),
                longest=int(watched[placed == at].max()),
                n=len(part),
                threshold=alone[at],
                # The tail of the proof may be used only where k >= n (1 - bound) + 1.
                bound=max(float(special.betaincinv(len(part) - k + 1, k, 1 - miss)), (len(part) - k + 1) / len(part)),
                empirical=float((part > threshold).mean()),
            )
            for at, (part, k) in enumerate(zip(units, ranks, strict=True))
        ),
        longest=int(watched.max()),
        horizon=horizon,
        n=len(counts),
        grouped=groups is not None,
        needed=needed(rate=fpr, miss=1 - confidence),
    )


def _cut(values: Floats, counts: Ints, horizon: int | None) -> tuple[Floats, Ints]:
    """The first so many tokens of each sequence."""
    if horizon is None:
        return values, counts
    position = np.arange(len(values)) - np.repeat(np.cumsum(counts) - counts, counts)
    return values[position < horizon], np.minimum(counts, horizon)


def _unit_peaks(peaks: Floats, codes: Ints) -> Floats:
    """The largest peak of each group."""
    _, unit = np.unique(codes, return_inverse=True)
    best = np.full(unit.max() + 1, -np.inf)
    np.maximum.at(best, unit, peaks)
    return best
