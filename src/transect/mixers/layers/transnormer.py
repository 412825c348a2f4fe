"""TransNormer's two attentions: linear attention whose outputs are normalised instead of divided, and softmax attention within blocks.

Paper: The Devil in Linear Transformer, Qin et al., arXiv 2210.10340.

    o_t = rmsnorm(sum_{s <= t} (phi(q_t)^T phi(k_s)) v_s),   phi(x) = elu(x) + 1

Division by ``sum_s phi(q_t)^T phi(k_s)`` has gradients without bound where that sum is small; the norm's are bounded through its epsilon. The
paper has softmax attention within blocks in the early layers, where tokens should look at their neighbours, and this in the later ones.
"""

from functools import partial
from typing import final

import torch
from torch import nn
from torch.nn import functional

from transect.errors import InputError
from transect.mixers.algebra import Form
from transect.mixers.block_attention import block_attention
from transect.mixers.layers.base import Inside, Mixed, Op, Past, SequenceLayer, rotate
from transect.mixers.layers.packing import Packing
from transect.mixers.layers.projected import ProjectedLayer
from transect.mixers.linear_attention import linear_attention
from transect.mixers.softmax_attention import KeysAndValues


@final
class TransNormer(ProjectedLayer):
    """Linear attention whose outputs are normalised head by head, and not divided by their weights (the paper's NormAttention).

    ``[B, T, hidden_size]`` to the same; see `SequenceLayer.forward` for caches, masks and packed sequences.

    Args:
        hidden_size: the width of inputs and outputs.
        num_heads: heads.
        head_k_dim: width of a head's queries and keys; None for hidden_size / num_heads.
        head_v_dim: width of a head's values; None for head_k_dim.
        conv_size: tokens that the short convolution sees; None for no convolution.
        use_gate: whether the output is gated by the input.
        norm_eps: epsilon of the output norm, which bounds its gradients.
        layer_idx: this layer's place in a cache.

    Raises:
        InputError: sizes that are not positive or do not divide.

    Examples:
        >>> import torch
        >>> layer = TransNormer(hidden_size=16, num_heads=2)
        >>> layer(torch.ones(1, 3, 16)).shape
        torch.Size([1, 3, 16])
    """

    def __init__(
        self,
        *,
        hidden_size: int,
        num_heads: int,
        head_k_dim: int | None = None,
        head_v_dim: int | None = None,
        conv_size: int | None = None,
        use_gate: bool = False,
        norm_eps: float = 1e-5,
        layer_idx: int = 0,
    ) -> None:
        super().__init__(
            hidden_size=hidden_size,
            num_heads=num_heads,
            head_k_dim=head_k_dim,
            head_v_dim=head_v_dim,
            keys_per_token=1,
            conv_size=conv_size,
            use_gate=use_gate,
            norm_eps=norm_eps,
            layer_idx=layer_idx,
        )

    @property
    def op(self) -> Op:
        """Linear attention."""
        return linear_attention

    def inputs(
        self,
        x: torch.Tensor,  # noqa: ARG002 - nothing here depends on the input but q, k and v
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
    ) -> dict[str, torch.Tensor]:
        """Features of queries and keys, and values."""
        return {"q": functional.elu(q) + 1, "k": functional.elu(k) + 1, "v": v}


