"""Where captured rows go: this file says what a place for them must do, and has the one in memory."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import torch

from transect.capture.activations import Activations
from transect.capture.layout import Shard

if TYPE_CHECKING:
    import pyarrow as pa


class Sink(Protocol):
    """Takes the rows of one batch after another."""

    def has(self, batch: int, targets: np.ndarray) -> bool:
        """Whether this batch is in already."""
        ...

    def put(self, batch: int, targets: np.ndarray, values: Sequence[torch.Tensor]) -> None:
        """Keep a batch's rows, ``[b, d]`` per site, at these places ``[b]``."""
        ...

    def get(self, site: int, targets: np.ndarray) -> torch.Tensor:
        """Rows that were put, ``[b, d]``."""
        ...

    def finish(self, provenance: Mapping[str, Any]) -> Activations:
        """Everything is in."""
        ...

    def close(self) -> None:
        """Let go, finished or not."""
        ...


class MemorySink:
    """Rows in memory, one tensor ``[n, d]`` per site."""

    def __init__(self, shards: Sequence[Shard], rows: "pa.Table") -> None:
        self._rows = rows
        self._tensors = {shard.site: torch.empty(shard.n_rows, shard.width, dtype=shard.dtype) for shard in shards}

    def has(self, batch: int, targets: np.ndarray) -> bool:
        """Never: every capture into memory starts anew."""
        del batch, targets
        return False

    def put(self, batch: int, targets: np.ndarray, values: Sequence[torch.Tensor]) -> None:
        """Copy the rows to their places."""
        del batch
        index = torch.from_numpy(targets)
        for tensor, value in zip(self._tensors.values(), values, strict=True):
            tensor[index] = value

    def get(self, site: int, targets: np.ndarray) -> torch.Tensor:
        """Copy rows out."""
        return list(self._tensors.values())[site][torch.from_numpy(targets)]

    def finish(self, provenance: Mapping[str, Any]) -> Activations:
        """The activations, in memory."""
        return Activations(tensors=self._tensors, rows=self._rows, provenance=provenance)

    def close(self) -> None:
        """Nothing to let go of."""
