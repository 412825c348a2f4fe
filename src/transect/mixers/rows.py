"""Packed sequences: side by side, filled up to the longest, for forms that work on all of them at once; or one after another."""

from collections.abc import Callable
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


def one_by_one(
    run: Callable[[torch.Tensor, torch.Tensor, torch.Tensor, int], tuple[torch.Tensor, torch.Tensor]],
    a: torch.Tensor,
    b: torch.Tensor,
    state: torch.Tensor,
    *,
    bounds: tuple[int, ...] | None,
    chunk_size: int,
) -> tuple[torch.Tensor, torch.Tensor]:
    """What a form of ``h_t = a_t h_{t-1} + b_t`` makes of each sequence: outputs ``[B, T, ...]`` and last states ``[N, ...]``.

    Args:
        run: gives a sequence's outputs and last state, from its tokens of a and b, its state and the chunk size; never called without tokens.
        a, b: ``[B, T, ...]``.
        state: ``[N, ...]``, before the first tokens.
        bounds: where sequences packed into a batch of 1 begin, and T; None where nothing is packed.
        chunk_size: for the chunk form.

    Examples:
        >>> a, b = torch.ones(1, 3), torch.tensor([[1.0, 2.0, 4.0]])
        >>> one_by_one(lambda a, b, h, _: (h[:, None] + b.cumsum(1), h + b.sum(1)), a, b, torch.zeros(2), bounds=(0, 2, 3), chunk_size=1)
        (tensor([[1., 3., 4.]]), tensor([3., 4.]))
    """
    spans = [slice(None)] if bounds is None else [slice(start, end) for start, end in pairwise(bounds)]
    found = []
    for row, span in enumerate(spans):
        own = state if bounds is None else state[row : row + 1]
        found.append(run(a[:, span], b[:, span], own, chunk_size) if b[:, span].shape[1] else (b[:, span], own))
    return torch.cat([out for out, _ in found], 1), torch.cat([last for _, last in found])
