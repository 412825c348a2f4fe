"""The drift alarm: quiet for ever while nothing drifts, quick when something does, and refusing too small a reference."""

import numpy as np
import pytest
from scipy import stats

from transect.decide import ActivationDriftAlarm, DriftAlarm, needed_reference
from transect.decide.drift import _log_bets
from transect.errors import InputError, MismatchError, SampleSizeError


def test_the_alarm_ever_goes_off_in_at_most_a_share_alpha_of_calm_streams():
    rng = np.random.default_rng(0)
    alpha = 0.2
    n = needed_reference(alpha=alpha)
    ever = np.mean([DriftAlarm(rng.normal(size=n), alpha=alpha, seed=seed).update(rng.normal(size=60)).alarm for seed in range(1000)])
    assert ever <= alpha + 3 * np.sqrt(alpha * (1 - alpha) / 1000)
    assert ever > 0.01  # it is able to go off


def test_ties_do_not_break_it():
    rng = np.random.default_rng(1)
    alpha = 0.2
    n = needed_reference(alpha=alpha)
    ever = np.mean([DriftAlarm(rng.integers(0, 2, n), alpha=alpha, seed=seed).update(rng.integers(0, 2, 60)).alarm for seed in range(1000)])
    assert ever <= alpha + 3 * np.sqrt(alpha * (1 - alpha) / 1000)


def test_every_bet_is_a_density_so_the_game_is_fair():
    # p = x^8 near 0 and its mirror near 1/2 and 1: the substitution makes the integrands smooth where the densities are steep.
    x = (np.arange(200_000) + 0.5) / 200_000
    total = np.zeros(12)
    for start, stop in ((0.0, 0.5), (1.0, 0.5), (0.5, 0.0), (0.5, 1.0)):
        reach = (stop - start) / 2
        p = start + reach * x**8
        total += (np.exp(_log_bets(p)) * (abs(reach) * 8 * x**7)[:, None]).mean(axis=0)
    assert total == pytest.approx(np.ones(12), abs=2e-3)


def test_the_ranks_are_uniform_and_independent():
    rng = np.random.default_rng(3)
    ranks = np.array([DriftAlarm(rng.exponential(size=80), seed=seed)._rank(rng.exponential(size=5)) for seed in range(1000)])
    assert stats.kstest(ranks.ravel(), "uniform").pvalue > 0.001
    assert np.abs(np.corrcoef(ranks.T) - np.eye(5)).max() < 4 / np.sqrt(1000)


@pytest.mark.parametrize(("name", "change"), {"up": (3.0, 1.0), "down": (-3.0, 1.0), "wider": (0.0, 8.0), "narrower": (0.0, 0.02)}.items())
@pytest.mark.parametrize("calm", [0, 300])
def test_planted_drift_is_noticed_early_and_after_a_long_calm(name, change, calm):
    rng = np.random.default_rng(4)
    alarm = DriftAlarm(rng.normal(size=400), alpha=0.01)
    if calm:
        assert not alarm.update(rng.normal(size=calm)).alarm
    reading = alarm.update(rng.normal(change[0], change[1], size=100))
    assert reading.alarm, name
    assert reading.alarm_at is not None
    assert calm <= reading.alarm_at < calm + 60
    assert reading.p_value <= 0.01


def test_a_stream_wholly_beyond_the_reference_is_noticed_for_certain_at_the_needed_size():
    for alpha, within in ((0.01, 20), (0.1, 10), (0.001, 40)):
        n = needed_reference(alpha=alpha, within=within)
        for seed in range(20):
            up = DriftAlarm(np.arange(n), alpha=alpha, within=within, seed=seed).update(np.arange(n, n + within))
            tied = DriftAlarm(np.arange(n), alpha=alpha, within=within, seed=seed).update(np.full(within, n + 1.0))
            assert up.alarm
            assert tied.alarm
            assert DriftAlarm(np.arange(n), alpha=alpha, within=within, seed=seed).update(np.full(within, -1.0)).alarm


def test_a_reference_of_ten_rows_is_refused_with_the_number_needed():
    with pytest.raises(SampleSizeError, match="at least 63 reference rows, got 10") as refused:
        DriftAlarm(np.arange(10.0), alpha=0.01)
    assert refused.value.needed == 63
    with pytest.raises(SampleSizeError, match="126 reference rows") as refused:
        ActivationDriftAlarm(np.random.default_rng(0).normal(size=(10, 4)), alpha=0.01)
    assert refused.value.needed == 126
    assert not ActivationDriftAlarm(np.random.default_rng(0).normal(size=(126, 4)), alpha=0.01).reading.alarm


def test_together_or_one_by_one_is_the_same_and_an_alarm_stays():
    rng = np.random.default_rng(5)
    reference, stream = rng.normal(size=100), np.concatenate([rng.normal(size=30), rng.normal(4, 1, 40), rng.normal(size=100)])
    whole = DriftAlarm(reference, seed=7).update(stream)
    single = DriftAlarm(reference, seed=7)
    readings = [single.update(value) for value in stream]
    assert readings[-1].log_wealth == pytest.approx(whole.log_wealth, abs=1e-12)
    assert (readings[-1].alarm_at, readings[-1].seen) == (whole.alarm_at, 170)
    assert [reading.alarm for reading in readings] == sorted(reading.alarm for reading in readings)
    assert readings[-1].alarm


def test_activations_stay_quiet_then_notice_and_fewer_rows_than_columns_are_fine():
    rng = np.random.default_rng(6)
    alpha = 0.2
    n = 2 * needed_reference(alpha=alpha)
    ever = np.mean(
        [
            ActivationDriftAlarm(rng.normal(size=(n, 3)), alpha=alpha, seed=seed).update(rng.normal(size=(25, 3))).alarm
            for seed in range(1000)
        ]
    )
    assert ever <= alpha + 3 * np.sqrt(alpha * (1 - alpha) / 1000)
    wide = ActivationDriftAlarm(rng.normal(size=(130, 300)), alpha=0.01)
    assert not wide.update(rng.normal(size=(100, 300))).alarm
    assert wide.update(rng.normal(0.5, 1, size=(60, 300))).alarm


def test_nan_names_its_row_and_takes_nothing_in():
    rng = np.random.default_rng(7)
    alarm = ActivationDriftAlarm(rng.normal(size=(200, 4)))
    bad = rng.normal(size=(5, 4))
    bad[3, 1] = np.nan
    with pytest.raises(InputError, match="row 3"):
        alarm.update(bad)
    assert alarm.reading.seen == 0
    with pytest.raises(MismatchError, match="width 4"):
        alarm.update(np.zeros((2, 5)))
    bad_reference = rng.normal(size=(200, 4))
    bad_reference[9] = np.inf
    with pytest.raises(InputError, match="row 9"):
        ActivationDriftAlarm(bad_reference)
    with pytest.raises(InputError, match="alpha"):
        DriftAlarm(np.arange(200.0), alpha=1.0)
    with pytest.raises(InputError, match="within"):
        DriftAlarm(np.arange(200.0), within=0)
    with pytest.raises(InputError, match="equal"):
        ActivationDriftAlarm(np.ones((200, 4)))
