r"""How alike two probes are: cosine, and Mahalanobis cosine similarity (MCS).

Two directions may differ in coordinates that the data never use. MCS weighs the inner product by the covariance S of the test
activations (Ying et al. 2026, "The truthfulness spectrum hypothesis"; "Comparing linear probes with Mahalanobis cosine
similarity"):

    MCS(u, v) = u'Sv / sqrt(u'Su * v'Sv)

With S the total covariance, u'Sv is the covariance of the two probes' scores, so MCS is the **Pearson correlation of the two
scores on the test activations**, and no d x d matrix is ever formed.

Closed form. Let the scores of a probe be Gaussian within each of two classes, with means g apart, standard deviation s within a
class, and a share p of positives; q = p (1 - p). Then

    AUROC = Phi(g / (s sqrt 2)),        r = corr(score, label) = sqrt(q) (g/s) / sqrt(1 + q (g/s)^2)

(balanced classes: q = 1/4, SNR = g / 2s, r = SNR / sqrt(1 + SNR^2), AUROC = Phi(sqrt 2 SNR)). With d the difference of the
class means, W the covariance within a class, S = W + q d d', and the reference probe the best one, w = W^-1 d (parallel to
S^-1 d): u'Sw is proportional to u'd, hence

    MCS(u, w) = r(u) / r(w)

Both AUROC and MCS are S-shaped functions of the same SNR, which is why they are nearly linear in each other, and why a probe's
AUROC on new data follows from its MCS to a reference probe trained there: `auroc_from_mcs`.
"""

from typing import Any

import numpy as np
from scipy import stats

from transect.errors import InputError
from transect.measure._inputs import Floats, as_floats, plain

_ROWS_AT_ONCE = 8192


def cosine(first: Any, second: Any) -> float:
    """Cosine of the angle between two directions ``[d]``.

    Raises:
        InputError: widths that differ, or a direction of length 0.

    Examples:
        >>> cosine([1.0, 0.0], [1.0, 1.0])
        0.707...
    """
    u, v = as_floats(first, name="first"), as_floats(second, name="second")
    if len(u) != len(v):
        raise InputError(f"both directions must have one width, got {len(u)} and {len(v)}.")
    norms = np.linalg.norm(u) * np.linalg.norm(v)
    if norms == 0:
        raise InputError("a direction of length 0 points nowhere; was this probe fitted?")
    return float(np.clip(u @ v / norms, -1, 1))


def mahalanobis_cosine(first: Any, second: Any, activations: Any) -> float:
    """Mahalanobis cosine similarity of two directions ``[d]`` on test activations ``[n, d]`` (see the head of this module).

    NaN where one of the two gives every test row the same score, for then nothing can be compared.

    Raises:
        InputError: widths that differ, fewer than two rows, or NaN.

    Examples:
        >>> mahalanobis_cosine([1.0, 0.0], [1.0, 5.0], [[1.0, 2.0], [2.0, 2.0], [4.0, 2.0]])
        1.0
    """
    return float(mahalanobis_cosine_matrix([plain(first), plain(second)], activations)[0, 1])


def mahalanobis_cosine_matrix(directions: Any, activations: Any) -> Floats:
    """Mahalanobis cosine similarities ``[k, k]`` of every two of ``directions [k, d]`` on test activations ``[n, d]``.

    Raises:
        InputError: widths that differ, fewer than two rows, or NaN.
    """
    weights = as_floats(directions, name="directions", ndim=(2,))
    if len(activations) < 2:
        raise InputError(f"a covariance needs at least two rows of activations, got {len(activations)}.")
    if len(activations[0]) != weights.shape[1]:
        raise InputError(f"the directions have width {weights.shape[1]}, the activations {len(activations[0])}; another site or model?")
    parts = [
        as_floats(activations[start : start + _ROWS_AT_ONCE], name="activations", ndim=(2,)) @ weights.T
        for start in range(0, len(activations), _ROWS_AT_ONCE)
    ]
    return score_correlation(np.concatenate(parts))


def score_correlation(scores: Any) -> Floats:
    """Pearson correlations ``[k, k]`` of the columns of ``scores [n, k]``; NaN for a column of equal scores."""
    values = as_floats(scores, name="scores", ndim=(2,))
    centred = values - values.mean(axis=0)
    length = np.linalg.norm(centred, axis=0)
    # Rounding leaves about eps * |score| of spread in equal scores; that is not spread.
    length[length <= 1e-12 * np.sqrt(len(values)) * np.abs(values).max(axis=0)] = np.nan
    unit = centred / length
    return np.clip(unit.T @ unit, -1, 1)


def label_correlation(value: float, *, positive_share: float = 0.5) -> float:
    """The correlation of scores with the label at an AUROC, for Gaussian scores: r in the head of this module.

    Raises:
        InputError: an AUROC or a share outside 0 to 1.

    Examples:
        >>> label_correlation(0.5)
        0.0
        >>> round(label_correlation(0.9), 3)
        0.671
    """
    _check_share(positive_share)
    if not 0 <= value <= 1:
        raise InputError(f"an AUROC lies between 0 and 1, got {value}.")
    if value in {0.0, 1.0}:
        return 2 * value - 1
    gap = np.sqrt(2) * stats.norm.ppf(value)
    variance = positive_share * (1 - positive_share)
    return float(np.sqrt(variance) * gap / np.sqrt(1 + variance * gap**2))


def auroc_from_mcs(mcs: float, reference_auroc: float, *, positive_share: float = 0.5) -> float:
    """The AUROC that Gaussian scores imply for a probe, from its MCS to the best probe of the same data.

    Args:
        mcs: Mahalanobis cosine similarity to the reference.
        reference_auroc: AUROC of the reference on the data (trained there: the best linear probe).
        positive_share: share of positives in the data.

    Raises:
        InputError: a number outside its range.

    Examples:
        >>> auroc_from_mcs(0.0, 0.95), auroc_from_mcs(1.0, 0.95)
        (0.5, 0.95)
    """
    if not -1 <= mcs <= 1:
        raise InputError(f"an MCS lies between -1 and 1, got {mcs}.")
    correlation = mcs * label_correlation(reference_auroc, positive_share=positive_share)
    if abs(correlation) == 1:
        return (correlation + 1) / 2
    variance = positive_share * (1 - positive_share)
    gap = correlation / np.sqrt(variance * (1 - correlation**2))
    return round(float(stats.norm.cdf(gap / np.sqrt(2))), 15)


def _check_share(positive_share: float) -> None:
    if not 0 < positive_share < 1:
        raise InputError(f"positive_share must lie between 0 and 1, got {positive_share}; both classes are needed.")
