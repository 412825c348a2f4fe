"""What tasks share."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import final

import torch

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

    @abstractmethod
    def batch(self, generator: torch.Generator, size: int, *, test: int | None = None) -> Batch:
        """So many sequences to train on, or of one of the tests."""

    def validation(self, generator: torch.Generator, size: int) -> Batch:
        """So many sequences to choose settings by: like those to train on, but drawn anew, and never those of a test."""
        return self.batch(generator, size)
