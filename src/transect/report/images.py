"""The main plots as PNG files, drawn from a `Report` alone, in the colours of the page."""

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import LinearSegmentedColormap, TwoSlopeNorm
from matplotlib.figure import Figure

from transect._files import atomic_path
from transect.report import view
from transect.report.palette import ABOVE, BELOW, MIDDLE, PROBE, UNTRAINED, class_colours, diverging, ink
from transect.report.records import Histogram, score
from transect.report.report import Report

WIDTH = 9.0
"""Inches; at `DPI` this is 1440 pixels."""
DPI = 160
INK, SOFT, GRID = "#16191d", "#59616b", "#e8ebef"
DASHES = ((0, (5, 3)), (0, (1, 2)), (0, (5, 2, 1, 2)), (0, (9, 3)), (0, (9, 2, 2, 2)), (0, (5, 3)))


def write_images(report: Report, folder: str | os.PathLike[str]) -> dict[str, Path]:
    """Write the PNG files that the report has data for; each appears whole or not at all.

    Args:
        report: what to draw.
        folder: where to write; made if it is missing.

    Returns:
        The path of each picture, by what it shows.

    Raises:
        StoreError: a file cannot be written.
    """
    draw: dict[str, tuple[str, Callable[[Report], Figure], bool]] = {
        "sites_image": (f"{report.metric.name}_by_layer.png", sites_image, True),
        "transfer_image": ("transfer.png", transfer_image, bool(report.transfer)),
        "scores_image": ("scores.png", scores_image, bool(report.score_histograms)),
    }
    written = {}
    for what, (name, picture, has_data) in draw.items():
        if has_data:
            written[what] = Path(folder) / name
            save(picture(report), written[what])
    return written


def save(figure: Figure, path: str | os.PathLike[str]) -> None:
    """Write a figure as a PNG; it appears whole or not at all."""
    with atomic_path(path) as temporary:
        figure.savefig(temporary, format="png", dpi=DPI, facecolor="white", metadata={"Software": "transect"})


