"""Curvature-conditioned queries: the loop that they are, what they contract, and the layers that they go around."""

import functools
from functools import partial

import pytest
import torch

from transect import mixers
from transect.errors import InputError
from transect.testing import check_mixer, check_mixer_layer, mixer_inputs


@pytest.fixture(autouse=True)
def _seeded():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        yield


def _off(one, other):
    return float((one - other).abs().max().detach() / other.abs().max().detach())


@functools.wraps(mixers.curvature_query)
def _per_channel(q, k, g, eta, **settings):
    if g.ndim == 3:
        raise InputError("decays per channel only")
    return mixers.curvature_query(q, k, g, eta, **settings)


def test_contract_with_decays_per_channel():
    check_mixer(_per_channel)


@pytest.mark.parametrize("decays", ["none", "heads", "channels"])
@pytest.mark.parametrize("form", ["chunk", "recurrent", "parallel", "naive"])
def test_it_is_its_loop(decays, form):
    q, k = torch.randn(2, 2, 21, 2, 3, dtype=torch.float64)
    eta = torch.tensor([0.3, 0.9], dtype=torch.float64)
    g = {"none": None, "heads": -torch.rand(2, 21, 2).double(), "channels": -torch.rand(2, 21, 2, 3).double()}[decays]
    found, _ = mixers.curvature_query(q, k, g, eta, form=form, chunk_size=4)
    moment, trace = torch.zeros(2, 2, 3, 3, dtype=torch.float64), torch.zeros(2, 2, 3, dtype=torch.float64)
    for t in range(21):
        decay = torch.ones(2, 2, 3).double() if g is None else g[:, t].exp().view(2, 2, -1).expand(2, 2, 3)
        moment = moment * decay[..., None] + k[:, t, :, :, None] * k[:, t, :, None]
        trace = trace * decay + k[:, t].square().sum(-1, keepdim=True)
        operator = torch.eye(3, dtype=torch.float64) - eta[:, None, None] * moment / trace[..., None]
        assert _off(found[:, t], (operator.mT @ q[:, t, :, :, None])[..., 0]) < 1e-12
        if decays != "channels":
            assert torch.allclose(moment.diagonal(dim1=2, dim2=3).sum(-1), trace[..., 0])
            assert (torch.linalg.eigvalsh(operator) > 0).all()
            assert (found[:, t].norm(dim=-1) <= q[:, t].norm(dim=-1)).all()


def test_a_crowded_direction_is_read_less_and_an_empty_one_as_before():
    """Of 60 keys 59 are alike: what they store drowns the one that is asked for, until the query is contracted."""
    k = torch.tensor([1.0, 0.0]).repeat(60, 1)
    k[30] = torch.tensor([0.0, 1.0])
    v = torch.zeros(60, 2)
    v[:, 0], v[30] = 1.0, torch.tensor([0.0, 1.0])
    q = torch.tensor([0.3, 1.0]).repeat(60, 1)
    q, k, v = (part[None, :, None] for part in (q, k, v))
    plain, _ = mixers.linear_attention(q, k, v)
    contracted, _ = mixers.curvature_query(q, k, None, torch.ones(1))
    conditioned, _ = mixers.linear_attention(contracted, k, v)
    assert plain[0, -1, 0].argmax() == 0
    assert conditioned[0, -1, 0].argmax() == 1
    assert float(contracted[0, -1, 0, 1]) == pytest.approx(1 - 1 / 60)
    assert float(contracted[0, -1, 0, 0]) == pytest.approx(0.3 / 60)


BASES = {
    "GLA": mixers.GLA,
    "GatedDeltaNet": mixers.GatedDeltaNet,
    "negative": partial(mixers.GatedDeltaNet, allow_neg_eigval=True),
    "Mamba2": mixers.Mamba2,
    "DeltaNet": mixers.DeltaNet,
    "KDA": mixers.KDA,
    "DeltaProductNet": mixers.DeltaProductNet,
    "HGRN2": mixers.HGRN2,
    "RetNet": mixers.RetNet,
}


def _around(name, **settings):
    return mixers.CurvatureQuery(hidden_size=12, num_heads=2, head_k_dim=4, head_v_dim=6, base=BASES[name], **settings)


@pytest.mark.parametrize("name", BASES)
def test_contract_around(name):
    check_mixer_layer(_around(name))


@pytest.mark.parametrize("name", BASES)
def test_with_eta_zero_it_is_the_layer_inside_to_the_bit(name):
    layer = _around(name, eta=0.0)
    x = torch.randn(2, 40, 12)
    assert torch.equal(layer(x), layer.base(x))
    with torch.no_grad():
        layer.eta.fill_(0.5)
    assert not torch.allclose(layer(x), layer.base(x), atol=1e-4)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"eta": torch.zeros(2, 1)}, "one number for each head"),
        ({"eta": torch.zeros(3)}, r"as many heads or a multiple.*\[3\]"),
        ({"g": torch.zeros(2, 11)}, r"g \[B, T, H\]"),
        ({"g": torch.ones(2, 11, 2)}, "at most 0"),
        ({"initial_state": torch.zeros(2, 2, 3, 3)}, r"expected initial_state of shape \[2, 2, 3, 4\]"),
        ({"form": "chunks"}, "did you mean 'chunk'"),
        ({"chunk_size": 48}, "power of two"),
    ],
)
def test_refuses(change, says):
    with pytest.raises(InputError, match=says):
        mixers.curvature_query(**{**mixer_inputs(mixers.curvature_query), **change})


def test_refuses_layers_that_it_would_break():
    with pytest.raises(InputError, match="from 0 to 1"):
        mixers.CurvatureQuery(hidden_size=8, num_heads=2, eta=1.5)
    with pytest.raises(InputError, match="normalize=False"):
        mixers.CurvatureQuery(hidden_size=8, num_heads=2, base=mixers.LinearAttention)
    mixers.CurvatureQuery(hidden_size=8, num_heads=2, base=partial(mixers.LinearAttention, normalize=False))


@pytest.mark.parametrize("form", ["chunk", "recurrent", "parallel", "naive"])
def test_a_trace_that_overflows_is_not_passed_over(form):
    """In 32 bits |k|^2 is inf, and in a chunk the trace of the tokens before is 0 * inf; divided by 1 or inf they would look like an answer."""
    q, k = torch.randn(2, 1, 7, 2, 3)
    eta, plain = torch.tensor([0.3, 0.9]), k.clone()
    k[:, 5] = 1e30
    found, _ = mixers.curvature_query(q, k, None, eta, form=form, chunk_size=8)
    wanted, _ = mixers.curvature_query(q, plain, None, eta, form="naive")
    if form in {"recurrent", "naive"}:
        assert _off(found[:, :5], wanted[:, :5]) < 1e-5
    else:
        assert found[:, :5].isnan().all()
    assert found[:, 5:].isnan().all()
