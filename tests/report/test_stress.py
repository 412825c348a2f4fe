"""The records, page, picture and terminal lines of a stress test, on planted numbers."""

import dataclasses
import io
import math

import pytest
from rich.console import Console

from transect.errors import InputError, StoreError
from transect.measure import Estimate
from transect.report import NotTried, StressFinding, StressPoint, StressReport, load_stress, print_stress, render_stress, write_stress
from transect.report.records import Timing

HOME = Estimate(0.98, 0.95, 0.99)


def finding(name="style", **changes):
    points = (
        StressPoint(
            name="case", estimate=Estimate(0.97, 0.93, 0.99), difference=Estimate(-0.01, -0.03, 0.01), n=40, n_excluded=2, note="why"
        ),
        StressPoint(name="<b>typos</b>", estimate=Estimate(0.5, 0.4, 0.6), p=0.04, n=42),
    )
    fields = {
        "name": name, "question": "Does it survive?", "measure": "AUROC", "points": points, "status": "fooled", "sentence": "It does not.",
        "rule": "Judged so.", "reference": HOME, "reference_name": "clean text", "chance": 0.5,
    }  # fmt: skip
    return StressFinding(**(fields | changes))


def planted(**changes):
    fields = {
        "created": "2026-01-01T00:00:00+00:00", "transect": "0.1.0", "model": "tiny", "fingerprint": "f" * 32, "table": "cities & <i>",
        "probe": "Logistic", "site": "layers[3]", "home": HOME, "measure": "AUROC", "findings": (finding(), finding("other", status="holds")),
        "not_tried": (NotTried(name="negation", reason="nobody knows"),), "settings": {"seed": 0},
        "timing": Timing(total=3.0, stages={"captures": 2.0, "statistics": 1.0}),
    }  # fmt: skip
    return StressReport(**(fields | changes))


def test_it_is_read_back_equal(tmp_path):
    files = write_stress(planted(), tmp_path)
    assert load_stress(tmp_path) == planted()
    assert files["image"].read_bytes().startswith(b"\x89PNG")
    assert planted() != planted(table="elements")


def test_without_findings_there_is_no_picture(tmp_path):
    assert set(write_stress(planted(findings=()), tmp_path)) == {"page", "json"}
    assert planted(findings=()).worst == "unclear"


def test_the_worst_status_leads():
    assert planted().worst == "fooled"
    assert planted(findings=(finding(status="holds"), finding(status="weakens"))).worst == "weakens"


def test_a_number_that_is_none_is_refused_before_anything_is_written(tmp_path):
    broken = finding(points=(StressPoint(name="case", estimate=Estimate(math.nan, math.nan, math.nan)),))
    with pytest.raises(InputError, match=r"findings\[0\]\.points\[0\]"):
        write_stress(planted(findings=(broken,)), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_another_schema_a_cut_file_and_no_file_are_named(tmp_path):
    with pytest.raises(StoreError, match="transect stress"):
        load_stress(tmp_path)
    write_stress(planted(), tmp_path)
    path = tmp_path / "stress.json"
    text = path.read_text()
    path.write_text(text.replace("transect.stress/1", "transect.stress/9"))
    with pytest.raises(StoreError, match="stress/9"):
        load_stress(tmp_path)
    path.write_text(text[:100])
    with pytest.raises(StoreError, match="cut short"):
        load_stress(path)


def test_the_page_shows_every_number_and_runs_nothing():
    page = render_stress(planted())
    assert "<script" not in page
    assert "&lt;b&gt;typos&lt;/b&gt;" in page
    assert "cities &amp; &lt;i&gt;" in page
    for shown in ("0.970", "[0.930, 0.990]", "-0.010", "0.04", "2 left out", "nobody knows", "clean text", "2.0 s"):
        assert shown in page, shown


def test_a_console_without_unicode_shows_it_too():
    said = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    print_stress(planted(table="café"), Console(file=said, width=100))
    said.seek(0)
    text = said.read()
    assert "style" in text
    assert "not tried: negation: nobody knows" in text


def test_a_scale_without_room_is_refused():
    with pytest.raises(InputError, match="low < high"):
        dataclasses.replace(finding(), low=1.0, high=1.0)


def test_a_finding_that_was_not_made_says_why():
    with pytest.raises(InputError, match="nobody knows"):
        planted().finding("negation")
