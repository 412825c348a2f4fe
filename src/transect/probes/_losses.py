"""The logistic losses, each for many problems at once.

``b`` problems, ``k`` outputs per problem (1 for two classes), ``n`` rows; the rows come last, because long rows of numbers are
what a processor likes. Margins ``[b, k, n]`` are the scores of every row in every problem. A loss is evaluated *at* margins;
what comes back knows the first derivative, and multiplies by the second.

The intercepts carry no penalty, so the solver never sees them: for any change of the weights they move to where the loss is
stationary in them, which is a ``k x k`` system per problem and is solved here, exactly.
"""

import dataclasses

import torch
from torch.nn.functional import one_hot, softplus

from transect.probes._rotation import Rotation

LEAST_SPREAD = 0.03
"""The least spread along a coordinate that is believed, as a fraction of that of all rows."""


@dataclasses.dataclass(frozen=True, eq=False)
class TwoClasses:
    """``weight * log(1 + exp(-sign * margin))``, the logistic loss of two classes.

    Args:
        sign: ``[b, n]`` +1 for the second class, -1 for the first.
        weight: ``[b, n]`` of each row in each problem.
    """

    sign: torch.Tensor
    weight: torch.Tensor
    outputs = 1

    @classmethod
    def of(cls, codes: torch.Tensor, weight: torch.Tensor, classes: int) -> "TwoClasses":
        """From class indices ``[b, n]``."""
        del classes
        return cls(codes.to(weight.dtype) * 2 - 1, weight)

    def select(self, keep: torch.Tensor) -> "TwoClasses":
        """The problems in ``keep`` only."""
        return TwoClasses(self.sign[keep], self.weight[keep])

    def total(self, margins: torch.Tensor) -> torch.Tensor:
        """The loss of each problem, ``[b]``."""
        return (softplus(-self.sign * margins.squeeze(1), threshold=40) * self.weight).sum(-1)

    def at(self, margins: torch.Tensor) -> "TwoClassesAt":
        """Derivatives at margins ``[b, 1, n]``."""
        wrong = torch.sigmoid(-self.sign * margins.squeeze(1))
        pull = wrong * self.weight
        return TwoClassesAt(slope=(-self.sign * pull).unsqueeze(1), curve=pull * (1 - wrong))


