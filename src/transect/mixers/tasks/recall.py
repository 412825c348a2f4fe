"""Recall of values by their keys: many queries in one sequence, and how many pairs a memory holds.

Papers: Zoology: Measuring and Improving Recall in Efficient Language Models, Arora et al., arXiv 2312.04927 (multi-query associative recall); Linear
Transformers Are Secretly Fast Weight Programmers, Schlag et al., arXiv 2102.11174 (retrieval against the number of stored keys).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import final

import torch

from transect.errors import InputError
from transect.mixers.tasks.base import IGNORE, Batch, Task


@final
@dataclass(frozen=True, kw_only=True)
class Recall(Task):
    """Keys and values side by side; then, among tokens that mean nothing, each key again, and its value is asked.

    Queries lie anywhere in the n places after the pairs, or mostly soon after them, as Zoology has it (with a = 0.01), since text recalls most what
    it has just said. Pair by pair, a gap from the end of the pairs is drawn out of those still free, by the weights

        w(gap) = a * gap**(a - 1),     gap = 1 ... n

    Zoology's queries fall on every second place, here on any.

    Args:
        vocab: tokens; the lower half are keys, the upper half values.
        pairs: pairs in a training sequence.
        length: tokens of a training sequence; twice the pairs are pairs, and the queries lie in what is left.
        power: a, above 0 and at most 1, where all gaps are alike; None for places drawn uniformly.

    Raises:
        InputError: more pairs than keys, or than places for their queries, or a power out of its range.

    Examples:
        >>> batch = Recall(vocab=16, pairs=2, length=8).batch(torch.Generator().manual_seed(0), 1)
        >>> batch.ids.shape, int((batch.targets != -100).sum())
        (torch.Size([1, 8]), 2)
    """

    alias = "recall"

    vocab: int = 128
    pairs: int = 8
    length: int = 64
    power: float | None = None

    def __post_init__(self) -> None:
        """Check the settings."""
        if self.power is not None and not 0 < self.power <= 1:
            raise InputError(f"expected a power above 0 and at most 1, or none for uniform gaps, got {self.power}.")
        if self.vocab < 4 or not 1 <= self.pairs < self.vocab // 2 or 3 * self.pairs > self.length:
            raise InputError(
                f"expected 1 to vocab / 2 pairs and a length of at least three times as many, got {self.pairs} pairs, vocab {self.vocab} and"
                f" length {self.length}."
            )

    @property
    def vocab_size(self) -> int:
        """Tokens there are."""
        return self.vocab

    def chance(self, test: int) -> float:
        """One of the values that were shown."""
        return 1 / test

    @property
    def harder(self) -> str:
        """The pairs grow, and the length with them."""
        return "pairs"

    @property
    def tests(self) -> Mapping[int, bool]:
        """Half as many pairs, as many, and up to four times as many, as far as the vocabulary has keys."""
        counts = [max(self.pairs // 2, 1), self.pairs, 2 * self.pairs, 4 * self.pairs]
        return {count: count <= self.pairs for count in counts if count < self.vocab // 2}

    def batch(self, generator: torch.Generator, size: int, *, test: int | None = None) -> Batch:
        """Sequences of `pairs` pairs, or of as many as the test says."""
        pairs = self.pairs if test is None else test
        length = -(-self.length * pairs // self.pairs)
        return pairs_and_queries(generator, size, vocab=self.vocab, pairs=pairs, length=length, power=self.power)


@final
@dataclass(frozen=True, kw_only=True)
class Capacity(Task):
    """How many pairs a memory holds: 1 to `pairs` of them to train on, tests of each number by itself; every key is asked once, in any order.

    Args:
        vocab: tokens; the lower half are keys, the upper half values.
        pairs: the most pairs.

    Raises:
        InputError: more pairs than keys.
    """

    alias = "capacity"

    vocab: int = 256
    pairs: int = 64

    def __post_init__(self) -> None:
        """Check the settings."""
        if not 4 <= self.pairs < self.vocab // 2:
            raise InputError(f"expected 4 to vocab / 2 pairs, got {self.pairs} of vocab {self.vocab}.")

    @property
    def vocab_size(self) -> int:
        """Tokens there are."""
        return self.vocab

    def chance(self, test: int) -> float:
        """One of the values that were shown."""
        return 1 / test

    @property
    def harder(self) -> str:
        """The pairs grow."""
        return "pairs"

    @property
    def tests(self) -> Mapping[int, bool]:
        """Every power of two from 4 up."""
        return {2**power: True for power in range(2, self.pairs.bit_length()) if 2**power <= self.pairs}

    def batch(self, generator: torch.Generator, size: int, *, test: int | None = None) -> Batch:
        """Sequences of one number of pairs."""
        pairs = int(torch.randint(1, self.pairs + 1, (1,), generator=generator)) if test is None else test
        return pairs_and_queries(generator, size, vocab=self.vocab, pairs=pairs, length=3 * pairs)


def pairs_and_queries(generator: torch.Generator, size: int, *, vocab: int, pairs: int, length: int, power: float | None = None) -> Batch:
    """Pairs, then every key once more at a random place, where its value is asked; the rest is random tokens.

    With a power the places are drawn by weight; None draws exactly what was drawn before there were weights.
    """
    half = vocab // 2
    keys = torch.rand(size, half - 1, generator=generator).argsort(1)[:, :pairs] + 1
    values = torch.randint(half, vocab, (size, pairs), generator=generator)
    ids = torch.randint(1, vocab, (size, length), generator=generator)
    ids[:, : 2 * pairs] = torch.stack([keys, values], 2).flatten(1)
    free = length - 2 * pairs
    if power is None:
        order = torch.rand(size, free, generator=generator)
    else:
        # The first of exponential waiting times whose rates are the weights is a draw by weight; the next is one from what is left.
        gaps = torch.arange(1, free + 1, dtype=torch.float64)
        order = -torch.rand(size, free, generator=generator, dtype=torch.float64).log() / (power * gaps ** (power - 1))
    places = 2 * pairs + order.argsort(1)[:, :pairs]
    targets = torch.full_like(ids, IGNORE)
    return Batch(ids=ids.scatter_(1, places, keys), targets=targets.scatter_(1, places, values))