@final
class DiagonalAttention(SequenceLayer):
    """Softmax attention within blocks that do not overlap (the paper's DiagAttention); it remembers one block at most.

    ``[B, T, hidden_size]`` to the same; see `SequenceLayer.forward` for caches, masks and packed sequences.

    Args:
        hidden_size: the width of inputs and outputs.
        num_heads: heads.
        head_dim: width of a head; None for hidden_size / num_heads.
        block_size: tokens in a block; the first block begins with the first token of the sequence.
        rotary_base: base of the rotary positions; None for no positions.
        layer_idx: this layer's place in a cache.

    Raises:
        InputError: sizes that are not positive or do not divide.

    Examples:
        >>> import torch
        >>> layer = DiagonalAttention(hidden_size=16, num_heads=2, block_size=2)
        >>> layer(torch.ones(1, 3, 16)).shape
        torch.Size([1, 3, 16])
    """

    forms = ("auto", "parallel", "naive")

    def __init__(
        self,
        *,
        hidden_size: int,
        num_heads: int,
        head_dim: int | None = None,
        block_size: int = 64,
        rotary_base: float | None = 10000.0,
        layer_idx: int = 0,
    ) -> None:
        super().__init__(hidden_size=hidden_size, layer_idx=layer_idx)
        if num_heads < 1 or (head_dim is None and hidden_size % num_heads):
            raise InputError(f"expected num_heads that divide hidden_size, or a head_dim, got {num_heads} and {hidden_size}.")
        if block_size < 1:
            raise InputError(f"expected a block_size of at least 1 token, got {block_size}.")
        self.num_heads, self.head_dim, self.block_size = num_heads, head_dim or hidden_size // num_heads, block_size
        if rotary_base is not None and (self.head_dim % 2 or rotary_base <= 1):
            raise InputError(f"expected an even head_dim and a rotary_base above 1, got {self.head_dim} and {rotary_base}.")
        self.rotary_base = rotary_base
        self.qkv_proj = nn.Linear(hidden_size, 3 * num_heads * self.head_dim, bias=False)
        self.o_proj = nn.Linear(num_heads * self.head_dim, hidden_size, bias=False)

    def mix(self, x: torch.Tensor, *, past: Past, packing: Packing, form: Form) -> Mixed:
        """Project, turn, and attend to the tokens of the own block."""
        q, k, v = self.qkv_proj(x).unflatten(2, (3, self.num_heads, self.head_dim)).unbind(2)
        if self.rotary_base is not None:
            positions = packing.positions(past.seen)
            q, k = (rotate(part, positions, base=self.rotary_base) for part in (q, k))
        before, counts = None, past.seen % self.block_size
        if past.parts:
            before = KeysAndValues(k=past.parts["keys"], v=past.parts["values"], seen=counts)
        chosen = "naive" if form == "naive" else "parallel"
        o = block_attention(q, k, v, block_size=self.block_size, past=before, cu_seqlens=packing.bounds, form=chosen)
        left = (counts + packing.lengths()) % self.block_size
        parts = {
            name: _last(new, None if before is None else held, counts, left, packing)
            for name, new, held in (("keys", k, past.parts.get("keys")), ("values", v, past.parts.get("values")))
        }
        inside = Inside(
            inputs={"q": q, "k": k, "v": v},
            o=o,
            initial_state=None,
            final_state=None,
            cu_seqlens=packing.bounds,
            op=partial(_beside_the_past, before=before, block_size=self.block_size),
        )
        return Mixed(y=self.o_proj(o.flatten(2)), parts=parts, inside=inside)


def _last(new: torch.Tensor, old: torch.Tensor | None, counts: torch.Tensor, left: torch.Tensor, packing: Packing) -> torch.Tensor:
    """The last `left [N]` of the old (`counts [N]` of them) and the new, ``[N, P, H, D]``, at the right end; zeros before them."""
    rows = list(new) if packing.bounds is None else new[0].split(packing.lengths().tolist())
    if old is not None:
        rows = [
            torch.cat([held[len(held) - count :].to(new.dtype), row]) for held, count, row in zip(old, counts.tolist(), rows, strict=True)
        ]
    kept = [row[len(row) - count :] for row, count in zip(rows, left.tolist(), strict=True)]
    longest = int(left.max())
    return torch.stack([functional.pad(row, (0, 0, 0, 0, longest - len(row), 0)) for row in kept])


def _beside_the_past(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, before: KeysAndValues | None, block_size: int, cu_seqlens: tuple[int, ...] | None
) -> tuple[torch.Tensor, None]:
    """The part of the outputs that comes from these values, those of the past being 0."""
    if before is not None:
        before = KeysAndValues(k=before.k, v=v.new_zeros(*before.k.shape[:3], v.shape[3]), seen=before.seen)
    return block_attention(q, k, v, block_size=block_size, past=before, cu_seqlens=cu_seqlens), None
