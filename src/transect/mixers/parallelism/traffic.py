"""What went between the machines, counted, and what they must agree on."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, final

import torch
import torch.distributed as dist

from transect.errors import InputError


@final
@dataclass
class Traffic:
    """Messages of one rank so far; hand one in, and it counts.

    Args:
        collectives: calls in which all ranks take part and give tensors away.
        messages: messages sent from this rank to one other.
        numbers: numbers that this rank gave away in all of these.
        checks: calls in which all ranks compared a handful of sizes beforehand.
    """

    collectives: int = 0
    messages: int = 0
    numbers: int = 0
    checks: int = 0


def place(group: dist.ProcessGroup | None) -> tuple[int, int]:
    """This rank, and how many there are.

    Raises:
        InputError: no process group, or this process is not in it.
    """
    if not dist.is_available() or not dist.is_initialized():
        raise InputError("expected a process group; call torch.distributed.init_process_group first, or run under torchrun.")
    rank = dist.get_rank(group)
    if rank < 0:
        raise InputError("this process is not in the group that was given.")
    return rank, dist.get_world_size(group)


def agree(sizes: Mapping[str, int], *, like: torch.Tensor, group: dist.ProcessGroup | None, traffic: Traffic) -> None:
    """Compare sizes by name with every rank, before a collective that would hang or mix them up.

    Args:
        sizes: the same names in the same order on every rank.
        like: what is about to be sent; its precision is compared, too.
        group: whose ranks; None for all.
        traffic: counts the check.

    Raises:
        InputError: ranks that disagree, on every one of them.
    """
    mine = {**sizes, "bytes of a number": like.element_size()}
    own = torch.tensor(list(mine.values()), device=like.device)
    found = [torch.empty_like(own) for _ in range(dist.get_world_size(group))]
    dist.all_gather(found, own, group=group)
    traffic.checks += 1
    for rank, others in enumerate(torch.stack(found).tolist()):
        for (name, size), other in zip(mine.items(), others, strict=True):
            if size != other:
                raise InputError(f"expected all ranks to agree in {', '.join(mine)}, got {name} = {size} here and {other} on rank {rank}.")


class AllGather(torch.autograd.Function):
    """``[...]`` of every rank as ``[ranks, ...]``; the gradient comes back in one collective, of all ranks' parts at once."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, group: dist.ProcessGroup | None, traffic: Traffic) -> torch.Tensor:
        """Give and get."""
        ctx.group, ctx.traffic, ctx.rank = group, traffic, dist.get_rank(group)
        x = x.contiguous()
        found = [torch.empty_like(x) for _ in range(dist.get_world_size(group))]
        dist.all_gather(found, x, group=group)
        traffic.collectives += 1
        traffic.numbers += x.numel()
        return torch.stack(found)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        """What all ranks' gradients say of this rank's part."""
        (grad,) = grads
        grad = grad.contiguous().clone()
        dist.all_reduce(grad, group=ctx.group)
        ctx.traffic.collectives += 1
        ctx.traffic.numbers += grad.numel()
        return grad[ctx.rank], None, None
