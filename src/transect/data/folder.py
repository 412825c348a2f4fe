"""`read_tables`: every file of a folder as a table of its own, as the data of "The Geometry of Truth" lies (one CSV a topic)."""

import os
from pathlib import Path

from transect.data.files import COMPRESSIONS, FORMATS
from transect.data.read import read_table
from transect.data.table import Table
from transect.errors import TableError, near_matches


def read_tables(
    folder: "str | os.PathLike[str]",
    *,
    text: str | None = None,
    label: str | None = None,
    group: str | None = None,
    names: tuple[str, ...] | None = None,
) -> tuple[Table, ...]:
    r"""One table per file of a folder, sorted by file name; other columns are kept in `extra`.

    Args:
        folder: where the files are. Files of other formats (a README) and folders inside it are passed over.
        text: the column of texts in every file; found as `read_table` does it when left out ("statement" is among the usual names).
        label: the column of labels in every file.
        group: the column of groups in every file.
        names: read only these, by name without ending, in this order; needed where some files hold no labelled text.

    Raises:
        TableError: no such folder, no readable file, an unknown name (near matches are named), two files of one name, or a file that
            `read_table` refuses; the message says which.

    Examples:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = Path(folder, "rain.csv").write_text("statement,label,season\nIt rains.,1,autumn\nIt snows.,0,winter\n")
        ...     [table] = read_tables(folder)
        >>> table.name, table.labels.tolist(), table.column("season").tolist()
        ('rain', [True, False], ['autumn', 'winter'])
    """
    path = Path(folder)
    if not path.is_dir():
        hint = "it is a file; read it with read_table" if path.exists() else "there is nothing of that name"
        raise TableError(f"expected a folder, got {str(folder)!r}: {hint}.")
    found: dict[str, Path] = {}
    for file in sorted(path.iterdir()):
        name = _name(file)
        if name is None:
            continue
        if name in found:
            raise TableError(f"{found[name].name!r} and {file.name!r} would both be the table {name!r}; keep one of them in the folder.")
        found[name] = file
    if not found:
        raise TableError(f"the folder {str(folder)!r} holds no file with an ending of {', '.join(FORMATS)}.")
    for name in names or ():
        if name not in found:
            raise TableError(f"there is no table {name!r} in {str(folder)!r}: {near_matches(name, found)}")
    return tuple(_read(found[name], text=text, label=label, group=group) for name in (names if names is not None else found))


def _name(file: Path) -> str | None:
    plain = file.name
    for ending in COMPRESSIONS:
        plain = plain.removesuffix(ending)
    ending = Path(plain).suffix.lower()
    return plain[: -len(ending)] if file.is_file() and ending in FORMATS and not file.name.startswith(".") else None


def _read(file: Path, *, text: str | None, label: str | None, group: str | None) -> Table:
    try:
        return read_table(file, text=text, label=label, group=group)
    except TableError as error:
        raise TableError(f"{file.name!r}: {error} (names= reads only some files of a folder.)") from error
