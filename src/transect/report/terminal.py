"""A report in a terminal: the verdict, the numbers it rests on, and where the files are.

Every number shown is a number of the ``report.json``, rounded. On a console that cannot show a character, plain ASCII is used.
"""

import os
from collections.abc import Iterator, Mapping

from rich import box
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from transect.measure import Estimate
from transect.report import view
from transect.report.records import score
from transect.report.report import Report

STYLES = {"yes": "green", "no": "red", "inverted": "yellow", "unclear": "dim"}
ASCII = str.maketrans(
    {"→": "->", "–": "-", "—": "-", "“": '"', "”": '"', "‘": "'", "’": "'", "…": "...", "×": "x", "≥": ">=", "≤": "<=", "²": "2"}
)


def print_report(report: Report, console: Console | None = None, *, paths: Mapping[str, str | os.PathLike[str]] | None = None) -> None:
    """Print the verdict, one table of scores, one of transfer, and where the files are.

    Args:
        report: what to show.
        console: where to print; None prints to stdout.
        paths: the files by what they are, as `write_report` gives them; None names those of the report, relative to its folder.
    """
    console = console or Console()
    words = Words(console.encoding)
    console.print(Padding(words.text(report.verdict.text.strip()), (1, 0, 1, 0)))
    console.print(_scores(report, words))
    if view.chosen_transfers(report):
        console.print(_transfers(report, words))
    later = {"stress_test": report.stress, "certificate": report.certificate}
    named = {**(report.files if paths is None else paths), **{what: name for what, name in later.items() if name}}
    for line in _files(named, words):
        console.print(line, soft_wrap=True)  # a path that is broken over two lines cannot be copied


class Words:
    """Text that a console of some encoding can show."""

    def __init__(self, encoding: str) -> None:
        self.encoding = encoding
        self.utf = encoding.lower().replace("-", "").startswith("utf")

    def text(self, value: str, style: str = "") -> Text:
        """Plain text, never read as markup."""
        return Text(value if self.utf else value.translate(ASCII).encode(self.encoding, "replace").decode(self.encoding), style=style)

    def table(self, *columns: tuple[str, bool]) -> Table:
        """A table with a heading over each column; True aligns it to the right."""
        table = Table(box=box.SIMPLE_HEAD if self.utf else box.ASCII, pad_edge=False, header_style="bold")
        for heading, right in columns:
            table.add_column(self.text(heading), justify="right" if right else "left", overflow="fold")
        return table


def _scores(report: Report, words: Words) -> Table:
    title = view.metric_title(report.metric.name)
    table = words.table(("held-out rows", False), (title, True), ("interval", False), ("probe minus it", False), ("p", True))
    where = f"{report.selected.probe} at {report.selected.site}"
    main = score(report.test, report.metric)
    table.add_row(words.text(where, "bold"), words.text(view.number(main.value), "bold"), words.text(view.interval(main)), "", "")
    for name, base in report.baselines.items():
        estimate = score(base, report.metric)
        p = "" if base.p is None else view.small(base.p)
        cells = (view.words(name), view.number(estimate.value), view.interval(estimate), _with_interval(base.difference), p)
        table.add_row(*(words.text(cell) for cell in cells))
    return table


def _with_interval(estimate: Estimate | None) -> str:
    if estimate is None:
        return ""
    return f"{view.number(estimate.value)} {view.interval(estimate)}" if estimate.has_interval else view.number(estimate.value)


def _transfers(report: Report, words: Words) -> Table:
    rows = view.chosen_transfers(report)
    several = len({row.train for row in rows}) > 1
    trained = "trained on, scored on" if several else f"trained on {rows[0].train}, scored on"
    title = view.metric_title(report.metric.name)
    table = words.table((trained, False), (title, True), ("interval", False), ("cosine", True), ("MCS", True), ("transfers", False))
    for row in rows:
        estimate = score(row, report.metric)
        name = f"{row.train} → {row.test}" if several else row.test
        cells = (name, view.number(estimate.value), view.interval(estimate), view.number(row.cosine), view.number(row.mcs))
        status = row.status or ""
        table.add_row(*(words.text(cell) for cell in cells), words.text(status, STYLES.get(status, "")))
    return table


def _files(paths: Mapping[str, str | os.PathLike[str]], words: Words) -> Iterator[Text]:
    width = max((len(view.words(what)) for what in paths), default=0)
    for what, path in paths.items():
        yield words.text(f"{view.words(what):<{width}}  {os.fspath(path)}", "dim")
