"""The untrained twin."""

import pytest
import torch
from torch import nn

from transect.errors import ModelError
from transect.models import load, untrained
from transect.testing.tiny import FAMILIES, tiny


@pytest.mark.parametrize("family", FAMILIES)
def test_same_architecture_other_weights(family):
    model = tiny(family)
    before = {name: value.clone() for name, value in model.module.state_dict().items()}
    twin = untrained(model, seed=3)
    assert twin.fingerprint == untrained(model, seed=3).fingerprint
    assert len({twin.fingerprint, untrained(model, seed=4).fingerprint, model.fingerprint}) == 3
    assert twin.name == f"untrained(tiny-{family}, seed=3)"
    assert (type(twin.module), twin.structure, twin.tokenizer) == (type(model.module), model.structure, model.tokenizer)
    assert (twin.max_length, twin.takes, twin.dtype) == (model.max_length, model.takes, model.dtype)
    assert all(torch.equal(value, before[name]) for name, value in model.module.state_dict().items())
    assert twin.module.training == model.module.training


def test_it_is_drawn_from_the_architecture_s_own_initialisation(draws):
    import transformers

    config = transformers.LlamaConfig(vocab_size=384, hidden_size=64, intermediate_size=256, num_hidden_layers=2, num_attention_heads=4)
    trained = transformers.LlamaForCausalLM(config)
    with torch.no_grad():
        for parameter in trained.parameters():
            parameter.fill_(7.0)
    weights = dict(untrained(load(trained), seed=0).module.named_parameters())
    for name, value in weights.items():
        if "norm" in name:
            assert torch.equal(value, torch.ones_like(value)), name
        else:
            assert abs(value.std().item() - config.initializer_range) < 0.1 * config.initializer_range, name
            assert abs(value.mean().item()) < 0.1 * config.initializer_range, name


def test_tied_weights_stay_tied_and_dtype_and_mode_are_kept():
    model = tiny("gemma3")
    model.module.to(torch.bfloat16).train()
    twin = untrained(model, seed=0)
    assert twin.module.lm_head.weight is twin.module.model.embed_tokens.weight
    assert twin.dtype == torch.bfloat16
    assert twin.module.training


def test_a_plain_module_is_reset_and_loses_the_hooks_of_the_original(draws):
    net = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.MultiheadAttention(4, 2))
    fired = []
    net[0].register_forward_hook(lambda *_: fired.append(1))
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.fill_(5.0)
    net[1].running_mean.fill_(9.0)
    twin = untrained(load(net), seed=0).module
    assert not any((parameter == 5).any() or parameter.isnan().any() for parameter in twin.parameters())
    assert torch.equal(twin[1].running_mean, torch.zeros(4))
    twin[0](torch.zeros(1, 4))
    assert fired == []
    assert len(net[0]._forward_hooks) == 1
    assert all((parameter == 5).all() for parameter in net.parameters())


def test_parameters_that_nothing_initialises_are_named(draws):
    class Gain(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Linear(2, 2)
            self.gain = nn.Parameter(torch.ones(2))

    with pytest.raises(ModelError, match=r"nothing initialises 1 of its parameters \(gain\).*reset_parameters"):
        untrained(load(Gain()), seed=0)
