"""LASP: the state goes from rank to rank, as it would from token to token.

Paper: Linear Attention Sequence Parallelism, Sun et al., arXiv 2404.02882.

Each rank waits for the state of the one before, runs the op from it, and hands its own on; gradients go the other way. A message is one state,
whose size does not depend on the length.
"""

from typing import Any

import torch
import torch.distributed as dist

from transect.errors import InputError
from transect.mixers.parallelism.lasp2 import Op
from transect.mixers.parallelism.traffic import Traffic, place


def ring(
    op: Op,
    *,
    state_shape: tuple[int, ...],
    initial_state: torch.Tensor | None = None,
    output_final_state: bool = False,
    group: dist.ProcessGroup | None = None,
    traffic: Traffic | None = None,
    **given: Any,
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """An op on a sequence whose shards lie on the ranks of a group in order; call it on every rank with the rank's own shard.

    Args:
        op: any op of `transect.mixers` with a state; nothing is asked of it but that it goes on from one.
        state_shape: the state's shape, for instance ``(B, H, K, V)``, in the precision that the op computes in; all ranks must agree in both.
        initial_state: the state before the whole sequence; only the first rank's counts.
        output_final_state: whether to give the state after this shard back; on the last rank that is the final state.
        group: whose ranks; None for all.
        traffic: counts what is sent.
        given: what else the op takes, by name, of this shard.

    Returns:
        This shard's outputs, and the state after it, or None. Gradients flow between ranks, so the backward pass must be run on all of them.

    Raises:
        InputError: no process group, or packed sequences.
    """
    rank, ranks = place(group)
    if given.get("cu_seqlens") is not None:
        raise InputError("expected one sequence in each row, got cu_seqlens; packed sequences need not be divided.")
    traffic = Traffic() if traffic is None else traffic
    tensors = [value for value in given.values() if isinstance(value, torch.Tensor) and value.is_floating_point()]
    if rank > 0:
        dtype = torch.float32
        for value in tensors:
            dtype = torch.promote_types(dtype, value.dtype)
        # Autograd calls back only where something is asked for that what it calls depends on, so this depends on everything.
        asks = torch.stack([torch.zeros((), dtype=dtype), *(value.reshape(-1)[:1].sum().to(dtype) for value in tensors)]).sum()
        initial_state = _Receive.apply(asks, state_shape, rank - 1, group, traffic)
    out, state = op(initial_state=initial_state, output_final_state=True, **given)
    if state is None:
        raise TypeError("the final state was asked for")
    if rank < ranks - 1:
        out = _Send.apply(out, state, rank + 1, group, traffic)
    return out, state if output_final_state else None


def _global(rank: int, group: dist.ProcessGroup | None) -> int:
    return rank if group is None else dist.get_global_rank(group, rank)


class _Receive(torch.autograd.Function):
    """The state of the rank before; its gradient goes back there."""

    @staticmethod
    def forward(
        ctx: Any, asks: torch.Tensor, shape: tuple[int, ...], source: int, group: dist.ProcessGroup | None, traffic: Traffic
    ) -> torch.Tensor:
        ctx.source, ctx.group, ctx.traffic = source, group, traffic
        state = torch.empty(shape, dtype=asks.dtype)
        dist.recv(state, src=_global(source, group), group=group)
        return state

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        (grad,) = grads
        dist.send(grad.contiguous(), dst=_global(ctx.source, ctx.group), group=ctx.group)
        ctx.traffic.messages += 1
        ctx.traffic.numbers += grad.numel()
        return grad.new_zeros(()), None, None, None, None


class _Send(torch.autograd.Function):
    """The outputs as they are, once the state is on its way; in the backward pass its gradient comes back first."""

    @staticmethod
    def forward(
        ctx: Any, out: torch.Tensor, state: torch.Tensor, target: int, group: dist.ProcessGroup | None, traffic: Traffic
    ) -> torch.Tensor:
        ctx.target, ctx.group, ctx.shape, ctx.dtype = target, group, state.shape, state.dtype
        dist.send(state.contiguous(), dst=_global(target, group), group=group)
        traffic.messages += 1
        traffic.numbers += state.numel()
        return out.view_as(out)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        (grad,) = grads
        dstate = torch.empty(ctx.shape, dtype=ctx.dtype)
        dist.recv(dstate, src=_global(ctx.target, ctx.group), group=ctx.group)
        return grad, dstate, None, None, None
