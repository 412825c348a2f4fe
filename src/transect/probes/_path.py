"""From strong penalties to weak ones: each weaker strength starts from where the stronger ones point to.

Where classes are separable, weights grow with the logarithm of C long after the predictions are settled; from zero that is many
Newton steps, along that line it is few. The strongest penalties are quick from zero, so they go together, which keeps the matrix
products wide.
"""

from math import log

import torch

from transect.probes._losses import ManyClasses, TwoClasses
from transect.probes._newton import Minimum, minimise
from transect.probes._rotation import Rotation

TOGETHER = 4
"""Strengths that start from zero."""
AHEAD = 2
"""Strengths that are fitted together from there on."""


def minimise_along(
    rotation: Rotation, loss: TwoClasses | ManyClasses, penalty: torch.Tensor, groups: list[torch.Tensor], *, tol: float, max_steps: int
) -> Minimum:
    """`minimise`, a few groups of problems at a time.

    Args:
        rotation: the shared rows.
        loss: the problems.
        penalty: ``[b]``.
        groups: indices of the problems of each strength, from the strongest penalty to the weakest; the same problems in the same
            order in each, but for the penalty.
        tol: as in `minimise`.
        max_steps: as in `minimise`.
    """
    done: list[tuple[float, Minimum]] = []
    while len(done) < len(groups):
        block = groups[len(done) : len(done) + (AHEAD if done else TOGETHER)]
        levels = [-log(float(penalty[group[0]])) for group in block]
        start = _ahead(done, levels)
        index = torch.cat(block)
        found = minimise(rotation, loss.select(index), penalty[index], tol=tol, max_steps=max_steps, start=start)
        done += zip(levels, found.split(len(block[0])), strict=True)
    return Minimum.join([found for _, found in done], torch.cat(groups))


def _ahead(done: list[tuple[float, Minimum]], levels: list[float]) -> tuple[torch.Tensor, torch.Tensor] | None:
    """Where the last two strengths point to."""
    if len(done) < 2:
        return None
    (before, first), (last, second) = done[-2:]
    ways = [(level - last) / (last - before) for level in levels]
    weight = torch.cat([second.weight + way * (second.weight - first.weight) for way in ways])
    return weight, torch.cat([second.intercept + way * (second.intercept - first.intercept) for way in ways])
