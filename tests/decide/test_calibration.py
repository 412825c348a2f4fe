"""Calibration: finds the planted map, says the base rate on noise, and is measured away from its own rows."""

import numpy as np
import pytest
from scipy import special

from transect.decide import Calibration, fit_isotonic, fit_platt, fit_temperature, measure_calibration
from transect.errors import InputError, MismatchError
from transect.measure import auroc

FITTERS = [fit_platt, fit_isotonic, fit_temperature]


def planted(n, *, seed=0, slope=4.0, shift=0.0):
    """Scores that are ``slope`` times too sure, and labels that follow the true log-odds."""
    rng = np.random.default_rng(seed)
    truth = rng.normal(0, 1.5, size=n)
    return slope * (truth - shift), (rng.random(n) < special.expit(truth)).astype(int), special.expit(truth)


@pytest.mark.parametrize("fit", FITTERS)
def test_the_planted_probabilities_are_found(fit):
    scores, codes, _ = planted(8000)
    new, _, truth = planted(2000, seed=1)
    assert np.abs(fit(scores, codes).probabilities(new) - truth).mean() < 0.03


def test_platt_finds_slope_and_shift_which_a_temperature_cannot():
    scores, codes, _ = planted(20000, shift=1.0)
    platt = fit_platt(scores, codes)
    assert platt.slope == pytest.approx(0.25, rel=0.05)
    assert platt.intercept == pytest.approx(1.0, abs=0.08)
    assert fit_temperature(scores, codes).intercept == 0


def test_the_fit_is_the_minimum():
    scores, codes, _ = planted(500)
    n_one = codes.sum()
    target = np.where(codes == 1, (n_one + 1) / (n_one + 2), 1 / (len(codes) - n_one + 2))

    def loss(slope, intercept):
        logits = slope * scores + intercept
        return np.mean(np.logaddexp(0, logits) - target * logits)

    platt, warm = fit_platt(scores, codes), fit_temperature(scores, codes)
    for step in (1e-4, -1e-4):
        assert loss(platt.slope + step, platt.intercept) > loss(platt.slope, platt.intercept)
        assert loss(platt.slope, platt.intercept + step) > loss(platt.slope, platt.intercept)
        assert loss(warm.slope + step, 0) > loss(warm.slope, 0)


def test_many_classes_share_one_temperature_and_keep_their_best():
    rng = np.random.default_rng(2)
    logits = rng.normal(0, 1.5, size=(6000, 4))
    codes = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
    calibration = fit_temperature(5 * logits, codes)
    assert calibration.slope == pytest.approx(0.2, rel=0.05)
    chance = calibration.probabilities(5 * logits)
    assert chance.sum(axis=1) == pytest.approx(np.ones(6000))
    assert (chance.argmax(axis=1) == logits.argmax(axis=1)).all()
    with pytest.raises(MismatchError, match="4 classes"):
        calibration.probabilities(np.zeros(3))


@pytest.mark.parametrize("fit", FITTERS)
def test_noise_gets_the_base_rate(fit):
    rng = np.random.default_rng(3)
    codes = (rng.random(4000) < 0.5).astype(int)
    chance = fit(rng.normal(size=4000), codes).probabilities(rng.normal(size=1000))
    assert abs(chance.mean() - 0.5) < 0.05
    assert chance.std() < 0.05
    backwards = fit(-planted(4000)[0], planted(4000)[1]).probabilities(rng.normal(size=1000))
    assert np.ptp(backwards) < 0.01  # scores that run the other way are not silently turned round


@pytest.mark.parametrize("fit", FITTERS)
def test_separable_scores_do_not_give_certainty(fit):
    chance = fit(np.arange(-10.0, 10.0), np.repeat([0, 1], 10)).probabilities([-50.0, 50.0])
    assert 0 < chance[0] < 0.1
    assert 0.9 < chance[1] < 1 or fit is not fit_isotonic
    assert fit(np.arange(-10.0, 10.0), np.repeat([0, 1], 10)).probabilities([9.0])[0] < 0.9999


