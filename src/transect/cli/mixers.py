"""`transect mixers`: sequence layers side by side."""

from pathlib import Path
from typing import Annotated

import typer

mixers = typer.Typer(
    name="mixers", help="Linear-time sequence layers, side by side.", no_args_is_help=True, add_completion=False, rich_markup_mode=None
)


@mixers.callback()
def _group() -> None:
    """Linear-time sequence layers, side by side."""


@mixers.command()
def compare(
    task: Annotated[str, typer.Option(help="recall, capacity, needle, parity, modular, s3, a5, s5, or perplexity.")],
    layers: Annotated[
        str, typer.Option(help="Names, comma-separated, with settings where wanted: gdn,deltanet:allow_neg_eigval=true,attention.")
    ],
    out: Annotated[Path | None, typer.Option(help="The folder to write: table, picture, numbers, and the state of every training.")] = None,
    text: Annotated[Path | None, typer.Option(help="A file for the task perplexity; default: sentences of the built-in sets.")] = None,
    length: Annotated[int | None, typer.Option(help="Tokens of a training sequence.")] = None,
    pairs: Annotated[int | None, typer.Option(help="Pairs in a training sequence, for recall and capacity.")] = None,
    vocab: Annotated[int | None, typer.Option(help="Tokens there are, for recall, capacity and needle.")] = None,
    power: Annotated[
        float | None,
        typer.Option(
            help="For recall: gaps before queries are drawn from this power law, above 0 to 1; Zoology has 0.01. Default: uniformly."
        ),
    ] = None,
    hidden_size: Annotated[int, typer.Option(help="The width of the residual stream.")] = 64,
    heads: Annotated[int, typer.Option(help="Heads of each layer.")] = 2,
    depth: Annotated[int, typer.Option(help="Blocks.")] = 2,
    feed_forward: Annotated[str | None, typer.Option(help="What follows each layer: swiglu, bilinear, moe; default: nothing.")] = None,
    steps: Annotated[int, typer.Option(help="Training steps at most; a layer that has learnt the task stops.")] = 1000,
    batch: Annotated[int, typer.Option(help="Sequences in a step.")] = 64,
    lr: Annotated[
        str,
        typer.Option("--lr", "--learning-rates", help="Learning rates, comma-separated; the best on validation sequences is tested."),
    ] = "0.003",
    seeds: Annotated[int, typer.Option(help="Runs of each layer and learning rate; the table has their mean, lowest and highest.")] = 1,
    every: Annotated[int, typer.Option(help="Steps between validations.")] = 100,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with a comparison that was stopped.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace what is in the folder.")] = False,
) -> None:
    """Train layers alike on a small task, and test them within and beyond what they were trained on."""
    from rich.console import Console

    from transect.cli.tables import listed, print_table
    from transect.errors import InputError
    from transect.study.compare_mixers import CompareSettings, compare_mixers, make_task, write_comparison

    try:
        rates = tuple(float(rate) for rate in listed(lr))
    except ValueError:
        raise InputError(f"--lr takes numbers, got {lr!r}; for example --lr 0.001,0.003.") from None
    given = {"length": length, "pairs": pairs, "vocab": vocab, "power": power}
    sizes = {name: value for name, value in given.items() if value is not None}
    settings = CompareSettings(
        hidden_size=hidden_size,
        num_heads=heads,
        depth=depth,
        feed_forward=feed_forward,
        steps=steps,
        batch_size=batch,
        learning_rates=rates,
        seeds=seeds,
        every=every,
    )
    if out is None and (resume or overwrite):
        raise InputError("--resume and --overwrite are about a folder; give it with --out.")
    found = compare_mixers(
        make_task(task, sizes, text=text), listed(layers), settings=settings, out=out, resume=resume, overwrite=overwrite
    )
    console = Console(highlight=False)
    print_table(console, *found.table())
    for note in found.notes():
        console.print(note, markup=False, soft_wrap=True)
    if out is not None:
        for path in write_comparison(found, out):
            console.print(f"written: {path}", markup=False, soft_wrap=True)


@mixers.command()
def theory(
    layers: Annotated[
        str, typer.Option(help="Names, comma-separated, with settings where wanted: gdn,deltanet:allow_neg_eigval=true.")
    ] = "",
    expressiveness: Annotated[
        bool,
        typer.Option("--expressiveness", help="Show what a linear recurrence expresses with a linear readout and with a hidden layer."),
    ] = False,
    seed: Annotated[int, typer.Option(help="The seed of weights and inputs.")] = 0,
) -> None:
    """Measure untrained layers.

    The rank of their interactions and how these fade with distance; how the state grows; the norm and the lowest eigenvalue of a step's Jacobian;
    and how wrongly least squares reads small changes of 16 inputs back from all that a layer remembers: 0 loses nothing, 1 keeps nothing.
    """
    from rich.console import Console

    from transect.cli.tables import listed, print_table
    from transect.errors import InputError
    from transect.study.compare_mixers import layer_spec
    from transect.study.mixers_theory import expressiveness_table, theory_table

    names, console = listed(layers), Console(highlight=False)
    if not names and not expressiveness:
        raise InputError("expected --layers with at least one name, or --expressiveness, got neither.")
    if names:
        head, rows = theory_table([layer_spec(name) for name in names], seed=seed)
        print_table(console, head, [[name, *row[1:]] for name, row in zip(names, rows, strict=True)])
    if expressiveness:
        print_table(console, *expressiveness_table(seed=seed))
