import itertools
import json
import math

import numpy as np
import pytest

from transect.errors import InputError, SampleSizeError
from transect.measure import variance_explained


def crossed(a=6, b=4, c=3):
    rows = np.array(list(itertools.product(range(a), range(b), range(c))))
    return {"pair": rows[:, 0], "dataset": rows[:, 1], "layer": rows[:, 2]}


def planted(design, seed=0, noise=0.3, **sizes):
    rng = np.random.default_rng(seed)
    values = noise * rng.normal(size=len(next(iter(design.values()))))
    for name, size in sizes.items():
        values += size * rng.normal(size=design[name].max() + 1)[design[name]]
    return values


def naive(values, factors, name):
    """Residual sums of squares of two least squares fits with dummy columns."""

    def error(names):
        columns = [np.ones(len(values))] + [(factors[one] == level).astype(float) for one in names for level in np.unique(factors[one])]
        table = np.stack(columns, 1)
        return ((values - table @ np.linalg.lstsq(table, values, rcond=None)[0]) ** 2).sum()

    total = ((values - values.mean()) ** 2).sum()
    return (error([one for one in factors if one != name]) - error(list(factors))) / total


@pytest.mark.parametrize("keep", [1.0, 0.6])
def test_shares_equal_least_squares_with_and_without(keep):
    design = crossed()
    some = np.random.default_rng(1).random(72) < keep
    design = {name: codes[some] for name, codes in design.items()}
    values = planted(design, pair=1.0, layer=0.3)
    found = variance_explained(values, design, resamples=50, permutations=19)
    for one in found.factors:
        assert one.eta2.value == pytest.approx(naive(values, design, one.name), abs=1e-12)
        assert not one.confounded
    assert found.balanced == (keep == 1.0)
    if found.balanced:
        assert [one.alone for one in found.factors] == pytest.approx([one.eta2.value for one in found.factors])
        assert sum(one.eta2.value for one in found.factors) == pytest.approx(found.explained)
    json.dumps(found.to_json(), allow_nan=False)


def test_the_planted_factor_leads_and_the_others_are_noise():
    found = variance_explained(planted(crossed(), pair=1.0), crossed())
    first, *rest = found.factors
    assert first.name == "pair" and first.p == 0.001 and first.eta2.low > 0.5
    assert all(abs(one.omega2) < 0.05 and one.p > 0.01 for one in rest)
    assert found.sentence.startswith("of the variance of 72 numbers, pair ")


def test_p_values_are_uniform_where_a_factor_does_nothing():
    design = crossed(5, 4, 2)
    p_values = [
        next(
            one.p
            for one in variance_explained(planted(design, seed=seed, pair=1.0), design, resamples=2, permutations=99).factors
            if one.name == "dataset"
        )
        for seed in range(200)
    ]
    share = np.mean(np.array(p_values) <= 0.1)
    assert abs(share - 0.1) <= 3 * math.sqrt(0.1 * 0.9 / 200)


def test_intervals_hold_the_truth_as_often_as_the_module_says():
    design = crossed(5, 4, 3)
    effect = np.array([-1.0, -0.5, 0.0, 0.5, 1.0])[design["pair"]]
    truth = effect.var() / (effect.var() + 0.6**2)
    held = 0
    for seed in range(120):
        values = effect + 0.6 * np.random.default_rng(seed).normal(size=60)
        one = next(
            one for one in variance_explained(values, design, resamples=300, permutations=1, seed=seed).factors if one.name == "pair"
        )
        held += one.eta2.low <= truth <= one.eta2.high
    assert abs(held / 120 - 0.9) <= 3 * math.sqrt(0.9 * 0.1 / 120)  # less than the 0.95 asked for, and said so


def test_a_design_that_cannot_separate_says_so():
    design = {"pair": np.arange(12) % 3, "author": (np.arange(12) % 3 == 2).astype(int), "layer": np.arange(12) // 6}
    found = variance_explained(np.random.default_rng(0).normal(size=12), design, resamples=50, permutations=19)
    by = {one.name: one for one in found.factors}
    assert by["author"].confounded and by["pair"].confounded and not by["layer"].confounded
    assert by["author"].eta2.value == pytest.approx(0, abs=1e-12) and math.isnan(by["author"].p) and not by["author"].eta2.has_interval
    assert "cannot separate" in found.sentence and not found.balanced
    json.dumps(found.to_json(), allow_nan=False)


def test_nothing_left_for_noise_is_said():
    found = variance_explained([1.0, 2.0, 4.0], {"a": ["x", "y", "z"]})
    assert found.residual_df == 0 and found.explained == pytest.approx(1)
    assert math.isnan(found.factors[0].p) and math.isnan(found.factors[0].omega2) and not found.factors[0].eta2.has_interval
    assert "no intervals" in found.sentence
    json.dumps(found.to_json(), allow_nan=False)


def test_what_cannot_be_used_is_named():
    cases = [
        (InputError, [1.0, np.nan, 2.0], {"a": [0, 1, 1]}, "row 1"),
        (InputError, [1.0, 1.0, 1.0], {"a": [0, 1, 1]}, "all 3 values are 1"),
        (InputError, [1.0, 2.0, 3.0], {}, "at least one factor"),
        (InputError, [1.0, 2.0, 3.0], {"a": ["u", "u", "u"]}, "one level only, 'u'"),
        (InputError, [1.0, 2.0, 3.0], {"a": [0, 1]}, "factor 'a' must have one entry for each of the 3 rows"),
        (SampleSizeError, [1.0, 2.0], {"a": [0, 1]}, "at least 3"),
    ]
    for kind, values, factors, says in cases:
        with pytest.raises(kind, match=says):
            variance_explained(values, factors)
