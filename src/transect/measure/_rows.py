"""Rows, two classes and held-out groups, read and checked once for the measures that fit probes."""

from typing import Any

import numpy as np
import torch

from transect.errors import InputError, SampleSizeError
from transect.measure._inputs import Bools, Ints, as_floats, as_groups, check_length, plain


def as_rows(x: Any, *, name: str = "x") -> torch.Tensor:
    """Rows ``[n, d]`` as a floating-point tensor, where they are.

    Raises:
        InputError: not ``[n, d]``, empty, or not finite (the first such row is named).
    """
    rows = x.detach() if isinstance(x, torch.Tensor) else torch.from_numpy(as_floats(x, name=name, ndim=(2,)))
    if rows.ndim != 2 or rows.numel() == 0:
        raise InputError(f"{name} must be [n, d] with at least one row and one column, got {list(rows.shape)}.")
    rows = rows if rows.is_floating_point() else rows.to(torch.float64)
    finite = torch.isfinite(rows).all(1)
    if not finite.all():
        bad = int(torch.nonzero(~finite)[0])
        raise InputError(f"{name} must be finite, got NaN or infinity in {int((~finite).sum())} rows, the first is row {bad}.")
    return rows


def two_classes(labels: Any, *, n: int) -> tuple[Ints, tuple[Any, Any]]:
    """Codes ``[n]``, 0 and 1, and the two labels in their sorted order.

    Raises:
        InputError: lengths that differ, a label that is missing (its row is named), or not two classes.
    """
    array = plain(labels)
    if array.ndim != 1:
        raise InputError(f"labels must have one axis, got shape {list(array.shape)}.")
    check_length(array, n=n, name="labels")
    missing = [at for at, value in enumerate(array.tolist()) if value is None or value != value]  # noqa: PLR0124 - NaN differs from itself
    if missing:
        raise InputError(f"labels must be known, got {array[missing[0]]} in row {missing[0]} ({len(missing)} such rows); drop them.")
    classes, codes = np.unique(array, return_inverse=True)
    if len(classes) != 2:
        shown = ", ".join(repr(value) for value in classes[:5].tolist())
        raise InputError(f"labels must be of two classes, got {len(classes)}: {shown}.")
    first, second = classes.tolist()
    return codes.astype(np.int64), (first, second)


def held_out_rows(codes: Ints, groups: Any, *, held_out: Any, share: float, seed: int) -> Bools:
    """Which rows ``[n]`` are scored and not fitted: as given, or whole groups drawn at random, so that both sides have both classes.

    Groups are drawn within kinds: those of class 0 only, of class 1 only, and mixed ones.

    Raises:
        InputError: a group on both sides, one side without a class, or a share outside 0 to 1.
        SampleSizeError: too few groups to have both classes on both sides.
    """
    n = len(codes)
    units, n_units = as_groups(groups, n=n)
    if held_out is not None:
        mask = as_floats(held_out, name="held_out").astype(bool)
        check_length(mask, n=n, name="held_out")
        both = np.intersect1d(units[mask], units[~mask])
        if len(both):
            name = plain(groups)[units == both[0]].tolist()[0]
            raise InputError(f"group {name!r} has rows on both sides of held_out ({len(both)} such groups); hold whole groups out.")
    else:
        if not 0 < share < 1:
            raise InputError(f"share must lie between 0 and 1, got {share}; 0.5 is usual.")
        rng, mask = np.random.default_rng(seed), np.zeros(n, dtype=bool)
        mean = np.bincount(units, codes) / np.bincount(units)
        for kind in (mean == 0, mean == 1, (mean > 0) & (mean < 1)):
            order = rng.permutation(np.flatnonzero(kind))
            mask |= np.isin(units, order[: round(share * len(order))])
    for side, name in ((mask, "held-out"), (~mask, "fitted")):
        if len(np.unique(codes[side])) < 2:
            message = f"both classes are needed on both sides, but the {int(side.sum())} {name} rows of {n} ({n_units} groups) lack one."
            raise SampleSizeError(f"{message} Bring at least 2 groups of each class.", needed=4, got=n_units)
    return mask
