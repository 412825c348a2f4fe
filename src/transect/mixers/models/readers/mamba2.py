"""Mamba-2 checkpoints: each block is a norm and a mixer, nothing else."""

import torch
from transformers import PreTrainedModel

from transect.errors import InputError
from transect.mixers.models.config import StackConfig
from transect.mixers.models.readers.read import Weights

MODEL_TYPE = "mamba2"


def stack(model: PreTrainedModel) -> tuple[StackConfig, dict[str, torch.Tensor]]:
    """The configuration of the same model as a stack, and its weights by the stack's names."""
    config = model.config
    if config.use_bias or tuple(config.time_step_limit) != (0.0, float("inf")) or config.hidden_act not in ("silu", "swish"):
        raise InputError(
            "expected a Mamba-2 model without use_bias, with silu and without a limit on time steps, got"
            f" use_bias = {config.use_bias}, {config.hidden_act} and {config.time_step_limit}."
        )
    inner, keys = config.num_heads * config.head_dim, config.n_groups * config.state_size
    layer = {
        "kind": "mamba2",
        "num_heads": config.num_heads,
        "head_k_dim": config.state_size,
        "head_v_dim": config.head_dim,
        "n_groups": config.n_groups,
        "conv_size": config.conv_kernel,
        "conv_bias": config.use_conv_bias,
        "norm_eps": config.layer_norm_epsilon,
    }
    ours = StackConfig(
        layers=[layer] * config.num_hidden_layers,
        vocab_size=config.vocab_size,
        hidden_size=config.hidden_size,
        feed_forward=None,
        norm_eps=config.layer_norm_epsilon,
        initializer_range=config.initializer_range,
        tie_word_embeddings=config.tie_word_embeddings,
        pad_token_id=config.pad_token_id,
        bos_token_id=config.bos_token_id,
        eos_token_id=config.eos_token_id,
    )
    weights = Weights(model)
    order = torch.cat(
        [torch.arange(inner + keys, inner + 2 * keys), torch.arange(inner, inner + keys), torch.arange(inner)]
    )  # theirs: x, B, C
    found = {
        "model.embed_tokens.weight": weights.take("backbone.embeddings.weight"),
        "model.norm.weight": weights.take("backbone.norm_f.weight"),
    }
    found["lm_head.weight"] = found["model.embed_tokens.weight"] if config.tie_word_embeddings else weights.take("lm_head.weight")
    for index in range(config.num_hidden_layers):
        theirs, here = f"backbone.layers.{index}.", f"model.layers.{index}."
        found[here + "norm.weight"] = weights.take(theirs + "norm.weight")
        gate, streams, steps = weights.take(theirs + "mixer.in_proj.weight").split([inner, inner + 2 * keys, config.num_heads])
        found[here + "mixer.g_proj.weight"], found[here + "mixer.dt_proj.weight"] = gate, steps
        found[here + "mixer.qkv_proj.weight"] = streams[order]
        found[here + "mixer.conv.weight"] = weights.take(theirs + "mixer.conv1d.weight")[order, 0].mT
        if config.use_conv_bias:
            found[here + "mixer.conv.bias"] = weights.take(theirs + "mixer.conv1d.bias")[order]
        for name in ("A_log", "dt_bias", "D", "norm.weight"):
            found[f"{here}mixer.{name}"] = weights.take(f"{theirs}mixer.{name}")
        found[here + "mixer.o_proj.weight"] = weights.take(theirs + "mixer.out_proj.weight")
    weights.finish()
    return ours, found
