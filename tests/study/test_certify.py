"""A run's probe is certified on rows it has not seen: what is left out, what is promised, what is refused, what is written."""

import json

import numpy as np
import pytest

import transect
from transect.data import Table, read_table
from transect.decide import Certificate, SequenceCertificate, SequenceStatistic
from transect.errors import InputError, MismatchError, SampleSizeError, StoreError
from transect.linear import Readout
from transect.report import load_report
from transect.study import Settings, probe, score_texts
from transect.study.certified import Certified
from transect.study.certify import certify
from transect.testing import tiny


@pytest.fixture(scope="module")
def model():
    return tiny("llama")


@pytest.fixture(scope="module")
def run(tmp_path_factory, model):
    folder = tmp_path_factory.mktemp("certify") / "elements"
    probe(
        model,
        "elements",
        out=folder,
        settings=Settings(sites=("layers[1]",), folds=3, permutations=20, directions=20, refits=20, resamples=100, compare=False),
    )
    return folder


def texts(n, *, word="harbour"):
    return [f"Note {number} of the {word}: " + "the boat came in. " * (number % 4 + 1) for number in range(n)]


def test_the_threshold_is_that_of_the_scores_and_is_written_into_the_run(run, model):
    made = certify(run, texts(80), fpr=0.05, model=model)
    readout = Readout.load(run / "probe.safetensors")
    scores = score_texts(readout, model, read_table(texts(80))).scores.double().numpy()
    assert isinstance(made.fpr, Certificate)
    assert made.fpr.holds
    assert made.fpr.threshold == np.sort(scores)[79]  # 80 are few: only the largest will do, or the second
    assert made.fpr.n == 80
    assert (scores > made.threshold).mean() == made.fpr.empirical
    assert Certified.load(run) == made
    assert transect.certify is certify
    report = load_report(run)
    assert report.certificate == "certificate.json"
    assert "certificate.json" in (run / "report.html").read_text()
    assert (run / "probe.safetensors").is_file()
    assert report.files["probe"] == "probe.safetensors"


def test_rows_and_groups_the_probe_has_seen_are_left_out_and_counted(run, model):
    train = read_table("elements")
    seen = [train.texts[0], train.texts[5].upper(), *texts(70)]
    made = certify(run, seen, fpr=0.05, model=model)
    assert made.excluded == {"negatives": 2}
    assert made.fpr is not None
    assert made.fpr.n == 70
    assert any("2 rows of negatives" in sentence for sentence in made.sentences)
    assert train.groups is not None
    straddling = Table(name="n", texts=tuple(texts(70)), groups=np.array([train.groups[0]] * 4 + list(map(str, range(66))), dtype=object))
    assert certify(run, straddling, fpr=0.05, model=model).excluded == {"negatives": 4}
    with pytest.raises(InputError, match="share a text or a group"):
        certify(run, list(train.texts), fpr=0.05, model=model)


