"""The ops against the contract, against other people's code, and with input that cannot be used."""

import functools
import inspect
import math

import pytest
import torch

from transect import mixers
from transect.errors import InputError
from transect.mixers.algebra import recurrence
from transect.mixers.bidirectional import both_ways
from transect.mixers.chunk import chunked
from transect.mixers.decay import ChannelDecay, ScalarDecay
from transect.mixers.naive import naive
from transect.mixers.parallel import effective_matrix
from transect.testing import all_mixers, check_mixer, mixer_inputs


def _off(one, other):
    return float((one.double() - other.double()).abs().max().detach() / other.double().abs().max().detach())


def test_every_op_of_the_room_is_found():
    functions = {name: getattr(mixers, name) for name in mixers.__all__ if inspect.isfunction(getattr(mixers, name))}
    stateless = {"additive_grid_attention", "bidirectional_attention", "block_attention", "build", "read_checkpoint", "softmax_attention"}
    assert {op.__name__ for op in all_mixers()} == functions.keys() - stateless


@pytest.mark.parametrize("op", all_mixers(), ids=lambda op: op.__name__)
def test_contract(op):
    check_mixer(op)


def _broken(change):
    """The gated delta rule, spoilt: `change` gets the op and what it was given."""

    @functools.wraps(mixers.gated_delta_rule)
    def op(*args, **given):
        return change(mixers.gated_delta_rule, *args, **given)

    return op


def _sees_the_future(op, q, k, v, g, beta, **settings):
    out, state = op(q, k, v, g, beta, **settings)
    return (out, state) if settings.get("form") == "naive" else (out + 1e-14 * v.detach().sum(1, keepdim=True), state)


def _forgets_the_state(op, q, k, v, g, beta, *, initial_state=None, **settings):
    kept = settings.get("form") == "naive" or not q.shape[1]
    return op(q, k, v, g, beta, initial_state=initial_state if kept else None, **settings)


def _ignores_packing(op, q, k, v, g, beta, *, cu_seqlens=None, initial_state=None, **settings):
    out, state = op(q, k, v, g, beta, initial_state=None if cu_seqlens is not None else initial_state, **settings)
    return out, state if cu_seqlens is None or state is None else state.repeat(len(cu_seqlens) - 1, 1, 1, 1)


def _computes_in_32_bits(op, q, k, v, g, beta, *, initial_state=None, form="auto", **settings):
    if form == "naive" or not q.shape[1]:
        return op(q, k, v, g, beta, initial_state=initial_state, form=form, **settings)
    start = None if initial_state is None else initial_state.float()
    out, state = op(q.float(), k.float(), v.float(), g.float(), beta.float(), initial_state=start, form=form, **settings)
    return out.to(v.dtype), state if state is None else state.to(torch.promote_types(v.dtype, torch.float32))


def _computes_in_16_bits(op, q, k, v, g, beta, **settings):
    out, state = op(q, k, v, g, beta, **settings)
    low = v.dtype == torch.bfloat16 and settings.get("form") == "chunk"
    return (out + v) - v if low else out, state


def _leaks_nan(op, q, k, v, g, beta, **settings):
    out, state = op(q, k, v, g, beta, **settings)
    return (out, state) if settings.get("form") == "naive" else (out + 0 * v.detach().sum(), state)


def _spoils_earlier_chunks(op, q, k, v, g, beta, **settings):
    out, state = op(q, k, v, g, beta, **settings)
    later = v.detach().sum(1, keepdim=True) if settings.get("cu_seqlens") is None and settings.get("form") == "chunk" else 0
    return out + 0 * later, state


def _spoils_other_heads(op, q, k, v, g, beta, **settings):
    out, state = op(q, k, v, g, beta, **settings)
    return out + 0 * v.detach().sum(2, keepdim=True), state


def _changes_its_input(op, q, k, v, g, beta, **settings):
    found = op(q, k, v, g, beta, **settings)
    v.data.mul_(1.5)
    return found


def _another_path_for_gradients(op, q, k, v, g, beta, **settings):
    if settings.get("form") == "chunk":
        settings["chunk_size"] = 2 if torch.is_grad_enabled() and q.requires_grad else 16
    return op(q, k, v, g, beta, **settings)


