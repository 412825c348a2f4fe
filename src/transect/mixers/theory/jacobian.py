"""How a step of a recurrence changes the state it is given.

Paper: Unlocking State-Tracking in Linear RNNs Through Negative Eigenvalues, Grazzi et al., arXiv 2411.12537. The delta rule's step is
``I - beta k k^T``: for a unit key its eigenvalues are 1, and once ``1 - beta``, which is negative for beta above 1.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import final

import torch

from transect.errors import InputError
from transect.mixers.layers import Inside, SequenceLayer
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


def step_spectrum(layer: SequenceLayer, x: torch.Tensor) -> Spectrum:
    """The Jacobian of a layer's last step, of its first head's state.

    Args:
        layer: with an op that goes on from a state of fixed size.
        x: ``[1, T, hidden_size]``, at least two tokens: the step is the last one's, from the state that those before left.

    Raises:
        InputError: a layer without such an op, more than one sequence, or fewer than two tokens.

    Examples:
        >>> from transect.mixers import LinearAttention
        >>> x = torch.randn(1, 3, 8, dtype=torch.float64)
        >>> round(step_spectrum(LinearAttention(hidden_size=8, num_heads=2).double(), x).norm, 9)  # it only adds
        1.0
    """
    if x.ndim != 3 or len(x) != 1 or x.shape[1] < 2:
        raise InputError(f"expected one sequence of at least two tokens [1, T, hidden_size], got {list(x.shape)}.")
    with torch.no_grad():
        (_, before), (_, inside) = (layer(each, return_inside=True) for each in (x[:, :-1], x))
    if not (isinstance(before, Inside) and isinstance(inside, Inside)):
        raise TypeError("the inside was asked for")
    op, state, tokens = inside.op, before.final_state, x.shape[1]
    if op is None or state is None:
        raise InputError(
            f"expected a layer whose op goes on from a state of fixed size, got {type(layer).__name__}, whose memory grows or that has no such op."
        )
    # Heads may share inputs or have constants of their own in the op: all of them run, and one is differentiated.
    token = {name: part[:, part.shape[1] // tokens * (tokens - 1) :] for name, part in inside.inputs.items()}

    def first(*, initial_state: torch.Tensor, output_final_state: bool, form: str) -> tuple[torch.Tensor, torch.Tensor | None]:
        whole = torch.cat([initial_state, state[:, 1:]], 1)
        o, new = op(**token, initial_state=whole, output_final_state=output_final_state, form=form)
        return o, None if new is None else new[:, :1]

    return jacobian_spectrum(first, {}, state[:, :1])


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
