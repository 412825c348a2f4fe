"""Tiny random models of many families, built on the spot without a download, for tests of methods and of code around them.

    >>> from transect.testing.tiny import tiny
    >>> model = tiny("llama")
    >>> model.sites()
    ('embed', 'layers[0]', 'layers[1]', 'layers[2]', 'final_norm')

Their weights are random (three or four blocks, width 16), so their activations mean nothing; everything around them
works as on a real model of the family. The fast kernels of state-space families are not needed: transformers' own slow
path is exact.
"""

from typing import Any

import torch
from torch import nn

from transect.errors import InputError, near_matches
from transect.models import Model, load
from transect.sites import find_structure

WIDTH = 16
"""The residual width of the tiny models."""
N_TOKENS = 64
"""The longest text, in tokens, of those tiny models that have a limit."""

_SENTENCES = (
    "The city of Paris is in France.",
    "The city of Lima is not in Peru, said the man.",
    "Water boils at one hundred degrees, and ice melts at zero.",
    "Is ten larger than nine? Yes: it is.",
    "She opened the door and looked at the rain outside",
)
_CHAT_TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}<turn>{{ message['role'] }}\n{{ message['content'] }}</turn>\n{% endfor %}"
    "{% if add_generation_prompt %}<turn>assistant\n{% endif %}"
)


def tiny(family: str, *, seed: int = 0) -> Model:
    """A tiny random model of a family.

    Args:
        family: one of `FAMILIES`.
        seed: of the random weights; the global random state is left alone.

    Raises:
        InputError: the family is unknown; the known ones are named.
    """
    if family not in _BUILDERS:
        raise InputError(f"unknown family {family!r}: {near_matches(family, FAMILIES)}.")
    import transformers

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        module = _BUILDERS[family](transformers).eval()
    reads_text = find_structure(module).tokens is not None
    return load(module, tokenizer=tiny_tokenizer() if reads_text else None, name=f"tiny-{family}")


def tiny_tokenizer() -> Any:
    """A byte-level BPE tokenizer of fewer than 400 tokens that knows any text, puts ``<s>`` in front and has no chat template."""
    return _tokenizer(chat_template=None)


def tiny_chat_tokenizer() -> Any:
    """`tiny_tokenizer` with a chat template that writes ``<s>`` itself, as Gemma's and Llama's do.

    A turn is ``<turn>user``, the text on the next line, ``</turn>``.
    """
    return _tokenizer(chat_template=_CHAT_TEMPLATE)


def _tokenizer(*, chat_template: str | None) -> Any:
    from transformers import PreTrainedTokenizerFast

    return PreTrainedTokenizerFast(
        tokenizer_object=_trained(),
        bos_token="<s>",
        eos_token="</s>",
        pad_token="<pad>",
        additional_special_tokens=["<turn>", "</turn>"],
        chat_template=chat_template,
    )


def _trained() -> Any:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=_VOCABULARY,
        special_tokens=["<pad>", "<s>", "</s>", "<turn>", "</turn>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(_SENTENCES, trainer)
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    return tokenizer


_VOCABULARY = 384
_IDS = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
_COMMON = {"vocab_size": _VOCABULARY, "hidden_size": WIDTH, "num_hidden_layers": 3, **_IDS}
_ATTENTION = {"intermediate_size": 32, "num_attention_heads": 2, "max_position_embeddings": N_TOKENS}
_GROUPED = {**_COMMON, **_ATTENTION, "num_key_value_heads": 1, "head_dim": 8}


# Each builder takes the module `transformers`, which is imported when the first model is asked for.


def _llama(hf: Any) -> nn.Module:
    return hf.LlamaForCausalLM(hf.LlamaConfig(**_GROUPED))


def _gpt2(hf: Any) -> nn.Module:
    config = hf.GPT2Config(vocab_size=_VOCABULARY, n_embd=WIDTH, n_layer=3, n_head=2, n_positions=N_TOKENS, **_IDS)
    return hf.GPT2LMHeadModel(config)


def _gemma3(hf: Any) -> nn.Module:
    kinds = ["sliding_attention", "sliding_attention", "full_attention", "sliding_attention"]
    settings = {**_GROUPED, "num_hidden_layers": 4, "layer_types": kinds, "sliding_window": 4, "query_pre_attn_scalar": 8}
    return hf.Gemma3ForCausalLM(hf.Gemma3TextConfig(**settings))


def _qwen3(hf: Any) -> nn.Module:
    return hf.Qwen3ForCausalLM(hf.Qwen3Config(**_GROUPED))


def _qwen3_next(hf: Any) -> nn.Module:
    linear = {"linear_num_value_heads": 2, "linear_num_key_heads": 2, "linear_key_head_dim": 8, "linear_value_head_dim": 8}
    experts = {"num_experts": 2, "num_experts_per_tok": 1, "moe_intermediate_size": 8, "shared_expert_intermediate_size": 8}
    return hf.Qwen3NextForCausalLM(hf.Qwen3NextConfig(**{**_GROUPED, "num_hidden_layers": 4}, **linear, **experts))


def _mamba(hf: Any) -> nn.Module:
    return hf.MambaForCausalLM(hf.MambaConfig(**_COMMON, state_size=4))


def _mamba2(hf: Any) -> nn.Module:
    return hf.Mamba2ForCausalLM(hf.Mamba2Config(**_COMMON, state_size=4, head_dim=8, num_heads=4, n_groups=1))


def _rwkv(hf: Any) -> nn.Module:
    return hf.RwkvForCausalLM(hf.RwkvConfig(**_COMMON, context_length=N_TOKENS))


def _bert(hf: Any) -> nn.Module:
    return hf.BertModel(hf.BertConfig(**_COMMON, **_ATTENTION))


def _vit(hf: Any) -> nn.Module:
    sizes = {"hidden_size": WIDTH, "num_hidden_layers": 3, "num_attention_heads": 2, "intermediate_size": 32}
    return hf.ViTModel(hf.ViTConfig(**sizes, image_size=8, patch_size=4))


def _gru(hf: Any) -> nn.Module:
    del hf
    return TinyGRU()


def _mlp(hf: Any) -> nn.Module:
    del hf
    return TinyMLP()


class TinyGRU(nn.Module):
    """A plain recurrent network over ``[n, t, 8]``: two GRU layers that return tuples, then a linear readout of the last state."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.GRU(8, WIDTH, batch_first=True), nn.GRU(WIDTH, WIDTH, batch_first=True)])
        self.head = nn.Linear(WIDTH, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """``[n, t, 8]`` to ``[n, 2]``."""
        for layer in self.layers:
            x, _ = layer(x)
        return self.head(x[:, -1])


class TinyMLP(nn.Module):
    """A plain multi-layer perceptron over ``[n, 8]``: three equal blocks after an input layer."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(8, WIDTH)
        self.layers = nn.ModuleList(nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU()) for _ in range(3))
        self.head = nn.Linear(WIDTH, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """``[n, 8]`` to ``[n, 2]``."""
        x = self.first(x)
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


_BUILDERS = {
    build.__name__.removeprefix("_"): build
    for build in (_llama, _gpt2, _gemma3, _qwen3, _qwen3_next, _mamba, _mamba2, _rwkv, _bert, _vit, _gru, _mlp)
}

FAMILIES: tuple[str, ...] = tuple(_BUILDERS)
"""The families that `tiny` builds."""
