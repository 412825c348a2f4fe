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

    columns: dict[str, Any] = {"row": np.arange(len(examples))}
    if examples.kind == "tokens":
        columns |= {"n_tokens": examples.lengths, "start": examples.reads[:, 0], "stop": examples.reads[:, 1]}
        columns["token_ids"] = pa.LargeListArray.from_arrays(examples.offsets, examples.ids)
    if examples.table is not None:
        columns |= _table_columns(examples.table)
    if rule.reduces != "all":
        return pa.table(columns)
    columns.pop("token_ids", None)
    counts = np.diff(begins)
    table = pa.table(columns).take(np.repeat(np.arange(len(examples)), counts))
    position = np.arange(begins[-1]) - np.repeat(begins[:-1], counts)
    if examples.kind == "tokens":
        position += np.repeat(examples.reads[:, 0], counts)
        table = table.append_column("token_id", pa.array(examples.ids[np.repeat(examples.offsets[:-1], counts) + position]))
    return table.append_column("position", pa.array(position))


def _table_columns(table: Table) -> dict[str, Any]:
    columns: dict[str, Any] = {"text_hash": [hashlib.blake2b(text.encode(), digest_size=8).hexdigest() for text in table.texts]}
    for name, values in (("label", table.labels), ("group", table.groups), ("split", table.splits), ("dataset", table.dataset)):
        if values is not None:
            columns[name] = values.tolist()
    return columns
