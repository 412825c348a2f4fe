"""The stress test on a tiny random model: what is planted is found, what cannot be tried is said, and nothing is run twice."""

import dataclasses
import json
import shutil

import numpy as np
import pytest

import transect
from transect.errors import InputError, MismatchError, StoreError
from transect.report import StressPoint, load_report, load_stress, render_stress
from transect.study import Settings, StressSettings
from transect.study.stress_test.judging import point_status, worst
from transect.study.stress_test.rewritten import read_versions
from transect.study.stress_test.subject import Reading, open_subject
from transect.testing import tiny

QUICK = Settings(permutations=20, refits=20, directions=20, resamples=200, compare=False)
FEW = StressSettings(permutations=40, refits=20, resamples=200, ranks=(1, 2, 5), most_directions=6)
WORDS = ["river", "stone", "lamp", "tiger", "cloud", "paper", "green", "table", "music", "water"]


def table(name="lasts", label_of=lambda words: WORDS.index(words[-1]) < 5, n=240, seed=0):
    """What the last token of even a random model carries: the last word. Nothing else of the text matters."""
    generator = np.random.default_rng(seed)
    rows = [[str(word) for word in generator.choice(WORDS, size=generator.integers(3, 6))] for _ in range(n)]
    return transect.read_table([{"text": " ".join(words), "label": label_of(words)} for words in rows], name=name)


@pytest.fixture(scope="module")
def model():
    return tiny("llama")


@pytest.fixture(scope="module")
def run(model, tmp_path_factory):
    folder = tmp_path_factory.mktemp("run") / "lasts"
    firsts = table("firsts", lambda words: WORDS.index(words[0]) < 5, seed=1)
    transect.probe(model, table(), tests=[table("again", seed=2), firsts], out=folder, settings=QUICK)
    return folder


@pytest.fixture(scope="module")
def found(model, run):
    return transect.stress(run, model=model, settings=FEW)


def test_a_probe_of_the_last_word_is_fooled_by_what_comes_after_it(found):
    assert found.home.value > 0.9
    style = found.finding("style")
    at = {point.name: point for point in style.points if not point.series}
    assert at["quotation"].estimate.value < found.home.value - 0.2
    assert at["quotation"].difference.high < 0
    assert style.status == "fooled"
    assert "quotation" in style.sentence
    assert found.worst == "fooled"


def test_every_style_counts_the_rows_it_leaves_out(found, run):
    n_test = load_report(run).data.split.n_test
    for point in found.finding("style").points:
        assert point.n + point.n_excluded == n_test
        assert point.n_excluded == 0 or point.note


def test_teaching_it_the_other_styles_is_measured_on_the_unseen_one(found):
    points = found.finding("style").points
    alone, taught = ({point.name for point in points if bool(point.series) is series} for series in (False, True))
    assert alone == taught
    assert len(alone) >= 4


def test_a_label_that_a_rewriting_may_change_is_not_scored(found):
    reasons = {skipped.name: skipped.reason for skipped in found.not_tried}
    assert "effect of a negation on this label is unknown" in reasons["negation"]
    assert "not said to be whether the statement is true" in reasons["relabelling"]
    with pytest.raises(InputError, match="effect of a negation"):
        found.finding("negation")


def test_the_user_may_say_what_a_negation_does(model, run):
    told = dataclasses.replace(FEW, negation="keeps")
    subject, _ = open_subject(run, told, model=model)
    _, shifts, skipped = read_versions(subject, Reading(subject, shown=False), told)
    reasons = {one.name: one.reason for one in skipped}
    assert "negation" in {version.rewriting.name for version in shifts} or "unknown" not in reasons["negation"]


def test_another_seed_reads_other_texts_beside_the_first(found, model, run):
    other = dataclasses.replace(FEW, seed=1)
    subject, _ = open_subject(run, other, model=model)
    styles, _, _ = read_versions(subject, Reading(subject, shown=False), other)
    assert {version.rewriting.name for version in styles} == {point.name for point in found.finding("style").points}


def test_tables_that_teach_something_else_do_not_teach_it_this_one(found):
    at = {point.name: point for point in found.finding("leave_one_table_out").points}
    assert set(at) == {"lasts", "again", "firsts"}
    assert at["firsts"].estimate.value < 0.7
    assert at["again"].estimate.value > 0.8
    assert point_status(at["firsts"], found.home) == "fooled"


def test_the_controls_stay_below_and_the_control_task_is_selective(found):
    at = {point.name: point.estimate.value for point in found.finding("controls").points}
    assert at["shuffled labels"] == pytest.approx(0.5, abs=0.1)
    assert "was not read" in found.finding("controls").sentence  # the untrained model
    assert found.finding("agreement").points[0].estimate.value > 0.8


