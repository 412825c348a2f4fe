import numpy as np
import pytest

from transect.errors import InputError
from transect.measure import auroc, auroc_columns, null_estimate, permutation_p, permutation_p_best, permute_labels, random_directions

PAIRED = np.tile([0, 1], 30), np.repeat(np.arange(30), 2)


def test_independent_rows_trade_freely_and_counts_are_kept():
    codes = np.array([0] * 10 + [1] * 20 + [2] * 5)
    shuffled = permute_labels(codes, shuffles=50, seed=1)
    assert shuffled.labels.shape == (50, 35) and shuffled.stuck == 0
    assert (np.sort(shuffled.labels, axis=1) == np.sort(codes)).all()
    assert len({tuple(row) for row in shuffled.labels}) == 50
    assert np.array_equal(shuffled.labels, permute_labels(codes, shuffles=50, seed=1).labels)


def test_balanced_pairs_stay_balanced():
    codes, groups = PAIRED
    shuffled = permute_labels(codes, groups=groups, shuffles=100)
    assert (shuffled.labels.reshape(100, 30, 2).sum(axis=2) == 1).all()
    assert shuffled.labels[:, ::2].mean() == pytest.approx(0.5, abs=0.05)
    assert "inside their group" in shuffled.how


def test_groups_of_one_label_stay_of_one_label():
    codes, groups = np.repeat([0, 1, 0, 1, 1], [1, 2, 3, 4, 5]), np.repeat(np.arange(5), [1, 2, 3, 4, 5])
    shuffled = permute_labels(codes, groups=groups, shuffles=100)
    of_group = shuffled.labels[:, np.unique(groups, return_index=True)[1]]
    assert np.array_equal(of_group[:, groups], shuffled.labels)
    assert (of_group.sum(axis=1) == 3).all() and len({tuple(row) for row in of_group}) == 10
    assert shuffled.how == "whole groups trade labels"


def test_mixed_groups_trade_inside_and_between_and_say_what_is_stuck():
    # Two groups of two (pure 0, pure 1), one of three that is mixed, one of four that is pure and alone in its size.
    codes, groups = np.array([0, 0, 1, 1, 0, 1, 1, 1, 1, 1, 1]), np.repeat([0, 1, 2, 3], [2, 2, 3, 4])
    shuffled = permute_labels(codes, groups=groups, shuffles=200)
    assert (np.sort(shuffled.labels, axis=1) == np.sort(codes)).all()
    assert (shuffled.labels[:, 0] == shuffled.labels[:, 1]).all() and 0.3 < shuffled.labels[:, 0].mean() < 0.7
    assert (shuffled.labels[:, 4:7].sum(axis=1) == 2).all() and len(np.unique(shuffled.labels[:, 4:7], axis=0)) == 3
    assert shuffled.stuck == 4 and (shuffled.labels[:, 7:] == 1).all()


def test_numbers_and_names_can_be_shuffled_too():
    values = np.random.default_rng(0).normal(size=20)
    shuffled = permute_labels(values, groups=np.arange(20) // 4, shuffles=3)
    assert (np.sort(shuffled.labels, axis=1) == np.sort(values)).all()


@pytest.mark.parametrize("grouped", [True, False])
def test_p_values_are_uniform_where_labels_mean_nothing(grouped):
    rng = np.random.default_rng(11)
    codes, groups = PAIRED
    trials, p_values = 400, []
    for trial in range(trials):
        # Rows of a pair share most of their score, so free shuffling would not be a fair comparison.
        scores = rng.normal(size=30)[groups] + 0.3 * rng.normal(size=60) if grouped else rng.normal(size=60)
        shuffled = permute_labels(codes, groups=groups if grouped else None, shuffles=99, seed=trial)
        p_values.append(permutation_p(auroc(scores, codes), auroc_columns(scores, shuffled.labels.T)))
    for level in (0.05, 0.2, 0.5, 0.9):
        share = np.mean(np.array(p_values) <= level)
        assert abs(share - level) < 3.5 * np.sqrt(level * (1 - level) / trials)
    assert min(p_values) >= 1 / 100


def test_the_p_value_counts_the_true_labelling_and_ties():
    assert permutation_p(1.0, [0.5] * 199) == 1 / 200
    assert permutation_p(0.5, [0.5 - 1e-15, 0.4, 0.6]) == 3 / 4


def test_the_best_of_many_sites_is_compared_with_the_best_of_every_shuffle():
    rng = np.random.default_rng(0)
    trials, hits = 300, 0
    for _ in range(trials):
        hits += permutation_p_best(rng.normal(size=8), rng.normal(size=(8, 99))).min() <= 0.1
    assert abs(hits / trials - 0.1) < 3.5 * np.sqrt(0.09 / trials)
    null = rng.normal(size=(2, 50))
    assert permutation_p_best([9.0, -9.0], null).tolist() == [1 / 51, 1.0]


def test_the_spread_of_a_control_is_an_estimate():
    found = null_estimate(np.linspace(0.4, 0.6, 201), what="random directions")
    assert (found.value, found.low, found.high) == pytest.approx((0.5, 0.405, 0.595))


def test_random_directions_are_unit_and_seeded_and_matched_ones_follow_the_data():
    plain = random_directions(30, directions=200, seed=1)
    assert plain.shape == (200, 30) and np.linalg.norm(plain, axis=1) == pytest.approx(np.ones(200))
    assert np.array_equal(plain, random_directions(30, directions=200, seed=1))
    scale = np.array([100.0, 1.0, 0.0])
    rows = np.random.default_rng(0).normal(size=(500, 3)) * scale + 7
    matched = random_directions(3, directions=500, like=rows, kind="matched")
    assert np.abs(matched[:, 0]).mean() > 0.95 and np.abs(matched[:, 2]).max() < 1e-9


def test_random_directions_score_chance_on_average():
    rng = np.random.default_rng(0)
    labels = rng.random(300) < 0.5
    activations = rng.normal(size=(300, 20)) + labels[:, None] * rng.normal(size=20) * 0.3
    for kind in ("isotropic", "matched"):
        values = auroc_columns(activations @ random_directions(20, directions=400, like=activations, kind=kind).T, labels)
        assert values.mean() == pytest.approx(0.5, abs=4 * values.std() / 20) and values.max() > 0.55


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: permute_labels([1, 1, 1]), "all 3 labels are 1"),
        (lambda: permute_labels([0, 1], shuffles=0), "shuffles must be"),
        (lambda: permute_labels([0, 1], groups=[1]), "one entry for each"),
        (lambda: random_directions(3, kind="matched"), "like=activations"),
        (lambda: random_directions(3, kind="matched", like=np.ones((5, 4))), "width 3"),
        (lambda: random_directions(3, kind="matched", like=np.ones((5, 3))), "all equal"),
        (lambda: random_directions(3, kind="odd"), "'isotropic' or 'matched'"),
    ],
)
def test_bad_requests_are_named(call, message):
    with pytest.raises(InputError, match=message):
        call()
