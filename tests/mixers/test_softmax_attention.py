"""Softmax attention against its definition, against transformers' Qwen3-Next, and with what it cannot use."""

import functools

import pytest
import torch

from transect import mixers
from transect.errors import InputError
from transect.mixers.block_attention import block_attention
from transect.mixers.softmax_attention import KeysAndValues, softmax_attention
from transect.testing import check_mixer_layer


@pytest.fixture(autouse=True)
def _seeded():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        yield


@pytest.mark.parametrize(
    "settings",
    [
        {"window": 2},
        {"window": 3},
        {"window": 5, "num_kv_heads": 1},
        {"num_kv_heads": 2, "qk_norm": True, "use_gate": True, "rotary_fraction": 0.5},
        {"rotary_base": None, "head_dim": 3},
    ],
    ids=["window of 2", "window", "window and shared keys", "everything", "no positions"],
)
def test_contract(settings):
    check_mixer_layer(mixers.Attention(hidden_size=16, num_heads=4, **settings))


@pytest.mark.parametrize("window", [None, 1, 4])
def test_past_tokens_of_any_number_are_as_if_they_were_there(window):
    lengths, more = [0, 5, 2], 3
    q, k, v = (torch.randn(3, 8, heads, 4, dtype=torch.float64) for heads in (4, 2, 2))
    spoilt = [torch.full((3, 5, 2, 4), torch.nan, dtype=torch.float64) for _ in range(2)]
    for row, length in enumerate(lengths):
        for part, held in zip((k, v), spoilt, strict=True):
            held[row, 5 - length :] = part[row, :length]
    past = KeysAndValues(k=spoilt[0].nan_to_num(7.0), v=spoilt[1].nan_to_num(7.0), seen=torch.tensor(lengths))
    new = [torch.stack([part[row, length : length + more] for row, length in enumerate(lengths)]) for part in (q, k, v)]
    whole = [
        softmax_attention(*(part[row : row + 1, : length + more] for part in (q, k, v)), window=window)[:, length:]
        for row, length in enumerate(lengths)
    ]
    for form in ("parallel", "naive"):
        assert torch.allclose(softmax_attention(*new, window=window, past=past, form=form), torch.cat(whole), rtol=0, atol=1e-12)
        packed = [part.flatten(0, 1)[None] for part in new]
        found = softmax_attention(*packed, window=window, past=past, cu_seqlens=[0, 3, 6, 9], form=form)
        assert torch.allclose(found[0].unflatten(0, (3, 3)), torch.cat(whole), rtol=0, atol=1e-12)


def test_a_window_keeps_no_more_than_it_needs():
    layer, cache = mixers.Attention(hidden_size=8, num_heads=2, window=4), mixers.MixerCache()
    for _ in range(5):
        layer(torch.randn(2, 3, 8), cache=cache)
    assert cache.get(0, kind="Attention", sequences=2).parts["keys"].shape == (2, 3, 2, 4)


def test_attention_is_that_of_qwen3_next():
    from transformers.models.qwen3_next import Qwen3NextConfig
    from transformers.models.qwen3_next.modeling_qwen3_next import Qwen3NextAttention, Qwen3NextRotaryEmbedding

    config = Qwen3NextConfig(
        hidden_size=16, num_attention_heads=4, num_key_value_heads=2, head_dim=8, num_hidden_layers=1, attn_implementation="eager"
    )
    theirs = Qwen3NextAttention(config, 0)
    fraction = config.rope_parameters.get("partial_rotary_factor", 1.0)
    base = config.rope_parameters["rope_theta"]
    ours = mixers.Attention(
        hidden_size=16, num_heads=4, num_kv_heads=2, head_dim=8, qk_norm=True, use_gate=True, rotary_fraction=fraction, rotary_base=base
    )
    with torch.no_grad():
        for norm in (theirs.q_norm, theirs.k_norm):
            norm.weight.normal_()
        queries, gates = theirs.q_proj.weight.view(4, 16, 16).chunk(2, 1)
        ours.q_proj.weight.copy_(queries.reshape(32, 16))
        ours.g_proj.weight.copy_(gates.reshape(32, 16))
        for name in ("k_proj", "v_proj", "o_proj"):
            getattr(ours, name).weight.copy_(getattr(theirs, name).weight)
        for name in ("q_norm", "k_norm"):
            getattr(ours, name).weight.copy_(1 + getattr(theirs, name).weight)
        x = torch.randn(2, 11, 16)
        mask = torch.full((11, 11), -torch.inf).triu(1)[None, None]
        turns = Qwen3NextRotaryEmbedding(config)(x, torch.arange(11)[None])
        truth = theirs(x, position_embeddings=turns, attention_mask=mask)[0]
        assert fraction < 1
        assert float((ours(x) - truth).abs().max() / truth.abs().max()) < 1e-5


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"num_heads": 3}, "divide hidden_size"),
        ({"num_kv_heads": 3}, "num_kv_heads that divide"),
        ({"window": 0}, "window of at least 1"),
        ({"rotary_fraction": 0.3}, "even number of channels"),
    ],
)
def test_refuses_sizes(settings, says):
    with pytest.raises(InputError, match=says):
        mixers.Attention(**{"hidden_size": 16, "num_heads": 4, **settings})


def test_refuses_shapes():
    one = torch.ones(1, 3, 2, 4)
    with pytest.raises(InputError, match="expected q"):
        softmax_attention(one, one[:, :2], one)
    with pytest.raises(InputError, match="window"):
        softmax_attention(one, one, one, window=0)
    with pytest.raises(InputError, match="chunk"):
        softmax_attention(one, one, one, form="chunk")


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("window", [None, 20])
def test_later_tokens_change_no_bit_of_earlier_outputs_at_real_sizes(window, dtype):
    q, k, v = (torch.randn(1, 200, 2, 64, dtype=dtype) for _ in range(3))
    for cut in (37, 149):
        changed = [torch.cat([part[:, :cut], 3 * torch.randn_like(part[:, cut:])], 1) for part in (q, k, v)]
        found = softmax_attention(*changed, window=window)
        assert torch.equal(found[:, :cut], softmax_attention(q, k, v, window=window)[:, :cut])


@pytest.mark.parametrize("op", [softmax_attention, functools.partial(block_attention, block_size=4)], ids=["softmax", "block"])
@pytest.mark.parametrize("change", [{"heads": 1}, {"width": 3}, {"rows": 1}, {"values": 3}, {"seen": 1}], ids=str)
def test_refuses_a_past_of_other_sequences(op, change):
    q, k, v = (torch.randn(2, 3, 2, 4, generator=torch.Generator().manual_seed(0)) for _ in range(3))
    rows, heads, width = change.get("rows", 2), change.get("heads", 2), change.get("width", 4)
    past = KeysAndValues(
        k=torch.zeros(rows, 2, heads, width), v=torch.zeros(rows, 2, heads, change.get("values", 4)), seen=torch.ones(change.get("seen", 2))
    )
    with pytest.raises(InputError, match="expected a past of k"):
        op(q, k, v, past=past)
