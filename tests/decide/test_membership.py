import numpy as np
import pytest

from transect.decide.membership import audit_membership, tpr_at_fpr
from transect.errors import InputError


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
