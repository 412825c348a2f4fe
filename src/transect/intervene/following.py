"""One run being followed: where each pass's tokens lie among the columns of ``sequences``, and their scores so far."""

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any, Literal

import torch

from transect.errors import InputError, ModelError
from transect.intervene.loop import Loop
from transect.intervene.placed import Group
from transect.intervene.records import Alarm, Run


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Pass:
    """The tokens that one forward pass adds to its run."""

    ids: torch.Tensor
    """``[B, t]``: the new tokens."""
    start: int
    """Their first column."""
    skip: int
    """How many columns of the pass were scored before; more than 0 without a KV cache, where every pass reads everything."""
    find_mask: Callable[[], torch.Tensor]
    """Makes the mask; most passes are never asked for it."""

    @functools.cached_property
    def mask(self) -> torch.Tensor:
        """``[B, t]`` bool: tokens of the text."""
        return self.find_mask()


class Following:
    """A run from its first pass on.

    Args:
        number: of the run, from 0.
        groups: the probes.
        ids: ``[B, t]`` of the first pass.
        loop: the loop of `generate`; None for a plain forward pass.
        past: how many tokens a cache holds already that the caller gave.
    """

    def __init__(self, *, number: int, groups: Sequence[Group], ids: torch.Tensor, loop: Loop | None, past: int) -> None:
        self.number = number
        self.kind: Literal["generate", "forward"] = "forward" if loop is None else "generate"
        self.key = None if loop is None else loop.key
        self.rows = ids.shape[0]
        # A cache given by the caller holds the first columns, unless only what is new was given as the prompt.
        self.first = past if loop is None or past + ids.shape[1] <= loop.length else 0
        self.cursor = self.first
        self.prompt_length = self.first + ids.shape[1] if loop is None else loop.length
        self.consulted = 0
        """How often the stopping criterion was asked in this run."""
        self.sequences: torch.Tensor | None = None
        """``[B, T]`` as the stopping criterion saw them last."""
        self.alarms: list[Alarm] = []
        self.sums: torch.Tensor | None = None
        self.counts: torch.Tensor | None = None
        self.crossed: torch.Tensor | None = None
        self.last_scores: dict[int, torch.Tensor] = {}
        """Site number -> ``[B, K]`` of the last column, where a clean pass read it."""
        self._groups = groups
        self._ids: list[torch.Tensor] = []
        self._scores: list[list[torch.Tensor]] = [[] for _ in groups]
        self._unfinished: list[torch.Tensor] = []
        self._prompt_mask: torch.Tensor | None = None

    def goes_on(self, ids: torch.Tensor, loop: Loop | None, past: int) -> bool:
        """Whether a pass belongs to this run."""
        if loop is not None:
            return self.key is loop.key
        return self.kind == "forward" and past > 0 and past == self.cursor and ids.shape[0] == self.rows

    def begin(self, ids: torch.Tensor, mask: torch.Tensor | None, loop: Loop | None) -> Pass:
        """Place the tokens of a pass that is about to run.

        Raises:
            ModelError: the pass has more or fewer tokens than the loop says.
        """
        again = loop is not None and self.cursor > self.first and ids.shape[1] == loop.length > self.cursor
        skip = self.cursor if again else 0
        start, count = self.cursor, ids.shape[1] - skip
        stop = start + count
        if loop is not None and stop > loop.length:
            raise ModelError(
                f"a pass of generate has {ids.shape[1]} tokens where {loop.length - start} were expected (columns {start} to {loop.length}), so "
                f"scores cannot be placed. Does something else call the model inside generate?"
            )
        if loop is None:
            self.prompt_length = stop
        if not self._unfinished:
            self._prompt_mask = mask if mask is not None else self._prompt_mask
        if self._unfinished and start >= self.prompt_length:
            before = self._unfinished[-1]

            def find_mask() -> torch.Tensor:
                return before[:, None].expand(-1, count) > 0
        else:

            def find_mask() -> torch.Tensor:
                return self._prompt(ids.device)[:, start:stop]

        if loop is not None and stop == loop.length:
            self._unfinished.append(loop.unfinished)
        return Pass(ids=ids[:, skip:] if skip else ids, start=start, skip=skip, find_mask=find_mask)

    def _prompt(self, device: torch.device) -> torch.Tensor:
        """``[B, prompt_length]`` bool; chunks of a prompt bring their mask piece by piece."""
        whole = torch.ones(self.rows, self.prompt_length, dtype=torch.bool, device=device)
        if self._prompt_mask is not None:
            given = self._prompt_mask.to(device) > 0
            # A mask may reach back over what a given cache holds.
            given = given[:, -self.prompt_length :] if given.shape[1] > self.prompt_length else given
            whole[:, : given.shape[1]] = given
        return whole

    def add(self, new: Pass, scores: Sequence[torch.Tensor]) -> None:
        """Keep what a pass gave, ``[B, t, K]`` per site."""
        self._ids.append(new.ids)
        for kept, value in zip(self._scores, scores, strict=True):
            kept.append(value)
        self.cursor = new.start + new.ids.shape[1]

    def kept(self) -> tuple[torch.Tensor, list[torch.Tensor]]:
        """The mask ``[B, n]`` of the columns that were read, from the first on, and their scores ``[B, n, K]`` per site."""
        if not self._ids:
            return torch.zeros(self.rows, 0, dtype=torch.bool), [torch.zeros(self.rows, 0, 1) for _ in self._groups]
        mask = self.record().mask[:, self.first : self.cursor]
        return mask, [torch.cat(pieces, dim=1)[:, : mask.shape[1]] for pieces in self._scores]

    def record(self) -> Run:
        """Everything so far.

        Raises:
            InputError: nothing was scored.
        """
        if not self._ids:
            raise InputError(f"run {self.number} ended before its first forward pass was through, so it has no scores.")
        read = torch.cat(self._ids, dim=1)
        mask = self._prompt(read.device)
        if self.kind == "generate":
            mask = torch.cat([mask, torch.stack(self._unfinished, dim=1) > 0], dim=1) if self._unfinished else mask
            # Some devices run one pass more than is needed and take its token back: a column after every row's end.
            while mask.shape[1] > self.prompt_length and not bool(mask[:, -1].any()):
                mask = mask[:, :-1]
        total = mask.shape[1]
        ids = torch.full((self.rows, total), -1, dtype=torch.int64, device=read.device)
        stop = min(self.cursor, total)
        ids[:, self.first : stop] = read[:, : stop - self.first]
        if self.sequences is not None and self.sequences.shape[1] >= total:
            ids = self.sequences[:, :total].clone()
        scored = torch.zeros_like(mask)
        scored[:, self.first : stop] = mask[:, self.first : stop]
        if self.last_scores:
            scored[:, -1] = mask[:, -1]
        scores: dict[str, torch.Tensor] = {}
        for index, group in enumerate(self._groups):
            whole = self._whole(index, total, stop, scored)
            scores |= {name: whole[..., columns] for name, columns in group.columns.items()}
        return Run(
            kind=self.kind,
            ids=ids,
            scores=scores,
            mask=mask,
            prompt_length=self.prompt_length,
            scored=scored,
            alarms=tuple(self.alarms),
        )

    def _whole(self, index: int, total: int, stop: int, scored: torch.Tensor) -> torch.Tensor:
        """``[B, T, K]`` of one site."""
        found = torch.cat(self._scores[index], dim=1)
        whole = torch.full((self.rows, total, found.shape[2]), torch.nan, dtype=found.dtype, device=found.device)
        whole[:, self.first : stop] = found[:, : stop - self.first]
        if index in self.last_scores:
            whole[:, -1] = torch.where(scored[:, -1:] & (stop < total), self.last_scores[index].to(whole), whole[:, -1])
        return whole.masked_fill(~scored.to(found.device)[..., None], torch.nan)

    def unread_last(self) -> list[tuple[int, list[int]]]:
        """Rows whose last token was sampled and never read, each with its whole unpadded text."""
        run = self.record()
        if self.sequences is None or run.mask.shape[1] == self.cursor:
            return []
        return [(row, self.sequences[row][run.mask[row]].tolist()) for row in torch.nonzero(run.mask[:, -1]).flatten().tolist()]


def cached_tokens(kwargs: dict[str, Any]) -> int:
    """How many tokens the cache of a pass holds; recurrent states do not say and count as empty."""
    for name in ("cache", "past_key_values"):
        cache: Any = kwargs.get(name)
        if hasattr(cache, "get_seq_length"):
            try:
                return int(cache.get_seq_length())
            except (ValueError, TypeError):
                return 0
    return 0
