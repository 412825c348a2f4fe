import time

import numpy as np
import pytest
from scipy import stats
from sklearn.metrics import roc_auc_score

from transect.errors import InputError
from transect.measure import (
    accuracy_statistic,
    auroc_bootstrap,
    auroc_interval,
    auroc_statistic,
    bootstrap,
    difference,
    estimates,
    interval,
    r2_statistic,
    simultaneous_auroc,
    spearman_statistic,
)
from transect.measure.intervals import wilson
from transect.measure.naive import naive_auroc_bootstrap
from transect.measure.resampling import MOST_UNITS, resample_counts, units
from transect.measure.statistic import Statistic


def paired(rng, n_groups, auroc, shared=0.5):
    """Groups of one positive and one negative that share part of their noise, with a known AUROC between groups."""
    groups = np.repeat(np.arange(n_groups), 2)
    labels = np.tile([True, False], n_groups)
    noise = rng.normal(size=n_groups)[groups] * np.sqrt(shared) + rng.normal(size=2 * n_groups) * np.sqrt(1 - shared)
    return noise + labels * stats.norm.ppf(auroc) * np.sqrt(2), labels, groups


def within_binomial_error(hits, trials, rate, sigmas=3.5):
    return abs(hits / trials - rate) <= sigmas * np.sqrt(rate * (1 - rate) / trials)


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("grouped", [False, True])
def test_the_fast_bootstrap_is_the_naive_one(ties, grouped):
    rng = np.random.default_rng(0)
    scores, labels = rng.normal(size=24), rng.random(24) < 0.4
    scores = scores.round(0) if ties else scores
    groups = np.arange(24) // 3 if grouped else None
    fast = auroc_bootstrap(scores, labels, groups=groups, resamples=60, seed=3)
    assert np.allclose(fast, naive_auroc_bootstrap(scores, labels, groups=groups, resamples=60, seed=3), atol=1e-12, rtol=0, equal_nan=True)


def test_ten_thousand_resamples_are_fifty_times_faster_than_scikit_learn_and_equal():
    rng = np.random.default_rng(0)
    labels, groups = rng.random(5000) < 0.5, rng.integers(0, 1000, 5000)
    scores = rng.normal(size=5000) + labels
    start = time.perf_counter()
    values = auroc_bootstrap(scores, labels, groups=groups, resamples=10_000)
    fast = time.perf_counter() - start
    unit_of_row, n_units, _ = units(groups, n=5000)
    counts = next(resample_counts(n_units, resamples=40))
    rows = [np.repeat(np.arange(5000), column[unit_of_row].astype(int)) for column in counts.T]
    start = time.perf_counter()
    slow_values = [roc_auc_score(labels[row], scores[row]) for row in rows]
    slow = (time.perf_counter() - start) * 10_000 / 40
    assert np.abs(values[:40] - slow_values).max() < 1e-12
    assert slow > 50 * fast


def test_draws_depend_on_the_seed_and_not_on_the_chunks(monkeypatch):
    whole = np.concatenate(list(resample_counts(50, resamples=100, seed=4)), axis=1)
    monkeypatch.setattr("transect.measure.resampling._CHUNK_BYTES", 8 * 50 * 7)
    chunks = list(resample_counts(50, resamples=100, seed=4))
    assert len(chunks) == 15 and np.array_equal(whole, np.concatenate(chunks, axis=1))
    assert (whole.sum(axis=0) == 50).all()
    assert not np.array_equal(whole, np.concatenate(list(resample_counts(50, resamples=100, seed=5)), axis=1))


def test_resampled_groups_have_the_mean_and_the_variance_of_draws_with_replacement():
    counts = next(resample_counts(40, resamples=5000, seed=0))
    assert counts.mean() == pytest.approx(1.0)
    assert counts.var(axis=1).mean() == pytest.approx(1 - 1 / 40, rel=0.02)


@pytest.mark.parametrize(("n_groups", "truth"), [(40, 0.5), (40, 0.8), (40, 0.95), (15, 0.9), (120, 0.97)])
def test_intervals_hold_the_truth_as_often_as_promised(n_groups, truth):
    rng = np.random.default_rng(7)
    trials = 300
    hits = 0
    for trial in range(trials):
        scores, labels, groups = paired(rng, n_groups, truth)
        found = auroc_interval(scores, labels, groups=groups, resamples=200, seed=trial)
        hits += found.low <= truth <= found.high
    assert within_binomial_error(hits, trials, 0.95)


