import math

import numpy as np
import pytest
from scipy.stats import false_discovery_control

from transect.errors import InputError
from transect.measure import adjust_p, auroc_statistic, difference, leave_one_out, r2_statistic, simultaneous_differences


def naive_holm(p):
    """Reject step by step: the adjusted p is the smallest level at which the procedure rejects."""
    order = sorted(range(len(p)), key=lambda at: p[at])
    adjusted, worst = [0.0] * len(p), 0.0
    for place, at in enumerate(order):
        worst = max(worst, min(1.0, (len(p) - place) * p[at]))
        adjusted[at] = worst
    return adjusted


def test_adjusted_p_values_equal_their_definitions():
    rng = np.random.default_rng(0)
    for m in (1, 2, 7, 40):
        p = np.round(rng.random(m) ** 3, 2)
        np.testing.assert_allclose(adjust_p(p), naive_holm(p.tolist()), atol=1e-15, rtol=0)
        np.testing.assert_allclose(adjust_p(p, method="bh"), false_discovery_control(p, method="bh"), atol=1e-15, rtol=0)
        assert (adjust_p(p) >= adjust_p(p, method="bh")).all() and (adjust_p(p, method="bh") >= p).all()


def test_bad_p_values_and_methods_are_named():
    for p, says in (([0.1, 1.2], "1.2 in row 1"), ([0.1, np.nan], "row 1"), ([], "empty")):
        with pytest.raises(InputError, match=says):
            adjust_p(p)
    with pytest.raises(InputError, match="'bonferroni'"):
        adjust_p([0.1], method="bonferroni")


def some(m, n=120, seed=0, gap=0.0):
    rng = np.random.default_rng(seed)
    labels, shared = np.arange(n) % 2, rng.normal(size=n)
    statistics = [auroc_statistic(labels + shared + 0.5 * rng.normal(size=n), labels) for _ in range(m)]
    return statistics, auroc_statistic(labels * (1 + gap) + shared + 0.5 * rng.normal(size=n), labels)


def test_one_difference_is_that_of_difference_and_more_are_wider():
    firsts, second = some(6)
    groups = np.arange(120) // 2
    alone = difference(firsts[0], second, groups=groups, resamples=1000)
    one = simultaneous_differences(firsts[:1], [second], groups=groups, resamples=1000)[0]
    assert one.value == alone.value and one.low <= alone.low + 1e-9 and alone.high - 1e-9 <= one.high
    assert one.high - one.low < 1.1 * (alone.high - alone.low)
    many = simultaneous_differences(firsts, [second], groups=groups, resamples=1000)
    assert many[0].high - many[0].low > one.high - one.low
    assert [found.value for found in many] == pytest.approx([first.value() - second.value() for first in firsts])


def test_no_false_difference_as_often_as_promised():
    trials = 60
    wrong = 0
    for seed in range(trials):
        firsts, second = some(8, seed=seed)
        wrong += any(found.excludes(0) for found in simultaneous_differences(firsts, [second], resamples=400, seed=seed))
    assert wrong / trials <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / trials)


def test_perfect_scores_are_not_certain_and_a_planted_difference_is_found():
    labels = np.arange(80) % 2
    perfect, poor = auroc_statistic(labels, labels), auroc_statistic(np.random.default_rng(0).normal(size=80), labels)
    same, better = simultaneous_differences([perfect, perfect], [perfect, poor], resamples=300)
    assert same.value == 0 and same.low < 0 < same.high
    assert better.excludes(0)


def test_numbers_that_do_not_fit_are_refused():
    firsts, second = some(3)
    with pytest.raises(InputError, match="3 firsts and 2 seconds"):
        simultaneous_differences(firsts, [second, second])
    with pytest.raises(InputError, match="bounded"):
        simultaneous_differences(firsts, [r2_statistic(np.arange(120), np.arange(120))])


def test_the_worst_dataset_and_the_interval_over_datasets():
    rng = np.random.default_rng(0)
    labels = np.arange(100) % 2
    scored = {name: (gap * labels + rng.normal(size=100), labels) for name, gap in (("a", 3.0), ("b", 1.0), ("c", 2.0))}
    found = leave_one_out(scored, resamples=100)
    assert found.worst == "b" and "the worst is b" in found.sentence
    values = [one.value for one in found.datasets.values()]
    half = 4.302652729911275 * np.std(values, ddof=1) / math.sqrt(3)  # Student's t of 2 degrees of freedom
    assert found.mean.value == pytest.approx(np.mean(values))
    assert found.mean.low == pytest.approx(found.mean.value - half) and found.mean.high == pytest.approx(min(1, found.mean.value + half))
    with pytest.raises(InputError, match=r"dataset 'b': .*both classes"):
        leave_one_out({"a": scored["a"], "b": ([1.0, 2.0], [1, 1])})
    with pytest.raises(InputError, match="at least two datasets"):
        leave_one_out({"a": scored["a"]})
