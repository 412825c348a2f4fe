"""`ClassFitter`: fitters whose scores are log-odds, so that they have probabilities."""

from typing import Any

import numpy as np
import torch
from sklearn.base import ClassifierMixin

from transect.probes.fitter import Fitter


class ClassFitter(ClassifierMixin, Fitter):
    """A fitter of classes."""

    def _probabilities(self, X: Any) -> Any:
        rows = self._read(X)
        found = self.readout_.probabilities(rows)
        return found if isinstance(X, torch.Tensor) else found.numpy()

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The share of rows ``X [n, d]`` whose class is predicted right."""
        right = np.asarray(_plain(self.predict(X)) == _plain(y))
        return float(np.average(right, weights=sample_weight))


def _plain(values: Any) -> np.ndarray:
    return values.detach().cpu().numpy() if isinstance(values, torch.Tensor) else np.asarray(values)
