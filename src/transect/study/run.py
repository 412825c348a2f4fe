"""The main job: from a model and labelled text to a probe, its evidence and a verdict."""

import dataclasses
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from transect import probes
from transect._progress import progress
from transect.capture import Activations, capture
from transect.data import Table, audit, read_table, save_table
from transect.errors import InputError, near_matches
from transect.linear import Readout
from transect.measure import Correction, correct_for_choosing, correct_in_folds
from transect.models import Model, load, untrained
from transect.probes import LDA, Fitter, Inside, Logistic, MeanDifference, Ridge
from transect.report import Report, load_report, write_report
from transect.study.assemble import assemble
from transect.study.controls import Untrained, random_direction, shuffled_labels, stability, surface_controls, untrained_control
from transect.study.folder import RunFolder, claim_folder
from transect.study.gathered import Gathered
from transect.study.prepare import Cast, Part, cast
from transect.study.search import Search, folds_of, inside_of, search
from transect.study.settings import Settings
from transect.study.statistics import Judge
from transect.study.transfers import matrix_cells, tensors, transfer_matrix


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Found:
    """What a study found.

    Args:
        report: every number, and the verdict.
        readout: the chosen probe.
        files: what was written, by kind; empty where nothing was.
    """

    report: Report
    readout: Readout
    files: Mapping[str, Path]


def probe(
    model: Model | str | os.PathLike[str] | nn.Module,
    data: Any,
    *,
    tests: Sequence[Any] = (),
    fitter: Fitter | None = None,
    out: str | os.PathLike[str] | None = None,
    settings: Settings | None = None,
    resume: bool = False,
    overwrite: bool = False,
    command: Sequence[str] = (),
    shown: bool | None = None,
) -> Found:
    """Fit probes at every site of a model, test them honestly, and say what was found.

    The rows are divided by group. Development rows choose the site and the strength by cross-validation and fit the probe; test
    rows only score. Around the number stand baselines and controls, the transfer to other tables, and a verdict by written rules.

    Args:
        model: from `transect.load`, or anything it takes.
        data: the table to learn from, or anything `transect.read_table` takes.
        tests: tables to try the probe on.
        fitter: the probe to report; None takes `Logistic` for classes and `Ridge` for numbers.
        out: a folder for the report, the pictures, the probe and the activations; None writes nothing.
        settings: what is read and how carefully; None takes the defaults of `Settings`.
        resume: go on with a run in ``out`` that was stopped.
        overwrite: replace a run in ``out``.
        command: the command line, for the report.
        shown: show progress bars on stderr; None shows them on a terminal.

    Returns:
        The report, the probe and the files.

    Raises:
        InputError: the data, the model and the settings do not fit together.
        StoreError: ``out`` holds something, and neither resume nor overwrite was asked for.
        TransectError: anything else that is wrong with what was given, each with its own class.

    Examples:
        >>> from transect.study import Settings, probe
        >>> from transect.testing import tiny
        >>> found = probe(tiny("llama"), "elements", settings=Settings(permutations=20, refits=20, resamples=200))
        >>> found.report.selected.probe, found.readout.width
        ('Logistic', 16)
    """
    began = time.perf_counter()
    how = settings or Settings()
    clock = _Clock()
    with clock("load"):
        loaded = load(model)
        if loaded.takes != "tokens":
            raise InputError(
                f"{loaded.name} takes tensors, not texts. Capture its activations and fit a probe to them: transect.capture, transect.probes."
            )
        train, others = read_table(data), [read_table(test) for test in tests]
        parts = cast(train, others, how)
        main = fitter or default_fitter(train)
        sites = _sites(loaded, how)
        folder = _claim(out, loaded, parts, how, main, resume=resume, overwrite=overwrite)
        if folder is not None:
            for table in (train, *others):
                save_table(table, folder.table(table.name))
    judge = Judge(kind=train.kind or "binary", level=how.level, resamples=how.resamples, seed=how.seed)
    reading = _Reading(sites=sites, settings=how, folder=folder, shown=shown)
    with clock("audit"):
        leakage = audit(train, {table.name: table for table in others}, parts=np.isin(np.arange(len(train)), parts.train.test))
    with clock("capture"):
        acts = {part.name: reading.of(loaded, part.table) for part in (parts.train, *parts.tests)}
        own = tensors(acts[train.name])
    with clock("fit"):
        folds = folds_of(parts.train, folds=how.folds, seed=how.seed)
        fitters = [main, *(_compared(train, main) if how.compare else ())]
        inside = inside_of(parts.train, folds, judge)
        found, *compared = _searches(own, parts.train, folds, fitters, judge, inside=inside, shown=shown)
    with clock("choose"):
        correction = _correct(found, parts.train, folds, judge)
    with clock("baselines"):
        controls = surface_controls(found, own, parts.train, judge)
    with clock("controls"):
        at_site = own[found.site]
        controls["shuffled_labels"] = shuffled_labels(found, at_site, parts.train, judge, how)
        controls["random_direction"] = random_direction(found, at_site, parts.train, judge, how)
        stable = stability(found, at_site, parts.train, how)
    bare = None
    if "untrained" in how.controls:
        with clock("untrained"):
            random_acts = tensors(reading.of(untrained(loaded, seed=how.seed), train, label="untrained-"))
            bare = Untrained(search=_searches(random_acts, parts.train, folds, [main], judge, shown=shown)[0], activations=random_acts)
            controls["untrained"] = untrained_control(found, own, bare, parts.train, judge)
    with clock("transfer"), progress("transfer", total=matrix_cells(parts), unit="pairs", shown=shown) as advance:
        pairs = transfer_matrix(parts, found, acts, judge, advance=lambda: advance(1))
    gathered = Gathered(
        model=loaded, parts=parts, settings=how, judge=judge, activations=acts, leakage=leakage, found=found, correction=correction,
        others=tuple(compared), bare=bare, controls=controls, stability=stable, pairs=pairs, seconds=clock.seconds, command=tuple(command),
    )  # fmt: skip
    report, readout = assemble(gathered, total=lambda: time.perf_counter() - began)
    if folder is None:
        return Found(report=report, readout=readout, files={})
    files = write_report(report, folder.path, readout=readout)
    return Found(report=load_report(folder.path), readout=readout, files=files)


