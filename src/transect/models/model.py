"""`Model`: a network, its tokenizer, and what transect knows about them."""

import dataclasses
import functools
from typing import Any, Literal

import torch
from torch import nn

from transect.models.fingerprint import fingerprint
from transect.sites import Structure


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Model:
    """A network as transect sees it; made by `load` or `untrained`.

    Args:
        module: the whole network, language-model head included where it has one.
        tokenizer: a Hugging Face tokenizer, or None for a network that takes tensors.
        name: what it was loaded from, for people.
        structure: where its named places are.
        takes: what one example is: ``tokens`` (a text) or ``tensor`` (one row of a tensor).
        max_length: the most tokens the network can read at once, or None where it says no limit.
        width: the width ``d`` of the residual stream, or None where it cannot be told.
        source: what `load` takes to load it again (a whole path, a hub id, ``demo``); None for a live module.
    """

    module: nn.Module = dataclasses.field(repr=False)
    tokenizer: Any | None = dataclasses.field(default=None, repr=False)
    name: str
    structure: Structure = dataclasses.field(repr=False)
    takes: Literal["tokens", "tensor"]
    max_length: int | None = None
    width: int | None = None
    source: str | None = None

    @functools.cached_property
    def fingerprint(self) -> str:
        """32 hex digits that change with configuration, weights and tokenizer, as far as a sample of them shows.

        Taken when first asked for. After training the module further, call `load` on it again.
        """
        return fingerprint(self.backbone, self.tokenizer)

    @property
    def backbone(self) -> nn.Module:
        """The part that makes the activations, without a language-model head; the module itself for plain modules."""
        return self.module.get_submodule(self.structure.backbone)

    @property
    def device(self) -> torch.device:
        """Where the first parameter lives; inputs go there."""
        tensor = next(self.module.parameters(), None)
        return torch.device("cpu") if tensor is None else tensor.device

    @property
    def dtype(self) -> torch.dtype:
        """The type of the first floating-point parameter."""
        types = (tensor.dtype for tensor in self.module.parameters() if tensor.is_floating_point())
        return next(types, torch.get_default_dtype())

    def sites(self) -> tuple[str, ...]:
        """The sites to start with: the embedding, every block's output and the final norm, where they exist."""
        blocks = tuple(f"layers[{index}]" for index in range(len(self.structure.blocks)))
        first = ("embed",) if self.structure.embed is not None else ()
        last = ("final_norm",) if self.structure.final_norm is not None else ()
        return first + blocks + last
