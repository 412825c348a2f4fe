"""Sequence layers on a task as a PNG: how they learn it, and how far it carries."""

import os
from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure

from transect.report.images import GRID, INK, SOFT, clean, new_figure, plain, save
from transect.report.palette import class_colours

_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
_DASHES = ("-", "--", "-.", ":")


def mixers_image(
    curves: Mapping[str, Sequence[tuple[int, float]]],
    tests: Mapping[str, Sequence[tuple[int, float, float, float]]],
    *,
    task: str,
    harder: str,
    chance: Mapping[int, float],
    trained: int,
) -> Figure:
    """Accuracy against training steps on the left, against what grows harder on the right.

    Args:
        curves: by layer, steps and validation accuracies.
        tests: by layer, what each test is of, the mean accuracy, and the lowest and highest of the seeds.
        task: its name.
        harder: what grows from test to test.
        chance: by test, the accuracy without the sequence.
        trained: the last test that is within what was trained on.
    """
    figure = new_figure(4.6)
    left, right = figure.subplots(1, 2, sharey=True)
    for axes, label in ((left, "training steps"), (right, harder)):
        clean(axes)
        axes.grid(color=GRID)
        axes.set_xlabel(label, color=INK)
    colours = class_colours(len(curves))
    for place, name in enumerate(curves):
        style = {
            "color": colours[place],
            "linestyle": _DASHES[place // len(_MARKERS) % len(_DASHES)],
            "marker": _MARKERS[place % len(_MARKERS)],
        }
        left.plot([steps for steps, _ in curves[name]], [value for _, value in curves[name]], markersize=3, **style)
        points = [point for point, *_ in tests[name]]
        right.fill_between(
            points, [low for *_, low, _ in tests[name]], [high for *_, high in tests[name]], color=colours[place], alpha=0.15, linewidth=0
        )
        right.plot(points, [value for _, value, *_ in tests[name]], markersize=5, label=plain(name), **style)
    right.set_xscale("log", base=2)
    places = sorted({point for each in tests.values() for point, *_ in each})
    right.set_xticks(places, [str(place) for place in places])
    right.minorticks_off()
    if trained < places[-1]:
        right.axvspan(trained, places[-1], color=SOFT, alpha=0.08, linewidth=0)
        right.text(trained, 1.03, " beyond training", color=SOFT, fontsize=8)
    right.plot(list(chance), list(chance.values()), color=SOFT, linestyle=":", linewidth=1.2, label="chance")
    left.set_ylabel(f"share of right answers ({plain(task)})", color=INK)
    left.set_ylim(0, 1.08)
    figure.legend(frameon=False, fontsize=8, loc="outside upper center", ncols=min(len(curves) + 1, 4))
    return figure


def write_mixers_image(
    curves: Mapping[str, Sequence[tuple[int, float]]],
    tests: Mapping[str, Sequence[tuple[int, float, float, float]]],
    path: str | os.PathLike[str],
    *,
    task: str,
    harder: str,
    chance: Mapping[int, float],
    trained: int,
) -> None:
    """Write the picture as a PNG; it appears whole or not at all.

    Raises:
        StoreError: the file cannot be written.
    """
    save(mixers_image(curves, tests, task=task, harder=harder, chance=chance, trained=trained), path)
