"""Calibration: from scores to probabilities that are frequencies. Platt's sigmoid, isotonic regression, temperature.

    Platt (1999)                        p = sigmoid(a s + b), a >= 0
    temperature (Guo et al. 2017)       p = softmax(a s), or sigmoid(a s) for two classes; a = 1 / T > 0
    isotonic (Zadrozny and Elkan 2002)  p = the best rising step function of s

Platt and temperature minimise log loss against Platt's targets, ``(n_c + 1) / (n_c + k)`` for the true one of k classes with n_c rows (and an
equal share of the rest for each other), so that separable scores do not ask for infinite certainty. Isotonic probabilities stay
within ``1 / (n + 2)`` of 0 and 1 for the same reason: n rows cannot show a rarer event. All three rise with the score and so leave its ranking
(up to ties) as it was; scores that rank no better than chance get the base rate.

Fit on rows that neither fitted nor chose the probe, and measure on others (`transect.decide.measure_calibration` sees to it).
"""

import dataclasses
import os
from typing import Any

import numpy as np
import torch
from scipy import optimize, special

from transect.errors import InputError, MismatchError
from transect.linear.files import load_object, save_object
from transect.measure._inputs import Floats, Ints, as_classes, as_floats, plain


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Calibration:
    """A map from scores to probabilities, whatever method fitted it.

    Args:
        slope: the factor on the scores.
        intercept: what is added after it; two classes only.
        knots: ``[m]`` rising scores between which the probability is interpolated; None where slope and intercept make it.
        values: ``[m]`` the probability of class 1 at each knot.
        k: how many classes.
        n: rows it was fitted on.
        fitter: the name of the method.
        rows: names of the rows it was fitted on; None where none were given.
        groups: names of their groups, each once; None where none were given.

    Raises:
        InputError: knots without values, or a slope below 0: probabilities must not fall where scores rise.

    Examples:
        >>> calibration = Calibration(slope=2.0)
        >>> calibration.probabilities([0.0, 1.0]).round(3).tolist()
        [0.5, 0.881]
    """

    slope: float = 1.0
    intercept: float = 0.0
    knots: Floats | None = None
    values: Floats | None = None
    k: int = 2
    n: int = 0
    fitter: str = ""
    rows: tuple[str, ...] | None = None
    groups: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        if (self.knots is None) != (self.values is None):
            raise InputError("expected knots and values together, got one of them.")
        if not self.slope >= 0 or (self.values is not None and (np.diff(self.values) < 0).any()):
            raise InputError(
                f"probabilities must not fall where scores rise, got slope {self.slope}; negate the scores if they run backwards."
            )

    def probabilities(self, scores: Any) -> Floats:
        """Probabilities of class 1 ``[n]`` for scores ``[n]``, or of every class ``[n, k]`` for scores ``[n, k]``.

        Raises:
            InputError: NaN or infinity; the row is named.
            MismatchError: the scores are of another number of classes.
        """
        values = as_floats(scores, name="scores", ndim=(1, 2))
        k = 2 if values.ndim == 1 else values.shape[1]
        if k != self.k or (values.ndim == 2) != (self.k > 2):
            raise MismatchError(f"this calibration is for {self.k} classes, got scores of shape {list(values.shape)}.")
        if values.ndim == 2:
            return special.softmax(self.slope * values, axis=1)
        if self.knots is not None and self.values is not None:
            return np.interp(values, self.knots, self.values)
        return special.expit(self.slope * values + self.intercept)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write one safetensors file with a JSON header, atomically."""
        numbers = {"line": np.array([self.slope, self.intercept])}
        if self.knots is not None and self.values is not None:
            numbers |= {"knots": self.knots, "values": self.values}
        names = {name: None if value is None else list(value) for name, value in (("rows", self.rows), ("groups", self.groups))}
        header = {"k": self.k, "n": self.n, "fitter": self.fitter, **names}
        tensors = {name: torch.from_numpy(np.ascontiguousarray(value)) for name, value in numbers.items()}
        save_object(path, kind="Calibration", tensors=tensors, header=header)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Calibration":
        """Read back what `save` wrote.

        Raises:
            StoreError: the file is missing, damaged or holds something else.
        """
        tensors, header = load_object(path, kind="Calibration")
        slope, intercept = tensors["line"].tolist()
        knots, values = (tensors[name].numpy() if name in tensors else None for name in ("knots", "values"))
        rows, groups = (None if header[name] is None else tuple(header[name]) for name in ("rows", "groups"))
        made = {"k": header["k"], "n": header["n"], "fitter": header["fitter"]}
        return cls(slope=slope, intercept=intercept, knots=knots, values=values, rows=rows, groups=groups, **made)


def fit_platt(scores: Any, codes: Any, *, rows: Any = None, groups: Any = None) -> Calibration:
    """Platt's sigmoid of two-class scores.

    Args:
        scores: ``[n]``, higher for class 1.
        codes: ``[n]``, 0 or 1.
        rows: ``[n]`` names of the rows, so that they are not measured on later.
        groups: ``[n]`` their groups, for the same reason.

    Raises:
        InputError: NaN (the row is named), one class only, or scores that are all equal.

    Examples:
        >>> import numpy as np
        >>> rng = np.random.default_rng(0)
        >>> truth = rng.normal(size=4000)
        >>> codes = rng.random(4000) < 1 / (1 + np.exp(-truth))
        >>> calibration = fit_platt(5 * truth, codes)  # five times too sure
        >>> round(5 * calibration.slope, 1)
        1.0
    """
    values, labels = _checked(scores, codes, ndim=(1,))
    centre, scale = values.mean(), values.std()
    z = (values - centre) / scale
    target = _targets(labels, 2)[:, 1]

    def loss(line: Floats) -> tuple[float, Floats]:
        logits = line[0] * z + line[1]
        gap = special.expit(logits) - target
        return float(np.mean(np.logaddexp(0, logits) - target * logits)), np.array([np.mean(gap * z), np.mean(gap)])

    start = np.array([0.0, float(special.logit(target.mean()))])
    found = optimize.minimize(loss, start, jac=True, method="L-BFGS-B", bounds=[(0, None), (None, None)], options={"ftol": 0, "gtol": 1e-9})
    slope = float(found.x[0] / scale)
    return Calibration(
        slope=slope,
        intercept=float(found.x[1] - slope * centre),
        n=len(values),
        fitter="Platt",
        rows=_all(rows, labels),
        groups=_once(groups, labels),
    )


def fit_isotonic(scores: Any, codes: Any, *, rows: Any = None, groups: Any = None) -> Calibration:
    """Isotonic regression of two-class scores; needs some hundred rows, for it is free to follow every one.

    The arguments and errors are those of `fit_platt`.

    Examples:
        >>> fit_isotonic([0.0, 1.0, 2.0, 3.0], [0, 1, 0, 1]).probabilities([-5.0, 1.5, 9.0]).round(3).tolist()
        [0.167, 0.5, 0.833]
    """
    from sklearn.isotonic import IsotonicRegression

    values, labels = _checked(scores, codes, ndim=(1,))
    n = len(values)
    fitted = IsotonicRegression(y_min=1 / (n + 2), y_max=(n + 1) / (n + 2), increasing=True, out_of_bounds="clip").fit(values, labels)
    return Calibration(
        knots=np.asarray(fitted.X_thresholds_, dtype=np.float64),
        values=np.asarray(fitted.y_thresholds_, dtype=np.float64),
        n=n,
        fitter="isotonic",
        rows=_all(rows, labels),
        groups=_once(groups, labels),
    )


def fit_temperature(scores: Any, codes: Any, *, rows: Any = None, groups: Any = None) -> Calibration:
    """One temperature for all scores: ``[n]`` log-odds of two classes, or ``[n, k]`` scores of more.

    It leaves the most probable class as it is. The other arguments and errors are those of `fit_platt`.

    Examples:
        >>> import numpy as np
        >>> rng = np.random.default_rng(0)
        >>> logits = rng.normal(size=(4000, 3))
        >>> codes = (logits + rng.gumbel(size=(4000, 3))).argmax(axis=1)
        >>> round(3 * fit_temperature(3 * logits, codes).slope, 1)
        1.0
    """
    values, labels = _checked(scores, codes, ndim=(1, 2))
    logits = np.stack([np.zeros(len(values)), values], axis=1) if values.ndim == 1 else values
    target = _targets(labels, logits.shape[1])
    scale = float((logits - logits.mean(axis=1, keepdims=True)).std())

    def loss(log_slope: float) -> float:
        moved = np.exp(log_slope) / scale * logits
        return float(np.mean(special.logsumexp(moved, axis=1) - (target * moved).sum(axis=1)))

    found = optimize.minimize_scalar(loss, bounds=(-15.0, 15.0), method="bounded", options={"xatol": 1e-9})
    return Calibration(
        slope=float(np.exp(found.x) / scale),
        k=logits.shape[1],
        n=len(values),
        fitter="temperature",
        rows=_all(rows, labels),
        groups=_once(groups, labels),
    )


def _checked(scores: Any, codes: Any, *, ndim: tuple[int, ...]) -> tuple[Floats, Ints]:
    values = as_floats(scores, name="scores", ndim=ndim)
    labels = as_classes(codes, n=len(values))
    k = 2 if values.ndim == 1 else values.shape[1]
    if values.ndim == 2 and k < 3:
        raise InputError(f"scores [n, k] are for three classes and more, got k = {k}; give the log-odds [n] of class 1.")
    if labels.max() >= k:
        raise InputError(f"codes hold class {labels.max()}, but there are scores of {k} classes.")
    if (labels == labels[0]).all():
        raise InputError(f"calibration needs at least two classes, but all {len(labels)} rows are of class {labels[0]}.")
    across = values if values.ndim == 1 else values - values.mean(axis=1, keepdims=True)
    if (np.ptp(across, axis=0) == 0).all():
        raise InputError(
            f"all {len(values)} scores are equal, so AUROC is 0.5 and there is nothing to calibrate; look at the probe instead."
        )
    return values, labels


def _targets(labels: Ints, k: int) -> Floats:
    """Platt's targets ``[n, k]``."""
    own = (np.bincount(labels, minlength=k) + 1.0) / (np.bincount(labels, minlength=k) + k)
    target = np.repeat(((1 - own[labels]) / (k - 1))[:, None], k, axis=1)
    target[np.arange(len(labels)), labels] = own[labels]
    return target


def _all(names: Any, labels: Ints) -> tuple[str, ...] | None:
    if names is None:
        return None
    found = tuple(str(name) for name in plain(names).tolist())
    if len(found) != len(labels):
        raise InputError(f"expected a name for each of the {len(labels)} rows, got {len(found)}.")
    return found


def _once(groups: Any, labels: Ints) -> tuple[str, ...] | None:
    names = _all(groups, labels)
    return None if names is None else tuple(sorted(set(names)))
