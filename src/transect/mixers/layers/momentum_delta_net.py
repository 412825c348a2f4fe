"""Momentum DeltaNet: the gated delta rule with momentum, on unit keys.

Paper: Momentum DeltaNet (MDN), 2026; see `transect.mixers.momentum` for the formula.

    mu = max_momentum sigmoid(W_m x + b_m);   g, beta, q and k as in Gated DeltaNet
"""

from typing import final

import torch
from torch import nn
from torch.nn import functional

from transect.errors import InputError
from transect.mixers.layers.base import Op, steps, unit
from transect.mixers.layers.projected import ProjectedLayer
from transect.mixers.momentum import momentum_delta_rule


@final
class MomentumDeltaNet(ProjectedLayer):
    """Momentum DeltaNet: the gated delta rule with momentum, on unit keys.

    ``[B, T, hidden_size]`` to the same; see `SequenceLayer.forward` for caches, masks and packed sequences.

    Args:
        hidden_size: the width of inputs and outputs.
        num_heads: heads.
        head_k_dim: width of a head's queries and keys; None for hidden_size / num_heads.
        head_v_dim: width of a head's values; None for head_k_dim.
        max_momentum: the most of the momentum that may stay, from above 0 to below 1. High momentum with slow decay lets the state grow without
            bound; see `transect.mixers.momentum`.
        conv_size: tokens that the short convolution sees; None for no convolution.
        use_gate: whether the output is gated by the input.
        norm_eps: epsilon of the output norm.
        layer_idx: this layer's place in a cache.

    Raises:
        InputError: sizes that are not positive or do not divide, or a max_momentum outside its range.

    Examples:
        >>> import torch
        >>> layer = MomentumDeltaNet(hidden_size=16, num_heads=2)
        >>> layer(torch.ones(1, 3, 16)).shape
        torch.Size([1, 3, 16])
    """

    alias = "mdn"

    def __init__(
        self,
        *,
        hidden_size: int,
        num_heads: int,
        head_k_dim: int | None = None,
        head_v_dim: int | None = None,
        max_momentum: float = 0.9,
        conv_size: int | None = 4,
        use_gate: bool = True,
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
        if not 0 < max_momentum < 1:
            raise InputError(f"expected a max_momentum above 0 and below 1, got {max_momentum}.")
        self.max_momentum = max_momentum
        self.a_proj = nn.Linear(hidden_size, num_heads, bias=False)
        self.A_log = nn.Parameter(torch.empty(num_heads).uniform_(1, 16).log())
        self.dt_bias = nn.Parameter(steps(num_heads))
        self.b_proj = nn.Linear(hidden_size, num_heads, bias=False)
        self.m_proj = nn.Linear(hidden_size, num_heads)

    @property
    def op(self) -> Op:
        """The delta rule with momentum."""
        return momentum_delta_rule

    def inputs(self, x: torch.Tensor, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> dict[str, torch.Tensor]:
        """Unit queries and keys, decays, momenta and strengths of one number per head."""
        g = -self.A_log.exp() * functional.softplus(self.a_proj(x).to(self.A_log.dtype) + self.dt_bias)
        mu = self.max_momentum * self.m_proj(x).sigmoid()
        return {"q": unit(q), "k": unit(k), "v": v, "g": g, "mu": mu, "beta": self.b_proj(x).sigmoid()}
