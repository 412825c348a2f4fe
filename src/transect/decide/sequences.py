"""Statistics of the token scores of a sequence: the largest, the mean, the largest rolling mean, the mean of the k largest.

Two forms of the same number. Offline: ragged arrays, all token scores in a row and the length of each sequence. Running: one token at
a time, constant memory, each value being the statistic of the tokens so far. The **peak** is the largest of these values over a
sequence, which is what an alarm that goes off at the first crossing sees; it never falls as a sequence goes on.

A mean of fewer tokens than were asked for is on another scale: on noise the mean of one token spreads sqrt(size) times as far as that of
`size`, so a peak over all prefixes would be a first token more often than a window, its threshold would be too high for every window,
and its alarms would go off at the first tokens. So the peak is taken from the **warm-up** on: from the first token at which `rolling` has
a full window and `top` as many tokens as it takes the mean of. A sequence that ends before is not watched, and never fires.
"""

import collections
import dataclasses
import heapq
import math
from typing import Any, Literal, get_args

import numpy as np

from transect.errors import InputError
from transect.measure._inputs import Floats, Ints, as_classes, as_floats

StatisticName = Literal["max", "mean", "rolling", "top"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class SequenceStatistic:
    """A statistic of the token scores of a sequence.

    Args:
        name: ``max``; ``mean``; ``rolling``: the largest mean of ``size`` tokens in a row; ``top``: the mean of the ``size`` largest.
            Of a sequence shorter than ``size``, ``rolling`` and ``top`` are the mean.
        size: the window of ``rolling``, the number of tokens of ``top``; 1 for the others.
        warm_up: tokens, this one included, before the peak looks at the statistic. None takes ``size``, which is 1 for ``max`` and
            ``mean``. A larger one suits ``mean``, whose first values are those of single tokens; ``max`` has none, as it needs none.

    Raises:
        InputError: an unknown name, or a size or a warm-up that makes no sense.

    Examples:
        >>> statistic = SequenceStatistic(name="rolling", size=2)
        >>> statistic.of([0.0, 2.0, 4.0, 1.0, 9.0], [3, 2]).tolist()
        [3.0, 5.0]
        >>> statistic.running([0.0, 2.0, 4.0], [3]).tolist()
        [0.0, 1.0, 3.0]
        >>> statistic.peak([9.0, 2.0, 4.0, 9.0], [3, 1]).tolist()
        [5.5, -inf]
    """

    name: StatisticName = "max"
    size: int = 1
    warm_up: int | None = None

    def __post_init__(self) -> None:
        if self.name not in get_args(StatisticName):
            raise InputError(f"the statistic must be one of {get_args(StatisticName)}, got {self.name!r}.")
        if self.size < 1 or (self.size != 1 and self.name in ("max", "mean")):
            raise InputError(f"size counts tokens of 'rolling' and 'top' and is 1 for the others, got {self.size} for {self.name!r}.")
        if self.watched_from < 1 or (self.watched_from > 1 and self.name == "max"):
            raise InputError(f"warm_up counts tokens, at least 1, and 'max' takes no more, got {self.warm_up} for {self.name!r}.")

    @property
    def watched_from(self) -> int:
        """The number of tokens from which on the peak looks at the statistic: `warm_up`, or what stands for it."""
        return self.size if self.warm_up is None else self.warm_up

    def of(self, scores: Any, lengths: Any) -> Floats:
        """The statistic ``[n]`` of whole sequences.

        Args:
            scores: ``[sum of lengths]``, the token scores of all sequences in a row.
            lengths: ``[n]``, tokens in each.

        Raises:
            InputError: NaN (the row is named), an empty sequence, or lengths that do not add up.
        """
        values, counts = ragged(scores, lengths)
        return self.running(values, counts)[np.cumsum(counts) - 1]

    def running(self, scores: Any, lengths: Any) -> Floats:
        """The statistic ``[sum of lengths]`` of every prefix: what the running form says after each token."""
        values, counts = ragged(scores, lengths)
        return np.concatenate([self._prefixes(part) for part in np.split(values, np.cumsum(counts)[:-1])])

    def peak(self, scores: Any, lengths: Any) -> Floats:
        """The largest value ``[n]`` that the running form takes over each sequence from the warm-up on; at least the statistic of the whole.

        Minus infinity for a sequence that ends before the warm-up does.
        """
        values, counts = ragged(scores, lengths)
        every = values if self.name == "max" else self.running(values, counts)
        starts = np.cumsum(counts) - counts
        early = np.arange(len(values)) - np.repeat(starts, counts) < self.watched_from - 1
        return np.maximum.reduceat(np.where(early, -np.inf, every), starts)

    def start(self) -> "RunningStatistic":
        """The running form, before the first token."""
        return RunningStatistic(self)

    def __str__(self) -> str:
        names = {"max": "max", "mean": "mean", "rolling": f"rolling mean of {self.size}", "top": f"mean of the top {self.size}"}
        return names[self.name] + ("" if self.warm_up in (None, self.size) else f" from {self.warm_up} tokens on")

    def _prefixes(self, scores: Floats) -> Floats:
        if self.name == "max":
            return np.maximum.accumulate(scores)
        so_far = np.cumsum(scores) / np.arange(1, len(scores) + 1)
        if self.name == "mean" or len(scores) < self.size:
            return so_far
        if self.name == "rolling":
            windows = np.lib.stride_tricks.sliding_window_view(scores, self.size).sum(axis=1) / self.size
            return np.concatenate([so_far[: self.size - 1], np.maximum.accumulate(windows)])
        step = self.start()
        return np.array([step.update(score) for score in scores.tolist()])


class RunningStatistic:
    """A sequence statistic, one token at a time; it keeps at most ``size`` scores.

    Args:
        statistic: which.

    Examples:
        >>> step = SequenceStatistic(name="top", size=2).start()
        >>> [step.update(score) for score in (1.0, 5.0, 3.0)]
        [1.0, 3.0, 4.0]
    """

    def __init__(self, statistic: SequenceStatistic) -> None:
        self.statistic = statistic
        self.n = 0
        self._total = 0.0
        self._best = -math.inf
        self._kept: collections.deque[float] = collections.deque(maxlen=statistic.size)
        self._top: list[float] = []

    @property
    def warm(self) -> bool:
        """Whether the warm-up is over, so that the value of the last token counts."""
        return self.n >= self.statistic.watched_from

    def update(self, score: float) -> float:
        """The statistic of the tokens so far, this one included.

        Raises:
            InputError: the score is NaN or infinite; nothing is taken in.
        """
        value = float(score)
        if not math.isfinite(value):
            raise InputError(f"the score of token {self.n} is {value}, expected a finite number.")
        self.n += 1
        self._total += value
        name, size = self.statistic.name, self.statistic.size
        if name == "max":
            self._best = max(self._best, value)
            return self._best
        if name == "rolling":
            self._kept.append(value)
            if self.n >= size:
                self._best = max(self._best, sum(self._kept) / size)
                return self._best
        if name == "top":
            if len(self._top) < size:
                heapq.heappush(self._top, value)
            else:
                heapq.heappushpop(self._top, value)
            if self.n >= size:
                return sum(self._top) / size
        return self._total / self.n


def ragged(scores: Any, lengths: Any) -> tuple[Floats, Ints]:
    """Checked token scores and lengths.

    Raises:
        InputError: NaN (the row is named), an empty sequence, or lengths that do not add up to the number of scores.
    """
    values = as_floats(scores, name="scores")
    counts = as_classes(lengths, n=len(lengths), name="lengths")
    if (counts == 0).any():
        raise InputError(f"every sequence needs at least one token, but sequence {int(np.flatnonzero(counts == 0)[0])} has none.")
    if counts.sum() != len(values):
        raise InputError(f"the lengths add up to {int(counts.sum())} tokens, but there are {len(values)} scores.")
    return values, counts
