"""Ridge regression, for numbers and for classes.

Hoerl and Kennard 1970. Numbers minimise scikit-learn's objective, the intercept free of penalty:

    sum_i weight_i (y_i - w . x_i - b)^2 + alpha |w|^2

Classes are fitted as +1 and -1 (one column each for more than two), as scikit-learn's RidgeClassifier does; those scores are not
log-odds, so no probability is claimed.
"""

from typing import Any, ClassVar, Literal

import numpy as np
import torch
from sklearn.utils import ClassifierTags, RegressorTags
from sklearn.utils.metaestimators import available_if

from transect.errors import InputError
from transect.probes._rotation import Rotation
from transect.probes.fitter import Fitter
from transect.probes.problems import Problems, Solution, check_number, same_rows, scatter


def _scores_classes(probe: "Ridge") -> bool:
    fitted = getattr(probe, "readout_", None)
    return probe.targets == "classes" if fitted is None else fitted.classes is not None


class Ridge(Fitter):
    """Ridge regression of numbers, or of classes as plus and minus one.

    Args:
        alpha: strength of the penalty, as in scikit-learn.
        targets: what the labels are: ``numbers``, ``classes``, or ``auto``: words and booleans are classes, numbers are numbers.

    Examples:
        >>> import torch
        >>> x = torch.tensor([[1.0], [2.0], [3.0]])
        >>> Ridge(alpha=1e-9).fit(x, [2.0, 4.0, 6.0]).predict(torch.tensor([[10.0]]))
        tensor([20.])
        >>> Ridge().fit(x, ["no", "no", "yes"]).predict(x).tolist()
        ['no', 'no', 'yes']
    """

    strength: ClassVar[str | None] = "alpha"
    strengths: ClassVar[tuple[float, ...]] = (1e-2, 1e-1, 1.0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6)

    def __init__(self, alpha: float = 1.0, *, targets: Literal["auto", "numbers", "classes"] = "auto") -> None:
        self.alpha = alpha
        self.targets = targets

    def solve(self, rotation: Rotation, problems: Problems) -> Solution:
        """Solve many problems over the same rows at once."""
        check_number("alpha", self.alpha, low=0, closed=True)
        if problems.strength is None:
            raise InputError(f"alpha must be a number, got {self.alpha!r}.")
        signs = problems.signs()
        weights = torch.empty(len(problems), problems.outputs, rotation.z.shape[1], dtype=rotation.z.dtype, device=rotation.z.device)
        intercepts = weights.new_empty(len(problems), problems.outputs)
        for group in same_rows(problems.weight):
            weight, values, alphas = problems.weight[group[0]], signs[group], problems.strength[group]
            rest = _without(rotation, weight, values, alphas)
            if rest is not None:
                weights[group], intercepts[group] = rest
                continue
            centre = weight @ rotation.z / weight.sum()
            spread = scatter(rotation, weight, centre)
            middle = (values * weight).sum(-1) / weight.sum()
            pull = ((values - middle.unsqueeze(-1)) * weight).flatten(0, 1) @ rotation.z
            pull = pull.view(len(group), problems.outputs, -1)
            for strength in torch.unique(alphas):
                here = alphas == strength
                solved = _solve(spread, float(strength), pull[here].flatten(0, 1)).view(-1, problems.outputs, pull.shape[-1])
                weights[group[here]] = solved
                intercepts[group[here]] = middle[here] - solved @ centre
        return Solution.exact(weights, intercepts)

    def scaled(self, strength: float, scale: float) -> float:
        """Weights of rows divided by the scale are larger by it, so the penalty must be smaller by its square."""
        return strength / scale**2

    def penalty(self, strength: float) -> float:
        """Alpha grows with regularization."""
        return strength

    @available_if(_scores_classes)
    def decision_function(self, X: Any) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride] - scikit-learn's way to hide it for numbers
        """Scores ``[n]`` or ``[n, k]`` of classes; numbers have `predict` only."""
        return super().decision_function(X)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        if self.targets == "classes":
            tags.estimator_type, tags.classifier_tags = "classifier", ClassifierTags()
        else:
            tags.estimator_type, tags.regressor_tags = "regressor", RegressorTags()
        return tags

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """R2 for numbers; the share of rows predicted right for classes."""
        predicted = self.predict(X)
        predicted = predicted.detach().cpu().numpy() if isinstance(predicted, torch.Tensor) else predicted
        if self.readout_.classes is not None:
            return float(np.average(predicted == np.asarray(y), weights=sample_weight))
        from sklearn.metrics import r2_score

        return float(r2_score(np.asarray(y), predicted, sample_weight=sample_weight))

    def _wants_numbers(self, y: Any) -> bool:
        if self.targets not in ("auto", "numbers", "classes"):
            raise InputError(f"targets must be 'auto', 'numbers' or 'classes', got {self.targets!r}.")
        if self.targets != "auto" or y is None:
            return self.targets != "classes"
        plain = y.detach().cpu().numpy() if isinstance(y, torch.Tensor) else np.asarray(y)
        return plain.dtype.kind in "iuf" or (plain.dtype.kind == "O" and not isinstance(plain.ravel()[0], str | bool))


