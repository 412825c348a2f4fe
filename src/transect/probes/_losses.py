"""The logistic losses, each for many problems at once.

``n`` rows, ``b`` problems, ``k`` outputs per problem (1 for two classes). Margins ``[n, b, k]`` are the scores of every row in
every problem. A loss is evaluated *at* margins; what comes back knows the first derivative, and multiplies by the second.

The intercepts carry no penalty, so the solver never sees them: for any change of the weights they move to where the loss is
stationary in them, which is a ``k x k`` system per problem and is solved here, exactly.
"""

import dataclasses

import torch
from torch.nn.functional import softplus


@dataclasses.dataclass(frozen=True, eq=False)
class TwoClasses:
    """``weight * log(1 + exp(-sign * margin))``, the logistic loss of two classes.

    Args:
        sign: ``[n, b]`` +1 for the second class, -1 for the first.
        weight: ``[n, b]`` of each row in each problem.
    """

    sign: torch.Tensor
    weight: torch.Tensor
    outputs = 1

    @classmethod
    def of(cls, codes: torch.Tensor, weight: torch.Tensor, classes: int) -> "TwoClasses":
        """From class indices ``[n, b]``."""
        del classes
        return cls(codes.to(weight.dtype).mul_(2).sub_(1), weight)

    def select(self, keep: torch.Tensor) -> "TwoClasses":
        """The problems in ``keep`` only."""
        return TwoClasses(self.sign[:, keep], self.weight[:, keep])

    def total(self, margins: torch.Tensor) -> torch.Tensor:
        """The loss of each problem, ``[b]``."""
        return (softplus(-self.sign * margins.squeeze(-1), threshold=40) * self.weight).sum(0)

    def at(self, margins: torch.Tensor) -> "TwoClassesAt":
        """Derivatives at margins ``[n, b, 1]``."""
        wrong = torch.sigmoid(-self.sign * margins.squeeze(-1))
        pull = wrong * self.weight
        return TwoClassesAt(slope=(-self.sign * pull).unsqueeze(-1), curve=pull * (1 - wrong))


