"""A certified threshold keeps its rate in as many calibration sets as it says: simulated, 1,000 sets each."""

import numpy as np
import pytest
from scipy import special, stats

from transect.decide import (
    Certificate,
    certify_threshold,
    clopper_pearson,
    needed_examples,
    order_statistic,
    threshold_for_fpr,
    threshold_for_recall,
)
from transect.errors import InputError, SampleSizeError

DRAWS = 1000


def above(share, promised, *, draws=DRAWS):
    """Whether a simulated share is more than three binomial errors above what was promised."""
    return share > promised + 3 * np.sqrt(promised * (1 - promised) / draws)


def test_the_false_positive_rate_is_broken_exactly_as_often_as_the_binomial_tail_says():
    rng = np.random.default_rng(0)
    rates = stats.norm.sf([threshold_for_fpr(rng.normal(size=300), fpr=0.02, confidence=0.9).threshold for _ in range(DRAWS)])
    broken = (rates > 0.02).mean()
    k = order_statistic(300, rate=0.02, confidence=0.9)
    exact = stats.binom.sf(k - 1, 300, 0.98)
    assert exact <= 0.1
    assert abs(broken - exact) < 4 * np.sqrt(exact * (1 - exact) / DRAWS)
    assert exact > 0.02  # so the rule is not merely timid


def test_the_bound_holds_as_often_as_it_says():
    rng = np.random.default_rng(1)
    made = [threshold_for_fpr(rng.exponential(size=400), fpr=0.05, confidence=0.9) for _ in range(DRAWS)]
    broken = np.mean([np.exp(-certificate.threshold) > certificate.bound for certificate in made])
    assert not above(broken, 0.1)
    assert broken > 0.05  # the bound is exact, so it is broken nearly as often as allowed
    assert all(certificate.bound <= 0.05 for certificate in made)


def test_recall_holds_as_often_as_promised():
    rng = np.random.default_rng(2)
    rates = stats.norm.sf([threshold_for_recall(rng.normal(size=120), recall=0.9, confidence=0.9).threshold for _ in range(DRAWS)])
    broken = (rates < 0.9).mean()
    assert not above(broken, 0.1)
    assert broken > 0.02


def test_ties_never_break_the_promise():
    rng = np.random.default_rng(3)
    thresholds = np.array([threshold_for_fpr(rng.poisson(1.0, 200), fpr=0.05, confidence=0.9).threshold for _ in range(DRAWS)])
    assert not above((stats.poisson.sf(thresholds, 1.0) > 0.05).mean(), 0.1)
    lows = np.array([threshold_for_recall(rng.poisson(1.0, 200), recall=0.3, confidence=0.9).threshold for _ in range(DRAWS)])
    assert not above((stats.poisson.sf(lows, 1.0) < 0.3).mean(), 0.1)
    assert not threshold_for_fpr(np.zeros(400), fpr=0.01).fires(np.zeros(5)).any()


def test_groups_keep_the_promise_that_rows_would_break():
    rng = np.random.default_rng(4)
    groups = np.repeat(np.arange(100), 3)

    def broken(groups):
        count = 0
        for _ in range(DRAWS):
            scores = np.repeat(rng.normal(size=100), 3)  # three copies: 100 independent rows that look like 300
            count += special.ndtr(-threshold_for_fpr(scores, fpr=0.05, confidence=0.9, groups=groups).threshold) > 0.05
        return count / DRAWS

    assert not above(broken(groups), 0.1)
    assert above(broken(None), 0.1)


def test_a_threshold_fixed_beforehand_is_certified_exactly():
    rng = np.random.default_rng(5)
    threshold = stats.norm.isf(0.03)
    made = [certify_threshold(threshold, rng.normal(size=250), side="fpr", target=0.05, confidence=0.9) for _ in range(DRAWS)]
    broken = np.mean([certificate.bound < 0.03 for certificate in made])
    assert not above(broken, 0.1)
    falsely = np.mean([certify_threshold(stats.norm.isf(0.06), rng.normal(size=250), side="fpr", target=0.05).holds for _ in range(DRAWS)])
    assert not above(falsely, 0.05)


