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

    with pytest.raises(InputError, match="mamba2, qwen3_next, rwkv, got 'gpt2'"):
        mixers.read_checkpoint(GPT2LMHeadModel(GPT2Config(n_layer=1, n_head=1, n_embd=4, vocab_size=9)))
    with pytest.raises(InputError, match="limit on time steps"):
        mixers.read_checkpoint(_mamba2(time_step_limit=(0.0, 0.1)))
    model = _mamba2()
    model.backbone.layers[0].register_parameter("spare", torch.nn.Parameter(torch.zeros(1)))
    with pytest.raises(InputError, match="1 weights of this mamba2 model have no place"):
        mixers.read_checkpoint(model)


def _rwkv(**settings):
    from transformers import RwkvConfig, RwkvForCausalLM

    sizes = {
        "vocab_size": 29,
        "hidden_size": 16,
        "num_hidden_layers": 3,
        "intermediate_size": 24,
        "context_length": 128,
        "rescale_every": 0,
    }
    model = RwkvForCausalLM(RwkvConfig(**{**sizes, **settings})).eval()
    with torch.no_grad():
        for part in model.parameters():
            part.add_(0.2 * torch.randn_like(part))
        model.rwkv.embeddings.weight.add_(torch.randn_like(model.rwkv.embeddings.weight))  # they start at about 0
    return model


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"tie_word_embeddings": True, "layer_norm_epsilon": 1e-2},
        {"attention_hidden_size": 12, "intermediate_size": None},
        {"rescale_every": 1},
        {"rescale_every": 2, "layer_norm_epsilon": 1e-2},
    ],
    ids=["plain", "tied, another epsilon", "a narrow state", "halved after each block", "halved after two"],
)
def test_the_logits_of_rwkv_are_the_same(settings, tmp_path):
    theirs, ids = _rwkv(**settings), torch.randint(0, 29, (2, 70))
    theirs.save_pretrained(tmp_path)  # before it runs, as its weights are halved then
    ours = mixers.read_checkpoint(theirs)
    cached = theirs.config.attention_hidden_size == theirs.config.hidden_size  # transformers' own state has no other width
    with torch.no_grad():
        truth = theirs(ids, use_cache=False).logits
        _near(ours(ids, use_cache=False).logits, truth)
        assert torch.equal(mixers.read_checkpoint(theirs)(ids).logits, ours(ids).logits)  # now that it ran
        assert torch.equal(mixers.read_checkpoint(str(tmp_path))(ids).logits, ours(ids).logits)
        first = ours(ids[:, :60], use_cache=True)
        steps = [ours(ids[:, at : at + 1], cache=first.cache).logits for at in range(60, 70)]
        _near(torch.cat([first.logits, *steps], 1), truth)
        mask = torch.ones(2, 70, dtype=torch.long)
        mask[0, :9], mask[1, 30:33] = 0, 0
        for row, kept, logits in zip(ids, mask.bool(), ours(ids, attention_mask=mask).logits, strict=True):
            _near(logits[kept], theirs(row[kept][None], use_cache=False).logits[0])  # theirs takes no mask
        settings = {"max_new_tokens": 6, "do_sample": False, "eos_token_id": 28, "pad_token_id": 28}
        together = ours.generate(ids[:, :5], **settings)
        assert torch.equal(together, theirs.generate(ids[:, :5], use_cache=False, **settings))
        for row in range(2 if cached else 0):  # one by one: a step of transformers' lets the rows of a batch read each other's last token
            one = theirs.generate(ids[row : row + 1, :5], **settings)
            assert torch.equal(together[row, : one.shape[1]], one[0])


def test_refuses_rwkv_weights_that_are_quantized_or_left_over():
    model = _rwkv()
    model.rwkv.blocks[1].register_parameter("spare", torch.nn.Parameter(torch.zeros(1)))
    with pytest.raises(InputError, match="1 weights of this rwkv model have no place"):
        mixers.read_checkpoint(model)
    model.config.quantization_config = {"load_in_8bit": True}
    with pytest.raises(InputError, match="quantization_config"):
        mixers.read_checkpoint(model)
