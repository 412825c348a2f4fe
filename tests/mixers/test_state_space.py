"""State space layers and what they begin with: definitions, forms, contracts."""

import copy
import math

import numpy as np
import pytest
import scipy.integrate
import scipy.linalg
import torch

from transect import mixers
from transect.errors import InputError
from transect.mixers.diagonal_ssm import diagonal_ssm
from transect.mixers.hippo import diagonal_init, hippo, log_steps
from transect.testing import check_mixer_layer


@pytest.fixture(autouse=True)
def _seeded():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        yield


@pytest.mark.parametrize(
    "make",
    [
        lambda: mixers.S4D(hidden_size=6, state_size=3),
        lambda: mixers.S4D(hidden_size=6, state_size=3, init="lin", discretization="bilinear"),
        lambda: mixers.S5(hidden_size=6, state_size=4, init="inv"),
        lambda: mixers.LRU(hidden_size=6, state_size=4, r_min=0.9),
    ],
    ids=["s4d", "s4d, bilinear", "s5", "lru"],
)
def test_contract(make):
    check_mixer_layer(make())


def test_every_form_is_the_loop_also_packed():
    x = torch.randn(1, 37, 5, dtype=torch.complex128)
    log_a = torch.complex(-torch.rand(5, dtype=torch.float64), 3 * torch.randn(5, dtype=torch.float64))
    start = torch.randn(3, 5, dtype=torch.complex128)
    bounds = (0, 11, 11, 37)
    truth = diagonal_ssm(x, log_a, initial_state=start, bounds=bounds, form="naive")
    for form in ("chunk", "parallel", "recurrent"):
        for found, wanted in zip(diagonal_ssm(x, log_a, initial_state=start, bounds=bounds, form=form, chunk_size=4), truth, strict=True):
            assert torch.allclose(found, wanted, rtol=0, atol=1e-12)


def test_the_definition_is_the_sum_it_says():
    x = torch.randn(2, 9, 3, dtype=torch.complex128)
    log_a = torch.complex(-torch.rand(3, dtype=torch.float64), 3 * torch.randn(3, dtype=torch.float64))
    start = torch.randn(2, 3, dtype=torch.complex128)
    found, last = diagonal_ssm(x, log_a, initial_state=start, form="naive")
    a = np.diag(log_a.exp().numpy())
    for t in range(9):
        power = np.linalg.matrix_power
        wanted = power(a, t + 1) @ start.numpy().T + sum(power(a, t - s) @ x[:, s].numpy().T for s in range(t + 1))
        assert np.allclose(found[:, t].numpy().T, wanted, rtol=0, atol=1e-12)
    assert torch.equal(last, found[:, -1])


@pytest.mark.parametrize("kind", [mixers.S4D, mixers.S5, mixers.LRU])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_16_bit_parameters_are_widened_before_anything_is_made_of_them(kind, dtype):
    narrow = kind(hidden_size=6, state_size=5).to(dtype)
    wide = copy.deepcopy(narrow).float()
    for found, wanted in zip(narrow.transitions(), wide.transitions(), strict=True):
        assert torch.equal(found, wanted)


def test_holding_inputs_is_the_matrix_exponential():
    layer = mixers.S4D(hidden_size=2, state_size=3).double()
    log_a, b = layer.transitions()
    rates = torch.complex(-layer.log_real.exp(), layer.imaginary)[0]
    step = float(layer.log_dt[0].detach().exp())
    system = np.zeros((4, 4), dtype=complex)  # the input as one more state, which does not move
    system[:3, :3], system[:3, 3] = np.diag(rates.detach().numpy()), 1
    held = scipy.linalg.expm(step * system)
    assert np.allclose(log_a.exp().detach().numpy()[0], np.diag(held)[:3], rtol=0, atol=1e-12)
    assert np.allclose(b.detach().numpy()[0], held[:3, 3], rtol=0, atol=1e-12)


def test_legs_has_the_eigenvalues_minus_one_to_minus_n():
    a, b = hippo("legs", 6)
    assert torch.allclose(
        torch.linalg.eigvals(a).real.sort(descending=True).values, -torch.arange(1, 7, dtype=torch.float64), rtol=0, atol=1e-9
    )
    assert torch.allclose(b, (2 * torch.arange(6, dtype=torch.float64) + 1).sqrt())


