"""Newton's method for many penalised problems that share their rows.

Each problem minimises ``loss(z @ w + c) + penalty / 2 * |w|^2`` over ``w [k, r]`` and free intercepts ``c [k]``, where the loss
is convex and its weights sum to one. All problems advance together, so that the work is a few wide matrix products; each has
its own step length and leaves when it is done.

* The step solves the Newton equations by conjugate gradients, preconditioned by the shared factorisation (`Rotation`), more
  precisely the nearer the end is (Dembo, Eisenstat & Steihaug 1982).
* These inner products run in float32; gradients, margins and steps in float64. Rounding there costs steps, not accuracy.
* The step length is the zero of the derivative along the step. The margins along it are known, so this costs no products,
  and for a convex loss it cannot fail.
* A problem is done when the error that is left after a step is below ``tol * |w|``. The step has length ``delta`` in the norm
  of the second derivative H, which is at least ``sqrt(penalty)`` times the plain norm. What is left of it is the part of the
  equations not solved, plus the change of H along the step, which for these losses is at most
  ``exp(largest change of a margin) - 1`` (self-concordance: Bach 2010, https://arxiv.org/abs/0910.4627).
"""

import dataclasses

import torch

from transect.probes._equations import solve_equations
from transect.probes._losses import ManyClasses, ManyClassesAt, TwoClasses, TwoClassesAt, dot
from transect.probes._rotation import Rotation

FORCING = 0.1
"""The Newton equations are solved at least to this fraction of the step."""
FINEST_FORCING = 1e-4
"""And at most to this one, which float32 still reaches."""
LEAST_SIZE = 1e-4
"""What the weights count for at least when what is left is compared with them; in the norm of the penalty."""
LINE_TRIALS = 12
"""Trial step lengths at most; one is the rule near the end."""
LINE_FLATNESS = 0.1
"""The slope along the step that is accepted, as a fraction of the slope at its start."""


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Minimum:
    """What the solver found, in the coordinates of the `Rotation`.

    Args:
        weight: ``[b, k, r]``.
        intercept: ``[b, k]``.
        objective: ``[b]`` mean loss plus half the penalty times the squared norm.
        steps: ``[b]`` Newton steps taken.
        converged: ``[b]`` whether ``tol`` was met.
    """

    weight: torch.Tensor
    intercept: torch.Tensor
    objective: torch.Tensor
    steps: torch.Tensor
    converged: torch.Tensor

    def split(self, size: int) -> "list[Minimum]":
        """A number of problems at a time."""
        names = [field.name for field in dataclasses.fields(self)]
        columns = [getattr(self, name).split(size) for name in names]
        return [Minimum(**dict(zip(names, parts, strict=True))) for parts in zip(*columns, strict=True)]

    @classmethod
    def join(cls, parts: "list[Minimum]", index: torch.Tensor) -> "Minimum":
        """Parts put together; the problem at each place belongs at ``index``."""
        names = [field.name for field in dataclasses.fields(cls)]
        whole = {name: torch.cat([getattr(part, name) for part in parts]) for name in names}
        return cls(**{name: torch.empty_like(value).index_copy_(0, index, value) for name, value in whole.items()})


@dataclasses.dataclass(eq=False)
class _State:
    """The problems that are still open: their numbers, and where they are."""

    index: torch.Tensor
    loss: TwoClasses | ManyClasses
    penalty: torch.Tensor
    weight: torch.Tensor
    intercept: torch.Tensor
    margins: torch.Tensor
    at: TwoClassesAt | ManyClassesAt
    reach: torch.Tensor  # [b] the largest change of a margin in the last step

    def select(self, keep: torch.Tensor) -> "_State":
        return _State(
            index=self.index[keep],
            loss=self.loss.select(keep),
            penalty=self.penalty[keep],
            weight=self.weight[keep],
            intercept=self.intercept[keep],
            margins=self.margins[keep],
            at=self.at.select(keep),
            reach=self.reach[keep],
        )


@torch.no_grad()
def minimise(
    rotation: Rotation,
    loss: TwoClasses | ManyClasses,
    penalty: torch.Tensor,
    *,
    tol: float,
    max_steps: int,
    start: tuple[torch.Tensor, torch.Tensor] | None = None,
) -> Minimum:
    """Minimise every problem of a loss.

    Args:
        rotation: the shared rows.
        loss: the problems; the weights of each sum to one.
        penalty: ``[b]``, above zero.
        tol: largest relative error of the weights of a problem, ``|w - w*| <= tol |w|``.
        max_steps: Newton steps at most.
        start: weights ``[b, k, r]`` and intercepts ``[b, k]`` near the answer; without them, zero.
    """
    problems, k, rows = len(penalty), loss.outputs, rotation.z
    if start is None:
        weight, intercept = rows.new_zeros(problems, k, rows.shape[1]), rows.new_zeros(problems, k)
    else:
        weight, intercept = (part.clone() for part in start)
    margins = forward(rows, weight) + intercept.unsqueeze(-1)
    index = torch.arange(problems, device=rows.device)
    state = _State(index, loss, penalty, weight, intercept, margins, loss.at(margins), torch.ones_like(penalty))
    found = Minimum(
        weight=torch.empty_like(weight),
        intercept=torch.empty_like(intercept),
        objective=torch.empty_like(penalty),
        steps=torch.zeros_like(index),
        converged=torch.zeros_like(index, dtype=torch.bool),
    )
    for step in range(1, max_steps + 1):
        done = _step(state, rotation, tol)
        if done.any():
            _record(found, state.select(done), step, converged=True)
            if done.all():
                return found
            state = state.select(~done)
    _record(found, state, max_steps, converged=False)
    return found


