"""Detection delay: missed onsets are censored, early alarms counted, and the intervals hold what they say."""

import json

import numpy as np
import pytest

from transect.decide import detection_delay, first_alarms
from transect.errors import InputError


def test_without_censoring_it_is_the_plain_median_and_mean():
    rng = np.random.default_rng(0)
    delays = rng.integers(0, 20, size=101)
    delay = detection_delay(5 + delays, np.full(101, 5), np.full(101, 40), horizon=30)
    assert delay.median.value == np.median(delays)
    assert delay.mean.value == pytest.approx(delays.mean())
    assert delay.detected.value == pytest.approx(1.0)
    assert delay.detected.low < 1.0
    assert (delay.n_detected, delay.n_missed, delay.n_early) == (101, 0, 0)


def test_kaplan_and_meier_by_hand():
    # Delays 1, 2+ (missed), 3, 5+, 6: at risk 5, 3, 1.
    delay = detection_delay([1, -1, 3, -1, 6], [0] * 5, [9, 2, 9, 5, 9], horizon=7)
    after_1, after_3 = 4 / 5, 4 / 5 * 2 / 3
    assert delay.mean.value == pytest.approx(1 + 2 * after_1 + 3 * after_3)
    assert delay.detected.value == pytest.approx(1.0)
    assert delay.median.value == 6
    assert detection_delay([1, -1, 3, -1, 6], [0] * 5, [9, 2, 9, 5, 9], horizon=6).detected.value == pytest.approx(1 - after_3)


def test_dropping_the_missed_would_make_it_look_quick():
    rng = np.random.default_rng(1)
    truth = rng.geometric(0.05, size=4000) - 1
    watched = rng.integers(1, 60, size=4000)
    alarms = np.where(truth < watched, truth, -1)
    delay = detection_delay(alarms, np.zeros(4000), watched, horizon=50, resamples=50)
    expected = ((1 - 0.95**50) * 0.95) / 0.05
    assert abs(delay.mean.value - expected) < 0.8
    assert alarms[alarms >= 0].mean() < expected - 3
    assert abs(delay.median.value - 13) <= 1


def test_intervals_cover_the_planted_truth_with_groups_and_censoring():
    rng = np.random.default_rng(2)
    groups = np.arange(60) // 2
    draws, median, mean, detected = 300, 0, 0, 0
    watched = np.tile([6, 12, 20, 30, 30, 30], 10)
    survival = 0.9 ** np.arange(1, 31)
    for seed in range(draws):
        truth = np.repeat(rng.geometric(0.1, size=30) - 1, 2)  # the two of a group are copies
        alarms = np.where(truth < watched, truth, -1)
        delay = detection_delay(alarms, np.zeros(60), watched, horizon=20, groups=groups, resamples=100, seed=seed)
        median += delay.median.low <= 6 <= delay.median.high
        mean += delay.mean.low <= survival[:20].sum() <= delay.mean.high
        detected += delay.detected.low <= 1 - survival[19] <= delay.detected.high
    for covered in (median, mean, detected):
        assert covered / draws > 0.9  # a bootstrap of thirty groups, not an exact interval


def test_what_is_early_or_missed_is_counted():
    delay = detection_delay([2, 6, -1, 9], [5, 5, 5, 5], [10, 10, 10, 10])
    assert (delay.n, delay.n_detected, delay.n_missed, delay.n_early) == (4, 2, 1, 1)
    assert "1 missed" in delay.sentence
    assert "1 had an alarm before" in delay.sentence


def test_an_alarm_that_never_fires_has_an_infinite_median():
    delay = detection_delay([-1] * 20, [0] * 20, [10] * 20)
    assert delay.median.value == np.inf
    assert delay.mean.value == 10
    assert delay.mean.low < 10  # twenty misses do not prove that it never fires
    assert delay.detected.value == 0
    assert 0 < delay.detected.high < 0.3
    text = json.dumps(delay.to_json(), allow_nan=False)
    assert json.loads(text)["median"]["value"] is None


def test_first_alarms_are_the_first_crossings():
    rng = np.random.default_rng(3)
    lengths = rng.integers(1, 9, size=50)
    scores = rng.normal(size=lengths.sum())
    naive = [next((at for at, score in enumerate(part) if score > 1), -1) for part in np.split(scores, np.cumsum(lengths)[:-1])]
    assert first_alarms(scores, lengths, threshold=1.0).tolist() == naive


def test_bad_input_is_refused_by_name():
    with pytest.raises(InputError, match="onset of sequence 1 is token 7"):
        detection_delay([1, 1], [0, 7], [5, 5])
    with pytest.raises(InputError, match="alarm of sequence 0 is token 5"):
        detection_delay([5, 1], [0, 0], [5, 5])
    with pytest.raises(InputError, match="row 1"):
        detection_delay([1, np.nan], [0, 0], [5, 5])
    with pytest.raises(InputError, match="all 2 sequences had an alarm before"):
        detection_delay([0, 0], [3, 3], [5, 5])
    with pytest.raises(InputError, match="horizon must lie"):
        detection_delay([1, 1], [0, 0], [5, 5], horizon=9)
