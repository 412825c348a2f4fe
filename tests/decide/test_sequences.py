"""Sequence statistics equal their running form, and a certified threshold holds in every range of lengths."""

import json

import numpy as np
import pytest
from scipy import special

from transect.decide import SequenceCertificate, SequenceStatistic, certify_sequences, threshold_for_fpr
from transect.errors import InputError, SampleSizeError

STATISTICS = [
    SequenceStatistic(),
    SequenceStatistic(name="mean"),
    SequenceStatistic(name="rolling", size=4),
    SequenceStatistic(name="top", size=3),
    SequenceStatistic(name="rolling", size=4, warm_up=1),
    SequenceStatistic(name="top", size=3, warm_up=6),
    SequenceStatistic(name="mean", warm_up=5),
]


def prefix_value(statistic, tokens):
    """The definition."""
    if statistic.name == "max":
        return tokens.max()
    if statistic.name == "mean" or len(tokens) <= statistic.size:
        return tokens.mean()
    if statistic.name == "top":
        return np.sort(tokens)[-statistic.size :].mean()
    return max(tokens[at : at + statistic.size].mean() for at in range(len(tokens) - statistic.size + 1))


@pytest.mark.parametrize("statistic", STATISTICS, ids=str)
def test_offline_equals_running_equals_the_definition(statistic):
    rng = np.random.default_rng(0)
    lengths = rng.integers(1, 60, size=30)
    scores = rng.normal(size=lengths.sum())
    offline, whole, peak = (getattr(statistic, form)(scores, lengths) for form in ("running", "of", "peak"))
    at = 0
    for number, length in enumerate(lengths):
        step = statistic.start()
        tokens = scores[at : at + length]
        running = np.array([step.update(score) for score in tokens])
        naive = np.array([prefix_value(statistic, tokens[: stop + 1]) for stop in range(length)])
        assert np.abs(running - offline[at : at + length]).max() < 1e-12
        assert np.abs(running - naive).max() < 1e-12
        assert whole[number] == offline[at + length - 1]
        first = statistic.size if statistic.warm_up is None else statistic.warm_up
        assert peak[number] == offline[at + first - 1 : at + length].max(initial=-np.inf)
        assert step.warm == (length >= first)
        at += length


@pytest.mark.parametrize("statistic", STATISTICS, ids=str)
def test_the_streaming_alarm_fires_on_exactly_the_sequences_that_fire(statistic):
    rng = np.random.default_rng(1)
    lengths = rng.integers(1, 40, size=200)
    certificate = certify_sequences(rng.normal(size=lengths.sum()), lengths, fpr=0.1, confidence=0.9, statistic=statistic)
    lengths = np.minimum(rng.integers(1, 40, size=200), certificate.longest)
    scores = rng.normal(0.5, 1, size=lengths.sum())
    fires = certificate.fires(scores, lengths)
    assert 0 < fires.sum() < 200
    at = 0
    for length, fired in zip(lengths, fires, strict=True):
        alarm = certificate.alarm()
        went_off = [alarm.update(score) for score in scores[at : at + length]]
        assert went_off[-1] == fired
        assert went_off == sorted(went_off)  # once on, it stays on
        if fired:
            assert alarm.fired_at == went_off.index(True)
        at += length


@pytest.mark.parametrize(("name", "shift", "gain"), [("rolling", 0.8, 0.3), ("top", 0.4, 0.0)])
def test_alarms_on_noise_keep_their_rate_and_come_no_more_at_the_first_tokens_than_at_others(name, shift, gain):
    """20 calibrations on short and long sequences of noise: the rate planted is kept in both, and early tokens are not what fires."""
    rng = np.random.default_rng(8)
    statistic = SequenceStatistic(name=name, size=8)
    hasty = SequenceStatistic(name=name, size=8, warm_up=1)
    lengths, fresh = np.repeat([10, 60], 150), np.repeat([4, 10, 60], [20, 100, 100])
    fired: list[np.ndarray] = []
    caught: dict[str, list[float]] = {"warm": [], "hasty": []}
    at: dict[str, list[int]] = {"warm": [], "hasty": []}
    for _ in range(20):
        tokens, new = rng.normal(size=lengths.sum()), rng.normal(size=fresh.sum())
        for which, how in (("warm", statistic), ("hasty", hasty)):
            made = certify_sequences(tokens, lengths, fpr=0.1, confidence=0.9, statistic=how, bins=2)
            fires = made.fires(new, fresh)
            if which == "warm":
                fired.append(fires)
            for part, fire in zip(np.split(new, np.cumsum(fresh)[:-1]), fires, strict=True):
                if fire:
                    at[which].append(
                        int((how.running(part, [len(part)])[how.watched_from - 1 :] > made.threshold).argmax()) + how.watched_from
                    )
            caught[which].append(made.fires(new + shift, fresh)[fresh == 60].mean())
    rates = np.array(fired)
    assert not rates[:, fresh == 4].any()  # they end before the warm-up
    for length in (10, 60):  # in the mean over calibrations too, for the bound keeps it in nine of ten
        assert rates[:, fresh == length].mean() < 0.1
    assert rates[:, fresh == 60].mean() > 0.02
    assert min(at["warm"]) >= 8
    assert np.mean(np.array(at["hasty"]) < 8) > 0.5  # what the warm-up is for
    assert np.mean(caught["warm"]) > np.mean(caught["hasty"]) + gain


