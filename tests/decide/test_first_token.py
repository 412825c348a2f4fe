import numpy as np
import pytest

from transect.decide._folds import grouped_folds, out_of_fold
from transect.decide.first_token import compare_tokens, decide_first_token, fit_first_token, logit_features
from transect.errors import InputError
from transect.measure import auroc


def _replies(n=240, *, classes=3, signals=(2.5, 0.0), seed=0):
    """Logits of tokens of a reply; at each, the decision's own token is likelier by the signal."""
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, classes, n)
    logits = [rng.standard_normal((n, 20)) + signal * np.eye(20)[codes] for signal in signals]
    return logits, np.array(["answer", "refuse", "warn"])[codes]


@pytest.mark.parametrize("classes", [2, 3])
def test_the_decision_is_read_at_the_first_token_and_gone_later(classes):
    logits, decisions = _replies(classes=classes)
    found = compare_tokens(logits, decisions)
    assert found.positions[0].low > 0.75
    assert not found.positions[1].excludes(0.5)
    assert found.drop is not None
    assert found.drop.low > 0.2
    assert len(found.classes) == classes


def test_noise_says_chance():
    """Over 30 sets of noise the out-of-fold AUROC is 0.5 on average: neither flattered by fitting nor dragged below by intercepts."""
    found = []
    for seed in range(30):
        rng = np.random.default_rng(seed)
        codes = rng.integers(0, 2, 60)
        folds = grouped_folds(60, classes=codes, folds=3, seed=seed)
        found.append(auroc(out_of_fold(logit_features(rng.standard_normal((60, 8))), codes, folds, C=0.01), codes))
    assert abs(np.mean(found) - 0.5) < 3.3 * np.std(found) / np.sqrt(30)


def test_one_position_has_no_drop():
    logits, decisions = _replies(signals=(2.0,), classes=2)
    assert compare_tokens(logits, decisions).drop is None


def test_decisions_on_new_rows():
    logits, decisions = _replies(signals=(6.0,))
    readout = fit_first_token(logits[0][:120], decisions[:120])
    told = np.array(decide_first_token(readout, logits[0][120:]))
    assert (told == decisions[120:]).mean() > 0.9
    assert readout.link == "softmax"


def test_a_constant_added_to_all_logits_of_a_row_changes_nothing():
    logits = np.random.default_rng(0).standard_normal((5, 4))
    np.testing.assert_allclose(logit_features(logits + np.arange(5)[:, None]), logit_features(logits), rtol=1e-12)
    np.testing.assert_allclose(np.exp(logit_features(logits)).sum(axis=1), 1, rtol=1e-12)


def test_what_does_not_fit_is_refused():
    logits, decisions = _replies()
    with pytest.raises(InputError, match="two kinds"):
        compare_tokens(logits, np.full(240, "answer"))
    with pytest.raises(InputError, match="no logits"):
        compare_tokens([], decisions)
    with pytest.raises(InputError, match="240 rows"):
        compare_tokens([logits[0], logits[1][:-1]], decisions)
    with pytest.raises(InputError, match="two tokens"):
        logit_features([[1.0]])
    logits[0][4, 2] = np.nan
    with pytest.raises(InputError, match="row 4"):
        fit_first_token(logits[0], decisions)
