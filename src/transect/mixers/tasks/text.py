"""The next byte of a text: language modelling without a tokenizer."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import final

import torch

from transect.errors import InputError
from transect.mixers.tasks.base import Batch, Task


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class Text(Task):
    """The next byte; the last tenth of the text is for tests alone.

    Args:
        data: the text as bytes.
        length: bytes in a training sequence.

    Raises:
        InputError: a text of fewer than a hundred training sequences.

    Examples:
        >>> Text(data=b"abc" * 4000, length=8).batch(torch.Generator().manual_seed(0), 2).ids.shape
        torch.Size([2, 8])
    """

    alias = "perplexity"

    data: bytes
    length: int = 128

    def __post_init__(self) -> None:
        """Check the settings."""
        if len(self.data) < 100 * self.length:
            raise InputError(f"expected a text of at least {100 * self.length} bytes for sequences of {self.length}, got {len(self.data)}.")

    @property
    def vocab_size(self) -> int:
        """All bytes."""
        return 256

    def chance(self, test: int) -> float:  # noqa: ARG002 - the same in every test
        """The share of the commonest byte."""
        return float(torch.frombuffer(bytearray(self.data), dtype=torch.uint8).long().bincount().max()) / len(self.data)

    @property
    def harder(self) -> str:
        """The length grows."""
        return "length"

    @property
    def tests(self) -> Mapping[int, bool]:
        """The length, and twice and four times of it; every place counts."""
        return {self.length: True, 2 * self.length: False, 4 * self.length: False}

    def batch(self, generator: torch.Generator, size: int, *, test: int | None = None) -> Batch:
        """Windows of the text, from its first nine tenths, or in tests from the last."""
        bytes_ = torch.frombuffer(bytearray(self.data), dtype=torch.uint8).long()
        border, length = len(bytes_) * 9 // 10, self.length if test is None else test
        low, high = (0, border - length - 1) if test is None else (border, len(bytes_) - length - 1)
        places = torch.randint(low, high, (size, 1), generator=generator) + torch.arange(length + 1)
        windows = bytes_[places]
        return Batch(ids=windows[:, :-1], targets=windows[:, 1:])
