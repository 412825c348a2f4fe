import mpmath
import numpy as np
import pytest
import torch

from transect.errors import InputError
from transect.linear import Subspace
from transect.probes import LDA, MeanDifference, Ridge, best_subspace, nullspace_steps, resampled_scores, subspace_scores
from transect.probes.naive import naive_nullspace, naive_subspace_scores

SHAPES = {"tall": (80, 12), "wide": (30, 70), "square": (40, 40)}


def data(shape, seed=0):
    n, d = SHAPES[shape]
    rng = np.random.default_rng(seed)
    codes = np.arange(n) % 2
    x = rng.normal(size=(n, d)) * np.geomspace(3, 0.3, d) + 5
    x[:, :4] += 0.8 * codes[:, None]
    return x, codes, rng.normal(size=(25, d)) + 5


def steps_of(x, codes, x_eval, **settings):
    found = list(nullspace_steps(torch.from_numpy(x), codes, torch.from_numpy(x_eval), **settings))
    return torch.stack([step.direction for step in found]).numpy(), torch.stack([step.scores for step in found]).numpy()


# Next to no penalty on as many columns as rows, or nothing but penalty, multiplies the twin's own rounding by up to a thousand a step;
# `test_it_keeps_its_digits_where_the_twin_loses_them` has 50 digits for those.
@pytest.mark.parametrize(("regularization", "steps"), [(1.0, 6), (10.0, 9), (100.0, 8), (1e-2, 3), (1e3, 6)])
@pytest.mark.parametrize("shape", SHAPES)
def test_it_is_fitting_again_from_nothing(shape, regularization, steps):
    x, codes, x_eval = data(shape)
    directions, scores = naive_nullspace(x, codes, x_eval, regularization=regularization, steps=steps)
    mine, said = steps_of(x, codes, x_eval, regularization=regularization)
    np.testing.assert_allclose(mine[:steps], directions, atol=1e-6, rtol=0)
    np.testing.assert_allclose(said[:steps], scores, atol=1e-6, rtol=0)


@pytest.mark.parametrize("regularization", [1e-2, 1e3])
def test_it_keeps_its_digits_where_the_twin_loses_them(regularization):
    x, codes, _ = data("wide")
    x, codes = x[:12, :20], codes[:12]
    mine, _ = steps_of(x, codes, x, regularization=regularization)
    with mpmath.workdps(50):
        centred = x - x.mean(0)
        rows, signs = mpmath.matrix(centred.tolist()), mpmath.matrix((2.0 * codes - 1).tolist())
        penalty = float(regularization * (centred**2).mean()) * mpmath.eye(12)
        for step in range(6):
            weight = rows.T * mpmath.lu_solve(rows * rows.T + penalty, signs)
            unit = weight / mpmath.norm(weight)
            np.testing.assert_allclose(mine[step], np.array(unit.tolist(), dtype=float)[:, 0], atol=1e-6, rtol=0)
            rows -= (rows * unit) * unit.T


@pytest.mark.parametrize("shape", SHAPES)
def test_directions_are_orthonormal_to_the_end(shape):
    x, codes, x_eval = data(shape)
    mine, _ = steps_of(x, codes, x_eval, regularization=1.0)
    assert len(mine) <= min(len(x) - 1, x.shape[1])
    np.testing.assert_allclose(mine @ mine.T, np.eye(len(mine)), atol=1e-10, rtol=0)


def test_the_first_direction_is_that_of_the_ridge_probe():
    x, codes, x_eval = data("wide")
    scale = np.sqrt(((x - x.mean(0)) ** 2).mean())
    probe = Ridge(alpha=10 * scale**2, targets="classes").fit(x, codes)
    mine, _ = steps_of(x, codes, x_eval, regularization=10.0)
    np.testing.assert_allclose(mine[0], probe.coef_[0] / np.linalg.norm(probe.coef_), atol=1e-9, rtol=0)
    lda = LDA(shrinkage=1e-9).fit(*data("tall")[:2]).coef_[0]
    tall, _ = steps_of(*data("tall"), regularization=1e-6)
    np.testing.assert_allclose(tall[0], lda / np.linalg.norm(lda), atol=1e-6, rtol=0)


