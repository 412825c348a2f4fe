import json
import math

import numpy as np
import pytest
import torch

from transect.errors import InputError, SampleSizeError
from transect.linear import Subspace
from transect.measure import auroc, auroc_interval, compare_ranks, count_directions, permutation_p, permute_labels
from transect.probes.naive import naive_nullspace


def planted(r, n=4000, d=14, seed=0):
    """r directions of rising spread, each with its own shift, so that one fit cannot read all; the rest is wide noise without a label."""
    rng = np.random.default_rng(seed)
    codes = rng.permutation(np.arange(n) % 2)
    spread = np.full(d, 300.0)
    spread[:r] = 4.0 ** np.arange(r)
    x = rng.normal(size=(n, d)) * spread
    x[:, :r] += 1.2 * spread[:r] * codes[:, None]
    turn = np.linalg.qr(rng.normal(size=(d, d)))[0]
    return x @ turn, codes, turn[:r]


@pytest.mark.parametrize("r", [1, 2, 3])
def test_it_counts_what_was_planted(r):
    x, codes, truth = planted(r)
    found = count_directions(x, codes, regularization=1e-6, resamples=200)
    assert found.n_directions == r and found.stopped == "chance"
    assert float(found.directions.angles(Subspace(basis=torch.from_numpy(truth))).max()) < 0.2
    assert [step.at_chance for step in found.steps] == [False] * r + [True]


def test_noise_counts_nothing_as_often_as_promised():
    counts = []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        x, codes = rng.normal(size=(80, 30)), np.arange(80) % 2
        counts.append(count_directions(x, codes, shuffles=99, resamples=20, seed=seed).n_directions)
    assert np.mean(np.array(counts) > 0) <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / 60)


