"""The definition of a capture: one example at a time, no padding, the whole forward pass, whole tensors.

Slow and obvious; `transect.capture.capture` must give the same numbers. Tests and `transect.testing.check_capture` compare.
"""

import contextlib
import functools
from collections.abc import Sequence
from typing import Any

import torch

from transect.capture.examples import Data, Examples, read_examples
from transect.capture.guard import untouched
from transect.capture.hooks import first_tensor
from transect.models import Model
from transect.sites import Place, parse_tokens, resolve_sites


def naive_capture(
    model: Model, data: Data, *, sites: str | Sequence[str] = "layers[*]", tokens: str = "last", chat: bool = False
) -> dict[str, torch.Tensor]:
    """Activations ``[n, d]`` by site; the arguments are those of `capture`.

    Examples:
        >>> from transect.testing.tiny import tiny
        >>> naive_capture(tiny("llama"), ["Yes", "It is"], sites="layers[1]")["layers[1]"].shape
        torch.Size([2, 16])
    """
    rule = parse_tokens(tokens)
    places = resolve_sites(model.structure, sites)
    examples = read_examples(model, data, rule, chat=chat, truncate=False)
    found: dict[str, list[torch.Tensor]] = {place.name: [] for place in places}
    with untouched(model.module) as overwrites:
        for row in range(len(examples)):
            with overwrites if row == 0 or overwrites.any else contextlib.nullcontext():
                whole = _whole(model, places, _example(examples, row).to(model.device))
            for name, hidden in whole.items():
                # [1, t, d], [t, 1, d], [t, d] or [1, d], all [t, d] here; where one vector stands for the whole example, t is 1.
                vectors = hidden.reshape(-1, hidden.shape[-1])
                counted = len(vectors) == 1 or examples.kind == "tensor"
                at = vectors[list(rule.positions(len(vectors)) if counted else range(*examples.reads[row]))]
                pooled = {"select": at, "all": at, "mean": at.mean(dim=0, keepdim=True), "max": at.amax(dim=0, keepdim=True)}
                found[name].append(pooled[rule.reduces].to("cpu"))
    return {name: torch.cat(rows) for name, rows in found.items()}


def naive_logits(model: Model, data: Data, *, chat: bool = False) -> list[torch.Tensor]:
    """All logits ``[t, v]`` of each text, from the whole model, in float32; what `transect.capture.outputs` reads without keeping.

    Examples:
        >>> from transect.testing.tiny import tiny
        >>> [logits.shape for logits in naive_logits(tiny("llama"), ["Yes", "It is"])]
        [torch.Size([2, 384]), torch.Size([4, 384])]
    """
    examples = read_examples(model, data, parse_tokens("last"), chat=chat, truncate=False)
    with untouched(model.module) as overwrites:
        found = []
        for row in range(len(examples)):
            with overwrites if row == 0 or overwrites.any else contextlib.nullcontext():
                found.append(model.module(_example(examples, row).to(model.device)).logits[0].float().cpu())
    return found


def naive_token_losses(model: Model, data: Data, *, chat: bool = False) -> list[torch.Tensor]:
    """Negative log-likelihood in nats of each token of each text after its first, ``[t - 1]`` each.

    Examples:
        >>> from transect.testing.tiny import tiny
        >>> [losses.shape for losses in naive_token_losses(tiny("llama"), ["Yes", "It is"])]
        [torch.Size([1]), torch.Size([3])]
    """
    examples = read_examples(model, data, parse_tokens("last"), chat=chat, truncate=False)
    found = []
    for row, logits in enumerate(naive_logits(model, data, chat=chat)):
        following = _example(examples, row)[0, 1:]
        found.append(-torch.log_softmax(logits, dim=-1)[torch.arange(len(following)), following])
    return found


def _whole(model: Model, places: Sequence[Place], value: torch.Tensor) -> dict[str, torch.Tensor]:
    """The whole tensor at each place for one example."""
    kept: dict[str, torch.Tensor] = {}

    def before(place: Place, _module: Any, args: Any, kwargs: dict[str, Any]) -> None:
        kept[place.name] = first_tensor((*args, *kwargs.values()), place).clone()

    def after(place: Place, _module: Any, _args: Any, output: Any) -> None:
        kept[place.name] = first_tensor(output, place).clone()

    handles = []
    try:
        for place in places:
            module = model.module.get_submodule(place.module)
            if place.end == "input":
                handles.append(module.register_forward_pre_hook(functools.partial(before, place), with_kwargs=True))
            else:
                handles.append(module.register_forward_hook(functools.partial(after, place)))
        model.backbone(value)
    finally:
        for handle in handles:
            handle.remove()
    return kept


def _example(examples: Examples, row: int) -> torch.Tensor:
    """One example as a batch of one."""
    if examples.tensor is not None:
        return examples.tensor[row : row + 1]
    start, stop = examples.offsets[row : row + 2]
    return torch.from_numpy(examples.ids[start:stop]).long()[None]
