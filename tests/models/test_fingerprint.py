"""The fingerprint: the same for the same model, another for another."""

import pytest
import torch
from torch import nn

from transect.models import load
from transect.models.fingerprint import fingerprint
from transect.testing.tiny import FAMILIES, tiny, tiny_chat_tokenizer


@pytest.mark.parametrize("family", FAMILIES)
def test_same_seed_same_fingerprint_other_seed_another(family):
    assert tiny(family).fingerprint == tiny(family).fingerprint != tiny(family, seed=1).fingerprint
    assert len(tiny(family).fingerprint) == 32


def test_all_families_differ():
    assert len({tiny(family).fingerprint for family in FAMILIES}) == len(FAMILIES)


def test_one_changed_value_changes_it():
    for place in (0, -1):
        model = tiny("llama")
        with torch.no_grad():
            model.module.model.layers[1].mlp.up_proj.weight.view(-1)[place] += 1e-6
        assert model.fingerprint != tiny("llama").fingerprint


def test_the_head_does_not_matter_since_no_activation_comes_from_it():
    model = tiny("gpt2")
    assert load(model.module.transformer, tokenizer=model.tokenizer).fingerprint == model.fingerprint


def test_what_changes_activations_matters():
    llama = tiny("llama")
    fingerprints = {llama.fingerprint, load(llama.module).fingerprint, load(llama.module, tokenizer=tiny_chat_tokenizer()).fingerprint}
    rope = tiny("llama")
    rope.module.config.rope_parameters = {"rope_type": "default", "rope_theta": 5.0}
    fingerprints.add(rope.fingerprint)
    fingerprints.add(load(tiny("llama").module.double(), tokenizer=llama.tokenizer).fingerprint)
    assert len(fingerprints) == 5


def test_what_does_not_change_activations_does_not():
    model = tiny("llama")
    model.module.config.use_cache = False
    model.module.config._name_or_path = "elsewhere"
    model.module.train().requires_grad_(False)
    assert model.fingerprint == tiny("llama").fingerprint


def test_transposed_scalar_empty_and_integer_weights(draws):
    class Odd(nn.Module):
        def __init__(self, step):
            super().__init__()
            self.transposed = nn.Parameter(torch.arange(12.0).reshape(3, 4).T)
            self.scalar = nn.Parameter(torch.tensor(2.0))
            self.register_buffer("empty", torch.zeros(0))
            self.register_buffer("steps", torch.tensor(step))
            self.register_buffer("narrow", torch.zeros(3, dtype=torch.bfloat16))

    assert fingerprint(Odd(1)) == fingerprint(Odd(1)) != fingerprint(Odd(2))


def test_it_is_taken_once():
    model = tiny("llama")
    first = model.fingerprint
    with torch.no_grad():
        model.module.model.norm.weight.fill_(3)
    assert model.fingerprint == first
    assert load(model.module, tokenizer=model.tokenizer).fingerprint != first
