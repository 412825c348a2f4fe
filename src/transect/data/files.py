"""From a file to named columns: CSV, TSV, JSON lines, JSON and Parquet, each also compressed with gzip or zstandard.

CSV is read with every column as text, so that ``NA``, ``null``, ``01`` and ``2024-05-01`` stay what the file says and
only the label column is ever interpreted. The fast readers (pyarrow) do the work; when they refuse a file, it is read
again slowly with Python's own readers to say which line is at fault.
"""

import csv
import io
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from transect.errors import TableError

if TYPE_CHECKING:
    import pyarrow

Columns = dict[str, np.ndarray]
FORMATS = (".csv", ".tsv", ".jsonl", ".ndjson", ".json", ".parquet")
COMPRESSIONS = {".gz": "gzip", ".zst": "zstd"}


def read_columns(path: Path) -> Columns:
    """Every column of a file, in order, as arrays ``[n]``; text columns hold str and None.

    Raises:
        TableError: the file is missing, of an unknown format, damaged, not UTF-8, or its rows are of unequal length.
    """
    if not path.exists():
        raise TableError(f"there is no file {str(path)!r}.")
    if path.is_dir():
        raise TableError(f"{str(path)!r} is a folder; name one file with an ending of {_endings()}.")
    ending, compression = _ending(path)
    data = _bytes(path, compression)
    if ending == ".parquet":
        return _parquet(data, path)
    if data.size == 0:
        raise TableError(f"the file {str(path)!r} is empty (0 bytes); a header and at least one row are needed.")
    if ending in (".csv", ".tsv"):
        return _csv(data, path, delimiter="," if ending == ".csv" else "\t")
    return _json_rows(_decode(data, path), path, lines=ending != ".json")


def table_name(path: Path) -> str:
    """The file's name without the endings that say how it is stored."""
    name = path.name
    for ending in (*COMPRESSIONS, *FORMATS):
        if name.lower().endswith(ending):
            name = name[: -len(ending)]
    return name or path.name


def _endings() -> str:
    return ", ".join(FORMATS) + " (each also with " + " or ".join(COMPRESSIONS) + ")"


def _ending(path: Path) -> tuple[str, str | None]:
    name = path.name.lower()
    compression = next((ending for ending in COMPRESSIONS if name.endswith(ending)), None)
    if compression:
        name = name.removesuffix(compression)
    ending = next((ending for ending in FORMATS if name.endswith(ending)), None)
    if ending is None:
        raise TableError(f"the ending of {path.name!r} says no known format; expected one of {_endings()}.")
    return ending, compression and COMPRESSIONS[compression]


def _bytes(path: Path, compression: str | None) -> "pyarrow.Buffer":
    import pyarrow

    try:
        if compression is None:
            return pyarrow.py_buffer(path.read_bytes())
        with pyarrow.input_stream(str(path), compression=compression) as stream:
            return pyarrow.py_buffer(stream.read())
    except OSError as error:
        raise TableError(
            f"could not read {str(path)!r} ({compression or 'plain'}): {error}. Is the file complete? Copy or download it again."
        ) from error


def _decode(data: "pyarrow.Buffer", path: Path) -> str:
    raw = data.to_pybytes()
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        # utf-8-sig counts from behind the byte order mark.
        offset = error.start + (3 if raw.startswith(b"\xef\xbb\xbf") else 0)
        source = "UTF-16" if raw.startswith((b"\xff\xfe", b"\xfe\xff")) else "WINDOWS-1252"
        line = raw.count(b"\n", 0, offset) + 1
        raise TableError(
            f"{str(path)!r} is not UTF-8: byte {offset} (line {line}) is 0x{raw[offset]:02x}. Convert it first; if it was written "
            f"as {source}: iconv -f {source} -t UTF-8 {path.name} > converted{path.suffix}"
        ) from error


def _csv(data: "pyarrow.Buffer", path: Path, *, delimiter: str) -> Columns:
    import pyarrow
    from pyarrow import csv as arrow_csv

    header = _csv_header(data, path, delimiter)
    # With one column, an empty line is a row with an empty text, which must not vanish.
    parse = arrow_csv.ParseOptions(delimiter=delimiter, newlines_in_values=True, ignore_empty_lines=len(header) > 1)
    convert = arrow_csv.ConvertOptions(column_types=dict.fromkeys(header, pyarrow.string()))
    # A row must fit into one block, so a long document may need one block for the whole file.
    blocks = [min(max(data.size, 1), size) for size in (1 << 24, (1 << 31) - 1)]
    failure: Exception | None = None
    for block in dict.fromkeys(blocks):
        try:
            table = arrow_csv.read_csv(
                pyarrow.BufferReader(data),
                read_options=arrow_csv.ReadOptions(block_size=block),
                parse_options=parse,
                convert_options=convert,
            )
            return arrow_columns(table)
        except (pyarrow.ArrowException, OSError) as error:
            failure = error
    _decode(data, path)
    raise _csv_fault(data, path, delimiter, len(header), failure) from failure


def _csv_lines(data: "pyarrow.Buffer") -> Iterator[str]:
    import pyarrow

    return io.TextIOWrapper(pyarrow.BufferReader(data), encoding="utf-8-sig", errors="replace", newline="")  # type: ignore[arg-type]


