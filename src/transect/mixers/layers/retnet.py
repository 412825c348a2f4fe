"""RetNet: retention with rotary positions; heads forget at fixed rates.

Paper: Retentive Network, Sun et al., arXiv 2307.08621.

    S_t = gamma_h S_{t-1} + k_t v_t^T,   q, k turned by their positions,   gamma_h = 1 - 2^(-5 - h),   y = norm(o) * silu(W_g x)
"""

from typing import final

import torch

from transect.mixers.layers.base import Op
from transect.mixers.layers.projected import ProjectedLayer
from transect.mixers.retention import retention


@final
class RetNet(ProjectedLayer):
    """RetNet: retention with rotary positions; heads forget at fixed rates.

    ``[B, T, hidden_size]`` to the same; see `SequenceLayer.forward` for caches, masks and packed sequences.

    Args:
        hidden_size: the width of inputs and outputs.
        num_heads: heads.
        head_k_dim: width of a head's queries and keys; None for hidden_size / num_heads.
        head_v_dim: width of a head's values; None for twice head_k_dim, as in the paper.
        conv_size: tokens that the short convolution sees; None for no convolution.
        use_gate: whether the output is gated by the input.
        rotary_base: base of the rotary positions.
        norm_eps: epsilon of the output norm.
        layer_idx: this layer's place in a cache.

    Raises:
        InputError: sizes that are not positive or do not divide, or an odd head_k_dim.

    Examples:
        >>> import torch
        >>> layer = RetNet(hidden_size=16, num_heads=2)
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
        rotary_base: float = 10000.0,
        norm_eps: float = 1e-5,
        layer_idx: int = 0,
    ) -> None:
        super().__init__(
            hidden_size=hidden_size,
            num_heads=num_heads,
            head_k_dim=head_k_dim,
            head_v_dim=2 * (head_k_dim or hidden_size // max(num_heads, 1)) if head_v_dim is None else head_v_dim,
            keys_per_token=1,
            conv_size=conv_size,
            use_gate=use_gate,
            norm_eps=norm_eps,
            layer_idx=layer_idx,
            rotary_base=rotary_base,
        )

    @property
    def op(self) -> Op:
        """Retention, at the rates of the paper."""
        return retention

    def inputs(
        self,
        x: torch.Tensor,  # noqa: ARG002 - nothing here depends on the input but q, k and v
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
    ) -> dict[str, torch.Tensor]:
        """Rotated queries and keys, and values."""
        return {"q": q, "k": k, "v": v}