def test_clopper_pearson_is_the_definition():
    exact = clopper_pearson(3, 50, confidence=0.9)
    assert stats.binom.cdf(3, 50, exact.high) == pytest.approx(0.05)
    assert stats.binom.sf(2, 50, exact.low) == pytest.approx(0.05)
    assert clopper_pearson(3, 50, ends="upper").low == 0
    assert clopper_pearson(3, 50, confidence=0.95, ends="upper").high == pytest.approx(exact.high)
    assert clopper_pearson(3, 50, confidence=0.95, ends="lower").low == pytest.approx(exact.low)
    assert clopper_pearson(50, 50).high == 1
    assert clopper_pearson(0, 50).low == 0


@pytest.mark.parametrize("rate", [0.001, 0.01, 0.05, 0.1, 0.3])
@pytest.mark.parametrize("confidence", [0.5, 0.9, 0.95, 0.99])
def test_the_needed_number_is_the_smallest(rate, confidence):
    n = needed_examples(rate, confidence=confidence)
    assert (1 - rate) ** n <= (1 - confidence) * (1 + 1e-9)
    assert (1 - rate) ** (n - 1) > (1 - confidence)
    assert order_statistic(n, rate=rate, confidence=confidence) == n


def test_the_rank_is_the_smallest_with_its_tail():
    for n in (60, 299, 1000):
        k = order_statistic(n, rate=0.05, confidence=0.95)
        assert stats.binom.sf(k - 1, n, 0.95) <= 0.05 < stats.binom.sf(k - 2, n, 0.95)


def test_too_few_negatives_are_refused_with_the_number_needed():
    with pytest.raises(SampleSizeError, match="at least 299") as refused:
        threshold_for_fpr(np.arange(298.0), fpr=0.01)
    assert (refused.value.needed, refused.value.got) == (299, 298)
    assert threshold_for_fpr(np.arange(299.0), fpr=0.01).holds
    with pytest.raises(SampleSizeError, match="299"):
        threshold_for_fpr(np.arange(2990.0), fpr=0.01, groups=np.arange(2990) // 12)
    with pytest.raises(SampleSizeError, match="29"):
        threshold_for_recall(np.arange(28.0), recall=0.9)
    with pytest.raises(SampleSizeError, match="299"):
        certify_threshold(0.0, np.arange(100.0), side="fpr", target=0.01)


def test_a_group_on_both_sides_is_refused_by_name():
    with pytest.raises(InputError, match=r"straddle.*'seen'"):
        threshold_for_fpr(np.arange(400.0), fpr=0.01, groups=["seen", *map(str, range(399))], fitted_groups=["other", "seen"])
    with pytest.raises(InputError, match="without groups"):
        threshold_for_fpr(np.arange(400.0), fpr=0.01, fitted_groups=["a"])


def test_nan_names_its_row_and_rates_stay_inside():
    scores = np.arange(400.0)
    scores[17] = np.nan
    with pytest.raises(InputError, match="row 17"):
        threshold_for_fpr(scores, fpr=0.01)
    for rate in (0.0, 1.0, -0.1, 1.5):
        with pytest.raises(InputError, match="strictly between 0 and 1"):
            threshold_for_fpr(np.arange(400.0), fpr=rate)
        with pytest.raises(InputError, match="strictly between 0 and 1"):
            threshold_for_recall(np.arange(400.0), recall=rate)


def test_the_rate_on_the_other_class_and_the_sentence():
    rng = np.random.default_rng(6)
    certificate = threshold_for_fpr(rng.normal(size=500), fpr=0.01, positives=rng.normal(4, 1, 300))
    assert certificate.other is not None
    truth = stats.norm.sf(certificate.threshold - 4)
    assert certificate.other.low < truth < certificate.other.high
    assert "confidence 0.95" in certificate.sentence
    assert "NOT certified" not in certificate.sentence
    poor = certify_threshold(0.0, rng.normal(size=500), side="fpr", target=0.01)
    assert not poor.holds
    assert "NOT certified" in poor.sentence
    for made in (certificate, poor):
        assert Certificate.from_json(made.to_json()) == made
    grouped = threshold_for_fpr(
        rng.normal(size=800), fpr=0.01, groups=np.arange(800) // 2, positives=rng.normal(size=60), positive_groups=np.arange(60) // 3
    )
    assert grouped.grouped
    assert grouped.n_groups == 400
    assert grouped.other is not None
    assert grouped.other.groups == 20
