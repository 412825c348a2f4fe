"""`Table`: labelled text, checked once, never changed.

Every later step (capture, folds, the leakage audit, the report) reads this one object, so whatever can be wrong with a
table is found when it is made and not in the middle of a run.
"""

import dataclasses
import functools
import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

import numpy as np

from transect.errors import InputError, TableError, near_matches

Kind = Literal["binary", "multiclass", "number"]
Message = Mapping[str, str]


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Table:
    """Texts with labels, groups and whatever else came with them; ``n`` rows.

    Args:
        name: how reports call it.
        texts: ``[n]`` strings, none of them blank. For chats: the contents, one message a line.
        messages: ``[n]`` chats, each a list of ``{"role": ..., "content": ...}``; None for plain text.
        labels: ``[n]`` class values (bool, int or str), or float64 numbers; None when unlabelled.
        kind: what the labels are; None when unlabelled.
        classes: the class values in the order of `codes`; for binary labels ``(negative, positive)``; None for numbers.
        groups: ``[n]`` group names (str); rows of one group never end up on both sides of a split. None: no groups given.
        spans: column name -> ``[n]`` pairs (start, end) of character positions in the text.
        splits: ``[n]`` of "train", "validation", "test" when the table came with its own splits.
        dataset: ``[n]`` the name of the table that each row came from; differs from `name` after `concat`.
        extra: other columns, each ``[n]``.
        source: where it was read from.
        notes: what was noticed on the way, one sentence each.
        meaning: what the label says, and what always goes with it in this table, as two "whether ..." clauses; a verdict quotes
            them. None where nobody said.

    Raises:
        TableError: no rows, columns of unequal length, or labels that fit neither kind nor classes.

    Examples:
        >>> table = Table(name="demo", texts=("It rains.", "It snows."), labels=np.array([True, False]), kind="binary",
        ...               classes=(False, True))
        >>> len(table), table.codes.tolist(), table.take([1]).texts
        (2, [1, 0], ('It snows.',))
    """

    name: str
    texts: tuple[str, ...]
    messages: tuple[Sequence[Message], ...] | None = None
    labels: np.ndarray | None = None
    kind: Kind | None = None
    classes: tuple[Any, ...] | None = None
    groups: np.ndarray | None = None
    spans: Mapping[str, tuple[tuple[int, int], ...]] = dataclasses.field(default_factory=dict)
    splits: np.ndarray | None = None
    dataset: np.ndarray = dataclasses.field(default_factory=lambda: np.empty(0, dtype=object))
    extra: Mapping[str, np.ndarray] = dataclasses.field(default_factory=dict)
    source: str = ""
    notes: tuple[str, ...] = ()
    meaning: tuple[str, str] | None = None

    def __post_init__(self) -> None:
        n = len(self.texts)
        if n == 0:
            raise TableError(f"the table {self.name!r} has 0 rows; at least one row of text is needed.")
        if len(self.dataset) == 0:
            object.__setattr__(self, "dataset", np.full(n, self.name, dtype=object))
        for what, column in self._columns():
            if len(column) != n:
                raise TableError(f"the table {self.name!r} has {n} texts but {len(column)} values of {what}; one per row is needed.")
        if (self.labels is None) != (self.kind is None):
            raise TableError(f"the table {self.name!r} has labels without a kind, or a kind without labels; give both or neither.")
        if (self.classes is None) != (self.kind in (None, "number")):
            raise TableError(f"classes are needed for binary and multiclass labels only; got classes={self.classes!r} for {self.kind!r}.")
        if self.kind == "binary" and len(self.classes or ()) != 2:
            raise TableError(f"binary labels need classes (negative, positive), got {self.classes!r}.")

    def _columns(self) -> Iterable[tuple[str, Sequence[Any] | np.ndarray]]:
        named = {"messages": self.messages, "labels": self.labels, "groups": self.groups, "splits": self.splits, "dataset": self.dataset}
        yield from ((what, column) for what, column in named.items() if column is not None)
        yield from ((f"spans[{name!r}]", column) for name, column in self.spans.items())
        yield from ((f"column {name!r}", column) for name, column in self.extra.items())

    def __len__(self) -> int:
        return len(self.texts)

    def __repr__(self) -> str:
        labels = "unlabelled" if self.kind is None else self.kind if self.kind == "number" else f"{self.kind} {list(self.classes or ())}"
        groups = "" if self.groups is None else f", {len(set(self.groups.tolist()))} groups"
        return f"Table({self.name!r}, {len(self)} rows, {labels}{groups})"

    @functools.cached_property
    def codes(self) -> np.ndarray:
        """``[n]`` int64: the position of each row's label in `classes`.

        Raises:
            TableError: the table has no labels, or numbers for labels.
        """
        if self.classes is None:
            have = "no labels" if self.kind is None else "numbers for labels"
            raise TableError(f"the table {self.name!r} has {have}; class codes need binary or multiclass labels.")
        return self.codes_for(self.classes)

    def codes_for(self, classes: Sequence[Any]) -> np.ndarray:
        """``[n]`` int64: the position of each row's label in the classes of another table or of a probe.

        Raises:
            InputError: some label is not among the classes, so a probe for these classes has never seen it.
        """
        if self.labels is None or self.kind == "number":
            raise TableError(f"the table {self.name!r} has no class labels to compare with {list(classes)!r}.")
        position = {value: at for at, value in enumerate(classes)}
        codes = np.array([position.get(value, -1) for value in self.labels.tolist()], dtype=np.int64)
        if (codes < 0).any():
            unseen = sorted({repr(value) for value in self.labels[codes < 0].tolist()})
            raise InputError(
                f"{int((codes < 0).sum())} rows of {self.name!r} have a label that was not seen in training: {', '.join(unseen[:5])}; "
                f"the known classes are {list(classes)!r}. Remove those rows, or train on a table that has these labels."
            )
        return codes

    @property
    def targets(self) -> np.ndarray:
        """``[n]`` what a probe is fitted to: `codes` for classes, float64 for numbers."""
        if self.kind == "number" and self.labels is not None:
            return self.labels
        return self.codes

    @functools.cached_property
    def digest(self) -> str:
        """A hash (BLAKE2b, 32 hex digits) of everything that can change a result: texts, labels, groups, spans, splits."""
        hasher = hashlib.blake2b(digest_size=16)
        _add_strings(hasher, "texts", self.texts)
        if self.messages is not None:
            _add_strings(hasher, "messages", [json.dumps(list(map(dict, chat)), sort_keys=True) for chat in self.messages])
        if self.labels is not None:
            _add_strings(hasher, f"labels {self.kind} {self.classes!r}", [repr(value) for value in self.labels.tolist()])
        for what, column in (("groups", self.groups), ("splits", self.splits)):
            if column is not None:
                _add_strings(hasher, what, column.tolist())
        for name in sorted(self.spans):
            _add_strings(hasher, f"span {name}", [f"{start}:{end}" for start, end in self.spans[name]])
        return hasher.hexdigest()

    def column(self, name: str) -> np.ndarray:
        """One of the `extra` columns.

        Raises:
            TableError: there is no such column; near matches are named.
        """
        if name not in self.extra:
            raise TableError(f"the table {self.name!r} has no column {name!r}: {near_matches(name, self.extra)}")
        return self.extra[name]

    def take(self, rows: Sequence[int] | np.ndarray) -> "Table":
        """The same table with these rows, by index ``[m]`` (in that order, repeats allowed) or by mask ``[n]`` of bools.

        Raises:
            TableError: no row is left, an index is out of range, or a mask has another length.
        """
        index = np.asarray(rows)
        if index.dtype == bool:
            if index.shape != (len(self),):
                raise TableError(f"a mask for {self.name!r} needs {len(self)} values, got {list(index.shape)}.")
            index = np.flatnonzero(index)
        if index.size == 0:
            raise TableError(f"no rows of {self.name!r} were selected; at least one is needed.")
        if index.min() < -len(self) or index.max() >= len(self):
            raise TableError(f"row indices of {self.name!r} go from 0 to {len(self) - 1}, got {int(index.min())} to {int(index.max())}.")
        picked = index.tolist()
        return dataclasses.replace(
            self,
            texts=tuple(self.texts[i] for i in picked),
            messages=None if self.messages is None else tuple(self.messages[i] for i in picked),
            labels=None if self.labels is None else self.labels[index],
            groups=None if self.groups is None else self.groups[index],
            spans={name: tuple(spans[i] for i in picked) for name, spans in self.spans.items()},
            splits=None if self.splits is None else self.splits[index],
            dataset=self.dataset[index],
            extra={name: column[index] for name, column in self.extra.items()},
        )


