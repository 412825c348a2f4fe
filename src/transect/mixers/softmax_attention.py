"""Softmax attention, whole or within a sliding window, for stacks that mix it with linear-time layers.

Papers: Attention Is All You Need, Vaswani et al., arXiv 1706.03762; the window is that of Longformer, Beltagy et al., arXiv 2004.05150.

    o_t = sum_s softmax_s(scale q_t^T k_s) v_s,   s = 1 ... t, or the last `window` of them

Its memory is every key and value (of the window), so it grows with the sequence where other layers' does not.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, final, get_args

import torch
from torch.nn import functional

from transect.errors import InputError, near_matches
from transect.mixers.algebra import checked_bounds

SoftmaxForm = Literal["auto", "parallel", "naive"]


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class KeysAndValues:
    """The keys and values of tokens that came before, the last of them at the right end.

    Args:
        k: ``[N, P, H, K]``.
        v: ``[N, P, H, V]``.
        seen: ``[N]``, how many of the P each sequence really has; what stands before them is not looked at.
    """

    k: torch.Tensor
    v: torch.Tensor
    seen: torch.Tensor

    def check(self, like: torch.Tensor, values: torch.Tensor, *, sequences: int) -> None:
        """Refuse what did not come from the same layer and batch as the keys `like` and the `values`.

        Raises:
            InputError: another number of sequences or heads, or other widths.
        """
        wanted = [[sequences, self.k.shape[1], *part.shape[2:]] for part in (like, values)]
        if [list(self.k.shape), list(self.v.shape)] != wanted or self.seen.shape != (sequences,):
            raise InputError(
                f"expected a past of k {wanted[0]}, v {wanted[1]} and seen [{sequences}], got {list(self.k.shape)}, {list(self.v.shape)} and"
                f" {list(self.seen.shape)}. Pass the keys and values of the same layer and sequences."
            )

    def of(self, row: int) -> "KeysAndValues":
        """Those of one sequence, without filling."""
        count = int(self.seen[row])
        start = self.k.shape[1] - count
        return KeysAndValues(k=self.k[row : row + 1, start:], v=self.v[row : row + 1, start:], seen=self.seen[row : row + 1])


def softmax_attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    scale: float | None = None,
    window: int | None = None,
    past: KeysAndValues | None = None,
    cu_seqlens: torch.Tensor | Sequence[int] | None = None,
    form: SoftmaxForm = "auto",
) -> torch.Tensor:
    """Causal softmax attention.

    Args:
        q: queries ``[B, T, H, K]``.
        k: keys ``[B, T, G, K]``; H is a multiple of G.
        v: values ``[B, T, G, V]``.
        scale: what scores are multiplied by; None for K ** -0.5.
        window: how many tokens a token sees, its own among them; None for all.
        past: keys and values from before, of the sequences in the batch or packed.
        cu_seqlens: where sequences packed into a batch of 1 begin, and T.
        form: "parallel" (torch's own fused attention), "naive" (the definition, query by query), or "auto".

    Returns:
        Outputs ``[B, T, H, V]`` in the precision of v.

    Raises:
        InputError: shapes that do not belong together, bounds that do not rise from 0 to T, a window below 1, or a form that does not exist.

    Examples:
        >>> one = torch.ones(1, 3, 1, 1)
        >>> softmax_attention(one, one, torch.arange(3.0).view(1, 3, 1, 1)).flatten()
        tensor([0.0000, 0.5000, 1.0000])
        >>> softmax_attention(one, one, torch.arange(3.0).view(1, 3, 1, 1), window=1).flatten()
        tensor([0., 1., 2.])
    """
    if q.ndim != 4 or k.ndim != 4 or v.shape[:3] != k.shape[:3] or k.shape[:2] != q.shape[:2] or q.shape[2] % max(k.shape[2], 1):
        raise InputError(
            f"expected q [B, T, H, K], k [B, T, G, K] and v [B, T, G, V], got {list(q.shape)}, {list(k.shape)}, {list(v.shape)}."
        )
    if window is not None and window < 1:
        raise InputError(f"expected a window of at least 1 token, or None, got {window}.")
    if form not in get_args(SoftmaxForm):
        raise InputError(f"expected a form that exists, got {form!r}; {near_matches(str(form), get_args(SoftmaxForm))}.")
    factor = q.shape[3] ** -0.5 if scale is None else scale
    run = _naive if form == "naive" else _fused
    bounds = checked_bounds(cu_seqlens, batch=len(q), tokens=q.shape[1])
    if past is not None:
        past.check(k, v, sequences=len(q) if bounds is None else len(bounds) - 1)
    if bounds is None:
        return run(q, k, v, past, factor, window)
    parts = [
        run(q[:, start:end], k[:, start:end], v[:, start:end], None if past is None else past.of(row), factor, window)
        for row, (start, end) in enumerate(pairwise(bounds))
    ]
    return torch.cat(parts, 1)


def _joined(
    k: torch.Tensor, v: torch.Tensor, past: KeysAndValues | None, heads: int
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None, int]:
    """Keys and values of all tokens for all heads, which of the past ones are real where not all are, and how many there are."""
    before, real = 0, None
    if past is not None and past.k.shape[1]:
        before = past.k.shape[1]
        k, v = torch.cat([past.k.to(k.dtype), k], 1), torch.cat([past.v.to(v.dtype), v], 1)
        if not bool((past.seen >= before).all()):
            real = torch.arange(before, device=k.device) >= before - past.seen[:, None]
    repeats = heads // k.shape[2]
    if repeats > 1:
        k, v = k.repeat_interleave(repeats, 2), v.repeat_interleave(repeats, 2)
    return k, v, real, before


def _fused(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, past: KeysAndValues | None, scale: float, window: int | None) -> torch.Tensor:
    tokens = q.shape[1]
    if tokens == 0:
        return v.new_empty(len(v), 0, q.shape[2], v.shape[3])
    k, v, real, before = _joined(k, v, past, q.shape[2])
    q, k, v = q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)
    if window is None and not before:
        return functional.scaled_dot_product_attention(q, k, v, is_causal=True, scale=scale).transpose(1, 2)
    at = torch.arange(tokens, device=q.device)[:, None] + before
    key = torch.arange(before + tokens, device=q.device)
    mask = key <= at
    if window is not None:
        mask &= key > at - window
    if real is not None:
        mask = mask & functional.pad(real, (0, tokens), value=True)[:, None, None]
    return functional.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=scale).transpose(1, 2)


def _naive(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, past: KeysAndValues | None, scale: float, window: int | None) -> torch.Tensor:
    k, v, real, before = _joined(k, v, past, q.shape[2])
    outputs = []
    for row in range(len(q)):
        hidden = 0 if real is None else int((~real[row]).sum())
        for t in range(q.shape[1]):
            end = before + t + 1
            start = hidden if window is None else max(hidden, end - window)
            scores = scale * torch.einsum("hk,shk->hs", q[row, t], k[row, start:end])
            outputs.append(torch.einsum("hs,shv->hv", scores.softmax(-1), v[row, start:end]))
    if not outputs:
        return v.new_empty(len(v), 0, q.shape[2], v.shape[3])
    return torch.stack(outputs).unflatten(0, q.shape[:2])
