"""What tasks share."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import final

import torch

from transect.errors import InputError

IGNORE = -100
"""Where nothing is asked, as torch's cross-entropy has it."""


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class Batch:
    """Sequences and what is asked of them.

    Args:
        ids: ``[B, T]``.
        targets: ``[B, T]``, what the model must say at each place; `IGNORE` where nothing is asked.
    """

    ids: torch.Tensor
    targets: torch.Tensor


@final
@dataclass(frozen=True, kw_only=True)
class Axis:
    """What else than the hardness a task's tests can be of.

    Args:
        name: in one word: ``depth``.
        points: where it is tested, in order.
        ends: what the first and the last point are, in words.
    """

    name: str
    points: tuple[float, ...]
    ends: tuple[str, str]


class Task(ABC):
    """A task: batches to train on, and tests that grow harder.

    The same generator state gives the same batch; nothing else is random.
    """

    alias: str
    """Its short name."""

    @property
    @abstractmethod
    def vocab_size(self) -> int:
        """Tokens there are, inputs and answers together."""

    @abstractmethod
    def chance(self, test: int) -> float:
        """The accuracy in a test of somebody who knows everything but the order of things in the sequence."""

    @property
    @abstractmethod
    def harder(self) -> str:
        """What grows from test to test, in words: ``length``, ``pairs``."""

    @property
    @abstractmethod
    def tests(self) -> Mapping[int, bool]:
        """What the tests are of (a length, a number of pairs), and whether each is within what is trained on."""

    @property
    def across(self) -> Axis | None:
        """A second axis, at each point of which every test can be drawn, or None."""
        return None

    @abstractmethod
    def batch(self, generator: torch.Generator, size: int, *, test: int | None = None) -> Batch:
        """So many sequences to train on, or of one of the tests."""

    def batch_at(self, generator: torch.Generator, size: int, *, test: int, at: float) -> Batch:
        """So many sequences of a test at one point of `across`; the generator's state gives the same ones at every point, but for that.

        Raises:
            InputError: a task whose tests have one axis.
        """
        del generator, size, test
        raise InputError(f"expected a task whose tests have a second axis, got {self.alias} at {at}; draw its tests with batch.")

    def validation(self, generator: torch.Generator, size: int) -> Batch:
        """So many sequences to choose settings by: like those to train on, but drawn anew, and never those of a test."""
        return self.batch(generator, size)
