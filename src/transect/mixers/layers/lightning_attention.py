"""Lightning attention: linear attention whose heads forget at fixed rates.

Paper: Lightning Attention-2, Qin et al., arXiv 2401.04658; the slopes are those of TransNormerLLM (arXiv 2307.14995) and MiniMax.

    g_h = -(1 - depth) 2^(-8 h / H),   h = 1 ... H,   q, k, v = silu(W x)
"""

from functools import partial
from typing import final

import torch
from torch import nn
from torch.nn import functional

from transect.errors import InputError
from transect.mixers.layers.base import Op
from transect.mixers.layers.projected import ProjectedLayer
from transect.mixers.retention import retention


@final
class LightningAttention(ProjectedLayer):
    """Lightning attention: linear attention whose heads forget at fixed rates.

    ``[B, T, hidden_size]`` to the same; see `SequenceLayer.forward` for caches, masks and packed sequences.

    Args:
        hidden_size: the width of inputs and outputs.
        num_heads: heads.
        head_k_dim: width of a head's queries and keys; None for hidden_size / num_heads.
        head_v_dim: width of a head's values; None for head_k_dim.
        conv_size: tokens that the short convolution sees; None for no convolution.
        use_gate: whether the output is gated by the input.
        depth: where in the stack this layer stands, from 0 (the first) to below 1; deeper layers forget less.
        norm_eps: epsilon of the output norm.
        layer_idx: this layer's place in a cache.

    Raises:
        InputError: sizes that are not positive or do not divide, or a depth outside [0, 1).

    Examples:
        >>> import torch
        >>> layer = LightningAttention(hidden_size=16, num_heads=2)
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
        depth: float = 0.0,
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
        if not 0 <= depth < 1:
            raise InputError(f"expected depth of at least 0 and below 1, got {depth}.")
        self.g_gamma = nn.Buffer(-(1 - depth) * torch.exp2(-8 * torch.arange(1, num_heads + 1) / num_heads))

    @property
    def op(self) -> Op:
        """Retention with these slopes."""
        return partial(retention, g_gamma=self.g_gamma)

    def inputs(
        self,
        x: torch.Tensor,  # noqa: ARG002 - nothing here depends on the input but q, k and v
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
    ) -> dict[str, torch.Tensor]:
        """Queries, keys and values after silu."""
        return {"q": functional.silu(q), "k": functional.silu(k), "v": functional.silu(v)}
