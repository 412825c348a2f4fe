"""The contracts of calibrations and of certified thresholds, as checks that any fitter of them can be put through, ours or not."""

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
import torch
from scipy import special, stats

from transect.errors import InputError, SampleSizeError
from transect.testing._assertions import must, refused, untouched


class Calibrated(Protocol):
    """What turns scores into probabilities."""

    def probabilities(self, scores: Any) -> Any:
        """``[n]`` scores to ``[n]`` probabilities of class 1."""
        ...


class Thresholded(Protocol):
    """What carries a certified threshold and an upper bound on its false-positive rate."""

    @property
    def threshold(self) -> float:
        """A row fires where its score is above it."""
        ...

    @property
    def bound(self) -> float:
        """The bound on the false-positive rate."""
        ...


CalibrationFitter = Callable[[Any, Any], Calibrated]
ThresholdFitter = Callable[..., Thresholded]


def check_calibration(fit: CalibrationFitter) -> None:
    """Check that a fitter of calibrations for two classes keeps the contracts.

    1. Purity: scores, codes and random states are as before; fitting again gives the same bits; the order of rows does not matter;
       tensors and arrays give the same; a batch gives what its rows give.
    2. Monotone: probabilities lie in 0 to 1 and never fall where scores rise.
    3. Planted truth: overconfident scores are brought within 0.05 of the true probabilities; the log loss does not beat them.
    4. Chance: shuffled labels give the base rate; scores that run backwards are not turned round.
    5. Edges: NaN (the row is named), one class, and scores that are all equal are refused.

    Args:
        fit: from scores ``[n]`` and class indices ``[n]`` to what has `probabilities`.

    Raises:
        AssertionError: a clause does not hold; the message says which and by how much.

    Examples:
        >>> from transect.decide import fit_platt
        >>> check_calibration(fit_platt)
    """
    scores, codes, _ = _overconfident(4000, seed=0)
    new, answers, truth = _overconfident(4000, seed=1)
    with untouched("fitting a calibration", scores, codes):
        calibration = fit(scores, codes)
        chance = np.asarray(calibration.probabilities(new))
    must(np.array_equal(chance, np.asarray(fit(scores, codes).probabilities(new))), "purity: fitting again gives other probabilities")
    order = np.random.default_rng(2).permutation(len(scores))
    moved = np.abs(np.asarray(fit(scores[order], codes[order]).probabilities(new)) - chance).max()
    must(moved < 1e-5, f"purity: the order of the rows matters (by {moved:.1e})")
    tensors = np.asarray(fit(torch.from_numpy(scores), torch.from_numpy(codes)).probabilities(torch.from_numpy(new)))
    must(np.abs(tensors - chance).max() < 1e-9, "purity: tensors and arrays give different probabilities")
    single = np.concatenate([np.asarray(calibration.probabilities(new[at : at + 1])) for at in range(20)])
    must(np.allclose(single, chance[:20], rtol=0, atol=1e-9), "purity: a batch gives other probabilities than its rows")
    must(bool((chance >= 0).all() and (chance <= 1).all()), "monotone: probabilities leave 0 to 1")
    must(bool((np.diff(chance[np.argsort(new)]) >= -1e-12).all()), "monotone: probabilities fall where scores rise")
    off = float(np.abs(chance - truth).mean())
    must(off < 0.05, f"planted truth: probabilities are off by {off:.3f} on average")
    gained = _log_loss(truth, answers) - _log_loss(chance, answers)
    must(gained < 0.01, f"planted truth: it beats the true probabilities by {gained:.3f} nats; does it see the test labels?")
    shuffled = np.asarray(fit(scores, np.random.default_rng(3).permutation(codes)).probabilities(new))
    off = float(np.abs(shuffled - codes.mean()).mean())
    must(off < 0.05, f"chance: with shuffled labels probabilities are {off:.3f} from the base rate on average")
    backwards = float(np.ptp(np.asarray(fit(-scores, codes).probabilities(new))))
    must(backwards < 0.05, f"chance: scores that run backwards still move the probabilities by {backwards:.3f}")
    lost = scores.copy()
    lost[7] = np.nan
    with refused("edges: NaN in the scores is accepted", InputError, says="row 7"):
        fit(lost, codes)
    with refused("edges: NaN is given a probability", InputError, says="row 7"):
        calibration.probabilities(lost)
    with refused("edges: one class only is accepted", InputError, says="class"):
        fit(scores, np.zeros_like(codes))
    with refused("edges: scores that are all equal are accepted", InputError, says="equal"):
        fit(np.ones_like(scores), codes)


