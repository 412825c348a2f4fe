"""What a linear recurrence can express by itself, and with a nonlinear map behind it.

Paper: Universality of Linear Recurrences Followed by Non-linear Projections, Orvieto et al., arXiv 2307.11888. The state of a diagonal recurrence

    h_t = a h_{t-1} + b x_t                                     a, b in C^N, drawn as the LRU draws them

is linear in the inputs, so a linear readout is. As soon as the state holds the last T inputs (N distinct complex numbers hold 2 N real ones), a network
with one hidden layer behind it comes as close as it is wide to any continuous function of them. Here the function is a product of two inputs,
``y_t = x_t x_{t-T+1}``, of which no linear function of the inputs tells anything; errors are shares of y's variance, on sequences that nothing was
fitted to.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import pi
from typing import final

import torch

from transect.errors import InputError


@final
@dataclass(frozen=True)
class Expressed:
    """How wrong two readouts of one recurrence are.

    Args:
        states: N, complex.
        linear: the error of a linear readout; 1 is that of a constant.
        nonlinear: the error of one with a hidden layer.
    """

    states: int
    linear: float
    nonlinear: float


def expressiveness(
    states: Sequence[int], *, generator: torch.Generator, tokens: int = 8, width: int = 512, sequences: int = 8192
) -> tuple[Expressed, ...]:
    """Fit a product of two inputs from recurrences of several sizes.

    The hidden layer is drawn at random and its readout is fitted by ridge regression, so nothing depends on an optimiser. States are
    made uncorrelated and of variance 1 first, which a linear map before the hidden layer can do.

    Args:
        states: numbers of complex states to try.
        generator: draws inputs, recurrences and hidden layers.
        tokens: T, how far the two inputs are apart, plus one.
        width: of the hidden layer.
        sequences: to fit to, and as many to measure on.

    Raises:
        InputError: fewer than one state, two tokens, or one hidden number or sequence.

    Examples:
        >>> few, enough = expressiveness([1, 4], generator=torch.Generator().manual_seed(0), tokens=4, width=512, sequences=2048)
        >>> enough.nonlinear < 0.2 < 0.9 < enough.linear, enough.nonlinear < few.nonlinear
        (True, True)
    """
    if not states or min(states) < 1 or tokens < 2 or width < 1 or sequences < 1:
        raise InputError(
            f"expected states of at least 1, at least 2 tokens, a width and sequences of at least 1, got {list(states)}, {tokens}, {width} and {sequences}."
        )
    x = torch.randn(2, sequences, tokens, generator=generator, dtype=torch.float64)
    y = x[..., 0] * x[..., -1]
    found = []
    for count in states:
        share, turn = torch.rand(2, count, generator=generator, dtype=torch.float64)
        # Half the circle: a real input says nothing more of a conjugate. Radii are far from 0, or old inputs would be lost in rounding.
        powers = torch.polar(0.9 + 0.1 * share, pi * turn) ** torch.arange(tokens - 1, -1, -1, dtype=torch.float64)[:, None]
        h = torch.view_as_real(x.to(powers.dtype) @ powers).flatten(2)
        z = _whitened(h)
        weight = torch.randn(z.shape[2], width, generator=generator, dtype=torch.float64)
        hidden = (z @ weight / z.shape[2] ** 0.5 + torch.randn(width, generator=generator, dtype=torch.float64)).relu()
        found.append(Expressed(count, _error(z, y), _error(torch.cat([z, hidden], 2), y)))
    return tuple(found)


def _whitened(h: torch.Tensor) -> torch.Tensor:
    """Uncorrelated coordinates of variance 1 on the first half ``[0]``, but for directions that hold nothing."""
    u, s, _ = torch.linalg.svd(h[0].mT @ h[0] / h.shape[1])
    kept = s > 1e-9 * s[0]
    return h @ (u[:, kept] / s[kept].sqrt())


def _error(features: torch.Tensor, y: torch.Tensor) -> float:
    """The share of variance that ridge regression on ``[0]`` leaves on ``[1]``."""
    first, second = (torch.cat([part, torch.ones_like(part[:, :1])], 1) for part in features)
    gram = first.mT @ first
    gram.diagonal().add_(1e-6 * float(gram.diagonal().mean()))
    fitted = torch.cholesky_solve((first.mT @ y[0])[:, None], torch.linalg.cholesky(gram))[:, 0]
    return float((second @ fitted - y[1]).square().mean() / y[1].var())
