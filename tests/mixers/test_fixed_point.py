"""Fixed points of diagonal sweeps: the contract, the dense recurrence they go to and how fast, and what is refused."""

import functools
from itertools import pairwise

import pytest
import torch

from transect import mixers
from transect.errors import InputError
from transect.mixers.fixed_point import fixed_point_residual
from transect.testing import check_mixer, check_mixer_layer, mixer_inputs


@pytest.fixture(autouse=True)
def _seeded():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        yield


def _problem(tokens=40, width=5, rho=0.8):
    """Rows of ``|I - Q|`` that sum to rho."""
    g = -0.3 * torch.randn(2, tokens, 3, width, dtype=torch.float64).abs()
    change = torch.randn(2, tokens, 3, width, width, dtype=torch.float64)
    q = torch.eye(width, dtype=torch.float64) - rho * change / change.abs().sum(-1, keepdim=True)
    return g, q, torch.randn(2, tokens, 3, width, dtype=torch.float64)


def test_the_limit_keeps_the_contract_of_ops():
    check_mixer(functools.partial(mixers.fixed_point_recurrence, iterations=None))


@pytest.mark.parametrize(
    "settings",
    [
        {"num_heads": 2, "looks_back": False, "rank": 2},
        {"num_heads": 1, "iterations": 1, "head_dim": 3},
        {"num_heads": 2, "mixer": "low_rank", "rank": 2, "contraction": 0.9},
    ],
)
def test_contract(settings):
    check_mixer_layer(mixers.FixedPointRNN(hidden_size=6, **settings))


def test_sweeps_are_what_the_paper_writes():
    g, q, x = _problem(tokens=7)
    out, state = mixers.fixed_point_recurrence(g, q, x, iterations=3, output_final_state=True)
    h = torch.zeros_like(x)
    for sweep in range(3):
        given, now, rows = (q @ x[..., None])[..., 0] + h - (q @ h[..., None])[..., 0], torch.zeros_like(x[:, 0]), []
        for t in range(7):
            now = g[:, t].exp() * now + (1 - g[:, t].exp()) * given[:, t]
            rows.append(now)
        h = torch.stack(rows, 1)
        assert torch.allclose(state[:, :, sweep], h[:, -1], rtol=0, atol=1e-13)
    assert torch.allclose(out, h, rtol=0, atol=1e-13)


def test_every_sweep_brings_the_error_down_by_the_contraction_however_long():
    rho = 0.8
    g, q, x = _problem(tokens=300, rho=rho)
    truth, _ = mixers.fixed_point_recurrence(g, q, x, iterations=None)
    errors = [float(truth.abs().max())]
    errors += [float((mixers.fixed_point_recurrence(g, q, x, iterations=n)[0] - truth).abs().max()) for n in range(1, 13)]
    assert all(later <= rho * sooner * (1 + 1e-9) for sooner, later in pairwise(errors))
    far, _ = mixers.fixed_point_recurrence(g, q, x, iterations=150)
    assert float((far - truth).abs().max()) < 1e-12
    assert float(fixed_point_residual(g, q, x, truth).abs().max()) < 1e-12
    assert float(fixed_point_residual(g, q, x, mixers.fixed_point_recurrence(g, q, x, iterations=1)[0]).abs().max()) > 1e-2


def test_the_residual_goes_on_from_the_state_before():
    g, q, x = _problem(tokens=9)
    h = torch.randn_like(x)
    whole = fixed_point_residual(g, q, x, h)
    rest = fixed_point_residual(g[:, 4:], q[:, 4:], x[:, 4:], h[:, 4:], before=h[:, 3])
    assert torch.allclose(rest, whole[:, 4:], rtol=0, atol=1e-13)
    swept, _ = mixers.fixed_point_recurrence(g, q, x, iterations=1)
    assert torch.allclose(fixed_point_residual(g, q, x, torch.zeros_like(x))[:, 0], swept[:, 0], rtol=0, atol=1e-13)


def test_the_limit_is_the_dense_recurrence_by_inverses():
    g, q, x = _problem(tokens=9)
    eye, a = torch.eye(5, dtype=torch.float64), torch.diag_embed(g.exp())
    inverse = torch.linalg.inv(eye - (eye - a) @ (eye - q))
    h = torch.zeros_like(x[:, 0])
    for t in range(9):
        h = (inverse[:, t] @ (a[:, t] @ h[..., None] + (eye - a[:, t]) @ q[:, t] @ x[:, t, ..., None]))[..., 0]
    out, state = mixers.fixed_point_recurrence(g, q, x, iterations=None, output_final_state=True)
    assert torch.allclose(out[:, -1], h, rtol=0, atol=1e-12)
    assert torch.equal(out[:, -1], state[:, :, 0])
    assert float(torch.linalg.eigvals(inverse @ a).real.min()) > 0  # no contraction makes a sign that lasts


def test_without_mixing_one_sweep_is_the_diagonal_recurrence():
    g, _, x = _problem(tokens=9)
    eye = torch.eye(5, dtype=torch.float64).expand(*x.shape, 5)
    diagonal, _ = mixers.diagonal_recurrence(g.exp(), -torch.expm1(g) * x)
    for count in (1, 5, None):
        assert torch.allclose(mixers.fixed_point_recurrence(g, eye, x, iterations=count)[0], diagonal, rtol=0, atol=1e-12)


