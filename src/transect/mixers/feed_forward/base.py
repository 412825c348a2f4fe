"""What feed-forward layers share."""

from abc import ABC, abstractmethod

import torch
from torch import nn


class FeedForward(nn.Module, ABC):
    """A layer that works on each token by itself: ``[..., hidden_size]`` to the same."""

    alias: str
    """A short name, beside that of the class, for configurations."""

    @abstractmethod
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """``[..., hidden_size]`` to the same."""