def test_rows_resampled_alone_would_promise_too_much():
    rng = np.random.default_rng(0)
    scores, labels, groups = paired(rng, 30, 0.8, shared=0.0)
    repeated, twice = np.repeat(np.arange(60), 10), np.repeat(groups, 10)
    honest = auroc_interval(scores[repeated], labels[repeated], groups=twice)
    hasty = auroc_interval(scores[repeated], labels[repeated])
    plain = auroc_interval(scores, labels, groups=groups)
    assert honest.half_width == pytest.approx(plain.half_width, rel=0.05)
    assert hasty.half_width < honest.half_width / 2.5


def test_perfect_scores_do_not_make_certainty():
    for n_groups, expected in ((20, 0.85), (100, 0.96)):
        labels, groups = np.tile([0, 1], n_groups), np.repeat(np.arange(n_groups), 2)
        perfect = auroc_interval(labels, labels, groups=groups)
        assert perfect.value == perfect.high == 1.0 and expected < perfect.low < 1 - 1 / n_groups
        inverted = auroc_interval(-labels, labels, groups=groups)
        assert inverted.low == 0.0 and inverted.high == pytest.approx(1 - perfect.low, abs=1e-12)
        assert "hardly any disagree" in perfect.method
        # One row gone wrong must not make the interval narrower than none did.
        nearly = labels.astype(float)
        nearly[0] = 2.0
        assert auroc_interval(nearly, labels, groups=groups).low < perfect.low
        assert interval(accuracy_statistic(labels, labels), groups=groups).low < 0.97
        assert interval(spearman_statistic(np.arange(2 * n_groups), np.arange(2 * n_groups)), groups=groups).low < 1.0


def test_equal_scores_are_exactly_chance():
    found = auroc_interval(np.zeros(80), np.tile([0, 1], 40))
    assert (found.low, found.value, found.high) == (0.5, 0.5, 0.5)


