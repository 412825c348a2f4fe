"""Columns that mark a part of each text."""

import re
from typing import Any

import numpy as np

from transect.data.files import Columns
from transect.data.labels import row_list
from transect.errors import TableError, near_matches

_OFFSETS = re.compile(r"\s*(\d+)\s*:\s*(\d+)\s*")


def read_spans(columns: Columns, names: list[str], texts: tuple[str, ...]) -> tuple[dict[str, tuple[tuple[int, int], ...]], list[str]]:
    """Span columns as character positions ``(start, end)``, checked against the texts; and what to note about them.

    Raises:
        TableError: a missing column, or spans that do not lie in their text (rows are named).
    """
    spans: dict[str, tuple[tuple[int, int], ...]] = {}
    notes: list[str] = []
    for name in names:
        if name not in columns:
            raise TableError(f"there is no column {name!r} (for span): {near_matches(name, columns)}")
        spans[name], note = _spans(columns[name].tolist(), name, texts)
        notes += note
    return spans, notes


def _spans(values: list[Any], name: str, texts: tuple[str, ...]) -> tuple[tuple[tuple[int, int], ...], list[str]]:
    # Decided for the whole column: "12:30" may be a time in a text, but a column of nothing else holds positions.
    if all(isinstance(value, str) and _OFFSETS.fullmatch(value) for value in values):
        values = [tuple(map(int, value.split(":"))) for value in values]
    found = [_span(value, text) for value, text in zip(values, texts, strict=True)]
    wrong = [row for row, span in enumerate(found, start=1) if span is None]
    if wrong:
        first = wrong[0]
        raise TableError(
            f"{len(wrong)} spans in the column {name!r} do not lie in their text (row {row_list(wrong)}); for example "
            f"{values[first - 1]!r} in {texts[first - 1][:60]!r}. Give words of the text, or start:end positions with 0 <= start < end "
            f"<= {len(texts[first - 1])}."
        )
    repeated = sum(isinstance(value, str) and text.count(value) > 1 for value, text in zip(values, texts, strict=True))
    notes = [f"in {repeated} rows the span {name!r} occurs more than once in the text; its first place was taken."] if repeated else []
    return tuple(span for span in found if span is not None), notes


def _span(value: Any, text: str) -> tuple[int, int] | None:
    if isinstance(value, str):
        start = text.find(value) if value else -1
        return None if start < 0 else (start, start + len(value))
    if not isinstance(value, (list, tuple, np.ndarray)) or len(value) != 2:
        return None
    start, end = value
    if isinstance(start, bool) or not isinstance(start, (int, np.integer)) or not isinstance(end, (int, np.integer)):
        return None
    return (int(start), int(end)) if 0 <= start < end <= len(text) else None
