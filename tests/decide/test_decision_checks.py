"""The shipped checks of decisions pass on ours, and each broken object fails with the clause that it breaks."""

import dataclasses

import numpy as np
import pytest

from transect.decide import Calibration, fit_isotonic, fit_platt, fit_temperature, threshold_for_fpr
from transect.testing import check_calibration, check_threshold


@pytest.mark.parametrize("fit", [fit_platt, fit_isotonic, fit_temperature])
def test_our_calibrations_keep_the_contract(fit):
    check_calibration(fit)


def test_our_threshold_keeps_the_contract():
    check_threshold(threshold_for_fpr, draws=300)


class Falls:
    def __init__(self, inner):
        self.inner = inner

    def probabilities(self, scores):
        chance = self.inner.probabilities(scores)
        return np.where(chance > 0.9, 0.8, chance)


class Batchwise:
    def __init__(self, inner):
        self.inner = inner

    def probabilities(self, scores):
        return self.inner.probabilities(scores) + (0.01 if len(scores) == 1 else 0)


def changes_scores(scores, codes):
    made = fit_platt(scores, codes)
    if isinstance(scores, np.ndarray):
        scores[0] += 1
    return made


def draws_at_random(scores, codes):
    np.random.rand()  # noqa: NPY002 - that is what is wrong with it
    return fit_platt(scores, codes)


def minds_the_order(scores, codes):
    return dataclasses.replace(fit_platt(scores, codes), intercept=float(scores[0]) / 10)


def does_nothing(scores, codes):
    fit_platt(scores, codes)
    return Calibration(slope=1.0)


def turns_round(scores, codes):
    made = fit_platt(scores, codes)
    return made if made.slope > 0 else _Mirrored(fit_platt(-np.asarray(scores), codes))


class _Mirrored:
    def __init__(self, inner):
        self.inner = inner

    def probabilities(self, scores):
        return self.inner.probabilities(-np.asarray(scores))


def takes_equal_scores(scores, codes):
    return Calibration(slope=0.0) if np.ptp(np.asarray(scores)) == 0 else fit_platt(scores, codes)


def takes_one_class(scores, codes):
    return Calibration(slope=0.0) if np.ptp(np.asarray(codes)) == 0 else fit_platt(scores, codes)


@pytest.mark.parametrize(
    ("fit", "clause"),
    [
        (changes_scores, "changed its input"),
        (draws_at_random, "random state"),
        (minds_the_order, "order of the rows"),
        (does_nothing, "planted truth"),
        (turns_round, "backwards"),
        (takes_equal_scores, "all equal are accepted"),
        (takes_one_class, "one class only is accepted"),
        (lambda scores, codes: Falls(fit_platt(scores, codes)), "fall where scores rise"),
        (lambda scores, codes: Batchwise(fit_platt(scores, codes)), "batch"),
        (lambda scores, codes: fit_platt(np.nan_to_num(np.asarray(scores)), codes), "NaN in the scores"),
    ],
)
def test_a_broken_calibration_fails_with_its_clause(fit, clause):
    state = np.random.get_state()  # noqa: NPY002 - one of them draws from it
    try:
        with pytest.raises(AssertionError, match=clause):
            check_calibration(fit)
    finally:
        np.random.set_state(state)  # noqa: NPY002


def moved(by):
    def fit(negatives, **settings):
        made = threshold_for_fpr(negatives, **settings)
        return dataclasses.replace(made, threshold=made.threshold + by)

    return fit


def plain_quantile(negatives, *, fpr, confidence, groups=None):
    made = threshold_for_fpr(negatives, fpr=fpr, confidence=confidence, groups=groups)
    return dataclasses.replace(made, threshold=float(np.quantile(np.asarray(negatives), 1 - fpr)))


def ignores_groups(negatives, *, groups=None, **settings):
    return threshold_for_fpr(negatives, **settings)


def fires_at_ties(negatives, **settings):
    made = threshold_for_fpr(negatives, **settings)
    return dataclasses.replace(made, threshold=float(np.nextafter(made.threshold, -np.inf)))


def boasts(negatives, **settings):
    made = threshold_for_fpr(negatives, **settings)
    return dataclasses.replace(made, bound=made.bound / 3)


def takes_few(negatives, **settings):
    values = np.asarray(negatives)
    return threshold_for_fpr(np.resize(values, 299) if len(values) == 298 else values, **settings)


def more_for_less(negatives, *, fpr, **settings):
    return threshold_for_fpr(negatives, fpr=0.22 - fpr, **settings)


@pytest.mark.parametrize(
    ("fit", "clause"),
    [
        (moved(-0.3), "rate is broken"),
        (plain_quantile, "monotone|rate is broken"),
        (ignores_groups, "groups of copies"),
        (fires_at_ties, "tied scores"),
        (boasts, "bound is broken"),
        (takes_few, "too few negatives are accepted"),
        (more_for_less, "monotone"),
    ],
)
def test_a_broken_threshold_fails_with_its_clause(fit, clause):
    with pytest.raises(AssertionError, match=clause):
        check_threshold(fit, draws=300)
