"""`read_pairs`: records that hold two opposite texts, as contrast pairs are usually kept (representation engineering, CAA and others).

Each record becomes two rows of one group, so both halves stay on one side of every split.
"""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from transect.data.files import Columns, object_array, read_columns, row_columns, table_name
from transect.data.labels import is_missing, row_list
from transect.data.table import Table
from transect.errors import TableError, near_matches

# (positive, negative), tried in this order when neither is named.
USUAL_PAIRS = (
    ("positive", "negative"),
    ("honest", "deceptive"),
    ("correct", "incorrect"),
    ("answer_matching_behavior", "answer_not_matching_behavior"),
)


def read_pairs(
    source: "str | os.PathLike[str] | Sequence[dict[str, Any]]",
    *,
    positive: str | None = None,
    negative: str | None = None,
    prompt: str | None = None,
    name: str | None = None,
) -> Table:
    """Two rows for each record: the positive text (label True) and the negative one (label False).

    Args:
        source: a file that `read_table` reads (``.json`` with one list, ``.jsonl``, ``.csv``, ...), or a list of dicts.
        positive: the field of the positive text; with `negative` left out too, the first that is there of positive/negative,
            honest/deceptive, correct/incorrect, answer_matching_behavior/answer_not_matching_behavior.
        negative: the field of the negative text.
        prompt: a field that goes before both, such as a question; records with the same prompt become one group.
        name: how reports call the table; the file's name otherwise.

    Returns:
        A binary table; the span "answer" marks the text without its prompt, and `extra` holds the other fields.

    Raises:
        TableError: a missing field (near matches are named), records with one half only or two equal halves (rows are named), values
            that are not text, an empty or damaged file.

    Examples:
        >>> table = read_pairs([{"q": "Is snow white?", "yes": "Yes.", "no": "No."}], positive="yes", negative="no", prompt="q")
        >>> table.texts, table.labels.tolist(), table.groups.tolist()
        (('Is snow white? Yes.', 'Is snow white? No.'), [True, False], ['pair 1', 'pair 1'])
    """
    columns, where = _columns(source)
    yes, no = _halves(columns, positive, negative, where)
    texts = {field: _texts(columns, field) for field in (yes, no, *([prompt] if prompt is not None else []))}
    equal = [row for row, (a, b) in enumerate(zip(texts[yes], texts[no], strict=True), start=1) if a.strip() == b.strip()]
    if equal:
        raise TableError(
            f"{len(equal)} records have the same text as {yes!r} and as {no!r} (record {row_list(equal)}); a pair must differ."
        )
    before = texts[prompt] if prompt is not None else [""] * len(texts[yes])
    order = [(at, field) for at in range(len(before)) for field in (yes, no)]
    joined = [_joined(before[at], texts[field][at]) for at, field in order]
    first: dict[str, int] = {}
    groups = [first.setdefault(text, at) if prompt is not None else at for at, text in enumerate(before)]
    rows = np.array([at for at, _ in order])
    return Table(
        name=name or (table_name(Path(source)) if isinstance(source, (str, os.PathLike)) else "pairs"),
        texts=tuple(text for text, _ in joined),
        labels=np.array([field == yes for _, field in order]),
        kind="binary",
        classes=(False, True),
        groups=object_array([f"pair {groups[at] + 1}" for at in rows.tolist()]),
        spans={"answer": tuple((start, len(text)) for text, start in joined)},
        extra={field: column[rows] for field, column in columns.items() if field not in (yes, no)},
        source=where,
        notes=(f"{len(before)} pairs: {yes!r} is True, {no!r} is False.",),
    )


def _columns(source: Any) -> tuple[Columns, str]:
    if isinstance(source, (str, os.PathLike)):
        columns, where = read_columns(Path(source)), os.fspath(source)
    elif isinstance(source, Sequence):
        columns, where = row_columns(source, where="the list"), "list"
    else:
        raise TableError(f"expected a file or a list of records, got {type(source).__name__}.")
    if not columns or len(next(iter(columns.values()))) == 0:
        raise TableError(f"{where} has 0 records; at least one pair is needed.")
    return columns, where


def _halves(columns: Columns, positive: str | None, negative: str | None, where: str) -> tuple[str, str]:
    if positive is None and negative is None:
        for yes, no in USUAL_PAIRS:
            if yes in columns and no in columns:
                return yes, no
        raise TableError(
            f"{where} has none of the usual pairs of fields ({', '.join('/'.join(pair) for pair in USUAL_PAIRS)}); name them with "
            f"positive= and negative=. There is: {', '.join(map(repr, columns))}."
        )
    if positive is None or negative is None or positive == negative:
        raise TableError(f"positive= and negative= must name two different fields, got {positive!r} and {negative!r}.")
    return positive, negative


def _texts(columns: Columns, field: str) -> list[str]:
    if field not in columns:
        raise TableError(f"there is no field {field!r}: {near_matches(field, columns)}")
    values = columns[field].tolist()
    absent = [row for row, value in enumerate(values, start=1) if is_missing(value) or (isinstance(value, str) and not value.strip())]
    if absent:
        raise TableError(f"{len(absent)} records have no {field!r} (record {row_list(absent)}); a pair needs both halves.")
    wrong = [row for row, value in enumerate(values, start=1) if not isinstance(value, str)]
    if wrong:
        raise TableError(f"the field {field!r} must hold text, but record {wrong[0]} holds {values[wrong[0] - 1]!r}.")
    return values


def _joined(prompt: str, answer: str) -> tuple[str, int]:
    """The whole text, and where the answer starts in it."""
    gap = "" if not prompt or prompt[-1].isspace() or answer[0].isspace() else " "
    blank = len(answer) - len(answer.lstrip())
    return f"{prompt}{gap}{answer}", len(prompt) + len(gap) + blank
