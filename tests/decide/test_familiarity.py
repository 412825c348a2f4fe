import numpy as np
import pytest
from scipy import stats

from transect.decide.familiarity import (
    evaluate_familiarity,
    familiarity_scores,
    inverse_participation_ratio,
    null_of_best,
    spectral_entropy,
)
from transect.errors import InputError
from transect.measure import auroc_columns, permutation_p


def _activations(n=80, d=64, *, planted=True, seed=0):
    """Rows about something known have four strong neurons in the second of three layers."""
    rng = np.random.default_rng(seed)
    familiar = np.arange(n) % 2 == 0
    acts = {f"layers[{layer}].mlp.act": rng.standard_normal((n, d)) for layer in range(3)}
    if planted:
        acts["layers[1].mlp.act"][familiar, :4] *= 4
    return acts, familiar


def test_definitions_against_plain_sums():
    h = np.random.default_rng(0).standard_normal((5, 7))
    p = h**2 / (h**2).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(inverse_participation_ratio(h), (h**4).sum(axis=1) / (h**2).sum(axis=1) ** 2, rtol=1e-12)
    np.testing.assert_allclose(spectral_entropy(h), stats.entropy(p, axis=1) / np.log(7), rtol=1e-12)


def test_neither_measure_depends_on_scale_or_sign():
    h = np.random.default_rng(0).standard_normal((5, 7))
    for measure in (inverse_participation_ratio, spectral_entropy):
        np.testing.assert_allclose(measure(-1e200 * h), measure(h), rtol=1e-12)
        np.testing.assert_allclose(measure(1e-200 * h), measure(h), rtol=1e-12)


@pytest.mark.parametrize("measure", ["ipr", "entropy"])
def test_planted_concentration_is_found_where_it_is(measure):
    acts, familiar = _activations()
    found = evaluate_familiarity(acts, familiar, measure=measure, shuffles=200)
    assert found.chosen == "layers[1].mlp.act"
    assert not found.inverted
    assert found.best > 0.9 > found.floor
    assert found.held_out.low > 0.8
    assert found.p < 0.01


def test_the_other_direction_is_told_and_a_fixed_one_does_not_take_it():
    acts, familiar = _activations()
    found = evaluate_familiarity(acts, ~familiar, shuffles=200)
    assert found.inverted
    assert found.best > 0.9
    assert found.layers["layers[1].mlp.act"].value < 0.1
    fixed = evaluate_familiarity(acts, ~familiar, shuffles=200, direction="expected")
    assert fixed.best < 0.7
    assert fixed.p > 0.05


def test_noise_is_called_significant_no_more_often_than_promised():
    """The best of three layers, either way round, on noise: p <= 0.05 in about 5% of 1,000 draws."""
    rng = np.random.default_rng(4)
    labels = np.arange(30) % 2
    positive = 0
    for draw in range(1000):
        scores = rng.standard_normal((3, 30))
        values = auroc_columns(scores.T, labels)
        null, _ = null_of_best(scores, labels, shuffles=39, seed=draw)
        positive += permutation_p(np.maximum(values, 1 - values).max(), null) <= 0.05
    assert stats.binom.ppf(0.0005, 1000, 0.05) <= positive <= stats.binom.ppf(0.9995, 1000, 0.05)


def test_noise_says_chance():
    acts, familiar = _activations(planted=False, seed=2)
    found = evaluate_familiarity(acts, familiar, shuffles=200)
    assert found.best < found.floor
    assert found.held_out.low < 0.5
    assert all(not one.excludes(0.5) for one in found.layers.values())


def test_what_cannot_be_measured_is_refused():
    with pytest.raises(InputError, match="row 1"):
        inverse_participation_ratio([[1.0, 2.0], [0.0, 0.0]])
    with pytest.raises(InputError, match="row 1"):
        spectral_entropy([[1.0, 2.0], [np.nan, 0.0]])
    with pytest.raises(InputError, match="always 0"):
        spectral_entropy([[1.0], [2.0]])
    with pytest.raises(InputError, match="measure"):
        familiarity_scores([[1.0, 2.0]], measure="gini")  # pyright: ignore[reportArgumentType]
    acts, familiar = _activations()
    with pytest.raises(InputError):
        evaluate_familiarity(acts, np.ones(80))
    with pytest.raises(InputError, match="at least one site"):
        evaluate_familiarity({}, familiar)