def _clamps_gates(op, q, k, v, g, beta, **settings):
    return op(q, k, v, g if settings.get("form") == "naive" else g.clamp(min=-5), beta, **settings)


def _subtracts_cumulative_gates(op, q, k, v, g, beta, **settings):
    if settings.get("form") == "naive":
        return op(q, k, v, g, beta, **settings)
    total = torch.cat([torch.zeros_like(g[:, :1]), g.cumsum(1)], 1)
    return op(q, k, v, (total[:, 1:] - total[:, :-1]).clamp(max=0), beta, **settings)


def _wrong_gradient(op, q, k, v, g, beta, **settings):
    out, state = op(q, k, v, g, beta, **settings)
    return (out, state) if settings.get("form") == "naive" else (out + 1e-4 * (beta - beta.detach())[..., None], state)


def _neumann_series(op, q, k, v, g, beta, *, initial_state=None, form="auto", **settings):
    if form == "naive" or initial_state is None or settings.get("cu_seqlens") is not None or q.dtype != torch.float32:
        return op(q, k, v, g, beta, initial_state=initial_state, form=form, **settings)
    total = g.cumsum(1).transpose(1, 2)
    gamma = (total[..., :, None] - total[..., None, :]).tril().exp()
    erase, write = k.transpose(1, 2), (k * beta[..., None]).transpose(1, 2)
    lower = -(erase @ write.mT * gamma).tril(-1)
    inverse, power = torch.eye(q.shape[1]) + lower, lower
    for _ in range(5):
        power = power @ power
        inverse = inverse + inverse @ power
    since = total.exp()[..., None]
    added = inverse @ (v.transpose(1, 2) - (erase * since) @ initial_state)
    out = (q.transpose(1, 2) @ write.mT * gamma).tril() @ added + (q.transpose(1, 2) * since) @ initial_state
    state = initial_state * since[:, :, -1:] + (write * (total[:, :, -1:] - total).exp()[..., None]).mT @ added
    return (q.shape[3] ** -0.5 * out).transpose(1, 2), state


@pytest.mark.parametrize(
    ("change", "clause"),
    [
        (_sees_the_future, "causal"),
        (_forgets_the_state, "twin"),
        (_ignores_packing, "packed"),
        (_computes_in_32_bits, "twin"),
        (_computes_in_16_bits, "precision"),
        (_leaks_nan, "packed, chunk: NaN"),
        (_spoils_earlier_chunks, "causal, chunk: nan in v changes outputs before its chunk"),
        (_spoils_other_heads, "causal, chunk: nan in v changes outputs of another head"),
        (_changes_its_input, "purity"),
        (_another_path_for_gradients, "purity"),
        (_clamps_gates, "closed gates"),
        (_subtracts_cumulative_gates, "closed gates"),
        (_wrong_gradient, "twin"),
        (_neumann_series, "keys all equal"),
    ],
)
def test_the_contract_notices(change, clause):
    with pytest.raises(AssertionError, match=clause):
        check_mixer(_broken(change))


def _like_transformers(tokens=150, heads=2, width=16, *, per_channel=False):
    draw = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(2, tokens, heads, width, generator=draw) for _ in range(3))
    k = torch.nn.functional.normalize(k, dim=-1)
    g = -torch.rand(2, tokens, heads, width, generator=draw) if per_channel else -torch.rand(2, tokens, heads, generator=draw)
    return q, k, v, g, torch.rand(2, tokens, heads, generator=draw)


def test_gated_delta_rule_is_that_of_transformers():
    from transformers.models.qwen3_next.modeling_qwen3_next import torch_chunk_gated_delta_rule

    given = _like_transformers()
    theirs, their_state = torch_chunk_gated_delta_rule(*given, output_final_state=True)
    ours, state = mixers.gated_delta_rule(*given, output_final_state=True)
    assert _off(ours, theirs) < 1e-5
    assert _off(state, their_state) < 1e-5


def test_kda_is_that_of_transformers():
    from transformers.models.kimi_linear.modeling_kimi_linear import chunk_kimi_delta_attention

    given = _like_transformers(per_channel=True)
    theirs, their_state = chunk_kimi_delta_attention(*given, output_final_state=True)
    ours, state = mixers.kda(*given, output_final_state=True)
    assert _off(ours, theirs) < 1e-5
    assert _off(state, their_state) < 1e-5