def _without(
    rotation: Rotation, weight: torch.Tensor, values: torch.Tensor, alphas: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor] | None:
    """Weights ``[m, k, r]`` and intercepts ``[m, k]`` of fits without a few rows, from the fit on all, for values ``[m, k, n]``.

    With all rows, and Z centred, the normal equations are diagonal: ``D = spectrum + alpha`` for the weights and n for the intercept. Taking out
    the rows F turns their residuals r into those of the fit without them (Sherman, Morrison and Woodbury), and the weights follow:

        e = (I - Z_F D^-1 Z_F' - 1 / n)^-1 r_F,   w = D^-1 (Z' y - Z_F' e),   b = mean(y) - sum(e) / n

    which is a system of as many rows as are left out instead of as many as there are coordinates. None where that would not be smaller, where rows
    count other than once or not at all, or where so little is left of the residuals that digits would be lost.
    """
    z, n, out = rotation.z, len(weight), weight == 0
    eps = torch.finfo(z.dtype).eps
    counted_once = bool((out | (weight == 1)).all())
    if not counted_once or not 0 < int(out.sum()) < z.shape[1] or float(z.mean(0).abs().max()) > n * eps * float(z.abs().max()):
        return None
    gone, middle, pull = z[out], values.mean(-1), values @ z
    weights, intercepts = torch.empty_like(pull), torch.empty_like(middle)
    for alpha in torch.unique(alphas):
        here, diagonal = alphas == alpha, rotation.spectrum + alpha
        rows = gone / diagonal.sqrt()
        left = (rows @ rows.T).add_(1 / n).neg_()
        left.diagonal().add_(1)
        factor, failed = torch.linalg.cholesky_ex(left)
        if int(failed) or not float(factor.diagonal().min()) > eps ** (1 / 3):
            return None
        residuals = values[here][..., out] - middle[here].unsqueeze(-1) - (pull[here] / diagonal) @ gone.T
        errors = torch.cholesky_solve(residuals.flatten(0, 1).T, factor).T.view_as(residuals)
        weights[here] = (pull[here] - errors @ gone) / diagonal
        intercepts[here] = middle[here] - errors.sum(-1) / n
    return weights, intercepts


def _solve(spread: torch.Tensor, alpha: float, pull: torch.Tensor) -> torch.Tensor:
    """``pull [m, r]`` times the inverse of ``spread + alpha I``; the least-norm answer where that is singular."""
    shifted = spread.clone()
    shifted.diagonal().add_(alpha)
    factor, failed = torch.linalg.cholesky_ex(shifted)
    smallest, largest = factor.diagonal().min(), factor.diagonal().max()
    if int(failed) == 0 and float(smallest) > float(largest) * torch.finfo(spread.dtype).eps ** 0.5:
        return torch.cholesky_solve(pull.T, factor).T
    values, vectors = torch.linalg.eigh(shifted)
    keep = values > values.max() * len(values) * torch.finfo(spread.dtype).eps
    inverse = torch.where(keep, 1 / values, 0)
    return (pull @ vectors * inverse) @ vectors.T
