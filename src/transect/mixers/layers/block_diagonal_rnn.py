"""The block-diagonal RNN for regular languages: each token makes a matrix for each block of the state, with columns of norm at most 1.

Paper: Advancing Regular Language Reasoning in Linear Recurrent Neural Networks, Fan, Chi and Rudnicky, arXiv 2309.07412. As in the code published with it
(tinghanf/RegluarLRNN), blocks and additions come from two small networks:

    R_t = W_2 relu(W_1 x_t),   A_t = R_t / max_j |column j of R_t|_p,   h_t = A_t h_{t-1} + W_4 relu(W_3 x_t)

With p = 1, the default, ``|A_t h|_1 <= |h|_1``: no state grows but by what is added. The published p is 1.2, under which a block of D rows can still stretch a
state by ``D ** (1 - 1 / p)`` at every token. A map from states of an automaton to states has columns with a single 1, so blocks of k follow any automaton
of k states exactly, and permutations of k things. The published code takes the mean from each column, too (`centred`); with it a permutation is
followed where the numbers of a block sum to zero, and fades if k is above 2.
"""

from typing import final

import torch
from torch import nn

from transect.errors import InputError
from transect.mixers.layers.matrix_rnn import MatrixRNN, widened


@final
class BlockDiagonalRNN(MatrixRNN):
    """The block-diagonal RNN for regular languages: each token makes a matrix for each block of the state, with columns of norm at most 1.

    ``[B, T, hidden_size]`` to the same; see `SequenceLayer.forward` for caches, masks and packed sequences.

    Args:
        hidden_size: the width of inputs and outputs.
        num_heads: blocks.
        head_dim: width of a block; None for hidden_size / num_heads.
        inner_size: width of the network that makes the blocks; None for hidden_size. The published code has num_heads * head_dim^2, at the square of
            which its weights grow.
        p: the norm of columns, at least 1; 1 keeps every state bounded, 1.2 is the published one.
        centred: whether the mean is taken from each column, as in the published code.
        layer_idx: this layer's place in a cache.

    Raises:
        InputError: sizes that are not positive or do not divide, or a p below 1.

    Examples:
        >>> layer = BlockDiagonalRNN(hidden_size=8, num_heads=2)
        >>> layer(torch.ones(1, 3, 8)).shape
        torch.Size([1, 3, 8])
    """

    alias = "blockrnn"

    def __init__(
        self,
        *,
        hidden_size: int,
        num_heads: int,
        head_dim: int | None = None,
        inner_size: int | None = None,
        p: float = 1.0,
        centred: bool = False,
        layer_idx: int = 0,
    ) -> None:
        super().__init__(hidden_size=hidden_size, num_heads=num_heads, head_dim=head_dim, layer_idx=layer_idx)
        if not p >= 1 or (inner_size is not None and inner_size < 1):
            raise InputError(f"expected a p of at least 1 and an inner_size of at least 1, got {p} and {inner_size}.")
        self.p, self.centred = p, centred
        width = num_heads * self.head_dim
        numbers = width * self.head_dim
        inner = hidden_size if inner_size is None else inner_size
        self.make_blocks = nn.Sequential(nn.Linear(hidden_size, inner), nn.ReLU(), nn.Linear(inner, numbers))
        self.make_additions = nn.Sequential(nn.Linear(hidden_size, width), nn.ReLU(), nn.Linear(width, width))

    def transitions(self, x: torch.Tensor) -> torch.Tensor:
        """``[B, T, num_heads, head_dim, head_dim]``: the longest column of each has norm 1."""
        raw = widened(self.make_blocks(x)).unflatten(2, (self.num_heads, self.head_dim, self.head_dim))
        if self.centred:
            raw = raw - raw.mean(-2, keepdim=True)
        longest = torch.linalg.vector_norm(raw, ord=self.p, dim=-2, keepdim=True).amax(-1, keepdim=True)
        return raw / longest.clamp_min(1e-6)

    def additions(self, x: torch.Tensor) -> torch.Tensor:
        """What a token adds."""
        return self.make_additions(x).unflatten(2, (self.num_heads, self.head_dim))
