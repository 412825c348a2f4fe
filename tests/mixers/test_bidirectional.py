"""Three forms of attention that looks both ways are one, with every decay, packed and padded, values and gradients."""

from itertools import pairwise

import pytest
import torch

from transect import mixers
from transect.errors import InputError
from transect.mixers.bidirectional import both_ways

KINDS = ["none", "scalar", "channel"]


def _given(kind, *, tokens=21, batch=2, dtype=torch.float64, positive=False):
    draw = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(batch, tokens, 2, width, generator=draw, dtype=torch.float64) for width in (3, 3, 4))
    q, k = (q.abs(), k.abs()) if positive else (q, k)
    shape = {"none": None, "scalar": (batch, tokens, 2), "channel": (batch, tokens, 2, 3)}[kind]
    g = None if shape is None else -torch.randn(shape, generator=draw, dtype=torch.float64).abs()
    return [None if part is None else part.to(dtype) for part in (q, k, v, g)]


def _everything(given, **settings):
    leaves = [None if part is None else part.clone().requires_grad_() for part in given]
    out = mixers.bidirectional_attention(*leaves, **settings)
    weight = torch.randn(out.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64).to(out.dtype)
    held = [leaf for leaf in leaves if leaf is not None]
    return [out.detach(), *torch.autograd.grad((out * weight).sum(), held)]


def _near(ones, others, bound):
    for one, other in zip(ones, others, strict=True):
        assert float((one.double() - other).abs().max() / other.abs().max()) < bound


@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize("closed", [None, -1e4, -torch.inf])
@pytest.mark.parametrize("kind", KINDS)
def test_every_form_is_the_definition(kind, closed, normalize):
    given = _given(kind, positive=normalize)
    if closed is not None and given[3] is not None:
        given[3][:, 5], given[3][:, 13, 0] = closed, closed
    truth = _everything(given, form="naive", normalize=normalize)
    for form in ("parallel", "recurrent", "chunk", "auto"):
        _near(_everything(given, form=form, normalize=normalize, chunk_size=8), truth, 1e-12)
        narrow = [None if part is None else part.float() for part in given]
        _near(_everything(narrow, form=form, normalize=normalize, chunk_size=8), truth, 1e-5)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("form", ["parallel", "recurrent", "chunk"])
def test_packed_sequences_stay_apart(kind, form):
    given, bounds = _given(kind, batch=1), [0, 1, 1, 9, 21]
    packed = mixers.bidirectional_attention(*given, cu_seqlens=bounds, form=form, chunk_size=4)
    apart = [
        mixers.bidirectional_attention(*[None if part is None else part[:, start:end] for part in given], form="naive")
        for start, end in pairwise(bounds)
    ]
    _near([packed], [torch.cat(apart, 1)], 1e-12)
    spoilt = [None if part is None else part.clone() for part in given]
    spoilt[2][:, 4] = torch.nan
    found = mixers.bidirectional_attention(*spoilt, cu_seqlens=bounds, form=form, chunk_size=4)
    assert torch.equal(found[:, 9:], packed[:, 9:])
    assert torch.equal(found[:, :1], packed[:, :1])


def test_one_token_none_and_all_gates_open():
    q, k, v, _ = _given("none", tokens=1)
    assert torch.allclose(mixers.bidirectional_attention(q, k, v, scale=1.0), (q * k).sum(-1, keepdim=True) * v)
    assert mixers.bidirectional_attention(q[:, :0], k[:, :0], v[:, :0]).shape == (2, 0, 2, 4)
    q, k, v, g = _given("scalar")
    assert torch.allclose(mixers.bidirectional_attention(q, k, v, 0 * g), mixers.bidirectional_attention(q, k, v), rtol=0, atol=1e-12)


def test_the_turned_sequence_gives_the_turned_outputs():
    q, k, v, g = _given("scalar")
    moved = torch.cat([torch.zeros_like(g[:, :1]), g[:, 1:].flip(1)], 1)  # the decay between two tokens belongs to the second
    found = mixers.bidirectional_attention(q.flip(1), k.flip(1), v.flip(1), moved)
    assert torch.allclose(found.flip(1), mixers.bidirectional_attention(q, k, v, g), rtol=0, atol=1e-12)


def test_any_op_both_ways():
    q, k, v, g = _given("scalar")
    k = torch.nn.functional.normalize(k, dim=-1)
    beta = torch.rand(2, 21, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    given = {"q": q, "k": k, "v": v, "g": g, "beta": beta}
    truth = mixers.gated_delta_rule(**given)[0] + mixers.gated_delta_rule(**{name: part.flip(1) for name, part in given.items()})[0].flip(1)
    assert torch.equal(both_ways(mixers.gated_delta_rule, **given), truth)
    one = {name: part[:1] for name, part in given.items()}
    packed = both_ways(mixers.gated_delta_rule, **one, cu_seqlens=[0, 8, 21])
    alone = [
        both_ways(mixers.gated_delta_rule, **{name: part[:, cut] for name, part in one.items()}) for cut in (slice(0, 8), slice(8, 21))
    ]
    assert torch.allclose(packed, torch.cat(alone, 1), rtol=0, atol=1e-12)
    with pytest.raises(InputError, match="lengths"):
        both_ways(mixers.gated_delta_rule, **{**given, "v": v[:, 1:]})


@pytest.mark.parametrize("decay", ["none", "fixed", "selective", "channel"])
def test_the_layer_in_every_form_and_padded(decay):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        layer = mixers.BidirectionalLinearAttention(hidden_size=12, num_heads=2, decay=decay).double()
        x = torch.randn(3, 13, 12, dtype=torch.float64)
    truth = layer(x, form="naive")
    for form in ("parallel", "recurrent", "chunk"):
        assert torch.allclose(layer(x, form=form), truth, rtol=0, atol=1e-12)
    masks = torch.ones(3, 13, dtype=torch.long)
    masks[0, :4], masks[1, 8:], masks[2, 3:6] = 0, 0, 0
    y = layer(x.masked_fill(masks[..., None] == 0, torch.nan), attention_mask=masks)
    for row, mask, one in zip(x, masks.bool(), y, strict=True):
        assert torch.allclose(one[mask], layer(row[mask][None])[0], rtol=0, atol=1e-12)
        assert not one[~mask].any()
    grads = torch.autograd.grad(layer(x).sum(), list(layer.parameters()))
    assert all(grad.abs().sum() > 0 for grad in grads)


def test_refuses():
    q, k, v, g = _given("scalar")
    with pytest.raises(InputError, match="at most 0"):
        mixers.bidirectional_attention(q, k, v, -g)
    with pytest.raises(InputError, match="'chunks'"):
        mixers.bidirectional_attention(q, k, v, g, form="chunks")
    with pytest.raises(InputError, match="selective"):
        mixers.BidirectionalLinearAttention(hidden_size=8, num_heads=2, decay="selectiv")
    with torch.random.fork_rng(), pytest.raises(InputError, match=r"\[B, T, 12\]"):
        mixers.BidirectionalLinearAttention(hidden_size=12, num_heads=2)(torch.ones(1, 2, 8))
