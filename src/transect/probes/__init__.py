"""Linear probes: scikit-learn estimators for arrays and tensors that leave a frozen `Readout`, and the sweep over many fits at once."""

from transect.probes.fitter import Fitter
from transect.probes.lda import LDA
from transect.probes.logistic import Logistic
from transect.probes.mean_difference import MeanDifference
from transect.probes.nullspace import NullStep, nullspace_steps
from transect.probes.ridge import Ridge
from transect.probes.subspaces import best_subspace, subspace_scores
from transect.probes.sweep import Inside, Sweep, fit_readout, resampled_scores, sweep

__all__ = [
    "LDA",
    "Fitter",
    "Inside",
    "Logistic",
    "MeanDifference",
    "NullStep",
    "Ridge",
    "Sweep",
    "best_subspace",
    "fit_readout",
    "nullspace_steps",
    "resampled_scores",
    "subspace_scores",
    "sweep",
]
