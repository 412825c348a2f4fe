"""Which form computes a recurrence, and the shape in which every op answers."""

from collections.abc import Callable
from typing import get_args

import torch

from transect.errors import InputError, near_matches
from transect.mixers.algebra import Form, Recurrence
from transect.mixers.chunk import chunked
from transect.mixers.kernels import kernel_for, run_kernel
from transect.mixers.naive import naive
from transect.mixers.parallel import parallel
from transect.mixers.recurrent import recurrent

CHUNK = 32
"""The default number of keys in a chunk."""

_FEW = 4  # up to so many tokens the loop costs less than a chunk does


def evaluate(
    problem: Recurrence, *, form: Form, chunk_size: int, output_final_state: bool, dtype: torch.dtype
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Compute a recurrence in one of its forms; outputs in `dtype`, states in the precision they were computed in.

    With "auto" a GPU's kernel stands in for the chunk form where there is one; see `transect.mixers.kernels`.

    Raises:
        InputError: a form that does not exist, or a chunk size that is no power of two.
    """
    forms: dict[str, Callable[[], tuple[torch.Tensor, torch.Tensor]]] = {
        "recurrent": lambda: recurrent(problem),
        "parallel": lambda: parallel(problem),
        "chunk": lambda: chunked(problem, chunk_size),
        "naive": lambda: naive(problem),
    }
    chosen = choose(form, problem.q.shape[1])
    kernel = kernel_for(problem, dtype) if form == "auto" and chosen == "chunk" else None
    out, state = forms[chosen]() if kernel is None else run_kernel(kernel, problem, dtype)
    return out.to(dtype), state if output_final_state else None


def choose(form: Form, tokens: int) -> Form:
    """The form itself, or what "auto" means for so many tokens.

    Raises:
        InputError: a form that does not exist.

    Examples:
        >>> choose("auto", 1), choose("auto", 100)
        ('recurrent', 'chunk')
    """
    if form not in get_args(Form):
        raise InputError(f"expected a form that exists, got {form!r}; {near_matches(str(form), get_args(Form))}.")
    if form == "auto":
        return "recurrent" if tokens <= _FEW else "chunk"
    return form
