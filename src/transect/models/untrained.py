"""The same architecture with random weights: what a probe finds there, the training did not put there."""

import copy
from typing import Any

import torch
from torch import nn

from transect.errors import ModelError
from transect.models.load import describe
from transect.models.model import Model


def untrained(model: Model, *, seed: int) -> Model:
    """The same architecture, drawn anew from its own initialisation: embeddings included, tokenizer and limits kept.

    A Hugging Face model is built from its configuration; a plain module is copied and every submodule's
    `reset_parameters` is called. The draw is made on the CPU from a generator of its own: the same seed gives the same weights on
    every device, and the global random state is left alone. The given model is not changed.

    Args:
        model: the trained model.
        seed: of the weights.

    Raises:
        ModelError: a plain module has parameters that nothing initialises; they are named.

    Examples:
        >>> from transect.testing.tiny import tiny
        >>> model = tiny("llama")
        >>> untrained(model, seed=1).fingerprint == untrained(model, seed=1).fingerprint != model.fingerprint
        True
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        module = _from_config(model) if _is_pretrained(model.module) else _reset_copy(model)
    module = module.to(model.device).train(model.module.training)
    return describe(module, model.tokenizer, name=f"untrained({model.name}, seed={seed})")


def _is_pretrained(module: nn.Module) -> bool:
    if not hasattr(module, "config"):
        return False  # without asking transformers, which a plain module does not need
    from transformers import PreTrainedModel

    return isinstance(module, PreTrainedModel)


def _from_config(model: Model) -> nn.Module:
    """Built in the model's own type, so that a large model is never held in a wider one."""
    config: Any = copy.deepcopy(model.module.config)
    if hasattr(config, "quantization_config"):
        del config.quantization_config
    return type(model.module)._from_config(config, dtype=model.dtype)  # pyright: ignore[reportAttributeAccessIssue]


def _reset_copy(model: Model) -> nn.Module:
    module = copy.deepcopy(model.module)
    for child in module.modules():  # other people's hooks would fire on a model they never saw
        for hooks in (child._forward_hooks, child._forward_pre_hooks, child._backward_hooks, child._backward_pre_hooks):
            hooks.clear()
    with torch.no_grad():
        # What is still NaN afterwards was not initialised by anybody.
        for parameter in module.parameters():
            parameter.fill_(float("nan"))
        module.cpu().apply(_reset)
        left = [name for name, parameter in module.named_parameters() if bool(parameter.isnan().any())]
    if left:
        raise ModelError(
            f"cannot make an untrained {type(module).__name__}: nothing initialises {len(left)} of its parameters ({', '.join(left[:5])}). "
            f"Give the module that owns them a method reset_parameters(), or leave this control out."
        )
    return module


def _reset(module: nn.Module) -> None:
    for name in ("reset_parameters", "_reset_parameters"):  # torch's attention and Transformer spell it privately
        reset = getattr(module, name, None)
        if callable(reset):
            reset()
            return
