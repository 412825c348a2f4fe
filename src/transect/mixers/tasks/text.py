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
    """The next byte; the last tenth of the text is for tests alone, and the tenth before it for validation.

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
        """Windows of the text, from its first eight tenths, or in tests from the last."""
        if test is None:
            return self._windows(generator, size, self.length, tenths=(0, 8))
        return self._windows(generator, size, test, tenths=(9, 10))

    def validation(self, generator: torch.Generator, size: int) -> Batch:
        """Windows of the ninth tenth, which is neither trained on nor tested."""
        return self._windows(generator, size, self.length, tenths=(8, 9))

    def _windows(self, generator: torch.Generator, size: int, length: int, *, tenths: tuple[int, int]) -> Batch:
        bytes_ = torch.frombuffer(bytearray(self.data), dtype=torch.uint8).long()
        low, high = (len(bytes_) * tenth // 10 for tenth in tenths)
        places = torch.randint(low, high - length, (size, 1), generator=generator) + torch.arange(length + 1)
        windows = bytes_[places]
        return Batch(ids=windows[:, :-1], targets=windows[:, 1:])
