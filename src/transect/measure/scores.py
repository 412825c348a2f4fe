"""How good scores are: AUROC, accuracy, R2, Spearman; the same values as scikit-learn and SciPy give.

AUROC is the probability that a positive example scores higher than a negative one, ties counting one half: the
Mann-Whitney statistic from mid-ranks (Hanley and McNeil 1982). `naive.py` has the pair count that defines it.
"""

from typing import Any

import numpy as np
from scipy import stats

from transect.errors import InputError
from transect.measure._inputs import Bools, Floats, as_classes, as_floats, as_positives, check_length


def auroc(scores: Any, positives: Any, *, weights: Any = None) -> float:
    """Area under the ROC curve; 0.5 for equal scores, 0 for a perfectly inverted score.

    Args:
        scores: ``[n]``, higher for the positive class.
        positives: ``[n]``, booleans or 0 and 1.
        weights: ``[n]``, how much each row counts; None counts each once.

    Raises:
        InputError: one class only, NaN (its row is named), or lengths that differ.

    Examples:
        >>> auroc([0.1, 0.4, 0.35, 0.8], [0, 0, 1, 1])
        0.75
    """
    values = as_floats(scores, name="scores")
    labels = as_positives(positives, n=len(values))
    if labels.ndim != 1:
        raise InputError(f"positives must have one axis here, got shape {list(labels.shape)}; use auroc_columns for many at once.")
    if weights is None:
        return float(auroc_columns(values, labels)[0])
    amounts = as_floats(weights, name="weights")
    check_length(amounts, n=len(values), name="weights")
    if (amounts < 0).any():
        raise InputError(f"weights must not be negative, got {amounts.min():g}.")
    return _weighted_auroc(values, labels, amounts)


def auroc_columns(scores: Any, positives: Any) -> Floats:
    """AUROC of many columns at once ``[b]``: many scores of the same rows, many labellings of the same scores, or both.

    Args:
        scores: ``[n]`` or ``[n, b]``.
        positives: ``[n]`` or ``[n, b]``.

    Raises:
        InputError: as for `auroc`.

    Examples:
        >>> auroc_columns([[0.1, 9.0], [0.2, 8.0], [0.3, 7.0]], [0, 0, 1]).tolist()
        [1.0, 0.0]
    """
    values = as_floats(scores, name="scores", ndim=(1, 2))
    labels = as_positives(positives, n=len(values))
    values = values[:, None] if values.ndim == 1 else values
    labels = labels[:, None] if labels.ndim == 1 else labels
    if 1 not in {values.shape[1], labels.shape[1]} and values.shape[1] != labels.shape[1]:
        widths = f"{values.shape[1]} and {labels.shape[1]}"
        raise InputError(f"scores and positives must have as many columns, or one of them a single one, got {widths}.")
    count = labels.sum(axis=0).astype(np.float64)
    others = len(values) - count
    if (count == 0).any() or (others == 0).any():
        _raise_one_class(labels[:, np.flatnonzero((count == 0) | (others == 0))[0]])
    ranks = np.asarray(stats.rankdata(values, axis=0))
    # Ranks are halves of whole numbers, so these sums are exact in float64 whatever their order.
    total = np.einsum("nb,nb->b", *np.broadcast_arrays(ranks, labels.astype(np.float64)))
    return (total - count * (count + 1) / 2) / (count * others)


def multiclass_auroc(scores: Any, codes: Any) -> float:
    """Macro AUROC: each class against the rest, by its own column, then the plain mean over classes.

    Args:
        scores: ``[n, k]``, a column for each class.
        codes: ``[n]``, the class index of each row.

    Raises:
        InputError: a class without rows (it is named), or an index without a column.
    """
    values = as_floats(scores, name="scores", ndim=(2,))
    labels = as_classes(codes, n=len(values))
    return float(auroc_columns(values, one_against_rest(labels, values.shape[1])).mean())


def one_against_rest(codes: Any, n_classes: int) -> Bools:
    """``[n, k]``: whether each row is of each class.

    Raises:
        InputError: a class without rows, or an index beyond the classes.
    """
    labels = as_classes(codes, n=len(codes))
    if labels.max() >= n_classes:
        raise InputError(f"codes hold class {labels.max()} but scores have {n_classes} columns (0 to {n_classes - 1}).")
    present = np.bincount(labels, minlength=n_classes) > 0
    if not present.all():
        missing = np.flatnonzero(~present).tolist()
        raise InputError(f"macro AUROC needs rows of every class, got none of class {missing}; leave out the columns of such classes.")
    return labels[:, None] == np.arange(n_classes)


def accuracy(predicted: Any, codes: Any) -> float:
    """Share of rows whose predicted class index is right.

    Examples:
        >>> accuracy([0, 1, 1, 1], [0, 1, 0, 1])
        0.75
    """
    labels = as_classes(codes, n=len(codes))
    return float((as_classes(predicted, n=len(labels), name="predicted") == labels).mean())


def balanced_accuracy(predicted: Any, codes: Any) -> float:
    """Mean over the classes present of the share of their rows that is right; 1/k for guessing among k classes."""
    labels = as_classes(codes, n=len(codes))
    right = as_classes(predicted, n=len(labels), name="predicted") == labels
    return float(np.mean([right[labels == label].mean() for label in np.unique(labels)]))


def r2(predicted: Any, targets: Any) -> float:
    """Coefficient of determination: 1 is exact, 0 is no better than the targets' mean, and it may be negative.

    Raises:
        InputError: all targets are equal, so there is nothing to explain.
    """
    truth = as_floats(targets, name="targets")
    guess = as_floats(predicted, name="predicted")
    check_length(guess, n=len(truth), name="predicted")
    spread = ((truth - truth.mean()) ** 2).sum()
    if spread == 0:
        raise InputError(f"R2 needs targets that differ, got {len(truth)} times {truth[0]:g}.")
    return float(1 - ((truth - guess) ** 2).sum() / spread)


def spearman(scores: Any, targets: Any) -> float:
    """Spearman's rank correlation, mid-ranks for ties; 0 where all scores are equal, for they order nothing.

    Raises:
        InputError: all targets are equal, or fewer than two rows.
    """
    values = as_floats(scores, name="scores")
    truth = as_floats(targets, name="targets")
    check_length(truth, n=len(values), name="targets")
    if (truth == truth[0]).all():
        raise InputError(f"Spearman correlation needs targets that differ, got {len(truth)} times {truth[0]:g}.")
    first = np.asarray(stats.rankdata(values)) - (len(values) + 1) / 2
    second = np.asarray(stats.rankdata(truth)) - (len(values) + 1) / 2
    norm = np.sqrt((first @ first) * (second @ second))
    return float(first @ second / norm) if norm > 0 else 0.0


def _weighted_auroc(values: Floats, labels: Bools, amounts: Floats) -> float:
    if not amounts[labels].sum() > 0 or not amounts[~labels].sum() > 0:
        raise InputError("AUROC needs both classes, but the weights of one class are all 0.")
    _, block = np.unique(values, return_inverse=True)
    above = np.bincount(block, weights=amounts * labels)
    tied = np.bincount(block, weights=amounts * ~labels)
    below = np.cumsum(tied) - tied
    return float(above @ (below + tied / 2) / (above.sum() * tied.sum()))


def _raise_one_class(labels: Bools) -> None:
    kind = "positive" if labels[0] else "negative"
    raise InputError(f"AUROC needs both classes, but all {len(labels)} rows are {kind}; use a set that holds both.")
