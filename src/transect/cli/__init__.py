"""The command line: one small file per command."""

import sys

import typer
from rich.console import Console

from transect.cli.capture import capture
from transect.cli.certify import certify
from transect.cli.inspect import inspect
from transect.cli.mixers import mixers
from transect.cli.probe import probe
from transect.cli.route import route
from transect.cli.score import score
from transect.cli.stress import stress
from transect.errors import TransectError

__all__ = ["app", "main"]

app = typer.Typer(
    name="transect",
    help="Read, test and trust the linear structure inside neural networks.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
for command in (probe, score, inspect, capture, stress, certify, route):
    app.command()(command)
app.add_typer(mixers)


def main() -> None:
    """Run the command line; a mistake of the user's ends with one clear sentence and exit status 2, not a traceback."""
    console = Console(stderr=True, highlight=False)
    try:
        app()
    except TransectError as error:
        console.print(f"error: {error}", markup=False, soft_wrap=True)
        sys.exit(2)
    except KeyboardInterrupt:
        console.print("stopped. What was captured is kept; the same command with --resume goes on from there.")
        sys.exit(130)
