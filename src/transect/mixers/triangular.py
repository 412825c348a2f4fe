"""Inverses of the unit-triangular matrices of delta rules, in the ways that are in use; for comparison, for the chunk form uses the first.

Paper: Fast stable triangular inversion for delta-rule linear attention, 2026.

    substitution   row by row, in LAPACK; what `transect.mixers.chunk` uses
    blocked        substitution in blocks of 16, merged in pairs: inverse of [[A, 0], [C, B]] is [[A', 0], [-B' C A', B']]
    neumann        (I + N)(I + N^2)(I + N^4) ... with N = I - L; exact on paper, and useless where keys resemble each other: the powers of N
                   overflow before they vanish
    newton         X <- X (2 I - L X) from I, which is the same product in another order

`benchmarks/triangular.py` measures their errors and times. The direct ones
are the most accurate and, on a CPU, three to six times as fast at 64 rows.
"""

import math
from typing import Literal, get_args

import torch

from transect.errors import InputError, near_matches

Method = Literal["substitution", "blocked", "neumann", "newton"]
_BLOCK = 16


def invert_unit_lower(matrix: torch.Tensor, *, method: Method = "substitution") -> torch.Tensor:
    """The inverse of lower-triangular matrices ``[..., C, C]`` with ones on the diagonal; what stands above it is not looked at.

    Args:
        matrix: the matrices.
        method: see the head of this module.

    Raises:
        InputError: matrices that are not square, or a method that does not exist.

    Examples:
        >>> invert_unit_lower(torch.tensor([[1.0, 0.0], [3.0, 1.0]]))
        tensor([[ 1.,  0.],
                [-3.,  1.]])
    """
    if matrix.ndim < 2 or matrix.shape[-1] != matrix.shape[-2]:
        raise InputError(f"expected square matrices [..., C, C], got {list(matrix.shape)}.")
    if method not in get_args(Method):
        raise InputError(f"expected a method that exists, got {method!r}; {near_matches(str(method), get_args(Method))}.")
    size = matrix.shape[-1]
    eye = torch.eye(size, dtype=matrix.dtype, device=matrix.device)
    if method == "substitution":
        return torch.linalg.solve_triangular(matrix, eye.expand(matrix.shape), upper=False, unitriangular=True)
    lower = matrix.tril(-1)
    if method == "blocked":
        return _blocked(lower + eye)
    found = eye - lower
    rounds = max(math.ceil(math.log2(max(size, 2))) - 1, 0)
    if method == "neumann":
        power = lower
        for _ in range(rounds):
            power = power @ power
            found = found @ (eye + power)
        return found
    for _ in range(rounds):
        found = found @ (2 * eye - (lower + eye) @ found)
    return found


def _blocked(matrix: torch.Tensor) -> torch.Tensor:
    size = matrix.shape[-1]
    if size <= _BLOCK:
        return invert_unit_lower(matrix)
    half = _BLOCK * math.ceil(size / _BLOCK / 2)
    first, second = _blocked(matrix[..., :half, :half]), _blocked(matrix[..., half:, half:])
    below = -second @ matrix[..., half:, :half] @ first
    right = first.new_zeros(*matrix.shape[:-2], half, size - half)
    return torch.cat([torch.cat([first, right], -1), torch.cat([below, second], -1)], -2)
