"""`transect capture`: activations to disk."""

from pathlib import Path
from typing import Annotated

import typer

from transect.cli import options


def capture(
    model: options.ModelSource,
    data: Annotated[str, typer.Option(help="Text: a file, or a built-in set. Labels are kept when there are any.")],
    store: Annotated[Path, typer.Option(help="The folder to write; a half-written one is resumed.")],
    text: options.Text = None,
    label: options.Label = None,
    group: options.Group = None,
    span: options.Span = None,
    messages: options.Messages = None,
    sites: Annotated[list[str] | None, typer.Option(help="Where to read; default: after every block.")] = None,
    tokens: options.Tokens = "last",
    chat: options.Chat = False,
    truncate: options.Truncate = False,
    verify: options.Verify = 0,
    device: options.Device = "auto",
    dtype: options.Dtype = None,
    store_dtype: Annotated[str | None, typer.Option(help="Store in this type (for example bfloat16); default: the model's.")] = None,
) -> None:
    """Run texts through a model once, and keep the activations of the sites and tokens asked for."""
    from rich.console import Console

    from transect.capture import capture as run
    from transect.data import read_table
    from transect.models import load

    table = read_table(data, text=text, label=label, group=group, span=span, messages=messages)
    acts = run(
        load(model, device=device, dtype=dtype),
        table,
        sites=sites or "layers[*]",
        tokens=tokens,
        store=store,
        chat=chat,
        truncate=truncate,
        verify=verify,
        dtype=store_dtype,
    )
    console = Console(highlight=False)
    console.print(f"{len(acts)} rows at {len(acts.sites)} sites in {store}")
    if verify:
        console.print(f"one at a time against batched: {acts.provenance['verify']}")
