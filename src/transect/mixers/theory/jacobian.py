"""How a step of a recurrence changes the state it is given.

Paper: Unlocking State-Tracking in Linear RNNs Through Negative Eigenvalues, Grazzi et al., arXiv 2411.12537. The delta rule's step is
``I - beta k k^T``: for a unit key its eigenvalues are 1, and once ``1 - beta``, which is negative for beta above 1.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import final

import torch

from transect.errors import InputError
from transect.mixers.layers.base import Op


@final
@dataclass(frozen=True, eq=False)
class Spectrum:
    """The Jacobian of a step, one head and one sequence.

    Args:
        eigenvalues: ``[n]`` complex, by real part.
        norm: its largest singular value.
    """

    eigenvalues: torch.Tensor
    norm: float


def jacobian_spectrum(op: Op, inputs: Mapping[str, torch.Tensor], state: torch.Tensor) -> Spectrum:
    """Eigenvalues and spectral norm of ``d S_t / d S_(t-1)``, by automatic differentiation.

    Args:
        op: of `transect.mixers`.
        inputs: what it takes, for one token of one sequence and one head, such as ``q [1, 1, 1, K]``.
        state: the state before, ``[1, 1, ...]``; the Jacobian is of all its n numbers.

    Raises:
        InputError: more than one sequence or head in the state.

    Examples:
        >>> from transect.mixers import delta_rule
        >>> unit = torch.tensor([1.0, 0.0], dtype=torch.float64).reshape(1, 1, 1, 2)
        >>> step = {"q": unit, "k": unit, "v": unit[..., :1], "beta": torch.full((1, 1, 1), 2.0, dtype=torch.float64)}
        >>> jacobian_spectrum(delta_rule, step, torch.zeros(1, 1, 2, 1, dtype=torch.float64)).eigenvalues.real.tolist()
        [-1.0, 1.0]
    """
    if state.ndim < 3 or state.shape[:2] != (1, 1):
        raise InputError(f"expected the state [1, 1, ...] of one sequence and head, got {list(state.shape)}.")

    def after(flat: torch.Tensor) -> torch.Tensor:
        _, new = op(**inputs, initial_state=flat.reshape(state.shape), output_final_state=True, form="recurrent")
        if new is None:
            raise TypeError("the final state was asked for")
        return new.flatten()

    matrix = torch.autograd.functional.jacobian(after, state.flatten())
    if not isinstance(matrix, torch.Tensor):
        raise TypeError("one input has one Jacobian")
    eigenvalues = torch.linalg.eigvals(matrix)
    return Spectrum(eigenvalues[eigenvalues.real.argsort()], float(torch.linalg.matrix_norm(matrix, 2)))