def test_a_run_of_one_site_has_no_other_sites_to_agree_with(model, tmp_path):
    transect.probe(model, table(n=120), out=tmp_path / "one", settings=dataclasses.replace(QUICK, sites=("layers[0]",)))
    quick = dataclasses.replace(FEW, prompts=False, ranks=(1,), most_directions=2, resamples=50)
    agreed = transect.stress(tmp_path / "one", model=model, settings=quick).finding("agreement")
    assert "one site" in agreed.sentence
    assert "all sites" not in {point.name for point in agreed.points}


def test_instructions_are_read_and_their_share_is_said(found):
    finding = found.finding("instruction")
    assert len(finding.points) == 8
    assert "the instruction while fitting" in finding.sentence


def test_it_is_written_beside_the_report_and_linked_from_it(found, run):
    assert load_stress(run) == found
    assert load_report(run).stress == "stress.html"
    assert 'href="stress.html"' in (run / "report.html").read_text()
    page = (run / "stress.html").read_text()
    assert page == render_stress(found)
    for finding in found.findings:
        assert finding.question in page.replace("&#39;", "'")
    assert (run / "stress.png").stat().st_size > 10_000
    assert json.loads((run / "stress.json").read_text())["schema"] == "transect.stress/1"


def test_what_was_read_is_not_read_again(found, model, run, tmp_path, monkeypatch):
    copy = tmp_path / "copy"
    shutil.copytree(run, copy)

    def refuse(*_arguments, **_settings):
        raise AssertionError("the model ran again")

    monkeypatch.setattr(type(model.backbone), "forward", refuse)
    # The entropy of the next token is the one thing that is not kept, and it says so instead of failing.
    monkeypatch.setattr("transect.study.stress_test.residuals.next_token", lambda *_a, **_s: (_ for _ in ()).throw(InputError("not read")))
    again = transect.stress(copy, model=model, settings=FEW)
    assert again.finding("style") == found.finding("style")
    assert "not read" in again.finding("simpler_proxy").sentence


def test_a_probe_that_reads_nothing_cannot_be_fooled(model, tmp_path):
    generator = np.random.default_rng(0)
    noise = table("noise", lambda _: bool(generator.integers(2)))
    transect.probe(model, noise, out=tmp_path / "noise", settings=QUICK)
    report = transect.stress(tmp_path / "noise", model=model, settings=dataclasses.replace(FEW, prompts=False))
    assert {finding.status for finding in report.findings} == {"unclear"}
    assert "not surely above chance" in report.notes[0]


def test_another_model_is_refused(run):
    with pytest.raises(MismatchError, match="fingerprint"):
        transect.stress(run, model=tiny("llama", seed=1), settings=FEW)


def test_a_folder_without_a_run_or_without_its_tables_is_refused(run, model, tmp_path):
    with pytest.raises(StoreError, match=r"report\.json"):
        transect.stress(tmp_path, model=model)
    copy = tmp_path / "copy"
    shutil.copytree(run, copy)
    (copy / "tables" / "lasts.parquet").unlink()
    with pytest.raises(StoreError, match="kept no table 'lasts'"):
        transect.stress(copy, model=model)


def test_more_than_two_classes_are_refused(model, tmp_path):
    three = table("three", lambda words: "abc"[WORDS.index(words[-1]) % 3])
    transect.probe(model, three, out=tmp_path / "three", settings=QUICK)
    with pytest.raises(InputError, match="two classes"):
        transect.stress(tmp_path / "three", model=model)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"ranks": (3, 1)}, "rising"),
        ({"ranks": ()}, "rising"),
        ({"permutations": 5}, "at least 20"),
        ({"negation": "maybe"}, "maybe"),
        ({"level": 0.1}, "level"),
        ({"most_directions": 0}, "most_directions"),
    ],
)
def test_settings_outside_their_range_are_refused(changes, message):
    with pytest.raises(InputError, match=message):
        StressSettings(**changes)


def test_statuses_follow_the_written_rule():
    home = transect.measure.Estimate(0.98, 0.95, 1.0)
    at = {
        "holds": StressPoint(name="a", estimate=transect.measure.Estimate(0.97, 0.9, 1.0)),
        "weakens": StressPoint(
            name="b", estimate=transect.measure.Estimate(0.85, 0.8, 0.9), difference=transect.measure.Estimate(-0.13, -0.2, -0.05)
        ),
        "weakens too": StressPoint(
            name="e", estimate=transect.measure.Estimate(0.73, 0.7, 0.76), difference=transect.measure.Estimate(-0.25, -0.3, -0.2)
        ),
        "fooled": StressPoint(name="c", estimate=transect.measure.Estimate(0.02, 0.0, 0.05)),
        "unclear": StressPoint(name="d", estimate=transect.measure.Estimate(0.7, 0.3, 0.95)),
    }
    assert {status: point_status(point, home) for status, point in at.items()} == {status: status.split()[0] for status in at}
    assert worst(["holds", "fooled", "weakens"]) == "fooled"
