"""Bilinear state transitions: a state times a matrix that is linear in the token, and nothing else.

Paper: Revisiting Bi-Linear State Transitions in Recurrent Neural Networks, Ebrahimi and Memisevic, arXiv 2505.21749.

    A(x) = x_1 W_1 + ... + x_n W_n,   h_t = A(x_t) h_{t-1},   y_t = W_o h_t

What the W are decides which states can be tracked, from any automaton down to parities:

    full       any matrix of the whole state: every automaton with as many states
    factored   ``L Diag(V x) R^T`` for each head, of a rank that is chosen: fewer parameters, and all matrices share their factors
    block      a matrix for each head: automata side by side
    rotation   a complex number for each pair of channels, which turns and stretches it: sums modulo anything, but nothing where order matters
    diagonal   a number for each channel: signs, and so parities, and nothing else that neither fades nor grows

Nothing bounds a linear A: a state may grow or vanish by a factor at every token. `bounded` divides what is above 1 by its size (columns of matrices by the
sums of their absolute values, numbers by their moduli), so that the sum of the state's absolute values, or moduli, never grows; A is then no longer
linear there. The paper's form has no constant and nothing added; `bias` and `additive` bring them in.
"""

from typing import Literal, final, get_args

import torch
from torch import nn

from transect.errors import InputError, near_matches
from transect.mixers.layers.matrix_rnn import MatrixRNN, widened

Transition = Literal["full", "factored", "block", "rotation", "diagonal"]


@final
class BilinearRNN(MatrixRNN):
    """Bilinear state transitions: a state times a matrix that is linear in the token, from full to diagonal.

    ``[B, T, hidden_size]`` to the same; see `SequenceLayer.forward` for caches, masks and packed sequences.

    Args:
        hidden_size: the width of inputs and outputs.
        num_heads: heads of the state.
        head_dim: numbers in each; None for hidden_size / num_heads.
        transition: "full", "factored", "block", "rotation" or "diagonal"; see the head of this module.
        rank: of factored matrices; None for head_dim.
        bounded: whether matrices that would let a state grow are divided by their size; without it states can overflow over long texts.
        bias: whether a learnt constant is added to A; it begins as the identity.
        additive: whether inputs are added to the state, too.
        layer_idx: this layer's place in a cache.

    Raises:
        InputError: sizes that are not positive or do not divide, a transition that does not exist, or a rank without factored matrices.

    Examples:
        >>> layer = BilinearRNN(hidden_size=8, num_heads=2, transition="rotation")
        >>> layer(torch.ones(1, 3, 8)).shape
        torch.Size([1, 3, 8])
    """

    alias = "bilinear"

    def __init__(
        self,
        *,
        hidden_size: int,
        num_heads: int,
        head_dim: int | None = None,
        transition: Transition = "block",
        rank: int | None = None,
        bounded: bool = False,
        bias: bool = False,
        additive: bool = False,
        layer_idx: int = 0,
    ) -> None:
        super().__init__(hidden_size=hidden_size, num_heads=num_heads, head_dim=head_dim, layer_idx=layer_idx)
        if transition not in get_args(Transition):
            raise InputError(
                f"expected a transition that exists, got {transition!r}; {near_matches(str(transition), get_args(Transition))}."
            )
        if transition == "rotation" and self.head_dim % 2:
            raise InputError(f"expected an even head_dim for rotations, got {self.head_dim}.")
        if rank is not None and (transition != "factored" or rank < 1):
            raise InputError(f"expected a rank of at least 1, for factored matrices only, got {rank} for {transition!r}.")
        self.transition, self.bounded = transition, bounded
        width = num_heads * self.head_dim
        inner = self.head_dim if rank is None else rank
        self.groups, self.shape = {
            "full": (1, (width, width)),
            "factored": (num_heads, (self.head_dim, self.head_dim)),
            "block": (num_heads, (self.head_dim, self.head_dim)),
            "rotation": (num_heads, (self.head_dim // 2, 2)),
            "diagonal": (num_heads, (self.head_dim,)),
        }[transition]
        numbers = inner if transition == "factored" else self.shape[0] * (self.shape[1] if len(self.shape) == 2 else 1)
        self.a_proj = nn.Linear(hidden_size, self.groups * numbers, bias=False)
        # For inputs of size 1 a state keeps its length on average.
        nn.init.normal_(self.a_proj.weight, std=(hidden_size * (1 if transition in {"factored", "diagonal"} else self.shape[1])) ** -0.5)
        self.left = self.right = self.bias = None
        if transition == "factored":
            self.left = nn.Parameter(torch.randn(num_heads, self.head_dim, inner) * self.head_dim**-0.5)
            self.right = nn.Parameter(torch.randn(num_heads, self.head_dim, inner) * inner**-0.5)
        if bias:
            one = torch.tensor([1.0, 0.0]) if transition == "rotation" else torch.ones(1)
            eye = one.expand(self.shape) if transition in {"rotation", "diagonal"} else torch.eye(self.shape[0])
            self.bias = nn.Parameter(eye.repeat(self.groups, *[1] * len(self.shape)))
        self.b_proj = nn.Linear(hidden_size, width, bias=False) if additive else None

    def transitions(self, x: torch.Tensor) -> torch.Tensor:
        """Matrices ``[B, T, G, W, W]``; complex numbers ``[B, T, num_heads, head_dim / 2]`` of rotations, numbers ``[B, T, num_heads, head_dim]``."""
        raw = widened(self.a_proj(x)).unflatten(2, (self.groups, -1))
        if self.left is not None and self.right is not None:
            a = (widened(self.left) * raw[..., None, :]) @ widened(self.right).mT
        else:
            a = raw.unflatten(3, self.shape)
        if self.bias is not None:
            a = a + widened(self.bias)
        if self.transition == "rotation":
            a = torch.view_as_complex(a.contiguous())
        if not self.bounded:
            return a
        return a / (a.abs().sum(-2, keepdim=True) if a.ndim == 5 else a.abs()).clamp_min(1)

    def additions(self, x: torch.Tensor) -> torch.Tensor | None:
        """What a token adds, where it does."""
        return None if self.b_proj is None else self.b_proj(x).unflatten(2, (self.num_heads, self.head_dim))
