import numpy as np
import pytest
import torch

from transect.errors import InputError
from transect.measure import (
    auroc,
    auroc_from_mcs,
    cosine,
    label_correlation,
    mahalanobis_cosine,
    mahalanobis_cosine_matrix,
    score_correlation,
)
from transect.measure.naive import naive_mahalanobis_cosine


@pytest.fixture
def activations():
    rng = np.random.default_rng(0)
    return rng.normal(size=(40, 60)) @ rng.normal(size=(60, 60)) + 5  # fewer rows than width


def test_mcs_is_the_definition_with_the_covariance_written_out(activations):
    rng = np.random.default_rng(1)
    directions = rng.normal(size=(4, 60))
    fast = mahalanobis_cosine_matrix(directions, activations)
    for i in range(4):
        for j in range(4):
            slow = naive_mahalanobis_cosine(directions[i], directions[j], activations)
            assert fast[i, j] == pytest.approx(slow, abs=1e-10)
            assert mahalanobis_cosine(directions[i], directions[j], activations) == pytest.approx(slow, abs=1e-10)


def test_mcs_is_the_pearson_correlation_of_the_scores(activations):
    u, v = np.random.default_rng(2).normal(size=(2, 60))
    expected = np.corrcoef(activations @ u + 3, activations @ v - 8)[0, 1]
    assert mahalanobis_cosine(u, v, activations) == pytest.approx(expected, abs=1e-10)
    assert mahalanobis_cosine(torch.tensor(u), torch.tensor(v), torch.tensor(activations)) == pytest.approx(expected, abs=1e-10)


def test_mcs_does_not_depend_on_coordinates_and_cosine_does(activations):
    rng = np.random.default_rng(3)
    u, v = rng.normal(size=(2, 60))
    change = rng.normal(size=(60, 60)) + 8 * np.eye(60)
    there, back = activations @ change.T, np.linalg.inv(change).T
    assert mahalanobis_cosine(back @ u, back @ v, there) == pytest.approx(mahalanobis_cosine(u, v, activations), abs=1e-8)
    assert abs(cosine(back @ u, back @ v) - cosine(u, v)) > 1e-3
    white = np.linalg.qr(rng.normal(size=(400, 5)) - 0.0)[0]
    white = white - white.mean(axis=0)
    white = white @ np.linalg.inv(np.linalg.cholesky(white.T @ white)).T
    assert mahalanobis_cosine(u[:5], v[:5], white) == pytest.approx(cosine(u[:5], v[:5]), abs=1e-10)


def test_many_rows_are_read_in_parts(activations, monkeypatch):
    u, v = np.random.default_rng(2).normal(size=(2, 60))
    whole = mahalanobis_cosine(u, v, activations)
    monkeypatch.setattr("transect.measure.similarity._ROWS_AT_ONCE", 7)
    assert mahalanobis_cosine(u, v, activations) == pytest.approx(whole, abs=1e-12)


def test_equal_scores_cannot_be_compared():
    flat = np.array([[1.0, 2.0], [1.0, 5.0], [1.0, 9.0]])
    assert np.isnan(mahalanobis_cosine([1.0, 0.0], [0.0, 1.0], flat))
    assert np.isnan(score_correlation(np.array([[0.1, 1.0], [0.1, 2.0], [0.1, 5.0]]))[0, 1])


@pytest.mark.parametrize("share", [0.5, 0.2])
def test_the_closed_form_is_what_gaussian_activations_show(share):
    """AUROC of any probe follows from its MCS to the best probe: exactly in the population, so closely in a large sample."""
    rng = np.random.default_rng(0)
    n, d = 200_000, 4
    within = rng.normal(size=(d, d))
    within = within @ within.T + np.eye(d)
    gap = rng.normal(size=d) * 1.5
    labels = rng.random(n) < share
    x = rng.multivariate_normal(np.zeros(d), within, size=n) + labels[:, None] * gap
    best = np.linalg.solve(within, gap)
    reference = auroc(x @ best, labels)
    assert np.corrcoef(x @ best, labels)[0, 1] == pytest.approx(label_correlation(reference, positive_share=share), abs=0.005)
    aurocs, similarities = [], []
    for direction in (*rng.normal(size=(6, d)), gap, -best, best):
        similarity = mahalanobis_cosine(direction, best, x)
        value = auroc(x @ direction, labels)
        assert auroc_from_mcs(similarity, reference, positive_share=share) == pytest.approx(value, abs=0.006)
        aurocs.append(value)
        similarities.append(similarity)
    assert np.corrcoef(aurocs, similarities)[0, 1] ** 2 > 0.98  # the near-linearity that the paper reports


def test_the_closed_form_at_its_ends():
    for reference in (0.6, 0.9, 0.999):
        assert auroc_from_mcs(1.0, reference) == pytest.approx(reference)
        assert auroc_from_mcs(-1.0, reference) == pytest.approx(1 - reference)
        assert auroc_from_mcs(0.0, reference) == 0.5
    assert auroc_from_mcs(1.0, 1.0) == 1.0 and auroc_from_mcs(-1.0, 1.0) == 0.0
    snr = 0.7  # balanced: r = SNR / sqrt(1 + SNR^2) at AUROC = Phi(sqrt 2 SNR)
    from scipy.stats import norm

    assert label_correlation(norm.cdf(np.sqrt(2) * snr)) == pytest.approx(snr / np.sqrt(1 + snr**2))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: cosine([0.0, 0.0], [1.0, 0.0]), "length 0"),
        (lambda: cosine([1.0], [1.0, 0.0]), "one width"),
        (lambda: mahalanobis_cosine([1.0], [1.0], [[1.0, 2.0], [2.0, 3.0]]), "width 1, the activations 2"),
        (lambda: mahalanobis_cosine([1.0], [1.0], [[1.0]]), "at least two rows"),
        (lambda: auroc_from_mcs(1.2, 0.9), "between -1 and 1"),
        (lambda: auroc_from_mcs(0.2, 1.9), "between 0 and 1"),
        (lambda: auroc_from_mcs(0.2, 0.9, positive_share=1.0), "both classes"),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(InputError, match=message):
        call()
