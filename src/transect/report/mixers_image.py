"""Sequence layers on a task as a PNG: how they learn it, and how far it carries."""

import os
from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from transect.report.images import GRID, INK, SOFT, clean, new_figure, plain, save
from transect.report.palette import class_colours

_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
_DASHES = ("-", "--", "-.", ":")


def mixers_image(
    curves: Mapping[str, Sequence[Sequence[tuple[int, float]]]],
    tests: Mapping[str, Sequence[tuple[int, float, float, float]]],
    *,
    task: str,
    harder: str,
    chance: Mapping[int, float],
    trained: int,
    diverged: Mapping[str, Sequence[int]],
    seeds: int,
) -> Figure:
    """Accuracy against training steps on the left, against what grows harder on the right.

    Args:
        curves: by layer, and seed by seed, steps and validation accuracies.
        tests: by layer, what each test is of, the mean accuracy, and the lowest and highest of the seeds; none for a layer that diverged.
        task: its name.
        harder: what grows from test to test.
        chance: by test, the accuracy without the sequence.
        trained: the last test that is within what was trained on.
        diverged: by layer, the steps at which trainings diverged; a cross on the left and a word in the legend.
        seeds: of each layer; with more than one, bars reach from the lowest to the highest.
    """
    figure = new_figure(4.6)
    left, right = figure.subplots(1, 2, sharey=True)
    for axes, label in ((left, "training steps"), (right, harder)):
        clean(axes)
        axes.grid(color=GRID)
        axes.set_xlabel(label, color=INK)
    colours = class_colours(len(curves))
    for place, name in enumerate(curves):
        style = {"color": colours[place], "linestyle": _DASHES[place // len(_MARKERS) % len(_DASHES)]}
        marker = _MARKERS[place % len(_MARKERS)]
        for curve in curves[name]:
            steps, values = [step for step, _ in curve], [value for _, value in curve]
            left.plot(steps, values, marker=marker, markersize=3, linewidth=1.5 if seeds == 1 else 0.9, **style)
        lost = list(diverged[name])
        if lost:  # one above another, since layers often diverge at one step
            left.plot(lost, [0.03 + 0.05 * place] * len(lost), "x", color=colours[place], markersize=8, markeredgewidth=2.2, zorder=5)
        words = "" if not lost else " (diverged)" if len(lost) == seeds else f" ({len(lost)} of {seeds} diverged)"
        values = [value for _, value, *_ in tests[name]]
        reach = [[value - low for _, value, low, _ in tests[name]], [high - value for _, value, _, high in tests[name]]]
        # Layers side by side: bars at one place would hide each other.
        shift = 1.0 if seeds == 1 else 2 ** (0.05 * (place - (len(curves) - 1) / 2))
        points = [point * shift for point, *_ in tests[name]]
        bars = reach if seeds > 1 and points else None
        label = plain(name) + words
        right.errorbar(points, values, yerr=bars, marker=marker, markersize=5, capsize=3, elinewidth=1.2, label=label, **style)
    right.set_xscale("log", base=2)
    places = sorted(chance)
    right.set_xticks(places, [str(place) for place in places])
    right.minorticks_off()
    if trained < places[-1]:
        right.axvspan(trained, places[-1], color=SOFT, alpha=0.08, linewidth=0)
        right.text(trained, 1.03, " beyond training", color=SOFT, fontsize=8)
    right.plot(list(chance), list(chance.values()), color=SOFT, linestyle=":", linewidth=1.2, label="chance")
    left.set_ylabel(f"share of right answers ({plain(task)})", color=INK)
    left.set_ylim(0, 1.08)
    left.set_xlim(left=0)
    left.xaxis.set_major_locator(MaxNLocator(integer=True))
    if seeds > 1:
        right.set_title(f"{seeds} seeds: mean, lowest and highest", loc="right", fontsize=8.5, color=SOFT)
    figure.legend(frameon=False, fontsize=8, loc="outside upper center", ncols=min(len(curves) + 1, 4))
    return figure


def write_mixers_image(
    curves: Mapping[str, Sequence[Sequence[tuple[int, float]]]],
    tests: Mapping[str, Sequence[tuple[int, float, float, float]]],
    path: str | os.PathLike[str],
    *,
    task: str,
    harder: str,
    chance: Mapping[int, float],
    trained: int,
    diverged: Mapping[str, Sequence[int]],
    seeds: int,
) -> None:
    """Write the picture as a PNG; it appears whole or not at all.

    Raises:
        StoreError: the file cannot be written.
    """
    figure = mixers_image(curves, tests, task=task, harder=harder, chance=chance, trained=trained, diverged=diverged, seeds=seeds)
    save(figure, path)