def test_rows_of_one_group_and_copies_of_a_text_count_once(run, model):
    grouped = Table(name="n", texts=tuple(texts(120)), groups=np.array([str(number // 2) for number in range(120)], dtype=object))
    made = certify(run, grouped, fpr=0.05, model=model)
    assert isinstance(made.fpr, Certificate)
    assert (made.fpr.grouped, made.fpr.n_groups) == (True, 60)
    copies = certify(run, texts(70) * 2, fpr=0.05, model=model)
    assert isinstance(copies.fpr, Certificate)
    assert (copies.fpr.n, copies.fpr.n_groups) == (140, 70)


def test_labels_divide_the_classes_and_recall_is_certified_at_the_same_threshold(run, model):
    rows = [{"text": text, "label": "no"} for text in texts(80)] + [{"text": text, "label": "yes"} for text in texts(50, word="forest")]
    made = certify(run, rows, fpr=0.05, recall=0.5, model=model)
    assert isinstance(made.fpr, Certificate)
    assert made.recall is not None
    assert (made.fpr.n, made.recall.n, made.recall.threshold) == (80, 50, made.threshold)
    assert made.fpr.other is not None
    assert made.fpr.other.value == pytest.approx(made.recall.empirical)
    apart = certify(run, texts(80), positives=texts(50, word="forest"), fpr=0.05, recall=0.5, model=model)
    assert apart.threshold == made.threshold
    assert apart.recall == made.recall
    alone = certify(run, texts(80), positives=texts(50, word="forest"), recall=0.9, model=model)
    assert alone.fpr is None
    assert alone.recall is not None
    assert alone.recall.holds
    assert alone.recall.bound >= 0.9


def test_whole_sequences_are_certified(run, model):
    made = certify(run, texts(150), fpr=0.05, sequence=SequenceStatistic(name="top", size=2), model=model)
    assert isinstance(made.fpr, SequenceCertificate)
    readout = Readout.load(run / "probe.safetensors")
    scored = score_texts(readout, model, read_table(texts(150)), per_token=True)
    begins = np.array(scored.tokens) == "<s>"  # stands before every text and counts in none
    assert begins.sum() == 150
    lengths = np.bincount(np.array(scored.rows)) - 1
    assert made.fpr.fires(scored.scores.double().numpy()[~begins], lengths).mean() <= 0.05
    assert made.fpr.longest == lengths.max()
    assert Certified.load(run) == made
    cut = certify(
        run, texts(150), positives=texts(4, word="forest and the river"), fpr=0.05, sequence=SequenceStatistic(), horizon=20, model=model
    )
    assert isinstance(cut.fpr, SequenceCertificate)
    assert cut.fpr.longest == 20


def test_texts_shorter_than_a_window_never_fire_and_count_as_missed(run, model):
    window = SequenceStatistic(name="rolling", size=45)  # the shorter half of the texts has fewer tokens
    lengths = [len(model.tokenizer(text)["input_ids"]) - 1 for text in texts(50, word="forest")]
    short = sum(length < 45 for length in lengths)
    assert 0 < short < 50
    with pytest.raises(InputError, match=f"{short} of 50 positives are shorter than the warm-up"):
        certify(run, texts(80), positives=texts(50, word="forest"), recall=0.9, sequence=window, model=model)
    kept = certify(run, texts(80), positives=texts(50, word="forest"), recall=0.3, sequence=window, model=model)
    assert kept.recall is not None
    assert kept.recall.empirical <= 1 - short / 50
    assert Certified.load(run) == kept


def test_what_cannot_be_certified_is_refused_and_nothing_is_written(run, model, tmp_path):
    before = (run / "report.json").read_text()
    with pytest.raises(SampleSizeError, match="at least 299") as refused:
        certify(run, texts(80), fpr=0.01, model=model)
    assert refused.value.needed == 299
    with pytest.raises(SampleSizeError, match="at least 299"):
        certify(run, texts(80), fpr=0.01, model="/nowhere")  # before any model is loaded
    with pytest.raises(InputError, match="neither"):
        certify(run, texts(80), model=model)
    with pytest.raises(InputError, match="needs positives"):
        certify(run, texts(80), recall=0.9, model=model)
    with pytest.raises(InputError, match="horizon is about"):
        certify(run, texts(80), fpr=0.05, horizon=5, model=model)
    with pytest.raises(InputError, match="without a label column"):
        certify(run, [{"text": text, "label": "boat"} for text in texts(80)], fpr=0.05, model=model)
    with pytest.raises(MismatchError, match="fingerprint"):
        certify(run, texts(80), fpr=0.05, model=tiny("llama", seed=1))
    with pytest.raises(StoreError, match="report"):
        certify(tmp_path, texts(80), fpr=0.05, model=model)
    assert (run / "report.json").read_text() == before


def test_a_run_that_kept_no_table_is_refused(run, model, tmp_path):
    import shutil

    copy = tmp_path / "copy"
    shutil.copytree(run, copy)
    shutil.rmtree(copy / "tables")
    with pytest.raises(StoreError, match="kept no table 'elements'"):
        certify(copy, texts(80), fpr=0.05, model=model)
    (run / "certificate.json").write_text(json.dumps({"schema": "other"}))
    with pytest.raises(StoreError, match="schema"):
        Certified.load(run)