def test_legs_remembers_the_past_in_warped_legendre_polynomials():
    """Coefficients of u(t) = exp(-s) over the warped time y = exp(-s): the polynomial y, whose first two coefficients are 1/2 and 1/(2 sqrt(3))."""
    a, b = (part.numpy() for part in hippo("legs", 4))
    h = scipy.integrate.solve_ivp(lambda t, h: a @ h + b * math.exp(t), (-40, 0), np.zeros(4), rtol=1e-9, atol=1e-12).y[:, -1]
    assert np.allclose(h, [1 / 2, 1 / (2 * 3**0.5), 0, 0], atol=1e-6)


def _window(u, t, n):
    """The first n coefficients of u over (t - 1, t) in Legendre polynomials of norm 1, the newest at the right end; by quadrature."""
    places, weights = np.polynomial.legendre.leggauss(40)
    basis = np.sqrt(2 * np.arange(n) + 1) * np.polynomial.legendre.legvander(places, n - 1)
    return (weights / 2 * u(t + (places - 1) / 2)) @ basis


def test_legt_is_the_matrix_of_its_paper():
    a, b = hippo("legt", 5)
    for n in range(5):
        assert b[n] == math.sqrt(2 * n + 1)
        for k in range(5):
            wanted = -math.sqrt((2 * n + 1) * (2 * k + 1)) * (1 if k <= n else (-1) ** (n - k))
            assert abs(float(a[n, k]) - wanted) < 1e-12


def test_legt_moves_the_coefficients_of_every_polynomial_that_they_hold():
    a, b = (part.numpy() for part in hippo("legt", 5))
    for power in range(5):  # what leaves the window is read off the coefficients, which hold it exactly
        for t in (0.3, 1.0, 2.0):
            moves = _window(lambda s: power * s ** max(power - 1, 0), t, 5)  # noqa: B023 - used at once
            assert np.allclose(moves, a @ _window(lambda s: s**power, t, 5) + b * t**power, rtol=0, atol=1e-9)  # noqa: B023


def test_legt_draws_the_last_window_of_a_signal():
    a, b = (part.numpy() for part in hippo("legt", 12))

    def u(t):
        return np.sin(3 * t) + 0.5 * np.cos(5 * t + 1)

    h = scipy.integrate.solve_ivp(lambda t, h: a @ h + b * u(t), (0, 6), np.zeros(12), rtol=1e-9, atol=1e-12).y[:, -1]
    assert np.allclose(h, _window(u, 6, 12), rtol=0, atol=1e-5)
    places = np.linspace(-1, 1, 50)
    drawn = np.polynomial.legendre.legvander(places, 11) @ (np.sqrt(2 * np.arange(12) + 1) * h)
    assert np.allclose(drawn, u(6 + (places - 1) / 2), rtol=0, atol=1e-4)


def test_fout_turns_at_whole_frequencies_but_for_what_leaves_the_window():
    a, b = hippo("fout", 8)
    turn = a + 0.5 * b[:, None] * b
    assert torch.allclose(turn, -turn.mT, rtol=0, atol=1e-12)
    speeds = torch.linalg.eigvals(turn).imag.sort().values / (2 * math.pi)
    assert torch.allclose(speeds, torch.tensor([-3.0, -2, -1, 0, 0, 1, 2, 3], dtype=torch.float64), rtol=0, atol=1e-9)


