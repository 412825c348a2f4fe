"""How far activations lie from a reference: the Mahalanobis distance with a shrunk covariance.

    distance(x)^2 = (x - m)^T C^-1 (x - m)

Lee, Lee, Lee and Shin (2018, "A simple unified framework for detecting out-of-distribution samples and adversarial attacks") with one
mean. Columns are first divided by their standard deviation, so that no wide column drowns the others, and the covariance of what
results is shrunk by Ledoit and Wolf's rule (2004, scikit-learn's), so that it can be inverted with fewer rows than columns. Whatever
the distance, the guarantees made with it (`transect.decide.abstain`, `transect.decide.drift`) hold: they ask only that the rows it was
fitted on are not the rows it is calibrated on.
"""

import dataclasses
from typing import Any

import numpy as np

from transect.errors import InputError, MismatchError
from transect.measure._inputs import Floats, as_floats

FEWEST_ROWS = 2


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Distance:
    """The distance of activations from a reference.

    Args:
        mean: ``[d]``.
        whitener: ``[d, d]``; the distance is the length of ``(x - mean) @ whitener``.
        n: rows it was fitted on.

    Raises:
        InputError: the shapes do not fit together.

    Examples:
        >>> import numpy as np
        >>> distance = fit_distance(np.random.default_rng(0).normal(size=(200, 3)))
        >>> bool(distance(np.full((1, 3), 9.0))[0] > distance(np.zeros((1, 3)))[0])
        True
    """

    mean: Floats
    whitener: Floats
    n: int

    def __post_init__(self) -> None:
        if self.mean.ndim != 1 or self.whitener.shape != (len(self.mean), len(self.mean)):
            raise InputError(f"expected mean [d] and whitener [d, d], got {list(self.mean.shape)} and {list(self.whitener.shape)}.")

    def __call__(self, activations: Any) -> Floats:
        """Distances ``[n]`` of activations ``[n, d]``.

        Raises:
            InputError: NaN or infinity; the row is named.
            MismatchError: the activations have another width.
        """
        x = as_floats(activations, name="activations", ndim=(2,))
        if x.shape[1] != len(self.mean):
            raise MismatchError(
                f"this distance reads width {len(self.mean)}, got activations of width {x.shape[1]}; another site or model?"
            )
        return np.linalg.norm((x - self.mean) @ self.whitener, axis=1)


def fit_distance(reference: Any) -> Distance:
    """Fit the distance to activations ``[n, d]``.

    Raises:
        InputError: NaN (the row is named), fewer than two rows, or rows that are all equal.
    """
    from sklearn import config_context
    from sklearn.covariance import ledoit_wolf

    x = as_floats(reference, name="reference", ndim=(2,))
    if len(x) < FEWEST_ROWS:
        raise InputError(f"a distance needs at least {FEWEST_ROWS} reference rows, got {len(x)}.")
    mean, spread = x.mean(axis=0), x.std(axis=0)
    if not (spread > 0).any():
        raise InputError(f"all {len(x)} reference rows are equal, so there is no scale to measure distance by.")
    # A constant column has no scale of its own and takes the usual one: a row that leaves it must not count infinitely.
    scale = np.where(spread > 0, spread, np.median(spread[spread > 0]))
    with config_context(
        skip_parameter_validation=True, assume_finite=True
    ):  # the rows are checked above; this halves the time of small fits
        covariance, _ = ledoit_wolf((x - mean) / scale, assume_centered=True)
    values, vectors = np.linalg.eigh(covariance)
    values = np.maximum(values, values.max() * 1e-12)  # exact zeros where nothing was shrunk
    return Distance(mean=mean, whitener=vectors / np.sqrt(values) / scale[:, None], n=len(x))
