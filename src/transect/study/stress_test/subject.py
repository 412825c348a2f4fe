"""The probe under test, with everything it came from, read back from the folder of its run."""

import dataclasses
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch

from transect.capture import capture
from transect.data import Table
from transect.errors import InputError
from transect.linear import Readout
from transect.measure import Estimate
from transect.models import Model
from transect.probes import Fitter, fit_readout
from transect.report import Report, load_report
from transect.study.folder import RunFolder
from transect.study.prepare import Cast, Part, cast
from transect.study.reopen import kept_table, model_of
from transect.study.run import fitter_named
from transect.study.settings import Settings
from transect.study.statistics import Judge
from transect.study.stress_test.settings import StressSettings


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Subject:
    """A finished run, ready to be tried.

    Args:
        report: what the run found.
        readout: the chosen probe.
        fitter: what fitted it, with the same settings.
        model: the model it reads.
        parts: the tables and who played which part, exactly as in the run.
        settings: of the run.
        judge: the metric, with the stress test's resamples and level.
        folder: of the run.
        activations: of each table of the run, by name and site.
    """

    report: Report
    readout: Readout
    fitter: Fitter
    model: Model
    parts: Cast
    settings: Settings
    judge: Judge
    folder: RunFolder
    activations: Mapping[str, Mapping[str, torch.Tensor]]

    @property
    def site(self) -> str:
        """Where the chosen probe reads."""
        return self.report.selected.site

    @property
    def sites(self) -> tuple[str, ...]:
        """Every site of the run, from shallow to deep."""
        return self.report.capture.sites

    @property
    def train(self) -> Part:
        """The table it learnt from."""
        return self.parts.train

    @property
    def x(self) -> torch.Tensor:
        """``[n, d]``: the training table's activations at the chosen site."""
        return self.activations[self.train.name][self.site]

    @property
    def home(self) -> Estimate:
        """What the probe scores on its own held-out rows."""
        rows = self.train.test
        return self.judge.leading(self.readout.scores(self.x[rows]), self.train.targets[rows], self.train.groups[rows])

    def strength_at(self, site: str) -> float | None:
        """The strength that validation chose at a site."""
        return next(point.regularization for point in self.report.by_site if point.site == site)

    def refit(self, x: torch.Tensor, targets: np.ndarray, *, site: str | None = None) -> Readout:
        """The same fitter at the same strength on other rows ``x [n, d]``."""
        return fit_readout(self.fitter, x, targets, classes=self.train.table.classes, regularization=self.strength_at(site or self.site))


class Reading:
    """Runs the model for a stress test, keeps what it read in the run's folder, and adds up the time."""

    def __init__(self, subject: Subject, *, shown: bool | None) -> None:
        self.subject = subject
        self.shown = shown
        self.seconds = 0.0

    def of(self, table: Table, *, label: str, sites: Sequence[str] | None = None) -> dict[str, torch.Tensor]:
        """The activations ``[n, d]`` of a table at every site of the run, read as the run read its own."""
        how = self.subject.settings
        wanted = list(sites or self.subject.sites)
        # Another seed writes other texts, which must not meet what was read of these.
        store = self.subject.folder.path / "stress" / f"{label}-{table.digest[:12]}"
        with self.clock():
            acts = capture(
                self.subject.model, table, sites=wanted, tokens=how.tokens, store=store, chat=how.chat, truncate=how.truncate,
                progress=self.shown,
            )  # fmt: skip
            return {site: acts[site] for site in acts.sites}

    @contextmanager
    def clock(self) -> Iterator[None]:
        """Counts what happens inside as the model's time."""
        began = time.perf_counter()
        yield
        self.seconds += time.perf_counter() - began


def open_subject(
    run: str | os.PathLike[str], how: StressSettings, *, model: Model | None = None, shown: bool | None = None
) -> tuple[Subject, float]:
    """Read a finished run back; activations that are no longer in its folder are captured again.

    Args:
        run: the folder that `transect.probe` wrote.
        how: settings of the stress test.
        model: the model, if it is loaded already.
        shown: show progress bars.

    Returns:
        The run, and the seconds that capturing took.

    Raises:
        StoreError: the folder holds no finished run, or an old one that kept no tables.
        MismatchError: the model is not the one that was probed.
        InputError: the run has no two classes to tell apart.
    """
    report = load_report(run)
    folder = RunFolder(path=Path(run))
    readout = Readout.load(folder.path / "probe.safetensors")
    loaded = model_of(report, model)
    train = kept_table(run, report.data.train)
    if train.kind != "binary":
        raise InputError(
            f"a stress test needs labels of two classes; those of {train.name!r} are {train.kind}. Read it as one class or not."
        )
    tests = [kept_table(run, info) for info in report.data.tests]
    settings = _settings(report.settings)
    judge = Judge(kind=train.kind, level=how.level, resamples=how.resamples, seed=how.seed)
    parts = cast(train, tests, settings)
    activations, began = {}, time.perf_counter()
    for part in (parts.train, *parts.tests):
        acts = capture(
            loaded, part.table, sites=list(report.capture.sites), tokens=settings.tokens, store=folder.activations(part.name),
            chat=settings.chat, truncate=settings.truncate, verify=settings.verify, progress=shown,
        )  # fmt: skip
        activations[part.name] = {site: acts[site] for site in acts.sites}
    fitter = fitter_named(report.selected.probe)
    known = fitter.get_params()
    fitter.set_params(**{name: value for name, value in readout.origin.settings.items() if name in known and name != fitter.strength})
    subject = Subject(
        report=report, readout=readout, fitter=fitter, model=loaded, parts=parts, settings=settings, judge=judge, folder=folder,
        activations=activations,
    )  # fmt: skip
    return subject, time.perf_counter() - began


def _settings(kept: Mapping[str, Any]) -> Settings:
    sites = kept["sites"]
    return Settings(**{**kept, "sites": None if sites is None else tuple(sites), "controls": tuple(kept["controls"])})