def test_sequences_that_all_end_before_the_warm_up_calibrate_nothing_and_some_that_do_are_written_down():
    rng = np.random.default_rng(9)
    how = SequenceStatistic(name="rolling", size=8)
    with pytest.raises(InputError, match="only 3 of 103 sequences have the 8 tokens"):
        certify_sequences(rng.normal(size=530), [5] * 100 + [10] * 3, fpr=0.1, statistic=how, bins=1)
    made = certify_sequences(rng.normal(size=1500), np.repeat([5, 10], 100), fpr=0.1, confidence=0.9, statistic=how, bins=2)
    assert made.bins[0].threshold == -np.inf
    assert made.bins[0].empirical == 0
    assert made.threshold == made.bins[1].threshold
    assert "fewer than 8 tokens never fire" in made.sentence
    written = json.dumps(made.to_json(), allow_nan=False)
    assert SequenceCertificate.from_json(json.loads(written)) == made
    alarm = made.alarm()
    assert [alarm.update(99.0) for _ in range(9)] == [False] * 7 + [True] * 2
    assert alarm.fired_at == 7


def true_rates(certificate, lengths):
    """How often the largest of L independent normal scores is above the threshold, for every L."""
    return 1 - special.ndtr(certificate.threshold) ** lengths


def test_every_range_of_lengths_keeps_its_rate_at_once():
    rng = np.random.default_rng(2)
    broken = alone = 0
    for _ in range(1000):
        lengths = rng.choice([2, 3, 5, 8, 13, 40, 100, 160], size=160)
        scores = rng.normal(size=lengths.sum())
        certificate = certify_sequences(scores, lengths, fpr=0.1, confidence=0.9, bins=2)
        rates = true_rates(certificate, lengths)
        broken += any(rates[(lengths >= part.shortest) & (lengths <= part.longest)].mean() > 0.1 for part in certificate.bins)
        # Where length says nothing about the scores, as here, every single length up to the last bin keeps the rate too.
        last = certificate.bins[-1].shortest
        alone += (1 - special.ndtr(certificate.threshold) ** last) > 0.1
    error = 3 * np.sqrt(0.1 * 0.9 / 1000)
    assert broken / 1000 <= 0.1 + error
    assert alone / 1000 <= 0.1 + error
    assert broken / 1000 > 0.005  # the promise is used up to a good part, not merely never tested


def test_one_rate_over_all_lengths_would_let_long_sequences_fire():
    rng = np.random.default_rng(3)
    lengths = np.repeat([2, 200], [360, 40])
    pooled_breaks = breaks = 0
    for _ in range(1000):
        scores = rng.normal(size=lengths.sum())
        peaks = SequenceStatistic().peak(scores, lengths)
        pooled = threshold_for_fpr(peaks, fpr=0.1, confidence=0.9)
        pooled_breaks += 1 - special.ndtr(pooled.threshold) ** 200 > 0.3
        certificate = certify_sequences(scores, lengths, fpr=0.1, confidence=0.9, bins=2)
        breaks += 1 - special.ndtr(certificate.threshold) ** 200 > 0.1
    assert pooled_breaks > 990
    assert breaks / 1000 <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 1000)  # each of two ranges has half of what may go wrong


