"""Newton's method for many penalised problems that share their rows.

Each problem minimises ``loss(z @ w + c) + penalty / 2 * |w|^2`` over ``w [r, k]`` and free intercepts ``c [k]``, where the loss
is convex and its weights sum to one. All problems advance together, so that the work is a few wide matrix products; each has
its own step length and leaves when it is done.

* The step solves the Newton equations by conjugate gradients, preconditioned by the shared factorisation (`Rotation`),
  more precisely the nearer the end is (Dembo, Eisenstat & Steihaug 1982).
* These inner products run in float32; gradients, margins and steps in float64. Rounding there costs steps, not accuracy.
* The step length is the zero of the derivative along the step. The margins along it are known, so this costs no products,
  and for a convex loss it cannot fail.
* A problem is done when the error that is left after a step, ``|w - w*|``, is below ``tol * |w|``. The step has length
  ``delta`` in the norm of the second derivative H, which is at least ``sqrt(penalty)`` times the plain norm. What is left is
  the part of the equations not solved, plus the change of H along the step, which for these losses is at most
  ``exp(largest change of a margin) - 1`` (self-concordance: Bach 2010).
"""

import dataclasses

import torch

from transect.probes._losses import ManyClasses, TwoClasses

FORCING = 0.1
"""The Newton equations are solved at least to this fraction of the step."""
LINE_STEPS = 12
"""Trial step lengths at most; one is the rule near the end."""
LINE_FLATNESS = 0.1
"""The slope along the step that is accepted, as a fraction of the slope at its start."""
EQUATION_STEPS = 400
"""Steps of conjugate gradients at most, per Newton step."""


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Minimum:
    """What the solver found: ``weight [r, b, k]``, ``intercept [b, k]``, the ``objective [b]``, ``steps [b]``, ``converged [b]``."""

    weight: torch.Tensor
    intercept: torch.Tensor
    objective: torch.Tensor
    steps: torch.Tensor
    converged: torch.Tensor
