"""`transect inspect`: what a file or a run of transect is."""

from pathlib import Path
from typing import Annotated

import typer


def inspect(path: Annotated[Path, typer.Argument(help="A .safetensors file that transect wrote, or the folder of a run.")]) -> None:
    """Say what a fitted object is, where it reads, how it was made and what it scored."""
    from rich.console import Console

    from transect.capture import Activations, is_store
    from transect.linear.files import load_object
    from transect.report import load_report, print_report

    console = Console(highlight=False)
    if path.is_dir() and is_store(path):
        acts = Activations.open(path)
        console.print(_rows("Activations", {"rows": len(acts), "sites": ", ".join(acts.sites), **acts.provenance}))
        return
    if path.is_dir() or path.suffix == ".json":
        print_report(load_report(path), console)
        return
    tensors, header = load_object(path)
    origin = header.pop("origin", {})
    shapes = {name: f"{list(tensor.shape)} {str(tensor.dtype).removeprefix('torch.')}" for name, tensor in tensors.items()}
    console.print(_rows(header["kind"], {**shapes, **{key: value for key, value in header.items() if key != "kind"}, **origin}))


def _rows(title: str, values: dict[str, object]) -> object:
    """A two-column table; nested values are laid out one per line."""
    from rich.table import Table
    from rich.text import Text

    table = Table(title=title, show_header=False, title_justify="left")
    for key, value in values.items():
        if value is None or value == {}:
            continue
        nested = "\n".join(f"{name}: {item}" for name, item in value.items()) if isinstance(value, dict) else str(value)
        table.add_row(Text(key), Text(nested))
    return table
