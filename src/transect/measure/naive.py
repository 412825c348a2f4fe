"""The slow, obvious twins: they are the definitions, and the fast paths must equal them."""

from typing import Any

import numpy as np

from transect.measure._inputs import Floats, as_floats, as_positives
from transect.measure.resampling import resample_counts, units


def naive_auroc(scores: Any, positives: Any) -> float:
    """Count every pair of a positive and a negative: 1 where the positive scores higher, one half for a tie.

    Examples:
        >>> naive_auroc([1, 2, 2, 3], [0, 0, 1, 1])
        0.875
    """
    values = as_floats(scores, name="scores")
    labels = as_positives(positives, n=len(values))
    wins = pairs = 0.0
    for high in values[labels]:
        for low in values[~labels]:
            wins += 1.0 if high > low else 0.5 if high == low else 0.0
            pairs += 1
    return wins / pairs if pairs else np.nan


def naive_auroc_bootstrap(scores: Any, positives: Any, *, groups: Any = None, resamples: int = 2000, seed: int = 0) -> Floats:
    """Build every resample row by row and count its pairs; NaN where a class is missing."""
    values = as_floats(scores, name="scores")
    labels = as_positives(positives, n=len(values))
    unit_of_row, n_units, _ = units(groups, n=len(values), seed=seed)
    result = []
    for counts in resample_counts(n_units, resamples=resamples, seed=seed):
        for column in counts.T:
            rows = np.repeat(np.arange(len(values)), column[unit_of_row].astype(np.int64))
            result.append(naive_auroc(values[rows], labels[rows]) if len(rows) else np.nan)
    return np.array(result)


def naive_mahalanobis_cosine(first: Any, second: Any, activations: Any) -> float:
    """``u' S v / sqrt(u' S u * v' S v)`` with the covariance matrix ``S [d, d]`` written out."""
    u, v = as_floats(first, name="first"), as_floats(second, name="second")
    covariance = np.atleast_2d(np.cov(as_floats(activations, name="activations", ndim=(2,)), rowvar=False, bias=True))
    return float(u @ covariance @ v / np.sqrt((u @ covariance @ u) * (v @ covariance @ v)))