def new_figure(height: float) -> Figure:
    """A figure with its own canvas: no pyplot, so nothing global and nothing to close."""
    figure = Figure(figsize=(WIDTH, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def clean(axes: Axes) -> None:
    """The look of every picture: two spines, soft ticks."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color("#c6ccd3")
    axes.tick_params(colors=SOFT, labelcolor=INK, labelsize=9)
    axes.set_axisbelow(True)


def plain(text: str) -> str:
    """Text that matplotlib shows as it is: it would read dollar signs as mathematics."""
    return text.replace("$", r"\$")


def sites_image(report: Report) -> Figure:
    """The score at every site with intervals, the untrained model, the baselines, and chance."""
    figure = new_figure(5.0)
    axes = figure.add_subplot()
    clean(axes)
    positions = np.arange(len(report.by_site))
    axes.axhline(report.metric.chance, color=SOFT, linewidth=1, zorder=1)
    axes.annotate(
        f"chance {view.number(report.metric.chance, 1)}",
        (1.006, report.metric.chance),
        xycoords=("axes fraction", "data"),
        va="center",
        color=SOFT,
        fontsize=8.5,
    )
    for index, line in enumerate(view.baseline_lines(report)):
        label = f"{line.name} {view.number(line.estimate.value)}"
        axes.axhline(
            line.estimate.value, color=line.colour, linewidth=1.5, linestyle=DASHES[index % len(DASHES)], label=plain(label), zorder=2
        )
    _curves(axes, report, positions)
    _site_axis(axes, report)
    axes.set_ylim(*view.curve_range(report))
    axes.grid(axis="y", color=GRID, linewidth=0.8)
    axes.set_ylabel(f"{view.metric_title(report.metric.name)} on held-out rows", color=INK)
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles[::-1], labels[::-1], loc="outside lower left", ncols=3, frameon=False, fontsize=9, handlelength=3.2)
    axes.set_title(plain(f"{report.data.train.name}, read from {report.model.name}"), loc="left", fontsize=12, color=INK, pad=12)
    return figure


def _curves(axes: Axes, report: Report, positions: np.ndarray) -> None:
    points = report.by_site
    if band := view.band_of(report):
        axes.fill_between(positions, *band, color=PROBE, alpha=0.14, linewidth=0, label="band for all sites at once", zorder=2)
    if any(point.untrained is not None for point in points):
        untrained = np.array([np.nan if point.untrained is None else point.untrained for point in points])
        axes.plot(
            positions, untrained, "s--", color=UNTRAINED, markersize=3.5, linewidth=1.7, label="same architecture, random weights", zorder=3
        )
    values, lows, highs = (np.array([getattr(point.test, end) for point in points]) for end in ("value", "low", "high"))
    label = f"probe, {100 * points[0].test.level:g}% interval"
    axes.errorbar(
        positions,
        values,
        yerr=np.maximum(0, np.nan_to_num([values - lows, highs - values])),  # no interval: a bar of no length
        fmt="o-",
        color=PROBE,
        markersize=4,
        linewidth=2,
        elinewidth=1.2,
        capsize=2.2 if len(points) <= 40 else 0,
        label=label,
        zorder=4,
    )


def _site_axis(axes: Axes, report: Report) -> None:
    sites = [point.site for point in report.by_site]
    here = sites.index(report.selected.site)
    shown = view.ticks(sites, report.selected.site, room=95)
    labels = [plain(view.short_site(sites[position])) for position in shown]
    crowded = max(len(label) for label in labels) > 5
    axes.set_xticks(shown, labels, rotation=60 if crowded else 0, ha="right" if crowded else "center")
    axes.set_xlim(-0.5, len(sites) - 0.5)
    axes.set_xlabel("site, from shallow to deep", color=INK)
    axes.axvline(here, color=SOFT, linewidth=1, linestyle=":", zorder=1)
    axes.plot([here], [report.by_site[here].test.value], "D", color=PROBE, markersize=7.5, markeredgecolor="white", zorder=5)
    left = here < len(sites) / 2
    text = plain(f"chosen: {sites[here]}")
    axes.annotate(
        text,
        (here, 0.015),
        xycoords=("data", "axes fraction"),
        xytext=(5 if left else -5, 0),
        textcoords="offset points",
        ha="left" if left else "right",
        fontsize=9,
        color=INK,
    )


def transfer_image(report: Report) -> Figure:
    """The transfer heat map: tables by sites, white at chance, numbers in the cells where there is room."""
    rows, sites = view.heat_rows(report), view.sites_of(report)
    figure = new_figure(1.55 + 0.45 * len(rows))
    axes = figure.add_subplot()
    low, high = view.bounds(report.metric)
    grid = np.array([[np.nan if cell is None else score(cell, report.metric).value for cell in row.cells] for row in rows])
    colours = LinearSegmentedColormap.from_list(
        "chance", [tuple(part / 255 for part in end) for end in (BELOW, MIDDLE, ABOVE)]
    ).with_extremes(bad="#d5d9de")
    image = axes.imshow(grid, cmap=colours, norm=TwoSlopeNorm(report.metric.chance, low, high), aspect="auto", interpolation="none")
    several = len({row.train for row in rows}) > 1
    names = [f"{row.train} \N{RIGHTWARDS ARROW} {row.test}" if several else row.test for row in rows]
    axes.set_yticks(range(len(rows)), [plain(name) for name in names])
    shown = view.ticks(sites, report.selected.site, room=95) if report.selected.site in sites else range(len(sites))
    axes.set_xticks(list(shown), [plain(view.short_site(sites[position])) for position in shown])
    axes.tick_params(length=0, labelsize=9, labelcolor=INK)
    axes.spines[:].set_visible(False)
    axes.set_xlabel("site, from shallow to deep", color=INK)
    _cells(axes, report, grid, sites)
    bar = figure.colorbar(image, ax=axes, fraction=0.03, pad=0.015, ticks=[low, report.metric.chance, high])
    bar.outline.set_visible(False)  # type: ignore[operator] - matplotlib leaves the outline's type open
    bar.ax.tick_params(length=0, labelsize=8.5, labelcolor=INK)
    trained = "" if several else f": trained on {rows[0].train}, scored on each row"
    axes.set_title(plain(f"{view.metric_title(report.metric.name)} by site{trained}"), loc="left", fontsize=11, color=INK, pad=10)
    return figure


def _cells(axes: Axes, report: Report, grid: np.ndarray, sites: tuple[str, ...]) -> None:
    low, high = view.bounds(report.metric)
    if len(sites) <= view.MOST_NUMBERS_IN_CELLS:
        for (row, column), value in np.ndenumerate(grid):
            if not np.isnan(value):
                colour = ink(diverging(value, low=low, middle=report.metric.chance, high=high))
                axes.text(column, row, view.number(value, 2), ha="center", va="center", fontsize=8, color=colour)
    if report.selected.site in sites:
        here = sites.index(report.selected.site)
        axes.add_patch(_outline(here, len(grid)))


def _outline(column: int, rows: int):  # noqa: ANN202 - matplotlib's patch is of no interest to a reader
    from matplotlib.patches import Rectangle

    return Rectangle((column - 0.5, -0.5), 1, rows, fill=False, edgecolor=INK, linewidth=1.8, clip_on=False)


def scores_image(report: Report) -> Figure:
    """The histograms of the scores, one table above the other on a common axis."""
    histograms = report.score_histograms
    figure = new_figure(1.2 + 1.35 * len(histograms))
    every = figure.subplots(len(histograms), 1, sharex=True, squeeze=False)[:, 0]
    for axes, histogram in zip(every, histograms, strict=True):
        _histogram(axes, histogram)
    every[-1].set_xlabel(plain(histograms[0].score), color=INK)
    handles, labels = every[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper right", ncols=min(6, len(labels)), frameon=False, fontsize=9)
    return figure


def _histogram(axes: Axes, histogram: Histogram) -> None:
    clean(axes)
    for (name, counts), colour in zip(histogram.counts.items(), class_colours(len(histogram.counts)), strict=True):
        axes.stairs(counts, histogram.edges, fill=True, color=colour, alpha=0.55, label=plain(name))
        axes.stairs(counts, histogram.edges, color=colour, linewidth=1.1)
    if histogram.threshold is not None:
        axes.axvline(histogram.threshold, color=SOFT, linewidth=1.1, linestyle=":")
    axes.grid(axis="y", color=GRID, linewidth=0.8)
    axes.set_ylabel("texts", color=INK, fontsize=9)
    axes.set_ylim(bottom=0)
    axes.set_title(plain(histogram.table), loc="left", fontsize=10, color=INK, pad=4)