def test_ssd_is_that_of_transformers():
    from transformers.models.mamba2.modeling_mamba2 import mamba2_chunk_scan

    draw = torch.Generator().manual_seed(0)
    x, dt = torch.randn(2, 150, 4, 8, generator=draw), torch.rand(2, 150, 4, generator=draw)
    A, D = -torch.rand(4, generator=draw), torch.randn(4, generator=draw)
    B, C = torch.randn(2, 150, 2, 16, generator=draw), torch.randn(2, 150, 2, 16, generator=draw)
    theirs, their_state = mamba2_chunk_scan(x, dt, A, B, C, 64, D=D, return_final_states=True)
    ours, state = mixers.ssd(x, dt, A, B, C, D=D, output_final_state=True)
    assert _off(ours, theirs) < 1e-5
    assert _off(state.mT, their_state) < 1e-5


def test_known_answers():
    one = torch.ones(1, 3, 1, 1)
    assert mixers.retention(one, one, one)[0][0, 1, 0, 0] == 1 + 31 / 32  # gamma of the first head is 1 - 2 ** -5
    half = mixers.gla(one, one, one, torch.full_like(one, math.log(0.5)), scale=2.0)[0]
    assert torch.allclose(half.flatten(), torch.tensor([2.0, 3.0, 3.5]))


def test_a_token_of_delta_product_is_a_permutation():
    """Two reflections with beta = 2 make the cycle (0 1 2) -> (1 2 0), so three tokens are the identity, to the last bits."""
    a, b = torch.tensor([1.0, -1.0, 0.0]).double() / math.sqrt(2), torch.tensor([0.0, 1.0, -1.0]).double() / math.sqrt(2)
    k = torch.stack([a, b] * 300)[None, :, None]
    start = torch.eye(3, dtype=torch.float64)[None, None]
    still = {"output_final_state": True, "num_householder": 2, "initial_state": start}
    q, v, beta = torch.zeros(1, 300, 1, 3).double(), torch.zeros(1, 600, 1, 3).double(), torch.full((1, 600, 1), 2.0).double()
    _, state = mixers.delta_product(q, k, v, None, beta, **still)
    assert torch.allclose(state, start, rtol=0, atol=1e-12)
    _, once = mixers.delta_product(q[:, :1], k[:, :2], v[:, :2], None, beta[:, :2], **still)
    assert torch.allclose(once[0, 0], torch.eye(3).double().roll(1, 0)) or torch.allclose(once[0, 0], torch.eye(3).double().roll(-1, 0))


def test_heads_of_values_may_share_queries_and_keys():
    q, k, v, g, beta = _like_transformers(heads=4)
    shared, _ = mixers.gated_delta_rule(q[:, :, :2], k[:, :, :2], v, g, beta)
    spelt_out = [part[:, :, :2].repeat_interleave(2, 2) for part in (q, k)]
    assert torch.equal(shared, mixers.gated_delta_rule(*spelt_out, v, g, beta)[0])


def test_the_effective_matrix_makes_the_outputs():
    for per_channel in (False, True):
        q, k, v, g, beta = _like_transformers(tokens=12, per_channel=per_channel)
        problem = recurrence(q, k, v, g=g, beta=beta, per_channel=per_channel)
        made = (effective_matrix(problem) @ v.transpose(1, 2)).transpose(1, 2)
        assert _off(made, naive(problem)[0]) < 1e-5
    one = {name: part[:1, :12] for name, part in zip("qkvgb", _like_transformers(), strict=True)}
    packed = recurrence(one["q"], one["k"], one["v"], g=one["g"], beta=one["b"], cu_seqlens=[0, 5, 12])
    matrix = effective_matrix(packed)
    assert not matrix[:, :, 5:, :5].any()
    assert not matrix.triu(1).any()
    assert _off((matrix @ packed.v.transpose(1, 2)).transpose(1, 2), naive(packed)[0]) < 1e-5


