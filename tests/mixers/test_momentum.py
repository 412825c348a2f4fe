"""The delta rule with momentum: what it is without, what it adds, where it stays bounded, and what it refuses."""

import math

import pytest
import torch

from transect import mixers
from transect.errors import InputError
from transect.testing import check_mixer_layer, mixer_inputs

FORMS = ("chunk", "recurrent", "parallel", "naive")


@pytest.fixture(autouse=True)
def _seeded():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        yield


def test_without_momentum_it_is_the_gated_delta_rule():
    given = mixer_inputs(mixers.momentum_delta_rule, tokens=40)
    nothing = torch.zeros_like(given["mu"])
    for form in FORMS:
        for gamma in (None, torch.ones_like(nothing)):
            out, state = mixers.momentum_delta_rule(**{**given, "mu": nothing, "gamma": gamma}, output_final_state=True, form=form)
            rest = {name: given[name] for name in ("q", "k", "v", "g", "beta")}
            truth, final = mixers.gated_delta_rule(**rest, output_final_state=True)
            assert torch.allclose(out, truth, rtol=0, atol=1e-12)
            assert torch.allclose(state[..., :4], final, rtol=0, atol=1e-12)


def test_one_write_goes_on_and_fades():
    k = torch.zeros(1, 4, 1, 2, dtype=torch.float64)
    k[0, 0, 0, 0] = 1
    q = torch.zeros_like(k)
    q[..., 0] = 1
    ones, half = torch.ones(1, 4, 1, dtype=torch.float64), torch.full((1, 4, 1), 0.5, dtype=torch.float64)
    out, _ = mixers.momentum_delta_rule(q, k, ones[..., None], 0 * ones, half, ones, scale=1.0)
    assert torch.allclose(out.flatten(), torch.tensor([1.0, 1.5, 1.75, 1.875], dtype=torch.float64))
    out, _ = mixers.momentum_delta_rule(q, k, ones[..., None], 0 * ones, half, ones, gamma=half, scale=1.0)
    assert torch.allclose(out.flatten(), torch.tensor([0.5, 0.75, 0.875, 0.9375], dtype=torch.float64))


def test_gates_of_zero_are_exact_with_their_gradients():
    given = mixer_inputs(mixers.momentum_delta_rule, tokens=12)
    for name in ("mu", "gamma", "beta"):
        given[name][:, 3], given[name][:, 7, 0] = 0, 0
    given["g"][:, 5] = -torch.inf
    found = []
    for form in FORMS:
        leaves = {name: part.clone().requires_grad_() for name, part in given.items()}
        out, state = mixers.momentum_delta_rule(**leaves, output_final_state=True, form=form, chunk_size=4)
        found.append([out, state, *torch.autograd.grad(out.sin().sum() + state.sin().sum(), list(leaves.values()))])
    for parts in found[:-1]:
        for part, truth in zip(parts, found[-1], strict=True):
            assert torch.allclose(part, truth, rtol=0, atol=1e-12)


def _coupled(beta, share, c):
    x = (c * beta).square()
    return {"g": -x.log1p(), "gamma": share * x / (1 + x), "beta": beta}


