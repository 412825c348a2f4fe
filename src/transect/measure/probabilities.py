"""How good probabilities are: Brier score, log loss, expected calibration error. Lower is better for all three."""

from typing import Any

import numpy as np

from transect.errors import InputError
from transect.measure._inputs import Floats, Ints, as_classes, as_floats


def brier(probabilities: Any, codes: Any) -> float:
    """Brier score (Brier 1950).

    Two classes: mean of ``(p - y)^2`` with p the probability of class 1. More: mean of the sum over classes.

    Args:
        probabilities: ``[n]`` for two classes, ``[n, k]`` for more.
        codes: ``[n]``, class indices.

    Examples:
        >>> brier([0.0, 1.0, 0.5], [0, 1, 1])
        0.083...
    """
    chance, labels = _checked(probabilities, codes)
    squares = (chance - np.eye(chance.shape[1])[labels]) ** 2
    # Both columns of two classes hold the same square; the usual two-class score counts it once.
    return float(squares[:, 1].mean() if np.ndim(probabilities) == 1 else squares.sum(axis=1).mean())


def log_loss(probabilities: Any, codes: Any) -> float:
    """Mean of minus the log of the probability given to the true class, in nats; probabilities are kept off 0 by float64's epsilon.

    Args:
        probabilities: ``[n]`` for two classes, ``[n, k]`` for more.
        codes: ``[n]``, class indices.
    """
    chance, labels = _checked(probabilities, codes)
    tiny = np.finfo(np.float64).eps
    return float(-np.log(np.clip(chance[np.arange(len(labels)), labels], tiny, 1 - tiny)).mean())


def expected_calibration_error(probabilities: Any, codes: Any, *, bins: int = 15, equal_mass: bool = True) -> float:
    """Expected calibration error: mean over rows of |share right - mean confidence| in the row's bin (Naeini et al. 2015).

    Two classes: confidence is the probability of class 1 and "right" is class 1. More: the largest probability, and whether
    its class is the true one. ``equal_mass`` puts the same number of rows in each bin, for bins of equal width are mostly
    empty when a probe is sure; tied probabilities always share a bin, so the order of the rows does not matter.

    Args:
        probabilities: ``[n]`` for two classes, ``[n, k]`` for more.
        codes: ``[n]``, class indices.
        bins: how many bins; each should hold some 20 rows for the number to mean something.
        equal_mass: bins of equal count rather than of equal width.

    Raises:
        InputError: no bins, or probabilities outside 0 to 1.

    Examples:
        >>> expected_calibration_error([0.25] * 4, [0, 0, 0, 1])
        0.0
    """
    if bins < 1:
        raise InputError(f"bins must be at least 1, got {bins}.")
    chance, labels = _checked(probabilities, codes)
    if np.ndim(probabilities) == 1:
        confidence, right = chance[:, 1], labels == 1
    else:
        confidence, right = chance.max(axis=1), chance.argmax(axis=1) == labels
    if equal_mass:
        from scipy import stats

        place = (np.asarray(stats.rankdata(confidence)) - 0.5) / len(confidence)
    else:
        place = confidence
    bin_of = np.minimum((place * bins).astype(np.int64), bins - 1)
    gap = np.bincount(bin_of, weights=right - confidence, minlength=bins)
    return float(np.abs(gap).sum() / len(confidence))


def _checked(probabilities: Any, codes: Any) -> tuple[Floats, Ints]:
    chance = as_floats(probabilities, name="probabilities", ndim=(1, 2))
    if (chance < 0).any() or (chance > 1).any():
        span = f"{chance.min():g} to {chance.max():g}"
        raise InputError(f"probabilities must lie between 0 and 1, got {span}; are these scores? apply the link first.")
    if chance.ndim == 1:
        chance = np.stack([1 - chance, chance], axis=1)
    elif (np.abs(chance.sum(axis=1) - 1) > 1e-4).any():
        raise InputError(f"each row of probabilities must sum to 1, got {chance.sum(axis=1)[0]:g} in the first.")
    labels = as_classes(codes, n=len(chance))
    if labels.max() >= chance.shape[1]:
        raise InputError(f"codes hold class {labels.max()} but there are probabilities of {chance.shape[1]} classes.")
    return chance, labels
