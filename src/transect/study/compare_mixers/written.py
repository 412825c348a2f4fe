"""A comparison in a folder: the table, the numbers, and the picture."""

import csv
import io
from pathlib import Path

from transect._files import write_json, write_text
from transect.report.mixers_across_image import write_mixers_across_image
from transect.report.mixers_image import write_mixers_image
from transect.study.compare_mixers.compare import RESULT
from transect.study.compare_mixers.records import Comparison, LayerResult


def write_comparison(comparison: Comparison, folder: str | Path) -> list[Path]:
    """Write ``table.csv``, ``compare.png`` and, last, ``compare.json``; what was written.

    A task whose tests have a second axis has a heat map of it, too: ``depths.png`` for the axis depth.

    Raises:
        StoreError: a file cannot be written.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    names, rows = comparison.table()
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([names, *rows])
    paths = [folder / "table.csv", folder / "compare.png", folder / RESULT]
    write_text(paths[0], text.getvalue())
    lines = {layer.name: _line(layer, comparison) for layer in comparison.layers}
    curves = {layer.name: [run.curve for run in layer.runs] for layer in comparison.layers}
    diverged = {layer.name: [run.diverged for run in layer.runs if run.diverged is not None] for layer in comparison.layers}
    inside = [test for test, trained in comparison.tests.items() if trained]
    write_mixers_image(
        curves,
        lines,
        paths[1],
        task=comparison.task,
        harder=comparison.harder,
        chance=comparison.chance,
        trained=max(inside),
        diverged=diverged,
        seeds=comparison.settings["settings"]["seeds"],
    )
    across = comparison.across
    if across is not None:
        paths.insert(2, folder / f"{across.name}s.png")
        write_mixers_across_image(
            {layer.name: _grid(layer, comparison) for layer in comparison.layers},
            paths[2],
            task=comparison.task,
            harder=comparison.harder,
            tests=comparison.tests,
            across=across.name,
            points=across.points,
            ends=across.ends,
            chance=max(comparison.chance.values()),
            seeds={layer.name: (len(layer.finished), len(layer.runs)) for layer in comparison.layers},
        )
    write_json(paths[-1], comparison.to_json())
    return paths


def _grid(layer: LayerResult, comparison: Comparison) -> list[tuple[float, ...]]:
    columns = [layer.accuracies_across(test) for test in comparison.tests]
    return [column for column in columns if column is not None]


def _line(layer: LayerResult, comparison: Comparison) -> list[tuple[int, float, float, float]]:
    found = []
    for test in comparison.tests:
        mean, spread = layer.accuracy(test), layer.spread(test)
        if mean is not None and spread is not None:
            found.append((test, mean, *spread))
    return found
