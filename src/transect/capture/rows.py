"""The table of rows: which example and which tokens each row of activations came from, and its label."""

import hashlib
from typing import TYPE_CHECKING, Any

import numpy as np

from transect.capture.examples import Examples
from transect.data import Table
from transect.sites import TokenRule

if TYPE_CHECKING:
    import pyarrow as pa


def row_begins(examples: Examples, rule: TokenRule, *, tokens: int | None) -> np.ndarray:
    """``[n + 1]`` int64: where each example's rows of activations begin.

    Args:
        examples: what is run.
        rule: the token rule; only ``all`` gives more than one row per example.
        tokens: for tensors, how many tokens each example has at the sites.
    """
    per_example = np.ones(len(examples), dtype=np.int64)
    if rule.reduces == "all":
        per_example = examples.reads[:, 1] - examples.reads[:, 0] if examples.kind == "tokens" else per_example * (tokens or 1)
    return np.concatenate([[0], np.cumsum(per_example)])


def targets_of(begins: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Which rows of activations belong to these examples, example after example."""
    return np.concatenate([np.arange(start, stop) for start, stop in zip(begins[rows].tolist(), begins[rows + 1].tolist(), strict=True)])


def row_table(examples: Examples, rule: TokenRule, begins: np.ndarray) -> "pa.Table":
    """One row per row of activations, in their order."""
    import pyarrow as pa

    # Which example each row belongs to; the rule `all` has several rows per example.
    row = np.repeat(np.arange(len(examples)), np.diff(begins))
    columns: dict[str, pa.Array] = {"row": _array(row)}
    if examples.kind == "tokens":
        columns |= {
            "n_tokens": _array(examples.lengths[row]),
            "start": _array(examples.reads[row, 0]),
            "stop": _array(examples.reads[row, 1]),
        }
    if rule.reduces == "all":
        position = np.arange(len(row)) - begins[:-1][row]
        if examples.kind == "tokens":
            position += examples.reads[row, 0]
            columns["token_id"] = _array(examples.ids[examples.offsets[:-1][row] + position])
        columns["position"] = _array(position)
    elif examples.kind == "tokens":
        columns["token_ids"] = pa.LargeListArray.from_arrays(_array(examples.offsets), _array(examples.ids))
    if examples.table is not None:
        columns |= _table_columns(examples.table, row)
    return pa.Table.from_arrays(list(columns.values()), names=list(columns))


def _table_columns(table: Table, row: np.ndarray) -> "dict[str, pa.Array]":
    hashes = [hashlib.blake2b(text.encode(), digest_size=8).hexdigest() for text in table.texts]
    given = {"text_hash": np.array(hashes), "label": table.labels, "group": table.groups, "split": table.splits, "dataset": table.dataset}
    return {name: _array(values[row]) for name, values in given.items() if values is not None}


def _array(values: np.ndarray) -> "pa.Array":
    """A column from its memory: `pa.array` would import pandas, wherever it is installed, which takes a second."""
    import pyarrow as pa

    if values.dtype == object or values.dtype.kind in "US":
        return _object_array(values.tolist())
    if values.dtype == bool:
        return pa.Array.from_buffers(pa.bool_(), len(values), [None, pa.py_buffer(np.packbits(values, bitorder="little"))])
    return pa.Array.from_buffers(pa.from_numpy_dtype(values.dtype), len(values), [None, pa.py_buffer(np.ascontiguousarray(values))])


def _object_array(values: list[Any]) -> "pa.Array":
    import pyarrow as pa

    if {type(value) for value in values} in ({bool}, {int}, {float}):
        numbers = np.array(values)
        if numbers.dtype != object:  # as it is for whole numbers beyond 64 bits
            return _array(numbers)
    encoded = [str(value).encode() for value in values]
    ends = np.cumsum([0, *map(len, encoded)], dtype=np.int64)
    return pa.Array.from_buffers(pa.large_string(), len(values), [None, pa.py_buffer(ends), pa.py_buffer(b"".join(encoded))])
