"""Mixtures of memories: which tokens write where, the base that one memory is, and routes that do not exist."""

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
    return float((one - other).abs().max().detach() / other.abs().max().detach())


@pytest.mark.parametrize("form", ["chunk", "recurrent", "parallel", "naive"])
def test_a_memory_is_the_gated_delta_rule_of_its_own_tokens(form):
    given = mixer_inputs(mixers.mixture_of_memories, batch=1, tokens=21)
    given["memories"], given["shares"] = torch.arange(21)[None, :, None] % 2, torch.ones(1, 21, 1).double()
    out, state = mixers.mixture_of_memories(**given, output_final_state=True, form=form, chunk_size=4)
    for m in range(2):
        part = {name: given[name][:, m::2] for name in ("q", "k", "v", "g", "beta")}
        alone, last = mixers.gated_delta_rule(**part, output_final_state=True, form="naive")
        assert state is not None
        assert _off(out[:, m::2], alone) < 1e-12
        assert _off(state[:, :, m], last) < 1e-12
    assert state is not None
    assert not state[:, :, 2].any()


def test_a_share_weighs_a_reading():
    given = mixer_inputs(mixers.mixture_of_memories, tokens=21)
    parts = []
    for place in range(2):
        only = given["shares"].clone()
        only[..., 1 - place] = 0
        parts.append(mixers.mixture_of_memories(**{**given, "shares": only})[0])
    assert _off(sum(parts), mixers.mixture_of_memories(**given)[0]) < 1e-12
    assert _off(3 * parts[0], mixers.mixture_of_memories(**{**given, "shares": 3 * given["shares"] * torch.tensor([1.0, 0.0])})[0]) < 1e-12


def test_one_memory_is_its_base():
    layer = mixers.MixtureOfMemories(hidden_size=12, num_heads=2, num_memories=1, top_k=1, shared_memory=False).double()
    plain = mixers.GatedDeltaNet(hidden_size=12, num_heads=2).double()
    plain.load_state_dict(layer.base.state_dict())
    x = torch.randn(2, 40, 12, dtype=torch.float64)
    assert _off(layer(x), plain(x)) < 1e-12


def test_a_memory_for_nobody_adds_nothing_and_the_shared_one_is_the_base():
    layer = mixers.MixtureOfMemories(hidden_size=12, num_heads=2, num_memories=3, top_k=1).double()
    _, inside = layer(torch.randn(2, 40, 12, dtype=torch.float64), return_inside=True)
    given = dict(inside.inputs)
    given["shares"] = given["shares"] * torch.tensor([0.0, 1.0])
    out, state = inside.op(**given, output_final_state=True)
    base, last = mixers.gated_delta_rule(**{name: given[name] for name in ("q", "k", "v", "g", "beta")}, output_final_state=True)
    assert _off(out, base) < 1e-12
    assert _off(state[:, :, 3], last) < 1e-12


@pytest.mark.parametrize(
    "settings",
    [
        {"top_k": 1, "shared_memory": False},
        {"num_memories": 3, "shared_memory": False},
        {"num_memories": 5, "top_k": 3, "allow_neg_eigval": True},
    ],
    ids=["top 1", "not shared", "negative"],
)
def test_contract_of_settings(settings):
    check_mixer_layer(mixers.MixtureOfMemories(hidden_size=12, num_heads=2, **settings))


@pytest.mark.parametrize("top_k", [1, 2])
def test_what_balances_the_router(top_k):
    layer = mixers.MixtureOfMemories(hidden_size=12, num_heads=2, num_memories=4, top_k=top_k)
    x = torch.randn(2, 50, 12)
    _, inside = layer(x, return_inside=True)
    loads = layer.load(inside)
    assert loads.shape == (4,)
    assert float(loads.sum()) == pytest.approx(1)
    (slope,) = torch.autograd.grad(layer.balance_loss(inside), layer.router.weight)
    assert slope.any()
    with torch.no_grad():
        layer.router.weight.zero_()
        layer.router.weight[0, 0] = 50
        x[..., 0] = x[..., 0].abs() + 1
    _, inside = layer(x, return_inside=True)
    assert layer.load(inside)[0] == 1 / top_k
    assert float(layer.balance_loss(inside).detach()) == pytest.approx(4 / top_k, rel=1e-3)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"memories": torch.zeros(2, 11, 2)}, "of integers"),
        ({"memories": torch.tensor([0, 3]).expand(2, 11, 2)}, r"memories from 0 to 2, got 3 and \[0, 3\]"),
        ({"memories": torch.tensor([-1, 0]).expand(2, 11, 2)}, "memories from 0 to 2"),
        ({"memories": torch.tensor([1, 1]).expand(2, 11, 2)}, "got one twice"),
        ({"shares": torch.zeros(2, 11, 3)}, "expected shares of shape"),
        ({"initial_state": torch.zeros(2, 2, 3, 4)}, "expected initial_state of shape"),
        ({"form": "chunks"}, "did you mean 'chunk'"),
        ({"chunk_size": 48}, "power of two"),
    ],
)
def test_refuses(change, says):
    with pytest.raises(InputError, match=says):
        mixers.mixture_of_memories(**{**mixer_inputs(mixers.mixture_of_memories), **change})


def test_refuses_more_memories_than_there_are():
    with pytest.raises(InputError, match="top_k from 1 to num_memories = 4, got 5"):
        mixers.MixtureOfMemories(hidden_size=8, num_heads=2, top_k=5)
