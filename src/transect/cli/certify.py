"""`transect certify`: a threshold of a run's probe with a certified false-positive rate or recall."""

from pathlib import Path
from typing import Annotated

import typer

from transect.cli import options


def certify(
    run: Annotated[Path, typer.Argument(help="The folder of a finished run of transect probe.")],
    negatives: Annotated[str, typer.Option(help="A file of negatives that the probe has not seen; with labels, of both classes.")],
    fpr: Annotated[float | None, typer.Option(help="The false-positive rate to keep, for example 0.01.")] = None,
    recall: Annotated[float | None, typer.Option(help="The recall to keep; with --fpr, certified at that threshold.")] = None,
    confidence: Annotated[float, typer.Option(help="The confidence of each promise.")] = 0.95,
    positives: Annotated[str | None, typer.Option(help="A file all of whose rows are positive.")] = None,
    text: options.Text = None,
    label: options.Label = None,
    group: Annotated[str | None, typer.Option(help="The column of rows that are not independent: one conversation, one document.")] = None,
    messages: options.Messages = None,
    sequence: Annotated[
        str | None, typer.Option(help="Certify whole sequences by this statistic of token scores: max, mean, rolling or top.")
    ] = None,
    size: Annotated[int, typer.Option(help="The window of rolling, the number of tokens of top; shorter texts never fire.", min=1)] = 1,
    horizon: Annotated[int | None, typer.Option(help="With --sequence: watch only so many tokens of each.", min=1)] = None,
    model: Annotated[str | None, typer.Option("--model", help="The model; default: the one that the run read.")] = None,
    truncate: options.Truncate = False,
    device: options.Device = "auto",
    dtype: options.Dtype = None,
) -> None:
    """Certify a threshold on rows that the probe has not seen; writes certificate.json into the run."""
    from rich.console import Console

    from transect.data import read_table
    from transect.decide import SequenceStatistic
    from transect.errors import InputError, near_matches
    from transect.study.certify import certify as run_certify

    statistics = ("max", "mean", "rolling", "top")
    if sequence is not None and sequence not in statistics:
        raise InputError(f"--sequence {sequence!r} is no statistic: {near_matches(sequence, statistics)}")
    if size != 1 and sequence not in ("rolling", "top"):
        raise InputError(f"--size {size} is for --sequence rolling and top, got {sequence!r}.")
    made = run_certify(
        run,
        read_table(negatives, text=text, label=label, group=group, messages=messages),
        fpr=fpr,
        recall=recall,
        confidence=confidence,
        positives=None if positives is None else read_table(positives, text=text, group=group, messages=messages),
        sequence=None if sequence is None else SequenceStatistic(name=sequence, size=size),  # type: ignore[arg-type] - checked above
        horizon=horizon,
        model=model,
        device=device,
        dtype=dtype,
        truncate=truncate,
    )
    console = Console(highlight=False)
    console.print(f"threshold {made.threshold:.6g}", markup=False)
    for sentence in made.sentences:
        console.print(sentence, markup=False, soft_wrap=True)
    console.print(f"written to {run / 'certificate.json'}", markup=False, soft_wrap=True)
