"""Feed-forward layers against their definitions, their tensors, and transformers' mixture of experts."""

import pytest
import torch

from transect import mixers
from transect.errors import InputError


@pytest.fixture(autouse=True)
def _seeded():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        yield


def test_a_bilinear_layer_is_its_tensor():
    layer = mixers.BilinearMLP(hidden_size=6, intermediate_size=5).double()
    x = torch.randn(20, 6, dtype=torch.float64)
    tensor = layer.interaction_tensor()
    assert torch.allclose(torch.einsum("oij,ni,nj->no", tensor, x, x), layer(x), rtol=0, atol=1e-12)
    assert torch.equal(tensor, tensor.mT)


def test_eigenvectors_say_what_writes_a_direction():
    layer = mixers.BilinearMLP(hidden_size=6, intermediate_size=2).double()
    direction, x = torch.randn(6, dtype=torch.float64), torch.randn(20, 6, dtype=torch.float64)
    found = layer.interactions(direction)
    assert torch.allclose(((x @ found.vectors.mT) ** 2) @ found.values, layer(x) @ direction, rtol=0, atol=1e-12)
    assert int((found.values.abs() > 1e-9).sum()) <= 4
    assert torch.equal(found.values.abs(), found.values.abs().sort(descending=True).values)
    with pytest.raises(InputError, match=r"\[6\] of the output, got \[5\]"):
        layer.interactions(direction[:5])


def _experts(**settings):
    return mixers.MixtureOfExpertsMLP(hidden_size=6, intermediate_size=4, num_experts=5, experts_per_token=2, **settings).double()


@pytest.mark.parametrize("settings", [{}, {"normalize": False}, {"shared_intermediate_size": 3}])
def test_a_mixture_is_the_sum_over_all_experts_with_most_weights_zero(settings):
    layer = _experts(**settings)
    x = torch.randn(2, 7, 6, dtype=torch.float64, requires_grad=True)
    routed = layer.route(x)
    dense = torch.zeros(2, 7, 5, dtype=torch.float64).scatter(-1, routed.experts, routed.weights)
    gate, up = torch.einsum("btd,ehd->bteh", x, layer.gate_up_proj).chunk(2, -1)
    truth = torch.einsum("bteh,edh,bte->btd", torch.nn.functional.silu(gate) * up, layer.down_proj, dense)
    if layer.shared_expert is not None:
        truth = truth + layer.shared_gate(x).sigmoid() * layer.shared_expert(x)
    y = layer(x)
    assert torch.allclose(y, truth, rtol=0, atol=1e-12)
    leaves = [x, *layer.parameters()]
    for one, other in zip(torch.autograd.grad(y.sin().sum(), leaves), torch.autograd.grad(truth.sin().sum(), leaves), strict=True):
        assert torch.allclose(one, other, rtol=0, atol=1e-12)
    assert layer(x[:, :0]).shape == (2, 0, 6)


def test_the_balance_is_one_for_an_even_load_and_grows_with_a_crowd():
    layer = _experts()
    with torch.no_grad():
        layer.router.weight.zero_()
    assert float(layer.route(torch.randn(50, 6).double()).balance.detach()) == pytest.approx(1)
    with torch.no_grad():
        layer.router.weight[0, 0], layer.router.weight[1, 0] = 100, 99
    crowded = layer.route(torch.ones(50, 6).double())
    assert float(crowded.balance.detach()) > 2
    assert crowded.load.tolist() == [0.5, 0.5, 0, 0, 0]


def test_the_mixture_is_that_of_qwen3_next():
    from transformers.models.qwen3_next import Qwen3NextConfig
    from transformers.models.qwen3_next.modeling_qwen3_next import Qwen3NextSparseMoeBlock

    config = Qwen3NextConfig(
        hidden_size=6, moe_intermediate_size=4, shared_expert_intermediate_size=3, num_experts=5, num_experts_per_tok=2, norm_topk_prob=True
    )
    theirs = Qwen3NextSparseMoeBlock(config)
    ours = mixers.MixtureOfExpertsMLP(
        hidden_size=6, intermediate_size=4, num_experts=5, experts_per_token=2, shared_intermediate_size=3, normalize=True
    )
    with torch.no_grad():
        for part in theirs.parameters():
            part.normal_()
        ours.router.weight.copy_(theirs.gate.weight)
        ours.gate_up_proj.copy_(theirs.experts.gate_up_proj)
        ours.down_proj.copy_(theirs.experts.down_proj)
        ours.shared_gate.load_state_dict(theirs.shared_expert_gate.state_dict())
        ours.shared_expert.load_state_dict(theirs.shared_expert.state_dict())
        x = torch.randn(2, 9, 6)
        truth = theirs(x)
        assert float((ours(x) - truth).abs().max() / truth.abs().max()) < 1e-5


def test_refuses_sizes():
    with pytest.raises(InputError, match="1 to num_experts = 2"):
        mixers.MixtureOfExpertsMLP(hidden_size=4, intermediate_size=4, num_experts=2, experts_per_token=3)
    for kind in (mixers.GatedMLP, mixers.BilinearMLP):
        with pytest.raises(InputError, match="intermediate_size 0"):
            kind(hidden_size=4, intermediate_size=0)