class TwoClassesAt:
    """Derivatives of `TwoClasses`: ``slope [n, b, 1]`` and the diagonal ``curve [n, b]`` of the second."""

    def __init__(self, slope: torch.Tensor, curve: torch.Tensor) -> None:
        self.slope = slope
        self.curve = curve

    def select(self, keep: torch.Tensor) -> "TwoClassesAt":
        """The problems in ``keep`` only."""
        return TwoClassesAt(self.slope[:, keep], self.curve[:, keep])

    def along(self, direction: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """First and second derivative ``[b]`` along a change of the margins."""
        flat = direction.squeeze(-1)
        return (self.slope.squeeze(-1) * flat).sum(0), (self.curve * flat * flat).sum(0)

    def free_intercepts(self) -> "TwoClassesCurvature":
        """The second derivative with the intercepts moving along."""
        total = self.curve.sum(0).clamp_min(torch.finfo(self.curve.dtype).tiny)
        return TwoClassesCurvature(self.curve, self.curve / total, total)


@dataclasses.dataclass(frozen=True, eq=False)
class TwoClassesCurvature:
    """``curve [n, b]``, the same over its sum, and its sum ``total [b]``."""

    curve: torch.Tensor
    share: torch.Tensor
    total: torch.Tensor

    def to(self, dtype: torch.dtype) -> "TwoClassesCurvature":
        """In another precision."""
        return TwoClassesCurvature(self.curve.to(dtype), self.share.to(dtype), self.total.to(dtype))

    def select(self, keep: torch.Tensor) -> "TwoClassesCurvature":
        """The problems in ``keep`` only."""
        return TwoClassesCurvature(self.curve[:, keep], self.share[:, keep], self.total[keep])

    def settle(self, slope_sum: torch.Tensor) -> torch.Tensor:
        """The change of the intercepts ``[b, 1]`` that takes a sum of slopes ``[b, 1]`` to zero."""
        return -slope_sum / self.total.unsqueeze(-1)

    def times(self, intercepts: torch.Tensor) -> torch.Tensor:
        """The change of the slopes ``[n, b, 1]`` when only the intercepts ``[b, 1]`` move."""
        return self.curve.unsqueeze(-1) * intercepts

    def follow(self, margins: torch.Tensor) -> torch.Tensor:
        """How the intercepts ``[b, 1]`` move along with a change of the margins ``[n, b, 1]``."""
        return -(self.share * margins.squeeze(-1)).sum(0).unsqueeze(-1)

    def product_(self, margins: torch.Tensor) -> torch.Tensor:
        """The change of the slopes with the intercepts moving along; overwrites ``margins``."""
        return margins.add_(self.follow(margins)).mul_(self.curve.unsqueeze(-1))

    def preconditioner(self, spectrum: torch.Tensor, penalty: torch.Tensor) -> "Diagonal":
        """Nearly the inverse of the second derivative plus the penalty ``[b]``, for rotated weights ``[r, b, 1]``."""
        mean = self.total / len(self.curve)
        return Diagonal((1 / (spectrum[:, None] * mean + penalty)).unsqueeze(-1))


@dataclasses.dataclass(frozen=True, eq=False)
class Diagonal:
    """Multiplication by ``inverse [r, b, 1]``."""

    inverse: torch.Tensor

    def to(self, dtype: torch.dtype) -> "Diagonal":
        """In another precision."""
        return Diagonal(self.inverse.to(dtype))

    def select(self, keep: torch.Tensor) -> "Diagonal":
        """The problems in ``keep`` only."""
        return Diagonal(self.inverse[:, keep])

    def __call__(self, vector: torch.Tensor) -> torch.Tensor:
        return self.inverse * vector


@dataclasses.dataclass(frozen=True, eq=False)
class ManyClasses:
    """``weight * -log softmax(margins)[true class]``, the loss of k > 2 classes.

    Args:
        true: ``[n, b, k]`` one where the row's class is, else zero.
        weight: ``[n, b]``.
    """

    true: torch.Tensor
    weight: torch.Tensor

    @property
    def outputs(self) -> int:
        """Scores per problem: one for each class."""
        return self.true.shape[-1]

    @classmethod
    def of(cls, codes: torch.Tensor, weight: torch.Tensor, classes: int) -> "ManyClasses":
        """From class indices ``[n, b]``."""
        return cls(torch.nn.functional.one_hot(codes, classes).to(weight.dtype), weight)

    def select(self, keep: torch.Tensor) -> "ManyClasses":
        """The problems in ``keep`` only."""
        return ManyClasses(self.true[:, keep], self.weight[:, keep])

    def total(self, margins: torch.Tensor) -> torch.Tensor:
        """The loss of each problem, ``[b]``."""
        return ((torch.logsumexp(margins, -1) - (margins * self.true).sum(-1)) * self.weight).sum(0)

    def at(self, margins: torch.Tensor) -> "ManyClassesAt":
        """Derivatives at margins ``[n, b, k]``."""
        chance = torch.softmax(margins, -1)
        return ManyClassesAt(slope=(chance - self.true) * self.weight.unsqueeze(-1), chance=chance, weight=self.weight)


class ManyClassesAt:
    """Derivatives of `ManyClasses`: ``slope [n, b, k]``; the second is ``weight * (diag(chance) - chance chance')``."""

    def __init__(self, slope: torch.Tensor, chance: torch.Tensor, weight: torch.Tensor) -> None:
        self.slope = slope
        self.chance = chance
        self.weight = weight

    def select(self, keep: torch.Tensor) -> "ManyClassesAt":
        """The problems in ``keep`` only."""
        return ManyClassesAt(self.slope[:, keep], self.chance[:, keep], self.weight[:, keep])

    def along(self, direction: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """First and second derivative ``[b]`` along a change of the margins."""
        leaning = self.chance * direction
        spread = (leaning * direction).sum(-1) - leaning.sum(-1).square()
        return (self.slope * direction).sum((0, 2)), (spread * self.weight).sum(0)

    def free_intercepts(self) -> "ManyClassesCurvature":
        """The second derivative with the intercepts moving along."""
        weighted = self.chance * self.weight.unsqueeze(-1)
        total = torch.diag_embed(weighted.sum(0)) - torch.einsum("nbi,nbj->bij", weighted, self.chance)
        values, vectors = torch.linalg.eigh(total)
        # All intercepts may move by one number without any effect: the smallest eigenvalue is zero but for rounding.
        values = values.clamp_min(0)
        floor = values[:, -1:] * torch.finfo(values.dtype).eps * values.shape[-1]
        inverse = torch.where(values > floor, 1 / values, 0)
        return ManyClassesCurvature(self.chance, weighted, vectors, values, inverse)


@dataclasses.dataclass(frozen=True, eq=False)
class ManyClassesCurvature:
    """``chance``, ``weighted = chance * weight [n, b, k]``, and the eigenvectors, values and inverse values of its sum over rows."""

    chance: torch.Tensor
    weighted: torch.Tensor
    vectors: torch.Tensor
    values: torch.Tensor
    inverse: torch.Tensor

    def to(self, dtype: torch.dtype) -> "ManyClassesCurvature":
        """In another precision."""
        fields = (self.chance, self.weighted, self.vectors, self.values, self.inverse)
        return ManyClassesCurvature(*(field.to(dtype) for field in fields))

    def select(self, keep: torch.Tensor) -> "ManyClassesCurvature":
        """The problems in ``keep`` only."""
        return ManyClassesCurvature(self.chance[:, keep], self.weighted[:, keep], self.vectors[keep], self.values[keep], self.inverse[keep])

    def settle(self, slope_sum: torch.Tensor) -> torch.Tensor:
        """The change of the intercepts ``[b, k]`` that takes a sum of slopes ``[b, k]`` to zero."""
        turned = (slope_sum.unsqueeze(-2) @ self.vectors).squeeze(-2)
        return -((self.inverse * turned).unsqueeze(-2) @ self.vectors.mT).squeeze(-2)

    def times(self, margins: torch.Tensor) -> torch.Tensor:
        """The change of the slopes ``[n, b, k]`` for a change of the margins (or of the intercepts ``[b, k]``)."""
        return self.weighted * (margins - (self.chance * margins).sum(-1, keepdim=True))

    def follow(self, margins: torch.Tensor) -> torch.Tensor:
        """How the intercepts ``[b, k]`` move along with a change of the margins ``[n, b, k]``."""
        return self.settle(self.times(margins).sum(0))

    def product_(self, margins: torch.Tensor) -> torch.Tensor:
        """The change of the slopes with the intercepts moving along; overwrites ``margins``."""
        return self.times(margins.add_(self.follow(margins)))

    def preconditioner(self, spectrum: torch.Tensor, penalty: torch.Tensor) -> "Turned":
        """Nearly the inverse of the second derivative plus the penalty ``[b]``, for rotated weights ``[r, b, k]``."""
        mean = self.values / len(self.chance)
        return Turned(1 / (spectrum[:, None, None] * mean + penalty[:, None]), self.vectors)


@dataclasses.dataclass(frozen=True, eq=False)
class Turned:
    """Multiplication by ``inverse [r, b, k]`` in the coordinates ``vectors [b, k, k]``."""

    inverse: torch.Tensor
    vectors: torch.Tensor

    def to(self, dtype: torch.dtype) -> "Turned":
        """In another precision."""
        return Turned(self.inverse.to(dtype), self.vectors.to(dtype))

    def select(self, keep: torch.Tensor) -> "Turned":
        """The problems in ``keep`` only."""
        return Turned(self.inverse[:, keep], self.vectors[keep])

    def __call__(self, vector: torch.Tensor) -> torch.Tensor:
        turned = torch.einsum("rbi,bij->rbj", vector, self.vectors) * self.inverse
        return torch.einsum("rbj,bij->rbi", turned, self.vectors)
