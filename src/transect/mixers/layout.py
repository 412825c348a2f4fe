"""Where the chunks of the sequences lie: step after step, and within a step the sequences that still run, the longest first.

A recurrence over chunks then works on a prefix of its states at every step, whatever the lengths are, and sequences never share a
chunk: what one of them holds (a NaN, say) cannot reach another.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import final

import torch
from torch.nn import functional


@final
@dataclass(frozen=True, kw_only=True)
class Layout:
    """The chunks of a batch, or of the sequences packed into one row.

    Args:
        batch: sequences side by side.
        tokens: T.
        chunk: tokens in a chunk; the last chunk of a sequence is filled up with zeros.
        bounds: where the packed sequences begin, and T; None for a batch of equal lengths.
    """

    batch: int
    tokens: int
    chunk: int
    bounds: tuple[int, ...] | None = None

    @cached_property
    def order(self) -> list[int]:
        """The sequences, the longest first."""
        if self.bounds is None:
            return list(range(self.batch))
        ends = self.bounds[1:]
        return sorted(range(len(ends)), key=lambda index: self.bounds[index] - ends[index] if self.bounds else 0)

    @cached_property
    def active(self) -> list[int]:
        """At each step, how many sequences still have a chunk."""
        if self.bounds is None:
            return [self.batch] * -(-self.tokens // self.chunk)
        lengths = [self.bounds[index + 1] - self.bounds[index] for index in self.order]
        steps = [-(-length // self.chunk) for length in lengths]
        found = [0] * (steps[0] if steps else 0)
        for count in steps:
            for step in range(count):
                found[step] += 1
        return found

    def spans(self, most: int) -> list[range]:
        """The steps in groups of at most so many chunks, or one step where a step has more."""
        found: list[range] = []
        start = held = 0
        for step, count in enumerate(self.active):
            if step > start and held + count > most:
                found.append(range(start, step))
                start, held = step, 0
            held += count
        if self.active:
            found.append(range(start, len(self.active)))
        return found

    def read(self, x: torch.Tensor, span: range) -> torch.Tensor:
        """The chunks of a span of ``[B, T, H, D]``, as ``[steps, sequences, H, chunk, D]`` or, packed, ``[chunks, 1, H, chunk, D]``."""
        if self.bounds is None:
            part = x[:, span.start * self.chunk : span.stop * self.chunk]
            missing = len(span) * self.chunk - part.shape[1]
            if missing:
                part = functional.pad(part, (0, 0, 0, 0, 0, missing))
            return part.unflatten(1, (len(span), self.chunk)).permute(1, 0, 3, 2, 4)
        places, real = self._places(span)
        rows = x[0].index_select(0, places.flatten()).masked_fill_(~real.flatten()[:, None, None], 0)
        return rows.unflatten(0, places.shape).transpose(1, 2)[:, None]

    def write(self, out: torch.Tensor, span: range, tile: torch.Tensor) -> None:
        """Put chunks ``[chunks * H, chunk, D]`` of a span where `read` found them, dropping what filled them up."""
        heads = out.shape[2]
        if self.bounds is None:
            rows = tile.unflatten(0, (len(span), self.batch, heads)).permute(1, 0, 3, 2, 4)
            start, stop = span.start * self.chunk, min(span.stop * self.chunk, self.tokens)
            whole = (stop - start) // self.chunk
            out[:, start : start + whole * self.chunk].unflatten(1, (whole, self.chunk)).copy_(rows[:, :whole])
            if stop - start > whole * self.chunk:
                out[:, start + whole * self.chunk : stop].copy_(rows[:, whole, : stop - start - whole * self.chunk])
            return
        places, real = self._places(span)
        out[0].index_copy_(0, places[real], tile.unflatten(0, (-1, heads)).transpose(1, 2)[real])

    def _places(self, span: range) -> tuple[torch.Tensor, torch.Tensor]:
        """For each chunk of the span, ``[chunks, chunk]``: the places of its tokens, and which are not filling."""
        bounds = self.bounds or ()
        starts = [bounds[index] + step * self.chunk for step in span for index in self.order[: self.active[step]]]
        ends = [bounds[index + 1] for step in span for index in self.order[: self.active[step]]]
        places = torch.tensor(starts)[:, None] + torch.arange(self.chunk)
        real = places < torch.tensor(ends)[:, None]
        return torch.where(real, places, 0), real
