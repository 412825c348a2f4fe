"""What every fitter solves: many problems over the same rows, each with its own labels, row weights and strength."""

import dataclasses
from collections.abc import Sequence
from math import isfinite
from numbers import Real
from typing import Any

import torch

from transect.errors import InputError
from transect.probes._rotation import Rotation

MOST_ENTRIES = 1 << 24
"""Rows times problems times outputs that are worked on at a time, which bounds the memory of large fits."""


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Problems:
    """``b`` problems over ``n`` rows.

    Args:
        targets: ``[b, n]`` class indices (int64), or numbers.
        weight: ``[b, n]`` how much each row counts, in the working precision; rows that take no part have 0.
        strength: ``[b]`` the fitter's own parameter, for rows scaled as the `Rotation` scales them; None for the fitter's
            own choice.
        classes: how many classes; 0 for numbers.
    """

    targets: torch.Tensor
    weight: torch.Tensor
    strength: torch.Tensor | None
    classes: int

    def __len__(self) -> int:
        return len(self.weight)

    @property
    def outputs(self) -> int:
        """Scores per problem: one for two classes or a number, else one for each class."""
        return self.classes if self.classes > 2 else 1

    def select(self, keep: slice) -> "Problems":
        """Some of the problems."""
        strength = None if self.strength is None else self.strength[keep]
        return Problems(targets=self.targets[keep], weight=self.weight[keep], strength=strength, classes=self.classes)

    def chunks(self) -> list["Problems"]:
        """The problems, a bounded number at a time."""
        each = max(1, MOST_ENTRIES // (self.weight.shape[1] * self.outputs))
        return [self.select(slice(start, start + each)) for start in range(0, len(self), each)]

    def check_classes(self) -> None:
        """Refuse problems in which a class has no rows.

        Raises:
            InputError: names the first such problem and class, and counts them.
        """
        lacking = ((self.members() * self.weight.unsqueeze(1)).sum(-1) <= 0).nonzero().tolist()
        if lacking:
            problem, code = lacking[0]
            raise InputError(
                f"expected rows of every class in each fold and resample, but fit {problem} of {len(self)} has none of class {code} "
                f"({len(lacking)} such gaps in all). Use fewer folds, or draw folds and resamples within each class."
            )

    def by_strength(self) -> list[torch.Tensor]:
        """Indices of the problems of each strength, in rising order, where those are the same problems in the same order.

        Where they are not, all problems are one group.
        """
        everything = [torch.arange(len(self), device=self.weight.device)]
        if self.strength is None:
            return everything
        groups = [torch.nonzero(self.strength == value).squeeze(1) for value in torch.unique(self.strength)]
        first = groups[0]
        for group in groups[1:]:
            alike = len(group) == len(first) and torch.equal(self.weight[group], self.weight[first])
            if not alike or not torch.equal(self.targets[group], self.targets[first]):
                return everything
        return groups

    def signs(self) -> torch.Tensor:
        """``[b, k, n]`` plus and minus one by class; numbers as they are."""
        if self.classes == 0:
            return self.targets.to(self.weight.dtype).unsqueeze(1)
        return self.members() * 2 - 1 if self.classes > 2 else (self.targets * 2 - 1).to(self.weight.dtype).unsqueeze(1)

    def members(self) -> torch.Tensor:
        """``[b, classes, n]`` one where the row is of the class."""
        return torch.nn.functional.one_hot(self.targets, self.classes).mT.to(self.weight.dtype)


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Solution:
    """What a fitter found, in the coordinates of the `Rotation`: ``weight [b, k, r]``, ``intercept [b, k]``.

    Args:
        weight: of each problem.
        intercept: of each problem.
        steps: ``[b]`` iterations taken; 1 for closed forms.
        converged: ``[b]`` whether the tolerance was met.
    """

    weight: torch.Tensor
    intercept: torch.Tensor
    steps: torch.Tensor
    converged: torch.Tensor

    @classmethod
    def exact(cls, weight: torch.Tensor, intercept: torch.Tensor) -> "Solution":
        """Of a closed form."""
        ones = torch.ones(len(weight), dtype=torch.int64, device=weight.device)
        return cls(weight=weight, intercept=intercept, steps=ones, converged=ones.bool())

    @classmethod
    def join(cls, parts: Sequence["Solution"]) -> "Solution":
        """Of several chunks of problems."""
        fields: dict[str, Any] = {field.name: torch.cat([getattr(part, field.name) for part in parts]) for field in dataclasses.fields(cls)}
        return cls(**fields)


def check_number(name: str, value: Any, *, low: float, closed: bool) -> None:
    """Refuse a setting that is not a finite number above ``low`` (or equal to it, where closed).

    Raises:
        InputError: repeats the name and the value.
    """
    number = isinstance(value, Real) and not isinstance(value, bool) and isfinite(value)
    if not number or value < low or (value == low and not closed):
        raise InputError(f"{name} must be a finite number {'of at least' if closed else 'above'} {low:g}, got {value!r}.")


def class_means(rotation: Rotation, problems: Problems) -> tuple[torch.Tensor, torch.Tensor]:
    """Means ``[b, classes, r]`` and shares ``[b, classes]`` of each class, by the rows' weights."""
    weighted = problems.members() * problems.weight.unsqueeze(1)
    total = weighted.sum(-1)
    means = (weighted.flatten(0, 1) @ rotation.z).view(*total.shape, -1) / total.clamp_min(torch.finfo(total.dtype).tiny).unsqueeze(-1)
    return means, total / total.sum(-1, keepdim=True)


def scatter(rotation: Rotation, weight: torch.Tensor, centre: torch.Tensor) -> torch.Tensor:
    """``[r, r]`` the sum of ``weight * (z - centre)(z - centre)'``, for weights ``[n]`` and a centre ``[r]``."""
    level, out = weight.max(), weight == 0
    if bool(((weight == level) | out).all()) and 2 * int(out.sum()) < len(weight):
        # All rows alike but for few left out: of all rows, the rotation has made it diagonal already.
        gone = rotation.z[out]
        whole = torch.diag(rotation.spectrum * level).addmm_(gone.T, gone, alpha=-float(level))
    else:
        rows = rotation.z * weight.sqrt().unsqueeze(-1)
        whole = rows.T @ rows
    mean = weight @ rotation.z / weight.sum()
    return whole - weight.sum() * (torch.outer(mean, centre) + torch.outer(centre, mean) - torch.outer(centre, centre))


def same_rows(weight: torch.Tensor) -> list[torch.Tensor]:
    """Indices of the problems that share their row weights, group by group, for weights ``[b, n]``."""
    _, group = torch.unique(weight, dim=0, return_inverse=True)
    return [torch.nonzero(group == number).squeeze(1) for number in range(int(group.max()) + 1)]
