import dataclasses
import io
import re

import pytest
from rich.console import Console

from transect.measure import Verdict
from transect.report import print_report


def shown(report, *, width=80, encoding="utf-8", paths=None):
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding=encoding, errors="strict")
    print_report(report, Console(file=stream, width=width, color_system=None, legacy_windows=False), paths=paths)
    stream.flush()
    return raw.getvalue().decode(encoding)


def numbers_in(value):
    if isinstance(value, dict):
        return [number for item in value.items() for part in item for number in numbers_in(part)]
    if isinstance(value, list):
        return [number for item in value for number in numbers_in(item)]
    if isinstance(value, str):
        return [float(number) for number in re.findall(r"-?\d+(?:\.\d+)?", value)]
    return [float(value)] if isinstance(value, int | float) and not isinstance(value, bool) else []


def test_every_number_shown_is_in_the_json(report):
    known = numbers_in(report.to_json())
    found = re.findall(r"(?<![\w.])-?\d+(?:\.\d+)?", shown(report, width=120))
    assert len(found) > 25
    for number in found:
        digits = len(number.partition(".")[2])
        assert any(round(value, digits) == float(number) for value in known), f"{number} is not in the JSON"


def test_it_says_the_verdict_and_the_main_numbers(report):
    text = shown(report)
    assert "says the opposite" in text
    for name in ("bag of words", "length", "shuffled labels", "random direction", "untrained", "neg_cities", "inverted", "larger_than"):
        assert name in text


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp1252"])
def test_a_console_without_utf_8_gets_ascii(build, encoding):
    odd = Verdict(readable=True, beyond_surface=None, transfers={}, rules=(), text="AUROC ≥ 0.9 → “good”, naïve, 漢字")
    text = shown(dataclasses.replace(build.planted(), verdict=odd), encoding=encoding)
    assert 'AUROC >= 0.9 -> "good"' in text
    assert "─" not in text


@pytest.mark.parametrize("width", [80, 120])
def test_no_line_is_wider_than_the_console(report, width):
    assert max(len(line) for line in shown(report, width=width).splitlines()) <= width


def test_names_are_not_markup(build):
    odd = Verdict(readable=True, beyond_surface=True, transfers={}, rules=(), text="[bold]x[/bold] [/] :smile:")
    assert "[bold]x[/bold] [/] :smile:" in shown(dataclasses.replace(build.planted(), verdict=odd))


def test_several_training_tables_are_told_apart(build):
    report = build.planted()
    more = tuple(dataclasses.replace(row, train="cities+neg_cities") for row in report.transfer)
    assert "cities+neg_cities → larger_than" in shown(dataclasses.replace(report, transfer=report.transfer + more), width=120)


def test_paths_are_named_in_full(build):
    path = "/a/very/long/folder/" + "x" * 90 + "/report.html"
    assert f"page  {path}\n" in shown(build.planted(), paths={"page": path})
