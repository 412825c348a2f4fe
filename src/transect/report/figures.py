"""The two interactive charts of the page, as plotly figures. Colours of text and grid are set by the page, for light and dark."""

import html
from collections.abc import Sequence
from typing import Any

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from transect.report.palette import PROBE, UNTRAINED, class_colours
from transect.report.records import Histogram
from transect.report.report import Report
from transect.report.view import band_of, baseline_lines, curve_range, interval, metric_title, number, short_site, ticks

DASHES = ("dash", "dot", "dashdot", "longdash", "longdashdot", "dash")
MOST_ERROR_BARS = 40
"""With more sites than this, intervals are drawn as a ribbon instead of bars."""


def plain(text: str) -> str:
    """Text that plotly shows as it is: it would read tags as formatting."""
    return html.escape(text, quote=False)


def _faded(colour: str, opacity: float) -> str:
    red, green, blue = (int(colour[start : start + 2], 16) for start in (1, 3, 5))
    return f"rgba({red},{green},{blue},{opacity})"


def _ribbon(lows: Sequence[float], highs: Sequence[float], *, opacity: float) -> go.Scatter:
    positions = list(range(len(lows)))
    outline = [*positions, *reversed(positions)]
    edge = [*highs, *reversed(lows)]
    return go.Scatter(x=outline, y=edge, fill="toself", fillcolor=_faded(PROBE, opacity), line={"width": 0}, hoverinfo="skip", mode="lines")


def _probe(report: Report) -> go.Scatter:
    points = report.by_site
    estimates = [point.test for point in points]
    bars = {
        "type": "data",
        "symmetric": False,
        "array": [estimate.high - estimate.value if estimate.has_interval else None for estimate in estimates],
        "arrayminus": [estimate.value - estimate.low if estimate.has_interval else None for estimate in estimates],
        "thickness": 1.4,
        "width": 3,
        "visible": len(points) <= MOST_ERROR_BARS,
    }
    chosen = [point.site == report.selected.site for point in points]
    marker = {"size": [13 if here else 6 for here in chosen], "symbol": ["diamond" if here else "circle" for here in chosen], "opacity": 1}
    hover = [
        f"<b>{plain(point.site)}</b><br>test {number(point.test.value)} {interval(point.test)}<br>validation {number(point.validation)}"
        for point in points
    ]
    return go.Scatter(
        x=list(range(len(points))),
        y=[estimate.value for estimate in estimates],
        error_y=bars,
        mode="lines+markers",
        line={"color": PROBE, "width": 2.2},
        marker=marker,
        hovertext=hover,
        hoverinfo="text",
        name="probe",
    )


def _untrained(report: Report) -> go.Scatter:
    values = [point.untrained for point in report.by_site]
    return go.Scatter(
        x=list(range(len(values))),
        y=values,
        mode="lines+markers",
        line={"color": UNTRAINED, "width": 2, "dash": "dash"},
        marker={"size": 5, "symbol": "square"},
        hovertext=[f"untrained model, {plain(point.site)}: {number(point.untrained)}" for point in report.by_site],
        hoverinfo="text",
        name="untrained",
    )


def _horizontals(report: Report) -> list[go.Scatter]:
    ends = [-0.5, len(report.by_site) - 0.5]
    middle = [end * share + ends[0] * (1 - share) for end, share in ((ends[1], step / 20) for step in range(21))]
    return [
        go.Scatter(
            x=middle,
            y=[line.estimate.value] * len(middle),
            mode="lines",
            line={"color": line.colour, "width": 1.6, "dash": DASHES[index % len(DASHES)]},
            hovertext=f"{plain(line.name)}: {number(line.estimate.value)} {interval(line.estimate)}",
            hoverinfo="text",
            name=line.name,
        )
        for index, line in enumerate(baseline_lines(report))
    ]


def _marks(report: Report) -> dict[str, Any]:
    """The chance line and the line of the chosen site, with their words."""
    position = [point.site for point in report.by_site].index(report.selected.site)
    left = position < len(report.by_site) / 2
    chance = {"type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": report.metric.chance, "y1": report.metric.chance}
    chosen = {"type": "line", "yref": "paper", "y0": 0, "y1": 1, "x0": position, "x1": position}
    return {
        "shapes": [
            {**chance, "line": {"width": 1}, "layer": "below"},
            {**chosen, "line": {"width": 1, "dash": "dot"}, "layer": "below"},
        ],
        "annotations": [
            {
                "text": f"chance<br>{number(report.metric.chance, 1)}",
                "xref": "paper",
                "x": 1.005,
                "y": report.metric.chance,
                "xanchor": "left",
            }
            | {"yanchor": "middle", "showarrow": False, "font": {"size": 11}},
            {"text": f"chosen: {plain(report.selected.site)}", "yref": "paper", "y": 0.01, "x": position, "showarrow": False}
            | {"xanchor": "left" if left else "right", "yanchor": "bottom", "xshift": 4 if left else -4},
        ],
    }


