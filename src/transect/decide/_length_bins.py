"""Ranges of sequence length for `transect.decide.sequence_thresholds`, and how many sequences each needs."""

import math

import numpy as np

from transect.decide.thresholds import needed_examples, order_statistic
from transect.errors import SampleSizeError
from transect.measure._inputs import Ints

MOST_BINS = 8


def divide(lengths: Ints, codes: Ints, *, bins: int | None, fpr: float, confidence: float) -> Ints:
    """The bin ``[n]`` of each sequence, by its length alone; as many bins as can be certified, or as many as were asked for.

    Raises:
        SampleSizeError: some bin has too few sequences or groups; says how many are needed.
    """
    for wanted in range(MOST_BINS, 1, -1) if bins is None else ():
        placed = _by_length(lengths, wanted)
        if _fewest(placed, codes) >= needed(rate=fpr, miss=(1 - confidence) / (placed.max() + 1)):
            return placed
    placed = _by_length(lengths, bins or 1)
    n_bins, fewest, n_units = int(placed.max()) + 1, _fewest(placed, codes), len(np.unique(codes))
    enough = needed(rate=fpr, miss=(1 - confidence) / n_bins)
    if fewest >= enough:
        return placed
    spread = "" if n_bins == 1 else f" in each of {n_bins} ranges of length ({n_bins * enough} in all), and the smallest has {fewest}"
    raise SampleSizeError(
        f"a false-positive rate of {fpr:g} per sequence at confidence {confidence:g} needs at least {enough} independent sequences or "
        f"groups{spread}; got {n_units}. Give more, ask for fewer bins, a larger rate or a smaller confidence.",
        needed=n_bins * enough,
        got=n_units,
    )


def _by_length(lengths: Ints, bins: int) -> Ints:
    """Bins ``[n]`` of about equal count; sequences of one length share one, so there may be fewer."""
    edges = np.quantile(lengths, np.arange(1, bins) / bins, method="inverted_cdf") if bins > 1 else np.empty(0)
    _, placed = np.unique(np.searchsorted(np.unique(edges), lengths, side="left"), return_inverse=True)
    return placed.astype(np.int64)


def _fewest(placed: Ints, codes: Ints) -> int:
    return min(len(np.unique(codes[placed == at])) for at in range(int(placed.max()) + 1))


def needed(*, rate: float, miss: float) -> int:
    """The fewest independent sequences that a bin needs."""
    return max(needed_examples(rate, confidence=1 - miss), math.ceil(1 / rate - 1e-9))


def rank(n: int, *, rate: float, miss: float) -> int:
    """The k of the proof: the binomial tail is small enough, and k is far enough from the mean for Hoeffding's theorem."""
    return max(order_statistic(n, rate=rate, confidence=1 - miss), math.ceil(n * (1 - rate) + 1 - 1e-9))
