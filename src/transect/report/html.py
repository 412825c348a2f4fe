"""One page that opens offline: everything in a `Report`, with plotly inlined once and nothing fetched from anywhere."""

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import jinja2
from markupsafe import Markup

from transect.measure import Rule
from transect.report import view
from transect.report.palette import UNTRAINED, class_colours, diverging, ink
from transect.report.records import MetricInfo, WrongText, score
from transect.report.report import Report
from transect.report.schema import field_docs

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

SIGNS = {"yes": "✓", "no": "✕", "inverted": "⇅", "unclear": "?", "ok": "✓", "warn": "!", "fail": "✕"}
"""A sign beside each status, so that colour is never the only difference."""

SEVERITIES = ("fail", "warn", "ok")
SVG_DASHES = ("8 4", "2 3", "8 3 2 3", "12 4", "12 3 2 3", "8 4")
"""What plotly draws for the names in `figures.DASHES`, for the legend."""


def render_html(report: Report) -> str:
    """The page, as one string of HTML.

    Args:
        report: what to show.

    Raises:
        InputError: a score in the leading metric is missing, or a number is NaN or infinite.
    """
    report.to_json()  # refuses NaN here as in the JSON, before it becomes a hole in a chart
    page = _environment(report.metric).get_template("page.html")
    return page.render(report=report, metric=report.metric, main=score(report.test, report.metric), signs=SIGNS, **_page_values(report))


def _page_values(report: Report) -> dict[str, Any]:
    """What the page shows beside the report itself, all of it derived from the report."""
    from plotly.offline import get_plotlyjs  # plotly is slow to import, and reading a report does not need it

    from transect.report.figures import curve_figure, histogram_figure

    low, high = view.bounds(report.metric)
    return {
        "low": low,
        "high": high,
        "untrained_colour": UNTRAINED,
        "most_numbers": view.MOST_NUMBERS_IN_CELLS,
        "plotlyjs": Markup(get_plotlyjs()),  # the library's own source, not the user's text
        "curve": _figure_json(curve_figure(report)),
        "histograms": _figure_json(histogram_figure(report.score_histograms)) if report.score_histograms else "",
        **_overview(report),
        **_transfers(report),
        **_details(report),
    }


def _overview(report: Report) -> dict[str, Any]:
    scores = {name: score(base, report.metric) for name, base in report.baselines.items()}
    return {
        "strongest": max(scores.items(), key=lambda item: item[1].value) if scores else None,
        "colours": view.colours_of_baselines(report),
        "lines": list(zip(view.baseline_lines(report), SVG_DASHES * len(report.baselines), strict=False)),
        "has_band": view.band_of(report) is not None,
        "has_untrained": any(point.untrained is not None for point in report.by_site),
    }


def _transfers(report: Report) -> dict[str, Any]:
    sites = view.sites_of(report)
    dense = len(sites) > view.MOST_NUMBERS_IN_CELLS
    labelled = view.ticks(sites, report.selected.site, room=70) if dense and report.selected.site in sites else range(len(sites))
    return {
        "heat": view.heat_rows(report),
        "heat_sites": sites,
        "heat_ticks": labelled,
        "several_trains": len({row.train for row in report.transfer}) > 1,
        "chosen": view.chosen_transfers(report),
    }


def _details(report: Report) -> dict[str, Any]:
    names = list(report.score_histograms[0].counts) if report.score_histograms else []
    documented = field_docs(type(report.test))
    findings = report.leakage.get("findings", [])
    return {
        "histogram_legend": list(zip(names, class_colours(len(names)), strict=True)),
        "has_threshold": any(histogram.threshold is not None for histogram in report.score_histograms),
        "wrong": _by_table(report.most_wrong),
        "rules": _rules(report),
        "findings": sorted(findings, key=lambda finding: SEVERITIES.index(finding["severity"])),
        "metrics": [(name, estimate, documented[name]) for name, estimate in view.metrics_of(report.test)],
        "tables": [(report.data.train, "trained on"), *((table, "tested on") for table in report.data.tests)],
        "longest_stage": max([*report.timing.stages.values(), 1e-9]),
    }


def _rules(report: Report) -> list[tuple[str, str, list[Rule]]]:
    """The rules of the verdict, each once, with everything it was applied to."""
    quoted = dict.fromkeys((rule.name, rule.rule) for rule in report.verdict.rules)
    return [(name, text, [rule for rule in report.verdict.rules if (rule.name, rule.rule) == (name, text)]) for name, text in quoted]


def _by_table(texts: tuple[WrongText, ...]) -> dict[str, list[WrongText]]:
    return {name: [text for text in texts if text.table == name] for name in dict.fromkeys(text.table for text in texts)}


def _figure_json(figure: "Figure") -> Markup:
    """A figure as JSON that cannot end its script element, whatever the names in it."""
    text = figure.to_json()
    if text is None:
        raise RuntimeError("plotly gave no JSON for a figure")
    return Markup(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))


def _environment(metric: MetricInfo) -> jinja2.Environment:
    loader = jinja2.PackageLoader("transect.report", "templates")
    environment = jinja2.Environment(
        loader=loader, autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True
    )
    environment.filters.update(_filters(metric))
    return environment


def _filters(metric: MetricInfo) -> dict[str, Callable[..., Any]]:
    low, high = view.bounds(metric)
    return {
        "number": view.number,
        "interval": view.interval,
        "small": view.small,
        "seconds": view.seconds,
        "words": view.words,
        "metric_title": view.metric_title,
        "short_site": view.short_site,
        "answer": view.answer,
        "score": lambda record: score(record, metric),
        "place": lambda value: round(100 * (min(max(value, low), high) - low) / (high - low), 2),
        "heat": lambda value: diverging(value, low=low, middle=metric.chance, high=high),
        "ink": ink,
        "percent": lambda share: f"{100 * share:g}%",
        "thousands": lambda count: "unknown number of" if count is None else f"{count:,}",
        "said": _said,
        "pretty": lambda value: json.dumps(value, indent=2, ensure_ascii=False),
        "local": quote,
    }


def _said(value: Any) -> str:
    """A value in a table's cell: numbers short, mappings as 'name: value' pairs."""
    if isinstance(value, Mapping):
        return "; ".join(f"{view.words(str(key))}: {_said(item)}" for key, item in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(_said(item) for item in value)
    if value is None:
        return "no known"
    return view.number(value) if isinstance(value, float) else str(value)
