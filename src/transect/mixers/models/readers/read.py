"""One call for every kind of checkpoint: the modules beside this one say which `model_type` they read."""

import importlib
import pkgutil
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

import torch
from transformers import AutoModelForCausalLM, PreTrainedModel

from transect.errors import InputError
from transect.mixers.models.config import StackConfig
from transect.mixers.models.stack import StackForCausalLM


class Reader(Protocol):
    """A module that reads one kind of checkpoint."""

    MODEL_TYPE: str
    """What transformers calls it."""

    def stack(self, model: PreTrainedModel) -> tuple[StackConfig, dict[str, torch.Tensor]]:
        """The configuration of the same model as a stack, and its weights by the stack's names."""
        ...


def readers() -> Mapping[str, Reader]:
    """The modules of this package that read checkpoints, by `model_type`.

    Examples:
        >>> sorted(readers())
        ['mamba2', 'qwen3_next', 'rwkv']
    """
    package = __name__.rpartition(".")[0]
    names = [module.name for module in pkgutil.iter_modules([str(Path(__file__).parent)])]
    modules = [importlib.import_module(f"{package}.{name}") for name in names if f"{package}.{name}" != __name__]
    return {module.MODEL_TYPE: module for module in modules}  # pyright: ignore[reportReturnType]


def read_checkpoint(source: str | PreTrainedModel) -> StackForCausalLM:
    """A transformers language model as a stack of this package's layers, with the same logits.

    Args:
        source: a model, whose weights are copied, or what transformers' `from_pretrained` takes, such as a folder.

    Returns:
        The stack, in the precision of the weights, in evaluation mode.

    Raises:
        InputError: a kind of model, or a setting of it, that cannot be read; weights that are left over or missing, with their count.
    """
    model = AutoModelForCausalLM.from_pretrained(source) if isinstance(source, str) else source
    known = readers()
    kind = model.config.model_type
    if kind not in known:
        raise InputError(f"expected a checkpoint of one of {', '.join(sorted(known))}, got {kind!r}.")
    config, weights = known[kind].stack(model)
    found = StackForCausalLM(config)
    found.to(dtype=next(model.parameters()).dtype)  # pyright: ignore[reportCallIssue] - transformers hides torch's own signature
    wanted = dict(found.state_dict())
    if config.tie_word_embeddings:
        wanted.pop("lm_head.weight", None)
        weights.pop("lm_head.weight", None)
    missing, extra = sorted(wanted.keys() - weights.keys()), sorted(weights.keys() - wanted.keys())
    if missing or extra:
        raise InputError(
            f"the weights of this {kind} model do not fit the stack: {len(missing)} missing ({', '.join(missing[:3])}),"
            f" {len(extra)} left over ({', '.join(extra[:3])})."
        )
    with torch.no_grad():
        for name, value in wanted.items():
            if value.shape != weights[name].shape:
                raise InputError(f"expected {name} of shape {list(value.shape)}, got {list(weights[name].shape)} in this {kind} model.")
            value.copy_(weights[name])
    return found.eval()


class Weights:
    """A model's weights, each taken once, so that what nobody took is known.

    Args:
        model: whose.
    """

    def __init__(self, model: PreTrainedModel) -> None:
        self.kind = model.config.model_type
        self.held = {name: value.detach() for name, value in model.named_parameters()}

    def take(self, name: str) -> torch.Tensor:
        """One weight.

        Raises:
            InputError: it is not there.
        """
        if name not in self.held:
            raise InputError(f"this {self.kind} model has no weight {name!r}.")
        return self.held.pop(name)

    def finish(self) -> None:
        """Make sure that all were taken.

        Raises:
            InputError: some were not; with their count.
        """
        if self.held:
            raise InputError(
                f"{len(self.held)} weights of this {self.kind} model have no place in a stack: {', '.join(sorted(self.held)[:3])}."
            )
