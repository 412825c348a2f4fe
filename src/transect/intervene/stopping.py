"""Ending rows of a generation from outside: what `generate` takes as a stopping criterion."""

from collections.abc import Callable
from typing import Any

import torch


class StopOnAlarm:
    """A stopping criterion for `generate`: ends the rows in which an alarm was raised.

    Args:
        stopped: from the tokens so far ``[B, T]`` to the rows that shall end, ``[B]`` bool, on the same device.
    """

    def __init__(self, stopped: Callable[[torch.Tensor], torch.Tensor]) -> None:
        self._stopped = stopped

    def __call__(self, input_ids: torch.Tensor, scores: Any, **_options: Any) -> torch.Tensor:
        """Asked by `generate` after every token; what else it passes is not needed."""
        del scores
        return self._stopped(input_ids)