@dataclasses.dataclass(frozen=True, eq=False)
class TwoClassesAt:
    """Derivatives of `TwoClasses`: ``slope [b, 1, n]`` and the diagonal ``curve [b, n]`` of the second."""

    slope: torch.Tensor
    curve: torch.Tensor

    def select(self, keep: torch.Tensor) -> "TwoClassesAt":
        """The problems in ``keep`` only."""
        return TwoClassesAt(self.slope[keep], self.curve[keep])

    def along(self, direction: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """First and second derivative ``[b]`` along a change of the margins."""
        return dot(self.slope, direction), dot(self.curve * direction.squeeze(1), direction.squeeze(1))

    def free_intercepts(self) -> "TwoClassesCurvature":
        """The second derivative with the intercepts moving along."""
        return TwoClassesCurvature(self.curve, self.curve.sum(-1).clamp_min(torch.finfo(self.curve.dtype).tiny))


@dataclasses.dataclass(frozen=True, eq=False)
class TwoClassesCurvature:
    """``curve [b, n]`` and its sum ``total [b]``."""

    curve: torch.Tensor
    total: torch.Tensor
    needs_precision = False

    def to(self, dtype: torch.dtype) -> "TwoClassesCurvature":
        """In another precision."""
        return TwoClassesCurvature(self.curve.to(dtype), self.total.to(dtype))

    def select(self, keep: torch.Tensor) -> "TwoClassesCurvature":
        """The problems in ``keep`` only."""
        return TwoClassesCurvature(self.curve[keep], self.total[keep])

    def settle(self, slope_sum: torch.Tensor) -> torch.Tensor:
        """The change of the intercepts ``[b, 1]`` that takes a sum of slopes ``[b, 1]`` to zero."""
        return -slope_sum / self.total.unsqueeze(-1)

    def times(self, margins: torch.Tensor) -> torch.Tensor:
        """The change of the slopes ``[b, 1, n]`` for a change of the margins ``[b, 1, n]`` or of the intercepts ``[b, 1, 1]``."""
        return self.curve.unsqueeze(1) * margins

    def follow(self, margins: torch.Tensor) -> torch.Tensor:
        """How the intercepts ``[b, 1]`` move along with a change of the margins ``[b, 1, n]``."""
        return self.settle(torch.linalg.vecdot(self.curve, margins.squeeze(1)).unsqueeze(-1))

    def product_(self, margins: torch.Tensor) -> torch.Tensor:
        """The change of the slopes with the intercepts moving along; overwrites ``margins``."""
        return margins.add_(self.follow(margins).unsqueeze(-1)).mul_(self.curve.unsqueeze(1))

    def preconditioner(self, rotation: Rotation, penalty: torch.Tensor) -> "Diagonal":
        """Nearly the inverse of the second derivative plus the penalty ``[b]``, for rotated weights ``[b, 1, r]``."""
        low = rotation.z_low.dtype
        return Diagonal(1 / (diagonal(self.curve.to(low).unsqueeze(1), self.total.to(low).unsqueeze(1), rotation) + penalty[:, None, None]))

    def dense(self, rows: torch.Tensor) -> torch.Tensor:
        """The matrix ``[r, r]`` of the only problem, for rotated weights."""
        rows = rows - (self.curve[0] @ rows) / self.total
        return (rows * self.curve[0].unsqueeze(-1)).T @ rows


@dataclasses.dataclass(frozen=True, eq=False)
class Diagonal:
    """Multiplication by ``inverse [b, 1, r]``."""

    inverse: torch.Tensor

    def to(self, dtype: torch.dtype) -> "Diagonal":
        """In another precision."""
        return Diagonal(self.inverse.to(dtype))

    def select(self, keep: torch.Tensor) -> "Diagonal":
        """The problems in ``keep`` only."""
        return Diagonal(self.inverse[keep])

    def __call__(self, vector: torch.Tensor) -> torch.Tensor:
        return self.inverse * vector


@dataclasses.dataclass(frozen=True, eq=False)
class ManyClasses:
    """``weight * -log softmax(margins)[true class]``, the loss of k > 2 classes.

    Args:
        true: ``[b, k, n]`` one where the row's class is, else zero.
        weight: ``[b, n]``.
    """

    true: torch.Tensor
    weight: torch.Tensor

    @property
    def outputs(self) -> int:
        """Scores per problem: one for each class."""
        return self.true.shape[1]

    @classmethod
    def of(cls, codes: torch.Tensor, weight: torch.Tensor, classes: int) -> "ManyClasses":
        """From class indices ``[b, n]``."""
        return cls(one_hot(codes, classes).to(weight.dtype).mT.contiguous(), weight)

    def select(self, keep: torch.Tensor) -> "ManyClasses":
        """The problems in ``keep`` only."""
        return ManyClasses(self.true[keep], self.weight[keep])

    def total(self, margins: torch.Tensor) -> torch.Tensor:
        """The loss of each problem, ``[b]``."""
        return ((torch.logsumexp(margins, 1) - (margins * self.true).sum(1)) * self.weight).sum(-1)

    def at(self, margins: torch.Tensor) -> "ManyClassesAt":
        """Derivatives at margins ``[b, k, n]``."""
        chance = torch.softmax(margins, 1)
        return ManyClassesAt(slope=(chance - self.true) * self.weight.unsqueeze(1), chance=chance, weight=self.weight)


@dataclasses.dataclass(frozen=True, eq=False)
class ManyClassesAt:
    """Derivatives of `ManyClasses`: ``slope [b, k, n]``; the second is ``weight * (diag(chance) - chance chance')``."""

    slope: torch.Tensor
    chance: torch.Tensor
    weight: torch.Tensor

    def select(self, keep: torch.Tensor) -> "ManyClassesAt":
        """The problems in ``keep`` only."""
        return ManyClassesAt(self.slope[keep], self.chance[keep], self.weight[keep])

    def along(self, direction: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """First and second derivative ``[b]`` along a change of the margins."""
        leaning = self.chance * direction
        spread = (leaning * direction).sum(1) - leaning.sum(1).square()
        return dot(self.slope, direction), dot(spread, self.weight)

    def free_intercepts(self) -> "ManyClassesCurvature":
        """The second derivative with the intercepts moving along."""
        weighted = self.chance * self.weight.unsqueeze(1)
        total = torch.diag_embed(weighted.sum(-1)) - weighted @ self.chance.mT
        # All intercepts may move by one number without any effect, so that eigenvalue is zero but for rounding, which must not be
        # inverted. Raised above all others, it comes last, and is known.
        raised = total + total.diagonal(dim1=-2, dim2=-1).sum(-1)[:, None, None]
        values, vectors = torch.linalg.eigh(raised)
        rounding = values[:, -1:] * torch.finfo(values.dtype).eps
        values = values.clamp_min(rounding)
        inverse = 1 / values
        values[:, -1] = inverse[:, -1] = 0
        return ManyClassesCurvature(self.chance, weighted, vectors, values, inverse)


@dataclasses.dataclass(frozen=True, eq=False)
class ManyClassesCurvature:
    """``chance``, ``weighted = chance * weight [b, k, n]``, and the eigenvectors, values and inverse values of its sum over rows."""

    chance: torch.Tensor
    weighted: torch.Tensor
    vectors: torch.Tensor
    values: torch.Tensor
    inverse: torch.Tensor
    # Two groups of classes that are never confused leave an intercept between them that moves at almost no cost; it follows from
    # sums that cancel but for their last digits.
    needs_precision = True

    def to(self, dtype: torch.dtype) -> "ManyClassesCurvature":
        """In another precision."""
        return ManyClassesCurvature(*(part.to(dtype) for part in self._parts()))

    def select(self, keep: torch.Tensor) -> "ManyClassesCurvature":
        """The problems in ``keep`` only."""
        return ManyClassesCurvature(*(part[keep] for part in self._parts()))

    def _parts(self) -> tuple[torch.Tensor, ...]:
        return self.chance, self.weighted, self.vectors, self.values, self.inverse

    def settle(self, slope_sum: torch.Tensor) -> torch.Tensor:
        """The change of the intercepts ``[b, k]`` that takes a sum of slopes ``[b, k]`` to zero."""
        turned = self.vectors.mT @ slope_sum.unsqueeze(-1)
        return -(self.vectors @ (self.inverse.unsqueeze(-1) * turned)).squeeze(-1)

    def times(self, margins: torch.Tensor) -> torch.Tensor:
        """The change of the slopes ``[b, k, n]`` for a change of the margins ``[b, k, n]`` or of the intercepts ``[b, k, 1]``."""
        return self.weighted * (margins - (self.chance * margins).sum(1, keepdim=True))

    def follow(self, margins: torch.Tensor) -> torch.Tensor:
        """How the intercepts ``[b, k]`` move along with a change of the margins ``[b, k, n]``."""
        return self.settle(self.times(margins).sum(-1))

    def product_(self, margins: torch.Tensor) -> torch.Tensor:
        """The change of the slopes with the intercepts moving along; overwrites ``margins``."""
        return self.times(margins.add_(self.follow(margins).unsqueeze(-1)))

    def preconditioner(self, rotation: Rotation, penalty: torch.Tensor) -> "Turned":
        """Nearly the inverse of the second derivative plus the penalty ``[b]``, for rotated weights ``[b, k, r]``."""
        turn = self.vectors.mT
        curve = turn.square() @ self.weighted - (turn @ self.chance) * (turn @ self.weighted)
        spread = diagonal(curve.to(rotation.z_low.dtype), self.values.to(rotation.z_low.dtype), rotation)
        return Turned(1 / (spread + penalty[:, None, None]), self.vectors)

    def dense(self, rows: torch.Tensor) -> torch.Tensor:
        """The matrix ``[kr, kr]`` of the only problem, for rotated weights."""
        chance, weighted = self.chance[0], self.weighted[0]
        k, r = len(chance), rows.shape[1]
        blocks = rows.new_empty(k, r, k, r)
        slopes = rows.new_empty(k, r, k)  # what each intercept does to the slope of each weight
        for i in range(k):
            for j in range(i + 1):
                between = weighted[i] * (float(i == j) - chance[j])
                block = (rows * between.unsqueeze(-1)).T @ rows
                blocks[i, :, j], blocks[j, :, i] = block, block
                slopes[i, :, j] = slopes[j, :, i] = between @ rows
        flat = slopes.flatten(0, 1) @ self.vectors[0]
        return blocks.view(k * r, k * r) - (flat * self.inverse[0]) @ flat.T


@dataclasses.dataclass(frozen=True, eq=False)
class Turned:
    """Multiplication by ``inverse [b, k, r]`` in the coordinates ``vectors [b, k, k]``."""

    inverse: torch.Tensor
    vectors: torch.Tensor

    def to(self, dtype: torch.dtype) -> "Turned":
        """In another precision."""
        return Turned(self.inverse.to(dtype), self.vectors.to(dtype))

    def select(self, keep: torch.Tensor) -> "Turned":
        """The problems in ``keep`` only."""
        return Turned(self.inverse[keep], self.vectors[keep])

    def __call__(self, vector: torch.Tensor) -> torch.Tensor:
        return self.vectors @ (self.inverse * (self.vectors.mT @ vector))


def diagonal(curve: torch.Tensor, total: torch.Tensor, rotation: Rotation) -> torch.Tensor:
    """The diagonal ``[b, k, r]`` of a second derivative whose rows weigh ``curve [b, k, n]``, of sum ``total [b, k]``.

    The rows that still matter are a few near the boundary, and their spread differs from that of all rows. What equal weights
    would give guards against rounding.
    """
    b, k, n = curve.shape
    flat = curve.flatten(0, 1)
    some = torch.finfo(curve.dtype).tiny
    second, first = (flat @ rotation.squares).view(b, k, -1), (flat @ rotation.z_low).view(b, k, -1)
    even = (total / n).unsqueeze(-1) * rotation.spectrum.to(curve.dtype)
    return torch.maximum(second - first.square() / (total.unsqueeze(-1) + some), LEAST_SPREAD * even)


def dot(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """The inner product ``[b]`` of everything that belongs to a problem."""
    return torch.linalg.vecdot(left.flatten(1), right.flatten(1))
