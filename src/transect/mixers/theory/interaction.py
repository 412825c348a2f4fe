"""The rank of the interactions that a layer can choose between, and how they fade with distance.

Paper: one on the interaction rank gap between attention and state-space operators, whose abstract alone is followed here; the tolerance and the
choice of inputs are ours. A head makes ``o_i = sum_j W_ij(X) v_j``; the matrices
``W(X)`` over inputs X span k dimensions, as one head each of a fixed interaction would: ``H = k`` such heads are needed to express them all.

    k = rank [vec W(X_1); ...; vec W(X_n)],     fade(d) = mean |W_ij| over i - j = d
"""

from dataclasses import dataclass
from typing import final

import torch

from transect.errors import InputError
from transect.mixers.layers import Inside, SequenceLayer


@final
@dataclass(frozen=True, eq=False)
class Interaction:
    """What the effective matrices of a layer span.

    Args:
        ranks: for each head, the dimensions that its matrices span; at most the number of inputs, and T (T + 1) / 2.
        inputs: how many inputs were tried.
        fade: ``[H, T]``, the mean size of an entry by distance.
    """

    ranks: tuple[int, ...]
    inputs: int
    fade: torch.Tensor


def interaction_rank(layer: SequenceLayer, x: torch.Tensor, *, tolerance: float = 1e-8) -> Interaction:
    """Measure the span of a layer's effective matrices over many inputs.

    Args:
        layer: in float64, so that a small singular value is not rounding.
        x: ``[n, T, hidden_size]`` inputs.
        tolerance: singular values below this share of the largest count as 0.

    Raises:
        InputError: inputs that are not in float64, or fewer than two of them.

    Examples:
        >>> from transect.mixers import DeltaNet
        >>> found = interaction_rank(DeltaNet(hidden_size=8, num_heads=2).double(), torch.randn(4, 5, 8, dtype=torch.float64))
        >>> found.ranks
        (4, 4)
    """
    if x.dtype != torch.float64 or x.ndim != 3 or len(x) < 2:
        raise InputError(f"expected at least two inputs [n, T, hidden_size] in float64, got {list(x.shape)} in {x.dtype}.")
    with torch.no_grad():
        _, inside = layer(x, return_inside=True)
        if not isinstance(inside, Inside):
            raise TypeError("the inside was asked for")
        matrices = inside.effective_matrix()
    spread = torch.linalg.svdvals(matrices.transpose(0, 1).flatten(2))
    ranks = tuple(int((s > tolerance * s[0]).sum()) for s in spread)
    n, tokens = len(x), matrices.shape[2]
    size = matrices.abs().reshape(n, -1, tokens, tokens, matrices.shape[3] // tokens).sum(-1).mean(0)
    fade = torch.stack([size.diagonal(-d, dim1=1, dim2=2).mean(-1) for d in range(tokens)], -1)
    return Interaction(ranks, n, fade)
