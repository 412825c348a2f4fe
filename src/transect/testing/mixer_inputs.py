"""The sequence ops of the package, and random inputs for them by the names of their arguments."""

import importlib
import inspect
import pkgutil
from collections.abc import Callable
from typing import Any

import torch

import transect
from transect.errors import InputError

Mixer = Callable[..., tuple[torch.Tensor, torch.Tensor | None]]


def all_mixers() -> list[Mixer]:
    """Every public sequence op of the package, found by walking it: a function with forms that can be packed.

    Examples:
        >>> {"delta_rule", "gla", "ssd"} <= {op.__name__ for op in all_mixers()}
        True
    """
    found: set[Mixer] = set()
    for module in pkgutil.walk_packages(transect.__path__, "transect."):
        if not module.ispkg:
            continue
        package = importlib.import_module(module.name)
        for value in (getattr(package, name) for name in getattr(package, "__all__", [])):
            if inspect.isfunction(value) and {"form", "cu_seqlens", "initial_state"} <= set(inspect.signature(value).parameters):
                found.add(value)
    return sorted(found, key=lambda op: op.__name__)


def mixer_inputs(op: Mixer, *, batch: int = 2, tokens: int = 11, seed: int = 0) -> dict[str, Any]:
    """Random inputs in float64 for an op whose arguments are named as the field names them.

    ``q, k [B, T, H, K]`` (keys of norm 1), ``v [B, T, H, V]``, ``g`` log decays per head or, where that is refused, per channel, ``beta
    [B, T, H]``, ``g_gamma [H]``; Mamba's ``x, dt, A, B, C, D``; ``num_householder`` makes k, v and beta twice as long. Of
    newer ops: ``level_weights [B, T, H, L]`` and ``positions [B, T]``; ``memories`` and ``shares [B, T, 2]``; ``read_q, read_k [B, T, H, K]``,
    ``score`` and ``gate [B, T, H]``; ``eta [H]``; ``mu`` and ``gamma [B, T, H]``.

    Examples:
        >>> from transect import mixers
        >>> {name: list(value.shape) for name, value in mixer_inputs(mixers.delta_rule, tokens=3).items()}
        {'q': [2, 3, 2, 3], 'k': [2, 3, 2, 3], 'v': [2, 3, 2, 4], 'beta': [2, 3, 2]}
    """
    draw = torch.Generator().manual_seed(seed)
    names = inspect.signature(op).parameters
    heads, width, depth = 2, 3, 4
    rank = 2 if "num_householder" in names else 1

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=draw, dtype=torch.float64)

    made = {
        "q": normal(batch, tokens, heads, width),
        "k": torch.nn.functional.normalize(normal(batch, tokens * rank, heads, width), dim=-1),
        "v": normal(batch, tokens * rank, heads, depth),
        "g": -normal(batch, tokens, heads).abs(),
        "beta": 2 * torch.rand(batch, tokens * rank, heads, generator=draw, dtype=torch.float64),
        "g_gamma": -normal(heads).abs(),
        "x": normal(batch, tokens, heads, depth),
        "dt": normal(batch, tokens, heads).abs(),
        "A": -normal(heads).abs(),
        "B": normal(batch, tokens, 1, width),
        "C": normal(batch, tokens, 1, width),
        "D": normal(heads),
        "num_householder": rank,
        "level_weights": normal(batch, tokens, heads, 6),
        "positions": torch.arange(tokens).expand(batch, tokens).contiguous(),
        "memories": torch.rand(batch, tokens, 3, generator=draw).argsort(-1)[..., :2],
        "shares": normal(batch, tokens, 2),
        "num_memories": 3,
        "read_q": normal(batch, tokens, heads, width),
        "read_k": normal(batch, tokens, heads, width),
        "score": normal(batch, tokens, heads).abs(),
        "gate": normal(batch, tokens, heads),
        "cache_size": 3,
        "eta": torch.rand(heads, generator=draw, dtype=torch.float64),
        "transitions": 0.5 * normal(batch, tokens, heads, width, width),
        "additions": normal(batch, tokens, heads, width),
        "mu": 0.9 * torch.rand(batch, tokens, heads, generator=draw, dtype=torch.float64),
        "r": normal(batch, tokens, heads, width),
        "w": -normal(batch, tokens, heads, width).abs(),
        "a": -0.5 * normal(batch, tokens, heads, width),
        "b": 0.5 * normal(batch, tokens, heads, width),
        "gamma": torch.rand(batch, tokens, heads, generator=draw, dtype=torch.float64),
        "factors": 0.7 * normal(batch, tokens, heads, width),
        "mixing": torch.eye(width, dtype=torch.float64) + 0.3 * normal(batch, tokens, heads, width, width),
        "log_weights": normal(batch, tokens, heads),
        "bonus": normal(heads),
    }
    found = {name: made[name] for name in names if name in made}
    try:
        op(**found)
    except InputError:
        found["g"] = -normal(batch, tokens, heads, width).abs()
        op(**found)
    return found
