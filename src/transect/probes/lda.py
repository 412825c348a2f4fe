"""Linear discriminant analysis with a shrunk covariance.

Fisher 1936; Ledoit and Wolf 2004 ("A well-conditioned estimator for large-dimensional covariance matrices") for the shrinkage.
With class means ``m_k``, shares ``p_k`` and the pooled covariance ``S`` within classes (divided by n):

    S_shrunk = (1 - shrinkage) S + shrinkage * (trace S / d) I
    score_k(x) = m_k' S_shrunk^-1 x - m_k' S_shrunk^-1 m_k / 2 + log p_k

For two classes there is one score, the difference: the log-odds. Where n < d the scores need the inverse in the span of the rows
only, so an n x n system is solved and no d x d matrix is formed.
"""

from typing import Any, ClassVar, Literal

import torch

from transect.errors import InputError
from transect.linear.readout import Link
from transect.probes._rotation import Rotation
from transect.probes.classifier import ClassFitter
from transect.probes.problems import Problems, Solution, check_number, class_means, same_rows, scatter


class LDA(ClassFitter):
    """Linear discriminant analysis with a shrunk covariance.

    Args:
        shrinkage: from 0 (none) to 1 (a multiple of the identity); ``"auto"`` takes Ledoit and Wolf's.

    Examples:
        >>> import torch
        >>> x = torch.tensor([[0.0, 1.0], [0.0, 3.0], [4.0, 1.0], [4.0, 3.0]])
        >>> LDA(shrinkage=0.5).fit(x, [0, 0, 1, 1]).predict(x).tolist()
        [0, 0, 1, 1]
    """

    strength: ClassVar[str | None] = "shrinkage"
    strengths: ClassVar[tuple[float, ...]] = (0.01, 0.1, 0.5, 0.9)
    link: ClassVar[Link] = "logistic"

    def __init__(self, *, shrinkage: float | Literal["auto"] = "auto") -> None:
        self.shrinkage = shrinkage

    def predict_proba(self, X: Any) -> Any:
        """Probabilities ``[n, classes]`` of rows ``X [n, d]``."""
        return self._probabilities(X)

    def solve(self, rotation: Rotation, problems: Problems) -> Solution:
        """Solve many problems over the same rows at once."""
        if self.shrinkage != "auto":
            if isinstance(self.shrinkage, str):
                raise InputError(f"shrinkage must lie between 0 and 1, or be 'auto', got {self.shrinkage!r}.")
            check_number("shrinkage", self.shrinkage, low=0, closed=True)
            if self.shrinkage > 1:
                raise InputError(f"shrinkage must lie between 0 and 1, or be 'auto', got {self.shrinkage!r}.")
        problems.check_classes()
        weights, biases = [], []
        means, shares = class_means(rotation, problems)
        totals = {}
        for group in same_rows(problems.weight):
            weight = problems.weight[group[0]] / problems.weight[group[0]].sum()
            centre = weight @ rotation.z
            totals |= dict.fromkeys(group.tolist(), (weight, centre, scatter(rotation, weight, centre)))
        for index in range(len(problems)):
            weight, centre, total = totals[index]
            offset = (means[index] - centre) * shares[index].sqrt().unsqueeze(-1)
            within = total - offset.T @ offset
            level = within.diagonal().sum().clamp_min(0) / rotation.basis.shape[0]
            shrink = self._shrink(rotation, problems, index, means[index], within, weight)
            shrunk = (1 - shrink) * within
            floor = torch.finfo(shrunk.dtype).eps * len(shrunk) * float(within.diagonal().max().clamp_min(0))
            shrunk.diagonal().add_(shrink * level + floor + torch.finfo(shrunk.dtype).tiny)
            factor, failed = torch.linalg.cholesky_ex(shrunk)
            solved = (torch.linalg.solve(shrunk, means[index].T) if failed else torch.cholesky_solve(means[index].T, factor)).T
            bias = -(solved * means[index]).sum(-1) / 2 + shares[index].clamp_min(torch.finfo(shares.dtype).tiny).log()
            if problems.classes == 2:
                solved, bias = solved[1:] - solved[:1], bias[1:] - bias[:1]
            weights.append(solved)
            biases.append(bias)
        return Solution.exact(torch.stack(weights), torch.stack(biases))

    def scaled(self, strength: float, scale: float) -> float:
        """Shrinkage means the same at any scale."""
        del scale
        return strength

    def penalty(self, strength: float) -> float:
        """Shrinkage grows with regularization."""
        return strength

    def _shrink(
        self, rotation: Rotation, problems: Problems, index: int, means: torch.Tensor, within: torch.Tensor, weight: torch.Tensor
    ) -> float:
        if problems.strength is not None:
            return float(problems.strength[index])
        count = float(problems.weight[index].sum())
        return ledoit_wolf(rotation.z - means[problems.targets[index]], within, weight, count=count, width=rotation.basis.shape[0])


def ledoit_wolf(rows: torch.Tensor, covariance: torch.Tensor, weight: torch.Tensor, *, count: float, width: int) -> float:
    """Ledoit and Wolf's shrinkage for centred rows ``[n, r]`` of a space of ``width`` dimensions, and weights that sum to one.

    ``count`` is how many rows there are, that is, what their weights summed to. ``b / d`` with ``d = |S - mu I|^2`` and ``b`` the
    mean over rows of ``|x x' - S|^2 / n``, at most ``d``.
    """
    square = covariance.square().sum()
    level = covariance.diagonal().sum() / width
    distance = square - width * level**2
    lengths = rows.square().sum(-1)
    spread = ((weight * lengths.square()).sum() - square) / count
    if distance <= 0:
        return 1.0
    return float((spread / distance).clamp(0, 1))
