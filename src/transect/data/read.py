"""`read_table`: from a file, an object or a built-in name to a checked `Table`."""

import dataclasses
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from transect.data.builtin import builtin_names, builtin_rows
from transect.data.files import Columns, read_columns, table_name
from transect.data.labels import is_missing, read_labels, row_list
from transect.data.sources import Source, read_object
from transect.data.spans import read_spans
from transect.data.table import Kind, Message, Table
from transect.errors import TableError, near_matches

TEXT_COLUMNS = ("text", "statement", "sentence", "prompt", "content")
LABEL_COLUMNS = ("label", "target", "is_true", "y")
GROUP_COLUMNS = ("group", "group_id")
SPLIT_COLUMNS = ("split",)
MESSAGE_COLUMNS = ("messages",)
SPLIT_NAMES = {
    "train": "train",
    "training": "train",
    "validation": "validation",
    "valid": "validation",
    "val": "validation",
    "dev": "validation",
    "test": "test",
    "testing": "test",
}


def read_table(
    source: Any,
    *,
    text: str | None = None,
    label: str | None = None,
    group: str | None = None,
    span: str | Sequence[str] | None = None,
    split: str | None = None,
    messages: str | None = None,
    positive: Any = None,
    kind: Kind | None = None,
    name: str | None = None,
) -> Table:
    """Read labelled text and check all of it.

    Args:
        source: a built-in name (`builtin_names`), a file (``.csv .tsv .jsonl .ndjson .json .parquet``, also with ``.gz`` or
            ``.zst``), a list of texts, of dicts or of chats, a dict of columns, a pandas, polars or pyarrow table, a Hugging
            Face ``Dataset`` or ``DatasetDict``, or a `Table`.
        text: the column of texts; found by itself when it is called text, statement, sentence, prompt or content.
        label: the column of labels; found by itself when it is called label, target, is_true or y. Without one the table
            is unlabelled, which is enough for scoring.
        group: the column of groups (which rows must stay on one side of a split); found when called group or group_id.
        span: one or more columns that mark a part of each text, as ``start:end`` character positions, a pair of them, or
            the marked words themselves.
        split: a column of train, validation (or dev, val) and test; found when called split.
        messages: a column of chats, lists of ``{"role", "content"}``; found when called messages.
        positive: which of two labels is the positive one.
        kind: "binary", "multiclass" or "number", where the guess (see `transect.data.labels`) is wrong.
        name: how reports call the table; the file's name otherwise.

    Raises:
        TableError: a missing file or column (near matches are named), several candidates for a column, blank texts, missing
            labels, spans outside their text, unknown split names, unequal rows, damaged or non-UTF-8 files, 0 rows. Rows are
            named by number, counted from 1 without the header. Nothing is ever dropped.

    Examples:
        >>> table = read_table([{"statement": "It rains.", "is_true": "yes"}, {"statement": "It snows.", "is_true": "no"}])
        >>> table.labels.tolist(), table.classes
        ([True, False], (False, True))
        >>> read_table("cities").kind
        'binary'
    """
    asked = {"text": text, "label": label, "group": group, "span": span, "split": split, "messages": messages}
    if isinstance(source, Table):
        given = [option for option, value in (*asked.items(), ("positive", positive), ("kind", kind)) if value is not None]
        if given:
            raise TableError(
                f"{source.name!r} is already a Table, so {', '.join(given)} cannot be chosen any more; read it again from its source."
            )
        return source if name is None else dataclasses.replace(source, name=name)
    found, where = _open(source)
    columns = found.columns
    label_column = _find(columns, label, "label", LABEL_COLUMNS)
    group_column = _find(columns, group, "group", GROUP_COLUMNS)
    split_column = _find(columns, split, "split", SPLIT_COLUMNS)
    text_column, chat_column = _text_or_chat(columns, text, messages)
    chats = _chats(columns[chat_column], chat_column) if chat_column else None
    texts = (
        _texts(columns[text_column], text_column)
        if text_column
        else tuple("\n".join(str(m["content"]) for m in chat) for chat in chats or ())
    )
    _refuse_unusable(texts, text_column or chat_column or "")
    span_columns = [span] if isinstance(span, str) else list(span or ())
    spans, span_notes = read_spans(columns, span_columns, texts)
    labels = None
    kind = kind or found.kind
    if label_column:
        labels = read_labels(
            columns[label_column], name=label_column, kind=kind, positive=positive, declared=found.declared.get(label_column)
        )
    elif positive is not None or kind is not None:
        raise TableError(
            f"positive= and kind= are about labels, but no label column was found; there is: {_listed(columns)}. Name it with label=."
        )
    used = {text_column, chat_column, label_column, group_column, split_column}
    return Table(
        name=name or found.name,
        texts=texts,
        messages=chats,
        labels=labels.values if labels else None,
        kind=labels.kind if labels else None,
        classes=labels.classes if labels else None,
        groups=_groups(columns[group_column], group_column) if group_column else None,
        spans=spans,
        splits=_splits(columns[split_column], split_column) if split_column else None,
        extra={column: values for column, values in columns.items() if column not in used},
        source=where,
        notes=(*found.notes, *span_notes, *_repeats(texts)),
        meaning=found.meaning,
    )


