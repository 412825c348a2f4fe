"""Gated DeltaNet: the gated delta rule on unit keys.

Paper: Gated Delta Networks, Yang, Kautz and Hatamizadeh, arXiv 2412.06464. Parameters as in Qwen3-Next.

    g = -exp(A_log) softplus(W_a x + dt_bias),   beta = sigmoid(W_b x),   q, k of norm 1
"""

from typing import final

import torch
from torch import nn
from torch.nn import functional

from transect.mixers.gated_delta_rule import gated_delta_rule
from transect.mixers.layers.base import Op, steps, unit
from transect.mixers.layers.projected import ProjectedLayer


@final
class GatedDeltaNet(ProjectedLayer):
    """Gated DeltaNet: the gated delta rule on unit keys.

    ``[B, T, hidden_size]`` to the same; see `SequenceLayer.forward` for caches, masks and packed sequences.

    Args:
        hidden_size: the width of inputs and outputs.
        num_heads: heads.
        head_k_dim: width of a head's queries and keys; None for hidden_size / num_heads.
        head_v_dim: width of a head's values; None for head_k_dim.
        conv_size: tokens that the short convolution sees; None for no convolution.
        use_gate: whether the output is gated by the input.
        allow_neg_eigval: whether beta may reach 2, so that a key can be reflected, and parities counted.
        norm_eps: epsilon of the output norm.
        layer_idx: this layer's place in a cache.
        num_k_heads: heads of queries and keys, which values share in groups; None for num_heads.

    Raises:
        InputError: sizes that are not positive or do not divide.

    Examples:
        >>> import torch
        >>> layer = GatedDeltaNet(hidden_size=16, num_heads=2)
        >>> layer(torch.ones(1, 3, 16)).shape
        torch.Size([1, 3, 16])
    """

    alias = "gdn"

    def __init__(
        self,
        *,
        hidden_size: int,
        num_heads: int,
        head_k_dim: int | None = None,
        head_v_dim: int | None = None,
        conv_size: int | None = 4,
        use_gate: bool = True,
        allow_neg_eigval: bool = False,
        norm_eps: float = 1e-5,
        layer_idx: int = 0,
        num_k_heads: int | None = None,
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
            num_k_heads=num_k_heads,
        )
        self.a_proj = nn.Linear(hidden_size, num_heads, bias=False)
        self.A_log = nn.Parameter(torch.empty(num_heads).uniform_(1, 16).log())
        self.dt_bias = nn.Parameter(steps(num_heads))
        self.b_proj = nn.Linear(hidden_size, num_heads, bias=False)
        self.strongest = 2.0 if allow_neg_eigval else 1.0

    @property
    def op(self) -> Op:
        """The gated delta rule."""
        return gated_delta_rule

    def inputs(self, x: torch.Tensor, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> dict[str, torch.Tensor]:
        """Unit queries and keys, decays of one number per head, and beta."""
        g = -self.A_log.exp() * functional.softplus(self.a_proj(x).to(self.A_log.dtype) + self.dt_bias)
        return {"q": unit(q), "k": unit(k), "v": v, "g": g, "beta": self.strongest * self.b_proj(x).sigmoid()}
