"""The solver beside scikit-learn at the size of real activations, and its parts."""

import warnings

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression

from transect.probes import _equations
from transect.probes._equations import solve_equations
from transect.probes._losses import ManyClasses, TwoClasses, dot
from transect.probes._newton import minimise
from transect.probes._rotation import Rotation
from transect.probes.naive import Naive, naive_objective


def activations(n=150, d=96, *, seed=0, separable=False):
    """Like a residual stream: a spectrum that falls, a few dimensions far larger than all others, and an offset."""
    rng = np.random.default_rng(seed)
    codes = rng.permutation(n) % 2
    x = rng.normal(size=(n, d)) * np.geomspace(1, 1e-3, d) @ np.linalg.qr(rng.normal(size=(d, d)))[0]
    x += np.outer(codes - 0.5, rng.normal(size=d)) * (1.0 if separable else 0.01)
    x[:, :2] = x[:, :2] * 300 + 100
    return x, codes


def loss_of(codes, n, b=1):
    classes = int(codes.max()) + 1
    make = TwoClasses if classes == 2 else ManyClasses
    return make.of(torch.from_numpy(codes).expand(b, -1), torch.full((b, n), 1 / n, dtype=torch.float64), classes)


@pytest.mark.parametrize("separable", [True, False])
@pytest.mark.parametrize("C", [1e-4, 1e-2, 1.0, 1e2, 1e4, 1e6])
def test_no_objective_is_worse_than_scikit_learns(C, separable):
    x, codes = activations(separable=separable)
    rotation = Rotation.of(torch.from_numpy(x))
    z = (x - rotation.mean.numpy()) / rotation.scale
    penalty = torch.tensor([1 / (C * len(x))], dtype=torch.float64)
    found = minimise(rotation, loss_of(codes, len(x)), penalty, tol=1e-4, max_steps=100)
    assert found.converged.all()
    mine = Naive((found.weight[0] @ rotation.basis.T).numpy(), found.intercept[0].numpy())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        reference = LogisticRegression(C=C, max_iter=20_000).fit(z, codes)
    theirs = naive_objective(Naive(reference.coef_, reference.intercept_), z, codes, C=C)
    here = naive_objective(mine, z, codes, C=C)
    assert here <= theirs * (1 + 1e-12)
    assert float(found.objective[0]) * C * len(x) == pytest.approx(here, rel=1e-9)


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("C", [1e-2, 1e2, 1e6])
def test_systems_solved_outright_lead_to_the_same_place(C, classes, monkeypatch):
    x, codes = activations(60, 20)
    codes = codes + (classes == 3) * (np.arange(60) % 4 == 0) * (codes == 1)
    rotation, loss = Rotation.of(torch.from_numpy(x)), loss_of(codes, 60)
    penalty = torch.tensor([1 / (C * 60)], dtype=torch.float64)
    usual = minimise(rotation, loss, penalty, tol=1e-10, max_steps=200)
    monkeypatch.setattr(_equations, "PATIENCE", 2)
    outright = minimise(rotation, loss, penalty, tol=1e-10, max_steps=200)
    assert usual.converged.all()
    assert outright.converged.all()
    torch.testing.assert_close(outright.weight, usual.weight, rtol=0, atol=1e-7 * float(usual.weight.norm()))


