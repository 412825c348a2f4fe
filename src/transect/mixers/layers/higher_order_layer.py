"""Second-order linear attention as a layer.

Paper: Higher-order Linear Attention, Zhang, Qin and Gu, arXiv 2510.27258.

    M_t = sum_j (sum_{i <= j} k_i k_i^T) q_j v_j^T,   o_t = K^(-1/2) q_t^T M_t

Queries and keys have norm 1, or, where outputs are normalised, go through elu(x) + 1: the paper leaves the map open.
"""

from functools import partial
from typing import final

import torch
from torch.nn import functional

from transect.mixers.higher_order import higher_order_linear_attention
from transect.mixers.layers.base import Op, unit
from transect.mixers.layers.projected import ProjectedLayer


@final
class HigherOrderLinearAttention(ProjectedLayer):
    """Second-order linear attention.

    ``[B, T, hidden_size]`` to the same; see `SequenceLayer.forward` for caches, masks and packed sequences.

    Args:
        hidden_size: the width of inputs and outputs.
        num_heads: heads.
        head_k_dim: width of a head's queries and keys; None for hidden_size / num_heads.
        head_v_dim: width of a head's values; None for head_k_dim.
        conv_size: tokens that the short convolution sees; None for no convolution.
        use_gate: whether the output is gated by the input.
        normalize: whether outputs are divided by the sum of their weights.
        norm_eps: epsilon of the output norm.
        layer_idx: this layer's place in a cache.

    Raises:
        InputError: sizes that are not positive or do not divide.

    Examples:
        >>> import torch
        >>> layer = HigherOrderLinearAttention(hidden_size=16, num_heads=2)
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
        normalize: bool = False,
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
        self.normalize = normalize

    @property
    def op(self) -> Op:
        """Second-order linear attention, normalised or not."""
        return partial(higher_order_linear_attention, normalize=self.normalize)

    def inputs(
        self,
        x: torch.Tensor,  # noqa: ARG002 - nothing here depends on the input but q, k and v
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
    ) -> dict[str, torch.Tensor]:
        """Features of queries and keys, and values."""
        q, k = (functional.elu(part) + 1 if self.normalize else unit(part) for part in (q, k))
        return {"q": q, "k": k, "v": v}
