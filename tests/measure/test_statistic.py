"""Every statistic under integer weights equals the plain measure on rows repeated so often."""

import dataclasses

import numpy as np
import pytest
from scipy import stats
from sklearn import metrics

from transect.errors import InputError
from transect.measure import (
    accuracy,
    accuracy_statistic,
    auroc_statistic,
    bootstrap,
    estimates,
    interval,
    macro_auroc_statistic,
    mean_statistic,
    multiclass_auroc,
    r2,
    r2_statistic,
    spearman_statistic,
)
from transect.measure.cross_validated import cross_validated_auroc_statistic, cross_validated_macro_auroc_statistic
from transect.measure.resampling import resample_counts

N = 60
RNG = np.random.default_rng(0)
GROUPS = np.sort(RNG.integers(0, 20, N))
GROUPS = np.unique(GROUPS, return_inverse=True)[1]
LABELS = RNG.random(N) < 0.5
CODES = RNG.integers(0, 3, N)
SCORES = (RNG.normal(size=N) + LABELS).round(1)
NUMBERS = (RNG.normal(size=N) + SCORES).round(1)
MANY = RNG.normal(size=(N, 3))
FOLDS = np.arange(N) % 4


def within_folds(labels, scores, rows):
    """Share of the pairs inside a fold that are in order, by counting them."""
    positive, negative = rows[labels[rows]], rows[~labels[rows]]
    same = FOLDS[positive][:, None] == FOLDS[negative]
    gap = scores[positive][:, None] - scores[negative]
    return ((gap > 0) + 0.5 * (gap == 0))[same].mean()


CASES = {
    "auroc": (auroc_statistic(SCORES, LABELS), lambda rows: metrics.roc_auc_score(LABELS[rows], SCORES[rows])),
    "separable": (auroc_statistic(LABELS + 0.0, LABELS), lambda _rows: 1.0),
    "long runs": (
        auroc_statistic(np.where(np.arange(N) < 2, 9 - SCORES, LABELS * 50.0 + np.arange(N)), LABELS),
        lambda rows: metrics.roc_auc_score(LABELS[rows], np.where(np.arange(N) < 2, 9 - SCORES, LABELS * 50.0 + np.arange(N))[rows]),
    ),
    "macro": (macro_auroc_statistic(MANY, CODES), lambda rows: multiclass_auroc(MANY[rows], CODES[rows])),
    "inside folds": (cross_validated_auroc_statistic(SCORES, LABELS, FOLDS), lambda rows: within_folds(LABELS, SCORES, rows)),
    "macro inside folds": (
        cross_validated_macro_auroc_statistic(MANY, CODES, FOLDS),
        lambda rows: np.mean([within_folds(k == CODES, MANY[:, k], rows) for k in range(3)]),
    ),
    "accuracy": (accuracy_statistic(CODES, MANY.argmax(1)), lambda rows: accuracy(CODES[rows], MANY.argmax(1)[rows])),
    "mean": (mean_statistic(NUMBERS, name="m"), lambda rows: NUMBERS[rows].mean()),
    "spearman": (spearman_statistic(SCORES, NUMBERS), lambda rows: stats.spearmanr(SCORES[rows], NUMBERS[rows]).statistic),
    "r2": (r2_statistic(SCORES, NUMBERS), lambda rows: r2(SCORES[rows], NUMBERS[rows])),
}


@pytest.mark.parametrize("name", CASES)
def test_weighted_rows_are_repeated_rows(name):
    statistic, plain = CASES[name]
    counts = next(resample_counts(GROUPS.max() + 1, resamples=30, seed=1))
    values = statistic.evaluate(counts, GROUPS)
    for value, column in zip(values, counts.T, strict=True):
        rows = np.repeat(np.arange(N), column[GROUPS].astype(int))
        assert value == pytest.approx(plain(rows), abs=1e-12)
    assert statistic.value() == pytest.approx(plain(np.arange(N)), abs=1e-12)


def test_a_resample_without_a_class_is_undefined_and_not_a_number_in_disguise():
    labels, groups = np.array([0, 0, 1, 1]), np.array([0, 0, 1, 1])
    counts = np.array([[2.0, 0.0, 1.0], [0.0, 2.0, 1.0]])
    for statistic in (auroc_statistic([1, 2, 3, 4], labels), spearman_statistic([1, 2, 3, 4], labels), r2_statistic([1, 2, 3, 4], labels)):
        assert np.isnan(statistic.evaluate(counts, groups)).tolist() == [True, True, False]
    assert np.isnan(spearman_statistic([1, 2, 3, 4], labels).evaluate(np.zeros((2, 1)), groups)).all()


def test_spearman_in_slices_is_spearman_at_once(monkeypatch):
    counts = next(resample_counts(GROUPS.max() + 1, resamples=7, seed=1))
    whole = spearman_statistic(SCORES, NUMBERS).evaluate(counts, GROUPS)
    monkeypatch.setattr("transect.measure.statistic._RANKS_AT_ONCE", 2 * N)
    assert np.array_equal(spearman_statistic(SCORES, NUMBERS).evaluate(counts, GROUPS), whole)


def test_one_class_is_refused():
    with pytest.raises(InputError, match="both classes"):
        auroc_statistic([1, 2], [1, 1])
    with pytest.raises(InputError, match="targets that differ"):
        spearman_statistic([1, 2], [1, 1])
    with pytest.raises(InputError, match="each of the 2 folds has one only"):
        cross_validated_auroc_statistic([1.0, 2.0, 3.0, 4.0], [0, 0, 1, 1], [0, 0, 1, 1])


def test_folds_may_have_scales_of_their_own():
    """An intercept and a scale for each fold change nothing, and folds that are perfect each are perfect together, but no certainty."""
    moved = SCORES * (1.0 + FOLDS) + 10.0 * FOLDS
    one, two = (interval(cross_validated_auroc_statistic(scores, LABELS, FOLDS), resamples=200) for scores in (SCORES, moved))
    assert one == two
    perfect = interval(cross_validated_auroc_statistic(LABELS + 10.0 * FOLDS, LABELS, FOLDS), resamples=200)
    assert perfect.value == 1.0
    assert 0.8 < perfect.low < 0.98


def test_out_of_fold_scores_have_twice_the_variance_of_their_resamples():
    statistic = cross_validated_auroc_statistic(SCORES, LABELS, FOLDS)
    single = dataclasses.replace(statistic, inflation=1.0)
    draws = bootstrap([statistic, single], resamples=300)
    assert draws.spread[0] == pytest.approx(2 * draws.spread[1], rel=1e-12)
    wide, narrow = estimates(draws)
    assert wide.low < narrow.low < narrow.value < narrow.high < wide.high
    assert "variance times 2" in wide.method
    assert "variance times" not in narrow.method
    (joint,), (joint_single,) = (estimates(bootstrap([one], resamples=300), simultaneous=True) for one in (statistic, single))
    assert joint.half_width == pytest.approx(np.sqrt(2) * joint_single.half_width, rel=0.05)
