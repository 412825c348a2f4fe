"""What layers remember between calls: recurrent states, the last inputs of short convolutions, and whatever else they go on from."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import final

import torch

from transect.errors import InputError, MismatchError


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class LayerState:
    """What one layer remembers; its tensors are never written to.

    Args:
        kind: the class of the layer.
        parts: what it goes on from, by name, each ``[N, ...]``: ``state [N, H, K, V]``, ``conv [N, conv_size - 1, channels]`` and so on.
        seen: ``[N]``, how many tokens each sequence had.
    """

    kind: str
    parts: Mapping[str, torch.Tensor]
    seen: torch.Tensor


@final
@dataclass(eq=False)
class MixerCache:
    """The memory of a stack of layers, filled and replaced by `layer(x, cache=cache)`; its size does not grow with the text.

    Examples:
        >>> cache = MixerCache()
        >>> len(cache)
        0
    """

    _held: dict[int, LayerState] = field(default_factory=dict, repr=False)

    def __len__(self) -> int:
        return len(self._held)

    @property
    def sequences(self) -> int | None:
        """How many sequences it remembers, or None before the first."""
        return next((len(held.seen) for held in self._held.values()), None)

    def numbers(self) -> int:
        """How many numbers it holds in all."""
        return sum(part.numel() for held in self._held.values() for part in held.parts.values())

    def get(self, layer_idx: int, *, kind: str, sequences: int) -> LayerState | None:
        """What a layer left here, or None.

        Raises:
            MismatchError: another kind of layer left it, or another number of sequences.
        """
        held = self._held.get(layer_idx)
        if held is None:
            return None
        if held.kind != kind:
            raise MismatchError(
                f"the cache holds a {held.kind} at layer_idx {layer_idx}, and a {kind} asks. Give each layer its own layer_idx."
            )
        if len(held.seen) != sequences:
            raise MismatchError(
                f"the cache holds {len(held.seen)} sequences, got {sequences}. Use `reorder` to choose among them, or a new cache."
            )
        return held

    def put(self, layer_idx: int, state: LayerState) -> None:
        """Replace what a layer left here."""
        self._held[layer_idx] = state

    def snapshot(self) -> "MixerCache":
        """A copy that later calls do not change; it costs nothing, as states are never written to.

        Examples:
            >>> cache = MixerCache()
            >>> len(cache.snapshot())
            0
        """
        return MixerCache(dict(self._held))

    def restore(self, snapshot: "MixerCache") -> None:
        """Go back to a snapshot, for instance after a rejected draft."""
        self._held = dict(snapshot._held)

    def reorder(self, rows: torch.Tensor) -> None:
        """Let sequence i go on from what sequence ``rows[i]`` remembers, as in beam search.

        Raises:
            InputError: a row that does not exist.
        """
        for layer_idx, held in self._held.items():
            count = len(held.seen)
            if rows.ndim != 1 or rows.is_floating_point() or (rows.numel() and not 0 <= int(rows.min()) <= int(rows.max()) < count):
                raise InputError(f"expected a vector of rows from 0 to {count - 1}, got {rows.tolist()}.")
            parts = {name: part[rows] for name, part in held.parts.items()}
            self._held[layer_idx] = LayerState(kind=held.kind, parts=parts, seen=held.seen[rows])
