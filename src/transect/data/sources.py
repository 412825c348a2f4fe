"""From an object in memory to named columns: lists, dicts of columns, pandas, polars, pyarrow, Hugging Face `datasets`.

Objects are known by what they can do and not by their type, so none of those libraries is imported unless the caller
already uses it.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from transect.data.files import Columns, arrow_columns, object_array, row_columns
from transect.data.table import Kind
from transect.errors import TableError


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Source:
    """Columns of one length, the declared classes of those that have them, and what a built-in set says of itself."""

    columns: Columns
    name: str
    declared: Mapping[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)
    notes: tuple[str, ...] = ()
    meaning: tuple[str, str] | None = None
    kind: Kind | None = None


def read_object(source: Any) -> Source:
    """The columns of an object.

    Raises:
        TableError: nothing known, rows of mixed types, or columns of unequal length.
    """
    found = _read(source)
    lengths = {name: len(column) for name, column in found.columns.items()}
    if len(set(lengths.values())) > 1:
        raise TableError(f"the columns must have one length, got {lengths}.")
    return found


def _read(source: Any) -> Source:
    if isinstance(source, Mapping) and source and all(map(_is_dataset, source.values())):
        return _dataset_dict(source)
    if isinstance(source, Mapping):
        return Source(columns={str(name): _array(name, values) for name, values in source.items()}, name="columns")
    if _is_dataset(source):
        return _dataset(source)
    if hasattr(source, "column_names") and hasattr(source, "to_pylist"):
        return Source(columns=arrow_columns(source), name="table")
    if hasattr(source, "iloc") and hasattr(source, "columns"):
        return _data_frame(source)
    if hasattr(source, "to_arrow"):
        return Source(columns=arrow_columns(source.to_arrow()), name="table")
    if isinstance(source, np.ndarray):
        return _rows(source.tolist())
    if isinstance(source, Sequence) and not isinstance(source, (str, bytes)):
        return _rows(source)
    raise TableError(
        f"cannot read labelled text from {type(source).__name__}; expected a built-in name, a file, a list of texts or of dicts, a dict of "
        f"columns, a data frame or a Hugging Face dataset. A generator or a streamed dataset must be made a list first."
    )


def _array(name: Any, values: Any) -> np.ndarray:
    if isinstance(values, np.ndarray):
        return values
    if isinstance(values, str) or not isinstance(values, Sequence):
        raise TableError(f"the column {name!r} must be a list of values, got {type(values).__name__}.")
    return object_array(values)


def _rows(rows: Sequence[Any]) -> Source:
    if len(rows) == 0:
        raise TableError("the list has 0 rows; at least one text is needed.")
    if all(isinstance(row, str) for row in rows):
        return Source(columns={"text": object_array(rows)}, name="texts")
    if all(isinstance(row, (list, tuple)) for row in rows):
        return Source(columns={"messages": object_array(rows)}, name="chats")
    if all(isinstance(row, str) or row is None for row in rows):
        return Source(columns={"text": object_array(rows)}, name="texts")
    return Source(columns=row_columns(rows, where="the list"), name="rows")


def _data_frame(frame: Any) -> Source:
    names = [str(name) for name in frame.columns]
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise TableError(f"the columns {', '.join(map(repr, repeated))} are there more than once; give every column its own name.")
    return Source(columns={name: object_array(frame.iloc[:, at].tolist()) for at, name in enumerate(names)}, name="frame")


def _is_dataset(source: Any) -> bool:
    return hasattr(source, "column_names") and hasattr(source, "features") and hasattr(source, "with_format") and hasattr(source, "__len__")


def _dataset(dataset: Any) -> Source:
    columns = arrow_columns(dataset.with_format("arrow")[:])
    declared: dict[str, tuple[str, ...]] = {}
    for name, feature in (dataset.features or {}).items():
        names = getattr(feature, "names", None)
        if names and name in columns:
            declared[name] = tuple(names)
            # Hidden labels are stored as -1.
            columns[name] = object_array([names[int(code)] if code is not None and code >= 0 else None for code in columns[name].tolist()])
    title = getattr(getattr(dataset, "info", None), "dataset_name", None)
    return Source(columns=columns, name=title or "dataset", declared=declared)


def _dataset_dict(parts: Mapping[Any, Any]) -> Source:
    sources = {str(part): _dataset(dataset) for part, dataset in parts.items()}
    first = next(iter(sources.values()))
    for part, source in sources.items():
        if list(source.columns) != list(first.columns):
            raise TableError(
                f"the splits have different columns: {list(first.columns)} and, in {part!r}, {list(source.columns)}; pass one of them."
            )
    columns = {name: np.concatenate([source.columns[name] for source in sources.values()]) for name in first.columns}
    rows = {part: len(next(iter(source.columns.values()), ())) for part, source in sources.items()}
    columns.setdefault("split", object_array([part for part, n in rows.items() for _ in range(n)]))
    return Source(columns=columns, name=first.name, declared=first.declared)
