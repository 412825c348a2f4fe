"""The checks themselves: each broken fitter must fail, with the clause that it breaks."""

# ruff: noqa: ARG002 - every broken fitter is asked for its change in the same words

import dataclasses

import numpy as np
import pytest
import torch

from transect.linear import Readout
from transect.probes import MeanDifference
from transect.testing.fitter_checks import check_fitter, check_readout


class ChangesRows(MeanDifference):
    def fit(self, X, y, sample_weight=None):
        super().fit(X, y, sample_weight)
        if isinstance(X, np.ndarray) and X.size:
            X[0, 0] += 1
        return self


class ChangesSettings(MeanDifference):
    def __init__(self, level=0):
        self.level = level

    def fit(self, X, y, sample_weight=None):
        self.level = 1
        return super().fit(X, y, sample_weight)


class TouchesTorchRandomness(MeanDifference):
    def fit(self, X, y, sample_weight=None):
        torch.rand(1)
        return super().fit(X, y, sample_weight)


class TouchesNumpyRandomness(MeanDifference):
    def fit(self, X, y, sample_weight=None):
        np.random.rand()  # noqa: NPY002 - that is what is wrong with it
        return super().fit(X, y, sample_weight)


class SwitchesGradientsOff(MeanDifference):
    def fit(self, X, y, sample_weight=None):
        torch.set_grad_enabled(False)
        return super().fit(X, y, sample_weight)


class ReturnsNothing(MeanDifference):
    def fit(self, X, y, sample_weight=None):
        super().fit(X, y, sample_weight)


class _Altered(MeanDifference):
    """Fits, then exchanges the readout."""

    def fit(self, X, y, sample_weight=None):
        super().fit(X, y, sample_weight)
        weight = self.altered(X, y, sample_weight, self.readout_.weight)
        self.readout_ = dataclasses.replace(self.readout_, weight=weight)
        return self

    def altered(self, X, y, sample_weight, weight):
        raise NotImplementedError


class RemembersTheLastFit(_Altered):
    def altered(self, X, y, sample_weight, weight):
        self.fits_ = getattr(self, "fits_", 0) + 1
        return weight * self.fits_


class SeesTheOrder(_Altered):
    def altered(self, X, y, sample_weight, weight):
        return weight + 0.1 * torch.as_tensor(np.asarray(X[0].tolist()), dtype=weight.dtype)


class IgnoresWeights(MeanDifference):
    def fit(self, X, y, sample_weight=None):
        return super().fit(X, y, None)


class Random(_Altered):
    def altered(self, X, y, sample_weight, weight):
        return torch.randn(weight.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64).to(weight.dtype)


class Inverted(_Altered):
    def altered(self, X, y, sample_weight, weight):
        return -weight


class FavoursTheFirstAxis(_Altered):
    def altered(self, X, y, sample_weight, weight):
        changed = torch.cat([weight[:, :1] * 1.2, weight[:, 1:]], 1)
        rows = torch.as_tensor(np.asarray(X.tolist()), dtype=weight.dtype)
        counts = torch.ones(len(rows)) if sample_weight is None else torch.as_tensor(sample_weight)
        middle = counts.to(rows.dtype) @ rows / counts.sum()
        self.readout_ = dataclasses.replace(self.readout_, bias=self.readout_.bias + (weight - changed) @ middle)  # shifts as it should
        return changed


class WidensTypes(_Altered):
    def altered(self, X, y, sample_weight, weight):
        self.readout_ = dataclasses.replace(self.readout_, bias=self.readout_.bias.double())
        return weight.double()


class AcceptsMissingValues(MeanDifference):
    def fit(self, X, y, sample_weight=None):
        X = torch.nan_to_num(X, posinf=0.0) if isinstance(X, torch.Tensor) else np.nan_to_num(X, posinf=0.0)
        return super().fit(X, y, sample_weight)


class AcceptsOneClass(MeanDifference):
    def fit(self, X, y, sample_weight=None):
        if len(y) == len(X) and len(y) and np.isfinite(np.asarray(y)).all() and len(np.unique(np.asarray(y))) == 1:
            y = np.arange(len(y)) % 2
        return super().fit(X, y, sample_weight)


class AcceptsOtherWidths(MeanDifference):
    def predict(self, X):
        if X.shape[1] != self.n_features_in_:
            return np.zeros(len(X))
        return super().predict(X)


class FailsWithoutAName(MeanDifference):
    def fit(self, X, y, sample_weight=None):
        if not np.isfinite(np.asarray(X.tolist())).all():
            raise RuntimeError("boom")
        return super().fit(X, y, sample_weight)


BROKEN = {
    ChangesRows: "purity: fitting changed X",
    ChangesSettings: "purity: fitting changed the settings",
    TouchesTorchRandomness: "purity: torch's random state",
    TouchesNumpyRandomness: "purity: numpy's random state",
    SwitchesGradientsOff: "purity: gradient mode",
    ReturnsNothing: "purity: fit does not return",
    RemembersTheLastFit: "purity: fitting again",
    SeesTheOrder: "purity: the order of the rows",
    IgnoresWeights: "purity: a weight of 2",
    Random: "planted truth: the planted direction is not found",
    Inverted: "planted truth: the planted direction is not found",
    FavoursTheFirstAxis: "algebra: rotated rows",
    WidensTypes: "edges: rows in torch.float32 give",
    AcceptsMissingValues: "edges: NaN in X is accepted",
    AcceptsOneClass: "edges: one class only is accepted",
    AcceptsOtherWidths: "edges: rows of another width",
    FailsWithoutAName: "fails with RuntimeError instead of InputError",
}


@pytest.mark.parametrize("broken", BROKEN, ids=lambda broken: broken.__name__)
def test_a_broken_fitter_fails(broken):
    torch_state, numpy_state = torch.get_rng_state(), np.random.get_state()  # noqa: NPY002 - two of them move it, and it is put back
    try:
        with torch.enable_grad(), pytest.raises(AssertionError, match=BROKEN[broken]):
            check_fitter(broken())
    finally:
        torch.set_rng_state(torch_state)
        np.random.set_state(numpy_state)  # noqa: NPY002


def test_a_fitter_that_is_not_its_twin_fails():
    from transect.probes.naive import naive_lda

    with pytest.raises(AssertionError, match="twin: it is not the slow definition"):
        check_fitter(MeanDifference(), twin=lambda x, y: naive_lda(x, y, shrinkage=0.1))


class Bent(Readout):
    def scores(self, activations):
        return super().scores(activations) ** 2


class Leaky(Readout):
    def scores(self, activations):
        if activations.shape[-1] == self.width:
            activations += 1
        return super().scores(activations)


class Careless(Readout):
    def scores(self, activations):
        return super().scores(activations[..., : self.width])


class Centring(Readout):
    def scores(self, activations):
        scores = super().scores(activations)
        return scores - scores.mean() if scores.ndim else scores


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (Bent, "not affine"),
        (Leaky, "changed its input"),
        (Careless, "another width"),
        (Centring, "differently from its rows"),
    ],
)
def test_a_broken_readout_fails(broken, message):
    with pytest.raises(AssertionError, match=message):
        check_readout(broken(weight=torch.ones(1, 3), bias=torch.ones(1), link="logistic", classes=(0, 1)))
