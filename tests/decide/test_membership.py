import numpy as np
import pytest
import torch

from transect.decide._folds import fit_in_own_space, grouped_folds
from transect.decide._nested import choose_in_folds
from transect.decide.membership import audit_membership, tpr_at_fpr
from transect.errors import InputError
from transect.measure import auroc, interval
from transect.measure.cross_validated import cross_validated_auroc_statistic


def _set(n=240, *, planted=True, shifted=False, seed=0):
    rng = np.random.default_rng(seed)
    members = np.arange(n) % 2 == 0
    acts = {f"layers[{layer}]": rng.standard_normal((n, 12)) for layer in range(3)}
    if planted:
        acts["layers[2]"][:, 0] += 1.5 * members
    words = ["red", "green", "blue", "small", "large", "house", "river", "stone"]
    texts = [" ".join(rng.choice(words, 6)) + (" 2025" if shifted and not member else "") for member in members]
    return acts, members, texts, rng


def test_a_planted_trace_is_found_in_its_layer_and_beats_what_saw_no_model():
    acts, members, texts, rng = _set()
    loss = rng.standard_normal(240) - 0.5 * members
    found = audit_membership(acts, members, texts=texts, folds=2, loss=loss, min_k=-loss, zlib_ratio=loss)
    assert found.chosen == "layers[2]"
    assert found.corrected.low > 0.7
    assert found.warning == ""
    assert [one.name for one in found.baselines] == ["loss", "min_k", "zlib_ratio"]
    assert found.baselines[0].auroc.value == pytest.approx(found.baselines[1].auroc.value)
    assert found.baselines[0].auroc.value > 0.55
    assert found.over_best_blind is not None
    assert found.over_best_blind.low > 0.1
    assert found.by_fold == ("layers[2]", "layers[2]")
    assert found.probe.auroc == found.corrected


def test_a_set_whose_members_differ_by_words_is_warned_about():
    acts, members, texts, _ = _set(planted=False, shifted=True)
    found = audit_membership(acts, members, texts=texts, folds=2)
    assert "bag of words alone" in found.warning
    assert found.blind[0].auroc.low > 0.9
    assert found.over_best_blind is not None
    assert found.over_best_blind.high < 0


def test_a_set_whose_members_are_older_is_warned_about():
    acts, members, texts, rng = _set(planted=False)
    found = audit_membership(acts, members, texts=texts, folds=2, dates=2020 + 4 * ~members + rng.integers(0, 3, 240))
    assert "dates alone" in found.warning
    assert "bag of words" not in found.warning


def test_noise_says_chance():
    acts, members, texts, _ = _set(planted=False, seed=5)
    found = audit_membership(acts, members, texts=texts, folds=2)
    assert found.corrected.low < 0.5
    assert all(not one.excludes(0.5) for one in found.layers.values())
    assert found.warning == ""


def _noise(seed, *, n=48, d=3, layers=3):
    rng = np.random.default_rng(seed)
    codes = np.arange(n) % 2
    return [rng.standard_normal((n, d)) for _ in range(layers)], codes, grouped_folds(n, classes=codes, folds=3, seed=seed)


def test_choosing_the_best_layer_of_noise_is_worth_chance_and_its_interval_says_so():
    """Over 40 draws: the mean is 0.5, and a 95% interval misses it no more often than binomial error at one in a thousand allows."""
    values, missed = [], 0
    for seed in range(40):
        layers, codes, folds = _noise(seed, layers=2)
        found = interval(cross_validated_auroc_statistic(choose_in_folds(layers, codes, folds, C=0.01).scores, codes, folds), resamples=300)
        values.append(found.value)
        missed += found.excludes(0.5)
    assert abs(np.mean(values) - 0.5) < 3.3 * np.std(values) / np.sqrt(40)
    assert missed <= 7


def test_words_that_know_nothing_have_an_interval_that_holds_chance():
    """Scores of a mean difference of counts, out of fold, on noise: what the bag of words does, without the cost of choosing its strength."""
    rng = np.random.default_rng(3)
    codes, missed, values = np.arange(60) % 2, 0, []
    for seed in range(120):
        counts, folds = rng.poisson(0.75, (60, 8)), grouped_folds(60, classes=codes, folds=5, seed=seed)
        scores = np.empty(60)
        for fold in range(5):
            rest, held = folds != fold, folds == fold
            scores[held] = counts[held] @ (counts[rest & (codes == 1)].mean(0) - counts[rest & (codes == 0)].mean(0))
        found = interval(cross_validated_auroc_statistic(scores, codes, folds), resamples=100)
        values.append(found.value)
        missed += found.excludes(0.5)
    assert missed <= 14  # 5% promised, and what binomial error allows at one in a thousand
    assert abs(np.mean(values) - 0.5) < 3.3 * np.std(values) / np.sqrt(120)


