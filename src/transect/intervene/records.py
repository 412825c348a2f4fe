"""What a monitor gives back: scores of one run, one step of it, and alarms."""

import dataclasses
from collections.abc import Mapping
from typing import Literal

import torch


@dataclasses.dataclass(frozen=True, kw_only=True)
class Alarm:
    """One probe crossed its threshold in one row, for the first time in that run."""

    probe: str
    """The probe's name."""
    run: int
    """Which call of `generate`, or which forward pass, inside the ``with`` block, from 0."""
    row: int
    """The row of the batch, from 0."""
    position: int
    """The column of ``sequences``, prompt and padding counted, from 0."""
    token_id: int
    """The token there."""
    score: float
    """The statistic that crossed."""
    threshold: float
    """What it is above."""


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Step:
    """The tokens of one forward pass and their scores."""

    run: int
    """Which run they belong to, from 0."""
    start: int
    """The column of ``sequences`` where they begin; a prompt has many columns, a generated token one."""
    ids: torch.Tensor
    """``[B, t]`` token ids."""
    mask: torch.Tensor
    """``[B, t]`` bool: False where a token is padding, or comes after the end of its row."""
    scores: Mapping[str, torch.Tensor]
    """Probe -> ``[B, t]`` (``[B, t, k]`` for more than two classes); meaningless where the mask is False."""


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Run:
    """The scores of one call of `generate`, or of one forward pass; ``B`` rows of ``T`` columns, aligned with ``sequences``."""

    kind: Literal["generate", "forward"]
    """What was called."""
    ids: torch.Tensor
    """``[B, T]`` int64: the tokens that the model read; -1 for the last generated one, which it never read."""
    scores: Mapping[str, torch.Tensor]
    """Probe -> ``[B, T]``, or ``[B, T, k]`` for more than two classes; NaN where the mask is False or nothing was read."""
    mask: torch.Tensor
    """``[B, T]`` bool: the tokens of the text; False for padding and after a row's end."""
    prompt_length: int
    """How many columns the prompt takes, padding included."""
    scored: torch.Tensor
    """``[B, T]`` bool: the tokens that have a score."""
    alarms: tuple[Alarm, ...] = ()
    """In the order in which they came."""

    @property
    def n_scored(self) -> int:
        """How many tokens have a score."""
        return int(self.scored.sum())

    @property
    def n_unscored(self) -> int:
        """How many tokens of the text have none: the last generated one of each row, and those read from a cache that was given."""
        return int((self.mask & ~self.scored).sum())