def _named_sites(report: Report, *, room: int) -> dict[str, Any]:
    sites = [point.site for point in report.by_site]
    shown = ticks(sites, report.selected.site, room=room)
    return {"tickvals": shown, "ticktext": [plain(short_site(sites[position])) for position in shown]}


def curve_figure(report: Report) -> go.Figure:
    """The score at every site with intervals, the untrained model's curve, the baselines and chance."""
    points = report.by_site
    traces: list[go.Scatter] = []
    if band := band_of(report):
        traces.append(_ribbon(*band, opacity=0.13))
    if len(points) > MOST_ERROR_BARS and all(point.test.has_interval for point in points):
        traces.append(_ribbon([point.test.low for point in points], [point.test.high for point in points], opacity=0.22))
    traces += _horizontals(report)
    if any(point.untrained is not None for point in points):
        traces.append(_untrained(report))
    traces.append(_probe(report))
    figure = go.Figure(traces)
    figure.update_layout(
        template=None,
        showlegend=False,
        height=430,
        margin={"l": 56, "r": 52, "t": 14, "b": 52},
        hovermode="closest",
        meta={"named": _named_sites(report, room=30)},
        xaxis={
            "title": {"text": "site, from shallow to deep"},
            **_named_sites(report, room=110),
            "range": [-0.5, len(points) - 0.5],
            "zeroline": False,
            "showgrid": False,
            "tickangle": 0 if all(len(short_site(point.site)) <= 5 for point in points) else -60,
        },
        yaxis={"title": {"text": metric_title(report.metric.name)}, "range": list(curve_range(report)), "zeroline": False},
        **_marks(report),
    )
    return figure


def _bars(histogram: Histogram) -> list[go.Bar]:
    centres = [(low + high) / 2 for low, high in zip(histogram.edges[:-1], histogram.edges[1:], strict=True)]
    widths = [high - low for low, high in zip(histogram.edges[:-1], histogram.edges[1:], strict=True)]
    colours = class_colours(len(histogram.counts))
    return [
        go.Bar(
            x=centres,
            y=counts,
            width=widths,
            marker={"color": colour, "opacity": 0.62, "line": {"width": 0}},
            hovertemplate=f"{plain(histogram.table)}, {plain(name)}: %{{y}} texts near %{{x:.3g}}<extra></extra>",
            name=plain(name),
        )
        for (name, counts), colour in zip(histogram.counts.items(), colours, strict=True)
    ]


def histogram_figure(histograms: Sequence[Histogram]) -> go.Figure:
    """The scores of each table, one above the other on a common axis, a colour for each class."""
    rows = len(histograms)
    titles = [plain(histogram.table) for histogram in histograms]
    gap = 0.32 / rows
    figure = make_subplots(rows=rows, cols=1, shared_xaxes=True, vertical_spacing=gap, subplot_titles=titles)
    for row, histogram in enumerate(histograms, start=1):
        for bar in _bars(histogram):
            figure.add_trace(bar, row=row, col=1)
        if histogram.threshold is not None:
            figure.add_vline(x=histogram.threshold, line={"width": 1.2, "dash": "dot"}, row=row, col=1)  # type: ignore[arg-type]
    figure.update_annotations(x=0, xanchor="left", font={"size": 13})
    figure.update_xaxes(zeroline=False, showgrid=False)
    figure.update_yaxes(zeroline=False, rangemode="tozero", nticks=4)
    figure.update_xaxes(title={"text": plain(histograms[0].score)}, row=rows, col=1)
    figure.update_yaxes(title={"text": "texts"}, row=(rows + 1) // 2, col=1)
    margin = {"l": 56, "r": 14, "t": 30, "b": 52}
    figure.update_layout(template=None, showlegend=False, barmode="overlay", bargap=0, height=90 + 130 * rows, margin=margin)
    return figure
