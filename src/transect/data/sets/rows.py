"""What a built-in set is made of, and the packaged facts that it is made from."""

import csv
import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from importlib import resources
from typing import Any

from transect.data.files import Columns, object_array
from transect.data.table import Kind

TRUTH = "whether the statement is true"


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class BuiltinRows:
    """The columns of a built-in set (text or messages, label, group, and more), and what it says of itself.

    Args:
        columns: ``[n]`` each.
        notes: where it comes from and what it cannot show, one sentence or two each.
        meaning: what the label says, and what decides it here; None where the two are the same.
        kind: what the labels are, where their values do not say.
    """

    columns: Columns
    notes: tuple[str, ...]
    meaning: tuple[str, str] | None = None
    kind: Kind | None = None


def facts(name: str) -> list[dict[str, str]]:
    """The rows of a packaged file of facts."""
    text = resources.files("transect.data").joinpath("facts", f"{name}.csv").read_text(encoding="utf-8")
    return list(csv.DictReader(text.splitlines()))


def fact_pairs(name: str) -> Iterator[tuple[dict[str, str], dict[str, str]]]:
    """The facts of a file two by two; swap groups are made from them."""
    rows = facts(name)
    return zip(rows[::2], rows[1::2], strict=True)


def as_columns(rows: Sequence[Mapping[str, Any]]) -> Columns:
    """Columns from rows that all have the same keys."""
    columns = {name: object_array([row[name] for row in rows]) for name in rows[0]}
    if all(isinstance(value, int) for value in columns["label"].tolist()):
        columns["label"] = columns["label"].astype(int)
    return columns