@pytest.mark.parametrize(("n", "d"), [(300, 20), (120, 200)])
def test_it_is_the_naive_count(n, d):
    rng = np.random.default_rng(1)
    groups = np.arange(n) // 2
    codes = np.arange(n) % 2
    x = rng.normal(size=(n, d)) * np.geomspace(4, 0.2, d)
    x[:, : d // 2] += codes[:, None]
    mask = groups % 2 == 0
    found = count_directions(x, codes, groups=groups, held_out=mask, shuffles=199, resamples=100)
    assert found.n_directions >= 2
    shuffled = permute_labels(codes[mask], groups=groups[mask], shuffles=199, seed=0).labels
    directions, scores = naive_nullspace(x[~mask], codes[~mask], x[mask], regularization=100.0, steps=found.n_directions + 1)
    p_values = [permutation_p(auroc(row, codes[mask]), [auroc(row, labels) for labels in shuffled]) for row in scores]
    assert [p <= 0.05 for p in p_values] == [True] * found.n_directions + [False]
    np.testing.assert_allclose([step.p for step in found.steps], p_values, rtol=1e-12)
    np.testing.assert_allclose([step.auroc.value for step in found.steps], [auroc(row, codes[mask]) for row in scores], atol=1e-12, rtol=0)
    np.testing.assert_allclose(found.directions.basis, directions[:-1], atol=1e-6, rtol=0)
    alone = auroc_interval(scores[0], codes[mask], groups=groups[mask], resamples=100)
    assert (found.steps[0].auroc.low, found.steps[0].auroc.high) == pytest.approx((alone.low, alone.high))


def test_the_limit_is_said_and_so_is_running_out():
    x, codes, _ = planted(3)
    limited = count_directions(x, codes, most=2, regularization=1e-6, resamples=50)
    assert limited.stopped == "most" and limited.n_directions == 2
    assert limited.sentence.startswith("at least 2 directions") and "limit of 2" in limited.sentence
    line = np.zeros((100, 4))
    line[:, 1] = np.arange(100) % 2
    spent = count_directions(line, np.arange(100) % 2, resamples=50)
    assert (spent.n_directions, spent.stopped) == (1, "exhausted") and "nothing was left" in spent.sentence
    flat = count_directions(np.ones((100, 4)), np.arange(100) % 2)
    assert (flat.n_directions, flat.stopped, flat.steps, flat.directions.rank) == (0, "exhausted", (), 0)
    json.dumps([limited.to_json(), flat.to_json()], allow_nan=False)


def test_whole_groups_are_held_out_and_labels_of_one_kind_per_group_work():
    x, codes, _ = planted(1, n=400)
    groups = np.array([f"g{code}{at // 8}" for at, code in enumerate(codes)])
    found = count_directions(x, codes, groups=groups, regularization=1e-6, resamples=50)
    assert found.n_directions >= 1 and found.n_fitted + found.n_held_out == 400
    with pytest.raises(InputError, match=r"group 'g.+' has rows on both sides"):
        count_directions(x, codes, groups=groups, held_out=np.arange(400) % 2)


def test_tensors_and_words_as_labels_give_the_same():
    x, codes, _ = planted(2, n=300)
    one = count_directions(x, codes, resamples=50)
    two = count_directions(torch.from_numpy(x), np.array(["a", "b"])[codes], resamples=50)
    assert one.to_json() == two.to_json()


@pytest.mark.parametrize("measure", [count_directions, compare_ranks])
def test_what_cannot_be_used_is_named(measure):
    x, codes, _ = planted(1, n=60)
    bad = x.copy()
    bad[7, 2] = np.nan
    cases = [
        (InputError, "row 7", bad, codes, {}),
        (InputError, "two classes, got 1", x, np.zeros(60), {}),
        (InputError, "two classes, got 3", x, np.arange(60) % 3, {}),
        (InputError, "row 3", x, np.where(np.arange(60) == 3, np.nan, codes), {}),
        (InputError, "share must lie", x, codes, {"share": 1.0}),
        (InputError, "59", x, codes[1:], {}),
        (SampleSizeError, "both classes", x, codes, {"held_out": codes == 1}),
        (SampleSizeError, "even a perfect score", x, codes, {"groups": codes * 2 + np.arange(60) % 2}),
    ]
    for kind, says, rows, labels, settings in cases:
        with pytest.raises(kind, match=says):
            measure(rows, labels, **settings)


def test_one_planted_direction_is_enough_alone():
    rng = np.random.default_rng(0)
    codes = np.arange(600) % 2
    x = rng.normal(size=(600, 20))
    x[:, 0] += 2 * codes
    found = compare_ranks(x, codes, resamples=200)
    assert found.k_star == 1 and 0.9 < found.single_share < 1.1
    assert "single direction is enough" in found.sentence
    assert [rank.k for rank in found.ranks] == [1, 2, 3, 5, 10]
    assert all(abs(rank.null.value - 0.5) < 0.05 for rank in found.ranks)
    json.dumps(found.to_json(), allow_nan=False)


def test_a_label_in_two_dimensions_needs_two():
    # The mean difference points along a noisy axis; a second axis carries the same noise without the label, and cancels it.
    rng = np.random.default_rng(0)
    codes = np.arange(800) % 2
    noise = 3 * rng.normal(size=800)
    x = np.stack([2 * codes + noise + 0.3 * rng.normal(size=800), noise + 0.3 * rng.normal(size=800), *rng.normal(size=(8, 800))], 1)
    found = compare_ranks(x, codes, ranks=(1, 2, 3, 5), resamples=200, regularization=0.1)
    assert found.k_star == 2 and found.single_share < 0.6
    assert found.ranks[0].auroc.value < 0.8 and found.ranks[1].auroc.value > 0.95


def test_noise_has_no_k_star_as_often_as_promised():
    found = []
    for seed in range(40):
        rng = np.random.default_rng(100 + seed)
        x, codes = rng.normal(size=(80, 30)), np.arange(80) % 2
        found.append(compare_ranks(x, codes, ranks=(1, 2, 5), shuffles=99, resamples=20, seed=seed))
    wrong = np.mean([one.k_star is not None for one in found])
    assert wrong <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / 40)
    quiet = next(one for one in found if one.k_star is None)
    assert "no probe of up to 5 dimensions beats shuffled labels" in quiet.sentence


def test_ranks_must_rise_from_one_and_fit():
    x, codes, _ = planted(1, n=60)
    for ranks in ((2, 3), (1, 3, 2), ()):
        with pytest.raises(InputError, match="rise from 1"):
            compare_ranks(x, codes, ranks=ranks)
    with pytest.raises(InputError, match="between 1 and 14"):
        compare_ranks(x, codes, ranks=(1, 15))


def test_a_constant_column_changes_nothing():
    x, codes, _ = planted(2, n=300)
    wide = np.concatenate([x, np.full((300, 1), 1e6)], 1)
    one, two = compare_ranks(x, codes, ranks=(1, 2), resamples=50), compare_ranks(wide, codes, ranks=(1, 2), resamples=50)
    np.testing.assert_allclose([rank.auroc.value for rank in one.ranks], [rank.auroc.value for rank in two.ranks], atol=1e-9, rtol=0)
