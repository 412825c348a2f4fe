"""A `Table` as one Parquet file and back, equal to the last bit: what a run keeps, so that it can be gone on with later."""

import json
import os
from typing import Any

import numpy as np

from transect._files import atomic_path
from transect.data.table import Table
from transect.errors import StoreError

FORMAT = b"transect.table/1"


def save_table(table: Table, path: str | os.PathLike[str]) -> None:
    """Write a table; readable by anything that reads Parquet.

    Args:
        table: what to keep. Extra columns whose values are not plain (text, numbers, truth values, lists of these) are kept as text.
        path: the file.

    Raises:
        StoreError: the file cannot be written.

    Examples:
        >>> import tempfile
        >>> from transect.data import read_table
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     save_table(read_table("cities"), folder + "/cities.parquet")
        ...     load_table(folder + "/cities.parquet").digest == read_table("cities").digest
        True
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns: dict[str, list[str]] = {"text": list(table.texts), "dataset": [str(name) for name in table.dataset]}
    if table.messages is not None:
        columns["messages"] = [_json([dict(message) for message in chat]) for chat in table.messages]
    for name, values in (("label", table.labels), ("group", table.groups), ("split", table.splits)):
        if values is not None:
            columns[name] = [_json(value) for value in values.tolist()]
    columns |= {f"span:{name}": [_json(pair) for pair in pairs] for name, pairs in table.spans.items()}
    columns |= {f"extra:{name}": [_json(value) for value in values.tolist()] for name, values in table.extra.items()}
    about = {
        "name": table.name,
        "kind": table.kind,
        "classes": None if table.classes is None else list(table.classes),
        "source": table.source,
        "notes": list(table.notes),
        "meaning": table.meaning,
        "label_dtype": None if table.labels is None else str(table.labels.dtype),
        "digest": table.digest,
    }
    held = pa.table({name: pa.array(values, type=pa.large_string()) for name, values in columns.items()})
    held = held.replace_schema_metadata({b"format": FORMAT, b"table": json.dumps(about).encode()})
    with atomic_path(path) as temporary:
        pq.write_table(held, temporary, compression="zstd")


def load_table(path: str | os.PathLike[str]) -> Table:
    """Read back what `save_table` wrote.

    Args:
        path: the file.

    Raises:
        StoreError: the file is missing, damaged, or something else.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        held = pq.read_table(path)
        about = json.loads((held.schema.metadata or {})[b"table"])
    except (OSError, KeyError, ValueError, pa.ArrowException) as error:
        raise StoreError(f"{path} is no table that transect kept, or it is damaged ({error}). Run transect probe again.") from error
    columns = {name: held.column(name).to_pylist() for name in held.column_names}
    parsed = {name: [json.loads(value) for value in values] for name, values in columns.items() if name not in ("text", "dataset")}
    dtype = about["label_dtype"]
    table = Table(
        name=about["name"],
        texts=tuple(columns["text"]),
        messages=tuple(parsed["messages"]) if "messages" in parsed else None,
        labels=None if dtype is None else np.array(parsed["label"], dtype=dtype),
        kind=about["kind"],
        classes=None if about["classes"] is None else tuple(about["classes"]),
        groups=_objects(parsed.get("group")),
        spans={name[5:]: tuple((start, end) for start, end in values) for name, values in parsed.items() if name.startswith("span:")},
        splits=_objects(parsed.get("split")),
        dataset=np.array(columns["dataset"], dtype=object),
        extra={name[6:]: _column(values) for name, values in parsed.items() if name.startswith("extra:")},
        source=about["source"],
        notes=tuple(about["notes"]),
        meaning=None if about["meaning"] is None else (about["meaning"][0], about["meaning"][1]),
    )
    if table.digest != about["digest"]:
        raise StoreError(f"{path} is damaged: its rows are not those that were written. Run transect probe again.")
    return table


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


def _objects(values: list[Any] | None) -> np.ndarray | None:
    return None if values is None else _column(values)


def _column(values: list[Any]) -> np.ndarray:
    column = np.empty(len(values), dtype=object)
    column[:] = values
    return column
