"""LightNet against its definition: softmax over the tokens so far, and over all places of a grid."""

import copy
import itertools

import pytest
import torch

from transect import mixers
from transect.errors import InputError
from transect.mixers.layers import LightNetGrid

FORMS = ["chunk", "recurrent", "parallel", "auto", "naive"]


def _draw(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def _inputs(tokens=21, size=1.0):
    return _draw(2, tokens, 2, 3), size * _draw(2, tokens, 2, 3, seed=1), _draw(2, tokens, 2, 4, seed=2)


def _run(q, k, v, **settings):
    o, state = mixers.light_net(q, k, v, output_final_state=True, **settings)
    assert state is not None
    return o, state


def _by_hand(q, k, v):
    """The recurrence of the paper with its running sums of exponentials, which only small keys allow."""
    z, state, found = torch.zeros_like(k[:, 0]), q.new_zeros(2, 2, 3, 4), []
    for t in range(q.shape[1]):
        new = z + k[:, t].exp()
        state = (z / new)[..., None] * state + (k[:, t].exp() / new)[..., None] * v[:, t, :, None]
        z = new
        found.append(q.shape[3] ** -0.5 * torch.einsum("bhk,bhkv->bhv", q[:, t], state))
    return torch.stack(found, 1), state, z.log()


@pytest.mark.parametrize("form", FORMS)
def test_it_is_the_recurrence_of_the_paper(form):
    q, k, v = _inputs()
    truth, means, log_z = _by_hand(q, k, v)
    o, state = _run(q, k, v, form=form)
    torch.testing.assert_close(o, truth, rtol=0, atol=1e-12)
    torch.testing.assert_close(state, torch.cat([means, log_z[..., None]], -1), rtol=0, atol=1e-12)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_huge_keys_neither_overflow_nor_lose_gradients(form, dtype):
    exact = [part.to(dtype).double() for part in _inputs(size=1e4)]
    leaves = [part.to(dtype).requires_grad_() for part in exact]
    truths = [part.clone().requires_grad_() for part in exact]
    o, state = _run(*leaves, form=form)
    truth, _ = mixers.light_net(*truths, form="naive")
    bound = 1e-5 if dtype == torch.float32 else 1e-12
    torch.testing.assert_close(o.double(), truth, rtol=0, atol=bound)
    assert state.isfinite().all()
    weight = _draw(*o.shape, seed=3)
    found, wanted = (torch.autograd.grad((out * weight).sum(), parts) for out, parts in ((o, leaves), (truth, truths)))
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one.double(), other, rtol=0, atol=3 * bound)


def test_equal_keys_give_the_mean_of_the_values_so_far():
    q, k, v = _inputs()
    o, _ = mixers.light_net(torch.ones_like(q), torch.full_like(k, 700.0), v, scale=1 / 3)
    torch.testing.assert_close(o, v.cumsum(1) / torch.arange(1, 22)[:, None, None], rtol=0, atol=1e-12)


def test_adding_to_a_channel_of_all_keys_changes_nothing_but_log_z():
    q, k, v = _inputs()
    shift = _draw(2, 3, seed=5)
    one, state = _run(q, k, v)
    two, other = _run(q, k + shift, v)
    torch.testing.assert_close(one, two, rtol=0, atol=1e-12)
    torch.testing.assert_close(other[..., -1] - state[..., -1], shift.expand(2, 2, 3), rtol=0, atol=1e-12)


def test_a_state_without_weight_is_none():
    q, k, v = _inputs()
    empty = torch.cat([_draw(2, 2, 3, 4, seed=6), torch.full((2, 2, 3, 1), -torch.inf, dtype=torch.float64)], -1)
    for form in FORMS:
        o, state = _run(q, k, v, initial_state=empty, form=form)
        alone, final = _run(q, k, v, form=form)
        assert torch.equal(o, alone)
        assert torch.equal(state, final)
    _, state = _run(q[:, :0], k[:, :0], v[:, :0])
    assert not state[..., :-1].any()
    assert state[..., -1].isneginf().all()


def test_bad_states_are_refused():
    q, k, v = _inputs()
    for state in (torch.zeros(2, 2, 3, 4), torch.zeros(1, 2, 3, 5), torch.zeros(2, 2, 3, 5, dtype=torch.long)):
        with pytest.raises(InputError, match="V \\+ 1"):
            mixers.light_net(q, k, v, initial_state=state)


def _double_loop(q, k, v):
    """Place by place over a 2-D grid."""
    o = torch.zeros_like(v)
    places = list(itertools.product(range(q.shape[1]), range(q.shape[2])))
    for i, j in places:
        for channel in range(q.shape[-1]):
            weights = torch.stack([k[:, a, b, :, channel].exp() for a, b in places])
            mean = sum(weight[..., None] * v[:, a, b] for weight, (a, b) in zip(weights, places, strict=True)) / weights.sum(0)[..., None]
            o[:, i, j] += q.shape[-1] ** -0.5 * q[:, i, j, :, channel, None] * mean
    return o