def test_nothing_left_ends_the_steps():
    codes = np.arange(20) % 2
    x = np.zeros((20, 6))
    x[:, 2] = codes + 0.01 * np.arange(20)
    assert len(list(nullspace_steps(torch.from_numpy(x), codes, torch.from_numpy(x)))) == 1
    assert list(nullspace_steps(torch.ones(20, 6), codes, torch.ones(3, 6))) == []


def test_low_precision_and_input_are_left_alone():
    x, codes, x_eval = data("tall")
    low = torch.from_numpy(x).to(torch.bfloat16)
    before = low.clone()
    assert next(nullspace_steps(low, codes, torch.from_numpy(x_eval))).direction.dtype == torch.float64
    assert torch.equal(low, before)


@pytest.mark.parametrize(
    ("codes", "settings", "message"),
    [
        (np.zeros(80), {}, "both present"),
        (np.arange(80), {}, "codes 0 and 1"),
        (np.arange(79) % 2, {}, r"codes \[n\]"),
        (np.arange(80) % 2, {"regularization": 0.0}, "above 0"),
    ],
)
def test_what_cannot_be_fitted_is_refused(codes, settings, message):
    x, _, x_eval = data("tall")
    with pytest.raises(InputError, match=message):
        next(nullspace_steps(torch.from_numpy(x), codes, torch.from_numpy(x_eval), **settings))


@pytest.mark.parametrize("shape", SHAPES)
def test_subspace_scores_are_partial_least_squares(shape):
    x, codes, x_eval = data(shape)
    labels = np.stack([codes, np.random.default_rng(1).permutation(codes)], 1)
    ranks = [1, 2, 3, 7]
    mine = subspace_scores(torch.from_numpy(x), labels, torch.from_numpy(x_eval), ranks=ranks)
    for at, rank in enumerate(ranks):
        for column in range(2):
            slow = naive_subspace_scores(x, labels[:, column].astype(float), x_eval, rank=rank)
            np.testing.assert_allclose(mine[at, :, column], slow, atol=1e-6 * np.abs(slow).max(), rtol=0)


def test_one_dimension_is_the_mean_difference_and_all_are_least_squares():
    x, codes, x_eval = data("tall")
    one, every = subspace_scores(torch.from_numpy(x), codes[:, None], torch.from_numpy(x_eval), ranks=[1, 12])[:, :, 0]
    assert np.corrcoef(one, MeanDifference().fit(x, codes).decision_function(x_eval))[0, 1] == pytest.approx(1, abs=1e-12)
    least = resampled_scores(
        Ridge(targets="classes"), torch.from_numpy(x), codes[:, None], torch.from_numpy(x_eval), regularization=1e-9, classes=(0, 1)
    )[:, 0]
    assert np.corrcoef(every, least)[0, 1] == pytest.approx(1, abs=1e-7)


def test_the_best_subspace_is_the_one_that_is_scored_in_and_ends_where_the_data_do():
    x, codes, _ = data("tall")
    found = best_subspace(torch.from_numpy(x), codes, rank=3)
    assert isinstance(found, Subspace) and found.rank == 3
    means = x[codes == 1].mean(0) - x[codes == 0].mean(0)
    np.testing.assert_allclose(found.basis[0], means / np.linalg.norm(means), atol=1e-12, rtol=0)
    line = torch.zeros(20, 6, dtype=torch.float64)
    line[:, 1] = torch.arange(20) % 2
    assert best_subspace(line, np.arange(20) % 2, rank=3).rank == 1


def test_ranks_out_of_range_are_refused():
    x, codes, x_eval = data("wide")
    for ranks in ([0], [30], []):
        with pytest.raises(InputError, match="between 1 and 29"):
            subspace_scores(torch.from_numpy(x), codes[:, None], torch.from_numpy(x_eval), ranks=ranks)
