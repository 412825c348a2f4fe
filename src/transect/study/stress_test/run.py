"""The stress test: try to fool a finished probe in every way we know, and say which ways worked."""

import dataclasses
import datetime
import os
import shutil
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

from transect._progress import progress
from transect.measure import is_above_chance
from transect.models import Model
from transect.report import NotTried, StressFinding, StressReport, load_report, write_report, write_stress
from transect.report.records import Timing
from transect.study.stress_test.agreed import agreement_finding
from transect.study.stress_test.datasets import datasets_finding
from transect.study.stress_test.dimensions import count_finding, rank_finding
from transect.study.stress_test.prompts import prompt_finding
from transect.study.stress_test.relabelled import relabelling_finding
from transect.study.stress_test.residuals import residual_finding
from transect.study.stress_test.rewritten import Version, read_versions, shift_finding, style_by_site_finding, style_finding
from transect.study.stress_test.selectivity import control_task_finding, controls_finding
from transect.study.stress_test.settings import StressSettings
from transect.study.stress_test.subject import Reading, Subject, open_subject

Finder = Callable[[], StressFinding | NotTried]


def stress(
    run: str | os.PathLike[str],
    *,
    model: Model | None = None,
    settings: StressSettings | None = None,
    overwrite: bool = False,
    shown: bool | None = None,
) -> StressReport:
    """Try to fool the probe of a finished run, and add the page to its report.

    The model reads the run's training table again in every style and shift that applies; everything it reads is kept in the run's
    folder, so a stress test that was stopped goes on where it was.

    Args:
        run: the folder that `transect.probe` wrote.
        model: the model, if it is loaded already; None loads it by the name in the report.
        settings: what is tried and how carefully.
        overwrite: read everything again instead of going on with what an earlier stress test read.
        shown: show progress bars on stderr; None shows them on a terminal.

    Returns:
        Every finding. ``stress.json``, ``stress.html`` and ``stress.png`` are written beside ``report.json``, which links the page.

    Raises:
        StoreError: the folder holds no finished run.
        MismatchError: the model is not the one that was probed.
        InputError: the labels are not two classes.

    Examples:
        >>> import tempfile
        >>> import transect
        >>> from transect.study import Settings, StressSettings, stress
        >>> from transect.testing import tiny
        >>> quick = Settings(permutations=20, refits=20, directions=20, resamples=100, compare=False)
        >>> few = StressSettings(prompts=False, permutations=40, refits=20, resamples=100, ranks=(1, 2))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     found = transect.probe(tiny("llama"), "elements", out=folder, settings=quick)
        ...     report = stress(folder, model=tiny("llama"), settings=few)
        >>> report.finding("style").measure
        'AUROC'
    """
    began = time.perf_counter()
    how = settings or StressSettings()
    if overwrite:
        shutil.rmtree(Path(run) / "stress", ignore_errors=True)
    subject, seconds = open_subject(run, how, model=model, shown=shown)
    reading = Reading(subject, shown=shown)
    reading.seconds = seconds
    styles, shifts, skipped = read_versions(subject, reading, how)
    finders = _finders(subject, reading, how, styles, shifts)
    found: list[StressFinding | NotTried] = []
    with progress("stress", total=len(finders), unit="tests", shown=shown) as advance:
        for find in finders:
            found.append(find())
            advance(1)
    total = time.perf_counter() - began
    report = StressReport(
        created=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        transect=version("transect"),
        model=subject.model.name,
        fingerprint=subject.model.fingerprint,
        table=subject.train.name,
        probe=subject.report.selected.probe,
        site=subject.site,
        home=subject.home,
        measure=subject.judge.metric.title,
        findings=tuple(_judged(one, subject) for one in found if isinstance(one, StressFinding)),
        not_tried=(*skipped, *(one for one in found if isinstance(one, NotTried))),
        settings=how.to_json(),
        notes=_notes(subject),
        timing=Timing(total=total, stages={"captures": reading.seconds, "statistics": total - reading.seconds}),
    )
    write_stress(report, run)
    # Read again: a certificate may have been added to the report in the meantime.
    write_report(dataclasses.replace(load_report(run), stress="stress.html"), run)
    return report


def _finders(subject: Subject, reading: Reading, how: StressSettings, styles: list[Version], shifts: list[Version]) -> list[Finder]:
    """Every test that applies, in the order of the page."""
    finders: list[Finder] = []
    if styles:
        finders += [lambda: style_finding(subject, styles), lambda: style_by_site_finding(subject, styles)]
    finders += [lambda version=version: shift_finding(subject, version) for version in shifts]
    finders += [
        lambda: prompt_finding(subject, reading, how),
        lambda: datasets_finding(subject),
        lambda: relabelling_finding(subject, reading, how),
        lambda: residual_finding(subject, reading, how),
        lambda: rank_finding(subject, how),
        lambda: count_finding(subject, how),
        lambda: controls_finding(subject),
        lambda: control_task_finding(subject, how),
        lambda: agreement_finding(subject, how),
    ]
    return finders


def _notes(subject: Subject) -> tuple[str, ...]:
    if is_above_chance(subject.home):
        return ()
    return (f"At home the probe scores {subject.home}, which is not surely above chance: every status is unclear.",)


def _judged(finding: StressFinding, subject: Subject) -> StressFinding:
    """A probe that reads nothing at home cannot be fooled."""
    return finding if is_above_chance(subject.home) else dataclasses.replace(finding, status="unclear")
