"""What the state of a linear recurrence still holds of its input.

Paper: Universality of Linear Recurrences Followed by Non-linear Projections, Orvieto et al., arXiv 2307.11888. With ``x_t = lambda x_(t-1) + u_t``
the last state is ``x_T = V u`` for the Vandermonde matrix ``V[n, t] = lambda_n^(T - t)``: distinct eigenvalues, at least T of them, lose nothing.
"""

from dataclasses import dataclass
from math import pi
from typing import final

import torch

from transect.errors import InputError


@final
@dataclass(frozen=True, eq=False)
class Reconstruction:
    """An input read back from the last state.

    Args:
        u: ``[T]``, by least squares.
        error: its distance from the input, as a share of the input's norm.
        condition: of the Vandermonde matrix; digits lost are its logarithm.
    """

    u: torch.Tensor
    error: float
    condition: float


def reconstruct_input(u: torch.Tensor, *, states: int, low: float, high: float, generator: torch.Generator) -> Reconstruction:
    """Run a random diagonal recurrence over an input and read the input back from the last state.

    Args:
        u: ``[T]`` real.
        states: N complex eigenvalues.
        low, high: the ring in which they are drawn, uniformly by area, as the LRU does.
        generator: draws them.

    Raises:
        InputError: an input that is not one sequence, no states, or a ring that is not within 0 to 1.

    Examples:
        >>> draw = torch.Generator().manual_seed(0)
        >>> reconstruct_input(torch.ones(4), states=16, low=0.9, high=1.0, generator=draw).error < 1e-9
        True
    """
    if u.ndim != 1 or not len(u) or states < 1 or not 0 <= low <= high <= 1:
        raise InputError(
            f"expected u [T], at least one state and 0 <= low <= high <= 1, got {list(u.shape)}, {states} states and {low} to {high}."
        )
    share, turn = torch.rand(2, states, generator=generator, dtype=torch.float64)
    rates = torch.polar((share * (high**2 - low**2) + low**2).sqrt(), 2 * pi * turn)
    signal = u.to(torch.complex128)
    state = torch.zeros(states, dtype=torch.complex128)
    for value in signal:
        state = rates * state + value
    matrix = rates[:, None] ** torch.arange(len(u) - 1, -1, -1, dtype=torch.float64)
    # The input is real: real and imaginary parts are equations of their own.
    stacked, seen = torch.cat([matrix.real, matrix.imag]), torch.cat([state.real, state.imag])
    found = torch.linalg.lstsq(stacked, seen[:, None], driver="gelsd").solution[:, 0]
    error = float((found - signal.real).norm() / signal.real.norm().clamp_min(1e-300))
    return Reconstruction(found, error, float(torch.linalg.cond(stacked)))
