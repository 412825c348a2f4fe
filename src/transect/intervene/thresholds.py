"""Comparing scores with thresholds while they come in: a token fires where its score is above the threshold, as in `transect.decide`."""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import torch

from transect.decide import SequenceCertificate
from transect.errors import InputError, near_matches
from transect.intervene.following import Following, Pass
from transect.intervene.placed import Group
from transect.intervene.records import Alarm
from transect.linear import Readout

Statistic = Literal["score", "mean"]
Where = Literal["generated", "all"]


Threshold = float | SequenceCertificate


@dataclasses.dataclass(frozen=True, kw_only=True)
class Level:
    """Where a probe's scores become an alarm.

    Args:
        threshold: a statistic above this is an alarm, in the units of the probe's scores.
        horizon: only so many compared tokens of a row are watched; infinite for all.
        longest: a row may have so many compared tokens; infinite where nothing was certified.
    """

    threshold: float
    horizon: float = math.inf
    longest: float = math.inf


def read_thresholds(
    thresholds: Threshold | Mapping[str, Threshold] | None, readouts: Mapping[str, Readout], *, statistic: Statistic
) -> dict[str, Level]:
    """Probe -> level; empty where no threshold was given.

    Raises:
        InputError: a name is no probe, a value is neither a finite number nor a certificate of sequences, the probe has several scores, or
            a threshold was certified for another statistic than is compared here.
    """
    if thresholds is None:
        return {}
    asked = dict(thresholds) if isinstance(thresholds, Mapping) else dict.fromkeys(readouts, thresholds)
    levels = {}
    for name, value in asked.items():
        if name not in readouts:
            raise InputError(f"thresholds name no probe {name!r}: {near_matches(name, readouts)}.")
        levels[name] = _level(name, value, statistic)
        if len(readouts[name].bias) > 1:
            raise InputError(
                f"{name!r} has {len(readouts[name].bias)} scores per token, one per class; a threshold needs a probe with one."
            )
    return levels


def _level(name: str, value: Any, statistic: Statistic) -> Level:
    if isinstance(value, SequenceCertificate):
        _check_statistic(name, value, statistic)
        longest = math.inf if value.horizon else float(value.longest)
        return Level(threshold=value.threshold, horizon=float(value.horizon or math.inf), longest=longest)
    if hasattr(value, "threshold"):
        raise InputError(
            f"the {type(value).__name__} of {name!r} promises something of one score per text, and a monitor compares every token, so the rate "
            f"of alarms would be higher than promised. Certify whole answers with transect.decide.certify_sequences (or take the fpr of a "
            f"transect.certify that was given sequence=), or pass the bare number {value.threshold:.6g} if no promise is needed."
        )
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise InputError(f"the threshold of {name!r} must be a finite number, in the units of the probe's scores, got {value!r}.")
    return Level(threshold=float(value))


def _check_statistic(name: str, certificate: SequenceCertificate, statistic: Statistic) -> None:
    """A threshold for the mean of some tokens promises nothing of single ones."""
    compared: str | None = {"max": "score", "mean": "mean"}.get(certificate.statistic.name)
    if compared is None or certificate.statistic.watched_from > 1:
        raise InputError(
            f"the threshold of {name!r} was certified for the {certificate.statistic}, which a monitor does not compute; certify 'max' or "
            f"'mean' without a warm-up, or give on_token=... and feed its scores to the certificate's own alarm()."
        )
    if compared != statistic:
        raise InputError(
            f"the threshold of {name!r} was certified for the {certificate.statistic}, but statistic={statistic!r} compares something else; "
            f"pass statistic={compared!r}."
        )


class Judge:
    """Raises alarms: one per probe, row and run, at the first token whose statistic is above the threshold.

    Args:
        groups: the probes.
        thresholds: from `read_thresholds`.
        statistic: ``score`` compares each token's score; ``mean`` the mean over the row's compared tokens up to this one.
        where: ``generated`` compares generated tokens only, ``all`` prompts too.
    """

    def __init__(self, groups: Sequence[Group], thresholds: Mapping[str, Level], *, statistic: Statistic, where: Where) -> None:
        self._statistic = statistic
        self._where = where
        self._names: list[str] = []
        self._picked: list[tuple[int, list[int]]] = []
        for index, group in enumerate(groups):
            names = [name for name in group.columns if name in thresholds]
            self._names += names
            self._picked.append((index, [column for name in names if isinstance(column := group.columns[name], int)]))
        levels = [thresholds[name] for name in self._names]
        self._levels = torch.tensor([level.threshold for level in levels], dtype=torch.float64)
        self._horizons = torch.tensor([level.horizon for level in levels], dtype=torch.float64)
        self._longest = min((level.longest for level in levels), default=math.inf)
        self._bounded = any(not math.isinf(limit) for level in levels for limit in (level.horizon, level.longest))
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
        within = counted[..., None]
        if self._bounded or self._statistic == "mean":
            count = counted.long().cumsum(dim=1) + (0 if run.counts is None else run.counts[:, None])
            run.counts = count[:, -1]
            if self._bounded:
                self._refuse_too_long(run, new, counted, count)
                within = within & (count[..., None] <= self._horizons.to(device))
            if self._statistic == "mean":
                total = values.cumsum(dim=1) + (0 if run.sums is None else run.sums[:, None])
                values, run.sums = total / count[..., None].clamp(min=1), total[:, -1]
        if run.crossed is None:
            run.crossed = torch.zeros(run.rows, len(self._names), dtype=torch.bool, device=device)
        self._levels = self._levels.to(device)
        over = (values > self._levels) & within & ~run.crossed[:, None]
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

    def _refuse_too_long(self, run: Following, new: Pass, counted: torch.Tensor, count: torch.Tensor) -> None:
        """Nothing was promised of rows longer than any that was calibrated on."""
        beyond = counted & (count > self._longest)
        if bool(beyond.any()):
            row = int(torch.nonzero(beyond)[0, 0])
            raise InputError(
                f"run {run.number}, row {row} has more than the {self._longest:.0f} compared tokens that the threshold was certified for (column "
                f"{new.start + int(torch.nonzero(beyond)[0, 1])}). Generate with max_new_tokens={self._longest:.0f}, or certify longer answers or "
                f"with a horizon."
            )
