"""Texts and groups that two tables, or two parts of one table, have in common."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from transect.data.duplicates import exact_ids, near_duplicates
from transect.data.findings import EXAMPLES, Finding, Severity, cut
from transect.data.grouping import factorize
from transect.data.table import Table


class Texts:
    """All texts of all tables, with duplicates found once. A form is a text up to case, spaces and punctuation."""

    def __init__(self, tables: Mapping[str, Table]) -> None:
        self.tables = tables
        everything = [text for table in tables.values() for text in table.texts]
        ids, self.forms = exact_ids(everything)
        ends = np.cumsum([len(table) for table in tables.values()])
        self.ids = dict(zip(tables, np.split(ids, ends[:-1]), strict=True))
        found = near_duplicates(self.forms)
        self.near, self.skipped = found.pairs, found.skipped
        # Without given groups every different text is a group of its own.
        self.groups = {
            name: table.groups if table.groups is not None else np.char.add(f"{name}#", self.ids[name].astype(str))
            for name, table in tables.items()
        }

    def row_groups(self, name: str) -> np.ndarray:
        """``[n]`` int64: the given group of each row, or its text where no groups were given."""
        return factorize(self.groups[name])

    def groups_of(self, name: str) -> dict[int, set[Any]]:
        """The given groups of each form that has a near duplicate."""
        involved = np.isin(self.ids[name], self.near)
        groups: dict[int, set[Any]] = {}
        for form, group in zip(self.ids[name][involved].tolist(), self.groups[name][involved].tolist(), strict=True):
            groups.setdefault(form, set()).add(group)
        return groups

    def near_between(self, one: str, other: str) -> np.ndarray:
        """``[m, 2]`` forms of one and of the other that are near duplicates but in no common group."""
        ours, theirs = self.groups_of(one), self.groups_of(other)
        both = np.concatenate([self.near, self.near[:, ::-1]])
        kept = [(a, b) for a, b in both.tolist() if a in ours and b in theirs and not ours[a] & theirs[b]]
        return np.array(kept, dtype=np.int64).reshape(-1, 2)


def near_examples(texts: Texts, pairs: np.ndarray) -> tuple[Mapping[str, Any], ...]:
    """A few of the pairs ``[m, 2]``, as they are compared."""
    return tuple({"text": cut(texts.forms[a]), "other": cut(texts.forms[b])} for a, b in pairs[:EXAMPLES].tolist())


def between_parts(table: Table, parts: np.ndarray, texts: Texts) -> Iterator[Finding]:
    """Copies, near copies and groups on both sides of a split; parts ``[n]`` int64 from 0."""
    name, n = table.name, len(table)
    forms = texts.ids[name]
    straddling = _in_several(forms, parts)
    rows = int(straddling[forms].sum())
    examples = tuple({"text": cut(texts.forms[form])} for form in np.flatnonzero(straddling)[:EXAMPLES].tolist())
    sentence = f"rows of {name} with a copy in another part: {rows:,} of {n:,}." if rows else f"no text of {name} is in two parts."
    yield Finding(
        check="straddling_duplicates",
        table=name,
        severity="fail" if rows else "ok",
        sentence=sentence,
        numbers={"rows": rows},
        examples=examples,
    )
    present = np.zeros((len(texts.forms), int(parts.max()) + 1), dtype=bool)
    present[forms, parts] = True
    one, other = present[texts.near[:, 0]], present[texts.near[:, 1]]
    # A text in several parts is found above; here two texts that are both in the table but in no common part.
    pairs = texts.near[one.any(axis=1) & other.any(axis=1) & ~(one & other).any(axis=1)]
    rows = int(np.isin(forms, pairs).sum())
    sentence = f"no near duplicates of {name} are in two parts."
    if rows:
        sentence = f"rows of {name} with a near duplicate in another part: {rows:,} of {n:,}."
    severity: Severity = "ok" if not rows else "fail" if rows >= 0.01 * n else "warn"
    yield Finding(
        check="straddling_near",
        table=name,
        severity=severity,
        sentence=sentence,
        numbers={"rows": rows},
        examples=near_examples(texts, pairs),
    )
    if table.groups is not None:
        ids = factorize(table.groups)
        torn = np.flatnonzero(_in_several(ids, parts))
        names = [str(table.groups[np.flatnonzero(ids == group)[0]]) for group in torn[:EXAMPLES].tolist()]
        sentence = f"every group of {name} is in one part."
        if len(torn):
            sentence = f"groups of {name} in more than one part: {len(torn):,} of {int(ids.max()) + 1:,}."
        yield Finding(
            check="straddling_groups",
            table=name,
            severity="fail" if len(torn) else "ok",
            sentence=sentence,
            numbers={"groups": len(torn)},
            examples=tuple({"group": group} for group in names),
        )


def _in_several(ids: np.ndarray, parts: np.ndarray) -> np.ndarray:
    """``[max id + 1]`` bool: ids that occur in more than one part."""
    low = np.full(int(ids.max()) + 1, np.iinfo(np.int64).max)
    high = np.full(int(ids.max()) + 1, -1)
    np.minimum.at(low, ids, parts)
    np.maximum.at(high, ids, parts)
    return (high >= 0) & (low < high)


def between_tables(train: str, test: str, texts: Texts) -> Iterator[Finding]:
    """Copies, near copies and groups of the training table in a test table."""
    n = len(texts.tables[test])
    ids = texts.ids[test]
    copied = np.isin(ids, texts.ids[train])
    rows = int(copied.sum())
    first = np.flatnonzero(copied)[:EXAMPLES].tolist()
    sentence = f"rows of {test} that repeat a text of {train}: {rows:,} of {n:,}." if rows else f"no text of {test} is in {train}."
    yield Finding(
        check="straddling_duplicates",
        table=test,
        other=train,
        severity="fail" if rows else "ok",
        sentence=sentence,
        numbers={"rows": rows},
        examples=tuple({"text": cut(texts.tables[test].texts[row])} for row in first),
    )
    if not texts.skipped:
        pairs = texts.near_between(test, train)
        rows = int((np.isin(ids, pairs[:, 0]) & ~copied).sum())
        sentence = f"rows of {test} that are near duplicates of texts in {train}: {rows:,} of {n:,}."
        if not rows:
            sentence = f"no text of {test} is nearly the same as one of another group in {train}."
        severity: Severity = "ok" if not rows else "fail" if rows >= 0.01 * n else "warn"
        yield Finding(
            check="straddling_near",
            table=test,
            other=train,
            severity=severity,
            sentence=sentence,
            numbers={"rows": rows},
            examples=near_examples(texts, pairs),
        )
    ours, theirs = texts.tables[test].groups, texts.tables[train].groups
    if ours is not None and theirs is not None:
        mine = set(ours.tolist())
        common = mine & set(theirs.tolist())
        sentence = (
            f"groups of {test} that are also in {train}: {len(common):,} of {len(mine):,}; score it on groups that were not trained on."
        )
        yield Finding(
            check="straddling_groups",
            table=test,
            other=train,
            severity="warn" if common else "ok",
            sentence=sentence if common else f"{test} and {train} share no group.",
            numbers={"groups": len(common), "of": len(mine)},
            examples=tuple({"group": group} for group in sorted(common)[:EXAMPLES]),
        )