def check_threshold(fit: ThresholdFitter, *, draws: int = 1000) -> None:
    """Check that a fitter of thresholds for a false-positive rate keeps the contracts.

    1. Purity: scores and random states are as before; again the same; the order of rows does not matter; tensors and arrays agree.
    2. Monotone: a larger rate or a smaller confidence never raises the threshold.
    3. The promise: over many calibration sets, continuous and tied, the true rate exceeds the target, and the bound, no more often
       than ``1 - confidence`` and the error of so many draws; and the bound is at most the target.
    4. Groups of copies do not break the promise.
    5. Edges: NaN (the row is named) and too few negatives (how many are needed is said) are refused; equal scores never fire.

    Args:
        fit: called as ``fit(negatives, fpr=, confidence=, groups=)``.
        draws: simulated calibration sets.

    Raises:
        AssertionError: a clause does not hold; the message says which and by how much.

    Examples:
        >>> from transect.decide import threshold_for_fpr
        >>> check_threshold(threshold_for_fpr, draws=200)
    """
    rng = np.random.default_rng(0)
    scores = rng.normal(size=500)
    with untouched("fitting a threshold", scores):
        made = fit(scores, fpr=0.05, confidence=0.9)
    for kind, again in (("again", scores), ("in another order", scores[rng.permutation(500)]), ("as a tensor", torch.from_numpy(scores))):
        must(fit(again, fpr=0.05, confidence=0.9).threshold == made.threshold, f"purity: the same scores {kind} give another threshold")
    by_rate = [fit(scores, fpr=rate, confidence=0.9).threshold for rate in (0.02, 0.05, 0.1, 0.2)]
    must(by_rate == sorted(by_rate, reverse=True), f"monotone: a larger rate raises the threshold: {by_rate}")
    by_confidence = [fit(scores, fpr=0.05, confidence=level).threshold for level in (0.5, 0.8, 0.95, 0.99)]
    must(by_confidence == sorted(by_confidence), f"monotone: a smaller confidence raises the threshold: {by_confidence}")
    allowed = 0.1 + 3 * np.sqrt(0.1 * 0.9 / draws)
    copies = np.repeat(np.arange(100), 3)
    sets = {
        "continuous scores": (lambda: rng.normal(size=200), None, stats.norm.sf),
        "tied scores": (lambda: rng.poisson(2.0, size=200).astype(float), None, lambda at: stats.poisson.sf(at, 2.0)),
        "groups of copies": (lambda: rng.normal(size=100)[copies], copies, stats.norm.sf),
    }
    for name, (draw, groups, tail) in sets.items():
        found = [fit(draw(), fpr=0.05, confidence=0.9, groups=groups) for _ in range(draws)]
        rates = tail(np.array([each.threshold for each in found]))
        bounds = np.array([each.bound for each in found])
        broken, overrun = float((rates > 0.05).mean()), float((rates > bounds).mean())
        must(broken <= allowed, f"promise: with {name} the rate is broken in {broken:.3f} of draws, 0.1 was allowed")
        must(overrun <= allowed, f"promise: with {name} the bound is broken in {overrun:.3f} of draws, 0.1 was allowed")
        must(bool((bounds <= 0.05).all()), f"promise: with {name} a bound of {bounds.max():.3f} is above the target of 0.05")
    lost = scores.copy()
    lost[7] = np.nan
    with refused("edges: NaN is accepted", InputError, says="row 7"):
        fit(lost, fpr=0.05, confidence=0.9)
    with refused("edges: too few negatives are accepted", SampleSizeError, says="299"):
        fit(np.arange(298.0), fpr=0.01, confidence=0.95)
    with refused("edges: too few groups are accepted", SampleSizeError, says="299"):
        fit(np.arange(400.0), fpr=0.01, confidence=0.95, groups=np.arange(400) // 2)
    must(fit(np.ones(400), fpr=0.05, confidence=0.9).threshold >= 1.0, "edges: scores that are all equal fire")


def _overconfident(n: int, *, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Scores that are three times the log-odds, labels, and the true probabilities."""
    rng = np.random.default_rng(seed)
    truth = rng.normal(size=n)
    return 3 * truth, (rng.random(n) < special.expit(truth)).astype(np.int64), special.expit(truth)


def _log_loss(chance: np.ndarray, codes: np.ndarray) -> float:
    own = np.clip(np.where(codes == 1, chance, 1 - chance), 1e-12, 1)
    return float(-np.log(own).mean())
