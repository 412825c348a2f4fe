import json

import numpy as np
import pytest

from transect.errors import InputError
from transect.measure import control_selectivity
from transect.probes import MeanDifference


def data(seed=0, units=40, each=10, d=60, memory=4.0, signal=4.0):
    """Rows that say which unit they are of, and the label in one direction."""
    rng = np.random.default_rng(seed)
    unit = np.repeat(np.arange(units), each)
    labels = np.tile([0, 1], len(unit) // 2)
    x = rng.normal(size=(len(unit), d)) + memory * rng.normal(size=(units, d))[unit] / np.sqrt(d) * 3
    x[:, 0] += signal * labels
    return x, labels, unit


def test_a_label_beyond_the_units_is_selective():
    x, labels, unit = data(memory=0.0)
    found = control_selectivity(x, labels, unit, resamples=200)
    assert found.real.value > 0.9 and found.control.value == pytest.approx(0.5, abs=0.05)
    assert found.selectivity.low > 0.3 and found.n_units == 40 and found.left_out == 0 and found.constant_inside == 0
    json.dumps(found.to_json(), allow_nan=False)


def test_units_that_can_be_remembered_lower_it():
    far = control_selectivity(*data(memory=4.0, signal=2.0), resamples=100)
    near = control_selectivity(*data(memory=0.0, signal=2.0), resamples=100)
    assert far.control.value > 0.8 > near.control.value
    assert far.selectivity.high < near.selectivity.low


def test_noise_has_no_selectivity():
    x, labels, unit = data(memory=0.0, signal=0.0)
    found = control_selectivity(x, labels, unit, resamples=200)
    assert not found.selectivity.excludes(0)


def test_a_label_constant_inside_units_is_said():
    x, _, unit = data(memory=4.0, signal=0.0)
    labels = np.random.default_rng(1).permutation(np.arange(40) % 2)[unit]
    found = control_selectivity(x, labels, unit, resamples=100)
    assert found.constant_inside == 1 and "memorising units could solve the task" in found.sentence
    assert found.real.value > 0.8 and not found.selectivity.low > 0.1


def test_batched_draws_are_single_fits():
    x, labels, unit = data(units=12, each=6)
    settings = {"held_out": np.arange(72) % 6 < 3, "fitter": MeanDifference(), "regularization": None, "draws": 4, "resamples": 50}
    found = control_selectivity(x, labels, unit, **settings)
    mask, rng = settings["held_out"], np.random.default_rng(0)
    right = []
    for _ in range(4):
        control = (rng.random(12) < labels[~mask].mean())[unit]
        fitted = MeanDifference().fit(x[~mask], control[~mask].astype(int))
        right.append((fitted.predict(x[mask]) == control[mask]).mean())
    real = (MeanDifference().fit(x[~mask], labels[~mask]).predict(x[mask]) == labels[mask]).mean()
    assert found.real.value == pytest.approx(real) and found.control.value == pytest.approx(np.mean(right))
    assert found.selectivity.value == pytest.approx(real - np.mean(right))


def test_rows_whose_unit_was_not_fitted_are_left_out_and_counted():
    x, labels, unit = data(units=10, each=4)
    mask = np.arange(40) % 4 < 2
    mask[unit == 3] = True
    found = control_selectivity(x, labels, unit, held_out=mask, draws=5, resamples=50)
    assert found.left_out == 4 and found.n_units == 9 and found.real.n == 18


def test_what_cannot_be_remembered_or_used_is_named():
    x, labels, unit = data(units=10, each=4)
    bad = x.copy()
    bad[3, 1] = np.inf
    cases = [
        ("row 3", (bad, labels, unit), {}),
        ("two classes", (x, np.ones(40), unit), {}),
        ("units with rows on both sides, got 0", (x, labels, np.arange(40)), {}),
        ("units with rows on both sides, got 0", (x, labels, unit), {"held_out": unit < 5}),
        ("units with rows on both sides, got 1", (x, labels, np.zeros(40)), {}),
        ("draws must be at least 2", (x, labels, unit), {"draws": 1}),
        ("both classes are needed among", (x, labels, unit), {"held_out": labels == 1}),
    ]
    for says, given, settings in cases:
        with pytest.raises(InputError, match=says):
            control_selectivity(*given, **settings)
