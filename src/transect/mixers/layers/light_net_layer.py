"""LightNet: keys that are a softmax over tokens, causal for text and in one pass without an order for grids.

Paper: You Only Scan Once: Efficient Multi-dimension Sequential Modeling with LightNet, Qin et al., arXiv 2405.21022.

    o = light_net(silu(W_q x), W_k x, W_v x),   y = W_o (norm(o) * silu(W_g x))

The output gate is a full matrix. The paper's positions, MD-TPE and MD-LRPE, are not here: add positions to x, or use a short convolution.
"""

from typing import final

import torch
from torch import nn
from torch.nn import functional

from transect.errors import InputError
from transect.mixers.layers.base import Op
from transect.mixers.layers.projected import ProjectedLayer
from transect.mixers.light_net import additive_grid_attention, light_net


@final
class LightNet(ProjectedLayer):
    """LightNet for text: keys are a softmax over the tokens so far.

    ``[B, T, hidden_size]`` to the same; see `SequenceLayer.forward` for caches, masks and packed sequences.

    Args:
        hidden_size: the width of inputs and outputs.
        num_heads: heads.
        head_k_dim: width of a head's queries and keys; None for hidden_size / num_heads.
        head_v_dim: width of a head's values; None for head_k_dim.
        conv_size: tokens that the short convolution sees; None for no convolution, as in the paper.
        use_gate: whether the output is gated by the input.
        norm_eps: epsilon of the output norm.
        layer_idx: this layer's place in a cache.

    Raises:
        InputError: sizes that are not positive or do not divide.

    Examples:
        >>> import torch
        >>> layer = LightNet(hidden_size=16, num_heads=2)
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

    @property
    def op(self) -> Op:
        """The additive recurrence."""
        return light_net

    def inputs(
        self,
        x: torch.Tensor,  # noqa: ARG002 - nothing here depends on the input but q, k and v
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
    ) -> dict[str, torch.Tensor]:
        """Activated queries, and keys and values as they are; the short convolution has activated all three."""
        return {"q": functional.silu(q) if self.conv is None else q, "k": k, "v": v}


@final
class LightNetGrid(nn.Module):
    """LightNet for images, volumes and grids of any number of dimensions: every place reads all others, in one pass.

    ``[B, *grid, hidden_size]`` to the same. It has no order: move the places of the input, and those of the output move along.

    Args:
        hidden_size: the width of inputs and outputs.
        num_heads: heads.
        head_k_dim: width of a head's queries and keys; None for hidden_size / num_heads.
        head_v_dim: width of a head's values; None for head_k_dim.
        use_gate: whether the output is gated by the input.
        norm_eps: epsilon of the output norm.

    Raises:
        InputError: sizes that are not positive or do not divide.

    Examples:
        >>> import torch
        >>> layer = LightNetGrid(hidden_size=16, num_heads=2)
        >>> layer(torch.ones(1, 3, 5, 16)).shape
        torch.Size([1, 3, 5, 16])
    """

    def __init__(
        self,
        *,
        hidden_size: int,
        num_heads: int,
        head_k_dim: int | None = None,
        head_v_dim: int | None = None,
        use_gate: bool = True,
        norm_eps: float = 1e-5,
    ) -> None:
        super().__init__()
        if hidden_size < 1 or num_heads < 1 or (head_k_dim is None and hidden_size % num_heads):
            raise InputError(
                f"expected a hidden_size of at least 1 and num_heads that divide it, or a head_k_dim, got {hidden_size} and {num_heads}."
            )
        width = hidden_size // num_heads if head_k_dim is None else head_k_dim
        depth = width if head_v_dim is None else head_v_dim
        if width < 1 or depth < 1:
            raise InputError(f"expected head_k_dim and head_v_dim of at least 1, got {width} and {depth}.")
        self.hidden_size, self.num_heads = hidden_size, num_heads
        self.widths = [num_heads * width, num_heads * width, num_heads * depth]
        self.qkv_proj = nn.Linear(hidden_size, sum(self.widths), bias=False)
        self.g_proj = nn.Linear(hidden_size, num_heads * depth, bias=False) if use_gate else None
        self.norm = nn.RMSNorm(depth, eps=norm_eps)
        self.o_proj = nn.Linear(num_heads * depth, hidden_size, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Mix the places of each grid.

        Args:
            x: ``[B, *grid, hidden_size]``, with one dimension of the grid or more.

        Raises:
            InputError: an input of another width, or without a grid.
        """
        if x.ndim < 3 or x.shape[-1] != self.hidden_size:
            raise InputError(f"expected x of shape [B, *grid, {self.hidden_size}] with one grid dimension or more, got {list(x.shape)}.")
        q, k, v = (part.unflatten(-1, (self.num_heads, -1)) for part in self.qkv_proj(x).split(self.widths, -1))
        y = self.norm(additive_grid_attention(functional.silu(q), k, v)).flatten(-2)
        return self.o_proj(y if self.g_proj is None else y * functional.silu(self.g_proj(x)))