def test_the_layer_is_the_op_where_it_does_not_look_back():
    for kind in ("householder", "low_rank"):
        layer = mixers.FixedPointRNN(
            hidden_size=6, num_heads=2, iterations=5, rank=2, looks_back=False, mixer=kind, contraction=0.9
        ).double()
        x = torch.randn(2, 11, 6, dtype=torch.float64)
        _, inside = layer(x, return_inside=True)
        raw = layer.mixer_proj(x).detach().view(2, 11, 2, 2, 4)
        k, s = torch.nn.functional.normalize(raw[..., 1:], dim=-1), 0.45 * raw[..., 0].sigmoid()
        one, two = (torch.eye(3).double() - s[..., i, None, None] * k[..., i, :, None] * k[..., i, None, :] for i in range(2))
        q = two @ one if kind == "householder" else one + two - torch.eye(3).double()
        assert float(torch.linalg.matrix_norm(torch.eye(3) - q, 2).max()) <= 0.9
        wanted, _ = mixers.fixed_point_recurrence(inside.inputs["g"], q, inside.inputs["v"], iterations=5)
        assert torch.allclose(inside.o, wanted, rtol=0, atol=1e-5)  # norms of keys have 1e-6 in them


@torch.no_grad()
def test_the_layer_is_what_it_says_token_after_token():
    layer = mixers.FixedPointRNN(hidden_size=6, iterations=3).double()
    x = torch.randn(2, 7, 6, dtype=torch.float64)
    value, b, decay, gate = layer.in_proj(x).chunk(4, -1)
    a, given, made, h = decay.sigmoid(), torch.nn.functional.silu(b) * value, layer.mixer_proj(x), torch.zeros_like(x)
    for _ in range(3):
        rows = []
        for t in range(7):
            before, now = (h[:, t - 1], rows[-1]) if t else (torch.zeros_like(h[:, 0]),) * 2
            raw = made[:, t] + layer.back_proj(before)
            s, k, v = 2 * raw[:, :1].sigmoid(), torch.nn.functional.normalize(raw[:, 1:], dim=-1), given[:, t] - h[:, t]
            rows.append(a[:, t] * now + (1 - a[:, t]) * (h[:, t] + v - s * (k * v).sum(-1, keepdim=True) * k))
        h = torch.stack(rows, 1)
    wanted = layer.o_proj(layer.norm(torch.nn.functional.silu(gate) * h))
    assert torch.allclose(layer(x), wanted, rtol=0, atol=1e-5)  # norms of keys have 1e-6 in them


def test_looking_back_is_not_linear_in_the_state_and_more_sweeps_have_no_more_parameters():
    few, many = (mixers.FixedPointRNN(hidden_size=6, iterations=count) for count in (1, 9))
    assert [part.shape for part in few.parameters()] == [part.shape for part in many.parameters()]
    many.load_state_dict(few.state_dict())
    x = torch.randn(1, 6, 6)
    assert float((few(x) - many(x)).detach().abs().max()) > 1e-3
    doubled = []
    for layer in (many, mixers.FixedPointRNN(hidden_size=6, iterations=9, looks_back=False)):
        found = []
        for times in (0.0, 1.0, 2.0):
            cache = mixers.MixerCache()
            layer(x, cache=cache)
            held = cache.get(0, kind="FixedPointRNN", sequences=1)
            cache.put(0, type(held)(kind=held.kind, parts={"state": times * held.parts["state"]}, seen=held.seen))
            found.append(layer(x, cache=cache, return_inside=True)[1].o.detach())
        doubled.append(float((found[0] - 2 * found[1] + found[2]).abs().max()))
    assert doubled[0] > 1e-4
    assert doubled[1] < 1e-5


def test_refuses():
    given = mixer_inputs(mixers.fixed_point_recurrence)
    for change, says in (
        ({"g": -given["g"]}, "at most 0"),
        ({"mixing": given["mixing"][..., :2]}, r"\[B, T, H, D, D\]"),
        ({"iterations": 0}, "at least 1"),
        ({"initial_state": torch.zeros(2, 2, 7, 3)}, r"\[2, 2, 8, 3\]"),
        ({"iterations": None, "initial_state": torch.zeros(2, 2, 7, 3)}, r"\[2, 2, 1, 3\]"),
    ):
        with pytest.raises(InputError, match=says):
            mixers.fixed_point_recurrence(**{**given, **change})
    with pytest.raises(InputError, match="is singular at some token"):
        mixers.fixed_point_recurrence(given["g"] - torch.inf, 0 * given["mixing"], given["additions"], iterations=None)
    for settings, says in (
        ({"num_heads": 5}, "divide"),
        ({"iterations": 0}, "iterations"),
        ({"mixer": "householders"}, "householder"),
        ({"contraction": 1.0}, "between 0 and 1"),
    ):
        with pytest.raises(InputError, match=says):
            mixers.FixedPointRNN(**{"hidden_size": 6, **settings})
