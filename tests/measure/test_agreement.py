import json

import numpy as np
import pytest
from scipy import stats

from transect.errors import InputError
from transect.measure import agreement


def scores(m=4, n=200, shared=1.0, seed=0):
    rng = np.random.default_rng(seed)
    return shared * rng.normal(size=n) + rng.normal(size=(m, n))


def naive(values, threshold=0.0):
    """Mean over pairs of Pearson's and Spearman's correlations and of equal judgements, pair by pair."""
    pairs = [(a, b) for i, a in enumerate(values) for b in values[i + 1 :]]
    pearson = np.mean([stats.pearsonr(a, b).statistic for a, b in pairs])
    spearman = np.mean([stats.spearmanr(a, b).statistic for a, b in pairs])
    return pearson, spearman, np.mean([np.mean((a > threshold) == (b > threshold)) for a, b in pairs])


def test_values_equal_the_definitions_pair_by_pair():
    values = np.round(scores(), 1)  # with ties
    found = agreement(scores=values, threshold=0.3, resamples=50)
    assert (found.pearson.value, found.spearman.value, found.alike.value) == pytest.approx(naive(values, 0.3), abs=1e-12)
    assert found.pearson_matrix[0, 1] == pytest.approx(stats.pearsonr(values[0], values[1]).statistic)
    assert found.spearman_matrix[2, 1] == pytest.approx(stats.spearmanr(values[2], values[1]).statistic)
    assert found.alike_matrix[3, 3] == 1 and found.cosine is None and found.cosine_matrix is None
    json.dumps(found.to_json(), allow_nan=False)


@pytest.mark.parametrize("name", ["pearson", "spearman"])
def test_resamples_are_those_of_repeated_rows(name):
    from transect.measure.agreement import _pearson, _spearman

    values = np.round(scores(n=30), 1)
    groups = np.arange(30) // 3
    counts = np.random.default_rng(1).multinomial(10, np.full(10, 0.1), size=5).T.astype(float)
    pairs = [(a, b) for a in range(4) for b in range(a + 1, 4)]
    fast = {"pearson": _pearson, "spearman": _spearman}[name](values, pairs).evaluate(counts, groups)
    slow = [naive(np.repeat(values, column[groups].astype(int), axis=1))[name == "spearman"] for column in counts.T]
    np.testing.assert_allclose(fast, slow, atol=1e-12, rtol=0)


def test_intervals_hold_the_truth_as_often_as_promised():
    held = 0
    for seed in range(100):
        found = agreement(scores=scores(n=80, seed=seed), resamples=200, seed=seed)  # the true correlation is one half
        held += found.pearson.low <= 0.5 <= found.pearson.high
    assert held >= 100 * 0.95 - 3 * np.sqrt(100 * 0.95 * 0.05)


def test_the_same_probe_agrees_and_unrelated_ones_do_not():
    same = agreement(scores=np.tile(scores(1), (3, 1)), resamples=100)
    assert same.pearson.value == pytest.approx(1) and same.spearman.value == pytest.approx(1) and same.alike.value == 1
    assert 0.9 < same.pearson.low < 1 and 0.9 < same.alike.low < 1
    other = agreement(scores=scores(shared=0.0), resamples=200)
    assert not other.pearson.excludes(0) and not other.spearman.excludes(0)


def test_cosines_and_their_jackknife():
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(6, 20)) + 2 * rng.normal(size=20)
    found = agreement(directions=5 * vectors)
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    np.testing.assert_allclose(found.cosine_matrix, unit @ unit.T, atol=1e-12, rtol=0)
    assert found.cosine.value == pytest.approx((unit @ unit.T)[np.triu_indices(6, 1)].mean())
    assert -1 <= found.cosine.low < found.cosine.value < found.cosine.high <= 1
    assert not agreement(directions=vectors[:2]).cosine.has_interval
    assert agreement(directions=np.tile(vectors[0], (4, 1))).cosine.low == pytest.approx(1)


def test_equal_scores_have_no_correlation_but_judgements():
    found = agreement(scores=np.stack([np.full(50, 0.1), np.arange(50) - 20.5]), resamples=50)
    assert np.isnan(found.pearson.value) and np.isnan(found.spearman.value) and found.alike.value == pytest.approx(29 / 50)
    assert found.to_json()["pearson"]["value"] is None and found.to_json()["pearson_matrix"][0][1] is None


def test_groups_widen_the_interval_of_repeated_rows():
    values = np.repeat(scores(n=40), 5, axis=1)
    free, grouped = agreement(scores=values, resamples=300), agreement(scores=values, groups=np.repeat(np.arange(40), 5), resamples=300)
    assert grouped.pearson.half_width > 1.6 * free.pearson.half_width


def test_what_does_not_fit_is_named():
    values = scores()
    bad = values.copy()
    bad[2, 7] = np.nan
    cases = [
        ({}, "needs scores"),
        ({"scores": values[:1]}, "two probes or more"),
        ({"scores": values, "directions": np.ones((3, 2))}, r"got \[3, 4\]"),
        ({"scores": bad}, "row 2"),
        ({"directions": np.array([[1.0, 0.0], [0.0, 0.0]])}, "direction 1 has length 0"),
        ({"scores": values, "names": ["a"]}, "expected 4 names"),
        ({"scores": values, "groups": np.ones(3)}, "200 rows"),
    ]
    for given, says in cases:
        with pytest.raises(InputError, match=says):
            agreement(**given, resamples=20)
