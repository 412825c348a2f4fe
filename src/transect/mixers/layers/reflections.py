"""Reflections as a feature map: turn queries and keys towards the non-negative side instead of cutting the rest off.

Paper: MirrorLA, 2026, whose abstract alone is followed here: learnt Householder reflections of blocks of channels, a modulation by the features' own
spread, and a reflection across heads before features are made non-negative.

    x <- (I - 2 u u^T / |u|^2) x    block by block and head by head
    x <- x (1 + s std(x))
    x <- (I - 2 w w^T / |w|^2) x    across heads
    features = elu(x) + 1
"""

from typing import final

import torch
from torch import nn
from torch.nn import functional

from transect.errors import InputError
from transect.mixers.layers.feature_maps import FeatureMap


@final
class Reflections(FeatureMap):
    """Reflections as a feature map: F is D.

    Args:
        num_heads: heads.
        head_dim: D.
        block_size: channels that are reflected together; they divide D.

    Raises:
        InputError: a block_size that does not divide head_dim.

    Examples:
        >>> Reflections(num_heads=1, head_dim=2)(torch.zeros(1, 1, 1, 2)).flatten().tolist()
        [1.0, 1.0]
    """

    def __init__(self, *, num_heads: int, head_dim: int, block_size: int | None = None) -> None:
        super().__init__()
        block_size = head_dim if block_size is None else block_size
        if num_heads < 1 or block_size < 1 or head_dim % block_size:
            raise InputError(
                f"expected a block_size that divides head_dim = {head_dim}, got {block_size}, and at least one head, got {num_heads}."
            )
        self.mirrors = nn.Parameter(torch.randn(num_heads, head_dim // block_size, block_size))
        self.across = nn.Parameter(torch.randn(num_heads))
        self.spread = nn.Parameter(torch.full((num_heads,), 0.1))

    def reflect(self, x: torch.Tensor) -> torch.Tensor:
        """Block by block and head by head, lengths kept, ``[B, T, H, D]`` to the same.

        Raises:
            InputError: other heads or another width.
        """
        heads, blocks, size = self.mirrors.shape
        if x.shape[-2:] != (heads, blocks * size):
            raise InputError(f"expected heads and their width [{heads}, {blocks * size}], got {list(x.shape[-2:])}.")
        return _mirrored(x.unflatten(-1, (blocks, size)), self.mirrors).flatten(-2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Reflected, spread, reflected across heads, and made positive."""
        turned = self.reflect(x)
        variance = (turned - turned.mean(-1, keepdim=True)).square().mean(-1, keepdim=True)
        turned = turned * (1 + self.spread[:, None] * (variance + 1e-6).sqrt())
        return functional.elu(_mirrored(turned.mT, self.across).mT) + 1


def _mirrored(x: torch.Tensor, normal: torch.Tensor) -> torch.Tensor:
    """``x [..., D]`` on the other side of what is orthogonal to the normal ``[..., D]``."""
    unit = normal / torch.linalg.vector_norm(normal, dim=-1, keepdim=True)
    return x - 2 * (x * unit).sum(-1, keepdim=True) * unit
