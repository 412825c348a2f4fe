"""Gated linear attention: a data-dependent decay for each channel of the keys.

Paper: Gated Linear Attention Transformers, Yang et al., arXiv 2312.06635.

    g = logsigmoid(W_2 W_1 x + b) / gate_logit_normalizer
"""

from typing import final

import torch
from torch import nn
from torch.nn import functional

from transect.errors import InputError
from transect.mixers.gla import gla
from transect.mixers.layers.base import Op
from transect.mixers.layers.projected import ProjectedLayer


@final
class GLA(ProjectedLayer):
    """Gated linear attention: a data-dependent decay for each channel of the keys.

    ``[B, T, hidden_size]`` to the same; see `SequenceLayer.forward` for caches, masks and packed sequences.

    Args:
        hidden_size: the width of inputs and outputs.
        num_heads: heads.
        head_k_dim: width of a head's queries and keys; None for hidden_size / num_heads.
        head_v_dim: width of a head's values; None for head_k_dim.
        conv_size: tokens that the short convolution sees; None for no convolution.
        use_gate: whether the output is gated by the input.
        gate_low_rank_dim: rank of the projection of the decays.
        gate_logit_normalizer: what the log decays are divided by, above 0.
        norm_eps: epsilon of the output norm.
        layer_idx: this layer's place in a cache.

    Raises:
        InputError: sizes that are not positive or do not divide, or a normalizer that is not above 0.

    Examples:
        >>> import torch
        >>> layer = GLA(hidden_size=16, num_heads=2)
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
        use_gate: bool = True,
        gate_low_rank_dim: int = 16,
        gate_logit_normalizer: float = 16.0,
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
        if gate_low_rank_dim < 1 or gate_logit_normalizer <= 0:
            raise InputError(
                f"expected gate_low_rank_dim and gate_logit_normalizer above 0, got {gate_low_rank_dim}, {gate_logit_normalizer}."
            )
        self.gk_proj = nn.Sequential(
            nn.Linear(hidden_size, gate_low_rank_dim, bias=False), nn.Linear(gate_low_rank_dim, num_heads * self.head_k_dim)
        )
        self.gate_logit_normalizer = gate_logit_normalizer

    @property
    def op(self) -> Op:
        """Gated linear attention."""
        return gla

    def inputs(self, x: torch.Tensor, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> dict[str, torch.Tensor]:
        """Queries, keys and values as they are, and decays for each channel of the keys."""
        g = functional.logsigmoid(self.gk_proj(x)) / self.gate_logit_normalizer
        return {"q": q, "k": k, "v": v, "g": g.unflatten(2, (self.num_heads, self.head_k_dim))}
