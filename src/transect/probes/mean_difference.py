"""Mean difference ("mass mean"): the line between the class means.

Marks and Tegmark 2023, "The Geometry of Truth" (arXiv:2310.06824). With class means ``m0`` and ``m1``:

    score(x) = (m1 - m0) . (x - (m0 + m1) / 2)

so the threshold, 0, lies midway. For more classes the score of a class is ``m . x - |m|^2 / 2``, and the best score is the nearest
mean's. No setting, no inverse: it is what is left of LDA when the covariance is taken to be a multiple of the identity.
"""

import torch

from transect.probes._rotation import Rotation
from transect.probes.classifier import ClassFitter
from transect.probes.problems import Problems, Solution, class_means


class MeanDifference(ClassFitter):
    """The direction from one class mean to the other; threshold midway.

    Examples:
        >>> import torch
        >>> probe = MeanDifference().fit(torch.tensor([[0.0, 1.0], [0.0, 3.0], [4.0, 1.0], [4.0, 3.0]]), [0, 0, 1, 1])
        >>> probe.readout_.weight, probe.readout_.bias
        (tensor([[4., 0.]]), tensor([-8.]))
    """

    def solve(self, rotation: Rotation, problems: Problems) -> Solution:
        """Solve many problems over the same rows at once."""
        means, _ = class_means(rotation, problems)
        bias = -means.square().sum(-1) / 2
        # A class without rows has no mean; it may never win.
        empty = problems.members().mul(problems.weight.unsqueeze(1)).sum(-1) == 0
        bias = torch.where(empty, torch.finfo(bias.dtype).min / 4, bias)
        if problems.classes == 2:
            means, bias = means[:, 1:] - means[:, :1], bias[:, 1:] - bias[:, :1]
        # In the scaled coordinates the score is divided by the square of the scale; undo that, so that it is the formula's.
        return Solution.exact(means * rotation.scale**2, bias * rotation.scale**2)

    def scaled(self, strength: float, scale: float) -> float:
        """It has no strength."""
        del scale
        return strength

    def penalty(self, strength: float) -> float:
        """It has no strength."""
        del strength
        return 0.0
