"""The gated MLP of most language models (SwiGLU).

Paper: GLU Variants Improve Transformer, Shazeer, arXiv 2002.05202.

    y = W_down (silu(W_gate x) * W_up x)
"""

from typing import final

import torch
from torch import nn
from torch.nn import functional

from transect.errors import InputError
from transect.mixers.feed_forward.base import FeedForward


@final
class GatedMLP(FeedForward):
    """The gated MLP of most language models (SwiGLU), ``[..., hidden_size]`` to the same.

    Args:
        hidden_size: the width of inputs and outputs.
        intermediate_size: the width in between.

    Raises:
        InputError: sizes below 1.

    Examples:
        >>> GatedMLP(hidden_size=4, intermediate_size=8)(torch.ones(2, 4)).shape
        torch.Size([2, 4])
    """

    alias = "swiglu"

    def __init__(self, *, hidden_size: int, intermediate_size: int) -> None:
        super().__init__()
        if hidden_size < 1 or intermediate_size < 1:
            raise InputError(f"expected sizes of at least 1, got hidden_size {hidden_size} and intermediate_size {intermediate_size}.")
        self.gate_proj = nn.Linear(hidden_size, intermediate_size, bias=False)
        self.up_proj = nn.Linear(hidden_size, intermediate_size, bias=False)
        self.down_proj = nn.Linear(intermediate_size, hidden_size, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """``[..., hidden_size]`` to the same."""
        return self.down_proj(functional.silu(self.gate_proj(x)) * self.up_proj(x))
