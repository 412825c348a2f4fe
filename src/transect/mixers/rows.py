"""Packed sequences side by side, filled up to the longest, for forms that work on all of them at once."""

from dataclasses import dataclass
from itertools import pairwise
from typing import final

import torch


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class Rows:
    """Where the tokens of sequences stand: `places [N, M]` of a packed row, and which of them are `real`; nothing is moved without packing.

    Args:
        places: indices into the packed row, or None where each row of the batch is a sequence already.
        real: ``[N, M]``, False for filling.
    """

    places: torch.Tensor | None
    real: torch.Tensor

    @classmethod
    def of(cls, like: torch.Tensor, bounds: tuple[int, ...] | None) -> "Rows":
        """The rows of sequences packed as `bounds` says, for tokens ``[B, T, ...]``.

        Examples:
            >>> rows = Rows.of(torch.zeros(1, 3), (0, 1, 3))
            >>> rows.read(torch.tensor([[5, 6, 7]]))
            tensor([[5, 0],
                    [6, 7]])
        """
        if bounds is None:
            return cls(places=None, real=torch.ones(like.shape[:2], dtype=torch.bool, device=like.device))
        firsts, lengths = torch.tensor(bounds[:-1], device=like.device), torch.tensor(bounds, device=like.device).diff()
        steps = torch.arange(max(end - start for start, end in pairwise(bounds)), device=like.device)
        real = steps < lengths[:, None]
        return cls(places=torch.where(real, firsts[:, None] + steps, 0), real=real)

    @property
    def lengths(self) -> torch.Tensor:
        """``[N]``: tokens of each sequence."""
        return self.real.sum(1)

    def read(self, x: torch.Tensor) -> torch.Tensor:
        """``[B, T, ...]`` as ``[N, M, ...]``, with zeros for filling."""
        if self.places is None:
            return x
        found = x[0].index_select(0, self.places.flatten()).unflatten(0, self.places.shape)
        return found.masked_fill(~self.real.view(*self.real.shape, *[1] * (x.ndim - 2)), 0)

    def write(self, y: torch.Tensor) -> torch.Tensor:
        """``[N, M, ...]`` as ``[B, T, ...]`` again, without the filling."""
        return y if self.places is None else y[self.real][None]
