"""Momentum DeltaNet: the gated delta rule with momentum, on unit keys, with gates that hang together.

Paper: Momentum DeltaNet (MDN), 2026; see `transect.mixers.momentum` for the formula. Gates as in the code published with it (HuuYuLong/MomentumDeltaNet):

    beta = 1 + tanh(W_e x / sqrt(hidden_size)),   theta = arctan(c beta),   c > 0 learnt for each head
    exp(g) = cos^2(theta) exp(-A softplus(W_a x + dt_bias)),   gamma = sin^2(theta) sigmoid(W_b x)
    mu = max_momentum sigmoid(W_m x + b_m),   q <- q - d k before both are brought to norm 1

What enters the memory is thus at most what leaves it. That alone does not keep it in hand: for c below about 1 there are gates, one after another, under which
both states grow without any input. Let m be max_momentum and ``w = m^2 / (1 - m^2)``. Where

    c >= m / (sqrt(2) (1 - m^2))

``|S|^2 + w |M|^2`` never grows but by what values add, whatever the keys and gates: along the key the transition is
``[[a (1 - gamma beta), gamma mu], [-a beta, mu]]`` of S and M, across it ``[[a, gamma mu], [0, mu]]``, and with a = exp(g) both are contractions in that norm,
because ``w beta^2 <= 2 (c beta)^2 (1 - m^2)``. So c is that much plus exp of what is learnt; the published code has the latter alone, and
``mu = exp(-A' softplus(.))``, not below exp(-2).
"""

import math
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
    """Momentum DeltaNet: the gated delta rule with momentum, on unit keys, with gates that hang together.

    ``[B, T, hidden_size]`` to the same; see `SequenceLayer.forward` for caches, masks and packed sequences.

    Args:
        hidden_size: the width of inputs and outputs.
        num_heads: heads.
        head_k_dim: width of a head's queries and keys; None for hidden_size / num_heads.
        head_v_dim: width of a head's values; None for head_k_dim.
        max_momentum: the most of the momentum that may stay, from above 0 to below 1. The higher it is, the more a write costs of what was there.
        min_coupling: the least c may be; None for where no state can grow by itself (0.97 at a max_momentum of 0.7, 3.3 at 0.9), 0 for the published
            gates, under which it can.
        correct_queries: whether part of the key is taken from the query.
        conv_size: tokens that the short convolution sees; None for no convolution.
        use_gate: whether the output is gated by the input.
        norm_eps: epsilon of the output norm.
        layer_idx: this layer's place in a cache.

    Raises:
        InputError: sizes that are not positive or do not divide, a max_momentum outside its range, or a min_coupling below 0.

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
        max_momentum: float = 0.7,
        min_coupling: float | None = None,
        correct_queries: bool = True,
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
        if min_coupling is not None and not 0 <= min_coupling < math.inf:
            raise InputError(f"expected a min_coupling of at least 0, or None for where no state can grow, got {min_coupling}.")
        self.max_momentum = max_momentum
        self.min_coupling = max_momentum / (2**0.5 * (1 - max_momentum**2)) if min_coupling is None else min_coupling
        self.a_proj = nn.Linear(hidden_size, num_heads, bias=False)
        self.A_log = nn.Parameter(torch.empty(num_heads).uniform_(1, 16).log())
        self.dt_bias = nn.Parameter(steps(num_heads))
        self.b_proj = nn.Linear(hidden_size, num_heads, bias=False)
        self.e_proj = nn.Linear(hidden_size, num_heads, bias=False)
        self.m_proj = nn.Linear(hidden_size, num_heads)
        self.log_coupling = nn.Parameter(torch.empty(num_heads).uniform_(0.01, 4).log())
        self.D_log = nn.Parameter(torch.empty(num_heads).uniform_(0.01, 1).log()) if correct_queries else None

    @property
    def op(self) -> Op:
        """The delta rule with momentum."""
        return momentum_delta_rule

    def inputs(self, x: torch.Tensor, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> dict[str, torch.Tensor]:
        """Unit queries and keys, and five gates of one number per head, in 32 bits at least."""
        wide = torch.promote_types(x.dtype, torch.float32)
        beta = 1 + (self.e_proj(x).to(wide) * self.hidden_size**-0.5).tanh()
        tangent = beta * (self.min_coupling + self.log_coupling.to(wide).exp())
        # cos^2 and sin^2 of the angle; through its cosine, neither overflows.
        cosine = torch.hypot(torch.ones_like(tangent), tangent).reciprocal()
        rate = self.A_log.to(wide).exp() * functional.softplus(self.a_proj(x).to(wide) + self.dt_bias.to(wide))
        if self.D_log is not None:
            q = q - self.D_log.exp()[:, None] * k
        return {
            "q": unit(q),
            "k": unit(k),
            "v": v,
            "g": 2 * cosine.log() - rate,
            "mu": self.max_momentum * self.m_proj(x).to(wide).sigmoid(),
            "beta": beta,
            "gamma": (tangent * cosine).square().clamp(max=1) * self.b_proj(x).to(wide).sigmoid(),
        }
