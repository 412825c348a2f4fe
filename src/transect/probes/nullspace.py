r"""Iterative null-space projection: fit a linear probe, take its direction out of the rows, fit again, and so on.

Ravfogel et al. 2020, "Null It Out" (arXiv:2004.07667). The probe is ridge regression of the classes as plus and minus one, whose
direction is that of LDA. With centred rows ``Z``, ``A = Z'Z + alpha I`` and ``b = Z'y``, the first direction is ``w_1 = A^-1 b``. Rows
without the directions ``u_1 .. u_j`` have the same fit as the rows themselves under the constraint ``w . u_i = 0``, for the penalty
pulls whatever has no data to zero. So

    w = P b,    P = A^-1 - sum_i h_i h_i',    h_i = P u_i / sqrt(u_i' P u_i)

Each direction taken out is a downdate of ``P`` of rank one, and moves the answer by

    w <- w - P u |w| / (u' P u)

One Cholesky factorisation serves all steps, and a step costs a few products with a vector instead of a fit. With fewer rows than
columns everything happens in the space that the rows span, where ``Z`` is the triangle of their QR factorisation.
`naive.naive_nullspace` is the definition: project, fit again from nothing.
"""

import dataclasses
from collections.abc import Iterator
from typing import Any

import torch

from transect.errors import InputError
from transect.probes._rotation import working_dtype
from transect.probes.problems import check_number

NOTHING_LEFT = 1e-12
"""A fit whose weights are this small beside the first one's has found nothing but rounding."""


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class NullStep:
    """One round of fitting and taking out.

    Args:
        direction: ``[d]`` of length one, orthogonal to those before it; towards the second class.
        scores: ``[m]`` what it says of the rows to score: ``(x - mean of the fitted rows) . direction``.
    """

    direction: torch.Tensor
    scores: torch.Tensor


@torch.no_grad()
def nullspace_steps(x: torch.Tensor, codes: Any, x_eval: torch.Tensor, *, regularization: float = 100.0) -> Iterator[NullStep]:
    """Directions one after another, each fitted to what the ones before it left; lazily, so that the caller says when to stop.

    Args:
        x: ``[n, d]`` rows to fit, on any device; computed in float64 wherever the device has it.
        codes: ``[n]`` class of each row, 0 or 1.
        x_eval: ``[m, d]`` rows to score.
        regularization: ridge's alpha, for rows scaled to a root mean square of one, as the sweep means it.

    Yields:
        Steps until nothing is left: after at most ``min(n - 1, d)``.

    Raises:
        InputError: shapes that do not fit, one class only, or a penalty that is not above zero.

    Examples:
        >>> x = torch.tensor([[-1.0, 0.1], [-1.0, -0.1], [1.0, 0.3], [1.0, 0.1]])
        >>> [step.direction.abs().round().tolist() for step in nullspace_steps(x, [0, 0, 1, 1], x)]
        [[1.0, 0.0], [0.0, 1.0]]
    """
    check_number("regularization", regularization, low=0, closed=False)
    labels = torch.as_tensor(codes, device=x.device)
    if x.ndim != 2 or x_eval.ndim != 2 or x.shape[1] != x_eval.shape[1] or labels.shape != (len(x),):
        shapes = f"{list(x.shape)}, {list(x_eval.shape)} and {list(labels.shape)}"
        raise InputError(f"expected rows [n, d] to fit, rows [m, d] to score and codes [n], got {shapes}.")
    if not bool(((labels == 0) | (labels == 1)).all()) or len(torch.unique(labels)) != 2:
        raise InputError(f"expected codes 0 and 1, both present, got {torch.unique(labels).tolist()}.")
    working = working_dtype(x.device)
    mean = x.to(working).mean(0)
    # A constant column is zero, not the rounding error of its mean.
    rows = torch.where((x == x[:1]).all(0), 0, x.to(working) - mean)
    scale = float(rows.square().mean().sqrt()) or 1.0
    rest = x_eval.to(working) - mean
    back = None
    if len(rows) < rows.shape[1]:  # without it weak penalties lose digits: where no row points, alpha is all there is
        back, triangle = torch.linalg.qr(rows.T)
        rows, rest = triangle.T, rest @ back
    y = labels.to(working) * 2 - 1
    square = rows.T @ rows
    square.diagonal().add_((regularization * scale**2) or 1.0)
    # Inverted once: two products with a vector are several times faster than two triangular solves.
    root = torch.linalg.solve_triangular(torch.linalg.cholesky(square), torch.eye(len(square)).to(square), upper=False)
    weight = root.T @ (root @ (rows.T @ (y - y.mean())))
    first = float(torch.linalg.vector_norm(weight))
    most = min(len(x) - 1, x.shape[1])
    taken, lost = weight.new_empty(2, most, len(weight))  # u and h, a row for each step
    for step in range(most):
        before = taken[:step]
        # Twice is enough (Parlett): rounding must not bring back what was taken out.
        for _ in range(2):
            weight = weight - (before @ weight) @ before
        length = torch.linalg.vector_norm(weight)
        if float(length) <= NOTHING_LEFT * first:
            return
        unit = torch.div(weight, length, out=taken[step])
        yield NullStep(direction=unit.clone() if back is None else back @ unit, scores=rest @ unit)
        pull = root.T @ (root @ unit)
        pull -= (lost[:step] @ unit) @ lost[:step]
        along = unit @ pull
        if float(along) <= 0:  # only rounding can do that: the downdated matrix is positive where anything is left
            return
        weight = weight - pull * (length / along)
        torch.div(pull, along.sqrt(), out=lost[step])
