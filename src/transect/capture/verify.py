"""Running a sample again, one example at a time and without any padding: what batching changed."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from transect.capture.examples import Examples
from transect.capture.layout import Shard
from transect.capture.passes import Passes
from transect.capture.plan import Batch
from transect.capture.rows import targets_of


def verify_sample(
    passes: Passes,
    examples: Examples,
    begins: np.ndarray,
    shards: Sequence[Shard],
    get: Callable[[int, np.ndarray], torch.Tensor],
    *,
    n: int,
) -> dict[str, Any]:
    """Compare a sample, always the same, with what was kept.

    Args:
        passes: surveyed.
        examples: what was run.
        begins: where each example's rows begin.
        shards: the sites.
        get: from the site's number and row numbers to the kept rows.
        n: how many examples.

    Returns:
        ``n``; ``largest_difference`` (absolute, over all sites) with the ``site`` and ``row`` where it is; and
        ``relative_difference``, the largest difference at a site divided by the largest activation there.
    """
    sample = np.sort(np.random.default_rng(0).choice(len(examples), size=min(n, len(examples)), replace=False))
    largest = dict.fromkeys((shard.site for shard in shards), (0.0, 0.0, 0))
    for row in sample.tolist():
        targets = targets_of(begins, np.array([row]))
        alone = passes.run(Batch(rows=np.array([row]), length=int(examples.lengths[row])))
        for index, shard in enumerate(shards):
            value, kept = alone[index].to(shard.dtype).double(), get(index, targets).double()
            difference, scale, worst = largest[shard.site]
            here = float((value - kept).abs().max())
            largest[shard.site] = (max(difference, here), max(scale, float(value.abs().max())), row if here > difference else worst)
    site, (difference, _, row) = max(largest.items(), key=lambda item: item[1][0])
    relative = max(difference / scale if scale else 0.0 for difference, scale, _ in largest.values())
    return {"n": len(sample), "largest_difference": difference, "relative_difference": relative, "site": site, "row": row}