def default_fitter(table: Table) -> Fitter:
    """The probe that is reported unless another is asked for."""
    # Weights to 1e-3: objectives are then below scikit-learn's at its default tolerance, in a third of the time of 1e-4.
    return Ridge() if table.kind == "number" else Logistic(tol=1e-3)


def fitter_named(name: str) -> Fitter:
    """A probe with its default settings, by the name of its class.

    Raises:
        InputError: there is no such probe; near matches are named.

    Examples:
        >>> fitter_named("Ridge")
        Ridge()
    """
    public = [getattr(probes, exported) for exported in probes.__all__]
    known = {value.__name__: value for value in public if isinstance(value, type) and issubclass(value, Fitter) and value is not Fitter}
    if name not in known:
        raise InputError(f"there is no probe {name!r}: {near_matches(name, known)}")
    return known[name]()


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Reading:
    """How every table of a study is captured."""

    sites: tuple[str, ...]
    settings: Settings
    folder: RunFolder | None
    shown: bool | None

    def of(self, model: Model, table: Table, *, label: str = "") -> Activations:
        """The activations of one table, kept in the run's folder where there is one."""
        return capture(
            model,
            table,
            sites=list(self.sites),
            tokens=self.settings.tokens,
            store=None if self.folder is None else self.folder.activations(label + table.name),
            chat=self.settings.chat,
            truncate=self.settings.truncate,
            verify=self.settings.verify,
            progress=self.shown,
        )


class _Clock:
    """Seconds by stage, in the order in which they first ran."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def __call__(self, stage: str) -> Iterator[None]:
        start = time.perf_counter()
        yield
        self.seconds[stage] = self.seconds.get(stage, 0.0) + time.perf_counter() - start


def _sites(model: Model, settings: Settings) -> tuple[str, ...]:
    if settings.sites is not None:
        return settings.sites
    found = tuple(site for site in model.sites() if site != "embed")
    if not found:
        raise InputError(f"{model.name} has no repeated blocks, so there are no sites to read by default; name some with sites= (--sites).")
    return found


def _claim(
    out: str | os.PathLike[str] | None, model: Model, parts: Cast, settings: Settings, fitter: Fitter, *, resume: bool, overwrite: bool
) -> RunFolder | None:
    if out is None:
        return None
    plan = {
        "model": model.fingerprint,
        "train": parts.train.table.digest,
        "tests": {part.name: part.table.digest for part in parts.tests},
        "fitter": repr(fitter),
        "settings": settings.to_json(),
    }
    return claim_folder(Path(out), plan, resume=resume, overwrite=overwrite)


def _compared(table: Table, main: Fitter) -> list[Fitter]:
    """The other fitters that suit the label."""
    all_of_them: list[Fitter] = [] if table.kind == "number" else [MeanDifference(), LDA(), Logistic(tol=1e-3)]
    return [fitter for fitter in all_of_them if type(fitter) is not type(main)]


def _searches(
    own: Mapping[str, torch.Tensor],
    part: Part,
    folds: np.ndarray,
    fitters: Sequence[Fitter],
    judge: Judge,
    *,
    inside: Inside | None = None,
    shown: bool | None,
) -> list[Search]:
    """A search for each fitter; what is asked for inside folds, of the first only."""
    with progress("fit", total=len(own) * len(fitters), unit="sites", shown=shown) as advance:
        return [
            search(own, part, folds, fitter, judge, inside=None if at else inside, advance=lambda: advance(1))
            for at, fitter in enumerate(fitters)
        ]


def _correct(found: Search, part: Part, folds: np.ndarray, judge: Judge) -> Correction:
    rows, fits = part.development, found.fits
    scores, targets, groups = fits.scores[:, :, rows], part.targets[rows], part.groups[rows]
    if fits.inside is None or np.isnan(fits.inside).all(axis=(0, 1, 3)).any():  # too few rows to choose for a fold without it
        return correct_for_choosing(
            scores, targets, folds[rows], strengths=fits.penalties, kind=judge.kind, groups=groups, level=judge.level, seed=judge.seed
        )
    return correct_in_folds(
        scores,
        fits.inside,
        targets,
        folds[rows],
        strengths=fits.penalties,
        kind=judge.kind,
        groups=groups,
        level=judge.level,
        resamples=judge.resamples,
        seed=judge.seed,
    )
