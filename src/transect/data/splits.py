"""Splits by group."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from transect.data.table import Table


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Grouping:
    """Which rows must stay together: ids ``[n]`` int64, 0-based."""

    ids: np.ndarray
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return int(self.ids.max()) + 1


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Split:
    """Row indices of each part (validation may be empty), and what was dropped on the way."""

    train: np.ndarray
    validation: np.ndarray
    test: np.ndarray
    notes: tuple[str, ...] = ()


def effective_groups(table: Table, *, near: bool = True) -> Grouping:
    """Given groups, joined wherever texts are duplicates."""
    raise NotImplementedError


def group_folds(
    groups: np.ndarray, codes: np.ndarray | None, *, folds: int = 5, seed: int = 0, classes: Sequence[Any] | None = None
) -> np.ndarray:
    """``[n]`` int64 fold of each row."""
    raise NotImplementedError


def split_by_group(
    groups: np.ndarray, codes: np.ndarray | None, *, test: float = 0.3, seed: int = 0, classes: Sequence[Any] | None = None
) -> np.ndarray:
    """``[n]`` bool: the rows held out for testing."""
    raise NotImplementedError


def split_table(table: Table, *, test: float = 0.3, seed: int = 0) -> Split:
    """The table's own splits if it has any, else `split_by_group` over its effective groups."""
    raise NotImplementedError
