"""Group bootstrap draws: how often each group appears in each resample.

Rows of one group (the same city, question or document) are not independent, so whole groups are drawn with replacement
(Field and Welsh 2007). A resample is then nothing but a count for each group, and every statistic here works on counts.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from transect.errors import InputError
from transect.measure._inputs import Floats, Ints, as_groups

MOST_UNITS = 10_000
"""More groups than this are dealt at random into so many bundles, which are drawn instead: a coarser clustering, valid all the same."""

_CHUNK_BYTES = 128 * 2**20
_DRAWS_AT_ONCE = 16  # so that the draws and their counts stay in the processor's cache


def units(groups: Any, *, n: int, seed: int = 0) -> tuple[Ints, int, int]:
    """What is drawn: the unit of each row ``[n]``, the number of units, and the number of groups behind them."""
    codes, n_groups = as_groups(groups, n=n)
    if n_groups <= MOST_UNITS:
        return codes, n_groups, n_groups
    dealt = np.random.default_rng([seed, 1]).permutation(n_groups) % MOST_UNITS
    return dealt[codes], MOST_UNITS, n_groups


def resample_counts(n_units: int, *, resamples: int, seed: int = 0) -> Iterator[Floats]:
    """Chunks ``[n_units, b]`` of counts, whose columns are the resamples; every column sums to ``n_units``.

    Memory stays bounded: at most 128 MiB a chunk. The draws depend on the seed only, not on the chunks.

    Raises:
        InputError: no resamples asked for.

    Examples:
        >>> chunks = list(resample_counts(3, resamples=5, seed=0))
        >>> chunks[0].sum(axis=0).tolist()
        [3.0, 3.0, 3.0, 3.0, 3.0]
    """
    if resamples < 1:
        raise InputError(f"resamples must be at least 1, got {resamples}; 2000 is usual.")
    rng = np.random.default_rng(seed)
    width = max(1, min(resamples, _CHUNK_BYTES // (8 * n_units)))
    for start in range(0, resamples, width):
        counts = np.empty((n_units, min(width, resamples - start)))
        for first in range(0, counts.shape[1], _DRAWS_AT_ONCE):
            part = counts[:, first : first + _DRAWS_AT_ONCE]
            drawn = rng.integers(0, n_units, (part.shape[1], n_units))
            drawn += np.arange(part.shape[1])[:, None] * n_units
            part[:] = np.bincount(drawn.ravel(), minlength=part.size).reshape(part.shape[::-1]).T
        yield counts
