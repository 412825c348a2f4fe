"""A stress test as one page that opens offline without a script, as a picture, and as a few lines in a terminal."""

import json
import os
from collections import Counter
from pathlib import Path

import jinja2
from rich.console import Console

from transect._files import write_json, write_text
from transect.report import view
from transect.report.codec import from_json
from transect.report.stress import StressFinding, StressReport
from transect.report.terminal import Words

CLASSES = {"holds": "ok", "weakens": "warn", "fooled": "fail", "unclear": "unclear"}
SIGNS = {"holds": "✓", "weakens": "!", "fooled": "✕", "unclear": "?"}
STYLES = {"holds": "green", "weakens": "yellow", "fooled": "red", "unclear": "dim"}


def render_stress(report: StressReport) -> str:
    """The page, as one string of HTML.

    Args:
        report: what to show.

    Raises:
        InputError: a number is NaN or infinite.
    """
    report.to_json()  # refuses NaN here as in the JSON
    loader = jinja2.PackageLoader("transect.report", "templates")
    environment = jinja2.Environment(
        loader=loader, autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True
    )
    environment.filters.update(
        {
            "number": view.number,
            "interval": view.interval,
            "small": view.small,
            "seconds": view.seconds,
            "words": view.words,
            "place": _place,
            "has": lambda finding, field: any(getattr(point, field) is not None for point in finding.points),
            "pretty": lambda value: json.dumps(value, indent=2, ensure_ascii=False),
        }
    )
    counts = Counter(finding.status for finding in report.findings)
    ordered = [(status, counts[status]) for status in SIGNS if counts[status]]
    return environment.get_template("stress.html").render(report=report, classes=CLASSES, signs=SIGNS, counts=ordered)


def write_stress(report: StressReport, folder: str | os.PathLike[str]) -> dict[str, Path]:
    """Write ``stress.json``, ``stress.html`` and ``stress.png`` into a folder; each appears whole or not at all.

    Args:
        report: what was found.
        folder: where to write, usually the folder of the run.

    Returns:
        The path of each file by what it is: ``page``, ``json``, and ``image`` where anything was found.

    Raises:
        InputError: a number is NaN or infinite.
        StoreError: a value is not of the kind its record documents, or a file cannot be written.
    """
    from transect.report.stress_image import write_stress_image  # matplotlib is slow to import

    target = Path(folder)
    from_json(StressReport, report.to_json())
    paths = {"page": target / "stress.html", "json": target / "stress.json"}
    write_text(paths["page"], render_stress(report))
    if report.findings:
        paths["image"] = target / "stress.png"
        write_stress_image(report, paths["image"])
    write_json(paths["json"], report.to_json())
    return paths


def print_stress(report: StressReport, console: Console | None = None) -> None:
    """Print one line for each way of fooling the probe, the worst number of each, and what could not be tried.

    Args:
        report: what to show.
        console: where to print; None prints to stdout.
    """
    console = console or Console()
    words = Words(console.encoding)
    console.print(words.text(f"{report.table} probe at {report.site}: {report.measure} {report.home} at home\n"))
    table = words.table(("tried", False), ("", False), ("found", False))
    for finding in report.findings:
        table.add_row(
            words.text(view.words(finding.name)), words.text(finding.status, STYLES[finding.status]), words.text(finding.sentence)
        )
    console.print(table)
    for skipped in report.not_tried:
        console.print(words.text(f"not tried: {view.words(skipped.name)}: {skipped.reason}", "dim"))


def _place(value: float, finding: StressFinding) -> float:
    return round(100 * (min(max(value, finding.low), finding.high) - finding.low) / (finding.high - finding.low), 2)