def test_too_few_groups_say_nothing_rather_than_something():
    labels = np.tile([0, 1], 10)
    alone = auroc_interval(labels, labels, groups=np.zeros(20))
    assert (alone.low, alone.high) == (0.0, 1.0) and "too few" in alone.method
    assert not interval(r2_statistic(labels, labels), groups=np.zeros(20)).has_interval
    two = auroc_interval(labels, labels, groups=np.arange(20) // 10)
    assert two.low < 0.1


def test_resamples_without_a_class_are_counted():
    labels = np.zeros(30)
    labels[0] = 1
    found = bootstrap([auroc_statistic(np.arange(30), labels)], resamples=1000)
    assert found.left_out == pytest.approx(1000 * (29 / 30) ** 30, abs=60)
    assert found.draws.shape == (1, 1000 - found.left_out)
    assert f"{found.left_out} more left out" in estimates(found)[0].method


def test_many_groups_are_bundled_with_the_same_spread():
    rng = np.random.default_rng(0)
    labels = rng.random(30_000) < 0.5
    scores = rng.normal(size=30_000) + labels
    found = auroc_interval(scores, labels, resamples=200)
    assert f"dealt into {MOST_UNITS} bundles" in found.method and found.groups == 30_000
    p = found.value
    n_pos, n_neg = labels.sum(), (~labels).sum()
    hanley = p * (1 - p) + (n_pos - 1) * (p / (2 - p) - p**2) + (n_neg - 1) * (2 * p**2 / (1 + p) - p**2)
    assert found.half_width == pytest.approx(1.96 * np.sqrt(hanley / n_pos / n_neg), rel=0.15)


def test_simultaneous_intervals_hold_all_at_once_and_separate_ones_do_not():
    rng = np.random.default_rng(3)
    trials, n_sites, n_groups, truth = 120, 10, 40, 0.8
    together = separate = 0
    for trial in range(trials):
        drawn = [paired(rng, n_groups, truth) for _ in range(n_sites)]
        scores, labels, groups = np.stack([row for row, _, _ in drawn]), drawn[0][1], drawn[0][2]
        found = bootstrap([auroc_statistic(row, labels) for row in scores], groups=groups, resamples=200, seed=trial)
        together += all(e.low <= truth <= e.high for e in estimates(found, simultaneous=True))
        separate += all(e.low <= truth <= e.high for e in estimates(found))
    assert within_binomial_error(together, trials, 0.95)
    assert separate < 0.8 * trials


def test_simultaneous_intervals_use_how_sites_move_together():
    rng = np.random.default_rng(0)
    scores, labels, groups = paired(rng, 50, 0.8)
    same = simultaneous_auroc(np.stack([scores] * 20), labels, groups=groups)
    alone = auroc_interval(scores, labels, groups=groups)
    assert same[0].half_width == pytest.approx(alone.half_width, rel=0.1)
    assert "simultaneous over 20" in same[0].method
    perfect = simultaneous_auroc(np.stack([labels] * 3), labels, groups=groups)
    assert perfect[0].low < auroc_interval(labels, labels, groups=groups).low


def test_paired_differences_hold_the_truth_and_are_narrower_than_unpaired():
    rng = np.random.default_rng(5)
    trials, hits, narrower = 150, 0, 0
    for trial in range(trials):
        scores, labels, groups = paired(rng, 40, 0.8)
        worse = scores + rng.normal(size=80) * 0.7
        gap = 0.8 - stats.norm.cdf(stats.norm.ppf(0.8) / np.sqrt(1 + 0.49))
        found = difference(auroc_statistic(scores, labels), auroc_statistic(worse, labels), groups=groups, resamples=200, seed=trial)
        hits += found.low <= gap <= found.high
        one, two = (auroc_interval(x, labels, groups=groups, resamples=200, seed=trial) for x in (scores, worse))
        narrower += found.half_width < np.hypot(one.half_width, two.half_width)
    assert within_binomial_error(hits, trials, 0.95)
    assert narrower == trials


def test_the_difference_of_two_perfect_scores_is_not_certain_and_of_a_score_with_itself_is_nothing():
    labels, groups = np.tile([0, 1], 30), np.repeat(np.arange(30), 2)
    found = difference(auroc_statistic(labels, labels), auroc_statistic(2 * labels, labels), groups=groups)
    assert found.value == 0 and found.low < -0.02 and found.high > 0.02
    scores = np.random.default_rng(0).normal(size=60)
    itself = difference(auroc_statistic(scores, labels), auroc_statistic(scores, labels), groups=groups)
    # Wilson's halves differ in length, so a little remains; it is far from the width of either interval.
    assert itself.value == 0 and itself.half_width < auroc_interval(scores, labels, groups=groups).half_width / 5
    opposite = difference(auroc_statistic(scores, labels), auroc_statistic(-scores, labels), groups=groups)
    assert opposite.value == pytest.approx(2 * auroc_statistic(scores, labels).value() - 1)


def test_unbounded_statistics_get_percentiles():
    rng = np.random.default_rng(0)
    truth = rng.normal(size=200)
    guess = truth + rng.normal(size=200) * 0.5
    found = interval(r2_statistic(guess, truth), groups=np.arange(200) // 2)
    assert found.low < found.value < found.high and "percentiles" in found.method
    gap = difference(r2_statistic(guess, truth), r2_statistic(np.zeros(200), truth), groups=np.arange(200) // 2)
    assert gap.low > 0.5 and "percentiles" in gap.method
    assert all(e.low < e.value < e.high for e in estimates(bootstrap([r2_statistic(guess, truth)] * 2), simultaneous=True))


def test_wilson_is_the_textbook_interval():
    for hits, n in ((0, 10), (3, 10), (10, 10)):
        expected = stats.binomtest(hits, n).proportion_ci(method="wilson")
        assert wilson(hits / n, n, stats.norm.ppf(0.975)) == pytest.approx((expected.low, expected.high), abs=1e-12)


def test_bad_requests_are_named():
    with pytest.raises(InputError, match="same rows"):
        bootstrap([auroc_statistic([1, 2], [0, 1]), auroc_statistic([1, 2, 3], [0, 1, 1])])
    with pytest.raises(InputError, match="resamples must be"):
        auroc_interval([1, 2], [0, 1], resamples=0)
    with pytest.raises(InputError, match="groups must have one entry"):
        auroc_interval([1, 2], [0, 1], groups=[1])


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_rounding_in_the_resamples_of_a_value_at_its_bound(value):
    def evaluate(counts, _groups):
        noise = np.zeros(1) if counts.shape[1] == 1 else np.linspace(0, 4e-16, counts.shape[1])
        return np.abs(value - noise)

    found = interval(Statistic("share", 40, evaluate, (0.0, 1.0), lambda _groups, _value: 20.0))
    assert found.value == value
    assert found.high - found.low > 0.1  # so sure as twenty groups allow, and no surer
