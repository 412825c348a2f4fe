"""Second-order linear attention: the paper's matrix and its summaries, how stretches of text join, and what is refused."""

import pytest
import torch

from transect import mixers
from transect.errors import InputError
from transect.testing import check_mixer_layer, mixer_inputs


@pytest.fixture(autouse=True)
def _seeded():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        yield


def _off(one, other):
    return float((one - other).abs().max() / other.abs().max())


def _qkv(tokens):
    given = mixer_inputs(mixers.higher_order_linear_attention, tokens=tokens)
    return given["q"], given["k"], given["v"]


@pytest.mark.parametrize("form", ["chunk", "recurrent", "parallel", "naive"])
def test_it_is_the_matrix_of_the_paper(form):
    q, k, v = (part.transpose(1, 2) for part in _qkv(21))
    scores = (q @ k.mT).tril()
    truth = (scores @ scores.mT).tril() @ v / 3**0.5
    out, _ = mixers.higher_order_linear_attention(*_qkv(21), form=form, chunk_size=8)
    assert _off(out.transpose(1, 2), truth) < 1e-12


def _summaries(q, k, v):
    """S, C and G of the paper, with its streaming updates."""
    s, c, g = (q.new_zeros(2, 2, 3, width) for width in (3, 4, 4))
    for query, key, value in zip(q.unbind(1), k.unbind(1), v.unbind(1), strict=True):
        outer = key[..., :, None] * key[..., None, :]
        g = g + outer @ c
        s, c = s + outer, c + query[..., :, None] * value[..., None, :]
    return s, c, g


def test_its_state_is_what_the_summaries_of_the_paper_are_for():
    q, k, v = _qkv(21)
    s, c, g = _summaries(q, k, v)
    _, state = mixers.higher_order_linear_attention(q, k, v, output_final_state=True)
    assert _off(state[..., :3], s) < 1e-12
    assert _off(state[..., 3:], s @ c - g) < 1e-12


def test_stretches_join_by_a_semidirect_product():
    q, k, v = _qkv(21)
    one, two = ([part[:, places] for part in (q, k, v)] for places in (slice(0, 8), slice(8, 21)))
    whole, first, second = (
        mixers.higher_order_linear_attention(*parts, output_final_state=True)[1].split([3, 4], -1) for parts in ((q, k, v), one, two)
    )
    assert _off(first[0] + second[0], whole[0]) < 1e-12
    assert _off(first[1] + second[1] + first[0] @ _summaries(*two)[1], whole[1]) < 1e-12


def test_later_values_do_not_reach_back_through_the_keys():
    """Without the correction G, ``q^T S C`` would use keys that come after the value's own query."""
    q, k, v = (torch.ones(1, 2, 1, 1) for _ in range(3))
    assert mixers.higher_order_linear_attention(q, k, v)[0].flatten().tolist() == [1.0, 3.0]  # not 4


def test_normalised_outputs_are_averages():
    q, k, v = (part.abs() for part in _qkv(13))
    for form in ("chunk", "recurrent", "parallel", "naive"):
        out, state = mixers.higher_order_linear_attention(q, k, v, normalize=True, output_final_state=True, form=form)
        same, _ = mixers.higher_order_linear_attention(q, k, 0 * v + 2, normalize=True, form=form)
        assert state.shape == (2, 2, 3, 3 + 5)
        assert torch.allclose(same, torch.full_like(same, 2.0))
        assert float(out.max()) <= float(v.max())


@pytest.mark.parametrize("settings", [{"normalize": True}, {"conv_size": 3, "use_gate": True, "head_v_dim": 5}], ids=["normalised", "full"])
def test_contract_of_the_layer(settings):
    check_mixer_layer(mixers.HigherOrderLinearAttention(hidden_size=12, num_heads=2, **settings))


def test_refuses_states_of_another_shape():
    one = torch.ones(1, 3, 1, 1)
    with pytest.raises(InputError, match=r"K, K \+ V"):
        mixers.higher_order_linear_attention(one, one, one, initial_state=torch.zeros(1, 1, 1, 1))
    with pytest.raises(InputError, match="power of two"):
        mixers.higher_order_linear_attention(one, one, one, chunk_size=3)
    with pytest.raises(InputError, match="a form that exists"):
        mixers.higher_order_linear_attention(one, one, one, form="second")