def _csv_header(data: "pyarrow.Buffer", path: Path, delimiter: str) -> list[str]:
    try:
        header = next((row for row in csv.reader(_csv_lines(data), delimiter=delimiter) if row), [])
    except csv.Error as error:
        raise TableError(f"the header of {str(path)!r} cannot be read: {error}.") from error
    if not header:
        raise TableError(f"the file {str(path)!r} has nothing but empty lines; a header and at least one row are needed.")
    if any("\ufffd" in name for name in header):
        _decode(data, path)  # the header was read with that sign for whatever is not UTF-8; this says where
    repeated = sorted({name for name in header if header.count(name) > 1})
    if repeated:
        raise TableError(
            f"the header of {str(path)!r} names {', '.join(map(repr, repeated))} more than once; give every column its own name."
        )
    return header


def _csv_fault(data: "pyarrow.Buffer", path: Path, delimiter: str, expected: int, failure: Exception | None) -> TableError:
    reader = csv.reader(_csv_lines(data), delimiter=delimiter)
    row = -1  # the header is row 0
    start = 1
    try:
        for values in reader:
            if values:
                row += 1
                if len(values) != expected:
                    return TableError(
                        f"{str(path)!r}, line {start} (row {row}): expected {expected} values as in the header, got {len(values)}: "
                        f"{_short(delimiter.join(values))}. Put values that contain {delimiter!r} or line breaks in double quotes, and "
                        f"double each quote inside them."
                    )
            start = reader.line_num + 1
    except csv.Error as error:
        return TableError(f"{str(path)!r}, line {start}: {error}. Is a quote left open before it?")
    return TableError(f"{str(path)!r} cannot be read as a table: {failure}")


def _json_rows(text: str, path: Path, *, lines: bool) -> Columns:
    if not lines:
        try:
            rows = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise TableError(f"{str(path)!r} is not JSON: {error}. Is it JSON lines? Then name it .jsonl.") from error
        if not isinstance(rows, list):
            raise TableError(f"{str(path)!r} must hold one list of objects, got {type(rows).__name__}.")
        return row_columns(rows, where=str(path))
    return row_columns(_json_lines(text, path), where=str(path))


def _json_lines(text: str, path: Path) -> Iterator[dict[str, Any]]:
    # str.splitlines would also cut at characters such as U+2028, which JSON allows inside strings.
    for number, line in enumerate(re.split("\r\n|\n|\r", text), start=1):
        if not line or line.isspace():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise TableError(f"{str(path)!r}, line {number}: not JSON ({error}): {_short(line)}. One object a line is needed.") from error
        if not isinstance(row, dict):
            raise TableError(f'{str(path)!r}, line {number}: expected an object like {{"text": ...}}, got {_short(line)}')
        yield row


def row_columns(rows: Iterable[Any], *, where: str) -> Columns:
    """Columns from dicts, one a row; a key that a row lacks becomes None there.

    Raises:
        TableError: some row is not a dict.
    """
    # Values go straight into columns, so that a million dicts need not live at once.
    columns: dict[str, list[Any]] = {}
    n = 0
    for row in rows:
        if not isinstance(row, dict):
            raise TableError(f"{where}, row {n + 1}: expected a dict of column -> value, got {_short(repr(row))}")
        for key, value in row.items():
            column = columns.setdefault(str(key), [])
            if len(column) < n:
                column.extend([None] * (n - len(column)))
            column.append(value)
        n += 1
    for column in columns.values():
        column.extend([None] * (n - len(column)))
    return {name: object_array(column) for name, column in columns.items()}


def _parquet(data: "pyarrow.Buffer", path: Path) -> Columns:
    import pyarrow
    from pyarrow import parquet

    try:
        table = parquet.read_table(pyarrow.BufferReader(data))
    except (pyarrow.ArrowException, OSError) as error:
        raise TableError(f"{str(path)!r} cannot be read as Parquet: {error}. Is the file complete? Copy or download it again.") from error
    return arrow_columns(table)


def arrow_columns(table: "pyarrow.Table") -> Columns:
    """Columns of a pyarrow table; text becomes str objects, nested values become Python lists and dicts.

    Raises:
        TableError: two columns have the same name.
    """
    import pyarrow

    names = table.column_names
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise TableError(f"the columns {', '.join(map(repr, repeated))} are there more than once; give every column its own name.")
    columns: Columns = {}
    for name, column in zip(names, table.columns, strict=True):
        values = column
        if pyarrow.types.is_dictionary(values.type):
            values = values.cast(values.type.value_type)
        if _is_text(values.type) or pyarrow.types.is_boolean(values.type) or pyarrow.types.is_integer(values.type):
            # pyarrow turns whole numbers with gaps into floats; the gaps are found as NaN later.
            columns[name] = values.to_numpy()
        elif pyarrow.types.is_floating(values.type):
            columns[name] = values.to_numpy().astype(np.float64)
        else:
            columns[name] = object_array(values.to_pylist())
    return columns


def _is_text(kind: "pyarrow.DataType") -> bool:
    import pyarrow

    return pyarrow.types.is_string(kind) or pyarrow.types.is_large_string(kind)


def object_array(values: Sequence[Any]) -> np.ndarray:
    """``[n]`` Python objects; numpy must not turn equally long lists into a matrix."""
    return np.fromiter(values, dtype=object, count=len(values))


def _short(text: str, *, most: int = 80) -> str:
    shown = text if len(text) <= most else text[: most - 3] + "..."
    return repr(shown)