def test_thousands_of_tokens_hold_their_precision():
    draw = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(1, 4096, 1, 8, generator=draw) for _ in range(3))
    k, beta = torch.nn.functional.normalize(k, dim=-1), 2 * torch.rand(1, 4096, 1, generator=draw)
    exact, _ = mixers.delta_rule(q.double(), k.double(), v.double(), beta.double())
    assert _off(mixers.delta_rule(q, k, v, beta)[0], exact) < 1e-5


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"g": 0.5}, "at most 0"),
        ({"beta": 2.1}, "between 0 and 2 .*got 2.1"),
        ({"beta": -0.1}, "between 0 and 2"),
        ({"k": torch.zeros(2, 11, 3, 3)}, r"k of shape \[2, 11, 2, 3\].*got \[2, 11, 3, 3\]"),
        ({"v": torch.zeros(2, 11, 3, 4)}, "or a multiple"),
        ({"v": torch.zeros(2, 10, 2, 4)}, "expected v of shape"),
        ({"q": torch.zeros(2, 11, 6)}, r"\[B, T, H, D\]"),
        ({"q": torch.zeros(2, 11, 2, 3, dtype=torch.int64)}, "floating-point numbers, got torch.int64"),
        ({"g": torch.zeros(2, 11, 2, 3)}, "one for each head"),
        ({"beta": torch.zeros(2, 11, 1)}, "expected beta of shape"),
        ({"initial_state": torch.zeros(1, 2, 3, 4)}, "expected initial_state of shape"),
        ({"cu_seqlens": [0, 5, 11]}, "batch of 1"),
        ({"form": "chunks"}, "did you mean 'chunk'"),
        ({"form": "chunk", "chunk_size": 48}, "power of two"),
        ({"form": "chunk", "chunk_size": 0}, "power of two"),
    ],
)
def test_refuses(change, says):
    given = mixer_inputs(mixers.gated_delta_rule)
    for name, value in change.items():
        given[name] = torch.full_like(given[name], value) if isinstance(value, float) else value
    with pytest.raises(InputError, match=says):
        mixers.gated_delta_rule(**given)


WRONG_BOUNDS = [
    *([0, 5], [0, 12], [1, 11], [0, 7, 5, 11], [11], [], [0, 2.5, 11]),
    *(torch.tensor([0.0, 11.0]), torch.tensor([[0, 11]]), torch.tensor([False, True])),
]


@pytest.mark.parametrize("op", all_mixers(), ids=lambda op: op.__name__)
def test_every_op_refuses_bounds_that_do_not_add_up(op):
    given = mixer_inputs(op, batch=1)
    for bounds in WRONG_BOUNDS:
        with pytest.raises(InputError, match="cu_seqlens"):
            op(**given, cu_seqlens=bounds)


@pytest.mark.parametrize(
    "op",
    [
        mixers.softmax_attention,
        functools.partial(mixers.block_attention, block_size=4),
        mixers.bidirectional_attention,
        functools.partial(both_ways, mixers.linear_attention),
    ],
    ids=["softmax_attention", "block_attention", "bidirectional_attention", "both_ways"],
)
def test_functions_without_a_state_refuse_bounds_that_do_not_add_up(op):
    given = mixer_inputs(mixers.linear_attention, batch=1)
    assert len(given["q"][0]) == 11
    for bounds in WRONG_BOUNDS:
        with pytest.raises(InputError, match="cu_seqlens"):
            op(**given, cu_seqlens=bounds)
    with pytest.raises(InputError, match="batch of 1"):
        op(**mixer_inputs(mixers.linear_attention, batch=2), cu_seqlens=[0, 5, 11])


def test_other_ops_refuse_what_they_cannot_use():
    one = torch.ones(1, 3, 1, 1)
    with pytest.raises(InputError, match="one log decay for each head"):
        mixers.retention(one, one, one, g_gamma=torch.zeros(2))
    with pytest.raises(InputError, match="one for each channel"):
        mixers.gla(one, one, one, -one[..., 0])
    with pytest.raises(InputError, match=r"expected x \[B, T, H, P\]"):
        mixers.ssd(one, one, -torch.ones(1), one, one)
    with pytest.raises(InputError, match="at most 0"):
        mixers.ssd(one, one[..., 0], torch.ones(1), one, one)
    with pytest.raises(InputError, match="2 keys per token"):
        mixers.delta_product(one, one, one, None, one[..., 0], num_householder=2)


