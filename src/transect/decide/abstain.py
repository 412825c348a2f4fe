"""Abstention out of distribution: rows unlike the reference are not judged, and at most a share alpha of like rows is lost.

Split conformal p-values (Vovk, Gammerman and Shafer 2005; Bates, Candes, Lei, Romano and Sesia 2023 for outliers). A distance is fitted
on one part of the reference and measured on the other, the n calibration rows. With a(x) the distance of a new row,

    p(x) = (1 + #{calibration rows with a distance of at least a(x)}) / (n + 1)

If the new row and the calibration rows are exchangeable, the rank of a(x) among the n + 1 is uniform up to ties, which only raise p, so
P(p <= alpha) <= alpha: averaged over references, at most a share alpha of rows from the reference's own distribution is abstained on.
For one given reference the share is random, Beta distributed around it with a standard deviation of about sqrt(alpha / n).
"""

import dataclasses
import math
import os
from typing import Any

import numpy as np
import torch

from transect.decide.certificate import check_rate
from transect.decide.distance import Distance, fit_distance
from transect.errors import SampleSizeError
from transect.linear.files import load_object, save_object
from transect.measure._inputs import Bools, Floats, as_floats, as_groups


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Abstention:
    """A rule that says which rows not to judge.

    Args:
        distance: how far a row lies from the reference.
        calibration: ``[n]`` distances of the calibration rows, rising.
        alpha: the largest share of rows like the reference that is abstained on.

    Raises:
        SampleSizeError: so few calibration rows that no p-value could be as small as alpha.

    Examples:
        >>> import numpy as np
        >>> rng = np.random.default_rng(0)
        >>> rule = fit_abstention(rng.normal(size=(400, 4)), alpha=0.05)
        >>> rule.abstains(np.array([[0.0, 0, 0, 0], [9, 9, 9, 9]])).tolist()
        [False, True]
    """

    distance: Distance
    calibration: Floats
    alpha: float

    def __post_init__(self) -> None:
        check_rate(self.alpha, name="alpha")
        needed = _needed(self.alpha)
        if len(self.calibration) < needed:
            raise SampleSizeError(
                f"abstaining at alpha {self.alpha:g} needs at least {needed} calibration rows (the smallest p-value is 1 / (n + 1)), "
                f"got {len(self.calibration)}; give more reference rows, or a larger alpha.",
                needed=needed,
                got=len(self.calibration),
            )

    def p_values(self, activations: Any) -> Floats:
        """Conformal p-values ``[m]`` of activations ``[m, d]``: small where a row is unlike the reference.

        Raises:
            InputError: NaN or infinity; the row is named.
            MismatchError: the activations have another width.
        """
        n = len(self.calibration)
        at_least = n - np.searchsorted(self.calibration, self.distance(activations), side="left")
        return (1.0 + at_least) / (n + 1)

    def abstains(self, activations: Any) -> Bools:
        """Which of the rows ``[m, d]`` not to judge: p-value at most alpha."""
        return self.p_values(activations) <= self.alpha

    @property
    def sentence(self) -> str:
        """The promise in one sentence."""
        return (
            f"At most {self.alpha:g} of rows exchangeable with the reference are abstained on, on average over references "
            f"({len(self.calibration)} calibration rows, {self.distance.n} others for the distance)."
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write one safetensors file with a JSON header, atomically."""
        numbers = {"mean": self.distance.mean, "whitener": self.distance.whitener, "calibration": self.calibration}
        tensors = {name: torch.from_numpy(np.ascontiguousarray(value)) for name, value in numbers.items()}
        save_object(path, kind="Abstention", tensors=tensors, header={"alpha": self.alpha, "n_fitted": self.distance.n})

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Abstention":
        """Read back what `save` wrote.

        Raises:
            StoreError: the file is missing, damaged or holds something else.
        """
        tensors, header = load_object(path, kind="Abstention")
        numbers = {name: tensor.numpy() for name, tensor in tensors.items()}
        distance = Distance(mean=numbers["mean"], whitener=numbers["whitener"], n=header["n_fitted"])
        return cls(distance=distance, calibration=numbers["calibration"], alpha=header["alpha"])


def fit_abstention(reference: Any, *, alpha: float = 0.05, groups: Any = None, seed: int = 0) -> Abstention:
    """Fit an abstention rule: the distance on one half of the reference, the p-values on the other.

    Args:
        reference: activations ``[n, d]`` of the distribution that may be judged.
        alpha: the largest share of such rows that is abstained on.
        groups: ``[n]``; whole groups go to one half, and of each calibration group one row, drawn at random, counts, since rows of
            one group are not exchangeable with a row of a new group.
        seed: of the division and of those draws.

    Raises:
        SampleSizeError: too few rows, or groups, for alpha; says how many are needed.
        InputError: NaN (the row is named), or rows that are all equal.
    """
    x = as_floats(reference, name="reference", ndim=(2,))
    check_rate(alpha, name="alpha")
    n_groups = as_groups(groups, n=len(x))[1]
    needed = max(2 * _needed(alpha) - 1, 4)
    if n_groups < needed:
        raise SampleSizeError(
            f"an abstention rule at alpha {alpha:g} needs at least {needed} independent reference rows or groups (half of them fit the "
            f"distance, and the smallest p-value of n others is 1 / (n + 1)), got {n_groups}; give more, or a larger alpha.",
            needed=needed,
            got=n_groups,
        )
    fitted, calibration = halves(x, groups=groups, seed=seed)
    distance = fit_distance(fitted)
    return Abstention(distance=distance, calibration=np.sort(distance(calibration)), alpha=alpha)


def halves(rows: Floats, *, groups: Any = None, seed: int = 0) -> tuple[Floats, Floats]:
    """Two halves with no group in common, dealt at random; the second keeps one row of each of its groups.

    Raises:
        InputError: groups of another length.
    """
    codes, n_groups = as_groups(groups, n=len(rows))
    rng = np.random.default_rng(seed)
    second = rng.permutation(n_groups) >= n_groups // 2
    shuffled = rng.permutation(len(rows))
    _, first_of_group = np.unique(codes[shuffled], return_index=True)
    kept = shuffled[first_of_group]
    return rows[~second[codes]], rows[np.sort(kept[second[codes[kept]]])]


def _needed(alpha: float) -> int:
    """The fewest calibration rows whose smallest p-value, ``1 / (n + 1)``, is at most alpha."""
    return math.ceil(1 / alpha - 1 - 1e-9)
