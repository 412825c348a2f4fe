"""Abstention: at most a share alpha of like rows is lost, unlike rows are caught, bad rows are named."""

import numpy as np
import pytest

from transect.decide import Abstention, fit_abstention, fit_distance
from transect.errors import InputError, MismatchError, SampleSizeError


def test_the_share_of_like_rows_is_alpha_on_average_over_references():
    rng = np.random.default_rng(0)
    alpha = 0.1
    lost = [
        fit_abstention(rng.standard_t(3, size=(60, 2)), alpha=alpha, seed=seed).abstains(rng.standard_t(3, size=(1, 2)))[0]
        for seed in range(1000)
    ]
    exact = 3 / 31  # 30 calibration rows: p <= 0.1 is a rank of 3 among 31
    assert abs(np.mean(lost) - exact) < 4 * np.sqrt(exact * (1 - exact) / 1000)
    assert exact <= alpha


def test_groups_of_copies_do_not_break_it():
    rng = np.random.default_rng(1)
    groups = np.repeat(np.arange(60), 2)

    def lost(groups):
        made = []
        for seed in range(1000):
            reference = np.repeat(rng.normal(size=(60, 2)), 2, axis=0)
            made.append(fit_abstention(reference, alpha=0.1, groups=groups, seed=seed).abstains(rng.normal(size=(1, 2)))[0])
        return np.mean(made)

    assert lost(groups) <= 0.1 + 3 * np.sqrt(0.09 / 1000)


def test_planted_outliers_are_caught_whatever_the_scale_of_a_column():
    rng = np.random.default_rng(2)
    reference = rng.normal(size=(400, 5)) * [1, 1000, 1, 1, 1]
    odd = rng.normal(size=(50, 5)) * [1, 1000, 1, 1, 1] + [9, 0, 0, 0, 0]
    rule = fit_abstention(reference, alpha=0.05)
    assert rule.abstains(odd).mean() > 0.95
    assert rule.abstains(rng.normal(size=(2000, 5)) * [1, 1000, 1, 1, 1]).mean() < 0.11
    assert 0.9 < np.corrcoef(rule.distance(reference), fit_distance(reference)(reference))[0, 1] <= 1


def test_the_distance_is_mahalanobis_where_rows_abound():
    rng = np.random.default_rng(3)
    mix = np.eye(3) + 0.3 * rng.normal(size=(3, 3))
    x = rng.normal(size=(20000, 3)) @ mix
    gap = x[:200] - x.mean(axis=0)
    exact = np.sqrt(np.einsum("ij,jk,ik->i", gap, np.linalg.inv(np.cov(x.T)), gap))
    assert np.abs(fit_distance(x)(x[:200]) / exact - 1).max() < 0.02


def test_fewer_rows_than_columns_and_constant_columns_are_finite():
    rng = np.random.default_rng(4)
    x = rng.normal(size=(60, 200))
    x[:, 7] = 3.0
    rule = fit_abstention(x, alpha=0.1)
    assert np.isfinite(rule.distance(x)).all()
    left = x[:1].copy()
    left[0, 7] = 50.0
    assert rule.distance(left)[0] > rule.distance(x[:1])[0]


def test_bad_rows_are_named_and_small_references_refused():
    rng = np.random.default_rng(5)
    rule = fit_abstention(rng.normal(size=(200, 4)))
    bad = rng.normal(size=(6, 4))
    bad[4, 2] = np.nan
    with pytest.raises(InputError, match="row 4"):
        rule.abstains(bad)
    with pytest.raises(InputError, match="row 4"):
        fit_abstention(bad)
    with pytest.raises(MismatchError, match="width 4"):
        rule.p_values(np.zeros((2, 3)))
    with pytest.raises(SampleSizeError, match="at least 37") as refused:
        fit_abstention(rng.normal(size=(36, 4)), alpha=0.05)
    assert refused.value.needed == 37
    assert len(fit_abstention(rng.normal(size=(37, 4)), alpha=0.05).calibration) == 19
    with pytest.raises(SampleSizeError, match="got 20"):
        fit_abstention(rng.normal(size=(100, 4)), alpha=0.05, groups=np.arange(100) // 5)
    with pytest.raises(InputError, match="alpha"):
        fit_abstention(rng.normal(size=(200, 4)), alpha=0.0)


def test_a_saved_rule_gives_the_same_p_values(tmp_path):
    rng = np.random.default_rng(6)
    rule = fit_abstention(rng.normal(size=(100, 4)), alpha=0.1)
    rule.save(tmp_path / "abstain.safetensors")
    x = rng.normal(size=(50, 4))
    again = Abstention.load(tmp_path / "abstain.safetensors")
    assert np.array_equal(again.p_values(x), rule.p_values(x))
    assert (again.alpha, again.sentence) == (rule.alpha, rule.sentence)
