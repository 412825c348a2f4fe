"""Padded rows as packed sequences: masked tokens are left out, wherever they stand, and nothing depends on them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import torch

from transect.errors import InputError
from transect.mixers.algebra import checked_bounds


@final
@dataclass(frozen=True, eq=False)
class Packing:
    """How ``[B, T, D]`` becomes what ops work on, and back.

    Args:
        x: ``[B, T, D]``, or the sequences packed into a batch of 1.
        bounds: where the packed sequences begin, and their end; None where nothing is packed.
        kept: the mask, where one was given.
    """

    x: torch.Tensor
    bounds: tuple[int, ...] | None
    kept: torch.Tensor | None

    @classmethod
    def of(cls, x: torch.Tensor, attention_mask: torch.Tensor | None, cu_seqlens: torch.Tensor | Sequence[int] | None) -> "Packing":
        """Pack what a mask leaves, or what `cu_seqlens` says.

        Raises:
            InputError: both are given, bounds that do not rise from 0 to T, or a mask that is not ``[B, T]`` of zeros and ones.
        """
        if attention_mask is None:
            return cls(x, checked_bounds(cu_seqlens, batch=len(x), tokens=x.shape[1]), None)
        if cu_seqlens is not None:
            raise InputError("expected attention_mask or cu_seqlens, got both. A mask is for padded rows, cu_seqlens for packed ones.")
        if attention_mask.shape != x.shape[:2] or not ((attention_mask == 0) | (attention_mask == 1)).all():
            raise InputError(
                f"expected attention_mask {list(x.shape[:2])} of zeros and ones, got {list(attention_mask.shape)} {attention_mask.dtype}."
                " With a cache, pass the mask of the new tokens only."
            )
        kept = attention_mask.bool()
        ends = kept.sum(1).cumsum(0).tolist()
        return cls(x[kept][None], (0, *ends), kept)

    @property
    def sequences(self) -> int:
        """How many sequences there are."""
        return len(self.x) if self.bounds is None else len(self.bounds) - 1

    def lengths(self) -> torch.Tensor:
        """``[N]``: tokens of each sequence."""
        if self.bounds is None:
            return torch.full((len(self.x),), self.x.shape[1], device=self.x.device)
        return torch.tensor(self.bounds, device=self.x.device).diff()

    def positions(self, seen: torch.Tensor) -> torch.Tensor:
        """``[B, T]`` of `x`: where each token stands in its sequence, after the `seen [N]` tokens before."""
        if self.bounds is None:
            return seen[:, None] + torch.arange(self.x.shape[1], device=self.x.device)
        lengths = self.lengths()
        firsts = torch.tensor(self.bounds[:-1], device=self.x.device)
        return (torch.arange(self.bounds[-1], device=self.x.device) + (seen - firsts).repeat_interleave(lengths))[None]

    def unpack(self, y: torch.Tensor) -> torch.Tensor:
        """``[B, T, D]`` again; zeros where the mask is."""
        if self.kept is None:
            return y
        out = y.new_zeros(*self.kept.shape, y.shape[2])
        out[self.kept] = y[0]
        return out
