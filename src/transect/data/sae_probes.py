"""`read_sae_probes`: the 155 data sets of SAE-Probes (Kantamneni et al., 2025, arXiv:2502.16681), ``*.csv.zst`` of prompt and target.

Some of those files repeat rows, up to thousands of times, which a random split would put on both sides. Copies are taken out here, and
counted; this is the one reader that drops anything.
"""

import dataclasses
import os
from typing import Any

from transect.data.read import read_table
from transect.data.table import Kind, Table
from transect.errors import TableError

_SHOWN = 3


def read_sae_probes(
    path: "str | os.PathLike[str]", *, text: str = "prompt", label: str = "target", kind: Kind | None = None, positive: Any = None
) -> Table:
    r"""One file of SAE-Probes, each pair of text and label once.

    A text with two different labels stays with both; the notes count and quote such texts, and the audit finds them.

    Args:
        path: the file, compressed or not.
        text: the column of texts.
        label: the column of labels.
        kind: as in `read_table`.
        positive: as in `read_table`.

    Raises:
        TableError: as `read_table` does.

    Examples:
        >>> import tempfile, pathlib
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     file = pathlib.Path(folder, "1_rain.csv")
        ...     _ = file.write_text("prompt,target\nIt rains.,1\nIt rains.,1\nIt snows.,0\n")
        ...     table = read_sae_probes(file)
        >>> len(table), table.notes
        (2, ('1 of 3 rows repeated an earlier row (same text, same label) and was left out.',))
    """
    table = read_table(os.fspath(path), text=text, label=label, kind=kind, positive=positive)
    if table.labels is None:
        raise TableError(f"{os.fspath(path)!r} has no labels; name the column with label=.")
    seen: dict[tuple[str, Any], int] = {}
    labels: dict[str, set[Any]] = {}
    for row, (one, value) in enumerate(zip(table.texts, table.labels.tolist(), strict=True)):
        seen.setdefault((one, value), row)
        labels.setdefault(one, set()).add(value)
    kept = table.take(list(seen.values()))
    notes: list[str] = []
    left_out = len(table) - len(kept)
    if left_out:
        was = "was" if left_out == 1 else "were"
        notes.append(f"{left_out:,} of {len(table):,} rows repeated an earlier row (same text, same label) and {was} left out.")
    torn = [one for one, values in labels.items() if len(values) > 1]
    if torn:
        shown = "; ".join(f"{one[:60]!r} is {_listed(labels[one])}" for one in torn[:_SHOWN])
        notes.append(f"{len(torn):,} texts have different labels in different rows, and all are kept: {shown}.")
    return dataclasses.replace(kept, notes=tuple(notes))


def _listed(values: set[Any]) -> str:
    return " and ".join(map(repr, sorted(values, key=repr)))
