"""Reading what a user hands to a fitter: scikit-learn's checks for arrays, the same checks for tensors where they are."""

from typing import Any

import numpy as np
import torch
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, column_or_1d, validate_data

from transect.errors import InputError


def read_rows(estimator: Any, rows: Any, *, reset: bool) -> torch.Tensor:
    """Rows ``[n, d]`` as a floating-point tensor on the device they are on.

    Args:
        estimator: whose width they must have, or get.
        rows: an array or a tensor.
        reset: whether this is a fit, which sets the width.

    Raises:
        InputError: NaN or infinity (its row is named), an empty or one-dimensional input, another width, complex or sparse values.
    """
    if not isinstance(rows, torch.Tensor):
        array = validate_data(estimator, rows, reset=reset, dtype=[np.float64, np.float32], ensure_min_samples=1)
        return torch.from_numpy(np.ascontiguousarray(array))
    if rows.ndim != 2 or rows.numel() == 0:
        raise InputError(f"expected activations [n, d] with at least one row and one column, got {list(rows.shape)}.")
    if rows.is_complex() or rows.layout != torch.strided:
        raise InputError(f"expected real, dense activations, got {rows.dtype} in layout {rows.layout}.")
    kept = rows.detach() if rows.is_floating_point() else rows.detach().to(torch.get_default_dtype())
    finite = torch.isfinite(kept).all(dim=1)
    if not finite.all():
        bad = int(torch.nonzero(~finite)[0])
        raise InputError(f"expected finite activations, but row {bad} holds NaN or infinity ({int((~finite).sum())} such rows in all).")
    if reset:
        estimator.n_features_in_ = rows.shape[1]
    elif rows.shape[1] != estimator.n_features_in_:
        raise InputError(f"X has {rows.shape[1]} features, but {type(estimator).__name__} is expecting {estimator.n_features_in_} features.")
    return kept


def read_targets(labels: Any, *, n: int, device: torch.device, numbers: bool) -> tuple[torch.Tensor, np.ndarray | None]:
    """Labels ``[n]`` as class indices with the sorted classes, or as numbers with None.

    Raises:
        InputError: lengths that differ, NaN, or labels that are not classes.
    """
    if labels is None:
        raise InputError("requires y to be passed, but the target y is None.")
    plain = labels.detach().cpu().numpy() if isinstance(labels, torch.Tensor) else labels
    array = column_or_1d(plain, warn=True)
    if len(array) != n:
        raise InputError(f"expected one label for each of the {n} rows, got {len(array)} (inconsistent numbers of samples).")
    if array.dtype.kind in "fc" and not np.isfinite(array).all():
        bad = int(np.flatnonzero(~np.isfinite(array))[0])
        raise InputError(f"expected finite labels, but label {bad} is {array[bad]} (Input contains NaN or infinity).")
    if numbers:
        return torch.as_tensor(array.astype(np.float64), device="cpu").to(device), None
    check_classification_targets(array)
    classes, codes = np.unique(array, return_inverse=True)
    return torch.from_numpy(codes.astype(np.int64)).to(device), classes


def read_weights(weights: Any, rows: torch.Tensor) -> torch.Tensor:
    """Weights ``[n]`` in the working precision; ones where none were given.

    Raises:
        InputError: lengths that differ, negative weights, or all zero.
    """
    from transect.probes._rotation import working_dtype

    working = working_dtype(rows.device)
    if weights is None:
        return torch.ones(len(rows), dtype=working, device=rows.device)
    plain = weights.detach().cpu().numpy() if isinstance(weights, torch.Tensor) else weights
    array = _check_sample_weight(plain, np.empty((len(rows), 1)), dtype=np.float64)
    if (array < 0).any() or not array.any():
        raise InputError("expected sample weights of at least 0, and some above it.")
    return torch.from_numpy(array).to(device=rows.device, dtype=working)
