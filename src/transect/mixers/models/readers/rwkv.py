"""RWKV-4 checkpoints: each block is time mixing and channel mixing, with layer norms; the first also normalises the embeddings.

In evaluation transformers halves the stream after every ``rescale_every`` blocks, so that 16 bits do not overflow, and what is added to
it afterwards as much. Layer norms do not see that, but for their epsilon, which is as if 4 times as large after each halving: the stack
keeps the stream as it is and takes those epsilons, so that its logits are those of evaluation. A model that was run in evaluation holds
halved weights, which are read as what they were. A folder does not say so: one saved after such a run is halved twice by transformers, too.
"""

import torch
from transformers import PreTrainedModel

from transect.errors import InputError
from transect.mixers.models.config import StackConfig
from transect.mixers.models.readers.read import Weights

MODEL_TYPE = "rwkv"

_LAST_EPS = 1e-5  # transformers leaves the last norm at torch's default, whatever layer_norm_epsilon is


def stack(model: PreTrainedModel) -> tuple[StackConfig, dict[str, torch.Tensor]]:
    """The configuration of the same model as a stack, and its weights by the stack's names."""
    config = model.config
    if getattr(config, "quantization_config", None) is not None:
        raise InputError("expected an RWKV model whose weights are numbers, got one with a quantization_config. Load it without.")
    halvings = [index // config.rescale_every if config.rescale_every > 0 else 0 for index in range(config.num_hidden_layers + 1)]
    ours = StackConfig(
        layers=[{"kind": "rwkv4", "inner_size": config.attention_hidden_size}] * config.num_hidden_layers,
        vocab_size=config.vocab_size,
        hidden_size=config.hidden_size,
        feed_forward="channel_mix",
        intermediate_size=config.intermediate_size,
        norm="layer",
        norm_eps=[config.layer_norm_epsilon * 4.0**count for count in halvings[:-1]],
        final_norm_eps=_LAST_EPS * 4.0 ** halvings[-1],
        embedding_norm=True,
        initializer_range=getattr(config, "initializer_range", 0.02),
        tie_word_embeddings=config.tie_word_embeddings,
        pad_token_id=getattr(config, "pad_token_id", None),
        bos_token_id=config.bos_token_id,
        eos_token_id=config.eos_token_id,
    )
    weights = Weights(model)
    halved = bool(getattr(model.base_model, "layers_are_rescaled", False))
    found = {"model.embed_tokens.weight": weights.take("rwkv.embeddings.weight")}
    found["lm_head.weight"] = found["model.embed_tokens.weight"] if config.tie_word_embeddings else weights.take("head.weight")
    norms = {"rwkv.ln_out": "model.norm", "rwkv.blocks.0.pre_ln": "model.embed_norm"}
    for index in range(config.num_hidden_layers):
        theirs, here = f"rwkv.blocks.{index}.", f"model.layers.{index}."
        norms |= {theirs + "ln1": here + "norm", theirs + "ln2": here + "mlp_norm"}
        at, to = theirs + "attention.", here + "mixer."
        shares = [weights.take(f"{at}time_mix_{name}").flatten() for name in ("receptance", "key", "value")]
        found[to + "mixes"] = torch.stack(shares)
        found[to + "time_decay"], found[to + "bonus"] = weights.take(at + "time_decay"), weights.take(at + "time_first")
        names = {"receptance": "r_proj", "key": "k_proj", "value": "v_proj"}
        found |= {f"{to}{name}.weight": weights.take(f"{at}{given}.weight") for given, name in names.items()}
        back = 2.0 ** halvings[index] if halved else 1.0
        found[to + "o_proj.weight"] = weights.take(at + "output.weight") * back
        at, to = theirs + "feed_forward.", here + "mlp."
        found[to + "mixes"] = torch.stack([weights.take(f"{at}time_mix_{name}").flatten() for name in ("receptance", "key")])
        names = {"receptance": "r_proj", "key": "up_proj"}
        found |= {f"{to}{name}.weight": weights.take(f"{at}{given}.weight") for given, name in names.items()}
        found[to + "down_proj.weight"] = weights.take(at + "value.weight") * back
    found |= {f"{to}.{part}": weights.take(f"{at}.{part}") for at, to in norms.items() for part in ("weight", "bias")}
    weights.finish()
    return ours, found
