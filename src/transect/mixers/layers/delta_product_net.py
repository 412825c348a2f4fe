"""DeltaProduct: several delta steps per token, on unit keys.

Paper: DeltaProduct, Siems et al., arXiv 2502.10297.

    beta_j = sigmoid(W_b x)_j,   q, k_j of norm 1,   j = 1 ... num_householder
"""

from functools import partial
from typing import final

import torch
from torch import nn
from torch.nn import functional

from transect.mixers.delta_product import delta_product
from transect.mixers.layers.base import Op, steps, unit
from transect.mixers.layers.projected import ProjectedLayer


@final
class DeltaProductNet(ProjectedLayer):
    """DeltaProduct: several delta steps per token, on unit keys.

    ``[B, T, hidden_size]`` to the same; see `SequenceLayer.forward` for caches, masks and packed sequences.

    Args:
        hidden_size: the width of inputs and outputs.
        num_heads: heads.
        head_k_dim: width of a head's queries and keys; None for hidden_size / num_heads.
        head_v_dim: width of a head's values; None for head_k_dim.
        conv_size: tokens that the short convolution sees; None for no convolution.
        use_gate: whether the output is gated by the input.
        num_householder: delta steps per token.
        allow_neg_eigval: whether beta may reach 2, so that a key can be reflected, and parities counted.
        use_forget_gate: whether the state decays.
        norm_eps: epsilon of the output norm.
        layer_idx: this layer's place in a cache.

    Raises:
        InputError: sizes that are not positive or do not divide.

    Examples:
        >>> import torch
        >>> layer = DeltaProductNet(hidden_size=16, num_heads=2)
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
        conv_size: int | None = 4,
        use_gate: bool = True,
        num_householder: int = 2,
        allow_neg_eigval: bool = True,
        use_forget_gate: bool = True,
        norm_eps: float = 1e-5,
        layer_idx: int = 0,
    ) -> None:
        super().__init__(
            hidden_size=hidden_size,
            num_heads=num_heads,
            head_k_dim=head_k_dim,
            head_v_dim=head_v_dim,
            keys_per_token=num_householder,
            conv_size=conv_size,
            use_gate=use_gate,
            norm_eps=norm_eps,
            layer_idx=layer_idx,
        )
        self.use_forget_gate = use_forget_gate
        self.a_proj = nn.Linear(hidden_size, num_heads, bias=False)
        self.A_log = nn.Parameter(torch.empty(num_heads).uniform_(1, 16).log())
        self.dt_bias = nn.Parameter(steps(num_heads))
        self.b_proj = nn.Linear(hidden_size, num_heads * num_householder, bias=False)
        self.strongest = 2.0 if allow_neg_eigval else 1.0

    @property
    def op(self) -> Op:
        """DeltaProduct with this many steps."""
        return partial(delta_product, num_householder=self.keys_per_token)

    def inputs(self, x: torch.Tensor, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> dict[str, torch.Tensor]:
        """Unit queries and keys, decays, and a beta for every key."""
        g = -self.A_log.exp() * functional.softplus(self.a_proj(x).to(self.A_log.dtype) + self.dt_bias)
        beta = self.strongest * self.b_proj(x).sigmoid().reshape(len(x), -1, self.num_heads)
        return {"q": unit(q), "k": unit(k), "v": v, "g": g if self.use_forget_gate else torch.zeros_like(g), "beta": beta}
