"""Variational linear attention (VLA) as a layer.

Paper: Variational Linear Attention, 2026; see `transect.mixers.variational` for the formula.
"""

from functools import partial
from typing import final

import torch

from transect.errors import InputError
from transect.mixers.layers.base import Op, unit
from transect.mixers.layers.projected import ProjectedLayer
from transect.mixers.variational import variational_linear_attention


@final
class VariationalLinearAttention(ProjectedLayer):
    """Variational linear attention (VLA), on unit queries and keys.

    ``[B, T, hidden_size]`` to the same; see `SequenceLayer.forward` for caches, masks and packed sequences. Directions are found token by token, so
    training is slower than that of layers with a chunk form throughout.

    Args:
        hidden_size: the width of inputs and outputs.
        num_heads: heads.
        head_k_dim: width of a head's queries and keys; None for hidden_size / num_heads.
        head_v_dim: width of a head's values; None for head_k_dim.
        penalty: of the least-squares problem, above 0.
        conv_size: tokens that the short convolution sees; None for no convolution.
        use_gate: whether the output is gated by the input.
        norm_eps: epsilon of the output norm.
        layer_idx: this layer's place in a cache.

    Raises:
        InputError: sizes that are not positive or do not divide, or a penalty that is not above 0.

    Examples:
        >>> import torch
        >>> layer = VariationalLinearAttention(hidden_size=16, num_heads=2)
        >>> layer(torch.ones(1, 3, 16)).shape
        torch.Size([1, 3, 16])
    """

    alias = "vla"

    def __init__(
        self,
        *,
        hidden_size: int,
        num_heads: int,
        head_k_dim: int | None = None,
        head_v_dim: int | None = None,
        penalty: float = 1.0,
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
        if not penalty > 0:
            raise InputError(f"expected a penalty above 0, got {penalty}.")
        self.penalty = penalty

    @property
    def op(self) -> Op:
        """Variational linear attention."""
        return partial(variational_linear_attention, penalty=self.penalty)

    def inputs(
        self,
        x: torch.Tensor,  # noqa: ARG002 - nothing here depends on the input but q, k and v
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
    ) -> dict[str, torch.Tensor]:
        """Unit queries and keys, and values."""
        return {"q": unit(q), "k": unit(k), "v": v}
