"""Who plays which part: rows that choose and fit, rows that only score, and rows that may not be scored at all.

Groups are found over all tables at once, so a city that the probe was fitted on is left out of every test table too.
"""

import dataclasses
from collections.abc import Sequence

import numpy as np

from transect.data import Table, concat, effective_groups, require_two_classes, split_by_group, split_table
from transect.errors import InputError
from transect.study.settings import Settings


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Part:
    """One table and the parts that its rows play.

    Args:
        table: the table.
        targets: ``[n]`` class indices in the training table's classes, or numbers.
        groups: ``[n]`` group numbers, shared by all tables of the study.
        development: indices of the rows that may choose and fit.
        test: indices of the rows that only score.
        notes: what was noticed, one sentence each.
    """

    table: Table
    targets: np.ndarray
    groups: np.ndarray
    development: np.ndarray
    test: np.ndarray
    notes: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The table's name."""
        return self.table.name


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Cast:
    """All tables of a study.

    Args:
        train: the table the probe learns from.
        tests: the tables it is tried on.
        components: where several tables were joined for training, each of them as a part of its own, with row numbers of the
            joined table; empty otherwise.
        rule: how rows were divided, in words.
    """

    train: Part
    tests: tuple[Part, ...]
    components: tuple[Part, ...]
    rule: str


def combine(tables: Sequence[Table]) -> Table:
    """One training table from one or several."""
    return tables[0] if len(tables) == 1 else concat(tables)


def cast(train: Table, tests: Sequence[Table], settings: Settings) -> Cast:
    """Give every row of every table its part.

    Raises:
        InputError: labels of a test table that were never seen in training, two tables of one name, too few groups.
        TableError: a table without labels, or with one class only.
    """
    _check(train, tests)
    ids, notes = _shared_groups([train, *tests])
    own, rule = _divide(train, ids[0], settings)
    fitted, held = np.unique(ids[0][own.development]), np.unique(ids[0][own.test])
    parts = [_test_part(table, train, group, fitted, held, settings) for table, group in zip(tests, ids[1:], strict=True)]
    own = dataclasses.replace(own, notes=(*own.notes, *notes))
    return Cast(train=own, tests=tuple(parts), components=_components(own), rule=rule)


def scored_rows(part: Part, fitted_groups: np.ndarray) -> np.ndarray:
    """Indices of the rows of a table that a probe fitted on these groups may be scored on."""
    return np.flatnonzero(~np.isin(part.groups, fitted_groups))


def _check(train: Table, tests: Sequence[Table]) -> None:
    names = [table.name for table in (train, *tests)]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InputError(
            f"two tables are called {twice[0]!r}; results are told apart by name, so rename one (name= of read_table, or the file)."
        )
    for table in (train, *tests):
        require_two_classes(table)
        if table.kind != train.kind and "number" in {table.kind, train.kind}:
            raise InputError(
                f"the labels of {train.name!r} are of kind {train.kind}, those of {table.name!r} of kind {table.kind}; "
                f"a probe for one cannot be scored on the other. Read both with the same kind=."
            )


def _targets(table: Table, train: Table) -> np.ndarray:
    return table.targets if train.classes is None else table.codes_for(train.classes)


def _shared_groups(tables: Sequence[Table]) -> tuple[list[np.ndarray], tuple[str, ...]]:
    bare = [Table(name=table.name, texts=table.texts, groups=table.groups) for table in tables]
    grouping = effective_groups(combine(bare))
    edges = np.cumsum([len(table) for table in tables])[:-1]
    return np.split(grouping.ids, edges), grouping.notes


def _divide(train: Table, groups: np.ndarray, settings: Settings) -> tuple[Part, str]:
    targets = train.targets
    codes = None if train.kind == "number" else targets
    if train.splits is not None:
        split = split_table(train, test=settings.test_fraction, seed=settings.seed)
        development, test, notes = np.sort(np.concatenate([split.train, split.validation])), split.test, split.notes
        rule = "by the table's own split column"
    else:
        held = split_by_group(groups, codes, test=settings.test_fraction, seed=settings.seed, classes=train.classes)
        development, test, notes = np.flatnonzero(~held), np.flatnonzero(held), ()
        rule = f"{settings.test_fraction:.0%} of the groups, drawn at random (seed {settings.seed}), kept for the test"
    return Part(table=train, targets=targets, groups=groups, development=development, test=test, notes=notes), rule


def _test_part(table: Table, train: Table, groups: np.ndarray, fitted: np.ndarray, held: np.ndarray, settings: Settings) -> Part:
    """A test table's rows: those that share a group with training rows follow them; the others are divided anew."""
    targets = _targets(table, train)
    follows_fit, follows_test = np.isin(groups, fitted), np.isin(groups, held)
    test = follows_test.copy()
    free = np.flatnonzero(~follows_fit & ~follows_test)
    if len(free):
        codes = None if train.kind == "number" else targets[free]
        try:
            test[free] = split_by_group(groups[free], codes, test=0.5, seed=settings.seed)
        except InputError:  # too few groups to divide: all of them score, and no reference probe is fitted here
            test[free] = True
    notes = ()
    if follows_fit.any():
        notes = (
            f"{int(follows_fit.sum())} of {len(table)} rows of {table.name} share a group or a text with rows the probe was fitted on, "
            f"so they are not scored.",
        )
    return Part(table=table, targets=targets, groups=groups, development=np.flatnonzero(~test), test=np.flatnonzero(test), notes=notes)


def _components(own: Part) -> tuple[Part, ...]:
    names = list(dict.fromkeys(own.table.dataset.tolist()))
    if len(names) < 2:
        return ()
    parts = []
    for name in names:
        mine = own.table.dataset == name
        development, test = (rows[mine[rows]] for rows in (own.development, own.test))
        parts.append(dataclasses.replace(own, development=development, test=test, notes=()))
    return tuple(parts)