@pytest.mark.parametrize("fit", FITTERS)
def test_bad_input_is_refused_by_name(fit):
    with pytest.raises(InputError, match=r"equal, so AUROC is 0\.5"):
        fit(np.ones(10), np.arange(10) % 2)
    with pytest.raises(InputError, match="all 10 rows are of class 1"):
        fit(np.arange(10.0), np.ones(10))
    scores = np.arange(10.0)
    scores[6] = np.nan
    with pytest.raises(InputError, match="row 6"):
        fit(scores, np.arange(10) % 2)
    with pytest.raises(InputError, match="class 2"):
        fit(np.arange(10.0), np.arange(10) % 3)
    with pytest.raises(InputError, match="name for each"):
        fit(np.arange(10.0), np.arange(10) % 2, rows=["a"])


def test_equal_scores_of_many_classes_are_refused():
    with pytest.raises(InputError, match=r"AUROC is 0\.5"):
        fit_temperature(np.tile([1.0, 2.0, 3.0], (9, 1)), np.arange(9) % 3)


def test_it_is_measured_on_other_rows_only():
    scores, codes, truth = planted(3000)
    names = np.arange(3000)
    own, new = slice(0, 2000), slice(2000, 3000)
    calibration = fit_platt(scores[own], codes[own], rows=names[own], groups=names[own] // 4)
    measured = measure_calibration(calibration, scores[new], codes[new], rows=names[new], groups=names[new] // 4, resamples=300)
    for loss in (measured.ece, measured.brier, measured.log_loss):
        assert loss.after.value < loss.before.value
        assert loss.gain.low > 0
        assert loss.before.value - loss.after.value == pytest.approx(loss.gain.value)
    assert measured.brier.after.groups == 250
    perfect = ((truth[new] - codes[new]) ** 2).mean()
    assert measured.brier.after.value > perfect - 0.01  # it does not beat the one who planted it
    with pytest.raises(InputError, match=r"1 rows of these.*'1999'"):
        measure_calibration(calibration, scores[1999:], codes[1999:], rows=names[1999:])
    with pytest.raises(InputError, match=r"1 groups of these.*'499'"):
        measure_calibration(calibration, scores[1999:], codes[1999:], groups=names[1999:] // 4)
    with pytest.raises(InputError, match="cannot tell"):
        measure_calibration(calibration, scores[new], codes[new])
    with pytest.raises(InputError, match="cannot tell"):
        measure_calibration(fit_platt(scores[own], codes[own]), scores[new], codes[new], rows=names[new])


def test_the_intervals_cover_the_planted_losses():
    truth_loss = np.mean([((t - c) ** 2).mean() for _, c, t in (planted(2000, seed=seed) for seed in range(200))])
    covered = 0
    calibration = Calibration(slope=0.25, rows=())
    for seed in range(150):
        scores, codes, _ = planted(80, seed=seed)
        measured = measure_calibration(calibration, scores, codes, rows=np.arange(80), resamples=60, seed=seed).brier.after
        covered += measured.low <= truth_loss <= measured.high
    assert covered / 150 > 0.89  # 0.95 less three binomial errors


@pytest.mark.parametrize("fit", FITTERS)
def test_ranking_is_kept_and_a_saved_calibration_gives_the_same(fit, tmp_path):
    scores, codes, _ = planted(400)
    calibration = fit(scores, codes, rows=range(400), groups=np.arange(400) // 2)
    chance = calibration.probabilities(scores)
    assert auroc(chance, codes) >= auroc(scores, codes) - 0.01
    assert (np.diff(chance[np.argsort(scores)]) >= 0).all()
    calibration.save(tmp_path / "c.safetensors")
    again = Calibration.load(tmp_path / "c.safetensors")
    assert np.array_equal(again.probabilities(scores), chance)
    assert (again.rows, again.groups, again.fitter, again.n) == (calibration.rows, calibration.groups, calibration.fitter, 400)
