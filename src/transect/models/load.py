"""Loading models."""

import os
from pathlib import Path
from typing import Any

import torch
from torch import nn

from transect.models.model import Model
from transect.sites import Structure, find_structure


def load(
    source: str | os.PathLike[str] | nn.Module | Model,
    *,
    tokenizer: Any | None = None,
    device: str | torch.device = "auto",
    dtype: str | torch.dtype | None = None,
    name: str | None = None,
) -> Model:
    """Load a model."""
    if isinstance(source, Model):
        return source
    if isinstance(source, nn.Module):
        return _live(source, tokenizer, name)
    raise NotImplementedError


def _live(module: nn.Module, tokenizer: Any | None, name: str | None) -> Model:
    structure = find_structure(module)
    config = getattr(module, "config", None)
    return Model(
        module=module,
        tokenizer=tokenizer,
        name=name or type(module).__name__,
        structure=structure,
        takes="tensor" if tokenizer is None else "tokens",
        max_length=getattr(config, "max_position_embeddings", None),
        width=getattr(config, "hidden_size", None),
    )


def _old(module: nn.Module) -> Structure:
    import re

    modules = {n: type(m).__name__ for n, m in module.named_modules()}
    lists = [n for n, m in module.named_modules() if isinstance(m, nn.ModuleList)]
    blocks = ()
    if lists:
        blocks = tuple(f"{lists[0]}.{i}" for i in range(len(module.get_submodule(lists[0]))))
    pre = lists[0].rpartition(".")[0] if lists else ""
    embed = next((n for n, m in module.named_modules() if isinstance(m, nn.Embedding)), None)
    final = next((n for n in modules if re.fullmatch(rf"{pre}\.?(norm|ln_f|norm_f|ln_out|layernorm)", n)), None)
    prefix = getattr(module, "base_model_prefix", "")
    return Structure(blocks=blocks, embed=embed, final_norm=final, backbone=prefix if prefix in modules else "", modules=modules)


def untrained(model: Model, *, seed: int) -> Model:
    raise NotImplementedError
