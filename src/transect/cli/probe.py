"""`transect probe`: from a model and labelled text to a probe, its evidence and a verdict."""

import dataclasses
import sys
from typing import Annotated

import typer

from transect.cli import options


def probe(
    model: options.ModelSource,
    data: Annotated[list[str], typer.Option(help="Labelled text: a file, or a built-in set. Give it again to train on several together.")],
    test: Annotated[list[str] | None, typer.Option(help="A table to try the probe on; may be given again.")] = None,
    out: options.Folder = None,
    text: options.Text = None,
    label: options.Label = None,
    group: options.Group = None,
    span: options.Span = None,
    split: Annotated[str | None, typer.Option(help="A column that says train, validation or test.")] = None,
    messages: options.Messages = None,
    positive: Annotated[str | None, typer.Option(help="Which of two labels is the positive one.")] = None,
    method: Annotated[str | None, typer.Option(help="The probe to report: MeanDifference, LDA, Logistic or Ridge.")] = None,
    sites: Annotated[list[str] | None, typer.Option(help="Where to read; default: after every block, and the final norm.")] = None,
    tokens: options.Tokens = "last",
    controls: Annotated[
        list[str] | None, typer.Option(help="Costlier controls: 'untrained' (the same architecture, random weights).")
    ] = None,
    chat: options.Chat = False,
    truncate: options.Truncate = False,
    verify: options.Verify = 0,
    folds: Annotated[int, typer.Option(help="Folds of cross-validation.", min=2)] = 5,
    test_fraction: Annotated[float, typer.Option(help="The share of groups kept for the test.")] = 0.3,
    seed: Annotated[int, typer.Option(help="The seed of everything random.")] = 0,
    device: options.Device = "auto",
    dtype: options.Dtype = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with a run that was stopped.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a run that is there.")] = False,
) -> None:
    """Fit probes at every site of a model, test them honestly, and say what was found."""
    from rich.console import Console

    from transect.data import Table, builtin_names, read_table
    from transect.errors import TableError
    from transect.models import load
    from transect.report import print_report
    from transect.study import Settings, combine, fitter_named
    from transect.study import probe as run

    def read(source: str, *, group: str | None, split: str | None) -> Table:
        # A built-in set knows its columns; the options are about files.
        if source in builtin_names():
            return read_table(source)
        return read_table(source, text=text, label=label, group=group, span=span, split=split, messages=messages, positive=positive)

    def read_test(source: str) -> Table:
        try:
            return read(source, group=group, split=None)
        except TableError:
            if group is None:
                raise
        # A table that only tests may lack the groups of the training table; if that was not the reason, this raises again.
        table = read(source, group=None, split=None)
        return dataclasses.replace(
            table, notes=(*table.notes, f"{table.name} has no column {group!r}: every text is a group of its own there.")
        )

    train = combine([read(source, group=group, split=split) for source in data])
    tests = [read_test(source) for source in test or []]
    settings = Settings(
        sites=tuple(sites) if sites else None,
        tokens=tokens,
        chat=chat,
        truncate=truncate,
        verify=verify,
        folds=folds,
        test_fraction=test_fraction,
        controls=tuple(controls or ()),
        seed=seed,
    )
    found = run(
        load(model, device=device, dtype=dtype),
        train,
        tests=tests,
        fitter=None if method is None else fitter_named(method),
        out=out or f"runs/{train.name}",
        settings=settings,
        resume=resume,
        overwrite=overwrite,
        command=("transect", *sys.argv[1:]),
    )
    print_report(found.report, Console())
