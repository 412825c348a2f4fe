"""The bilinear MLP, a gated one without its nonlinearity, so that it *is* a third-order tensor that can be looked at.

Papers: A technical note on bilinear layers for interpretability, Sharkey, arXiv 2305.03452; Bilinear MLPs enable weight-based mechanistic
interpretability, Pearce et al., arXiv 2410.08417.

    y_o = sum_h D_oh (W x)_h (V x)_h = x^T B_o x,      B_o = sum_h D_oh (w_h v_h^T + v_h w_h^T) / 2

For a direction u of the output, ``sum_o u_o B_o`` is a symmetric matrix: its eigenvectors are the input features that the layer squares
and adds up to write u, its eigenvalues their weights.
"""

from dataclasses import dataclass
from typing import final

import torch
from torch import nn

from transect.errors import InputError
from transect.mixers.feed_forward.base import FeedForward


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class Interaction:
    """How inputs interact in writing one direction of the output: ``u . y = sum_i values_i (vectors_i . x)^2``.

    Args:
        values: ``[hidden_size]``, eigenvalues, the largest in absolute value first.
        vectors: ``[hidden_size, hidden_size]``, eigenvectors of length one, a row each.
    """

    values: torch.Tensor
    vectors: torch.Tensor


@final
class BilinearMLP(FeedForward):
    """The bilinear MLP, ``[..., hidden_size]`` to the same.

    Args:
        hidden_size: the width of inputs and outputs.
        intermediate_size: the width in between, which bounds the rank of every interaction by twice of it.

    Raises:
        InputError: sizes below 1.

    Examples:
        >>> layer = BilinearMLP(hidden_size=3, intermediate_size=4)
        >>> x = torch.randn(3)
        >>> torch.allclose(torch.einsum("oij,i,j->o", layer.interaction_tensor(), x, x), layer(x), atol=1e-6)
        True
    """

    alias = "bilinear"

    def __init__(self, *, hidden_size: int, intermediate_size: int) -> None:
        super().__init__()
        if hidden_size < 1 or intermediate_size < 1:
            raise InputError(f"expected sizes of at least 1, got hidden_size {hidden_size} and intermediate_size {intermediate_size}.")
        self.left_proj = nn.Linear(hidden_size, intermediate_size, bias=False)
        self.right_proj = nn.Linear(hidden_size, intermediate_size, bias=False)
        self.down_proj = nn.Linear(intermediate_size, hidden_size, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """``[..., hidden_size]`` to the same."""
        return self.down_proj(self.left_proj(x) * self.right_proj(x))

    def interaction_tensor(self) -> torch.Tensor:
        """``[hidden_size, hidden_size, hidden_size]``: B of the module's formula, ``[output, input, input]``, symmetric in the inputs."""
        found = torch.einsum("oh,hi,hj->oij", self.down_proj.weight, self.left_proj.weight, self.right_proj.weight)
        return (found + found.mT) / 2

    def interactions(self, direction: torch.Tensor) -> Interaction:
        """The input features that write a direction ``[hidden_size]`` of the output; no third-order tensor is formed.

        Raises:
            InputError: a direction of another width.
        """
        if direction.shape != self.down_proj.weight.shape[:1]:
            raise InputError(f"expected a direction [{len(self.down_proj.weight)}] of the output, got {list(direction.shape)}.")
        with torch.no_grad():
            weights = direction.to(self.down_proj.weight.dtype) @ self.down_proj.weight
            matrix = (self.left_proj.weight * weights[:, None]).mT @ self.right_proj.weight
            values, vectors = torch.linalg.eigh((matrix + matrix.mT) / 2)
        order = values.abs().argsort(descending=True)
        return Interaction(values=values[order], vectors=vectors.mT[order])
