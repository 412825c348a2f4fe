"""`Fitter`: what all probes have in common. A probe holds settings; `fit` leaves a frozen `Readout`."""

import abc
from collections.abc import Sequence
from numbers import Real
from typing import Any, ClassVar

import numpy as np
import torch
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from transect.errors import InputError
from transect.linear import Origin, Readout
from transect.linear.readout import Link
from transect.probes._inputs import read_rows, read_targets, read_weights
from transect.probes._rotation import Rotation
from transect.probes.problems import Problems, Solution


class Fitter(BaseEstimator, abc.ABC):
    """A linear probe as a scikit-learn estimator, for numpy arrays and for torch tensors on any device.

    What a torch tensor is given for stays on its device; numpy arrays give numpy arrays.
    """

    strength: ClassVar[str | None] = None
    """The name of the setting that is the strength of regularization; None for a fitter that has none."""
    strengths: ClassVar[tuple[float, ...]] = ()
    """The strengths that a sweep tries by default, for rows scaled to a root mean square of one."""
    link: ClassVar[Link] = "identity"
    """What its scores are: ``logistic`` for log-odds, ``identity`` for anything else."""

    @abc.abstractmethod
    def solve(self, rotation: Rotation, problems: Problems) -> Solution:
        """Solve many problems over the same rows at once."""

    @abc.abstractmethod
    def scaled(self, strength: float, scale: float) -> float:
        """The strength for rows divided by ``scale`` that means what ``strength`` means for the rows themselves."""

    @abc.abstractmethod
    def penalty(self, strength: float) -> float:
        """A number that grows with regularization, for a strength."""

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> "Fitter":
        """Fit to rows ``X [n, d]`` and labels ``y [n]``; ``sample_weight [n]`` counts rows more or less than once.

        Raises:
            InputError: NaN (its row is named), one class only, or shapes that do not fit.
        """
        rows = read_rows(self, X, reset=True)
        targets, classes = read_targets(y, n=len(rows), device=rows.device, numbers=self._wants_numbers(y))
        weight = read_weights(sample_weight, rows)
        return self._finish(rows, targets, classes, weight, was_torch=isinstance(X, torch.Tensor))

    def decision_function(self, X: Any) -> Any:
        """Scores ``[n]`` (two classes: above 0 is the second; a number: the prediction), or ``[n, k]``."""
        scores = self._scores(X)
        return scores if isinstance(X, torch.Tensor) else scores.numpy()

    def predict(self, X: Any) -> Any:
        """The label of each row ``[n]``: a tensor where a tensor was given and the labels are numbers, else a numpy array."""
        scores = self._scores(X)
        if self.readout_.classes is None:
            return scores if isinstance(X, torch.Tensor) else scores.numpy()
        best = (scores > 0).long() if scores.ndim == 1 else scores.argmax(-1)
        classes = np.asarray(self.classes_)
        if isinstance(X, torch.Tensor) and classes.dtype.kind in "biuf":
            return torch.as_tensor(classes, device=best.device)[best]
        return classes[best.cpu().numpy()]

    def _read(self, X: Any) -> torch.Tensor:
        check_is_fitted(self, "readout_")
        return read_rows(self, X, reset=False)

    def _scores(self, X: Any) -> torch.Tensor:
        rows = self._read(X)
        return self.readout_.scores(rows)

    def _wants_numbers(self, y: Any) -> bool:
        del y
        return False

    def _finish(
        self, rows: torch.Tensor, targets: torch.Tensor, classes: np.ndarray | None, weight: torch.Tensor, *, was_torch: bool
    ) -> "Fitter":
        if classes is not None and len(classes) < 2:
            raise InputError(
                f"expected at least two classes, got one class only: all {len(rows)} labels are {classes.tolist()[0]!r}. "
                f"Nothing can be learnt from that; add rows with another label."
            )
        rotation = Rotation.of(rows, weight)
        strength = None
        if self.strength is not None and isinstance(getattr(self, self.strength), Real):
            strength = torch.tensor(
                [self.scaled(float(getattr(self, self.strength)), rotation.scale)], dtype=rotation.z.dtype, device=rows.device
            )
        problems = Problems(
            targets=targets.unsqueeze(0), weight=weight.unsqueeze(0), strength=strength, classes=0 if classes is None else len(classes)
        )
        solution = self.solve(rotation, problems)
        settings = {name: value for name, value in self.get_params().items() if isinstance(value, str | int | float | bool | None)}
        labels = None if classes is None else tuple(classes.tolist())
        self.readout_ = readout_of(self, rotation, solution, 0, labels=labels, dtype=rows.dtype, settings=settings)
        self.classes_ = classes
        coef, intercept = self.readout_.weight, self.readout_.bias
        self.coef_, self.intercept_ = (coef, intercept) if was_torch else (coef.numpy(), intercept.numpy())
        self.n_iter_ = int(solution.steps[0])
        self._warn_unless(bool(solution.converged[0]))
        return self

    def _warn_unless(self, converged: bool) -> None:
        del converged


def readout_of(
    fitter: Fitter,
    rotation: Rotation,
    solution: Solution,
    index: int,
    *,
    labels: Sequence[Any] | None,
    dtype: torch.dtype,
    settings: dict[str, Any],
) -> Readout:
    """One problem's solution as a `Readout` of the activations themselves.

    Args:
        fitter: that found it.
        rotation: of the activations.
        solution: of many problems.
        index: which of them.
        labels: the classes; None for numbers.
        dtype: of the activations; float32 at least is kept.
        settings: of the fit, for the origin.
    """
    weight, bias = rotation.to_raw(solution.weight[index].T, solution.intercept[index])
    kept = torch.promote_types(dtype, torch.float32)
    link: Link = "identity"
    if labels is not None and fitter.link != "identity":
        link = "softmax" if len(labels) > 2 else "logistic"
    classes = None if labels is None else tuple(label.item() if isinstance(label, np.generic) else label for label in labels)
    origin = Origin(fitter=type(fitter).__name__, settings=settings)
    return Readout(weight=weight.to(kept), bias=bias.to(kept), link=link, classes=classes, origin=origin)