@pytest.mark.parametrize("n_folds", [2, 3])
def test_rows_have_no_part_in_the_choice_that_is_made_for_them(n_folds):
    layers, codes, _ = _noise(1)
    folds = grouped_folds(48, classes=codes, folds=n_folds)
    as_it_was = choose_in_folds(layers, codes, folds, C=0.01)
    moved = 0
    for fold in range(n_folds):
        held = folds == fold
        for site in range(3):  # what would win for every fold that sees it
            other = [x.copy() for x in layers]
            other[site][held] += 5 * codes[held, None]
            found = choose_in_folds(other, codes, folds, C=0.01)
            assert found.chosen[fold] == as_it_was.chosen[fold]
            moved += (found.chosen != as_it_was.chosen).any()
    assert moved > 0


def test_the_nested_choice_is_the_written_out_loop():
    layers, codes, folds = _noise(2)
    layers[1][:, 0] += 0.8 * codes
    found = choose_in_folds(layers, codes, folds, C=0.01)
    for outer in range(3):
        rest = [fold for fold in range(3) if fold != outer]
        means = []
        for x in layers:
            values = []
            for inner in rest:
                fitted = (folds != outer) & (folds != inner)
                readout = fit_in_own_space(x[fitted], codes[fitted], C=0.01)
                values.append(auroc(readout.scores(torch.from_numpy(x[folds == inner])).numpy(), codes[folds == inner]))
            means.append(np.mean(values))  # the folds have as many pairs
        best = int(np.argmax(means))
        assert found.chosen[outer] == best
        held = folds == outer
        readout = fit_in_own_space(layers[best][~held], codes[~held], C=0.01)
        scores = readout.scores(torch.from_numpy(layers[best][held])).numpy()
        np.testing.assert_allclose(found.scores[held], (scores - scores.mean()) / scores.std(), rtol=0, atol=1e-12)


def test_what_lies_below_chance_is_said():
    rng = np.random.default_rng(0)
    members = np.arange(240) % 2 == 0
    copies = np.repeat(rng.standard_normal((120, 40)), 2, axis=0)  # each state once as a member and once as another
    words = np.repeat([" ".join(f"w{k}" for k in rng.integers(0, 60, 6)) for _ in range(120)], 2).tolist()
    found = audit_membership({"a": copies}, members, texts=words, folds=3)
    assert found.corrected.high < 0.5
    assert "The probe does worse than chance" in found.warning
    assert "The bag of words does worse than chance" in found.warning
    paired = audit_membership({"a": copies}, members, folds=3, groups=np.arange(240) // 2)
    assert "worse than chance" not in paired.warning
    younger = audit_membership({"a": rng.standard_normal((240, 3))}, members, folds=3, dates=2020 + members + rng.random(240))
    assert "the other way round" in younger.warning
    assert "which has seen no model" not in younger.warning


def test_without_texts_the_audit_says_what_it_did_not_look_at():
    acts, members, _, _ = _set(60)
    found = audit_membership(acts, members)
    assert "not measured" in found.warning
    assert "coarse" in found.warning
    assert found.over_best_blind is None


def test_rate_at_few_false_positives_on_noise_is_that_rate():
    """k of n non-members above the threshold: a member of the same distribution is above it with chance (k + 1) / (n + 1)."""
    rng = np.random.default_rng(0)
    members = np.arange(240) < 40
    found = [tpr_at_fpr(rng.standard_normal(240), members, fpr=0.05).value for _ in range(1000)]
    assert abs(np.mean(found) - 11 / 201) < 3.3 * np.std(found) / np.sqrt(1000)


def test_rate_for_a_known_threshold_is_covered_in_a_thousand_draws():
    """Non-members at fixed places put the threshold at 1; the interval must hold P(member > 1)."""
    rng = np.random.default_rng(1)
    members = np.arange(160) < 60
    scores = np.concatenate([np.zeros(60), np.full(99, -9.0), [1.0]])
    held = 0
    for _ in range(1000):
        scores[:60] = rng.random(60) * 2
        found = tpr_at_fpr(scores, members, fpr=0.001)
        held += found.low <= 0.5 <= found.high
    assert held >= 936  # 95% promised, less what binomial error allows at one in a thousand


def test_the_rate_says_when_there_are_too_few_non_members():
    found = tpr_at_fpr([3.0, 2.0, 1.0, 0.0], [1, 0, 0, 1], fpr=0.01)
    assert "fewer than a rate of 0.01 needs (100)" in found.method
    assert found.value == 0.5


def test_what_cannot_be_audited_is_refused():
    acts, members, texts, _ = _set(60)
    with pytest.raises(InputError, match="both kinds"):
        audit_membership(acts, np.ones(60))
    with pytest.raises(InputError, match="both kinds"):
        tpr_at_fpr([1.0, 2.0], [0, 0])
    with pytest.raises(InputError, match="at least one site"):
        audit_membership({}, members)
    with pytest.raises(InputError, match="texts"):
        audit_membership(acts, members, texts=texts[:-1])
    with pytest.raises(InputError, match="fewer folds"):
        audit_membership(acts, members, groups=np.arange(60) // 20)
    acts["layers[0]"][7, 3] = np.nan
    with pytest.raises(InputError, match="row 7"):
        audit_membership(acts, members)
