import numpy as np
import pytest

from transect.decide.ensemble import confidence_features, ensemble, evaluate_ensemble, fit_confidence
from transect.errors import InputError


def _models(n=900, *, informed=True, seed=0):
    """Three models over four classes, each right on its own third of the rows and guessing elsewhere; hidden states show which."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, 4, n)
    field = rng.integers(0, 3, n)
    probabilities, hidden, right = [], [], []
    for model in range(3):
        knows = field == model
        answer = np.where(knows, truth, rng.integers(0, 4, n))
        probabilities.append(0.7 * np.eye(4)[answer] + 0.075)
        hidden.append(rng.standard_normal((n, 6)) + (4.0 * knows[:, None] * np.eye(6)[0] if informed else 0))
        right.append(answer == truth)
    return np.stack(probabilities), np.stack(hidden), np.stack(right), truth


def _confidences(probabilities, hidden, right, train):
    import torch

    found = []
    for shares, states, known in zip(probabilities, hidden, right, strict=True):
        readout = fit_confidence(states[train], shares[train], known[train])
        found.append(readout.probabilities(torch.from_numpy(confidence_features(states, shares)))[:, 1].numpy())
    return np.stack(found)


@pytest.mark.parametrize("weighting", ["votes", "probabilities", "best"])
def test_learnt_confidence_beats_the_vote_and_every_single_model(weighting):
    probabilities, hidden, right, truth = _models()
    train, test = np.arange(900) < 450, np.arange(900) >= 450
    trust = _confidences(probabilities, hidden, right, train)
    found = evaluate_ensemble(probabilities[:, test], trust[:, test], truth[test], weighting=weighting)
    assert found.over_majority.low > 0.1
    assert found.over_best_single.low > 0.2
    assert found.over_mean_probability.low > 0.1
    assert found.accuracy.value > 0.9


def test_confidence_from_noise_wins_nothing():
    probabilities, hidden, right, truth = _models(informed=False)
    train, test = np.arange(900) < 450, np.arange(900) >= 450
    found = evaluate_ensemble(probabilities[:, test], _confidences(probabilities, hidden, right, train)[:, test], truth[test])
    assert not found.over_mean_probability.excludes(0)


def test_equal_confidence_is_the_majority_vote():
    probabilities, _, _, truth = _models(200)
    found = evaluate_ensemble(probabilities, np.full((3, 200), 0.4), truth)
    assert found.accuracy.value == found.majority.value
    assert found.over_majority.value == 0


def test_a_sure_model_outvotes_two_unsure_ones():
    shares = [[[0.9, 0.1]], [[0.4, 0.6]], [[0.4, 0.6]]]
    assert ensemble(shares, [[0.9], [0.3], [0.3]]).tolist() == [0]
    assert ensemble(shares, [[0.1], [0.9], [0.3]], weighting="best").tolist() == [1]
    assert ensemble(shares, [[0.0], [0.0], [0.0]]).tolist() == [0]  # all equal: the larger mean probability


def test_a_model_that_is_never_right_has_no_confidence_to_learn():
    rng = np.random.default_rng(0)
    with pytest.raises(InputError, match="never right"):
        fit_confidence(rng.standard_normal((10, 3)), np.full((10, 2), 0.5), np.zeros(10))


def test_what_does_not_fit_is_refused():
    shares = np.full((2, 5, 3), 1 / 3)
    with pytest.raises(InputError, match="confidences"):
        ensemble(shares, np.ones((2, 4)))
    with pytest.raises(InputError, match="not logits"):
        ensemble(shares - 1, np.ones((2, 5)))
    with pytest.raises(InputError, match="alike for all models"):
        ensemble([np.ones((2, 3)), np.ones((2, 2))], np.ones((2, 2)))
    with pytest.raises(InputError, match="class 3"):
        evaluate_ensemble(shares, np.ones((2, 5)), [0, 1, 2, 3, 0])
    with pytest.raises(InputError, match="weighting"):
        ensemble(shares, np.ones((2, 5)), weighting="mean")  # pyright: ignore[reportArgumentType]
    broken = shares.copy()
    broken[0, 3, 0] = np.nan
    with pytest.raises(InputError, match="NaN"):
        ensemble(broken, np.ones((2, 5)))
