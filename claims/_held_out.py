"""Scores of rows by a linear probe that never saw their group."""

from typing import Any

import numpy as np
import torch

from transect.data import group_folds
from transect.probes import Logistic


def fit(x: Any, codes: np.ndarray, *, C: float) -> "Fitted":
    """A logistic probe on columns of mean 0 and variance 1."""
    rows = np.asarray(x, dtype=np.float64)
    mean, spread = rows.mean(axis=0), rows.std(axis=0)
    spread = np.where(spread > 0, spread, 1.0)
    probe = Logistic(C=C)
    probe.fit(torch.from_numpy((rows - mean) / spread), codes)
    return Fitted(mean, spread, probe)


class Fitted:
    """A probe that remembers how its columns were scaled."""

    def __init__(self, mean: np.ndarray, spread: np.ndarray, probe: Logistic) -> None:
        self.mean, self.spread, self.probe = mean, spread, probe

    def scores(self, x: Any) -> np.ndarray:
        """``[n]`` log-odds of rows ``[n, d]``."""
        rows = (np.asarray(x, dtype=np.float64) - self.mean) / self.spread
        return np.asarray(self.probe.decision_function(torch.from_numpy(rows)), dtype=np.float64)

    def probabilities(self, x: Any) -> np.ndarray:
        """``[n]`` probabilities of the second class."""
        return 1 / (1 + np.exp(-np.clip(self.scores(x), -50, 50)))


def folds_of(groups: np.ndarray, codes: np.ndarray, *, folds: int = 5) -> np.ndarray:
    """``[n]`` folds of whole groups, as many of each class in each as their groups allow."""
    return group_folds(groups, codes, folds=folds, seed=0)


def held_out(x: Any, codes: np.ndarray, folds: np.ndarray, *, C: float) -> np.ndarray:
    """``[n]`` scores by probes fitted on the other folds; each fold's scores have mean 0, for intercepts of different fits differ."""
    rows, found = np.asarray(x, dtype=np.float64), np.empty(len(codes))
    for fold in np.unique(folds):
        held = folds == fold
        scores = fit(rows[~held], codes[~held], C=C).scores(rows[held])
        found[held] = (scores - scores.mean()) / (scores.std() or 1.0)
    return found
