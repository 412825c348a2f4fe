"""`transect stress`: the page "how this probe can be fooled", added to its report."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from transect.cli import options

if TYPE_CHECKING:
    from transect.data.rewriting.apply import LabelEffect


def stress(
    run: Annotated[Path, typer.Argument(help="The folder of a finished transect probe.")],
    model: Annotated[str | None, typer.Option(help="Where the model is now; default: where the report says it was.")] = None,
    negation: Annotated[
        str | None, typer.Option(help="What negating a text does to its label, if the table does not say: keeps, flips.")
    ] = None,
    entity_swap: Annotated[str | None, typer.Option(help="What other entities do to the label, if the table does not say: keeps.")] = None,
    prompts: Annotated[bool, typer.Option(help="Also read every text after each of several instructions.")] = True,
    permutations: Annotated[int, typer.Option(help="Shuffled labellings behind every p value.", min=20)] = 200,
    seed: Annotated[int, typer.Option(help="The seed of everything random.")] = 0,
    device: options.Device = "auto",
    dtype: options.Dtype = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Read everything again instead of going on.")] = False,
) -> None:
    """Try to fool a finished probe in every way we know, and add the page to its report."""
    from rich.console import Console

    from transect.report import load_report, print_stress
    from transect.study import StressSettings
    from transect.study import stress as run_stress
    from transect.study.reopen import model_of

    settings = StressSettings(  # which checks what the user wrote
        negation=cast("LabelEffect | None", negation),
        entity_swap=cast("LabelEffect | None", entity_swap),
        prompts=prompts,
        permutations=permutations,
        seed=seed,
    )
    loaded = model_of(load_report(run), model, device=device, dtype=dtype)
    console = Console()
    print_stress(run_stress(run, model=loaded, settings=settings, overwrite=overwrite), console)
    console.print(f"page  {run / 'stress.html'}", soft_wrap=True, highlight=False)
