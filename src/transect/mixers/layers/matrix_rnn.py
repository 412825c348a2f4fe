"""Layers whose tokens choose matrices: the block-diagonal RNN for regular languages, and bilinear state transitions.

Papers: Advancing Regular Language Reasoning in Linear Recurrent Neural Networks, Fan et al., arXiv 2309.07412; Revisiting Bi-Linear State
Transitions in Recurrent Neural Networks, Ebrahimi et al., 2025.

    h_t = A(x_t) h_{t-1} + W_b x_t,   y_t = W_o h_t
"""

from typing import Literal, final, get_args

import torch
from torch import nn

from transect.errors import InputError, near_matches
from transect.mixers.algebra import Form
from transect.mixers.layers.base import Inside, Mixed, Past, SequenceLayer
from transect.mixers.layers.packing import Packing
from transect.mixers.matrix_recurrence import matrix_recurrence

Transition = Literal["block", "rotation", "diagonal"]


@final
class BilinearRNN(SequenceLayer):
    """State transitions by matrices made from the input, from full (one head) over blocks and rotations to diagonal ones.

    ``[B, T, hidden_size]`` to the same; see `SequenceLayer.forward` for caches, masks and packed sequences. With "block" it is the block-diagonal RNN for
    regular languages: every column of a block is divided by the sum of its absolute values where that is above 1, so no state grows.

    Args:
        hidden_size: the width of inputs and outputs.
        num_heads: blocks of the transition; 1 for a full one.
        head_dim: width of a block; None for hidden_size / num_heads.
        transition: "block" (a matrix for each head), "rotation" (pairs of channels turned by angles), or "diagonal" (a number from -1 to 1 for each).
        additive: whether inputs are added to the state, too; without it the state begins as a learnt vector.
        layer_idx: this layer's place in a cache.

    Raises:
        InputError: sizes that are not positive or do not divide, or a transition that does not exist.

    Examples:
        >>> layer = BilinearRNN(hidden_size=8, num_heads=2)
        >>> layer(torch.ones(1, 3, 8)).shape
        torch.Size([1, 3, 8])
    """

    def __init__(
        self,
        *,
        hidden_size: int,
        num_heads: int,
        head_dim: int | None = None,
        transition: Transition = "block",
        additive: bool = True,
        layer_idx: int = 0,
    ) -> None:
        super().__init__(hidden_size=hidden_size, layer_idx=layer_idx)
        if num_heads < 1 or (head_dim is None and hidden_size % num_heads):
            raise InputError(f"expected num_heads that divide hidden_size, or a head_dim, got {num_heads} and {hidden_size}.")
        if transition not in get_args(Transition):
            raise InputError(
                f"expected a transition that exists, got {transition!r}; {near_matches(str(transition), get_args(Transition))}."
            )
        self.num_heads, self.head_dim, self.transition = num_heads, head_dim or hidden_size // num_heads, transition
        if transition == "rotation" and self.head_dim % 2:
            raise InputError(f"expected an even head_dim for rotations, got {self.head_dim}.")
        each = {"block": self.head_dim**2, "rotation": self.head_dim // 2, "diagonal": self.head_dim}[transition]
        self.a_proj = nn.Linear(hidden_size, num_heads * each)
        width = num_heads * self.head_dim
        self.b_proj = nn.Linear(hidden_size, width, bias=False) if additive else None
        self.first = None if additive else nn.Parameter(torch.randn(num_heads, self.head_dim))
        self.o_proj = nn.Linear(width, hidden_size, bias=False)

    def matrices(self, x: torch.Tensor) -> torch.Tensor:
        """``[B, T, H, D, D]`` of tokens ``[B, T, hidden_size]``."""
        raw = self.a_proj(x).unflatten(2, (self.num_heads, -1))
        if self.transition == "block":
            raw = raw.unflatten(3, (self.head_dim, self.head_dim))
            return raw / raw.abs().sum(-2, keepdim=True).clamp_min(1)
        if self.transition == "diagonal":
            return torch.diag_embed(raw.tanh())
        cos, sin = raw.cos(), raw.sin()
        blocks = torch.stack([torch.stack([cos, -sin], -1), torch.stack([sin, cos], -1)], -2)
        places = torch.eye(self.head_dim // 2, dtype=x.dtype, device=x.device)
        return torch.einsum("bthpij,pq->bthpiqj", blocks, places).flatten(5, 6).flatten(3, 4)

    def mix(self, x: torch.Tensor, *, past: Past, packing: Packing, form: Form) -> Mixed:
        """Move the state by each token's matrix, and read it."""
        shape = (*x.shape[:2], self.num_heads, self.head_dim)
        added = x.new_zeros(shape) if self.b_proj is None else self.b_proj(x).view(shape)
        start = past.parts.get("state")
        if start is None and self.first is not None:
            start = self.first.expand(packing.sequences, -1, -1)
        h, state = matrix_recurrence(
            self.matrices(x), added, initial_state=start, output_final_state=True, cu_seqlens=packing.bounds, form=form
        )
        if state is None:
            raise TypeError("the final state was asked for")
        inside = Inside(inputs={"v": added}, o=h, initial_state=start, final_state=state, cu_seqlens=packing.bounds, op=None)
        return Mixed(y=self.o_proj(h.flatten(2)), parts={"state": state}, inside=inside)
