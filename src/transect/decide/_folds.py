"""Folds that keep groups whole, and scores of rows by a probe that never saw their group."""

import dataclasses
from typing import Any

import numpy as np
import torch
from sklearn.model_selection import GroupKFold, StratifiedGroupKFold

from transect.errors import InputError
from transect.linear import Readout
from transect.measure._inputs import Floats, Ints, as_floats, as_groups
from transect.probes import Logistic


def grouped_folds(n: int, *, classes: Ints | None = None, groups: Any = None, folds: int = 5, seed: int = 0) -> Ints:
    """``[n]``: the fold in which each row is held out. With `classes`, each fold has about as many of each.

    Raises:
        InputError: fewer groups (of some class) than folds.
    """
    codes, n_groups = as_groups(groups, n=n)
    fewest = n_groups if classes is None else min(len(np.unique(codes[classes == label])) for label in np.unique(classes))
    if folds < 2 or fewest < folds:
        of_class = "" if classes is None else " of the rarest class"
        raise InputError(f"{folds} folds need at least 2 folds and as many groups{of_class}, got {fewest}; ask for fewer folds (folds=2).")
    kfold = (GroupKFold if classes is None else StratifiedGroupKFold)(folds, shuffle=True, random_state=seed)
    found = np.empty(n, dtype=np.int64)
    for number, (_, held) in enumerate(kfold.split(np.zeros(n), None if classes is None else classes, codes)):
        found[held] = number
    return found


def standardised(x: Floats) -> tuple[Floats, Floats]:
    """Mean and standard deviation ``[d]`` of columns; 1 for those that are constant."""
    spread = x.std(axis=0)
    return x.mean(axis=0), np.where(spread > 0, spread, 1.0)


def fit_in_own_space(x: Floats, labels: Any, *, C: float) -> Readout:
    """A logistic readout fitted on standardised columns and written out for the columns as they are."""
    mean, spread = standardised(x)
    fitted = Logistic(C=C).fit((x - mean) / spread, labels).readout_
    weight = fitted.weight.double() / torch.from_numpy(spread)
    return dataclasses.replace(fitted, weight=weight, bias=fitted.bias.double() - weight @ torch.from_numpy(mean))


def out_of_fold(x: Any, codes: Ints, folds: Ints, *, C: float = 1.0) -> Floats:
    """Scores ``[n]`` (or ``[n, k]``) of a logistic probe fitted on the other folds, columns standardised there.

    Each fold's scores are given mean 0 and variance 1: the intercepts and scales of different fits need not agree, and an intercept leans
    against the share of the classes that was held out, so that noise pooled as it is would score below chance.

    Raises:
        InputError: NaN (its row is named), or a fold whose other rows lack a class.
    """
    values = as_floats(x, name="activations", ndim=(2,))
    n_classes = int(codes.max()) + 1
    found = np.empty(len(values) if n_classes == 2 else (len(values), n_classes))
    for fold in np.unique(folds):
        held = folds == fold
        if len(np.unique(codes[~held])) < n_classes:
            raise InputError(
                f"outside fold {fold} there are rows of {len(np.unique(codes[~held]))} of {n_classes} classes; use fewer folds."
            )
        found[held] = fit_in_own_space(values[~held], codes[~held], C=C).scores(torch.from_numpy(values[held])).numpy()
    return standard_in_folds(found, folds)


def standard_in_folds(scores: Floats, folds: Ints) -> Floats:
    """The same scores with mean 0 and variance 1 in each fold; labels are not looked at."""
    found = scores.copy()
    for fold in np.unique(folds):
        mean, spread = standardised(scores[folds == fold])
        found[folds == fold] = (scores[folds == fold] - mean) / spread
    return found
