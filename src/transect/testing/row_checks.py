"""The contract of what is computed from row-aligned arrays: scores, summaries, audits."""

import dataclasses
import numbers
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import torch

from transect.errors import TransectError
from transect.measure import Estimate
from transect.testing._assertions import must, refused, untouched


def check_rows(
    function: Callable[..., Any],
    rows: Mapping[str, Any],
    *,
    axes: Mapping[str, int] | None = None,
    ordered: bool = False,
    called: str = "row",
) -> None:
    """Check what a function makes of arrays with a row for each example.

    1. Purity: the arrays and random states are as before, and again it gives the same; tensors and arrays agree.
    2. Rows: one result for each row is reordered as the rows are; summaries (values, not the ends of resampled intervals) do not mind the order.
    3. Nothing comes out NaN.
    4. Edges: NaN in a row of any array of numbers is refused, with the row; so is one array that is a row short.

    Args:
        function: called with `rows` by name; its settings already given.
        rows: arrays of n rows, or lists of them, by the names of its arguments.
        axes: along which axis rows lie, for those where it is not the first.
        called: what its errors call a row.
        ordered: whether it may mind the order of rows, as what is read as a stream does, or what deals rows to folds by their place.

    Raises:
        AssertionError: a clause does not hold; the message says which.

    Examples:
        >>> from transect.decide import peak_suspicion
        >>> check_rows(peak_suspicion, {"scores": np.random.default_rng(0).normal(size=(12, 4))})
    """
    axes = axes or {}
    places = {name: axes.get(name, 0) for name in rows}
    n = np.shape(rows[next(iter(rows))])[places[next(iter(rows))]]
    arrays = [value for value in rows.values() if isinstance(value, np.ndarray)]
    with untouched("it", *arrays):
        found = function(**rows)
    values = dict(_values(found))
    must(values, "nothing comes out")
    for path, value in values.items():
        must(not np.isnan(value).any(), f"NaN: {path or 'the result'} is NaN")
    _same(values, dict(_values(function(**rows))), "purity: again it gives another result", 0)
    tensors = {
        name: torch.from_numpy(value) if isinstance(value, np.ndarray) and value.dtype.kind in "fib" else value
        for name, value in rows.items()
    }
    _same(values, dict(_values(function(**tensors))), "purity: tensors and arrays give different results", 1e-9)
    if not ordered:
        order = np.random.default_rng(1).permutation(n)
        moved = function(**{name: _take(value, order, places[name]) for name, value in rows.items()})
        if isinstance(found, np.ndarray) and found.shape[:1] == (n,):
            must(np.allclose(moved, found[order], rtol=1e-9, atol=1e-9), "rows: reordered rows do not give the reordered results")
        else:
            kept = dict(_values(found, ends=False))
            _same(kept, dict(_values(moved, ends=False)), "rows: the order of the rows matters", 1e-9)
    for name, value in rows.items():
        if isinstance(value, np.ndarray) and value.dtype.kind == "f":
            lost = value.copy()
            lost[(slice(None),) * places[name] + (7,)] = np.nan
            with refused(f"edges: NaN in {name} is accepted", TransectError, says=f"{called} 7"):
                function(**{**rows, name: lost})
        if len(rows) > 1:
            with refused(f"edges: {name} one row short is accepted", TransectError):
                function(**{**rows, name: _take(value, np.arange(n - 1), places[name])})


def _take(value: Any, order: np.ndarray, axis: int) -> Any:
    if isinstance(value, np.ndarray):
        return np.take(value, order, axis)
    return [value[at] for at in order] if axis == 0 else [_take(part, order, axis - 1) for part in value]


def _values(found: Any, path: str = "", *, ends: bool = True) -> Iterator[tuple[str, np.ndarray]]:
    """Every number in a result, with where it is; without `ends`, of an estimate only its value."""
    if isinstance(found, Estimate):
        yield f"{path}.value", np.asarray(found.value)
        if ends:
            yield f"{path}.low", np.asarray(found.low)
            yield f"{path}.high", np.asarray(found.high)
    elif isinstance(found, np.ndarray | torch.Tensor):
        if np.asarray(found).dtype.kind in "fib":
            yield path, np.asarray(found, dtype=float)
    elif isinstance(found, bool | numbers.Number):
        yield path, np.asarray(found, dtype=float)
    elif dataclasses.is_dataclass(found):
        for field in dataclasses.fields(found):
            yield from _values(getattr(found, field.name), f"{path}.{field.name}", ends=ends)
    elif isinstance(found, Mapping):
        for key, value in found.items():
            yield from _values(value, f"{path}[{key!r}]", ends=ends)
    elif isinstance(found, list | tuple):
        for place, value in enumerate(found):
            yield from _values(value, f"{path}[{place}]", ends=ends)


def _same(one: dict[str, np.ndarray], other: dict[str, np.ndarray], clause: str, bound: float) -> None:
    must(one.keys() == other.keys(), f"{clause}: {sorted(one.keys() ^ other.keys())}")
    for path, value in one.items():
        must(value.shape == other[path].shape and np.allclose(value, other[path], rtol=0, atol=bound), f"{clause}: {path or 'the result'}")
