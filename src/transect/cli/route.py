"""`transect route`: which of several models should answer each query, by their own success probes."""

from pathlib import Path
from typing import Annotated

import typer

from transect.cli import options


def route(
    probes: Annotated[str, typer.Option(help="The probe of each model, comma-separated: small.safetensors,large.safetensors.")],
    costs: Annotated[str, typer.Option(help="What an answer of each model costs, in any one unit: 1,12.")],
    data: Annotated[str, typer.Option(help="A file of queries.")],
    models: Annotated[str, typer.Option(help="The models, in the order of the probes: hub ids, folders, .gguf files.")],
    success: Annotated[
        str | None, typer.Option(help="A column for each model with 1 where it answered rightly and 0 where not; measures the routing.")
    ] = None,
    rule: Annotated[
        str, typer.Option(help="utility: largest p - tradeoff * cost. adequate: the cheapest model with p of at least the tradeoff.")
    ] = "utility",
    tradeoff: Annotated[float | None, typer.Option(help="Of the rule; default: chosen by cross-fitting where success is known.")] = None,
    text: options.Text = None,
    group: options.Group = None,
    messages: options.Messages = None,
    chat: options.Chat = False,
    truncate: options.Truncate = False,
    out: options.Folder = None,
    device: options.Device = "auto",
    dtype: options.Dtype = None,
    force: Annotated[bool, typer.Option("--force", help="Go on although a probe was fitted on another model.")] = False,
) -> None:
    """Route queries between models by probes that tell each model's success before it generates."""
    import numpy as np
    from rich.console import Console

    from transect.cli.tables import listed, print_table
    from transect.data import read_table
    from transect.errors import InputError
    from transect.linear import Readout
    from transect.models import load
    from transect.study.route import read_success, route_queries, success_probabilities, unseen_queries

    names, files = listed(models), listed(probes)
    try:
        prices = [float(cost) for cost in listed(costs)]
    except ValueError:
        raise InputError(f"--costs takes numbers, one for each model, got {costs!r}; for example --costs 1,12.") from None
    if not len(names) == len(files) == len(prices):
        raise InputError(f"expected as many --probes and --costs as --models, got {len(files)}, {len(prices)} and {len(names)}.")
    if rule not in ("utility", "adequate"):
        raise InputError(f"--rule must be utility or adequate, got {rule!r}.")
    table = read_table(data, text=text, group=group, messages=messages)
    answered = None if success is None else listed(success)
    # Every file is read before any model is loaded, so that a wrong one is found at once.
    readouts = [Readout.load(file) for file in files]
    notes: tuple[str, ...] = ()
    if answered:
        read_success(table, answered)
        table, notes = unseen_queries(table, dict(zip(names, zip(files, readouts, strict=True), strict=True)))
    columns = []
    for name, readout in zip(names, readouts, strict=True):
        # One model at a time is in memory.
        model = load(name, device=device, dtype=dtype)
        columns.append(success_probabilities(readout, model, table, chat=chat, truncate=truncate, force=force))
        del model
    done = route_queries(
        table,
        np.stack(columns, axis=1),
        prices,
        models=_told_apart(names),
        success=answered,
        rule=rule,
        tradeoff=tradeoff,
    )
    console = Console(highlight=False)
    if done.routing is None:
        print_table(console, *done.table())
    else:
        print_table(console, *done.routing.table())
        routing = done.routing
        console.print(
            f"Chosen on other rows: accuracy {routing.chosen.accuracy}; minus that of the best single model {routing.accuracy_gap} "
            f"({routing.best}); share of its cost saved {routing.saving}. A coin between two models at that cost: {routing.coin:.2f}.",
            markup=False,
            soft_wrap=True,
        )
    console.print(f"tradeoff {done.tradeoff:.4g} ({done.tradeoff_from})", markup=False, soft_wrap=True)
    for note in notes:
        console.print(note, markup=False, soft_wrap=True)
    if out is not None:
        for path in done.write(out):
            console.print(f"written: {path}", markup=False, soft_wrap=True)


def _told_apart(names: list[str]) -> list[str]:
    """The last part of each name where that tells them apart."""
    short = [Path(name).name for name in names]
    return short if len(set(short)) == len(names) else names
