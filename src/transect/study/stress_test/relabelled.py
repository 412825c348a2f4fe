"""Does the probe's boundary hold when statements that are neither true nor false change sides?"""

import numpy as np
import torch

from transect.data import Table, read_table
from transect.data.builtin import TRUTH
from transect.errors import InputError, SampleSizeError
from transect.measure import relabelling_stability
from transect.report import NotTried, StressFinding, StressPoint
from transect.study.stress_test.settings import StressSettings
from transect.study.stress_test.subject import Reading, Subject

NAME = "relabelling"
STEADY, SHAKEN = 0.05, 0.2
WAYS = {"false": "counted as false", "true": "counted as true"}


def relabelling_finding(subject: Subject, reading: Reading, how: StressSettings) -> StressFinding | NotTried:
    """Refits with made-up and with fictional statements counted as false or as true, against leaving them out."""
    part = subject.train
    if part.table.meaning is None or part.table.meaning[0] != TRUTH:
        return NotTried(name=NAME, reason="the table's label is not said to be whether the statement is true, so nothing is neither.")
    neither = _neither()
    acts = reading.of(neither, label="neither", sites=[subject.site])[subject.site]
    points, sentences = [], []
    for sort in ("unfamiliar", "fictional"):
        rows = np.flatnonzero(neither.column("sort") == sort)
        x = torch.cat([subject.x, acts[rows]])
        words = np.concatenate([np.where(part.targets == 1, "true", "false"), np.full(len(rows), "neither")])
        groups = np.concatenate([part.groups, part.groups.max() + 1 + np.arange(len(rows))])
        held = np.concatenate([np.isin(np.arange(len(part.table)), part.test), np.zeros(len(rows), dtype=bool)])
        try:
            found = relabelling_stability(
                x, words, groups=groups, held_out=held, fitter=subject.fitter, regularization=subject.strength_at(subject.site),
                level=how.level, resamples=how.resamples, seed=how.seed,
            )  # fmt: skip
        except (InputError, SampleSizeError) as error:
            return NotTried(name=NAME, reason=str(error))
        for shift in found.shifts:
            if shift.first == "left_out":
                name, note = f"{sort}, {WAYS[shift.second]}", f"the direction turns by {shift.degrees:.0f} degrees"
                points.append(StressPoint(name=name, estimate=shift.flipped, n=found.n_held_out, note=note))
        sentences.append(f"{sort}: {found.sentence}")
    most = max(point.estimate.value for point in points)
    return StressFinding(
        name=NAME, question="Does its boundary hold when statements that are neither true nor false change sides?",
        measure="judgements that flip", points=tuple(points),
        status="holds" if most <= STEADY else "fooled" if most >= SHAKEN else "weakens",
        sentence=" ".join(sentence[:1].upper() + sentence[1:] for sentence in sentences),
        rule=f"The share of true and false held-out rows judged differently after the refit. It holds where at most {STEADY:.0%} flip, and is "
        f"fooled where {SHAKEN:.0%} or more do. The statements are about cities; for a table of another domain this is a harder test.",
        source="Representational stability of truth", high=max(0.5, most),
    )  # fmt: skip


def _neither() -> Table:
    table = read_table("cities_neither")
    return table.take(np.flatnonzero(table.labels == "neither"))
