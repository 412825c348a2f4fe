"""Softmax attention as a layer: rotary positions, grouped keys, a window, and the gate and norms that recent models have.

Papers: Attention Is All You Need, Vaswani et al., arXiv 1706.03762; rotary positions, Su et al., arXiv 2104.09864. The gate is that of Qwen3-Next.
"""

from functools import partial
from typing import final

import torch
from torch import nn

from transect.errors import InputError
from transect.mixers.algebra import Form
from transect.mixers.layers.base import Inside, Mixed, Past, SequenceLayer, rotate
from transect.mixers.layers.packing import Packing
from transect.mixers.softmax_attention import KeysAndValues, softmax_attention


@final
class Attention(SequenceLayer):
    """Softmax attention, for stacks of both kinds; its cache grows with the sequence, or up to the window.

    ``[B, T, hidden_size]`` to the same; see `SequenceLayer.forward` for caches, masks and packed sequences.

    Args:
        hidden_size: the width of inputs and outputs.
        num_heads: heads of queries.
        num_kv_heads: heads of keys and values, which queries share in groups; None for num_heads.
        head_dim: width of a head; None for hidden_size / num_heads.
        window: how many tokens a token sees, its own among them; None for all.
        rotary_base: base of the rotary positions; None for no positions.
        rotary_fraction: the share of a head's channels that turn, from the first on.
        qk_norm: whether queries and keys are normalised head by head before they turn.
        use_gate: whether the output is gated by ``sigmoid(W_g x)``.
        norm_eps: epsilon of those norms.
        layer_idx: this layer's place in a cache.

    Raises:
        InputError: sizes that are not positive or do not divide.

    Examples:
        >>> import torch
        >>> layer = Attention(hidden_size=16, num_heads=2, window=4)
        >>> layer(torch.ones(1, 3, 16)).shape
        torch.Size([1, 3, 16])
    """

    forms = ("auto", "parallel", "naive")

    def __init__(
        self,
        *,
        hidden_size: int,
        num_heads: int,
        num_kv_heads: int | None = None,
        head_dim: int | None = None,
        window: int | None = None,
        rotary_base: float | None = 10000.0,
        rotary_fraction: float = 1.0,
        qk_norm: bool = False,
        use_gate: bool = False,
        norm_eps: float = 1e-6,
        layer_idx: int = 0,
    ) -> None:
        super().__init__(hidden_size=hidden_size, layer_idx=layer_idx)
        if num_heads < 1 or (head_dim is None and hidden_size % num_heads):
            raise InputError(f"expected num_heads that divide hidden_size, or a head_dim, got {num_heads} and {hidden_size}.")
        self.num_heads, self.num_kv_heads = num_heads, num_heads if num_kv_heads is None else num_kv_heads
        if self.num_kv_heads < 1 or num_heads % self.num_kv_heads:
            raise InputError(f"expected num_kv_heads that divide num_heads = {num_heads}, got {self.num_kv_heads}.")
        if window is not None and window < 1:
            raise InputError(f"expected a window of at least 1 token, or None, got {window}.")
        self.head_dim, self.window, self.rotary_base = head_dim or hidden_size // num_heads, window, rotary_base
        turning = self.head_dim * rotary_fraction
        if rotary_base is not None and (turning != int(turning) or int(turning) % 2 or not 0 < rotary_fraction <= 1 or rotary_base <= 1):
            raise InputError(
                "expected a rotary_base above 1 and a rotary_fraction of the head that is an even number of channels, got"
                f" {rotary_base} and {rotary_fraction} of {self.head_dim}."
            )
        self.turning = int(turning)
        queries, keys = num_heads * self.head_dim, self.num_kv_heads * self.head_dim
        self.q_proj = nn.Linear(hidden_size, queries, bias=False)
        self.k_proj = nn.Linear(hidden_size, keys, bias=False)
        self.v_proj = nn.Linear(hidden_size, keys, bias=False)
        self.g_proj = nn.Linear(hidden_size, queries, bias=False) if use_gate else None
        self.q_norm = nn.RMSNorm(self.head_dim, eps=norm_eps) if qk_norm else None
        self.k_norm = nn.RMSNorm(self.head_dim, eps=norm_eps) if qk_norm else None
        self.o_proj = nn.Linear(queries, hidden_size, bias=False)

    def mix(self, x: torch.Tensor, *, past: Past, packing: Packing, form: Form) -> Mixed:
        """Project, turn, and attend to the tokens before and to the own."""
        q, k, v = (project(x).unflatten(2, (-1, self.head_dim)) for project in (self.q_proj, self.k_proj, self.v_proj))
        if self.q_norm is not None and self.k_norm is not None:
            q, k = self.q_norm(q), self.k_norm(k)
        if self.rotary_base is not None:
            positions = packing.positions(past.seen)
            q, k = (
                torch.cat([rotate(part[..., : self.turning], positions, base=self.rotary_base), part[..., self.turning :]], -1)
                for part in (q, k)
            )
        before = None
        if past.parts:
            held = past.parts["keys"], past.parts["values"]
            before = KeysAndValues(k=held[0], v=held[1], seen=past.seen.clamp(max=held[0].shape[1]))
        chosen = "naive" if form == "naive" else "parallel"
        o = softmax_attention(q, k, v, window=self.window, past=before, cu_seqlens=packing.bounds, form=chosen)
        y = o.flatten(2)
        if self.g_proj is not None:
            y = y * self.g_proj(x).sigmoid()
        parts = {"keys": self._kept(k, None if before is None else before.k, past, packing)}
        parts["values"] = self._kept(v, None if before is None else before.v, past, packing)
        groups = self.num_heads // self.num_kv_heads
        given = {"q": q, "k": k.repeat_interleave(groups, 2), "v": v.repeat_interleave(groups, 2)}
        inside = Inside(
            inputs=given,
            o=o,
            initial_state=None,
            final_state=None,
            cu_seqlens=packing.bounds,
            op=partial(_beside_the_past, before=before, window=self.window),
        )
        return Mixed(y=self.o_proj(y), parts=parts, inside=inside)

    def _kept(self, new: torch.Tensor, old: torch.Tensor | None, past: Past, packing: Packing) -> torch.Tensor:
        """What the next call needs of keys or values ``[N, P, G, D]``, at the right end; zeros before the first token."""
        if packing.bounds is None:
            kept = new if old is None else torch.cat([old.to(new.dtype), new], 1)
        else:
            rows = [new[0, start:end] for start, end in zip(packing.bounds, packing.bounds[1:], strict=False)]
            if old is not None:
                counts = past.seen.clamp(max=old.shape[1]).tolist()
                rows = [
                    torch.cat([held[len(held) - count :].to(new.dtype), row]) for held, count, row in zip(old, counts, rows, strict=True)
                ]
            longest = max(len(row) for row in rows)
            kept = torch.stack([nn.functional.pad(row, (0, 0, 0, 0, longest - len(row), 0)) for row in rows])
        return kept if self.window is None else kept[:, max(kept.shape[1] - self.window + 1, 0) :]


def _beside_the_past(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    before: KeysAndValues | None,
    window: int | None,
    cu_seqlens: tuple[int, ...] | None,
) -> tuple[torch.Tensor, None]:
    """The part of the outputs that comes from these values, those of the past being 0."""
    groups = k.shape[2]
    if before is not None:
        nothing = v.new_zeros(*before.v.shape[:2], groups, v.shape[3])
        before = KeysAndValues(k=before.k.repeat_interleave(groups // before.k.shape[2], 2), v=nothing, seen=before.seen)
    return softmax_attention(q, k, v, window=window, past=before, cu_seqlens=cu_seqlens), None