def test_float16_on_a_cpu_is_computed_in_32_bits():
    q, k, v, g, beta = (part.half() for part in _like_transformers())
    out, state = mixers.gated_delta_rule(q, k, v, g, beta, output_final_state=True)
    assert (out.dtype, state.dtype) == (torch.float16, torch.float32)
    assert out.isfinite().all()


def test_no_second_derivative_rather_than_a_wrong_one():
    q = torch.ones(1, 9, 1, 1, requires_grad=True)
    with pytest.raises(InputError, match="differentiated once"):
        torch.autograd.grad(mixers.linear_attention(q, q, q)[0].sum(), q, create_graph=True)
    out, _ = mixers.linear_attention(q, q, q, form="recurrent")
    (grad,) = torch.autograd.grad(out.sum(), q, create_graph=True)
    grad.sum().backward()
    assert q.grad is not None


def test_the_hand_written_backward_is_that_of_autograd_through_the_recurrence():
    given = [part.double().requires_grad_() for part in _like_transformers(tokens=70, per_channel=True)]
    for form in ("chunk", "recurrent"):
        out, _ = mixers.kda(*given, form=form)
        found = torch.autograd.grad((out * torch.linspace(-1, 1, out.numel(), dtype=torch.float64).view_as(out)).sum(), given)
        if form == "chunk":
            first = found
    for one, other in zip(first, found, strict=True):
        assert _off(one, other) < 1e-12


@pytest.mark.parametrize("op", [mixers.gated_delta_rule, mixers.kda], ids=lambda op: op.__name__)
@pytest.mark.parametrize("cut", [37, 64, 149])
def test_causal_to_the_bit_at_the_sizes_of_real_heads(op, cut):
    """Matrix products of this size go through another library than those of the contract."""
    given = _like_transformers(width=64, per_channel=op is mixers.kda)
    later = [torch.cat([part[:, :cut], part[:, cut:].flip(1)], 1) for part in given]
    found = []
    for parts in (given, later):
        leaves = [part.clone().requires_grad_() for part in parts]
        out, _ = op(*leaves)
        found.append([out[:, :cut], *(grad[:, :cut] for grad in torch.autograd.grad(out[:, :cut].square().sum(), leaves))])
    assert all(torch.equal(one, other) for one, other in zip(*found, strict=True))


def test_real_heads_in_every_form():
    """Twin in float32 and float64 at width 64, where matrix products go through another library than those of the contract."""
    for per_channel, op in ((False, mixers.gated_delta_rule), (True, mixers.kda)):
        given = _like_transformers(tokens=100, width=64, per_channel=per_channel)
        truth = [part.double().requires_grad_() for part in given]
        wanted, _ = op(*truth, form="naive")
        grads = torch.autograd.grad(wanted.square().sum(), truth)
        for dtype, bound in ((torch.float32, 1e-5), (torch.float64, 1e-12)):
            leaves = [part.to(dtype).requires_grad_() for part in given]
            out, _ = op(*leaves, form="chunk")
            assert _off(out, wanted) < bound
            for one, other in zip(torch.autograd.grad(out.square().sum(), leaves), grads, strict=True):
                assert _off(one, other) < bound


def test_chunks_of_every_size_agree():
    q, k, v, g, beta = (part.double() for part in _like_transformers(tokens=70))
    problem = recurrence(q, k, v, g=g, beta=beta)
    truth, _ = naive(problem)
    for size in (1, 2, 8, 128):
        assert _off(chunked(problem, size)[0], truth) < 1e-12


@pytest.mark.parametrize("kind", [ScalarDecay, ChannelDecay])
def test_pairs_made_at_once_have_the_bits_of_those_made_for_gradients(kind):
    draw = torch.Generator().manual_seed(0)
    g = -torch.rand(3, 16, 1 if kind is ScalarDecay else 5, generator=draw)
    g[0, 3] = -torch.inf
    x, w = torch.randn(3, 16, 2, 5, generator=draw), torch.randn(3, 16, 5, generator=draw)
    made, pairs = kind.paired(g, x, w)
    kept = kind.of(g)
    assert torch.equal(pairs, kept.pairs(x, w))
    assert torch.equal(made.start, kept.start)
    assert torch.equal(made.end, kept.end)
