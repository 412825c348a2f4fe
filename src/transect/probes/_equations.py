"""Conjugate gradients for many linear systems that share their rows.

``(Z' C Z + penalty) x = target`` for each problem, where ``C`` is the second derivative of its loss with the intercepts moving
along, or the weights of a least-squares problem. The shared factorisation makes each matrix close to a diagonal one.
"""

from typing import Protocol, TypeVar

import torch

from transect.probes._losses import dot
from transect.probes._rotation import Rotation

PATIENCE = 300
"""Steps after which a system is solved outright, one at a time, if its matrix has at most `DENSE` rows."""
DENSE = 4096
MAX_STEPS = 3000
"""Steps at most for larger ones. The Newton solver lives with an unsolved system: its step is shorter, and the next one goes on."""
LEAVING = 0.2
"""Solved systems are taken out of the products when they are this share of them; taking them out costs a copy."""

Self = TypeVar("Self")


class Operator(Protocol):
    """Something that holds a part for each problem."""

    def to(self: Self, dtype: torch.dtype) -> Self:
        """In another precision."""
        ...

    def select(self: Self, keep: torch.Tensor) -> Self:
        """The problems in ``keep`` only."""
        ...


class Preconditioner(Operator, Protocol):
    """Nearly the inverse of the matrix, for vectors ``[b, k, r]``."""

    def __call__(self, vector: torch.Tensor) -> torch.Tensor:
        """The product."""
        ...


class Curvature(Operator, Protocol):
    """The matrix ``C`` of each problem."""

    needs_precision: bool
    """Whether a product in float32 can lose all its digits."""

    def product_(self, margins: torch.Tensor) -> torch.Tensor:
        """``C @ margins [b, k, n]``; may overwrite its argument."""
        ...

    def preconditioner(self, rotation: Rotation, penalty: torch.Tensor) -> Preconditioner:
        """Nearly the inverse of ``Z' C Z + penalty``."""
        ...

    def dense(self, rows: torch.Tensor) -> torch.Tensor:
        """The matrix ``Z' C Z [kr, kr]`` of the only problem."""
        ...


@torch.no_grad()
def solve_equations(
    rotation: Rotation,
    curvature: Curvature,
    penalty: torch.Tensor,
    target: torch.Tensor,
    *,
    fraction: torch.Tensor,
    enough: torch.Tensor | None = None,
    exact: bool,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Solve for ``x [b, k, r]``.

    Args:
        rotation: the shared rows.
        curvature: ``C``.
        penalty: ``[b]``.
        target: ``[b, k, r]``.
        fraction: ``[b]`` stop where the error is below this fraction of the length of ``x``; both in the norm of the matrix.
        enough: ``[b]`` or where it is below this.
        exact: use the working precision instead of float32.

    Returns:
        ``x``, the error ``[b]`` (an estimate), and the length ``[b]`` of ``x``.
    """
    rows = rotation.z if exact or curvature.needs_precision else rotation.z_low
    low = rows.dtype
    # float32 cannot hold very small targets, so each problem is scaled to a target of length one.
    norm = dot(target, target).sqrt().clamp_min(torch.finfo(target.dtype).tiny)
    curvature_low, inverse = curvature.to(low), curvature.preconditioner(rotation, penalty).to(low)
    pull = penalty.to(low)[:, None, None]
    floor = torch.zeros_like(norm).to(low) if enough is None else (enough / norm).square().to(low)
    share = fraction.square().to(low)
    found = torch.empty_like(target)
    error, length = torch.empty_like(norm), torch.empty_like(norm)
    index = torch.arange(len(norm), device=norm.device)
    small = target[0].numel() <= DENSE
    most = PATIENCE if small else MAX_STEPS
    unsolved = index[:0]
    left = (target / norm[:, None, None]).to(low)
    x = torch.zeros_like(left)
    seen = inverse(left)
    way = seen.clone()
    size = dot(left, seen)
    energy = torch.zeros_like(size)
    for step in range(most):
        margins = (way.flatten(0, 1) @ rows.T).view(*way.shape[:2], len(rows))
        image = (curvature_low.product_(margins).flatten(0, 1) @ rows).view_as(way).addcmul_(pull, way)
        # A problem that is solved to the last bit has nothing left to go along, and rounding can make its matrix look singular.
        steep = dot(way, image)
        stuck = ~(steep > 0)
        amount = torch.where(stuck, 0, size / steep)
        x.addcmul_(amount[:, None, None], way)
        left.addcmul_(amount[:, None, None], image, value=-1)
        gain = amount * size
        energy = energy + gain
        seen = inverse(left)
        before, size = size, dot(left, seen)
        # Two estimates of the squared error: the preconditioner's, and what as many steps as were taken would still gain
        # (Nash & Sofer 1990), which does not trust the preconditioner.
        off = torch.maximum(size, (step + 1) * gain)
        done = (off <= torch.maximum(share * energy, floor)) | stuck
        count = int(done.sum())
        last = count == len(done) or step == most - 1
        if last or count >= LEAVING * len(done):
            leave = torch.ones_like(done) if last else done
            found[index[leave]] = x[leave].to(found.dtype)
            error[index[leave]], length[index[leave]] = off[leave].to(error.dtype), energy[leave].to(error.dtype)
        if last:
            unsolved = index[~done] if small else index[:0]
            break
        way.mul_((size / before.clamp_min(torch.finfo(low).tiny))[:, None, None]).add_(seen)
        if count >= LEAVING * len(done):
            keep = ~done
            index, x, left, way, pull = index[keep], x[keep], left[keep], way[keep], pull[keep]
            size, energy, floor, share = size[keep], energy[keep], floor[keep], share[keep]
            curvature_low, inverse = curvature_low.select(keep), inverse.select(keep)
    found, error, length = found.mul_(norm[:, None, None]), error.sqrt() * norm, length.sqrt() * norm
    for one in unsolved.tolist():
        pick = unsolved.new_tensor([one])
        matrix = curvature.select(pick).dense(rotation.z)
        matrix.diagonal().add_(penalty[one])
        found[one] = _outright(matrix, target[one].flatten()).view_as(found[one])
        length[one], error[one] = (found[one] * target[one]).sum().clamp_min(0).sqrt(), 0
    return found, error, length


def _outright(matrix: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """Solve one symmetric system; where rounding leaves it singular, in the directions that are not."""
    factor, failed = torch.linalg.cholesky_ex(matrix)
    if not failed:
        return torch.cholesky_solve(target.unsqueeze(-1), factor).squeeze(-1)
    values, vectors = torch.linalg.eigh(matrix)
    kept = values > values[-1] * len(values) * torch.finfo(values.dtype).eps
    return vectors @ torch.where(kept, (vectors.T @ target) / values, 0)
