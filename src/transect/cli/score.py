"""`transect score`: what a probe says of texts."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from transect.cli import options

if TYPE_CHECKING:
    from rich.table import Table

    from transect.study import Scored


def score(
    probe: Annotated[Path, typer.Option(help="The probe.safetensors of a run.")],
    model: options.ModelSource,
    texts: Annotated[list[str] | None, typer.Argument(help="Texts to score.")] = None,
    data: Annotated[str | None, typer.Option(help="A file of texts to score instead.")] = None,
    text: options.Text = None,
    messages: options.Messages = None,
    tokens: Annotated[bool, typer.Option("--tokens", help="A score for every token instead of every text.")] = False,
    chat: options.Chat = False,
    truncate: options.Truncate = False,
    out: Annotated[Path | None, typer.Option(help="Write the scores to this .csv file too.")] = None,
    device: options.Device = "auto",
    dtype: options.Dtype = None,
    force: Annotated[bool, typer.Option("--force", help="Score although the probe was fitted on another model.")] = False,
) -> None:
    """Score texts with a probe: one score per text, or per token."""
    from rich.console import Console

    from transect.data import read_table
    from transect.errors import InputError
    from transect.linear import Readout
    from transect.models import load
    from transect.study import score_texts

    if bool(texts) == bool(data):
        raise InputError(f"expected texts, or --data FILE, and not both; got {len(texts or [])} texts and --data {data}.")
    table = read_table(data, text=text, messages=messages) if data else read_table(list(texts or ()))
    readout = Readout.load(probe)
    scored = score_texts(
        readout, load(model, device=device, dtype=dtype), table, per_token=tokens, chat=chat, truncate=truncate, force=force
    )
    Console(highlight=False).print(_rendered(scored))
    if out is not None:
        scored.write_csv(out)


def _rendered(scored: "Scored") -> "Table":
    """The scores as a table for the terminal."""
    from rich.table import Table
    from rich.text import Text

    names, lines = scored.table()
    table = Table()
    for name in names:
        table.add_column(Text(name))
    for line in lines:
        table.add_row(*(Text(cell) for cell in line))
    return table
