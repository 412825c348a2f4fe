"""GPU kernels of flash-linear-attention for the recurrences that it has, where they may stand in for the chunk form.

Library: flash-linear-attention, https://github.com/fla-org/flash-linear-attention (the optional extra ``cuda``).

Its kernels compute in the 16-bit precision of the tensor cores, so they are used for 16-bit tensors on CUDA alone; what is given in 32 or 64 bits is
promised to be computed in them and stays with the chunk form, as do heads wider than the kernels take and decays through which they would lose a
chunk's precision. With an op's ``form="chunk"`` they are never used.

Left out, as of version 0.6: its momentum delta rule, which takes no packed sequences and whose outputs and gradients were not those of the definition when
run through Triton's interpreter; RWKV-4, a loop over tokens there; and log-linear attention, whose state is another.
"""

import importlib
import importlib.util
from collections.abc import Callable
from typing import Any

import torch

from transect.mixers.algebra import Recurrence

_WIDEST = 256  # key channels that the delta kernels keep in one block
_DEEPEST = -30.0  # log decay of one token; below it sums over a chunk of 64 lose the digits that their differences need

Kernel = Callable[..., tuple[torch.Tensor, torch.Tensor]]


def kernel_for(problem: Recurrence, dtype: torch.dtype) -> Kernel | None:
    """What computes this problem on its device, or None where only our own forms do.

    Args:
        problem: the recurrence, in 32 bits or more.
        dtype: in which it was given.
    """
    return named_kernel(problem) if _fits(problem, dtype) else None


def rwkv7_kernel_for(problem: Recurrence, dtype: torch.dtype) -> Kernel | None:
    """As `kernel_for`, for RWKV-7's recurrence: the kernel also takes what erases and replaces, a and b."""
    return _imported("rwkv7", "chunk_rwkv7") if _fits(problem, dtype) else None


def named_kernel(problem: Recurrence) -> Kernel | None:
    """The function of flash-linear-attention for a kind of transition; None where it has none, or a version without it is installed."""
    per_channel = problem.g is not None and problem.g.shape[3] > 1
    if problem.beta is None:
        if problem.rank > 1:
            return None
        module, name = ("gla", "chunk_gla") if per_channel else ("simple_gla", "chunk_simple_gla")
    elif problem.rank > 1:
        if per_channel:
            return None
        module, name = "gated_delta_product", "chunk_gated_delta_product"
    elif problem.g is None:
        module, name = "delta_rule", "chunk_delta_rule"
    else:
        module, name = ("kda", "chunk_kda") if per_channel else ("gated_delta_rule", "chunk_gated_delta_rule")
    return _imported(module, name)


def run_kernel(kernel: Kernel, problem: Recurrence, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    """Outputs ``[B, T, H, V]`` and the last state ``[N, H, K, V]`` in 32 bits, by a kernel that `kernel_for` found."""
    given: dict[str, Any] = {"q": problem.q.to(dtype), "k": problem.k.to(dtype), "v": problem.v.to(dtype), "scale": problem.scale}
    given |= {"initial_state": problem.state, "output_final_state": True}
    if problem.g is not None:
        given["g"] = problem.g if problem.g.shape[3] > 1 else problem.g[..., 0]
    if problem.beta is not None:
        given["beta"] = problem.beta.to(dtype)
    if problem.rank > 1:
        given |= {"num_householder": problem.rank, "g": given.get("g")}
    return kernel(**given, **_packed(problem))


def run_rwkv7_kernel(
    kernel: Kernel, problem: Recurrence, dtype: torch.dtype, *, a: torch.Tensor, b: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """As `run_kernel`, by a kernel that `rwkv7_kernel_for` found."""
    given: dict[str, Any] = {"r": problem.q, "k": problem.k, "v": problem.v, "a": a, "b": b}
    given = {name: part.to(dtype) for name, part in given.items()}
    given |= {"w": problem.g, "scale": problem.scale, "initial_state": problem.state, "output_final_state": True}
    return kernel(**given, **_packed(problem))


def _fits(problem: Recurrence, dtype: torch.dtype) -> bool:
    if not problem.q.is_cuda or dtype not in (torch.float16, torch.bfloat16) or torch.compiler.is_compiling():
        return False
    if problem.q.shape[3] > _WIDEST or importlib.util.find_spec("fla") is None:
        return False
    return problem.g is None or not problem.g.numel() or float(problem.g.detach().amin()) >= _DEEPEST


def _imported(module: str, name: str) -> Kernel | None:
    try:
        return getattr(importlib.import_module(f"fla.ops.{module}"), name, None)
    except ImportError:
        return None


def _packed(problem: Recurrence) -> dict[str, Any]:
    return {} if problem.bounds is None else {"cu_seqlens": torch.tensor(problem.bounds, dtype=torch.long, device=problem.q.device)}
