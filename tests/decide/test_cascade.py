import numpy as np
import pytest
from scipy import stats

from transect.decide.cascade import certify_cascade, episodes_to_certify, select_cascade, stop_early
from transect.errors import InputError, SampleSizeError


def _episodes(n, *, signal=1.5, rounds=3, seed=0, total=8):
    """Half of the episodes fail; every early round's score shows it with independent noise; every round costs 1."""
    rng = np.random.default_rng(seed)
    success = rng.random(n) < 0.5
    scores = rng.standard_normal((n, rounds)) + signal * ~success[:, None]
    return scores, success, np.ones((n, total))


def test_thresholds_spend_the_budget_and_no_more():
    scores, success, costs = _episodes(400)
    cascade = select_cascade(scores, success, costs=costs, target=0.9)
    assert success.sum() * (1 - cascade.recall) <= success.sum() * 0.1
    assert cascade.budgets.sum() == pytest.approx(1 - cascade.recall)
    ended = cascade.ends_at(scores)
    assert (ended[success] < 0).mean() == pytest.approx(cascade.recall)
    saved = np.where(ended >= 0, 8 - ended - 1, 0).sum() / costs.sum()
    assert cascade.saved == pytest.approx(saved)


def test_a_division_among_gates_saves_at_least_what_any_single_gate_does():
    scores, success, costs = _episodes(300, seed=3)
    cascade = select_cascade(scores, success, costs=costs)
    singles = [select_cascade(scores, success, costs=costs, gates=[gate]).saved for gate in range(3)]
    assert cascade.saved > max(singles)


def test_the_best_division_is_found_by_brute_force():
    scores, success, costs = _episodes(60, rounds=2, seed=5)
    budget = int(success.sum() * 0.2 + 1e-9)
    cascade = select_cascade(scores, success, costs=costs, target=0.8)
    grid = [np.inf, *np.unique(scores)]
    best = 0.0
    for first in grid:
        for second in grid:
            over = scores > np.array([first, second])
            if (over.any(axis=1) & success).sum() <= budget:
                best = max(best, np.where(over[:, 0], 7, np.where(over[:, 1], 6, 0)).sum() / costs.sum())
    assert cascade.saved == pytest.approx(best)


def test_a_certificate_that_holds_is_wrong_no_more_often_than_promised():
    """A frozen cascade whose true recall is just below the target is certified in at most 5% of 1,000 draws."""
    rng = np.random.default_rng(0)
    target, m = 0.9, 120
    true_recall = 0.899
    lost = rng.binomial(m, 1 - true_recall, size=1000)
    cascade = select_cascade([[0.0], [1.0]], [1, 0], target=target)
    held = 0
    for count, times in zip(*np.unique(lost, return_counts=True), strict=True):
        scores = np.where(np.arange(m) < count, 5.0, -5.0)[:, None]
        held += times * certify_cascade(cascade, scores, np.ones(m), costs=np.ones((m, 2)), target=target).holds
    assert held <= stats.binom.ppf(0.999, 1000, 0.05)
    assert held > 0


def test_the_bound_is_that_of_clopper_and_pearson():
    cascade = select_cascade([[0.0], [1.0]], [1, 0])
    scores = np.where(np.arange(100) < 3, 5.0, -5.0)[:, None]
    certificate = certify_cascade(cascade, scores, np.ones(100), target=0.9)
    exact = stats.binomtest(97, 100, alternative="greater").proportion_ci(0.95, method="exact").low
    assert certificate.recall.low == pytest.approx(exact)
    assert certificate.lost == 3


