"""A comparison in a folder: the table, the numbers, and the picture."""

import csv
import io
from pathlib import Path

from transect._files import write_json, write_text
from transect.report.mixers_image import write_mixers_image
from transect.study.compare_mixers.compare import RESULT
from transect.study.compare_mixers.records import Comparison, LayerResult


def write_comparison(comparison: Comparison, folder: str | Path) -> list[Path]:
    """Write ``table.csv``, ``compare.png`` and, last, ``compare.json``; what was written.

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
    write_json(paths[2], comparison.to_json())
    return paths


def _line(layer: LayerResult, comparison: Comparison) -> list[tuple[int, float, float, float]]:
    found = []
    for test in comparison.tests:
        mean, spread = layer.accuracy(test), layer.spread(test)
        if mean is not None and spread is not None:
            found.append((test, mean, *spread))
    return found
