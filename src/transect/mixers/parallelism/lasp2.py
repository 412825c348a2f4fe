"""LASP-2: one collective of states for each layer.

Paper: LASP-2: Rethinking Sequence Parallelism for Linear Attention and Its Hybrid, Sun et al., arXiv 2502.07563.

A shard of a sequence does to the state before it something affine, ``S <- T S + R``, and its outputs are ``o + Q S``. All four come
from one run of the op: with the values ``[v, 0]`` from the state ``[0, I]`` its outputs are ``[o, Q]`` and its final state ``[R, T]``. Every
rank gives its ``[R, T]``, whose size does not depend on the length, to every other, and composes those before its own. With the delta rule T is
a matrix; with decays it is diagonal, and sent as a matrix all the same.
"""

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist

from transect.errors import InputError
from transect.mixers.parallelism.traffic import AllGather, Traffic, agree, place

Op = Callable[..., tuple[torch.Tensor, torch.Tensor | None]]


def gathered(
    op: Op,
    *,
    v: torch.Tensor,
    initial_state: torch.Tensor | None = None,
    output_final_state: bool = False,
    group: dist.ProcessGroup | None = None,
    traffic: Traffic | None = None,
    **given: Any,
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """An op on a sequence whose shards lie on the ranks of a group in order; call it on every rank with the rank's own shard.

    Args:
        op: an op of `transect.mixers` whose state is ``[N, H, K, V]`` and takes its values as ``v``: linear_attention, retention,
            simple_gla, gla, hgrn2, delta_rule, gated_delta_rule, kda, delta_product.
        v: values of this shard, ``[B, T, H, V]``; shards may differ in T, and must agree in B, H, K, V and precision, which is compared.
        initial_state: the state before the whole sequence, the same on every rank, or None.
        output_final_state: whether to give the state after this shard back; on the last rank that is the final state.
        group: whose ranks; None for all.
        traffic: counts what is sent.
        given: what else the op takes, by name, of this shard.

    Returns:
        This shard's outputs ``[B, T, H, V]``, and the state after it, or None. Gradients flow between ranks, so the backward pass must be
        run on all of them.

    Raises:
        InputError: no process group, packed sequences, an op that has no such state, or ranks that disagree in their sizes.
    """
    rank, _ = place(group)
    if given.get("cu_seqlens") is not None:
        raise InputError("expected one sequence in each row, got cu_seqlens; packed sequences need not be divided.")
    out, whole = _affine(op, v, given)
    width = v.shape[3]
    traffic = Traffic() if traffic is None else traffic
    agree(dict(zip("BHKV", [*whole.shape[:3], width], strict=True)), like=whole, group=group, traffic=traffic)
    states = AllGather.apply(whole, group, traffic)
    before = torch.zeros_like(whole[..., :width]) if initial_state is None else initial_state.to(whole.dtype)
    for one in states[:rank]:
        before = one[..., width:] @ before + one[..., :width]
    o = out[..., :width] + (out[..., width:].transpose(1, 2) @ before).transpose(1, 2)
    after = whole[..., width:] @ before + whole[..., :width]
    # What no gradient asks for must still be asked for on every rank, or the others wait for ever.
    o = o + states[..., :0].sum()
    return o.to(v.dtype), after if output_final_state else None


def _affine(op: Op, v: torch.Tensor, given: dict[str, Any]) -> tuple[torch.Tensor, torch.Tensor]:
    """``[o, Q]`` and ``[R, T]`` of the module's formulas."""
    wide = v.to(torch.promote_types(v.dtype, torch.float32))
    found = op(v=wide[:, :0], output_final_state=True, **{name: _none_of(value, v, given) for name, value in given.items()})[1]
    if found is None or found.ndim != 4 or found.shape[3] != v.shape[3]:
        raise InputError("expected an op whose state is [N, H, K, V], with values as v; see `transect.mixers.parallelism.gathered`.")
    count, heads, keys, width = found.shape
    eye = torch.eye(keys, dtype=found.dtype, device=v.device).expand(count, heads, keys, keys)
    start = torch.cat([eye.new_zeros(count, heads, keys, width), eye], 3)
    values = torch.cat([wide, wide.new_zeros(*v.shape[:3], keys)], 3)
    out, state = op(v=values, initial_state=start, output_final_state=True, **given)
    if state is None:
        raise TypeError("the final state was asked for")
    return out, state


def _none_of(value: Any, v: torch.Tensor, given: dict[str, Any]) -> Any:
    """The same argument for no tokens at all; what is not one row per token stays."""
    rank = given.get("num_householder", 1)
    tokens = v.shape[1] // rank
    per_token = isinstance(value, torch.Tensor) and value.ndim >= 3 and value.shape[1] in (tokens, v.shape[1])
    return value[:, :0] if per_token else value
