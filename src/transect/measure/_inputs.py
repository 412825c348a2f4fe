"""Whatever the caller holds (lists, NumPy, torch on any device) becomes a checked NumPy array, once."""

from typing import Any

import numpy as np
import torch

from transect.errors import InputError

Floats = np.ndarray[Any, np.dtype[np.float64]]
Ints = np.ndarray[Any, np.dtype[np.int64]]
Bools = np.ndarray[Any, np.dtype[np.bool_]]


def plain(values: Any) -> np.ndarray[Any, Any]:
    """A NumPy array of the same numbers; bf16 and other dtypes that NumPy lacks become float32 first."""
    if isinstance(values, torch.Tensor):
        values = values.detach().cpu()
        return (values.float() if values.dtype in {torch.bfloat16, torch.float16} else values).numpy()
    return np.asarray(values)


def as_floats(values: Any, *, name: str, ndim: tuple[int, ...] = (1,)) -> Floats:
    """Float64 with one of the numbers of axes asked for.

    Raises:
        InputError: not numbers, another number of axes, empty, or not finite (the row is named).
    """
    try:
        array = plain(values).astype(np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"{name} must be numbers, got {type(values).__name__} that cannot be read as such ({error}).") from error
    if array.ndim not in ndim:
        raise InputError(f"{name} must have {' or '.join(map(str, ndim))} axes, got shape {list(array.shape)}.")
    if array.shape[0] == 0:
        raise InputError(f"{name} is empty; there is nothing to measure.")
    finite = np.isfinite(array)
    if not finite.all():
        rows = np.flatnonzero(~finite.reshape(len(array), -1).all(axis=1))
        where = f"{len(rows)} of {len(array)} rows, the first is row {rows[0]}"
        raise InputError(f"{name} must be finite, got NaN or infinity in {where}; remove or mend them.")
    return array


def as_classes(codes: Any, *, n: int, name: str = "codes") -> Ints:
    """Class indices ``[n]``, whole numbers from 0.

    Raises:
        InputError: not whole numbers, negative, or not one for each row.
    """
    array = as_floats(codes, name=name)
    check_length(array, n=n, name=name)
    if (array != np.floor(array)).any() or (array < 0).any():
        bad = array[(array != np.floor(array)) | (array < 0)][0]
        raise InputError(f"{name} must be class indices 0, 1, 2, ..., got {bad:g}.")
    return array.astype(np.int64)


def as_positives(positives: Any, *, n: int, name: str = "positives") -> Bools:
    """Booleans ``[n]`` or ``[n, b]``: True for the positive class.

    Raises:
        InputError: values other than 0 and 1, or not one for each row.
    """
    array = as_floats(positives, name=name, ndim=(1, 2))
    check_length(array, n=n, name=name)
    if not np.isin(array, (0.0, 1.0)).all():
        bad = array[~np.isin(array, (0.0, 1.0))][0]
        raise InputError(f"{name} must be booleans or 0 and 1, got {bad:g}; for more than two classes use the multi-class measures.")
    return array.astype(bool)


def as_groups(groups: Any, *, n: int) -> tuple[Ints, int]:
    """Group indices ``[n]`` and how many groups there are; None makes every row its own group."""
    if groups is None:
        return np.arange(n), n
    array = plain(groups)
    if array.ndim != 1:
        raise InputError(f"groups must have one axis, got shape {list(array.shape)}.")
    check_length(array, n=n, name="groups")
    if array.dtype == object:
        array = array.astype(str)
    names, codes = np.unique(array, return_inverse=True)
    return codes.astype(np.int64), len(names)


def check_length(array: np.ndarray[Any, Any], *, n: int, name: str) -> None:
    """Raise where an array has another number of rows than the scores."""
    if len(array) != n:
        raise InputError(f"{name} must have one entry for each of the {n} rows, got {len(array)}.")
