"""HGRN2: forget gates for each channel of the state, and keys that are what the gates leave open.

Paper: HGRN2: Gated Linear RNNs with State Expansion, Qin et al., arXiv 2404.07904.

    f = lower_bound + (1 - lower_bound) sigmoid(W_f x),   g = log f,   q = silu(W_q x)
"""

from typing import final

import torch
from torch.nn import functional

from transect.errors import InputError
from transect.mixers.hgrn2 import hgrn2
from transect.mixers.layers.base import Op
from transect.mixers.layers.projected import ProjectedLayer


@final
class HGRN2(ProjectedLayer):
    """HGRN2: forget gates for each channel of the state, and keys that are what the gates leave open.

    ``[B, T, hidden_size]`` to the same; see `SequenceLayer.forward` for caches, masks and packed sequences.

    Args:
        hidden_size: the width of inputs and outputs.
        num_heads: heads.
        head_k_dim: width of a head's queries and keys; None for hidden_size / num_heads.
        head_v_dim: width of a head's values; None for head_k_dim.
        conv_size: tokens that the short convolution sees; None for no convolution.
        use_gate: whether the output is gated by the input.
        lower_bound: the least that is kept of every channel, at least 0 and below 1; the paper lets it rise with depth.
        norm_eps: epsilon of the output norm.
        layer_idx: this layer's place in a cache.

    Raises:
        InputError: sizes that are not positive or do not divide, or a lower bound outside [0, 1).

    Examples:
        >>> import torch
        >>> layer = HGRN2(hidden_size=16, num_heads=2)
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
        lower_bound: float = 0.0,
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
        if not 0 <= lower_bound < 1:
            raise InputError(f"expected lower_bound of at least 0 and below 1, got {lower_bound}.")
        self.lower_bound = lower_bound

    @property
    def op(self) -> Op:
        """HGRN2."""
        return hgrn2

    def inputs(
        self,
        x: torch.Tensor,  # noqa: ARG002 - the gates take the place of the keys in the projection
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
    ) -> dict[str, torch.Tensor]:
        """Queries after silu, logarithms of the forget gates (k holds their logits), and values."""
        g = functional.logsigmoid(k)
        if self.lower_bound:
            g = torch.log(self.lower_bound + (1 - self.lower_bound) * g.exp()).clamp(max=0)
        return {"q": functional.silu(q), "g": g, "v": v}
