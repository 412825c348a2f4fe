"""State tracking: the product of all group elements so far, asked at every place, also far beyond the lengths trained on.

Papers: The Illusion of State in State-Space Models, Merrill et al., arXiv 2404.08819; Unlocking State-Tracking in Linear RNNs Through Negative
Eigenvalues, Grazzi et al., arXiv 2411.12537; the regular languages are those of Neural Networks and the Chomsky Hierarchy, arXiv 2207.02098.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from itertools import permutations
from typing import final

import torch

from transect.errors import InputError
from transect.mixers.tasks.base import Batch, Task


@dataclass(frozen=True, kw_only=True)
class GroupProducts(Task, ABC):
    """Products of random elements of a group.

    Args:
        length: the longest training sequence; the shortest has 4 elements.

    Raises:
        InputError: a length below 4.
    """

    length: int = 32

    def __post_init__(self) -> None:
        """Check the settings."""
        if self.length < 4:
            raise InputError(f"expected a length of at least 4, got {self.length}.")

    @abstractmethod
    def table(self) -> torch.Tensor:
        """``[n, n]``: the product of elements a and b, in that order; element 0 changes nothing."""

    @property
    def vocab_size(self) -> int:
        """The group's elements."""
        return len(self.table())

    def chance(self, test: int) -> float:  # noqa: ARG002 - the same in every test
        """One of the elements."""
        return 1 / self.vocab_size

    @property
    def harder(self) -> str:
        """The length grows."""
        return "length"

    @property
    def tests(self) -> Mapping[int, bool]:
        """The length, and up to eight times of it; what is asked is the last place alone."""
        return {self.length * times: times == 1 for times in (1, 2, 4, 8)}

    def batch(self, generator: torch.Generator, size: int, *, test: int | None = None) -> Batch:
        """Sequences of one length."""
        length = int(torch.randint(4, self.length + 1, (1,), generator=generator)) if test is None else test
        table = self.table()
        ids = torch.randint(0, len(table), (size, length), generator=generator)
        so_far, products = torch.zeros(size, dtype=torch.long), []
        for element in ids.unbind(1):
            so_far = table[so_far, element]
            products.append(so_far)
        targets = torch.stack(products, 1)
        if test is not None:
            targets[:, :-1] = -100
        return Batch(ids=ids, targets=targets)


@final
@dataclass(frozen=True, kw_only=True)
class Parity(GroupProducts):
    """Whether the number of ones so far is odd.

    Examples:
        >>> batch = Parity().batch(torch.Generator().manual_seed(0), 1)
        >>> bool((batch.ids.cumsum(1) % 2 == batch.targets).all())
        True
    """

    alias = "parity"

    def table(self) -> torch.Tensor:
        """Addition modulo 2."""
        return _sums(2)


@final
@dataclass(frozen=True, kw_only=True)
class ModularSum(GroupProducts):
    """The sum so far, modulo 5."""

    alias = "modular"

    def table(self) -> torch.Tensor:
        """Addition modulo 5."""
        return _sums(5)


@final
@dataclass(frozen=True, kw_only=True)
class S3(GroupProducts):
    """Permutations of three things: the smallest group whose order matters."""

    alias = "s3"

    def table(self) -> torch.Tensor:
        """Composition."""
        return _permutations(3, even=False)


@final
@dataclass(frozen=True, kw_only=True)
class A5(GroupProducts):
    """Even permutations of five things: the smallest group that no tower of simpler ones builds."""

    alias = "a5"

    def table(self) -> torch.Tensor:
        """Composition."""
        return _permutations(5, even=True)


@final
@dataclass(frozen=True, kw_only=True)
class S5(GroupProducts):
    """Permutations of five things."""

    alias = "s5"

    def table(self) -> torch.Tensor:
        """Composition."""
        return _permutations(5, even=False)


@cache
def _sums(n: int) -> torch.Tensor:
    return (torch.arange(n)[:, None] + torch.arange(n)) % n


@cache
def _permutations(n: int, *, even: bool) -> torch.Tensor:
    members = [one for one in permutations(range(n)) if not even or _is_even(one)]
    place = {one: index for index, one in enumerate(members)}
    return torch.tensor([[place[tuple(first[at] for at in second)] for second in members] for first in members])


def _is_even(one: tuple[int, ...]) -> bool:
    return sum(one[i] > one[j] for i in range(len(one)) for j in range(i + 1, len(one))) % 2 == 0
