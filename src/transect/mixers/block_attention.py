"""Softmax attention within blocks of the sequence that do not overlap.

Paper: The Devil in Linear Transformer, Qin et al., arXiv 2210.10340, where it is called DiagAttention.

    o_t = sum_s softmax_s(scale q_t^T k_s) v_s,   s = w floor(t / w) ... t,   with t counted from 0

The blocks are those of the whole sequence, however it is cut: the tokens of a block that came in an earlier call are the past.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import get_args

import torch

from transect.errors import InputError, near_matches
from transect.mixers.algebra import checked_bounds
from transect.mixers.softmax_attention import KeysAndValues, SoftmaxForm, softmax_attention


def block_attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    block_size: int,
    scale: float | None = None,
    past: KeysAndValues | None = None,
    cu_seqlens: torch.Tensor | Sequence[int] | None = None,
    form: SoftmaxForm = "auto",
) -> torch.Tensor:
    """Causal softmax attention within blocks.

    Args:
        q: queries ``[B, T, H, K]``.
        k: keys ``[B, T, H, K]``.
        v: values ``[B, T, H, V]``.
        block_size: w, tokens in a block.
        scale: what scores are multiplied by; None for K ** -0.5.
        past: keys and values of the block in which each sequence goes on, fewer than w of them.
        cu_seqlens: where sequences packed into a batch of 1 begin, and T.
        form: "parallel" (all blocks at once), "naive" (the definition, query by query), or "auto".

    Returns:
        Outputs ``[B, T, H, V]`` in the precision of v.

    Raises:
        InputError: shapes that do not belong together, bounds that do not rise from 0 to T, a block size below 1, or a form that does not exist.

    Examples:
        >>> one = torch.ones(1, 4, 1, 1)
        >>> block_attention(one, one, torch.arange(4.0).view(1, 4, 1, 1), block_size=2).flatten()
        tensor([0.0000, 0.5000, 2.0000, 2.5000])
    """
    if q.ndim != 4 or k.shape != q.shape or v.ndim != 4 or v.shape[:3] != k.shape[:3]:
        raise InputError(f"expected q, k [B, T, H, K] and v [B, T, H, V], got {list(q.shape)}, {list(k.shape)}, {list(v.shape)}.")
    if block_size < 1:
        raise InputError(f"expected a block_size of at least 1 token, got {block_size}.")
    bounds = checked_bounds(cu_seqlens, batch=len(q), tokens=q.shape[1])
    lengths = [q.shape[1]] * len(q) if bounds is None else [end - start for start, end in pairwise(bounds)]
    if past is not None:
        past.check(k, v, sequences=len(lengths))
    if past is not None and len(past.seen) and int(past.seen.max()) >= block_size:
        raise InputError(f"expected a past of fewer than block_size = {block_size} tokens, got {int(past.seen.max())}.")
    if form not in get_args(SoftmaxForm):
        raise InputError(f"expected a form that exists, got {form!r}; {near_matches(str(form), get_args(SoftmaxForm))}.")
    run = _naive if form == "naive" else _parallel
    q = q * (q.shape[3] ** -0.5 if scale is None else scale)
    return run(q, k, v, past, block_size, lengths)


def _parallel(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, past: KeysAndValues | None, size: int, lengths: list[int]) -> torch.Tensor:
    """Every token in its slot of a batch of blocks; the slots that are left over come after all tokens of their sequence."""
    counts = [0] * len(lengths) if past is None else past.seen.tolist()
    places, before, slots = [], [], 0
    for count, length in zip(counts, lengths, strict=True):
        before += range(slots, slots + count)
        places += range(slots + count, slots + count + length)
        slots += -(-(count + length) // size) * size
    at = torch.tensor(places, dtype=torch.long, device=q.device)

    def blocks(x: torch.Tensor, held: torch.Tensor | None) -> torch.Tensor:
        whole = x.new_zeros(slots, *x.shape[2:]).index_copy(0, at, x.flatten(0, 1))
        if held is not None and past is not None:
            real = torch.arange(held.shape[1], device=x.device) >= held.shape[1] - past.seen[:, None]
            whole = whole.index_copy(0, torch.tensor(before, dtype=torch.long, device=x.device), held[real].to(x.dtype))
        return whole.unflatten(0, (-1, size))

    if slots == 0:
        return v
    held = (None, None) if past is None else (past.k, past.v)
    o = softmax_attention(blocks(q, None), blocks(k, held[0]), blocks(v, held[1]), scale=1.0)
    return o.flatten(0, 1).index_select(0, at).view(v.shape)


def _naive(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, past: KeysAndValues | None, size: int, lengths: list[int]) -> torch.Tensor:
    q, k, v, shape = q.flatten(0, 1), k.flatten(0, 1), v.flatten(0, 1), v.shape
    outputs, first = [v[:0]], 0
    for row, length in enumerate(lengths):
        keys, values = k[first : first + length], v[first : first + length]
        count = 0
        if past is not None:
            held = past.of(row)
            keys, values, count = torch.cat([held.k[0].to(k.dtype), keys]), torch.cat([held.v[0].to(v.dtype), values]), held.k.shape[1]
        for t in range(count, count + length):
            seen = slice(t // size * size, t + 1)
            scores = torch.einsum("hk,shk->hs", q[first + t - count], keys[seen])
            outputs.append(torch.einsum("hs,shv->hv", scores.softmax(-1), values[seen])[None])
        first += length
    return torch.cat(outputs).view(shape)