def test_a_grid_is_the_double_loop_over_its_places():
    q, k, v = _draw(2, 3, 4, 2, 3), _draw(2, 3, 4, 2, 3, seed=1), _draw(2, 3, 4, 2, 5, seed=2)
    o = mixers.additive_grid_attention(q, k, v)
    torch.testing.assert_close(o, _double_loop(q, k, v), rtol=0, atol=1e-12)
    low = mixers.additive_grid_attention(*(part.bfloat16() for part in (q, k, v)))
    wide = mixers.additive_grid_attention(*(part.bfloat16().float() for part in (q, k, v)))
    assert torch.equal(low, wide.bfloat16())
    assert torch.autograd.gradcheck(mixers.additive_grid_attention, [part[:1, :2, :2].clone().requires_grad_() for part in (q, k, v)])


def test_a_grid_has_no_order_and_no_shape():
    parts = _draw(2, 2, 3, 4, 2, 3), 1e4 * _draw(2, 2, 3, 4, 2, 3, seed=1), _draw(2, 2, 3, 4, 2, 5, seed=2)
    o = mixers.additive_grid_attention(*parts)
    assert o.isfinite().all()
    lines = [part.flatten(1, 3) for part in parts]
    order = torch.randperm(24, generator=torch.Generator().manual_seed(0))
    moved = mixers.additive_grid_attention(*(line[:, order] for line in lines))
    torch.testing.assert_close(moved, o.flatten(1, 3)[:, order], rtol=0, atol=1e-12)


def test_the_last_token_of_a_text_reads_what_a_grid_reads():
    q, k, v = _inputs()
    causal, _ = mixers.light_net(q, k, v)
    torch.testing.assert_close(causal[:, -1], mixers.additive_grid_attention(q, k, v)[:, -1], rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    "shapes",
    [
        ((2, 2, 3), (2, 2, 3), (2, 2, 3)),
        ((2, 4, 2, 3), (2, 4, 2, 2), (2, 4, 2, 3)),
        ((2, 4, 2, 3), (2, 4, 2, 3), (2, 5, 2, 3)),
        ((2, 4, 2, 0), (2, 4, 2, 0), (2, 4, 2, 3)),
    ],
)
def test_grids_that_do_not_fit_are_refused(shapes):
    with pytest.raises(InputError, match="expected"):
        mixers.additive_grid_attention(*(torch.zeros(shape) for shape in shapes))
    with pytest.raises(InputError, match="floating-point"):
        mixers.additive_grid_attention(*(torch.zeros(1, 2, 1, 1, dtype=torch.long) for _ in range(3)))


def _grid(**settings):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return LightNetGrid(hidden_size=12, num_heads=2, **settings)


@pytest.mark.parametrize("settings", [{}, {"use_gate": False, "head_k_dim": 3, "head_v_dim": 5}])
def test_the_grid_layer_moves_with_its_places_and_leaves_things_alone(settings):
    layer = _grid(**settings).double()
    x = _draw(2, 3, 4, 12)
    kept, random = x.clone(), torch.get_rng_state()
    y = layer(x)
    assert torch.equal(x, kept)
    assert torch.equal(random, torch.get_rng_state())
    torch.testing.assert_close(layer(x.flip(2).transpose(1, 2)), y.flip(2).transpose(1, 2), rtol=0, atol=1e-12)
    torch.testing.assert_close(torch.cat([layer(x[:1]), layer(x[1:])]), y, rtol=0, atol=1e-12)
    spoilt = x.clone()
    spoilt[0, 1, 1] = torch.nan
    assert layer(spoilt)[0].isnan().all()
    assert torch.equal(layer(spoilt)[1], y[1])
    assert all(grad.any() for grad in torch.autograd.grad(y.square().sum(), list(layer.parameters())))
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        out = copy.deepcopy(layer).to(dtype)(x.to(dtype))
        assert out.dtype == dtype
        assert float((out.double() - y).detach().abs().max() / y.detach().abs().max()) < (1e-5 if dtype == torch.float32 else 0.1)


def test_the_causal_layer_with_the_same_weights_ends_where_the_grid_does():
    grid = _grid().double()
    with torch.random.fork_rng():
        layer = mixers.LightNet(hidden_size=12, num_heads=2).double()
    layer.load_state_dict(grid.state_dict())
    x = _draw(2, 9, 12)
    torch.testing.assert_close(layer(x)[:, -1], grid(x)[:, -1], rtol=0, atol=1e-12)


def test_bad_sizes_and_inputs_of_the_grid_layer_are_refused():
    for heads, width, depth in ((5, None, None), (0, None, None), (2, 0, None), (2, None, 0)):
        with pytest.raises(InputError, match="expected"):
            LightNetGrid(hidden_size=12, num_heads=heads, head_k_dim=width, head_v_dim=depth)
    for shape in ((2, 12), (2, 3, 4, 11)):
        with pytest.raises(InputError, match="grid"):
            _grid()(torch.zeros(shape))
