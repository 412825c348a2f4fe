"""Logistic regression with an L2 penalty, for two classes and for more (softmax).

scikit-learn's objective and its C, intercepts free of penalty:

    |w|^2 / 2 + C * sum_i weight_i * loss_i

For more than two classes every class has a row of weights and all of them are penalised, as there. The solver is ours: one
factorisation of the rows serves every fold, strength, labelling and resample (see `transect.probes._newton`).
"""

import warnings
from typing import Any, ClassVar

from sklearn.exceptions import ConvergenceWarning

from transect.errors import InputError
from transect.linear.readout import Link
from transect.probes._losses import ManyClasses, TwoClasses
from transect.probes._path import minimise_along
from transect.probes._rotation import Rotation
from transect.probes.classifier import ClassFitter
from transect.probes.problems import Problems, Solution, check_number


class Logistic(ClassFitter):
    """Logistic regression with an L2 penalty.

    Args:
        C: inverse strength of the penalty, as in scikit-learn.
        tol: largest relative error of the weights.
        max_iter: most Newton steps.

    Examples:
        >>> import torch
        >>> x = torch.tensor([[-2.0], [-1.0], [1.0], [2.0]])
        >>> Logistic(C=10.0).fit(x, [0, 0, 1, 1]).predict(x).tolist()
        [0, 0, 1, 1]
    """

    strength: ClassVar[str | None] = "C"
    strengths: ClassVar[tuple[float, ...]] = (1e-4, 1e-3, 1e-2, 1e-1, 1.0, 1e1, 1e2, 1e3, 1e4)
    link: ClassVar[Link] = "logistic"

    def __init__(self, C: float = 1.0, *, tol: float = 1e-4, max_iter: int = 100) -> None:
        self.C = C
        self.tol = tol
        self.max_iter = max_iter

    def predict_proba(self, X: Any) -> Any:
        """Probabilities ``[n, classes]`` of rows ``X [n, d]``."""
        return self._probabilities(X)

    def solve(self, rotation: Rotation, problems: Problems) -> Solution:
        """Solve many problems over the same rows at once."""
        check_number("C", self.C, low=0, closed=False)
        check_number("tol", self.tol, low=0, closed=False)
        check_number("max_iter", self.max_iter, low=1, closed=True)
        problems.check_classes()
        strength = problems.strength
        if strength is None:
            raise InputError(f"C must be a number, got {self.C!r}.")
        total = problems.weight.sum(-1)
        share = problems.weight / total.unsqueeze(-1)
        loss = (TwoClasses if problems.classes == 2 else ManyClasses).of(problems.targets, share, problems.classes)
        groups = problems.by_strength()  # C rises: the strongest penalty comes first
        found = minimise_along(rotation, loss, 1 / (strength * total), groups, tol=self.tol, max_steps=self.max_iter)
        return Solution(weight=found.weight, intercept=found.intercept, steps=found.steps, converged=found.converged)

    def scaled(self, strength: float, scale: float) -> float:
        """Weights of rows divided by the scale are larger by it, so their squares weigh more by its square."""
        return strength * scale**2

    def penalty(self, strength: float) -> float:
        """C is the inverse of the penalty."""
        return 1 / strength

    def _warn_unless(self, converged: bool) -> None:
        if not converged:
            warnings.warn(
                f"Logistic did not converge to tol={self.tol} in max_iter={self.max_iter} steps; raise max_iter, or lower C.",
                ConvergenceWarning,
                stacklevel=3,
            )
