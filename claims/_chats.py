"""What the claims about deception need: the answers of ``honest_deceptive`` as the demo model reads them, and a probe for few rows."""

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

import transect
from claims._shared import SITES, demo_model
from transect.data import Table
from transect.probes import Logistic


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Answers:
    """Chats, each read as the mean over the tokens of its answer."""

    table: Table
    activations: Mapping[str, torch.Tensor]
    codes: np.ndarray
    groups: np.ndarray
    instruction: np.ndarray
    threat: np.ndarray


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Probe:
    """A logistic probe of columns that the fitted rows' mean and spread made alike."""

    centre: torch.Tensor
    spread: torch.Tensor
    fitted: Logistic

    def scores(self, x: torch.Tensor) -> np.ndarray:
        """``[n]``, higher for the second class."""
        return np.asarray(self.fitted.decision_function((x.float() - self.centre) / self.spread), dtype=np.float64)


def fit_probe(x: torch.Tensor, codes: np.ndarray, *, C: float = 0.1) -> Probe:
    """Columns are scaled because a few of Gemma's are a thousand times as large as the others, and a penalty would leave only those."""
    rows = x.float()
    centre, spread = rows.mean(dim=0), rows.std(dim=0).clamp_min(1e-6)
    fitted = Logistic(C=C)
    fitted.fit((rows - centre) / spread, codes)
    return Probe(centre=centre, spread=spread, fitted=fitted)


def as_text(table: Table) -> Table:
    """Chats as plain text, one message a line: the demo model is a base model and has no chat template."""
    return dataclasses.replace(table, messages=None)


@functools.cache
def deception_answers() -> Answers:
    """All of ``honest_deceptive``, captured once for all claims."""
    table = as_text(transect.read_table("honest_deceptive", span="answer"))
    acts = transect.capture(demo_model(), table, sites=SITES, tokens="span:answer")
    return Answers(
        table=table,
        activations={site: acts[site] for site in SITES},
        codes=table.codes,
        groups=np.asarray(table.groups),
        instruction=table.column("instruction"),
        threat=table.column("threat"),
    )


def rows_of(acts: Any, at: np.ndarray) -> torch.Tensor:
    """Rows of a tensor by a mask or by indices."""
    return acts[torch.from_numpy(np.flatnonzero(at) if at.dtype == bool else at)]


def token_ranges(texts: Sequence[str]) -> list[list[tuple[int, int]]]:
    """Where in each text the characters of each of the demo model's tokens lie."""
    tokenizer = demo_model().tokenizer
    if tokenizer is None:
        raise RuntimeError("the demo model has a tokenizer")
    return tokenizer(list(texts), return_offsets_mapping=True)["offset_mapping"]
