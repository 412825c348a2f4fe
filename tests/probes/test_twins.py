"""Every fast fit equals its slow definition, and scikit-learn where scikit-learn has the same one, in float64."""

import warnings

import numpy as np
import pytest
import torch
from sklearn.covariance import ledoit_wolf_shrinkage
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.linear_model import Ridge as ReferenceRidge

from transect.probes import LDA, Logistic, MeanDifference, Ridge
from transect.probes.lda import ledoit_wolf
from transect.probes.naive import (
    Naive,
    naive_lda,
    naive_ledoit_wolf,
    naive_logistic,
    naive_mean_difference,
    naive_objective,
    naive_ridge,
)

SHAPES = {"tall": (90, 7), "wide": (24, 60), "one column": (40, 1)}


def data(shape="tall", classes=2, *, seed=0, spread=1.5):
    rng = np.random.default_rng(seed)
    n, d = SHAPES[shape]
    codes = np.arange(n) % classes
    centres = rng.normal(size=(classes, d)) * spread
    return centres[codes] + rng.normal(size=(n, d)) * np.geomspace(0.3, 3, d) + 5, codes


def close(probe, naive, rtol):
    scale = max(np.abs(naive.weight).max(), 1e-300)
    assert np.abs(probe.coef_ - naive.weight).max() <= rtol * scale
    assert np.abs(probe.intercept_ - naive.bias).max() <= rtol * max(np.abs(naive.bias).max(), scale)


def centred(naive):
    """Scores of many classes are free to move by one line together; take that line out."""
    if len(naive.bias) == 1:
        return naive
    return Naive(naive.weight - naive.weight.mean(0), naive.bias - naive.bias.mean())


WEIGHTS = [None, "some"]


def weights(kind, n):
    return None if kind is None else np.random.default_rng(7).integers(0, 4, n).astype(float) + (np.arange(n) < 6)


@pytest.mark.parametrize("kind", WEIGHTS)
@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("shape", SHAPES)
def test_mean_difference(shape, classes, kind):
    x, codes = data(shape, classes)
    w = weights(kind, len(x))
    naive = naive_mean_difference(x, codes, weight=w)
    probe = MeanDifference().fit(x, codes, w)
    if classes == 2:
        close(probe, naive, 1e-9)
    scores = x @ naive.weight.T + naive.bias
    mine = probe.decision_function(x).reshape(len(x), -1)
    if classes > 2:
        mine, scores = mine - mine.mean(1, keepdims=True), scores - scores.mean(1, keepdims=True)
    np.testing.assert_allclose(mine, scores, atol=1e-9, rtol=0)


@pytest.mark.parametrize("kind", WEIGHTS)
@pytest.mark.parametrize("shrinkage", [1e-3, 0.2, 1.0])
@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("shape", SHAPES)
def test_lda(shape, classes, shrinkage, kind):
    x, codes = data(shape, classes)
    w = weights(kind, len(x))
    naive = naive_lda(x, codes, shrinkage=shrinkage, weight=w)
    scores = x @ naive.weight.T + naive.bias
    mine = LDA(shrinkage=shrinkage).fit(x, codes, w).decision_function(x).reshape(len(x), -1)
    if classes > 2:
        mine, scores = mine - mine.mean(1, keepdims=True), scores - scores.mean(1, keepdims=True)
    np.testing.assert_allclose(mine, scores, rtol=1e-7, atol=1e-7 * np.abs(scores).max())


def test_lda_is_that_of_scikit_learn():
    x, codes = data("tall", 2)
    reference = LinearDiscriminantAnalysis(solver="lsqr", shrinkage=0.1).fit(x, codes)
    np.testing.assert_allclose(LDA(shrinkage=0.1).fit(x, codes).coef_, reference.coef_, rtol=1e-8)


@pytest.mark.parametrize("shape", ["tall", "wide"])
def test_ledoit_wolf(shape):
    x, codes = data(shape, 2)
    around = x - np.stack([x[codes == code].mean(0) for code in (0, 1)])[codes]
    n, d = x.shape
    naive = naive_ledoit_wolf(x, codes)
    assert naive == pytest.approx(ledoit_wolf_shrinkage(around, assume_centered=True), rel=1e-9)
    rows = torch.from_numpy(around)
    fast = ledoit_wolf(rows, rows.T @ rows / n, torch.full((n,), 1 / n, dtype=torch.float64), count=n, width=d)
    assert fast == pytest.approx(naive, rel=1e-9)


