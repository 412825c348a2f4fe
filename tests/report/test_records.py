import dataclasses
import json
import math

import pytest

from transect.errors import InputError, StoreError
from transect.measure import Estimate
from transect.report import Report, Scores, load_report, score

PATHS = [
    "schema",
    "model.fingerprint",
    "selected.site",
    "selected.probe",
    "selected.regularization",
    "test.auroc.value",
    "test.auroc.low",
    "test.auroc.high",
    "baselines.bag_of_words.auroc.value",
    "baselines.length.auroc.value",
    "baselines.shuffled_labels.auroc.value",
    "baselines.random_direction.auroc.value",
    "baselines.untrained.auroc.value",
    "transfer.0.train",
    "transfer.0.test",
    "transfer.0.site",
    "transfer.0.auroc.value",
    "transfer.0.auroc.low",
    "transfer.0.auroc.high",
    "transfer.0.cosine",
    "transfer.0.mcs",
    "leakage",
    "timing",
    "verdict.readable",
    "verdict.beyond_surface",
    "verdict.transfers.neg_cities",
    "verdict.text",
]


def at(value, path):
    for step in path.split("."):
        value = value[int(step) if step.isdigit() else step]
    return value


@pytest.mark.parametrize("path", PATHS)
def test_the_paths_that_readers_rely_on_are_there(build, path):
    assert at(build.planted().to_json(), path) is not None


def test_a_report_comes_back_equal_through_text(report):
    back = Report.from_json(json.loads(json.dumps(report.to_json(), allow_nan=False)))
    assert back == report
    assert back.to_json() == report.to_json()
    assert [getattr(back, field.name) == getattr(report, field.name) for field in dataclasses.fields(report)].count(False) == 0


def test_a_report_without_intervals_comes_back_equal(report):
    bare = dataclasses.replace(report, selected=dataclasses.replace(report.selected, corrected=Estimate.bare(0.9)))
    assert Report.from_json(bare.to_json()) == bare
    assert bare != report


def test_numbers_have_no_auroc_and_classes_no_spearman(build):
    numbers, classes = build.planted(kind="number").to_json(), build.planted().to_json()
    assert "auroc" not in numbers["test"]
    assert "auroc" not in numbers["transfer"][0]
    assert "spearman" in numbers["baselines"]["length"]
    assert "spearman" not in classes["test"]


def test_tuples_in_settings_are_lists_from_the_start(build):
    report = dataclasses.replace(build.planted(), settings={"strengths": (0.1, 1.0)})
    assert report.settings == {"strengths": [0.1, 1.0]}


def test_nan_is_refused_by_path(report):
    broken = dataclasses.replace(report, timing=dataclasses.replace(report.timing, total=math.nan))
    with pytest.raises(InputError, match=r"Report\.timing\.total is nan"):
        broken.to_json()


def test_the_selected_site_must_have_a_score(report):
    with pytest.raises(InputError, match=r"'layers\[99\]' is not among the sites"):
        dataclasses.replace(report, selected=dataclasses.replace(report.selected, site="layers[99]"))


def test_a_histogram_needs_a_count_for_each_bin(build):
    histogram = build.planted().score_histograms[0]
    with pytest.raises(InputError, match="33 edges make 32 bins, got 1 counts for '0'"):
        dataclasses.replace(histogram, counts={"0": (1,)})
    with pytest.raises(InputError, match="edges that rise"):
        dataclasses.replace(histogram, edges=histogram.edges[::-1])


def test_the_leading_score_must_be_there(build):
    report = build.planted()
    assert score(report.test, report.metric) is report.test.auroc
    with pytest.raises(InputError, match="this Scores has no auroc"):
        score(Scores(n=1, n_groups=1), report.metric)


def test_reading_a_folder_or_a_file(tmp_path, report):
    (tmp_path / "report.json").write_text(json.dumps(report.to_json()), encoding="utf-8")
    assert load_report(tmp_path) == report
    assert load_report(tmp_path / "report.json") == report


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"schema": "transect.report/1"', "not readable JSON"),
        ('{"schema": "transect.report/2"}', r"expected a report of schema 'transect.report/1', got 'transect.report/2'"),
        ("[]", "got None"),
        ('{"schema": "transect.report/1"}', "lacks the fields"),
    ],
)
def test_a_file_that_is_not_a_report_is_refused(tmp_path, text, message):
    path = tmp_path / "report.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(StoreError, match=message):
        load_report(path)


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(StoreError, match=r"nowhere\.json: No such file"):
        load_report(tmp_path / "nowhere.json")
