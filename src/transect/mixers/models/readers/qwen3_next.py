"""Qwen3-Next checkpoints: Gated DeltaNet and gated softmax attention, each followed by an MLP or a mixture of experts.

Its norms multiply by ``1 + w`` (those inside Gated DeltaNet by ``w``); here the weight is the whole factor.
"""

from typing import Any

import torch
from transformers import PreTrainedModel

from transect.errors import InputError
from transect.mixers.models.config import StackConfig
from transect.mixers.models.readers.read import Weights

MODEL_TYPE = "qwen3_next"


def stack(model: PreTrainedModel) -> tuple[StackConfig, dict[str, torch.Tensor]]:
    """The configuration of the same model as a stack, and its weights by the stack's names."""
    config = model.config
    turns = config.rope_parameters
    if config.attention_bias or config.hidden_act != "silu" or turns.get("rope_type", "default") != "default":
        raise InputError(
            "expected a Qwen3-Next model without attention_bias, with silu and plain rotary positions, got"
            f" attention_bias = {config.attention_bias}, {config.hidden_act} and rope_type {turns.get('rope_type')!r}."
        )
    linear = {
        "kind": "gdn",
        "num_heads": config.linear_num_value_heads,
        "num_k_heads": config.linear_num_key_heads,
        "head_k_dim": config.linear_key_head_dim,
        "head_v_dim": config.linear_value_head_dim,
        "conv_size": config.linear_conv_kernel_dim,
        "norm_eps": config.rms_norm_eps,
    }
    full = {
        "kind": "attention",
        "num_heads": config.num_attention_heads,
        "num_kv_heads": config.num_key_value_heads,
        "head_dim": config.head_dim,
        "rotary_base": turns["rope_theta"],
        "rotary_fraction": turns.get("partial_rotary_factor", 1.0),
        "qk_norm": True,
        "use_gate": True,
        "norm_eps": config.rms_norm_eps,
    }
    experts = {
        "kind": "moe",
        "intermediate_size": config.moe_intermediate_size,
        "num_experts": config.num_experts,
        "experts_per_token": config.num_experts_per_tok,
        "shared_intermediate_size": config.shared_expert_intermediate_size,
        "normalize": config.norm_topk_prob,
    }
    sparse = [
        index not in (config.mlp_only_layers or []) and config.num_experts > 0 and (index + 1) % config.decoder_sparse_step == 0
        for index in range(config.num_hidden_layers)
    ]
    ours = StackConfig(
        layers=[linear if kind == "linear_attention" else full for kind in config.layer_types],
        vocab_size=config.vocab_size,
        hidden_size=config.hidden_size,
        feed_forward=[experts if one else "swiglu" for one in sparse],
        intermediate_size=config.intermediate_size,
        norm_eps=config.rms_norm_eps,
        initializer_range=config.initializer_range,
        tie_word_embeddings=config.tie_word_embeddings,
        pad_token_id=config.pad_token_id,
        bos_token_id=config.bos_token_id,
        eos_token_id=config.eos_token_id,
    )
    weights = Weights(model)
    found = {
        "model.embed_tokens.weight": weights.take("model.embed_tokens.weight"),
        "model.norm.weight": 1 + weights.take("model.norm.weight"),
    }
    found["lm_head.weight"] = found["model.embed_tokens.weight"] if config.tie_word_embeddings else weights.take("lm_head.weight")
    for index, kind in enumerate(config.layer_types):
        at = f"model.layers.{index}."
        found[at + "norm.weight"] = 1 + weights.take(at + "input_layernorm.weight")
        found[at + "mlp_norm.weight"] = 1 + weights.take(at + "post_attention_layernorm.weight")
        parts = _linear(weights, at + "linear_attn.", config) if kind == "linear_attention" else _full(weights, at + "self_attn.", config)
        found |= {f"{at}mixer.{name}": value for name, value in parts.items()}
        names = ["gate_proj.weight", "up_proj.weight", "down_proj.weight"]
        if sparse[index]:
            renamed = {"gate.weight": "router.weight", "shared_expert_gate.weight": "shared_gate.weight"}
            renamed |= {f"experts.{name}": name for name in ("gate_up_proj", "down_proj")}
            renamed |= {f"shared_expert.{name}": f"shared_expert.{name}" for name in names}
        else:
            renamed = {name: name for name in names}
        found |= {f"{at}mlp.{here}": weights.take(f"{at}mlp.{there}") for there, here in renamed.items()}
    weights.finish()
    return ours, found


def _linear(weights: Weights, at: str, config: Any) -> dict[str, torch.Tensor]:
    heads, group = config.linear_num_key_heads, config.linear_num_value_heads // config.linear_num_key_heads
    keys, values = config.linear_key_head_dim, group * config.linear_value_head_dim
    mixed = weights.take(at + "in_proj_qkvz.weight").unflatten(0, (heads, -1)).split([keys, keys, values, values], 1)  # by head of keys
    q, k, v, gate = (part.flatten(0, 1) for part in mixed)
    beta, decay = (part.flatten(0, 1) for part in weights.take(at + "in_proj_ba.weight").unflatten(0, (heads, -1)).chunk(2, 1))
    found = {"qkv_proj.weight": torch.cat([q, k, v]), "g_proj.weight": gate, "b_proj.weight": beta, "a_proj.weight": decay}
    found["conv.weight"] = weights.take(at + "conv1d.weight")[:, 0].mT
    found |= {name: weights.take(at + name) for name in ("A_log", "dt_bias", "norm.weight")}
    return found | {"o_proj.weight": weights.take(at + "out_proj.weight")}


def _full(weights: Weights, at: str, config: Any) -> dict[str, torch.Tensor]:
    queries, gates = weights.take(at + "q_proj.weight").unflatten(0, (config.num_attention_heads, -1)).chunk(2, 1)
    found = {"q_proj.weight": queries.flatten(0, 1), "g_proj.weight": gates.flatten(0, 1)}
    found |= {f"{name}.weight": weights.take(f"{at}{name}.weight") for name in ("k_proj", "v_proj", "o_proj")}
    return found | {f"{name}.weight": 1 + weights.take(f"{at}{name}.weight") for name in ("q_norm", "k_norm")}
