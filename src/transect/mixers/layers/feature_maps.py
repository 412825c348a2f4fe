"""Feature maps of linear attention: what queries and keys go through so that a product of features stands for exp(q^T k).

    Identity   x                                       Elu    elu(x) + 1                     (arXiv 2006.16236)
    Relu       max(x, 0)                               Dpfp   products of relu parts         (arXiv 2102.11174)
    Taylor     1, s x, s^2 x x^T / sqrt(2)             Hedgehog  softmax of W x and of -W x  (arXiv 2402.04347)

Taylor's features multiply to ``1 + z + z^2 / 2`` with ``z = q^T k / sqrt(D)``, so s is ``D^(-1/4)``.
"""

from abc import ABC, abstractmethod
from typing import ClassVar, final

import torch
from torch import nn
from torch.nn import functional

from transect.errors import InputError


class FeatureMap(nn.Module, ABC):
    """A map of each head's queries or keys, ``[B, T, H, D]`` to ``[B, T, H, F]``."""

    positive: ClassVar[bool] = True
    """Whether features are never negative in product, so that attention can be normalised by their sum."""

    @abstractmethod
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Features ``[B, T, H, F]`` of ``[B, T, H, D]``."""


@final
class Identity(FeatureMap):
    """Queries and keys as they are; their products can be negative.

    Examples:
        >>> Identity()(torch.tensor([-1.0, 2.0]))
        tensor([-1.,  2.])
    """

    positive = False

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """``x``."""
        return x


@final
class Elu(FeatureMap):
    """``elu(x) + 1``.

    Examples:
        >>> Elu()(torch.tensor([0.0, 2.0]))
        tensor([1., 3.])
    """

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """``elu(x) + 1``."""
        return functional.elu(x) + 1


@final
class Relu(FeatureMap):
    """``max(x, 0)``.

    Examples:
        >>> Relu()(torch.tensor([-1.0, 2.0]))
        tensor([0., 2.])
    """

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """``max(x, 0)``."""
        return functional.relu(x)


@final
class Dpfp(FeatureMap):
    """Deterministic parameter-free projection: ``r_i r_{i - j}`` for j = 1 ... nu, with ``r = relu([x, -x])``; F is 2 D nu.

    Args:
        nu: how many shifts.

    Raises:
        InputError: nu below 1.

    Examples:
        >>> Dpfp(nu=1)(torch.tensor([1.0, 2.0]))
        tensor([0., 2., 0., 0.])
    """

    def __init__(self, *, nu: int = 1) -> None:
        super().__init__()
        if nu < 1:
            raise InputError(f"expected nu of at least 1, got {nu}.")
        self.nu = nu

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Products of the parts with the parts shifted."""
        parts = functional.relu(torch.cat([x, -x], -1))
        return torch.cat([parts * parts.roll(j, -1) for j in range(1, self.nu + 1)], -1)


@final
class Taylor(FeatureMap):
    """The exponential's series to the second order; F is 1 + D + D^2.

    Examples:
        >>> features = Taylor()(torch.tensor([[2.0], [3.0]]))
        >>> features[0] @ features[1]  # 1 + 6 + 36 / 2
        tensor(25.0000)
    """

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Features whose products are ``1 + z + z^2 / 2``."""
        x = x * x.shape[-1] ** -0.25
        square = (x[..., :, None] * x[..., None, :]).flatten(-2) * 0.5**0.5
        return torch.cat([torch.ones_like(x[..., :1]), x, square], -1)


@final
class Hedgehog(FeatureMap):
    """Learnt features, spiky as softmax attention is: ``[softmax(W x), softmax(-W x)]`` for each head; F is 2 D.

    Args:
        num_heads: heads.
        head_dim: D; W starts as the identity.

    Examples:
        >>> Hedgehog(num_heads=1, head_dim=2)(torch.zeros(1, 1, 1, 2)).flatten()
        tensor([0.5000, 0.5000, 0.5000, 0.5000], grad_fn=...)
    """

    def __init__(self, *, num_heads: int, head_dim: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.eye(head_dim).repeat(num_heads, 1, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Two softmaxes of the projected x."""
        if x.shape[-2:] != self.weight.shape[:2]:
            raise InputError(f"expected heads and their width {list(self.weight.shape[:2])}, got {list(x.shape[-2:])}.")
        projected = torch.einsum("bthd,hde->bthe", x, self.weight)
        return torch.cat([projected.softmax(-1), (-projected).softmax(-1)], -1)
