"""Bidirectional linear attention as a layer, for encoders.

Paper: Linear Attention for Efficient Bidirectional Sequence Modeling (LION), Afzal et al., arXiv 2502.16249.
"""

from collections.abc import Sequence
from typing import Literal, final, get_args

import torch
from torch import nn
from torch.nn import functional

from transect.errors import InputError, near_matches
from transect.mixers.algebra import Form
from transect.mixers.bidirectional import bidirectional_attention
from transect.mixers.layers.feature_maps import Elu
from transect.mixers.layers.packing import Packing

Decay = Literal["none", "fixed", "selective", "channel"]


@final
class BidirectionalLinearAttention(nn.Module):
    """Bidirectional linear attention, ``[B, T, hidden_size]`` to the same; no cache, for it sees what comes after.

    Args:
        hidden_size: the width of inputs and outputs.
        num_heads: heads.
        decay: "none" (LION-LIT), "fixed" (LION-D, a learnt number per head), "selective" (LION-S, from each token), or "channel" (from each
            token, one for each channel).
        norm_eps: epsilon of the output norm.

    Raises:
        InputError: heads that do not divide, or a decay that does not exist.

    Examples:
        >>> layer = BidirectionalLinearAttention(hidden_size=16, num_heads=2)
        >>> layer(torch.ones(1, 3, 16)).shape
        torch.Size([1, 3, 16])
    """

    def __init__(self, *, hidden_size: int, num_heads: int, decay: Decay = "selective", norm_eps: float = 1e-5) -> None:
        super().__init__()
        if hidden_size < 1 or num_heads < 1 or hidden_size % num_heads:
            raise InputError(f"expected num_heads that divide hidden_size, got {num_heads} and {hidden_size}.")
        if decay not in get_args(Decay):
            raise InputError(f"expected a decay that exists, got {decay!r}; {near_matches(str(decay), get_args(Decay))}.")
        self.hidden_size, self.num_heads, self.decay = hidden_size, num_heads, decay
        self.qkv_proj = nn.Linear(hidden_size, 3 * hidden_size, bias=False)
        self.feature_map = Elu()
        self.gate = nn.Parameter(torch.linspace(2.0, 6.0, num_heads)) if decay == "fixed" else None
        width = {"selective": num_heads, "channel": hidden_size}.get(decay)
        self.gate_proj = None if width is None else nn.Linear(hidden_size, width)
        self.norm = nn.RMSNorm(hidden_size // num_heads, eps=norm_eps)
        self.o_proj = nn.Linear(hidden_size, hidden_size, bias=False)

    def forward(
        self,
        x: torch.Tensor,
        *,
        attention_mask: torch.Tensor | None = None,
        cu_seqlens: torch.Tensor | Sequence[int] | None = None,
        form: Form = "auto",
    ) -> torch.Tensor:
        """Mix the tokens of each sequence, both ways.

        Args:
            x: ``[B, T, hidden_size]``.
            attention_mask: ``[B, T]``, 0 for padding, anywhere; the output there is 0.
            cu_seqlens: where sequences packed into a batch of 1 begin, and T.
            form: as in `transect.mixers.bidirectional_attention`.

        Raises:
            InputError: an input of another width, or a mask or bounds that do not fit.
        """
        if x.ndim != 3 or x.shape[2] != self.hidden_size:
            raise InputError(f"expected x of shape [B, T, {self.hidden_size}], got {list(x.shape)}.")
        packing = Packing.of(x, attention_mask, cu_seqlens)
        q, k, v = self.qkv_proj(packing.x).unflatten(2, (3, self.num_heads, -1)).unbind(2)
        g = None
        if self.gate is not None:
            g = functional.logsigmoid(self.gate).expand(*q.shape[:3])
        elif self.gate_proj is not None:
            g = functional.logsigmoid(self.gate_proj(packing.x))
            g = g if self.decay == "selective" else g.view_as(k)
        o = bidirectional_attention(self.feature_map(q), self.feature_map(k), v, g, normalize=True, cu_seqlens=packing.bounds, form=form)
        return packing.unpack(self.o_proj(self.norm(o).flatten(2)))
