"""A `MixerCache` as transformers' `generate` handles caches."""

from typing import Any, final

import torch
from transformers.cache_utils import Cache

from transect.errors import InputError
from transect.mixers.layers import MixerCache


@final
class StackCache(Cache):
    """What a stack remembers between calls of its `forward`.

    Examples:
        >>> StackCache().get_seq_length()
        0
    """

    def __init__(self) -> None:
        super().__init__(layers=[])
        self.memory = MixerCache()
        """What the layers left."""
        self.length = 0
        """Columns of the inputs so far, padding among them."""

    def get_seq_length(self, layer_idx: int = 0) -> int:  # noqa: ARG002 - transformers asks layer by layer
        """How many columns of inputs were read, padding among them."""
        return self.length

    @property
    def is_compileable(self) -> bool:
        """Whether `generate` may compile the model with it."""
        return False

    def reorder_cache(self, beam_idx: torch.Tensor) -> None:
        """Let row i go on from what row ``beam_idx[i]`` remembers."""
        self.memory.reorder(beam_idx)

    def batch_select_indices(self, indices: torch.Tensor) -> None:
        """Keep these rows only."""
        self.memory.reorder(indices)

    def batch_repeat_interleave(self, repeats: int) -> None:
        """Each row so many times."""
        if self.memory.sequences is not None:
            self.memory.reorder(torch.arange(self.memory.sequences).repeat_interleave(repeats))

    def reset(self) -> None:
        """Forget everything."""
        self.memory.restore(MixerCache())
        self.length = 0

    def crop(self, *args: Any, **settings: Any) -> None:  # noqa: ARG002 - refused whatever is asked
        """Refused: a recurrent state cannot forget its last tokens.

        Raises:
            InputError: always; it says what to do.
        """
        raise InputError(
            "a recurrent state cannot be cut back by so many tokens. Take `cache.memory.snapshot()` before them, and `restore` it."
        )
