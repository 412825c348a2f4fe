"""Train, validation and test: a table's own splits, cleaned of duplicates, or a split by group."""

import dataclasses

import numpy as np

from transect.data.duplicates import exact_ids, near_duplicates
from transect.data.grouping import FEW_ROWS, effective_groups
from transect.data.splits import split_by_group
from transect.data.table import Table
from transect.errors import InputError


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Split:
    """Row indices of each part, ascending; validation may be empty.

    Args:
        train: ``[n_train]`` int64.
        validation: ``[n_validation]`` int64.
        test: ``[n_test]`` int64.
        notes: what was joined or left out to get there, one sentence each.
    """

    train: np.ndarray
    validation: np.ndarray
    test: np.ndarray
    notes: tuple[str, ...] = ()


def split_table(table: Table, *, test: float = 0.3, seed: int = 0, near: bool = True) -> Split:
    """The table's own splits if it came with some, otherwise `split_by_group` over its effective groups.

    With its own splits, training and validation rows that duplicate a test text (and training rows that duplicate a
    validation text) are left out and counted in the notes; the test rows stay as they are.

    Args:
        table: ``n`` rows.
        test: the share of rows to hold out where the table has no splits.
        seed: of the draw.
        near: treat near duplicates like exact ones.

    Raises:
        InputError: no training or no test rows, or a class that only the test part has.

    Examples:
        >>> from transect.data import read_table
        >>> split = split_table(read_table("cities"))
        >>> len(split.train), len(split.test)
        (396, 172)
    """
    targets = None if table.labels is None else table.targets
    if table.splits is None:
        grouping = effective_groups(table, near=near)
        held_out = split_by_group(grouping.ids, targets, test=test, seed=seed, classes=table.classes)
        empty = np.empty(0, dtype=np.int64)
        return Split(train=np.flatnonzero(~held_out), validation=empty, test=np.flatnonzero(held_out), notes=grouping.notes)
    return _own_splits(table, table.splits, near=near)


def _own_splits(table: Table, splits: np.ndarray, *, near: bool) -> Split:
    forms, texts = exact_ids(table.texts)
    found = near_duplicates(texts) if near else None
    notes = [found.skipped] if found and found.skipped else []
    rows = {name: splits == name for name in ("train", "validation", "test")}
    for name, others in (("validation", ["test"]), ("train", ["test", "validation"])):
        for other in others:
            rows[name], said = _without_copies(forms, found.pairs if found else None, rows[name], rows[other], name=name, other=other)
            notes += said
    for name in ("train", "test"):
        if not rows[name].any():
            kinds = {str(kind): int((splits == kind).sum()) for kind in np.unique(splits.astype(str))}
            raise InputError(
                f"no {name} rows are left; the split column has {kinds}. Rename a part, or rename the column to have the table split by group."
            )
    if table.classes is not None:
        for name in ("validation", "test"):
            _refuse_unlearnt(table, rows["train"], rows[name], name)
    parts = {name: np.flatnonzero(mask) for name, mask in rows.items()}
    return Split(train=parts["train"], validation=parts["validation"], test=parts["test"], notes=tuple(notes))


def _without_copies(
    forms: np.ndarray, near: np.ndarray | None, rows: np.ndarray, others: np.ndarray, *, name: str, other: str
) -> tuple[np.ndarray, list[str]]:
    """The rows that have no exact or near copy among the others, and what to say about those left out."""
    there = np.zeros(int(forms.max()) + 1, dtype=bool)
    there[forms[others]] = True
    copied = rows & there[forms]
    notes = [f"{int(copied.sum())} {name} rows repeat a {other} text and were left out of {name}."] if copied.any() else []
    kept = rows & ~copied
    if near is None or len(near) == 0:
        return kept, notes
    like = np.zeros_like(there)
    for one, two in ((0, 1), (1, 0)):
        like[near[there[near[:, two]], one]] = True
    similar = kept & like[forms]
    if similar.sum() > max(kept.sum() / 2, FEW_ROWS):
        notes.append(
            f"{int(similar.sum())} of {int(kept.sum())} {name} rows are near duplicates of {other} texts; too many to leave out, so they "
            f"stay."
        )
        return kept, notes
    if similar.any():
        notes.append(f"{int(similar.sum())} {name} rows are near duplicates of a {other} text and were left out of {name}.")
    return kept & ~similar, notes


def _refuse_unlearnt(table: Table, train: np.ndarray, other: np.ndarray, name: str) -> None:
    unseen = np.setdiff1d(table.codes[other], table.codes[train])
    if len(unseen):
        names = ", ".join(repr((table.classes or ())[code]) for code in unseen.tolist())
        raise InputError(
            f"the label {names} is in the {name} rows but not in train, so it cannot be learnt; move some of its rows to train, or remove "
            f"them."
        )
