"""A needle in a haystack: one pair among tokens that mean nothing, asked at the end, also far beyond the lengths trained on.

The plain synthetic form of RULER's single-needle tasks (Hsieh et al., arXiv 2404.06654). Tests are of lengths, and of depths: with the needle always
at one share of the way, since a memory that fades finds the late ones and a mean over random places hides which.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import final

import torch

from transect.errors import InputError
from transect.mixers.tasks.base import IGNORE, Axis, Batch, Task


@final
@dataclass(frozen=True, kw_only=True)
class Needle(Task):
    """A marker, a key and a value at a random place in noise; at the end the key again, and its value is asked.

    Args:
        vocab: tokens; the first is the marker, then as many keys, values and noise.
        length: the longest training sequence; the shortest has a quarter.

    Raises:
        InputError: too few tokens or too short.

    Examples:
        >>> batch = Needle(length=20).batch(torch.Generator().manual_seed(0), 2)
        >>> int((batch.targets != -100).sum())
        2
    """

    alias = "needle"

    vocab: int = 61
    length: int = 64

    def __post_init__(self) -> None:
        """Check the settings."""
        if self.vocab < 7 or self.length < 20:
            raise InputError(f"expected a vocab of at least 7 and a length of at least 20, got {self.vocab} and {self.length}.")

    @property
    def vocab_size(self) -> int:
        """Tokens there are."""
        return self.vocab

    def chance(self, test: int) -> float:  # noqa: ARG002 - the same in every test
        """One of the values."""
        return 3 / (self.vocab - 1)

    @property
    def harder(self) -> str:
        """The length grows."""
        return "length"

    @property
    def tests(self) -> Mapping[int, bool]:
        """The length, and up to sixteen times of it."""
        return {self.length * times: times == 1 for times in (1, 2, 4, 8, 16)}

    @property
    def across(self) -> Axis:
        """How far along the needle lies."""
        return Axis(name="depth", points=(0.0, 0.25, 0.5, 0.75, 1.0), ends=("start", "question"))

    def batch(self, generator: torch.Generator, size: int, *, test: int | None = None) -> Batch:
        """Sequences of one length, each needle anywhere."""
        length = int(torch.randint(self.length // 4, self.length + 1, (1,), generator=generator)) if test is None else test
        return self._hidden(generator, size, length, at=None)

    def batch_at(self, generator: torch.Generator, size: int, *, test: int, at: float) -> Batch:
        """Sequences of one length, every needle at a share of the way from the first place to the last.

        Raises:
            InputError: a share that is not within 0 and 1.
        """
        if not 0 <= at <= 1:
            raise InputError(f"expected a depth from 0 (the first tokens) to 1 (just before the question), got {at}.")
        return self._hidden(generator, size, test, at=at)

    def _hidden(self, generator: torch.Generator, size: int, length: int, *, at: float | None) -> Batch:
        third = (self.vocab - 1) // 3
        keys, values = (torch.randint(1 + at * third, 1 + (at + 1) * third, (size,), generator=generator) for at in (0, 1))
        ids = torch.randint(1 + 2 * third, 1 + 3 * third, (size, length), generator=generator)
        last = length - 5
        places = torch.randint(0, last + 1, (size,), generator=generator) if at is None else torch.full((size,), round(at * last))
        ids.scatter_(1, places[:, None] + torch.arange(3), torch.stack([torch.zeros_like(keys), keys, values], 1))
        ids[:, -1] = keys
        targets = torch.full_like(ids, IGNORE)
        targets[:, -1] = values
        return Batch(ids=ids, targets=targets)