def _open(source: Any) -> tuple[Source, str]:
    if isinstance(source, str) and source in builtin_names():
        rows = builtin_rows(source)
        return Source(columns=rows.columns, name=source, notes=rows.notes, meaning=rows.meaning, kind=rows.kind), f"built-in {source}"
    if isinstance(source, (str, os.PathLike)):
        path = Path(source)
        if not path.exists() and isinstance(source, str):
            beside = [entry.name for entry in path.parent.iterdir() if entry.is_file()] if path.parent.is_dir() else []
            raise TableError(
                f"there is no file and no built-in set called {source!r}: {near_matches(path.name, [*builtin_names(), *beside])}"
            )
        found = Source(columns=read_columns(path), name=table_name(path))
        where = str(path)
    else:
        found = read_object(source)
        where = type(source).__name__
    if not found.columns or len(next(iter(found.columns.values()))) == 0:
        raise TableError(f"{where} has 0 rows (columns: {_listed(found.columns)}); at least one row of text is needed.")
    return found, where


def _listed(names: Iterable[str]) -> str:
    return ", ".join(map(repr, names)) or "none"


def _find(columns: Columns, asked: str | None, role: str, usual: tuple[str, ...]) -> str | None:
    if asked is not None:
        if asked not in columns:
            raise TableError(f"there is no column {asked!r} (for {role}): {near_matches(asked, columns)}")
        return asked
    candidates = [column for column in columns if column.casefold() in usual]
    if len(candidates) > 1:
        raise TableError(f"several columns could be the {role}: {_listed(candidates)}. Choose one with {role}=.")
    return candidates[0] if candidates else None


def _text_or_chat(columns: Columns, text: str | None, messages: str | None) -> tuple[str | None, str | None]:
    if text is not None and messages is not None:
        raise TableError(f"give text={text!r} or messages={messages!r}, not both.")
    chat_column = None if text is not None else _find(columns, messages, "messages", MESSAGE_COLUMNS)
    text_column = None if messages is not None else _find(columns, text, "text", TEXT_COLUMNS)
    if text_column and chat_column:
        raise TableError(
            f"both {text_column!r} and {chat_column!r} could be the text. Choose with text={text_column!r} or messages={chat_column!r}."
        )
    if not text_column and not chat_column:
        raise TableError(f"no column of text was found; there is: {_listed(columns)}. Name it with text= (or messages= for chats).")
    return text_column, chat_column