def _record(found: Minimum, state: _State, step: int, *, converged: bool) -> None:
    found.weight[state.index] = state.weight
    found.intercept[state.index] = state.intercept
    found.objective[state.index] = state.loss.total(state.margins) + state.penalty * dot(state.weight, state.weight) / 2
    found.steps[state.index] = step
    found.converged[state.index] = converged


def _step(state: _State, rotation: Rotation, tol: float) -> torch.Tensor:
    """One Newton step of every problem, in place; True for those it completes."""
    rows, penalty = rotation.z, state.penalty
    curvature = state.at.free_intercepts()
    drift = state.at.slope.sum(-1)
    settle = curvature.settle(drift)
    settling = -(drift * settle).sum(-1)  # what the intercepts alone add to the square of the step's length
    slope = state.at.slope + curvature.times(settle.unsqueeze(-1).expand_as(state.at.slope))
    target = -(backward(rows, slope) + penalty[:, None, None] * state.weight)
    step, unsolved, length = solve_equations(
        rotation,
        curvature,
        penalty,
        target,
        fraction=state.reach.clamp(FINEST_FORCING, FORCING),
        enough=0.3 * tol * (penalty * dot(state.weight, state.weight)).sqrt(),
        exact=False,
    )
    change = forward(rows, step)
    settle = settle + curvature.follow(change)
    change.add_(settle.unsqueeze(-1))
    amount = _line(state, step, change)
    state.weight.addcmul_(amount[:, None, None], step)
    state.intercept.addcmul_(amount[:, None], settle)
    state.margins.addcmul_(amount[:, None, None], change)
    counted = (state.loss.weight > 0).unsqueeze(1)
    state.reach = (change * counted).abs().amax((1, 2)) * amount
    bend = torch.expm1(state.reach.clamp(max=5)) / 2 + (amount - 1).abs()
    left = unsolved + (length.square() + settling.clamp_min(0)).sqrt() * bend
    # Rounding leaves this much of any answer undecided, however small the tolerance.
    tol = max(tol, 8 * torch.finfo(rows.dtype).eps)
    # Where the weights are zero nothing is small beside them; half the square of what is left is what the objective can still
    # gain, and the mean loss is of the order of one.
    return left <= tol * (penalty * dot(state.weight, state.weight)).sqrt().clamp_min(LEAST_SIZE)


def _line(state: _State, step: torch.Tensor, change: torch.Tensor) -> torch.Tensor:
    """The step length ``[b]`` where the derivative along the step vanishes; leaves ``state.at`` there."""
    penalty = state.penalty
    across, square = penalty * dot(state.weight, step), penalty * dot(step, step)
    start = state.at.along(change)[0] + across
    amount = torch.ones_like(penalty)
    low, high = torch.zeros_like(amount), torch.full_like(amount, torch.inf)
    for trial in range(LINE_TRIALS):
        state.at = state.loss.at(torch.addcmul(state.margins, amount[:, None, None], change))
        first, second = state.at.along(change)
        first, second = first + across + amount * square, second + square
        fine = first.abs() <= LINE_FLATNESS * start.abs()
        if fine.all() or trial == LINE_TRIALS - 1:
            break
        low, high = torch.where(first < 0, amount, low), torch.where(first > 0, amount, high)
        middle = torch.where(high.isfinite(), (low + high) / 2, 2 * low)
        newton = torch.minimum(amount - first / second, 4 * amount)
        inside = (newton > low) & (newton < high)  # False for NaN, too
        amount = torch.where(fine, amount, torch.where(inside, newton, middle))
    return amount


def forward(rows: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """Margins ``[b, k, n]`` of rows ``[n, r]`` under weights ``[b, k, r]``."""
    return (weight.flatten(0, 1) @ rows.T).view(*weight.shape[:2], len(rows))


def backward(rows: torch.Tensor, slope: torch.Tensor) -> torch.Tensor:
    """The slopes ``[b, k, n]`` collected into weights ``[b, k, r]``."""
    return (slope.flatten(0, 1) @ rows).view(*slope.shape[:2], rows.shape[1])