def test_lengths_that_depend_on_the_scores_are_held_on_average_in_each_range():
    # Long sequences are of another kind: their scores are higher. Nothing is assumed of that.
    rng = np.random.default_rng(4)
    broken = 0
    for _ in range(1000):
        lengths = rng.choice([3, 4, 30, 31], size=200, p=[0.3, 0.3, 0.2, 0.2])
        shift = np.repeat(np.where(lengths > 10, 1.0, 0.0), lengths)
        certificate = certify_sequences(rng.normal(size=len(shift)) + shift, lengths, fpr=0.1, confidence=0.9, bins=2)
        rates = 1 - special.ndtr(certificate.threshold - (lengths > 10)) ** lengths
        broken += any(rates[(lengths >= part.shortest) & (lengths <= part.longest)].mean() > 0.1 for part in certificate.bins)
    assert broken / 1000 <= 0.1 + 3 * np.sqrt(0.1 * 0.9 / 1000)


def test_longer_sequences_are_refused_or_watched_up_to_the_horizon():
    rng = np.random.default_rng(5)
    lengths = rng.integers(5, 21, size=200)
    scores = rng.normal(size=lengths.sum())
    certificate = certify_sequences(scores, lengths, fpr=0.1, confidence=0.9)
    with pytest.raises(InputError, match="sequence 1 has 30 tokens"):
        certificate.fires(np.zeros(35), [5, 30])
    alarm = certificate.alarm()
    for _ in range(certificate.longest):
        alarm.update(0.0)
    with pytest.raises(InputError, match="more than"):
        alarm.update(0.0)
    cut = certify_sequences(scores, lengths, fpr=0.1, confidence=0.9, horizon=10)
    late = np.zeros(30)
    late[12] = 99.0
    assert not cut.fires(late, [30])[0]
    alarm = cut.alarm()
    assert not any(alarm.update(score) for score in late)
    early = np.zeros(30)
    early[9] = 99.0
    assert cut.fires(early, [30])[0]
    with pytest.raises(InputError, match="horizon must lie between 1"):
        certify_sequences(scores, lengths, fpr=0.1, horizon=400)


def test_groups_count_once_in_each_range():
    rng = np.random.default_rng(6)
    lengths = np.full(300, 7)
    own = certify_sequences(rng.normal(size=2100), lengths, fpr=0.1, confidence=0.9)
    grouped = certify_sequences(rng.normal(size=2100), lengths, fpr=0.1, confidence=0.9, groups=np.arange(300) // 10)
    assert (own.bins[0].n, grouped.bins[0].n, grouped.grouped) == (300, 30, True)
    with pytest.raises(SampleSizeError, match="at least 29"):
        certify_sequences(rng.normal(size=2100), lengths, fpr=0.1, groups=np.arange(300) // 15)


def test_bad_input_is_refused_by_name():
    with pytest.raises(SampleSizeError, match="2 ranges of length") as refused:
        certify_sequences(np.zeros(300), [1, 2] * 100, fpr=0.05, bins=2, confidence=0.999)
    assert refused.value.needed == 2 * 149
    with pytest.raises(InputError, match="row 3"):
        certify_sequences([0.0, 1.0, 2.0, np.nan], [2, 2], fpr=0.1)
    with pytest.raises(InputError, match="sequence 1 has none"):
        SequenceStatistic().of([0.0, 1.0], [2, 0])
    with pytest.raises(InputError, match="add up to 3"):
        SequenceStatistic().of([0.0, 1.0], [2, 1])
    with pytest.raises(InputError, match="'median'"):
        SequenceStatistic(name="median")
    with pytest.raises(InputError, match="size"):
        SequenceStatistic(name="mean", size=3)
    with pytest.raises(InputError, match="warm_up"):
        SequenceStatistic(name="rolling", size=3, warm_up=0)
    with pytest.raises(InputError, match="warm_up"):
        SequenceStatistic(warm_up=3)
    step = SequenceStatistic().start()
    with pytest.raises(InputError, match="token 0"):
        step.update(float("nan"))


def test_json_gives_back_an_equal_certificate():
    rng = np.random.default_rng(7)
    lengths = rng.integers(5, 21, size=400)
    certificate = certify_sequences(rng.normal(size=lengths.sum()), lengths, fpr=0.1, statistic=SequenceStatistic(name="top", size=2))
    assert len(certificate.bins) > 1
    assert SequenceCertificate.from_json(certificate.to_json()) == certificate
    assert all(part.bound <= 0.1 and part.threshold <= certificate.threshold for part in certificate.bins)
