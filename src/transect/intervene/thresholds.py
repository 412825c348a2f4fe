"""Comparing scores with thresholds while they come in: a token fires where its score is above the threshold, as in `transect.decide`."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol

import torch

from transect.errors import InputError, near_matches
from transect.intervene.following import Following, Pass
from transect.intervene.placed import Group
from transect.intervene.records import Alarm
from transect.linear import Readout

Statistic = Literal["score", "mean"]
Where = Literal["generated", "all"]


class HasThreshold(Protocol):
    """What carries a threshold, such as a certificate of `transect.decide`."""

    @property
    def threshold(self) -> float:
        """In the units of the probe's scores."""
        ...


Threshold = float | HasThreshold


def read_thresholds(
    thresholds: Threshold | Mapping[str, Threshold] | None, readouts: Mapping[str, Readout], *, statistic: Statistic
) -> dict[str, float]:
    """Probe -> threshold; empty where none was given.

    Raises:
        InputError: a name is no probe, a value is no finite number, the probe has several scores, or a threshold was certified for
            another statistic than is compared here.
    """
    if thresholds is None:
        return {}
    asked = dict(thresholds) if isinstance(thresholds, Mapping) else dict.fromkeys(readouts, thresholds)
    for name, value in asked.items():
        _check_statistic(name, value, statistic)
    given: dict[str, Any] = {name: getattr(value, "threshold", value) for name, value in asked.items()}
    for name, value in given.items():
        if name not in readouts:
            raise InputError(f"thresholds name no probe {name!r}: {near_matches(name, readouts)}.")
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise InputError(f"the threshold of {name!r} must be a finite number, in the units of the probe's scores, got {value!r}.")
        if len(readouts[name].bias) > 1:
            raise InputError(
                f"{name!r} has {len(readouts[name].bias)} scores per token, one per class; a threshold needs a probe with one."
            )
    return {name: float(value) for name, value in given.items()}


def _check_statistic(name: str, value: Any, statistic: Statistic) -> None:
    """A threshold for the mean of some tokens promises nothing of single ones."""
    certified = getattr(value, "statistic", None)
    if certified is None:
        return
    compared: str | None = {"max": "score", "mean": "mean"}.get(getattr(certified, "name", ""))
    if compared is None:
        raise InputError(
            f"the threshold of {name!r} was certified for the {certified}, which a monitor does not compute; certify 'max' or 'mean', or "
            f"give on_token=... and feed its scores to the certificate's own alarm()."
        )
    if compared != statistic:
        raise InputError(
            f"the threshold of {name!r} was certified for the {certified}, but statistic={statistic!r} compares something else; pass "
            f"statistic={compared!r}."
        )


class Judge:
    """Raises alarms: one per probe, row and run, at the first token whose statistic is above the threshold.

    Args:
        groups: the probes.
        thresholds: from `read_thresholds`.
        statistic: ``score`` compares each token's score; ``mean`` the mean over the row's compared tokens up to this one.
        where: ``generated`` compares generated tokens only, ``all`` prompts too.
    """

    def __init__(self, groups: Sequence[Group], thresholds: Mapping[str, float], *, statistic: Statistic, where: Where) -> None:
        self._statistic = statistic
        self._where = where
        self._names: list[str] = []
        self._picked: list[tuple[int, list[int]]] = []
        for index, group in enumerate(groups):
            names = [name for name in group.columns if name in thresholds]
            self._names += names
            self._picked.append((index, [column for name in names if isinstance(column := group.columns[name], int)]))
        self._levels = torch.tensor([thresholds[name] for name in self._names], dtype=torch.float64)
        self.n_compared = 0
        """How many tokens were compared."""

    @property
    def any(self) -> bool:
        """Whether there is a threshold at all."""
        return bool(self._names)

    def judge(self, run: Following, new: Pass, scores: Sequence[torch.Tensor]) -> list[Alarm]:
        """The alarms of one pass."""
        if not self._names:
            return []
        counted = new.mask
        if self._where == "generated":
            outside = max(run.prompt_length - new.start, 0) if run.kind == "generate" else new.mask.shape[1]
            if outside >= new.mask.shape[1]:
                return []
            counted = counted.clone()
            counted[:, :outside] = False
        device = scores[0].device
        values = torch.cat([scores[index][..., columns].double().to(device) for index, columns in self._picked if columns], dim=-1)
        counted = counted.to(device)
        values = torch.where(counted[..., None], values, 0.0)
        if self._statistic == "mean":
            values, run.sums, run.counts = _running_mean(values, counted, run.sums, run.counts)
        if run.crossed is None:
            run.crossed = torch.zeros(run.rows, len(self._names), dtype=torch.bool, device=device)
        self._levels = self._levels.to(device)
        over = (values > self._levels) & counted[..., None] & ~run.crossed[:, None]
        self.n_compared += int(counted.sum())
        if not bool(over.any()):
            return []
        run.crossed |= over.any(dim=1)
        alarms = []
        for row, column in torch.nonzero(over.any(dim=1)).tolist():
            at = int(over[row, :, column].to(torch.uint8).argmax())
            alarms.append(
                Alarm(
                    probe=self._names[column],
                    run=run.number,
                    row=row,
                    position=new.start + at,
                    token_id=int(new.ids[row, at]),
                    score=float(values[row, at, column]),
                    threshold=float(self._levels[column]),
                )
            )
        return sorted(alarms, key=lambda alarm: (alarm.position, alarm.row))


def _running_mean(
    values: torch.Tensor, counted: torch.Tensor, sums: torch.Tensor | None, counts: torch.Tensor | None
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """``[B, t, K]`` means up to each token, and the sums ``[B, K]`` and counts ``[B, 1]`` to go on with."""
    total, count = values.cumsum(dim=1), counted.to(values.dtype).cumsum(dim=1)[..., None]
    if sums is not None and counts is not None:
        total, count = total + sums[:, None], count + counts[:, None]
    return total / count.clamp(min=1), total[:, -1], count[:, -1]
