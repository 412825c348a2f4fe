"""What layers whose tokens choose a matrix share: a vector state for each head, moved by it.

    h_t = A(x_t) h_{t-1} + b(x_t),   y_t = W_o h_t

The state begins as a learnt vector. `transect.mixers.matrix_recurrence` moves it by matrices, `transect.mixers.diagonal_recurrence` by numbers; the latter
where A is diagonal, or rotates pairs of channels, so that no matrix is ever formed.
"""

from abc import ABC, abstractmethod

import torch
from torch import nn

from transect.errors import InputError
from transect.mixers.algebra import Form
from transect.mixers.diagonal_recurrence import diagonal_recurrence
from transect.mixers.layers.base import Inside, Mixed, Past, SequenceLayer
from transect.mixers.layers.packing import Packing
from transect.mixers.matrix_recurrence import matrix_recurrence


class MatrixRNN(SequenceLayer, ABC):
    """A layer whose tokens choose a matrix: ``[B, T, hidden_size]`` to the same.

    Args:
        hidden_size: the width of inputs and outputs.
        num_heads: heads of the state.
        head_dim: numbers in each; None for hidden_size / num_heads.
        layer_idx: this layer's place in a cache.

    Raises:
        InputError: sizes that are not positive or do not divide.
    """

    def __init__(self, *, hidden_size: int, num_heads: int, head_dim: int | None, layer_idx: int) -> None:
        super().__init__(hidden_size=hidden_size, layer_idx=layer_idx)
        if num_heads < 1 or (head_dim is None and hidden_size % num_heads) or (head_dim is not None and head_dim < 1):
            raise InputError(f"expected num_heads that divide hidden_size, or a head_dim, got {num_heads}, {hidden_size} and {head_dim}.")
        self.num_heads, self.head_dim = num_heads, head_dim or hidden_size // num_heads
        self.first = nn.Parameter(torch.randn(num_heads, self.head_dim))
        self.o_proj = nn.Linear(num_heads * self.head_dim, hidden_size, bias=False)

    @abstractmethod
    def transitions(self, x: torch.Tensor) -> torch.Tensor:
        """A of tokens ``[B, T, hidden_size]``, in 32 bits at least: matrices ``[B, T, G, W, W]``, or the numbers on their diagonals ``[B, T, G, W]``.

        The state is taken apart into G groups of width W, of half the width where the numbers are complex.
        """

    @abstractmethod
    def additions(self, x: torch.Tensor) -> torch.Tensor | None:
        """What tokens add, ``[B, T, num_heads, head_dim]``, or None for nothing."""

    def mix(self, x: torch.Tensor, *, past: Past, packing: Packing, form: Form) -> Mixed:
        """Move the state by what each token chooses, and read it."""
        a, added = self.transitions(x), self.additions(x)
        wide = a.real.dtype if a.is_complex() else a.dtype
        added = x.new_zeros(*x.shape[:2], self.num_heads, self.head_dim) if added is None else added
        held = past.parts.get("state")
        held = self.first.to(wide).expand(packing.sequences, -1, -1) if held is None else held

        def grouped(h: torch.Tensor) -> torch.Tensor:
            h = h.to(wide).flatten(-2).unflatten(-1, (a.shape[2], -1))
            return torch.view_as_complex(h.unflatten(-1, (-1, 2)).contiguous()) if a.is_complex() else h

        def apart(h: torch.Tensor) -> torch.Tensor:
            h = torch.view_as_real(h).flatten(-2) if h.is_complex() else h
            return h.flatten(-2).unflatten(-1, (self.num_heads, self.head_dim))

        run = matrix_recurrence if a.ndim == 5 else diagonal_recurrence
        settings = {"output_final_state": True, "cu_seqlens": packing.bounds, "form": form}
        h, last = run(a, grouped(added), initial_state=grouped(held), **settings)
        if last is None:
            raise TypeError("the final state was asked for")
        o, state = apart(h), apart(last)
        inside = Inside(inputs={"v": added}, o=o, initial_state=held, final_state=state, cu_seqlens=packing.bounds, op=None)
        return Mixed(y=self.o_proj(o.flatten(2).to(x.dtype)), parts={"state": state}, inside=inside)


def widened(x: torch.Tensor) -> torch.Tensor:
    """In 32 bits at least.

    Examples:
        >>> widened(torch.ones(1, dtype=torch.bfloat16)).dtype
        torch.float32
    """
    return x.to(torch.promote_types(x.dtype, torch.float32))
