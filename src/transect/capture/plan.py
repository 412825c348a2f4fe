"""Which examples run together: batches of like lengths, filled to a budget of tokens.

Sorted by length, examples of one length need no padding at all. A batch may go on into the next shorter length only
while its padding costs less than starting another batch would. The plan depends on the lengths and the settings
alone, so a capture that was interrupted finds the same batches again, and with them the same bits.
"""

import dataclasses

import numpy as np

from transect.errors import InputError


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Batch:
    """Examples that run together."""

    rows: np.ndarray
    """``[b]`` int64: which examples."""
    length: int
    """Tokens of the longest of them; the others are padded to it on the right."""


def plan_batches(lengths: np.ndarray, *, budget: int, patience: int) -> tuple[Batch, ...]:
    """Batches that cover every example once, longest first, so that memory peaks at once and not after hours.

    Args:
        lengths: ``[n]`` tokens per example.
        budget: the most tokens in a batch, padding included; a longer example runs alone.
        patience: the most padding tokens in a batch; 0 puts equal lengths only in one batch.

    Raises:
        InputError: the budget is below 1.

    Examples:
        >>> [(batch.length, batch.rows.tolist()) for batch in plan_batches(np.array([2, 5, 2, 4]), budget=8, patience=0)]
        [(5, [1]), (4, [3]), (2, [0, 2])]
        >>> [(batch.length, batch.rows.tolist()) for batch in plan_batches(np.array([2, 5, 2, 4]), budget=10, patience=2)]
        [(5, [1, 3]), (2, [0, 2])]
    """
    if budget < 1:
        raise InputError(f"a batch needs a budget of at least 1 token, got batch_tokens={budget}.")
    order = np.argsort(-lengths, kind="stable")
    sorted_lengths = lengths[order].tolist()
    starts, longest, padding = [0], sorted_lengths[0], 0
    for at, length in enumerate(sorted_lengths):
        padding += longest - length
        if at > starts[-1] and (padding > patience or longest * (at - starts[-1] + 1) > budget):
            starts.append(at)
            longest, padding = length, 0
    stops = [*starts[1:], len(order)]
    return tuple(Batch(rows=order[start:stop], length=sorted_lengths[start]) for start, stop in zip(starts, stops, strict=True))


def padding_share(lengths: np.ndarray, batches: tuple[Batch, ...]) -> float:
    """The share of computed tokens that are padding."""
    computed = sum(batch.length * len(batch.rows) for batch in batches)
    return 1 - float(lengths.sum()) / computed
