import numpy as np
import pytest
from sklearn import metrics

from transect.errors import InputError
from transect.measure import brier, expected_calibration_error, log_loss


@pytest.fixture
def drawn():
    rng = np.random.default_rng(0)
    probabilities = rng.dirichlet(np.ones(3), size=200)
    codes = np.array([rng.choice(3, p=row) for row in probabilities])
    return probabilities, codes


def test_brier_and_log_loss_are_scikit_learns_values(drawn):
    probabilities, codes = drawn
    first, binary = probabilities[:, 0], (codes == 0).astype(int)
    assert brier(first, binary) == pytest.approx(metrics.brier_score_loss(binary, first), abs=1e-12)
    assert brier(probabilities, codes) == pytest.approx(((probabilities - np.eye(3)[codes]) ** 2).sum(1).mean(), abs=1e-12)
    assert log_loss(first, binary) == pytest.approx(metrics.log_loss(binary, first), abs=1e-12)
    assert log_loss(probabilities, codes) == pytest.approx(metrics.log_loss(codes, probabilities), abs=1e-12)
    assert np.isfinite(log_loss([0.0, 1.0], [1, 1]))


def test_calibration_error_is_small_for_true_probabilities_and_large_for_others():
    rng = np.random.default_rng(1)
    chance = rng.random(20_000)
    codes = rng.random(20_000) < chance
    for equal_mass in (True, False):
        assert expected_calibration_error(chance, codes, equal_mass=equal_mass) < 0.02
        # Squeezed to half its range around 1/2, the mean gap is E|p - 1/2| / 2 = 1/8.
        assert expected_calibration_error(0.25 + chance / 2, codes, equal_mass=equal_mass) == pytest.approx(0.125, abs=0.02)


def test_calibration_error_does_not_depend_on_the_order_of_tied_rows(drawn):
    probabilities, codes = drawn
    rounded, binary = probabilities[:, 0].round(1), codes == 0
    order = np.random.default_rng(2).permutation(len(codes))
    assert expected_calibration_error(rounded, binary) == pytest.approx(
        expected_calibration_error(rounded[order], binary[order]), abs=1e-12
    )


def test_equal_width_bins_are_the_written_out_definition(drawn):
    probabilities, codes = drawn
    confidence, right = probabilities.max(axis=1), probabilities.argmax(axis=1) == codes
    total = 0.0
    for index in range(10):
        inside = (confidence >= index / 10) & (confidence < (index + 1) / 10)
        if inside.any():
            total += inside.mean() * abs(right[inside].mean() - confidence[inside].mean())
    assert expected_calibration_error(probabilities, codes, bins=10, equal_mass=False) == pytest.approx(total, abs=1e-12)


@pytest.mark.parametrize(
    ("probabilities", "codes", "message"),
    [
        ([1.5, 0.5], [0, 1], "between 0 and 1"),
        ([[0.5, 0.6], [0.5, 0.5]], [0, 1], "sum to 1"),
        ([0.5, 0.5], [0, 2], "class 2"),
    ],
)
def test_what_is_no_probability_is_refused(probabilities, codes, message):
    for measure in (brier, log_loss, expected_calibration_error):
        with pytest.raises(InputError, match=message):
            measure(probabilities, codes)