def _texts(column: np.ndarray, name: str) -> tuple[str, ...]:
    values = column.tolist()
    if set(map(type, values)) <= {str}:
        return tuple(values)
    wrong = [row for row, value in enumerate(values, start=1) if not isinstance(value, str)]
    absent = [row for row in wrong if is_missing(values[row - 1])]
    if len(absent) < len(wrong):
        other = next(row for row in wrong if row not in set(absent))
        raise TableError(
            f"the column {name!r} must hold text, but row {other} holds {type(values[other - 1]).__name__}: {values[other - 1]!r}."
        )
    raise TableError(f"{len(absent)} rows have no text in the column {name!r} (row {row_list(absent)}); fill them in or remove them.")


def _refuse_unusable(texts: tuple[str, ...], name: str) -> None:
    blank = [row for row, value in enumerate(texts, start=1) if not value or value.isspace()]
    if blank:
        raise TableError(
            f"{len(blank)} rows have an empty or blank text in the column {name!r} (row {row_list(blank)}, counted from 1 without the "
            f"header); fill them in or remove them."
        )
    try:
        "".join(texts).encode()
    except UnicodeEncodeError:
        broken = [row for row, value in enumerate(texts, start=1) if any("\ud800" <= char <= "\udfff" for char in value)]
        raise TableError(
            f"{len(broken)} texts in the column {name!r} hold half a character (a lone surrogate; row {row_list(broken)}), which no "
            f"tokenizer accepts; write them as proper UTF-8."
        ) from None


def _chats(column: np.ndarray, name: str) -> tuple[list[Message], ...]:
    chats = [_chat(value) for value in column.tolist()]
    wrong = [row for row, chat in enumerate(chats, start=1) if chat is None]
    if wrong:
        shown = repr(column.tolist()[wrong[0] - 1])
        raise TableError(
            f'{len(wrong)} rows of the column {name!r} are not chats (row {row_list(wrong)}); expected a list like [{{"role": "user", '
            f'"content": "Hello"}}], got {shown[:80]}.'
        )
    return tuple(chat for chat in chats if chat is not None)


def _chat(value: Any) -> list[Message] | None:
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            return None
    if not isinstance(value, (list, tuple)) or not value:
        return None
    good = all(isinstance(m, Mapping) and isinstance(m.get("role"), str) and isinstance(m.get("content"), str) for m in value)
    return [dict(message) for message in value] if good else None


def _distinct(values: list[Any], name: str) -> set[Any]:
    try:
        return set(values)
    except TypeError:
        nested = next(value for value in values if isinstance(value, (list, dict, set, np.ndarray)))
        raise TableError(f"the column {name!r} must hold one value a row, got {nested!r}.") from None


def _groups(column: np.ndarray, name: str) -> np.ndarray:
    values = column.tolist()
    blank = {value for value in _distinct(values, name) if is_missing(value) or not str(value).strip()}
    if blank:
        absent = [row for row, value in enumerate(values, start=1) if value in blank]
        raise TableError(
            f"{len(absent)} rows have no group in the column {name!r} (row {row_list(absent)}); name a group for each, for example a "
            f"name of its own for a row that belongs to no other."
        )
    return np.fromiter(map(str, values), dtype=object, count=len(values))


def _splits(column: np.ndarray, name: str) -> np.ndarray:
    meaning = {value: SPLIT_NAMES.get(str(value).strip().casefold()) for value in _distinct(column.tolist(), name)}
    values = [meaning[value] for value in column.tolist()]
    wrong = [row for row, value in enumerate(values, start=1) if value is None]
    if wrong:
        shown = sorted({repr(column.tolist()[row - 1]) for row in wrong})
        raise TableError(
            f"{len(wrong)} rows of the column {name!r} name an unknown split: {', '.join(shown[:5])} (row {row_list(wrong)}); expected "
            f"train, validation (or dev, val) or test. If the column means something else, rename it."
        )
    return np.fromiter(values, dtype=object, count=len(values))


def _repeats(texts: tuple[str, ...]) -> list[str]:
    repeats = len(texts) - len(set(texts))
    return [f"{repeats} rows repeat the text of another row; all are kept, and copies stay on one side of every split."] if repeats else []