def test_the_whole_procedure_keeps_its_promise_over_a_thousand_draws():
    """Selection, freezing and certification on new data each time: certified and below the target in at most 5%, certified in about 80%."""
    rng = np.random.default_rng(1)
    target, n, below, held = 0.8, 160, 0, 0
    for _ in range(1000):
        success = np.arange(n) % 2 == 0
        scores = rng.standard_normal((n, 1)) + 1.5 * ~success[:, None]
        half = np.arange(n) < n // 2
        cascade = select_cascade(scores[half], success[half], target=target, certify_with=n // 4)
        lost = int((scores[~half & success, 0] > cascade.thresholds[0]).sum())
        low = stats.beta.ppf(0.05, n // 4 - lost, lost + 1)
        true_recall = stats.norm.cdf(cascade.thresholds[0])
        held += low >= target
        below += bool(low >= target and true_recall < target)
    assert below <= stats.binom.ppf(0.999, 1000, 0.05)
    assert 600 < held < 950


def test_noise_saves_no_more_than_it_loses():
    scores, success, costs = _episodes(2000, signal=0.0)
    result = stop_early(scores, success, costs=costs, target=0.9)
    assert result.certificate.saved.value < 1 - result.certificate.recall.value + 0.03
    assert not result.gain.excludes(0)


def test_a_planted_signal_saves_and_beats_the_best_single_gate():
    scores, success, costs = _episodes(3000, signal=2.0, seed=7)
    result = stop_early(scores, success, costs=costs, target=0.9)
    assert result.certificate.holds
    assert result.gain.low > 0
    assert result.certificate.saved.value > 0.3


@pytest.mark.parametrize(("target", "fewest"), [(0.9, 29), (0.95, 59), (0.99, 299)])
def test_fewest_episodes(target, fewest):
    assert episodes_to_certify(target) == fewest
    assert stats.beta.ppf(0.05, fewest, 1) >= target > stats.beta.ppf(0.05, fewest - 1, 1)


def test_sample_size_with_losses_does_what_it_says():
    m = episodes_to_certify(0.9, loss=0.05)
    lost = np.arange(m)
    holds = stats.beta.ppf(0.05, m - lost, lost + 1) >= 0.9
    assert stats.binom.pmf(lost[holds], m, 0.05).sum() >= 0.8


def test_too_few_episodes_are_refused_with_their_number():
    scores, success, costs = _episodes(40)
    with pytest.raises(SampleSizeError, match="59") as refusal:
        stop_early(scores, success, costs=costs, target=0.95)
    assert refusal.value.needed == 59
    cascade = select_cascade(scores, success, costs=costs)
    with pytest.raises(SampleSizeError, match="at least 29"):
        certify_cascade(cascade, scores[:20], success[:20])


def test_episodes_of_one_task_count_once():
    cascade = select_cascade([[0.0], [1.0]], [1, 0])
    certificate = certify_cascade(cascade, np.zeros((90, 1)) - 1, np.ones(90), groups=np.arange(90) // 3)
    assert certificate.recall.n == 30
    with pytest.raises(SampleSizeError, match="got 9"):
        certify_cascade(cascade, np.zeros((90, 1)) - 1, np.ones(90), groups=np.arange(90) // 10)


def test_ragged_rounds_and_episodes_that_end_early():
    cascade = select_cascade([[0.1, 0.2], [0.1], [0.9, 0.9, 0.9]], [1, 1, 0], target=0.5)
    assert cascade.ends_at([[0.0, 0.0, 5.0], [0.0, float("nan"), float("nan")]]).tolist() == [2, -1]


def test_a_model_that_never_succeeds_and_broken_scores_are_refused():
    with pytest.raises(InputError, match="none of the 3"):
        select_cascade(np.zeros((3, 2)), np.zeros(3))
    with pytest.raises(InputError, match="episode 1"):
        select_cascade([[0.0, 1.0], [np.nan, 1.0]], [1, 0])
    with pytest.raises(InputError, match="3 gates"):
        select_cascade(*_episodes(30)[:2]).ends_at(np.zeros((3, 2)))
    with pytest.raises(InputError, match="rounds from 0"):
        select_cascade(*_episodes(30)[:2], gates=[3])
