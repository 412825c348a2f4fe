"""Linear probes: scikit-learn estimators for arrays and tensors that leave a frozen `Readout`, and the sweep over many fits at once."""

from transect.probes.fitter import Fitter
from transect.probes.lda import LDA
from transect.probes.logistic import Logistic
from transect.probes.mean_difference import MeanDifference
from transect.probes.ridge import Ridge
from transect.probes.sweep import Sweep, fit_readout, resampled_scores, sweep

__all__ = ["LDA", "Fitter", "Logistic", "MeanDifference", "Ridge", "Sweep", "fit_readout", "resampled_scores", "sweep"]
