"""TransNormer's two attentions: gradients with a bound and without, blocks that stay where they are, and what is refused."""

import pytest
import torch

from transect import mixers
from transect.errors import InputError
from transect.mixers.block_attention import block_attention
from transect.mixers.layers.linear_attention_layer import normalized_linear_attention
from transect.mixers.softmax_attention import KeysAndValues
from transect.testing import check_mixer_layer


@pytest.fixture(autouse=True)
def _seeded():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        yield


def _slope(small, *, divided):
    """The gradient at the first key of linear attention over two keys that hardly agree with the query."""
    q, v = torch.ones(1, 2, 1, 1, dtype=torch.float64), torch.eye(2, dtype=torch.float64).view(1, 2, 1, 2)
    k = torch.full((1, 2, 1, 1), small, dtype=torch.float64, requires_grad=True)
    if divided:
        o, _ = normalized_linear_attention(q, k, v)
    else:
        o = torch.nn.functional.rms_norm(mixers.linear_attention(q, k, v, scale=1.0)[0], (2,), eps=1e-5)
    return float(torch.autograd.grad(o[0, 1, 0, 0], k)[0][0, 0].abs())


def test_division_has_gradients_without_bound_and_the_norm_has_not():
    divided = [_slope(small, divided=True) for small in (1e-2, 1e-4, 1e-6)]
    normed = [_slope(small, divided=False) for small in (1e-2, 1e-4, 1e-6, 0.0)]
    assert divided == pytest.approx([1 / (4 * small) for small in (1e-2, 1e-4, 1e-6)], rel=1e-3)  # p (1 - p) / s
    assert max(normed) <= 1e-5**-0.5 + 1e-9


def test_outputs_do_not_grow_with_the_values():
    layer = mixers.TransNormer(hidden_size=12, num_heads=2, norm_eps=0.0)
    x = torch.randn(2, 9, 12)
    y = layer(x)
    with torch.no_grad():
        layer.qkv_proj.weight[24:] *= 7  # the values
    assert torch.allclose(layer(x), y, atol=1e-5)


@pytest.mark.parametrize("settings", [{"block_size": 1}, {"block_size": 4}, {"block_size": 5, "rotary_base": None, "head_dim": 3}])
def test_contract_of_blocks(settings):
    check_mixer_layer(mixers.DiagonalAttention(hidden_size=12, num_heads=2, **settings))


def test_blocks_are_those_of_a_masked_softmax():
    q, k, v = (torch.randn(2, 11, 2, 4, dtype=torch.float64) for _ in range(3))
    at = torch.arange(11)
    mask = (at <= at[:, None]) & (at // 4 == at[:, None] // 4)
    scores = torch.einsum("bthk,bshk->bhts", q, k) / 2
    truth = torch.einsum("bhts,bshv->bthv", scores.masked_fill(~mask, -torch.inf).softmax(-1), v)
    for form in ("parallel", "naive"):
        assert torch.allclose(block_attention(q, k, v, block_size=4, form=form), truth, rtol=0, atol=1e-12)


def test_a_layer_remembers_the_block_that_it_is_in_and_no_more():
    layer, cache = mixers.DiagonalAttention(hidden_size=8, num_heads=2, block_size=4), mixers.MixerCache()
    kept = []
    for tokens in (3, 2, 3, 1):
        layer(torch.randn(2, tokens, 8), cache=cache)
        kept.append(cache.get(0, kind="DiagonalAttention", sequences=2).parts["keys"].shape[1])
    assert kept == [3, 1, 0, 1]


def test_a_matrix_beside_the_past():
    layer, cache = mixers.DiagonalAttention(hidden_size=8, num_heads=2, block_size=4).double(), mixers.MixerCache()
    x = torch.randn(1, 7, 8, dtype=torch.float64)
    layer(x[:, :2], cache=cache)
    _, inside = layer(x[:, 2:], cache=cache, return_inside=True)
    matrix, whole = (part.effective_matrix().detach() for part in (inside, layer(x, return_inside=True)[1]))
    assert torch.allclose(matrix, whole[:, :, 2:, 2:])
    assert float(matrix[0, 0, 0].sum()) < 1  # the block began before this call


def test_refuses():
    one = torch.ones(1, 3, 2, 4)
    with pytest.raises(InputError, match="expected q, k"):
        block_attention(one, one[:, :2], one, block_size=2)
    with pytest.raises(InputError, match="block_size"):
        block_attention(one, one, one, block_size=0)
    with pytest.raises(InputError, match="fewer than block_size"):
        block_attention(one, one, one, block_size=2, past=KeysAndValues(k=one, v=one, seen=torch.tensor([2])))
    with pytest.raises(InputError, match="chunk"):
        block_attention(one, one, one, block_size=2, form="chunk")
    for settings, says in (({"num_heads": 3}, "divide"), ({"block_size": 0}, "block_size"), ({"head_dim": 3}, "even head_dim")):
        with pytest.raises(InputError, match=says):
            mixers.DiagonalAttention(**{"hidden_size": 8, "num_heads": 2, **settings})