@pytest.mark.parametrize("kind", WEIGHTS)
@pytest.mark.parametrize("alpha", [1e-6, 1.0, 1e4])
@pytest.mark.parametrize("shape", SHAPES)
def test_ridge(shape, alpha, kind):
    x, _ = data(shape, 2)
    y = x @ np.linspace(-1, 1, x.shape[1]) + np.sin(np.arange(len(x)))
    w = weights(kind, len(x))
    probe = Ridge(alpha=alpha).fit(x, y, w)
    reference = ReferenceRidge(alpha=alpha, solver="svd").fit(x, y, w)
    naive = naive_ridge(x, y, alpha=alpha, weight=w)
    np.testing.assert_allclose(probe.predict(x), reference.predict(x), rtol=1e-6, atol=1e-6)
    if shape != "wide" or alpha > 1e-3:  # normal equations lose those digits
        close(probe, naive, 1e-6)


@pytest.mark.parametrize("classes", [2, 3])
def test_ridge_of_classes_is_that_of_scikit_learn(classes):
    x, codes = data("tall", classes)
    names = np.array(["a", "b", "c"])[codes]
    probe, reference = Ridge(alpha=2.0, targets="classes").fit(x, names), RidgeClassifier(alpha=2.0, solver="svd").fit(x, names)
    np.testing.assert_allclose(probe.decision_function(x), reference.decision_function(x), atol=1e-9, rtol=0)
    assert (probe.predict(x) == reference.predict(x)).all()


@pytest.mark.parametrize("kind", WEIGHTS)
@pytest.mark.parametrize("C", [1e-4, 1.0, 1e4])
@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("shape", SHAPES)
def test_logistic(shape, classes, C, kind):
    x, codes = data(shape, classes)
    w = weights(kind, len(x))
    naive = centred(naive_logistic(x, codes, C=C, weight=w))
    probe = Logistic(C=C, tol=1e-9).fit(x, codes, w)
    mine = centred(Naive(probe.coef_, probe.intercept_))
    size = np.linalg.norm(naive.weight)
    assert np.linalg.norm(mine.weight - naive.weight) <= 1e-6 * size
    assert naive_objective(mine, x, codes, C=C, weight=w) <= naive_objective(naive, x, codes, C=C, weight=w) * (1 + 1e-11)


def hard(name, seed=3):
    rng = np.random.default_rng(seed)
    x, y = rng.normal(size=(60, 8)), None
    y = (x[:, 0] + rng.normal(size=60) > 0).astype(int)
    if name == "separable":
        y = (x[:, 0] > 0).astype(int)
    elif name == "a column 1000 times larger":
        x[:, 3] *= 1000
    elif name == "constant column":
        x[:, 3] = 7
    elif name == "duplicated column":
        x[:, 3] = x[:, 4]
    elif name == "two rows":
        x, y = np.array([[0.0, 1.0], [1.0, 3.0]]), np.array([0, 1])
    elif name == "one positive":
        y = (np.arange(60) == 0).astype(int)
    elif name == "fewer rows than columns":
        x, y = rng.normal(size=(20, 50)), np.arange(20) % 2
    elif name == "heavy tails":
        x /= rng.random((60, 1)) ** 2
    elif name == "separable in three":
        y = (x[:, 0] > 0).astype(int) + (x[:, 0] > 1)
    return x, y


NAMES = [
    "separable",
    "a column 1000 times larger",
    "constant column",
    "duplicated column",
    "two rows",
    "one positive",
    "fewer rows than columns",
    "heavy tails",
    "separable in three",
]


@pytest.mark.parametrize("C", [1e-4, 1.0, 1e6])
@pytest.mark.parametrize("name", NAMES)
def test_logistic_on_hard_data(name, C):
    """Coefficients agree to 1e-4 with scikit-learn at a tight tolerance, and no objective is worse than its default one."""
    x, y = hard(name)
    probe = Logistic(C=C, tol=1e-8).fit(x, y)
    mine = naive_objective(Naive(probe.coef_, probe.intercept_), x, y, C=C)
    tight = LogisticRegression(C=C, solver="newton-cholesky", tol=1e-12, max_iter=10_000)
    usual = LogisticRegression(C=C, max_iter=10_000)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # its solver falls back, with a warning, where the second derivative is singular
        tight.fit(x, y)
        usual.fit(x, y)
    assert mine <= naive_objective(Naive(usual.coef_, usual.intercept_), x, y, C=C) * (1 + 1e-12)
    best = naive_objective(Naive(tight.coef_, tight.intercept_), x, y, C=C)
    assert mine <= best * (1 + 1e-9)
    if best <= mine * (1 + 1e-10):  # where scikit-learn itself has arrived
        np.testing.assert_allclose(probe.coef_, tight.coef_, rtol=0, atol=1e-4 * np.linalg.norm(tight.coef_))


def test_the_default_tolerance_is_what_it_says():
    x, y = hard("separable")
    for C in (1e-3, 1.0, 1e3, 1e6):
        loose, tight = Logistic(C=C).fit(x, y).coef_, Logistic(C=C, tol=1e-11).fit(x, y).coef_
        assert np.linalg.norm(loose - tight) <= 1e-4 * np.linalg.norm(tight)