@pytest.mark.parametrize("classes", [2, 4])
def test_the_second_derivative_is_that_of_autograd(classes):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(30, 4, generator=generator).double()
    codes = torch.arange(30).numpy() % classes
    rotation, loss = Rotation.of(x), loss_of(codes, 30)
    k = loss.outputs
    weight, intercept = torch.randn(1, k, 4, generator=generator).double(), torch.randn(1, k, generator=generator).double()

    def total(flat):
        w, c = flat[: 4 * k].view(1, k, 4), flat[4 * k :].view(1, k)
        return loss.total(w @ rotation.z.T + c.unsqueeze(-1)).sum()

    flat = torch.cat([weight.flatten(), intercept.flatten()])
    whole = torch.autograd.functional.hessian(total, flat)
    slope = torch.autograd.functional.jacobian(total, flat)
    cut = 4 * k
    schur = whole[:cut, :cut] - whole[:cut, cut:] @ torch.linalg.pinv(whole[cut:, cut:], rtol=1e-10) @ whole[cut:, :cut]
    at = loss.at(weight @ rotation.z.T + intercept.unsqueeze(-1))
    torch.testing.assert_close((at.slope[0] @ rotation.z).flatten(), slope[:cut], rtol=1e-12, atol=1e-12)
    curvature = at.free_intercepts()
    torch.testing.assert_close(curvature.dense(rotation.z), schur, rtol=1e-12, atol=1e-12)
    vector = torch.randn(1, k, 4, generator=generator).double()
    image = curvature.product_(vector @ rotation.z.T) @ rotation.z
    torch.testing.assert_close(image.flatten(), schur @ vector.flatten(), rtol=1e-12, atol=1e-12)


def test_problems_do_not_see_each_other():
    x, codes = activations(80, 30)
    rotation = Rotation.of(torch.from_numpy(x))
    rng = np.random.default_rng(1)
    labels = torch.from_numpy(np.stack([codes, rng.permutation(codes), 1 - codes]))
    weight = torch.full((3, 80), 1 / 80, dtype=torch.float64)
    penalty = torch.tensor([1e-1, 1e-4, 1e-6], dtype=torch.float64)
    together = minimise(rotation, TwoClasses.of(labels, weight, 2), penalty, tol=1e-10, max_steps=100)
    for b in range(3):
        one = minimise(rotation, TwoClasses.of(labels[b : b + 1], weight[b : b + 1], 2), penalty[b : b + 1], tol=1e-10, max_steps=100)
        torch.testing.assert_close(one.weight[0], together.weight[b], rtol=0, atol=1e-8 * float(one.weight.norm()))


def test_a_step_limit_is_reported():
    x, codes = activations(separable=True)
    found = minimise(Rotation.of(torch.from_numpy(x)), loss_of(codes, 150), torch.tensor([1e-9]).double(), tol=1e-8, max_steps=2)
    assert not found.converged.any()
    assert found.steps.tolist() == [2]


@pytest.mark.parametrize(("n", "d"), [(40, 9), (9, 40), (20, 20), (1, 3), (2, 1)])
def test_a_rotation_is_orthogonal_and_goes_back(n, d):
    x = torch.randn(n, d, generator=torch.Generator().manual_seed(0)).double() * torch.logspace(0, 4, d).double() + 50
    rotation = Rotation.of(x)
    eye = torch.eye(rotation.z.shape[1], dtype=torch.float64)
    torch.testing.assert_close(rotation.basis.T @ rotation.basis, eye, rtol=0, atol=1e-12)
    torch.testing.assert_close(rotation.z @ rotation.basis.T * rotation.scale + rotation.mean, x, rtol=1e-9, atol=1e-9)
    gram = rotation.z.T @ rotation.z
    assert (gram - gram.diagonal().diag()).abs().max() <= 1e-10 * max(float(gram.diagonal().max()), 1)


def test_equations_are_solved_to_what_was_asked():
    x, codes = activations(80, 30)
    rotation = Rotation.of(torch.from_numpy(x))
    loss = loss_of(codes, 80)
    curvature = loss.at(torch.zeros(1, 1, 80, dtype=torch.float64)).free_intercepts()
    penalty = torch.tensor([1e-3], dtype=torch.float64)
    target = torch.randn(1, 1, 30, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    matrix = curvature.dense(rotation.z) + 1e-3 * torch.eye(30, dtype=torch.float64)
    want = torch.linalg.solve(matrix, target.flatten())
    for fraction in (1e-1, 1e-3, 1e-10):
        got, _, length = solve_equations(rotation, curvature, penalty, target, fraction=torch.tensor([fraction]).double(), exact=True)
        off = got.flatten() - want
        assert float((off @ matrix @ off).sqrt()) <= fraction * float((want @ matrix @ want).sqrt())
        assert float(length) == pytest.approx(float((want @ matrix @ want).sqrt()), rel=max(fraction, 1e-9))
    assert dot(target, target).shape == (1,)
