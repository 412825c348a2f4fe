"""A stress test as one picture: every measurement with its interval, one panel for each way of fooling the probe."""

import os

import numpy as np
from matplotlib.axes import Axes

from transect.errors import InputError
from transect.report import view
from transect.report.images import GRID, INK, SOFT, clean, new_figure, plain, save
from transect.report.palette import PROBE, UNTRAINED
from transect.report.stress import StressFinding, StressReport

STATUS_COLOURS = {"holds": "#0b6b4f", "weakens": "#6d4a00", "fooled": "#a33612", "unclear": SOFT}


def write_stress_image(report: StressReport, path: str | os.PathLike[str]) -> None:
    """Draw a stress test as a PNG, one panel under the other.

    Args:
        report: what to draw; it must have findings.
        path: the file.

    Raises:
        InputError: there is nothing to draw.
        StoreError: the file cannot be written.
    """
    findings = report.findings
    if not findings:
        raise InputError("expected a stress test with findings to draw, got one without.")
    heights = [1.5 + len(finding.points) for finding in findings]
    figure = new_figure(0.9 + 0.24 * sum(heights) + 0.25 * len(findings))
    panels = figure.subplots(len(findings), 1, squeeze=False, gridspec_kw={"height_ratios": heights})[:, 0]
    for axes, finding in zip(panels, findings, strict=True):
        _panel(axes, finding)
    figure.suptitle(plain(f"How the {report.table} probe at {report.site} can be fooled"), x=0.01, ha="left", fontsize=12, color=INK)
    save(figure, path)


def _panel(axes: Axes, finding: StressFinding) -> None:
    clean(axes)
    rows = np.arange(len(finding.points))
    values = np.array([point.estimate.value for point in finding.points])
    lows = np.array([point.estimate.low for point in finding.points])
    highs = np.array([point.estimate.high for point in finding.points])
    spread = np.maximum(0, np.nan_to_num([values - lows, highs - values]))
    for series in dict.fromkeys(point.series for point in finding.points):
        mine = np.array([point.series == series for point in finding.points])
        colour, marker = (UNTRAINED, "s") if series else (PROBE, "o")
        axes.errorbar(values[mine], rows[mine], xerr=spread[:, mine], fmt=marker, color=colour, markersize=4.5, capsize=2, linewidth=1.6)
    if finding.chance is not None:
        axes.axvline(finding.chance, color=SOFT, linewidth=1, linestyle="--", zorder=1)
    if finding.reference is not None:
        axes.axvline(finding.reference.value, color=SOFT, linewidth=1.8, zorder=1)
    labels = [f"{point.name} ({point.series})" if point.series else point.name for point in finding.points]
    axes.set_yticks(rows, [plain(label) for label in labels])
    axes.set_ylim(len(rows) - 0.5, -0.5)
    margin = 0.02 * (finding.high - finding.low)
    axes.set_xlim(finding.low - margin, finding.high + margin)
    axes.grid(axis="x", color=GRID, linewidth=0.8)
    title = f"{view.words(finding.name)}: {finding.status}   ({finding.measure})"
    axes.set_title(plain(title), loc="left", fontsize=9.5, color=STATUS_COLOURS[finding.status], pad=4)
