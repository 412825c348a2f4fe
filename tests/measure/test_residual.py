import json

import numpy as np
import pytest

from transect.errors import InputError
from transect.measure import auroc, fit_residualiser, residualised_auroc


def data(n=400, seed=0):
    rng = np.random.default_rng(seed)
    return rng, np.arange(n) % 2, rng.normal(size=n)


def test_residuals_equal_the_normal_equations():
    rng = np.random.default_rng(0)
    x, c, new_x, new_c = rng.normal(size=(50, 4)), rng.normal(size=(50, 2)) + 3, rng.normal(size=(7, 4)), rng.normal(size=(7, 2))
    wide = np.hstack([np.ones((50, 1)), c])
    slopes = np.linalg.inv(wide.T @ wide) @ wide.T @ x
    expected = new_x - (new_c - c.mean(0)) @ slopes[1:]
    np.testing.assert_allclose(fit_residualiser(x, c).remove(new_x, new_c), expected, atol=1e-12, rtol=0)


def test_what_is_left_has_no_correlation_and_keeps_its_mean():
    rng, _, length = data()
    x = rng.normal(size=(400, 3)) + length[:, None] * [1.0, -2.0, 0.0] + 5
    left = fit_residualiser(x, length).remove(x, length)
    assert np.abs(np.corrcoef(left.T, length)[-1, :-1]).max() < 1e-12
    np.testing.assert_allclose(left.mean(0), x.mean(0), atol=1e-12, rtol=0)


@pytest.mark.parametrize("odd", [np.full(400, 7.0), np.zeros(400)])
def test_constant_and_repeated_covariates_change_nothing(odd):
    rng, _, length = data()
    x = length + rng.normal(size=400)
    plain = fit_residualiser(x, length).remove(x, length)
    table = np.stack([length, odd, 1e9 * length], 1)
    np.testing.assert_allclose(fit_residualiser(x, table).remove(x, table), plain, atol=1e-8, rtol=0)


def test_a_proxy_falls_to_chance_and_a_signal_stays():
    rng, labels, _ = data(2000)
    length = labels + rng.normal(size=2000)
    proxy = residualised_auroc(length, labels, length, resamples=200)
    assert proxy.before.value > 0.7 and proxy.after.value == pytest.approx(0.5, abs=0.05) and proxy.change.high < -0.1
    assert proxy.correlations[0].value == pytest.approx(1)
    signal = residualised_auroc(labels + rng.normal(size=2000), labels, rng.normal(size=2000), resamples=200)
    assert abs(signal.change.value) < 0.01 and signal.correlations[0].low == 0.0
    json.dumps([proxy.to_json(), signal.to_json()], allow_nan=False)


def test_the_correction_comes_from_the_rows_that_are_given():
    rng, labels, length = data()
    train = rng.normal(size=100)
    found = residualised_auroc(labels + 2 * length, labels, length, train_scores=5 * train, train_covariates=train, resamples=100)
    assert found.after.value == pytest.approx(auroc(labels + 2 * length - 5 * length, labels))
    assert found.method == "learnt on 100 other rows"


def test_equal_scores_are_at_a_half_and_constant_covariates_have_no_rho():
    _, labels, length = data()
    flat = residualised_auroc(np.ones(400), labels, np.stack([length, np.full(400, 3.0)], 1), resamples=50)
    assert flat.before.value == flat.after.value == 0.5 and flat.change.value == 0
    assert np.isnan(flat.correlations[1].value) and flat.to_json()["correlations"][1]["value"] is None


def test_a_negative_rho_is_folded():
    rng, labels, length = data()
    found = residualised_auroc(-length + 0.1 * rng.normal(size=400), labels, length, resamples=200).correlations[0]
    assert 0.9 < found.low <= found.value <= found.high <= 1


def test_what_cannot_be_used_is_named():
    _, labels, length = data()
    bad = length.copy()
    bad[9] = np.nan
    cases = [
        ("row 9", (bad, labels, length), {}),
        ("row 9", (length, labels, bad), {}),
        ("both classes", (length, np.zeros(400), length), {}),
        ("belong together", (length, labels, length), {"train_scores": length}),
        ("folds must lie between 2 and the number of groups, 3", (length, labels, length), {"groups": np.arange(400) % 3}),
        ("covariates must have one entry for each of the 400 rows", (length, labels, length[1:]), {}),
    ]
    for says, given, settings in cases:
        with pytest.raises(InputError, match=says):
            residualised_auroc(*given, resamples=20, **settings)
    with pytest.raises(InputError, match="more than 3 rows"):
        fit_residualiser([1.0, 2.0, 3.0], np.ones((3, 2)))
    with pytest.raises(InputError, match="learnt for 1 covariates of values of width 1, got 2 and 1"):
        fit_residualiser(length, length).remove(length, np.ones((400, 2)))
