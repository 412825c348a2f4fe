"""What several claims need: the demo model's activations of the built-in sets, and their divisions into fit and test rows."""

import dataclasses
import functools
from collections.abc import Mapping

import numpy as np
import torch

import transect
from transect.data import split_by_group
from transect.models import Model

SETS = ("cities", "neg_cities", "elements", "neg_elements", "larger_than", "smaller_than")
SITES = ("layers[3]", "layers[6]", "layers[9]", "layers[12]", "layers[15]")


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Rows:
    """One set: its activations by site, labels, groups, and which rows only test."""

    activations: Mapping[str, torch.Tensor]
    codes: np.ndarray
    groups: np.ndarray
    test: np.ndarray


@functools.cache
def demo_model() -> Model:
    """Gemma 3 270M, loaded once for all claims."""
    return transect.load("demo")


def read_sets(model: Model, names: tuple[str, ...] = SETS, sites: tuple[str, ...] = SITES) -> dict[str, Rows]:
    """Capture the sets; groups of one name are on the same side of the split in every set, so no city is both fitted and tested."""
    found = {}
    for name in names:
        table = transect.read_table(name)
        acts = transect.capture(model, table, sites=sites)
        groups = np.asarray(table.groups)
        # The seed and the sorted group names alone decide, so sets that share groups are split alike.
        test = split_by_group(groups, table.codes, test=0.3, seed=0)
        found[name] = Rows(activations={site: acts[site] for site in sites}, codes=table.codes, groups=groups, test=test)
    return found


@functools.cache
def demo_sets() -> dict[str, Rows]:
    """All built-in sets on the demo model, captured once for all claims."""
    return read_sets(demo_model())


def eligible(train: Rows, test: Rows) -> np.ndarray:
    """Indices of the rows of one set that share no group with the fitted rows of another."""
    return np.flatnonzero(~np.isin(test.groups, np.unique(train.groups[~train.test])))
