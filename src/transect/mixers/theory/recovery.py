"""How much of what a layer has read it could still tell from what it remembers.

Paper: Universality of Linear Recurrences Followed by Non-linear Projections, Orvieto et al., arXiv 2307.11888, where the last state of a linear
recurrence is ``V u`` and least squares reads the input u back. Layers whose keys and gates come from the input, too, have no V that holds for all
inputs, so ours is that of small changes around each: a change dx of the inputs changes the memory by dm, and

    dm = J dx,     dx' = J^+ dm,     error = |dx' - dx| / |dx|

J is taken one number of the inputs at a time, the error on random changes that J was not made from. The memory is all that the layer hands on to
the next token, a short convolution's tokens among it, each part divided by its size; directions that a change as large as the inputs moves by less
than a tolerance are left out of J^+, as rounding would hide them. What is linear and loses nothing has an error of 0; of D numbers a token and T
tokens, a memory that keeps r directions has ``sqrt(1 - r / (T D))``, and one that keeps nothing 1.
"""

from dataclasses import dataclass
from typing import final

import torch

from transect.errors import InputError
from transect.mixers.layers import MixerCache, SequenceLayer

_STEP = 1e-7
"""Of the central differences: in float64 their error is some 1e-9, and no choice a layer makes between tokens is likely to fall within it."""


@final
@dataclass(frozen=True, eq=False)
class Recovery:
    """What of the inputs is read back from a memory.

    Args:
        error: of all tokens together, as a share of the change there was.
        by_token: ``[T]``, the same of each token.
        kept: directions of the inputs that the memory tells apart, a mean over the inputs.
    """

    error: float
    by_token: torch.Tensor
    kept: float


def recover_input(
    layer: SequenceLayer, x: torch.Tensor, *, generator: torch.Generator, tolerance: float = 2**-8, changes: int = 64
) -> Recovery:
    """Read small changes of the inputs back from what a layer remembers after the last of them.

    Args:
        layer: in float64, with a memory of fixed size.
        x: ``[n, T, hidden_size]`` inputs around which changes are made; errors are over all of them.
        generator: draws the changes to be read back.
        tolerance: what counts as moved, as a share of the memory's size; as it stands, a number kept in 16 bits (bfloat16).
        changes: how many are read back around each input.

    Raises:
        InputError: inputs that are not in float64, no tokens, a memory that grows, or settings out of their ranges.

    Examples:
        >>> from transect.mixers import GLA
        >>> x = torch.randn(1, 4, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
        >>> found = recover_input(GLA(hidden_size=8, num_heads=2).double(), x, generator=torch.Generator().manual_seed(0))
        >>> found.by_token.shape, found.kept <= 32
        (torch.Size([4]), True)
    """
    if x.dtype != torch.float64 or x.ndim != 3 or not x.numel():
        raise InputError(f"expected inputs [n, T, hidden_size] in float64, at least one of them, got {list(x.shape)} in {x.dtype}.")
    if not 0 < tolerance < 1 or changes < 1:
        raise InputError(f"expected a tolerance between 0 and 1 and at least one change, got {tolerance} and {changes}.")
    sizes = [[part.shape for part in _memory(layer, x[:1].repeat(1, times, 1)).values()] for times in (1, 2)]
    if sizes[0] != sizes[1]:
        raise InputError(f"expected a layer with a memory of fixed size, got {type(layer).__name__}, whose memory grows with the sequence.")
    wrong, there, kept = [], [], []
    for one in x:
        units = torch.eye(one.numel(), dtype=x.dtype).reshape(-1, *one.shape)
        drawn = torch.randn(changes, *one.shape, generator=generator, dtype=x.dtype)
        moved = _moved(layer, one, torch.cat([units, drawn]))
        u, s, vh = torch.linalg.svd(moved[: len(units)], full_matrices=False)
        seen = s > tolerance
        back = (moved[len(units) :] @ vh[seen].mT / s[seen]) @ u[:, seen].mT
        wrong.append((back.reshape(drawn.shape) - drawn).square().sum((0, 2)))
        there.append(drawn.square().sum((0, 2)))
        kept.append(int(seen.sum()))
    lost, size = torch.stack(wrong).sum(0), torch.stack(there).sum(0)
    return Recovery(float((lost.sum() / size.sum()).sqrt()), (lost / size).sqrt(), sum(kept) / len(kept))


def _moved(layer: SequenceLayer, one: torch.Tensor, changes: torch.Tensor) -> torch.Tensor:
    """``[changes, m]``: how each change moves the memory's numbers, which are of size 1."""
    base, more, less = (_memory(layer, one + step * changes) for step in (0.0, _STEP, -_STEP))
    found = []
    for name, held in base.items():
        size = float(held[0][held[0].isfinite()].square().mean().sqrt()) if bool(held[0].isfinite().any()) else 0.0
        difference = (more[name] - less[name]).flatten(1) / (2 * _STEP * (size or 1.0))
        # What is not finite is a place that nothing was put in yet: it holds nothing.
        found.append(difference[:, difference.isfinite().all(0)])
    return torch.cat(found, 1)


def _memory(layer: SequenceLayer, x: torch.Tensor) -> dict[str, torch.Tensor]:
    cache = MixerCache()
    with torch.no_grad():
        layer(x, cache=cache)
    held = cache.get(layer.layer_idx, kind=type(layer).__name__, sequences=len(x))
    parts = {} if held is None else held.parts
    real = {name: torch.view_as_real(part) if part.is_complex() else part for name, part in parts.items()}
    return {name: part for name, part in real.items() if part.is_floating_point()}