def _add_strings(hasher: "hashlib.blake2b", what: str, values: Sequence[str]) -> None:
    # Lengths before contents: ("ab", "c") and ("a", "bc") must not hash alike.
    hasher.update(f"{what} {len(values)}\n".encode())
    hasher.update(np.fromiter(map(len, values), dtype="<i8", count=len(values)).tobytes())
    hasher.update("".join(values).encode("utf-8", "surrogatepass"))


def require_two_classes(table: Table) -> None:
    """Refuse a table that nothing can be learnt from: unlabelled, or one value for every row.

    Raises:
        TableError: says which value every row has.
    """
    if table.labels is None:
        raise TableError(f"the table {table.name!r} has no labels; name the column that holds them with label=.")
    values = set(table.labels.tolist())
    if len(values) < 2:
        raise TableError(
            f"every one of the {len(table)} rows of {table.name!r} has the label {next(iter(values))!r}; "
            f"at least two different labels are needed to fit or to score a probe."
        )


def concat(tables: Sequence[Table], *, name: str | None = None) -> Table:
    """One table with the rows of several, in order; `dataset` remembers which row came from which table.

    Group names are kept as they are, so groups of the same name in two tables become one group (the built-in
    ``cities`` and ``neg_cities`` share theirs on purpose). Rows of a table without groups each become their own group
    when another table has groups.

    Raises:
        TableError: the tables differ in kind, classes, chat or plain text, or only some have splits.

    Examples:
        >>> from transect.data import read_table
        >>> both = concat([read_table("cities"), read_table("neg_cities")])
        >>> both.name, len(both) == len(read_table("cities")) + len(read_table("neg_cities"))
        ('cities+neg_cities', True)
    """
    if not tables:
        raise TableError("there is nothing to join; give at least one table.")
    first = tables[0]
    for other in tables[1:]:
        _check_joinable(first, other)
    notes = [note for table in tables for note in table.notes]
    common = [name for name in first.spans if all(name in table.spans for table in tables)]
    lost = sorted({name for table in tables for name in table.spans} - set(common))
    if lost:
        notes.append(f"the span columns {lost} were left out: not every joined table has them.")
    columns = dict.fromkeys(column for table in tables for column in table.extra)
    grouped = any(table.groups is not None for table in tables)
    return Table(
        name=name or "+".join(table.name for table in tables),
        texts=tuple(text for table in tables for text in table.texts),
        messages=None if first.messages is None else tuple(chat for table in tables for chat in table.messages or ()),
        labels=None if first.labels is None else np.concatenate([table.labels for table in tables if table.labels is not None]),
        kind=first.kind,
        classes=first.classes,
        groups=np.concatenate([_named_groups(table) for table in tables]) if grouped else None,
        spans={name: tuple(span for table in tables for span in table.spans[name]) for name in common},
        splits=None if first.splits is None else np.concatenate([table.splits for table in tables if table.splits is not None]),
        dataset=np.concatenate([table.dataset for table in tables]),
        extra={column: np.concatenate([_extra(table, column) for table in tables]) for column in columns},
        source=" + ".join(dict.fromkeys(table.source for table in tables if table.source)),
        notes=tuple(dict.fromkeys(notes)),
        meaning=first.meaning if all(table.meaning == first.meaning for table in tables) else None,
    )


def _check_joinable(first: Table, other: Table) -> None:
    pair = f"{first.name!r} and {other.name!r}"
    if first.kind != other.kind or first.classes != other.classes:
        raise TableError(
            f"{pair} cannot be one table: their labels are {_label_words(first)} and {_label_words(other)}. "
            f"Read both with the same kind= and positive=, or rename the labels."
        )
    if (first.messages is None) != (other.messages is None):
        raise TableError(f"{pair} cannot be one table: one holds chats, the other plain text.")
    if (first.splits is None) != (other.splits is None):
        raise TableError(f"{pair} cannot be one table: only one of them has splits. Give both a split column, or neither.")


def _label_words(table: Table) -> str:
    if table.kind is None:
        return "missing"
    return "numbers" if table.classes is None else f"{table.kind} {list(table.classes)}"


def _named_groups(table: Table) -> np.ndarray:
    if table.groups is not None:
        return table.groups
    return np.array([f"{table.name}#{row}" for row in range(len(table))], dtype=object)


def _extra(table: Table, column: str) -> np.ndarray:
    # Objects, because a table that lacks the column gets None for it, and None fits no narrower type.
    values = table.extra.get(column)
    return np.full(len(table), None, dtype=object) if values is None else values.astype(object)
