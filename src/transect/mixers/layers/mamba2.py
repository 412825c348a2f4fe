"""Mamba-2: a state space model with one data-dependent decay per head, and keys and queries that heads share.

Paper: Transformers are SSMs, Dao and Gu, arXiv 2405.21060. Parameters as in transformers' Mamba2.

    dt = softplus(W_dt x + dt_bias),   g = -exp(A_log) dt,   q = C, k = B, v = dt x,   y = norm((o + D x) * silu(W_z x))
"""

from functools import partial
from typing import final

import torch
from torch import nn
from torch.nn import functional

from transect.errors import InputError
from transect.mixers.layers.base import Op, steps
from transect.mixers.layers.projected import ProjectedLayer
from transect.mixers.simple_gla import simple_gla


@final
class Mamba2(ProjectedLayer):
    """Mamba-2: a state space model with one data-dependent decay per head, and keys and queries that heads share.

    ``[B, T, hidden_size]`` to the same; see `SequenceLayer.forward` for caches, masks and packed sequences. Here q is the paper's C, k its
    B and v its x.

    Args:
        hidden_size: the width of inputs and outputs.
        num_heads: heads.
        head_k_dim: width of C and B, the paper's N.
        head_v_dim: width of a head of x, the paper's P; None for 2 hidden_size / num_heads.
        n_groups: heads of C and B, and groups of the norm; they divide num_heads.
        conv_size: tokens that the short convolution sees; None for no convolution.
        conv_bias: whether it has a bias.
        use_gate: whether the output is gated by the input.
        norm_eps: epsilon of the output norm.
        layer_idx: this layer's place in a cache.

    Raises:
        InputError: sizes that are not positive or do not divide.

    Examples:
        >>> import torch
        >>> layer = Mamba2(hidden_size=16, num_heads=2)
        >>> layer(torch.ones(1, 3, 16)).shape
        torch.Size([1, 3, 16])
    """

    def __init__(
        self,
        *,
        hidden_size: int,
        num_heads: int,
        head_k_dim: int = 128,
        head_v_dim: int | None = None,
        n_groups: int = 1,
        conv_size: int | None = 4,
        conv_bias: bool = True,
        use_gate: bool = True,
        norm_eps: float = 1e-5,
        layer_idx: int = 0,
    ) -> None:
        if head_v_dim is None and (num_heads < 1 or 2 * hidden_size % num_heads):
            raise InputError(f"expected num_heads that divide 2 hidden_size, or a head_v_dim, got {num_heads} and {hidden_size}.")
        super().__init__(
            hidden_size=hidden_size,
            num_heads=num_heads,
            head_k_dim=head_k_dim,
            head_v_dim=2 * hidden_size // num_heads if head_v_dim is None else head_v_dim,
            keys_per_token=1,
            conv_size=conv_size,
            use_gate=use_gate,
            norm_eps=norm_eps,
            layer_idx=layer_idx,
            num_k_heads=n_groups,
            conv_bias=conv_bias,
        )
        self.dt_proj = nn.Linear(hidden_size, num_heads, bias=False)
        self.dt_bias = nn.Parameter(steps(num_heads))
        self.A_log = nn.Parameter(torch.arange(1.0, num_heads + 1).log())
        self.D = nn.Parameter(torch.ones(num_heads))
        self.norm = nn.RMSNorm(num_heads * self.head_v_dim, eps=norm_eps)
        self.norm_eps = norm_eps

    @property
    def op(self) -> Op:
        """Linear attention with one decay per head, read without a scale."""
        return partial(simple_gla, scale=1.0)

    def inputs(self, x: torch.Tensor, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> dict[str, torch.Tensor]:
        """C, B, the inputs times their step sizes, and decays of one number per head."""
        dt = functional.softplus(self.dt_proj(x).to(self.dt_bias.dtype) + self.dt_bias)
        return {"q": q, "k": k, "v": v * dt[..., None], "g": -self.A_log.exp() * dt}

    def finish(self, x: torch.Tensor, o: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        """The outputs with what skips the state, gated and then normalised, group by group."""
        y = (o + self.D[:, None] * v).flatten(2)
        if self.g_proj is not None:
            y = y * functional.silu(self.g_proj(x))
        groups = y.unflatten(2, (self.num_k_heads, -1))
        y = functional.rms_norm(groups, groups.shape[-1:], eps=self.norm_eps).flatten(2) * self.norm.weight
        return y.view_as(o)
