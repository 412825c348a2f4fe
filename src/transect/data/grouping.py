"""Which rows must stay on one side of every split: those of one given group, and those that hold the same text."""

import dataclasses
from typing import Any

import numpy as np

from transect.data.duplicates import exact_ids, near_duplicates
from transect.data.table import Table

# In a smaller table one group of more than half the rows is nothing unusual.
FEW_ROWS = 20


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Grouping:
    """Which rows must stay together.

    Args:
        ids: ``[n]`` int64, equal for rows of one group, numbered by first appearance.
        notes: what was joined, one sentence each.
    """

    ids: np.ndarray
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        """How many groups there are."""
        return int(self.ids.max()) + 1


def effective_groups(table: Table, *, near: bool = True) -> Grouping:
    """The groups that splits must respect: the given ones, joined wherever they share a duplicate text.

    Without given groups each different text is a group. Near duplicates are joined too, unless that would put more than
    half of all rows into one group (texts that are all variations of one another); the notes then say so.

    Args:
        table: ``n`` rows.
        near: join near duplicates as well as exact ones.

    Examples:
        >>> from transect.data import read_table
        >>> effective_groups(read_table(["It rains.", "It snows.", "it  rains"])).ids.tolist()
        [0, 1, 0]
    """
    forms, texts = exact_ids(table.texts)
    notes: list[str] = []
    none = np.empty((0, 2), dtype=np.int64)
    exact = _components(table, forms, none)
    copies = len(table) - len(texts)
    if copies:
        notes.append(f"{copies} rows repeat another text but for case, spaces and punctuation; they share its group.")
    if table.groups is not None and exact.max() + 1 < len(set(table.groups.tolist())):
        notes.append(f"groups that share a text were joined: {len(set(table.groups.tolist()))} given groups became {exact.max() + 1}.")
    if not near:
        return Grouping(ids=exact, notes=tuple(notes))
    found = near_duplicates(texts)
    if found.skipped:
        notes.append(found.skipped)
    if len(found.pairs) == 0:
        return Grouping(ids=exact, notes=tuple(notes))
    joined = _components(table, forms, found.pairs)
    before, after = int(np.bincount(exact).max()), int(np.bincount(joined).max())
    if after > max(len(table) / 2, FEW_ROWS) and before < after:
        notes.append(
            f"near duplicates were not joined: that would put {after} of {len(table)} rows into one group. The texts are variations of one "
            f"another; give a group column if some belong together."
        )
        return Grouping(ids=exact, notes=tuple(notes))
    if joined.max() < exact.max():
        notes.append(f"near duplicates were joined: {exact.max() + 1} groups became {joined.max() + 1}.")
    return Grouping(ids=joined, notes=tuple(notes))


def _components(table: Table, forms: np.ndarray, near: np.ndarray) -> np.ndarray:
    """``[n]`` connected components of rows linked by group, equal text or near-duplicate text."""
    from scipy import sparse
    from scipy.sparse.csgraph import connected_components

    n_forms = int(forms.max()) + 1
    left, right = near[:, 0], near[:, 1]
    n_nodes = n_forms
    if table.groups is not None:
        groups = factorize(table.groups)
        left, right = np.concatenate([left, forms]), np.concatenate([right, groups + n_forms])
        n_nodes += int(groups.max()) + 1
    graph = sparse.coo_matrix((np.ones(len(left), dtype=np.int8), (left, right)), shape=(n_nodes, n_nodes))
    _, component = connected_components(graph, directed=False)
    return factorize(component[forms])


def factorize(values: np.ndarray) -> np.ndarray:
    """``[n]`` int64: equal numbers for equal values, numbered by first appearance."""
    seen: dict[Any, int] = {}
    return np.fromiter((seen.setdefault(value, len(seen)) for value in np.asarray(values).tolist()), dtype=np.int64, count=len(values))