def test_diagonal_beginnings():
    assert torch.allclose(diagonal_init("lin", 3).imag, math.pi * torch.arange(3.0, dtype=torch.float64))
    assert torch.allclose(diagonal_init("inv", 2).imag, torch.tensor([4 / math.pi * 3, 4 / math.pi * (4 / 3 - 1)], dtype=torch.float64))
    for kind in ("legs", "lin", "inv"):
        found = diagonal_init(kind, 5)
        assert (found.real == -0.5).all()
        assert (found.imag >= 0).all()
    a, _ = hippo("legs", 10)
    p = (torch.arange(10, dtype=torch.float64) + 0.5).sqrt()
    truth = torch.linalg.eigvals(a + p[:, None] * p)
    assert torch.allclose(diagonal_init("legs", 5).imag, truth.imag.sort().values[5:], rtol=0, atol=1e-9)
    assert torch.allclose(truth.real, torch.full((10,), -0.5, dtype=torch.float64), rtol=0, atol=1e-9)
    steps = log_steps(1000).exp()
    assert 0.001 <= float(steps.min()) < 0.0015
    assert 0.07 < float(steps.max()) <= 0.1 + 1e-6


def test_s5_holds_inputs_between_tokens():
    layer = mixers.S5(hidden_size=3, state_size=4).double()
    log_a, b = (part.detach().numpy() for part in layer.transitions())
    rates = torch.complex(-layer.log_real.exp(), layer.imaginary).detach().numpy()
    columns = torch.view_as_complex(layer.B.detach().contiguous()).numpy()
    for j, step in enumerate(layer.log_dt.detach().exp().numpy()):
        system = np.zeros((4, 4), dtype=complex)  # state j, and three inputs that do not move
        system[0, 0], system[0, 1:] = rates[j], columns[j]
        held = scipy.linalg.expm(step * system)  # that of torch is off by 5e-12 here
        assert np.allclose(np.exp(log_a[j]), held[0, 0], rtol=0, atol=1e-12)
        assert np.allclose(b[j], held[0, 1:], rtol=0, atol=1e-12)


def test_lru_states_have_the_variance_of_white_noise():
    """``E|h|^2 = sum_t |a|^(2 t) gamma^2 |B|^2 = |B|^2`` for inputs of variance 1: by that sum, and by what a long sequence shows."""
    layer = mixers.LRU(hidden_size=8, state_size=40, r_min=0.3, r_max=0.95).double()
    log_a, b = (part.detach() for part in layer.transitions())
    given = torch.view_as_complex(layer.B.detach().contiguous()).abs().square().sum(1)
    gamma = (1 - log_a.exp().abs().square()).sqrt()
    assert torch.allclose(b, gamma[:, None] * torch.view_as_complex(layer.B.detach().contiguous()), rtol=0, atol=1e-12)
    powers = (torch.arange(4000, dtype=torch.float64)[:, None] * 2 * log_a.real).exp().sum(0)
    assert torch.allclose(powers * b.abs().square().sum(1), given, rtol=0, atol=1e-12)
    u = torch.randn(1, 20000, 8, dtype=torch.float64)
    states, _ = diagonal_ssm(u.to(b.dtype) @ b.mT, log_a)
    seen = states[0, 500:].abs().square().mean(0) / given
    assert 0.95 < float(seen.mean()) < 1.05
    assert 0.8 < float(seen.min()) < float(seen.max()) < 1.2


def test_lru_begins_on_its_ring():
    layer = mixers.LRU(hidden_size=4, state_size=200, r_min=0.5, r_max=0.9)
    radius = layer.transitions()[0].real.exp()
    assert 0.5 <= float(radius.min().detach()) < float(radius.max().detach()) <= 0.9 + 1e-6


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: mixers.S4D(hidden_size=4, state_size=0), "state_size of at least 1"),
        (lambda: mixers.S4D(hidden_size=4, discretization="zho"), "zoh or bilinear"),
        (lambda: mixers.S5(hidden_size=4, init="leg"), "legs"),
        (lambda: mixers.LRU(hidden_size=4, r_min=0.9, r_max=0.5), "r_min < r_max"),
        (lambda: hippo("legs", 0), "at least 1, got 0"),
        (lambda: log_steps(3, low=0.0), "0 < low"),
        (lambda: diagonal_ssm(torch.ones(1, 2, 1, dtype=torch.complex64), torch.ones(1, dtype=torch.complex64)), "would grow"),
        (lambda: mixers.S5(hidden_size=4)(torch.ones(1, 2, 4), return_inside=True)[1].effective_matrix(), "no such matrix"),
    ],
)
def test_refuses(make, says):
    with pytest.raises(InputError, match=says):
        make()
