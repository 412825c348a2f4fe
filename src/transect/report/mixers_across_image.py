"""Where in a sequence a layer finds what it is asked for, as a PNG: a heat map for each layer, white at chance and below."""

import os
import textwrap
from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, Normalize
from matplotlib.figure import Figure

from transect.report.images import INK, SOFT, new_figure, plain, save
from transect.report.palette import ABOVE, MIDDLE, diverging, ink

_IN_A_ROW = 3


def mixers_across_image(
    layers: Mapping[str, Sequence[Sequence[float]]],
    *,
    task: str,
    harder: str,
    tests: Mapping[int, bool],
    across: str,
    points: Sequence[float],
    ends: tuple[str, str],
    chance: float,
    seeds: Mapping[str, tuple[int, int]],
) -> Figure:
    """Accuracy by what grows harder, from left to right, and by a second axis, from above to below.

    Args:
        layers: by layer, for each test the accuracy at every point; nothing for a layer that diverged.
        task: its name.
        harder: what grows from test to test.
        tests: what each test is of, and whether it is within what was trained on.
        across: the second axis.
        points: where it was tested.
        ends: what its first and last points are, in words.
        chance: the accuracy without the sequence.
        seeds: by layer, how many trainings the accuracies are a mean of, and how many there were.
    """
    columns = min(len(layers), _IN_A_ROW)
    rows = -(-len(layers) // columns)
    figure = new_figure(1.0 + rows * (0.75 + 0.36 * len(points)))
    every = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
    colours = LinearSegmentedColormap.from_list("chance", [tuple(part / 255 for part in end) for end in (MIDDLE, ABOVE)])
    norm = Normalize(chance, 1, clip=True)
    image = None
    for axes, name in zip(every.flat, layers, strict=False):
        image = axes.imshow(
            np.array(layers[name]).T if len(layers[name]) else np.full((len(points), len(tests)), chance),
            cmap=colours,
            norm=norm,
            aspect="auto",
            interpolation="none",
        )
        _panel(axes, layers[name], tests=tests, chance=chance)
        _title(axes, name, seeds[name], room=90 // columns)
        axes.set_xticks(range(len(tests)), [str(test) for test in tests])
        words = {0: ends[0], len(points) - 1: ends[1]}
        axes.set_yticks(range(len(points)), [f"{point:g}" + (f" ({words[at]})" if at in words else "") for at, point in enumerate(points)])
    for axes in every.flat[len(layers) :]:
        axes.set_visible(False)
    for place, axes in enumerate(every.flat):
        last = place + columns >= len(layers)
        axes.tick_params(length=0, labelsize=9, labelcolor=INK, labelbottom=last)
        if last:
            axes.set_xlabel(plain(harder), color=INK)
        if place % columns == 0:
            axes.set_ylabel(plain(across), color=INK)
    if image is not None:
        bar = figure.colorbar(image, ax=every, fraction=0.03, pad=0.015, ticks=[chance, 1])
        bar.ax.set_yticklabels([f"{chance:.2f}\nchance", "1"])
        bar.outline.set_visible(False)  # type: ignore[operator] - matplotlib leaves the outline's type open
        bar.ax.tick_params(length=0, labelsize=8.5, labelcolor=INK)
    title = f"share of right answers ({task}) by {harder} and {across}"
    if any(tests.values()) and not all(tests.values()):
        title += "; right of the line is beyond training"
    title += "; mean over seeds" if any(runs > 1 for _, runs in seeds.values()) else ""
    figure.suptitle(plain(title), x=0.01, ha="left", fontsize=10.5, color=INK)
    return figure


def _panel(axes: Axes, grid: Sequence[Sequence[float]], *, tests: Mapping[int, bool], chance: float) -> None:
    axes.spines[:].set_visible(False)
    for column, values in enumerate(grid):
        for row, value in enumerate(values):
            colour = ink(diverging(max(value, chance), low=0, middle=chance, high=1))
            axes.text(column, row, f"{value:.2f}", ha="center", va="center", fontsize=8, color=colour)
    if not grid:
        axes.text(0.5, 0.5, "diverged", transform=axes.transAxes, ha="center", va="center", color=SOFT)
        return
    inside = sum(tests.values())
    if 0 < inside < len(tests):
        axes.axvline(inside - 0.5, color=INK, linewidth=1.4)


def _title(axes: Axes, name: str, seeds: tuple[int, int], *, room: int) -> None:
    finished, runs = seeds
    told = name if finished in (0, runs) else f"{name} ({runs - finished} of {runs} seeds diverged)"
    axes.set_title(plain(textwrap.fill(told, room)), loc="left", fontsize=9.5, color=INK)


def write_mixers_across_image(
    layers: Mapping[str, Sequence[Sequence[float]]],
    path: str | os.PathLike[str],
    *,
    task: str,
    harder: str,
    tests: Mapping[int, bool],
    across: str,
    points: Sequence[float],
    ends: tuple[str, str],
    chance: float,
    seeds: Mapping[str, tuple[int, int]],
) -> None:
    """Write the picture as a PNG; it appears whole or not at all.

    Raises:
        StoreError: the file cannot be written.
    """
    figure = mixers_across_image(
        layers, task=task, harder=harder, tests=tests, across=across, points=points, ends=ends, chance=chance, seeds=seeds
    )
    save(figure, path)
