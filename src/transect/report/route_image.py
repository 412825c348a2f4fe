"""The curve of routing as a PNG: accuracy against cost, beside each model alone, chance and the oracle."""

import os

import numpy as np
from matplotlib.figure import Figure

from transect.decide import RoutePoint, Routing
from transect.report.images import GRID, INK, SOFT, clean, new_figure, plain, save
from transect.report.palette import OTHERS, PROBE, UNTRAINED


def route_image(routing: Routing) -> Figure:
    """Every tradeoff with its intervals, the point that was chosen on other rows, and what routing must beat."""
    figure = new_figure(5.0)
    axes = figure.add_subplot()
    clean(axes)
    axes.grid(color=GRID)
    order = np.argsort([point.cost.value for point in routing.curve])
    line = [routing.curve[index] for index in order]
    cost, accuracy = [point.cost.value for point in line], [point.accuracy.value for point in line]
    axes.fill_between(cost, [p.accuracy.low for p in line], [p.accuracy.high for p in line], color=PROBE, alpha=0.15, linewidth=0)
    axes.plot(cost, accuracy, color=PROBE, marker="o", markersize=4, label="routing, every tradeoff")

    def mark(point: RoutePoint, label: str, colour: str, marker: str) -> None:
        x, y = point.cost, point.accuracy
        spread = [[y.value - y.low], [y.high - y.value]]
        axes.errorbar(x.value, y.value, yerr=spread, color=colour, marker=marker, markersize=8, linestyle="none", capsize=3, label=label)

    for index, point in enumerate(routing.singles):
        mark(point, f"always {plain(point.name)}", OTHERS[index % len(OTHERS)], "s")
    mark(routing.random, "a model at random", SOFT, "X")
    mark(routing.oracle, "the cheapest that is right (oracle)", INK, "*")
    mark(routing.chosen, "routing, chosen on other rows", UNTRAINED, "D")
    axes.set_xlabel("mean cost of a query", color=INK)
    axes.set_ylabel("share answered rightly", color=INK)
    axes.set_xlim(left=0)
    axes.legend(frameon=False, fontsize=9, loc="lower right")
    return figure


def write_route_image(routing: Routing, path: str | os.PathLike[str]) -> None:
    """Write the curve as a PNG; it appears whole or not at all.

    Raises:
        StoreError: the file cannot be written.
    """
    save(route_image(routing), path)
