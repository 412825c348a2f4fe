"""Every public fitter, found by walking the package, keeps the contracts and has a slow twin."""

import re

import numpy as np
import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from transect.probes import Ridge, naive
from transect.testing.fitter_checks import all_fitters, check_fitter

FITTERS = [fitter() for fitter in all_fitters()]
# A fitter of two kinds of labels is checked with both.
KINDS = [*FITTERS, Ridge(targets="classes")]


def twin_of(fitter):
    name = "naive_" + re.sub(r"(?<=[a-z])(?=[A-Z])", "_", type(fitter).__name__).lower()
    assert hasattr(naive, name), f"{type(fitter).__name__} has no twin {name} in transect.probes.naive; write its definition there"
    slow = getattr(naive, name)
    if name == "naive_lda":
        return lambda x, y: slow(x, y, shrinkage=naive.naive_ledoit_wolf(x, y))
    if name == "naive_ridge" and fitter.targets == "classes":
        return lambda x, y: slow(x, 2.0 * y - 1, alpha=fitter.alpha)
    settings = {} if fitter.strength is None else {fitter.strength: getattr(fitter, fitter.strength)}
    return lambda x, y: slow(x, y, **settings)


@pytest.mark.parametrize("fitter", KINDS, ids=repr)
def test_contracts(fitter):
    check_fitter(fitter, twin=twin_of(fitter), rtol=2e-4 if fitter.strength == "C" else 1e-7)


@parametrize_with_checks(KINDS)
def test_scikit_learn(estimator, check):
    state = np.random.get_state()  # noqa: NPY002 - scikit-learn's own checks draw from it
    try:
        check(estimator)
    finally:
        np.random.set_state(state)  # noqa: NPY002


def test_the_walk_finds_what_there_is():
    assert {"LDA", "Logistic", "MeanDifference", "Ridge"} <= {type(fitter).__name__ for fitter in FITTERS}
