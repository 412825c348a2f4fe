"""What a calibration gained, on rows that it was not fitted on: calibration error, Brier score and log loss, before and after."""

import dataclasses
from typing import Any

import numpy as np
from scipy import special, stats

from transect.decide.calibration import Calibration
from transect.errors import InputError
from transect.measure import Estimate, Statistic, difference, interval, mean_statistic
from transect.measure._inputs import Floats, Ints, as_classes, as_floats, check_length, plain

BINS = 15


@dataclasses.dataclass(frozen=True, kw_only=True)
class BeforeAfter:
    """A loss before and after calibration, lower is better.

    Args:
        before: of the scores through their own link (sigmoid or softmax).
        after: of the calibrated probabilities.
        gain: before minus after, paired on the same resamples; above 0 where calibration helped.
    """

    before: Estimate
    after: Estimate
    gain: Estimate


@dataclasses.dataclass(frozen=True, kw_only=True)
class MeasuredCalibration:
    """What a calibration gained on test rows.

    Args:
        ece: expected calibration error over 15 bins of equal count; it cannot be 0 on finitely many rows, even of true probabilities.
        brier: Brier score.
        log_loss: log loss, in nats.
        n: test rows.
    """

    ece: BeforeAfter
    brier: BeforeAfter
    log_loss: BeforeAfter
    n: int

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        losses = {name: getattr(self, name) for name in ("ece", "brier", "log_loss")}
        parts = ("before", "after", "gain")
        return {**{name: {part: getattr(loss, part).to_json() for part in parts} for name, loss in losses.items()}, "n": self.n}


def measure_calibration(
    calibration: Calibration,
    scores: Any,
    codes: Any,
    *,
    rows: Any = None,
    groups: Any = None,
    level: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
) -> MeasuredCalibration:
    """Measure a calibration on rows that it was not fitted on, with group-bootstrap intervals.

    Args:
        calibration: what to measure; it remembers the rows or groups it was fitted on.
        scores: ``[n]`` or ``[n, k]``.
        codes: ``[n]`` class indices.
        rows: ``[n]`` names of the rows, compared with those of the fit.
        groups: ``[n]`` their groups, compared with those of the fit, and resampled whole.
        level: the share of intervals that should hold the truth.
        resamples: how many.
        seed: of the draws.

    Raises:
        InputError: rows or groups overlap those of the fit, or neither was named on both sides, so that nobody could tell.

    Examples:
        >>> import numpy as np
        >>> from transect.decide import fit_platt
        >>> rng = np.random.default_rng(0)
        >>> truth = rng.normal(size=2000)
        >>> codes = (rng.random(2000) < 1 / (1 + np.exp(-truth))).astype(int)
        >>> names = np.arange(2000)
        >>> calibration = fit_platt(5 * truth[:1000], codes[:1000], rows=names[:1000])
        >>> measured = measure_calibration(calibration, 5 * truth[1000:], codes[1000:], rows=names[1000:])
        >>> measured.log_loss.gain.excludes(0.0), measured.ece.after.value < measured.ece.before.value
        (True, True)
    """
    compared = [_refuse_shared(what, mine, theirs) for what, mine, theirs in _named(calibration, rows, groups)]
    if not any(compared):
        raise InputError(
            "cannot tell whether these rows are those of the fit: give rows= or groups= both to the fitter and here. "
            "Calibration measured on its own rows looks better than it is."
        )
    values = as_floats(scores, name="scores", ndim=(1, 2))
    labels = as_classes(codes, n=len(values))
    if rows is not None:  # the bootstrap sees to the groups
        check_length(plain(rows), n=len(values), name="rows")
    before = special.expit(values) if values.ndim == 1 else special.softmax(values, axis=1)
    after = calibration.probabilities(values)
    if labels.max() >= calibration.k:
        raise InputError(f"codes hold class {labels.max()}, but the calibration is for {calibration.k} classes.")
    settings = {"groups": groups, "level": level, "resamples": resamples, "seed": seed}

    def compare(statistic: Any) -> BeforeAfter:
        one, other = statistic(before, labels), statistic(after, labels)
        return BeforeAfter(before=interval(one, **settings), after=interval(other, **settings), gain=difference(one, other, **settings))

    return MeasuredCalibration(ece=compare(_ece), brier=compare(_brier), log_loss=compare(_log_loss), n=len(values))


def _named(calibration: Calibration, rows: Any, groups: Any) -> list[tuple[str, tuple[str, ...] | None, Any]]:
    return [("rows", calibration.rows, rows), ("groups", calibration.groups, groups)]


def _refuse_shared(what: str, mine: tuple[str, ...] | None, theirs: Any) -> bool:
    """Whether the two could be compared."""
    if mine is None or theirs is None:
        return False
    shared = sorted(set(mine) & {str(name) for name in plain(theirs).tolist()})
    if shared:
        raise InputError(
            f"{len(shared)} {what} of these are among those the calibration was fitted on, the first is {shared[0]!r}; measured there it "
            f"would look better than it is. Leave them out, or fit on others."
        )
    return True


def _ece(chance: Floats, labels: Ints) -> Statistic:
    """Calibration error as a statistic of weighted groups; the bins are those of the rows as they are."""
    if chance.ndim == 1:
        confidence, right = chance, labels == 1
    else:
        confidence, right = chance.max(axis=1), chance.argmax(axis=1) == labels
    place = (np.asarray(stats.rankdata(confidence)) - 0.5) / len(confidence)
    bin_of = np.minimum((place * BINS).astype(np.int64), BINS - 1)

    def evaluate(counts: Floats, groups: Ints) -> Floats:
        gaps = np.zeros((BINS, len(counts)))
        np.add.at(gaps, (bin_of, groups), right - confidence)
        return np.abs(gaps @ counts).sum(axis=0) / (np.bincount(groups, minlength=len(counts)) @ counts)

    return Statistic("ece", len(labels), evaluate, (0.0, 1.0), lambda groups, _value: len(np.unique(groups)))


def _brier(chance: Floats, labels: Ints) -> Statistic:
    if chance.ndim == 1:
        return mean_statistic((chance - labels) ** 2, name="brier", bounds=(0.0, 1.0))
    return mean_statistic(((chance - np.eye(chance.shape[1])[labels]) ** 2).sum(axis=1), name="brier", bounds=(0.0, 2.0))


def _log_loss(chance: Floats, labels: Ints) -> Statistic:
    both = np.stack([1 - chance, chance], axis=1) if chance.ndim == 1 else chance
    tiny = np.finfo(np.float64).eps
    return mean_statistic(-np.log(np.clip(both[np.arange(len(labels)), labels], tiny, 1 - tiny)), name="log_loss")
