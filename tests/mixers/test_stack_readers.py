"""Tiny checkpoints of transformers' models give the same logits as a stack: whole, padded, step by step, live and from a folder."""

import pytest
import torch

from transect import mixers
from transect.errors import InputError


@pytest.fixture(autouse=True)
def _seeded():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        yield


def _mamba2(**settings):
    from transformers import Mamba2Config, Mamba2ForCausalLM

    sizes = {"num_heads": 4, "head_dim": 8, "hidden_size": 16, "state_size": 6, "n_groups": 2, "num_hidden_layers": 2, "vocab_size": 29}
    return Mamba2ForCausalLM(Mamba2Config(**{**sizes, **settings}))


def _qwen3_next(**settings):
    from transformers import Qwen3NextConfig, Qwen3NextForCausalLM

    sizes = {
        "vocab_size": 29, "hidden_size": 16, "intermediate_size": 12, "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2,
        "head_dim": 8, "linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 4, "linear_value_head_dim": 6,
        "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 8, "shared_expert_intermediate_size": 12, "mlp_only_layers": [1],
    }  # fmt: skip
    return Qwen3NextForCausalLM(Qwen3NextConfig(**{**sizes, **settings}))


MODELS = {
    "mamba2": _mamba2,
    "mamba2, tied, no convolution bias": lambda: _mamba2(tie_word_embeddings=True, use_conv_bias=False, n_groups=1),
    "qwen3-next": _qwen3_next,
    "qwen3-next, tied, weights as they are": lambda: _qwen3_next(tie_word_embeddings=True, norm_topk_prob=False),
}


def _made(name):
    model = MODELS[name]().eval()
    with torch.no_grad():
        for part in model.parameters():
            part.add_(0.05 * torch.randn_like(part))  # norms of exactly one, and zeros, would hide a mistake
    return model


def _near(one, other):
    assert float((one - other).abs().max() / other.abs().max()) < 1e-5


@pytest.mark.parametrize("name", MODELS)
def test_the_logits_are_the_same(name, tmp_path):
    theirs = _made(name)
    ours = mixers.read_checkpoint(theirs)
    ids = torch.randint(2, 29, (2, 70))
    with torch.no_grad():
        truth = theirs(ids).logits
        _near(ours(ids).logits, truth)
        first = ours(ids[:, :60], use_cache=True)
        steps = [ours(ids[:, at : at + 1], cache=first.cache).logits for at in range(60, 70)]
        _near(torch.cat([first.logits, *steps], 1), truth)
        mask = torch.ones(2, 70, dtype=torch.long)
        mask[0, :9] = 0
        _near(ours(ids, attention_mask=mask).logits[mask.bool()], theirs(ids, attention_mask=mask).logits[mask.bool()])
    theirs.save_pretrained(tmp_path)
    assert torch.equal(mixers.read_checkpoint(str(tmp_path))(ids).logits, ours(ids).logits)


def test_reading_leaves_the_model_alone():
    theirs = _made("qwen3-next")
    before = {name: part.clone() for name, part in theirs.named_parameters()}
    ours = mixers.read_checkpoint(theirs)
    with torch.no_grad():
        for part in ours.parameters():
            part.zero_()
    assert all(torch.equal(part, before[name]) for name, part in theirs.named_parameters())


def test_refuses_what_it_cannot_read():
    from transformers import GPT2Config, GPT2LMHeadModel

    with pytest.raises(InputError, match="mamba2, qwen3_next, got 'gpt2'"):
        mixers.read_checkpoint(GPT2LMHeadModel(GPT2Config(n_layer=1, n_head=1, n_embd=4, vocab_size=9)))
    with pytest.raises(InputError, match="limit on time steps"):
        mixers.read_checkpoint(_mamba2(time_step_limit=(0.0, 0.1)))
    model = _mamba2()
    model.backbone.layers[0].register_parameter("spare", torch.nn.Parameter(torch.zeros(1)))
    with pytest.raises(InputError, match="1 weights of this mamba2 model have no place"):
        mixers.read_checkpoint(model)
