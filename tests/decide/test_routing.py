import numpy as np
import pytest
from scipy import stats

from transect.decide.routing import _accuracy, _cross_fitted, evaluate_routing, route
from transect.errors import InputError
from transect.measure import interval


def _pool(n=1500, *, informed=True, seed=0):
    """A small model that is right on easy queries and a large one that is right on most; costs 1 and 10."""
    rng = np.random.default_rng(seed)
    easy = rng.random(n) < 0.6
    chances = np.stack([np.where(easy, 0.95, 0.1), np.full(n, 0.9)], axis=1)
    success = rng.random((n, 2)) < chances
    told = chances if informed else np.broadcast_to(chances.mean(axis=0), chances.shape)
    return told, success, np.array([1.0, 10.0])


def test_informed_probes_cost_less_at_the_accuracy_of_the_best_model():
    chances, success, costs = _pool()
    found = evaluate_routing(chances, success, costs, models=["small", "large"])
    assert found.best == "large"
    assert found.saving.low > 0.4
    assert found.accuracy_gap.low > -0.03
    assert found.chosen.accuracy.value > found.coin + 0.05
    assert found.oracle.accuracy.value >= max(point.accuracy.value for point in found.curve)


def test_noise_buys_nothing():
    rng = np.random.default_rng(1)
    _, success, costs = _pool()
    found = evaluate_routing(rng.random(success.shape), success, costs)
    for point in found.curve:
        mixture = point.shares[0] * found.singles[0].accuracy.value + point.shares[1] * found.singles[1].accuracy.value
        assert abs(point.accuracy.value - mixture) < 0.04
    assert found.chosen.accuracy.value < found.coin + 0.03


def test_probes_that_know_only_the_average_always_ask_one_model():
    chances, success, costs = _pool(informed=False)
    found = evaluate_routing(chances, success, costs)
    assert all(max(point.shares) == 1 for point in found.curve)
    assert found.chosen.shares == (0.0, 1.0)
    assert found.saving.value == 0


def test_the_chosen_point_is_honest_over_a_thousand_draws():
    """With probes of noise and models that are equals, neither the routing nor the best single model may look better than 0.5."""
    rng = np.random.default_rng(2)
    folds, rows = np.arange(60) % 3, np.arange(60)
    routed, single, flattered = [], [], []
    for _ in range(1000):
        right, price = rng.random((60, 3)) < 0.5, np.ones((60, 3))
        picks = [rng.integers(0, 3, 60) for _ in range(8)]
        chosen, against, _ = _cross_fitted(picks, right, price, list(range(8)), folds)
        routed.append(right[rows, chosen].mean())
        single.append(right[rows, against].mean())
        flattered.append(max(right[rows, pick].mean() for pick in picks))
    error = 0.5 / np.sqrt(60 * 1000)
    assert abs(np.mean(routed) - 0.5) < 3.3 * error
    assert abs(np.mean(single) - 0.5) < 3.3 * error
    assert np.mean(flattered) > 0.55  # what choosing and measuring on the same rows would have said


def test_intervals_hold_the_truth_in_a_thousand_draws():
    """The accuracy of one way of routing, over 1,000 samples of 150 queries: 95% promised, binomial error allowed for."""
    rng = np.random.default_rng(3)
    intervals = [interval(_accuracy(rng.random(150) < 0.8), resamples=60, seed=draw) for draw in range(1000)]
    assert sum(found.low <= 0.8 <= found.high for found in intervals) >= stats.binom.ppf(0.001, 1000, 0.95)


def test_saving_is_one_minus_the_ratio_of_costs():
    chances, success, costs = _pool(300)
    found = evaluate_routing(chances, success, costs, resamples=200)
    if found.chosen.cost.value < 10:
        assert found.saving.value == pytest.approx(1 - found.chosen.cost.value / 10)


def test_rules_by_hand():
    chances = np.array([[0.9, 0.95], [0.5, 0.9], [0.2, 0.3]])
    assert route(chances, [1, 10], tradeoff=0).tolist() == [1, 1, 1]
    assert route(chances, [1, 10], tradeoff=0.02).tolist() == [0, 1, 0]
    assert route(chances, [1, 10], tradeoff=0.6, rule="adequate").tolist() == [0, 1, 1]
    assert route([[0.5, 0.5]], [3, 2]).tolist() == [1]
    assert route([[0.9, 0.9], [0.9, 0.9]], [[1, 2], [2, 1]]).tolist() == [0, 1]


def test_a_model_that_is_never_right_is_never_the_best():
    chances, success, costs = _pool(200)
    success[:, 0] = False
    found = evaluate_routing(chances, success, costs, resamples=100)
    assert found.best == "model 1"
    assert found.singles[0].accuracy.value == 0


def test_one_model_alone_is_routed_to():
    found = evaluate_routing(np.full((20, 1), 0.5), np.ones((20, 1)), [2.0], resamples=50)
    assert found.chosen.cost.value == 2
    assert found.saving.value == 0


def test_what_does_not_fit_is_refused():
    with pytest.raises(InputError, match="row 1"):
        route([[0.5, 0.5], [0.5, 1.5]], [1, 2])
    with pytest.raises(InputError, match="row 1"):
        route([[0.5, 0.5], [np.nan, 0.5]], [1, 2])
    with pytest.raises(InputError, match="costs"):
        route([[0.5, 0.5]], [1, 2, 3])
    with pytest.raises(InputError, match="rule"):
        route([[0.5, 0.5]], [1, 2], rule="cheap")  # pyright: ignore[reportArgumentType]
    with pytest.raises(InputError, match="folds"):
        evaluate_routing(np.full((4, 2), 0.5), np.ones((4, 2)), [1, 2], folds=5)
    with pytest.raises(InputError, match="success"):
        evaluate_routing(np.full((9, 2), 0.5), np.ones(9), [1, 2])


def test_the_table_and_json_say_the_same():
    chances, success, costs = _pool(200)
    found = evaluate_routing(chances, success, costs, models=["a", "b"], resamples=50)
    names, rows = found.table()
    assert names[-2:] == ["a", "b"]
    assert len(rows) == 2 + 3 + len(found.curve)
    assert found.to_json()["chosen"]["accuracy"]["value"] == found.chosen.accuracy.value
