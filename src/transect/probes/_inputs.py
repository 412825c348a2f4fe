"""Reading what a user hands to a fitter: scikit-learn's checks for arrays, the same checks for tensors where they are."""

from typing import Any

import numpy as np
import torch
from scipy import sparse
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, column_or_1d, validate_data

from transect.errors import InputError
from transect.probes._rotation import working_dtype


def read_rows(estimator: Any, rows: Any, *, reset: bool) -> torch.Tensor:
    """Rows ``[n, d]`` as a floating-point tensor on the device they are on.

    Args:
        estimator: whose width they must have, or get.
        rows: an array or a tensor.
        reset: whether this is a fit, which sets the width.

    Raises:
        InputError: NaN or infinity (its row is named), an empty or one-dimensional input, another width, complex or sparse values.
    """
    if sparse.issparse(rows):
        raise InputError(f"expected dense activations, got a sparse {type(rows).__name__}. Use X.toarray().")
    if not isinstance(rows, torch.Tensor):
        try:
            array = validate_data(estimator, rows, reset=reset, dtype=[np.float64, np.float32], ensure_all_finite=False)
        except ValueError as error:
            raise InputError(str(error)) from error
        array = np.ascontiguousarray(array)
        kept = torch.from_numpy(array if array.flags.writeable else array.copy())
        _check_finite(kept)
        return kept
    if rows.ndim != 2 or rows.numel() == 0:
        raise InputError(f"expected activations [n, d] with at least one row and one column, got {list(rows.shape)}.")
    if rows.is_complex() or rows.layout != torch.strided:
        raise InputError(f"expected real, dense activations, got {rows.dtype} in layout {rows.layout}.")
    plain = rows.detach()
    # Half precision may be stored, but not computed with: at least float32 comes back.
    kept = plain.to(torch.promote_types(plain.dtype, torch.float32) if plain.is_floating_point() else torch.get_default_dtype())
    _check_finite(kept)
    if reset:
        estimator.n_features_in_ = rows.shape[1]
    elif rows.shape[1] != estimator.n_features_in_:
        raise InputError(
            f"X has {rows.shape[1]} features, but {type(estimator).__name__} is expecting {estimator.n_features_in_} features."
        )
    return kept


def _check_finite(rows: torch.Tensor) -> None:
    finite = torch.isfinite(rows).all(dim=1)
    if not finite.all():
        bad = int(torch.nonzero(~finite)[0])
        raise InputError(
            f"expected finite activations, but row {bad} of X holds NaN or inf ({int((~finite).sum())} such rows in all). "
            f"Drop or repair them; half precision overflows to inf above 65504."
        )


def read_targets(labels: Any, *, n: int, device: torch.device, numbers: bool) -> tuple[torch.Tensor, np.ndarray | None]:
    """Labels ``[n]`` as class indices with the sorted classes, or as numbers with None.

    Raises:
        InputError: lengths that differ, NaN, or labels that are not classes.
    """
    if labels is None:
        raise InputError("requires y to be passed, but the target y is None.")
    plain = labels.detach().cpu().numpy() if isinstance(labels, torch.Tensor) else labels
    try:
        array = column_or_1d(plain, warn=True)
    except ValueError as error:
        raise InputError(str(error)) from error
    if array.dtype.kind == "c":
        raise InputError("Complex data not supported: the labels are complex. Give one real number or label per row.")
    if len(array) != n:
        raise InputError(f"expected one label for each of the {n} rows, got {len(array)} (inconsistent numbers of samples).")
    missing = ~np.isfinite(array) if array.dtype.kind == "f" else np.array([value is None or value != value for value in array.tolist()])  # noqa: PLR0124 - NaN differs from itself
    if missing.any():
        bad = int(np.flatnonzero(missing)[0])
        raise InputError(
            f"expected a label in every row, but that of row {bad} is {array[bad]} (NaN, inf or None in {int(missing.sum())} rows)."
        )
    try:
        if numbers:
            return torch.from_numpy(array.astype(np.float64)).to(device), None
        check_classification_targets(array)
        classes, codes = np.unique(array, return_inverse=True)
    except (ValueError, TypeError) as error:
        raise InputError(f"these labels cannot be used: {error}") from error
    return torch.from_numpy(codes.astype(np.int64)).to(device), classes


def read_weights(weights: Any, rows: torch.Tensor) -> torch.Tensor:
    """Weights ``[n]`` in the working precision; ones where none were given.

    Raises:
        InputError: lengths that differ, negative weights, or all zero.
    """
    working = working_dtype(rows.device)
    if weights is None:
        return torch.ones(len(rows), dtype=working, device=rows.device)
    plain = weights.detach().cpu().numpy() if isinstance(weights, torch.Tensor) else weights
    try:
        array = _check_sample_weight(plain, np.empty((len(rows), 1)), dtype=np.float64)
    except ValueError as error:
        raise InputError(str(error)) from error
    if (array < 0).any() or not array.any():
        raise InputError("expected sample weights of at least 0, and some above it.")
    return torch.from_numpy(array).to(device=rows.device, dtype=working)