def _sizes(given, steps, momentum):
    """``|S|^2 + w |M|^2`` after every so many of the tokens, from a random state and without values."""
    shape = given["beta"].shape
    q = torch.zeros(*shape, given["k"].shape[-1], dtype=torch.float64)
    state = torch.randn(shape[0], shape[2], q.shape[3], 4, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    weight, found = momentum**2 / (1 - momentum**2), []
    for start in range(0, shape[1], steps):
        own = {name: part[:, start : start + steps] for name, part in given.items()}
        found.append(state[..., :2].square().sum() + weight * state[..., 2:].square().sum())
        v = torch.zeros(shape[0], own["beta"].shape[1], shape[2], 2, dtype=torch.float64)
        _, state = mixers.momentum_delta_rule(q[:, start : start + steps], v=v, **own, initial_state=state, output_final_state=True)
    return torch.stack(found)


@pytest.mark.parametrize("momentum", [0.3, 0.7, 0.9, 0.99])
def test_no_gates_let_a_state_grow_where_they_are_coupled_enough(momentum):
    draw = torch.Generator().manual_seed(0)
    ends = [torch.randint(0, 3, (1, 400, 8), generator=draw) for _ in range(3)]  # extremes, and what lies between
    middle = torch.rand(3, 1, 400, 8, generator=draw, dtype=torch.float64)
    beta, share, mu = (torch.where(end == 2, inner, end.double()) for end, inner in zip(ends, middle, strict=True))
    k = torch.nn.functional.normalize(torch.randn(1, 400, 8, 2, generator=draw, dtype=torch.float64), dim=-1)
    layer = mixers.MomentumDeltaNet(hidden_size=8, num_heads=2, max_momentum=momentum)
    sizes = _sizes({"k": k, "mu": momentum * mu, **_coupled(2 * beta, share, layer.min_coupling)}, 1, momentum)
    assert (sizes.diff() <= 1e-12 * sizes[:-1]).all()


@pytest.mark.parametrize(("c", "grows"), [(0.3, True), (None, False)])
def test_gates_that_grow_without_the_coupling_do_not_with_it(c, grows):
    """Four writes across a key, one along it that leaves no momentum, three along it that do not enter."""
    c = mixers.MomentumDeltaNet(hidden_size=8, num_heads=2, max_momentum=0.9).min_coupling if c is None else c
    beta, share, mu = (
        torch.tensor(part, dtype=torch.float64).repeat(50)[None, :, None]
        for part in ([2.0] * 4 + [1.0] + [2.0] * 3, [1.0] * 4 + [0.0] * 4, [0.9] * 4 + [0.0] + [0.9] * 3)
    )
    k = torch.eye(2, dtype=torch.float64)[[1] * 4 + [0] * 4].repeat(50, 1)[None, :, None]
    sizes = _sizes({"k": k, "mu": mu, **_coupled(beta, share, c)}, 8, 0.9)
    assert (float(sizes[-1] / sizes[0]) > 1e15) == grows
    assert grows or float(sizes[-1] / sizes[0]) < 1


@pytest.mark.parametrize("scale", [1.0, 5.0, 20.0])
@pytest.mark.parametrize("settings", [{}, {"max_momentum": 0.95}, {"max_momentum": 0.95, "min_coupling": 0.0}])
def test_the_layer_stays_bounded_over_long_extreme_inputs(settings, scale):
    x = torch.stack(
        [
            torch.ones(2000, 8),  # one key for ever, with constant gates
            torch.randn(2000, 8, generator=torch.Generator().manual_seed(2)),
            (torch.arange(2000) // 7 % 2 * 2.0 - 1)[:, None] * torch.linspace(-1, 1, 8),  # to and fro
        ]
    )
    for seed in range(3):
        torch.manual_seed(seed)
        layer = mixers.MomentumDeltaNet(hidden_size=8, num_heads=2, **settings)
        with torch.no_grad():
            for part in layer.parameters():
                part.copy_(scale * torch.randn_like(part))
            _, inside = layer(10 * x, return_inside=True)
        largest = float(inside.inputs["v"].norm(dim=-1).max())
        assert float(inside.o.norm(dim=-1).max()) < 100 * largest
        assert float(inside.final_state.norm()) < 100 * largest


def test_the_layer_makes_the_published_gates():
    layer = mixers.MomentumDeltaNet(hidden_size=8, num_heads=2, min_coupling=0.0).double()
    x = torch.randn(1, 5, 8, dtype=torch.float64)
    _, inside = layer(x, return_inside=True)
    eta = 1 + torch.tanh(layer.e_proj(x) / math.sqrt(8))
    theta = torch.arctan(eta * layer.log_coupling.exp())
    decay = theta.cos() ** 2 * torch.exp(-layer.A_log.exp() * torch.nn.functional.softplus(layer.a_proj(x) + layer.dt_bias))
    wanted = {"g": decay.log(), "gamma": theta.sin() ** 2 * layer.b_proj(x).sigmoid(), "beta": eta}
    for name, value in wanted.items():
        assert torch.allclose(inside.inputs[name], value, rtol=0, atol=1e-12)


def test_contract_without_corrected_queries():
    check_mixer_layer(mixers.MomentumDeltaNet(hidden_size=12, num_heads=2, correct_queries=False, min_coupling=0.0, max_momentum=0.9))


def test_refuses():
    given = mixer_inputs(mixers.momentum_delta_rule, tokens=3)
    for mu, says in (
        (given["mu"] + 1, "from 0 to below 1"),
        (given["mu"][:, :2], r"\[2, 3, 2\], got \[2, 2, 2\]"),
        (-given["mu"], "got -"),
    ):
        with pytest.raises(InputError, match=says):
            mixers.momentum_delta_rule(**{**given, "mu": mu})
    for gamma, says in ((given["gamma"] + 1, "gamma from 0 to 1, got 1"), (given["gamma"][:, :2], r"gamma .*\[2, 3, 2\], got \[2, 2, 2\]")):
        with pytest.raises(InputError, match=says):
            mixers.momentum_delta_rule(**{**given, "gamma": gamma})
    with pytest.raises(InputError, match="2 V = 8"):
        mixers.momentum_delta_rule(**given, initial_state=torch.zeros(2, 2, 3, 4))
    with pytest.raises(InputError, match="max_momentum"):
        mixers.MomentumDeltaNet(hidden_size=8, num_heads=2, max_momentum=1.0)
    with pytest.raises(InputError, match="min_coupling of at least 0"):
        mixers.MomentumDeltaNet(hidden_size=8, num_heads=2, min_coupling=-1.0)
