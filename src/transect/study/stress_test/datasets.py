"""Leave one table out: fitted to all the others, scored on it."""

from collections.abc import Sequence

import numpy as np
import torch

from transect.errors import InputError
from transect.report import NotTried, StressFinding, StressPoint
from transect.report.stress import StressStatus
from transect.study.prepare import Part, scored_rows
from transect.study.stress_test.judging import SCORE_RULE, listed, point_status, worst
from transect.study.stress_test.subject import Subject

NAME = "leave_one_table_out"


def datasets_finding(subject: Subject) -> StressFinding | NotTried:
    """The fitter on all tables of the run but one, scored on that one, in turn."""
    parts = _tables(subject)
    if len(parts) < 2:
        return NotTried(name=NAME, reason="the run has one table only; probe again with --test, or train on several tables.")
    points, skipped = [], []
    for name, part in parts:
        point = _without(subject, name, part, [(other, held) for other, held in parts if other != name])
        (skipped if isinstance(point, str) else points).append(point)
    if not points:
        return NotTried(name=NAME, reason="; ".join(skipped))
    statuses: list[StressStatus] = [point_status(point, subject.home) for point in points]
    bad = [point.name for point, status in zip(points, statuses, strict=True) if status == "fooled"]
    what = f"what the others teach does not carry over to {listed(bad)}" if bad else "what the others teach surely fails on none of them"
    return StressFinding(
        name=NAME, question="Do the other tables teach it this one?", measure="AUROC", points=tuple(points), status=worst(statuses),
        sentence=f"Fitted to all tables but one and scored on that one: {what}." + "".join(f" {reason}" for reason in skipped),
        rule=SCORE_RULE, source="leave-one-dataset-out cross-validation", reference=subject.home,
        reference_name=f"{subject.train.name}, held-out rows", chance=0.5,
    )  # fmt: skip


def _tables(subject: Subject) -> list[tuple[str, Part]]:
    """Tables trained on together count one by one."""
    train = subject.parts.components or (subject.train,)
    own = [(str(part.table.dataset[part.development[0]]) if subject.parts.components else part.name, part) for part in train]
    return [*own, *((part.name, part) for part in subject.parts.tests)]


def _without(subject: Subject, name: str, held: Part, others: Sequence[tuple[str, Part]]) -> StressPoint | str:
    x = torch.cat([_rows(subject, part, part.development) for _, part in others])
    targets = np.concatenate([part.targets[part.development] for _, part in others])
    fitted = np.unique(np.concatenate([part.groups[part.development] for _, part in others]))
    own = np.union1d(held.development, held.test)
    rows = np.intersect1d(scored_rows(held, fitted), own)
    if len(np.unique(targets)) < 2 or len(np.unique(held.targets[rows])) < 2:
        return f"{name} could not be scored: every row shares a group with the other tables, or one class is left."
    try:
        readout = subject.refit(x, targets)
        estimate = subject.judge.leading(readout.scores(_rows(subject, held, rows)), held.targets[rows], held.groups[rows])
    except InputError as error:
        return f"{name} could not be scored: {error}"
    note = f"fitted to {listed([other for other, _ in others])}"
    return StressPoint(name=name, estimate=estimate, n=len(rows), n_excluded=len(own) - len(rows), note=note)


def _rows(subject: Subject, part: Part, rows: np.ndarray) -> torch.Tensor:
    return subject.activations[part.name][subject.site][rows]
