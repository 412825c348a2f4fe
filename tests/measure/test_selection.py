import numpy as np
import pytest
import torch

from transect.errors import InputError
from transect.measure import auroc, choose, correct_for_choosing, correct_in_folds, spearman
from transect.measure.selection import fold_metric
from transect.probes import Inside, Ridge, sweep

STRENGTHS = (0.1, 1.0, 10.0)


def planted(rng, signal, n_groups=30, kind="binary"):
    """Out-of-fold scores [s, 3, n] whose signal differs by site; groups are pairs, folds hold whole groups."""
    groups = np.repeat(np.arange(n_groups), 2)
    labels = np.tile([0, 1], n_groups)
    noise = rng.normal(size=(len(signal), 3, 2 * n_groups))
    if kind == "multiclass":
        labels = np.tile([0, 1, 2], 2 * n_groups // 3)
        noise = rng.normal(size=(*noise.shape, 3))
        return noise + np.asarray(signal)[:, None, None, None] * np.eye(3)[labels], labels, groups // 3 % 5, groups
    return noise + np.asarray(signal)[:, None, None] * labels, labels, groups % 5, groups


def test_the_planted_site_is_chosen_and_the_table_is_the_mean_over_folds():
    scores, labels, folds, _ = planted(np.random.default_rng(0), [0.0, 3.0, 0.5])
    chosen = choose(scores, labels, folds, strengths=STRENGTHS)
    assert chosen.site == 1 and chosen.per_fold.shape == (3, 3, 5) and chosen.left_out == 0
    for site in range(3):
        for strength in range(3):
            values = [auroc(scores[site, strength, folds == fold], labels[folds == fold]) for fold in range(5)]
            assert chosen.table[site, strength] == pytest.approx(np.mean(values), abs=1e-12)
    assert chosen.validation == chosen.table.max() == chosen.table[1, chosen.strength]


def test_among_equals_the_middle_strength_then_the_shallower_site():
    labels, folds = np.tile([0, 1], 10), np.repeat([0, 1], 10)
    scores = np.broadcast_to(labels.astype(float), (4, 3, 20)).copy()
    scores[0] = 0
    chosen = choose(scores, labels, folds, strengths=(1.0, 10.0, 0.1))
    assert (chosen.site, chosen.strength) == (1, 0)  # 1.0 is the middle one
    assert chosen.at_edge == ()
    assert chosen.strength_at.tolist() == [0, 0, 0, 0]
    assert "nearest the middle of those tried, then the shallower site" in chosen.rule
    scores[1, 0] = 0  # the shallowest good site is good at an edge only: a deeper one with the middle strength wins
    chosen = choose(scores, labels, folds, strengths=(1.0, 10.0, 0.1))
    assert (chosen.site, chosen.strength) == (2, 0)
    scores[:, 0] = 0  # of two that are as far from the middle, the stronger
    assert choose(scores, labels, folds, strengths=(1.0, 10.0, 0.1)).strength == 1


def test_one_standard_error_takes_the_simplest_that_is_as_good():
    rng = np.random.default_rng(1)
    scores, labels, folds, _ = planted(rng, [0.0, 1.5, 1.6, 1.7])
    plain = choose(scores, labels, folds, strengths=STRENGTHS)
    simple = choose(scores, labels, folds, strengths=STRENGTHS, one_standard_error=True)
    error = plain.per_fold[plain.site, plain.strength].std(ddof=1) / np.sqrt(5)
    good = [(-STRENGTHS[c], s, c) for s in range(4) for c in range(3) if plain.table[s, c] >= plain.validation - error]
    assert (simple.site, simple.strength) == (min(good)[1], min(good)[2])
    assert simple.validation <= plain.validation and "one standard error" in simple.rule


def test_a_fold_of_one_class_is_left_out_and_counted():
    scores, labels, folds, _ = planted(np.random.default_rng(0), [2.0, 0.0])
    folds = np.where(np.arange(60) % 12 == 1, 5, folds)  # all rows of the sixth fold are positive
    chosen = choose(scores, labels, folds, strengths=STRENGTHS)
    assert chosen.left_out == 1 and np.isnan(chosen.per_fold[:, :, 5]).all() and np.isfinite(chosen.table).all()
    assert correct_for_choosing(scores, labels, folds, strengths=STRENGTHS, resamples=20).corrected.value > 0.7
    with pytest.raises(InputError, match="undefined in all 2 folds"):
        choose(scores, labels, labels, strengths=STRENGTHS)


def test_the_best_of_many_on_noise_is_corrected_to_chance():
    found = []
    for seed in range(25):
        scores, labels, folds, groups = planted(np.random.default_rng(seed), [0.0] * 8)
        found.append(correct_for_choosing(scores, labels, folds, strengths=STRENGTHS, groups=groups, resamples=60, seed=seed))
    corrected, optimism = (
        np.array([getattr(f, name) if name == "optimism" else f.corrected.value for f in found]) for name in ("c", "optimism")
    )
    best = corrected + optimism
    assert best.mean() > 0.6  # what choosing the best of 24 makes of noise
    # BBC-CV removes most of it; a trace is left since the groups out of the bag are the same ones each configuration was lucky on.
    assert corrected.mean() == pytest.approx(0.5, abs=0.05) and optimism.mean() > 0.08


def test_a_clear_winner_needs_no_correction():
    scores, labels, folds, groups = planted(np.random.default_rng(0), [0.0, 4.0, 0.0], n_groups=60)
    found = correct_for_choosing(scores, labels, folds, strengths=STRENGTHS, groups=groups, resamples=200)
    assert found.site_share[1] == 1.0 and abs(found.optimism) < 0.01
    assert found.corrected.low <= found.corrected.value <= found.corrected.high
    assert "BBC-CV" in found.corrected.method and found.corrected.groups == 60


@pytest.mark.parametrize("one_standard_error", [False, True])
def test_the_correction_is_the_written_out_loop(one_standard_error):
    from transect.measure.resampling import resample_counts

    scores, labels, folds, groups = planted(np.random.default_rng(4), [0.5, 0.8], n_groups=20)
    found = correct_for_choosing(
        scores, labels, folds, strengths=STRENGTHS, groups=groups, resamples=25, seed=9, one_standard_error=one_standard_error
    )
    measured = []
    for column in next(resample_counts(20, resamples=25, seed=9)).T:
        inside = np.repeat(np.arange(40), column[groups].astype(int))
        outside = np.flatnonzero(column[groups] == 0)
        chosen = choose(scores[:, :, inside], labels[inside], folds[inside], strengths=STRENGTHS, one_standard_error=one_standard_error)
        row = scores[chosen.site, chosen.strength]
        by_fold = [outside[folds[outside] == fold] for fold in range(5)]
        measured.append(np.mean([auroc(row[rows], labels[rows]) for rows in by_fold if len(rows)]))
    assert found.corrected.value == pytest.approx(np.mean(measured), abs=1e-12)


def test_more_classes_and_numbers_are_chosen_by_their_own_metric():
    rng = np.random.default_rng(0)
    scores, labels, folds, _ = planted(rng, [0.0, 2.0], kind="multiclass")
    assert choose(scores, labels, folds, strengths=STRENGTHS, kind="multiclass").site == 1
    numbers = rng.normal(size=60)
    scores = rng.normal(size=(2, 3, 60)) + np.array([0.0, 2.0])[:, None, None] * numbers
    chosen = choose(scores, numbers, np.arange(60) % 4, strengths=STRENGTHS, kind="number")
    assert chosen.site == 1
    held = np.arange(60) % 4 == 2
    assert chosen.per_fold[1, 0, 2] == pytest.approx(spearman(scores[1, 0, held], numbers[held]))
    corrected = correct_for_choosing(scores, numbers, np.arange(60) % 4, strengths=STRENGTHS, kind="number", resamples=30)
    assert 0.5 < corrected.corrected.value < 1


def test_bad_shapes_are_named():
    with pytest.raises(InputError, match="3 strengths, but 2"):
        choose(np.zeros((2, 3, 4)), [0, 1, 0, 1], [0, 0, 1, 1], strengths=(1.0, 2.0))
    with pytest.raises(InputError, match="3 axes"):
        choose(np.zeros((3, 4)), [0, 1, 0, 1], [0, 0, 1, 1], strengths=(1.0,))
    with pytest.raises(InputError, match="each of the 4 rows"):
        choose(np.zeros((2, 1, 4)), [0, 1, 0], [0, 0, 1, 1], strengths=(1.0,))


def test_a_perfect_score_is_no_certainty():
    labels = np.tile([0, 1], 40)
    groups = np.arange(80) // 2
    scores = np.stack([labels + 0.01 * site for site in range(3)])[:, None, :].repeat(2, axis=1)
    found = correct_for_choosing(scores, labels, groups % 5, strengths=(1.0, 0.1), groups=groups, resamples=100).corrected
    assert found.value == 1
    assert 0.9 < found.low < 0.97  # forty perfect pairs


STRONG = (1.0, 100.0, 1e4)


def searched(seed, n, sites, width, planted=0.0):
    """Ridge fits at a few sites, the later ones telling more; how the choice is judged, and what the chosen one scores on 2000 fresh rows."""
    draw = torch.Generator().manual_seed(seed)
    codes = torch.arange(n + 2000) % 2
    names = [f"s{site}" for site in range(sites)]
    x = {name: torch.randn(n + 2000, width, generator=draw) for name in names}
    for site, name in enumerate(names):
        x[name][:, 0] += planted * site / sites * (2 * codes - 1)
    labels, folds = codes[:n].numpy(), np.arange(n) // 2 % 5
    inside = Inside(parts=folds, measure=lambda scores, rows: fold_metric(scores, labels[rows], kind="binary"))
    own, fitter = {name: rows[:n] for name, rows in x.items()}, Ridge(targets="classes")
    fits = sweep(own, labels, folds=folds, fitter=fitter, classes=(0, 1), strengths=STRONG, inside=inside)
    found = correct_in_folds(fits.scores, fits.inside, labels, folds, strengths=fits.penalties, resamples=50)
    chosen = choose(fits.scores, labels, folds, strengths=fits.penalties)
    readout = fits.readout(names[chosen.site], chosen.strength)
    return found.corrected.value, chosen.validation, auroc(readout.scores(x[names[chosen.site]][n:]), codes[n:])


@pytest.mark.parametrize(("n", "sites", "width"), [(80, 4, 6), (200, 6, 32)])
def test_chosen_inside_folds_noise_is_chance(n, sites, width):
    corrected, validation, _ = np.array([searched(seed, n, sites, width) for seed in range(60)]).T
    assert abs(corrected.mean() - 0.5) < 2 * corrected.std() / np.sqrt(60)
    assert validation.mean() > 0.57


def test_chosen_inside_folds_a_signal_scores_as_on_fresh_rows():
    corrected, validation, fresh = np.array([searched(seed, 200, 6, 32, planted=1.0) for seed in range(20)]).T
    assert 0.8 < fresh.mean() < 0.95
    assert abs(corrected.mean() - fresh.mean()) < 0.02
    assert validation.mean() > corrected.mean()


@pytest.mark.parametrize("one_standard_error", [False, True])
def test_the_choice_inside_folds_is_the_written_out_loop(one_standard_error):
    scores, labels, folds, groups = planted(np.random.default_rng(4), [0.5, 0.8], n_groups=40)
    inside = np.random.default_rng(5).uniform(0.4, 0.9, size=(2, 3, 5, 5))
    inside[:, :, np.arange(5), np.arange(5)] = np.nan
    settings = {"strengths": STRENGTHS, "one_standard_error": one_standard_error}
    found = correct_in_folds(scores, inside, labels, folds, groups=groups, **settings)
    wins, pairs, sites = 0.0, 0.0, []
    for fold in range(5):
        parts = np.delete(inside[:, :, fold], fold, axis=-1)
        mean = parts.mean(-1)
        best = max(((mean[s, c], -abs(c - 1), STRENGTHS[c], -s), s, c) for s in range(2) for c in range(3))
        if one_standard_error:
            error = parts[best[1], best[2]].std(ddof=1) / 2
            best = max(((STRENGTHS[c], -s), s, c) for s in range(2) for c in range(3) if mean[s, c] >= mean[best[1], best[2]] - error)
        rows = folds == fold
        count = labels[rows].sum() * (1 - labels[rows]).sum()
        wins, pairs = wins + count * auroc(scores[best[1], best[2], rows], labels[rows]), pairs + count
        sites.append(best[1])
    assert found.corrected.value == pytest.approx(wins / pairs, abs=1e-12)
    assert found.site_share.tolist() == pytest.approx([np.mean(np.array(sites) == site) for site in range(2)])
    assert "nested cross-validation: best of 6" in found.corrected.method and found.corrected.groups == 40
    assert found.optimism == pytest.approx(choose(scores, labels, folds, **settings).validation - wins / pairs, abs=1e-12)


def test_inside_folds_more_classes_and_numbers_go_by_their_own_metric():
    rng = np.random.default_rng(0)
    inside = np.stack([np.full((3, 5, 5), 0.5), np.full((3, 5, 5), 0.9)])
    scores, labels, folds, _ = planted(rng, [0.0, 2.0], kind="multiclass", n_groups=60)
    found = correct_in_folds(scores, inside, labels, folds, strengths=STRENGTHS, kind="multiclass").corrected
    assert found.low < found.value < found.high and found.value > 0.8
    numbers, folds = rng.normal(size=60), np.arange(60) % 5
    scores = rng.normal(size=(2, 3, 60)) + np.array([0.0, 2.0])[:, None, None] * numbers
    found = correct_in_folds(scores, inside, numbers, folds, strengths=STRENGTHS, kind="number").corrected
    by_fold = [spearman(scores[1, 1, folds == fold], numbers[folds == fold]) for fold in range(5)]
    assert found.value == pytest.approx(np.mean(by_fold))
    assert -1 <= found.low < found.value < found.high <= 1


def test_inside_must_fit_and_have_something_for_every_fold():
    scores, labels, folds, _ = planted(np.random.default_rng(0), [0.0, 2.0])
    with pytest.raises(InputError, match="inside must be"):
        correct_in_folds(scores, np.zeros((2, 3, 4, 5)), labels, folds, strengths=STRENGTHS)
    inside = np.zeros((2, 3, 5, 5))
    inside[:, :, 3] = np.nan
    with pytest.raises(InputError, match="nothing to choose by for fold 3"):
        correct_in_folds(scores, inside, labels, folds, strengths=STRENGTHS)
