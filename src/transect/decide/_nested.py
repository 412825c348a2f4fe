"""Choosing a layer inside each fold, so that the rows it is measured on had no part in the choice.

Out-of-fold scores do not make the choice clean by themselves: the score of a row outside comes from a probe fitted on the rows that
choose, and theirs from a probe fitted on it. What two rows have in common by chance in one layer counts on both sides, so the layer
that looks best to the one looks good to the other, on noise too. So the layer for a fold is chosen by probes that never saw that fold.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from transect.decide._folds import fit_in_own_space, grouped_folds, out_of_fold
from transect.errors import InputError
from transect.measure._inputs import Floats, Ints, as_floats
from transect.measure.cross_validated import cross_validated_auroc_statistic


@dataclasses.dataclass(frozen=True, eq=False)
class Nested:
    """Scores of "choose the best layer and fit it" for rows that had no part in either.

    Args:
        scores: ``[n]``, of the layer that the other folds chose, fitted on them; mean 0 and variance 1 in each fold.
        chosen: ``[folds]``, the layer chosen for each fold.
        by_layer: ``[s, n]``, out-of-fold scores of every layer.
    """

    scores: Floats
    chosen: Ints
    by_layer: Floats


def choose_in_folds(layers: Sequence[Any], codes: Ints, folds: Ints, *, C: float, groups: Any = None, seed: int = 0) -> Nested:
    """Choose a layer for each fold by the AUROC of inner out-of-fold scores on the other folds only, and score the fold with it.

    The inner folds are the other folds; of two folds, the other one is split in two again. Among equals the first layer is chosen.

    Args:
        layers: activations ``[n, d]``, one for each layer.
        codes: ``[n]``, 0 or 1.
        folds: ``[n]``, from 0 on, none empty.
        C: as for `out_of_fold`.
        groups: ``[n]``, kept whole where a fold is split again.
        seed: of that split.

    Raises:
        InputError: NaN (its row is named); a fold without which, or two without which, no probe can be fitted for want of a class.
    """
    by_layer = np.stack([out_of_fold(x, codes, folds, C=C) for x in layers])
    chosen = np.zeros(folds.max() + 1, dtype=np.int64)
    if len(layers) > 1:
        split = _one_fold_each if len(chosen) == 2 else _pairs_of_folds
        chosen = np.stack([split(as_floats(x, name="activations", ndim=(2,)), codes, folds, C, groups, seed) for x in layers]).argmax(
            axis=0
        )
    return Nested(by_layer[chosen[folds], np.arange(len(codes))], chosen, by_layer)


def _pairs_of_folds(x: Floats, codes: Ints, folds: Ints, C: float, _groups: Any, _seed: int) -> Floats:
    """``[folds]``: AUROC on all other folds. One fit without two folds scores each of them for the choice that is made for the other."""
    n_folds = int(folds.max()) + 1
    scores = np.full((n_folds, len(codes)), np.nan)
    for one in range(n_folds):
        for two in range(one):
            fitted = (folds != one) & (folds != two)
            if len(np.unique(codes[fitted])) < 2:
                continue
            readout = fit_in_own_space(x[fitted], codes[fitted], C=C)
            for left_out, measured in ((one, folds == two), (two, folds == one)):
                scores[left_out, measured] = readout.scores(torch.from_numpy(x[measured])).numpy()
    return np.array([_auroc(row, codes, folds, np.flatnonzero(np.isfinite(row))) for row in scores])


def _one_fold_each(x: Floats, codes: Ints, folds: Ints, C: float, groups: Any, seed: int) -> Floats:
    found = []
    for fold in range(2):
        rest = np.flatnonzero(folds != fold)
        inside = None if groups is None else np.asarray(groups)[rest]
        inner = grouped_folds(len(rest), classes=codes[rest], groups=inside, folds=2, seed=seed)
        found.append(_auroc(out_of_fold(x[rest], codes[rest], inner, C=C), codes[rest], inner, np.arange(len(rest))))
    return np.array(found)


def _auroc(scores: Floats, codes: Ints, folds: Ints, rows: Ints) -> float:
    if len(rows) == 0 or all(len(np.unique(codes[rows[folds[rows] == fold]])) < 2 for fold in np.unique(folds[rows])):
        raise InputError(
            f"outside two of {len(np.unique(folds))} folds there are too few rows of a class to choose a layer; use other folds."
        )
    return round(cross_validated_auroc_statistic(scores[rows], codes[rows], folds[rows]).value(), 9)
