import json

import numpy as np
import pytest

from transect.data import audit, concat, group_folds, read_table
from transect.errors import InputError

WORDS = np.array(
    [
        "river",
        "mountain",
        "valley",
        "forest",
        "desert",
        "island",
        "harbour",
        "village",
        "castle",
        "bridge",
        "garden",
        "window",
        "kitchen",
        "morning",
        "evening",
        "winter",
        "summer",
        "letter",
        "journey",
        "teacher",
        "farmer",
        "sailor",
        "doctor",
        "painter",
        "quiet",
        "narrow",
        "golden",
        "broken",
        "hidden",
        "ancient",
        "empty",
        "distant",
        "carried",
        "followed",
        "watched",
        "crossed",
        "opened",
        "painted",
        "forgot",
        "remembered",
    ]
)


def clean_table(n=400, *, seed=0, groups=None, name="clean"):
    """Random texts of one length in words whose labels depend on nothing."""
    rng = np.random.default_rng(seed)
    texts = [" ".join(row) for row in WORDS[rng.integers(0, len(WORDS), size=(n, 14))]]
    columns = {"text": texts, "label": rng.permutation(np.arange(n) % 2)}
    if groups is not None:
        columns["group"] = np.arange(n) // groups
    return read_table(columns, name=name)


def finding(leakage, check, table, *, other=None):
    found = [f for f in leakage.findings if (f.check, f.table, f.other) == (check, table, other)]
    assert len(found) == 1
    return found[0]


def rows(texts, labels, **columns):
    return read_table({"text": list(texts), "label": list(labels), **{name: list(values) for name, values in columns.items()}}, name="t")


@pytest.mark.parametrize("seed", range(10))
def test_clean_data_raises_no_alarm(seed):
    table = clean_table(seed=seed)
    leakage = audit(table, {"test": clean_table(200, seed=seed + 100)}, parts=group_folds(np.arange(400), table.codes))
    assert leakage.severity == "ok"


@pytest.mark.parametrize("seed", range(5))
def test_noise_in_groups_raises_no_alarm(seed):
    # Each group repeats one text nearly word for word with one label: rows are far from independent.
    rng = np.random.default_rng(seed)
    base = [" ".join(row) for row in WORDS[rng.integers(0, len(WORDS), size=(30, 8))]]
    texts = [f"{text} {WORDS[rng.integers(len(WORDS))]}" for text in base for _ in range(20)]
    table = rows(texts, np.repeat(rng.permutation(np.arange(30) % 2), 20), group=np.repeat(np.arange(30), 20))
    leakage = audit(table)
    assert finding(leakage, "words", "t").severity == "ok"
    assert finding(leakage, "length", "t").severity == "ok"


def test_a_planted_word_is_named():
    table = clean_table()
    texts = [f"{text} zebra" if code else text for text, code in zip(table.texts, table.codes, strict=True)]
    found = finding(audit(rows(texts, table.codes)), "words", "t")
    assert found.severity == "fail"
    assert found.numbers["word"] == "zebra"
    assert found.numbers["auroc"] == 1
    assert "'zebra'" in found.sentence


def test_a_word_that_points_to_the_negative_class_counts_as_much():
    table = clean_table()
    texts = [text if code else f"{text} zebra" for text, code in zip(table.texts, table.codes, strict=True)]
    assert finding(audit(rows(texts, table.codes)), "words", "t").numbers["auroc"] == 1


def test_planted_length_is_found_in_either_direction():
    table = clean_table()
    for direction in (0, 1):
        texts = [text + " very" * (3 if code == direction else 0) for text, code in zip(table.texts, table.codes, strict=True)]
        found = finding(audit(rows(texts, table.codes)), "length", "t")
        assert found.severity == "fail"
        assert found.numbers["auroc"] > 0.75


def test_surface_strengths_are_those_of_scikit_learn_and_scipy():
    from scipy.stats import spearmanr
    from sklearn.metrics import roc_auc_score

    rng = np.random.default_rng(0)
    texts = [" ".join(WORDS[rng.integers(0, len(WORDS), size=rng.integers(3, 9))]) for _ in range(300)]
    lengths = np.array([len(text) for text in texts])
    labels = (lengths + rng.normal(scale=15, size=300) > 45).astype(int)
    leakage = audit(rows(texts, labels))
    assert finding(leakage, "length", "t").numbers["auroc"] == pytest.approx(roc_auc_score(labels, lengths), abs=1e-12)
    word = finding(leakage, "words", "t").numbers["word"]
    present = np.array([word in text.split() for text in texts])
    auroc = roc_auc_score(labels, present)
    assert finding(leakage, "words", "t").numbers["auroc"] == pytest.approx(max(auroc, 1 - auroc), abs=1e-12)
    numbers = lengths + rng.normal(scale=20, size=300)
    correlation = spearmanr(lengths, numbers)[0]
    assert finding(audit(rows(texts, numbers)), "length", "t").numbers["correlation"] == pytest.approx(abs(correlation), abs=1e-12)


def test_classes_are_looked_at_one_by_one():
    table = clean_table(300)
    labels = np.array(["red", "green", "blue"])[np.arange(300) % 3]
    texts = [f"{text} zebra" if label == "green" else text for text, label in zip(table.texts, labels, strict=True)]
    found = finding(audit(rows(texts, labels)), "words", "t")
    assert found.numbers["class"] == "green"
    assert found.numbers["word"] == "zebra"
    assert "the class 'green'" in found.sentence


def test_too_few_rows_for_words():
    assert finding(audit(rows(["a b", "c d"], [0, 1])), "words", "t").sentence == "no word of t is frequent enough to be tried alone."


def test_duplicates_within_and_across_parts():
    table = clean_table(100)
    texts = [*table.texts, *(text.upper() + "!" for text in table.texts[:10])]
    leaky = rows(texts, [*table.codes, *table.codes[:10]])
    leakage = audit(leaky, parts=np.repeat([0, 1], [100, 10]))
    assert finding(leakage, "duplicates", "t").numbers == {"rows": 110, "different": 100, "repeats": 10}
    assert finding(leakage, "duplicates", "t").severity == "warn"
    assert finding(leakage, "duplicates", "t").examples[0]["times"] == 2
    assert finding(leakage, "straddling_duplicates", "t").numbers == {"rows": 20}
    assert finding(leakage, "straddling_duplicates", "t").severity == "fail"
    assert audit(leaky, parts=np.append(np.zeros(100), np.zeros(10))).severity == "warn"


def test_near_duplicates_within_and_across_parts():
    table = clean_table(100)
    copies = [text[:-1] + "x" for text in table.texts[:10]]
    leaky = rows([*table.texts, *copies], [*table.codes, *table.codes[:10]])
    leakage = audit(leaky, parts=np.repeat(["a", "b"], [100, 10]))
    assert finding(leakage, "near_duplicates", "t").numbers == {"rows": 20}
    assert finding(leakage, "straddling_near", "t").numbers == {"rows": 20}
    assert finding(leakage, "straddling_near", "t").severity == "fail"
    assert finding(leakage, "straddling_near", "t").examples[0] == {"text": table.texts[0], "other": copies[0]}


def test_near_duplicates_across_tables():
    letters = np.array(list("abcdefghijklmnopqrstuvwxyz "))
    texts = ["".join(row) for row in letters[np.random.default_rng(0).integers(0, 27, size=(1100, 80))]]
    train = rows(texts[:100], np.arange(100) % 2)
    test = rows([*(text[:-1] + "Q" for text in texts[:10]), *texts[100:]], np.arange(1010) % 2)
    leakage = audit(train, {"new": test})
    assert finding(leakage, "straddling_near", "new", other="t").numbers == {"rows": 10}
    assert finding(leakage, "straddling_near", "new", other="t").severity == "warn"
    assert finding(leakage, "straddling_duplicates", "new", other="t").severity == "ok"


def test_near_duplicates_in_one_group_are_no_concern():
    table = clean_table(100)
    copies = [text[:-1] + "x" for text in table.texts]
    grouped = rows([*table.texts, *copies], [*table.codes, *table.codes], group=[*range(100), *range(100)])
    assert finding(audit(grouped), "near_duplicates", "t").severity == "ok"


def test_copies_and_groups_across_tables():
    table = clean_table(100, groups=2)
    leakage = audit(table, {"same": table.take(np.arange(20))})
    assert finding(leakage, "straddling_duplicates", "same", other="clean").numbers == {"rows": 20}
    assert finding(leakage, "straddling_duplicates", "same", other="clean").severity == "fail"
    groups = finding(leakage, "straddling_groups", "same", other="clean")
    assert groups.numbers == {"groups": 10, "of": 10}
    assert groups.severity == "warn"


def test_groups_across_parts():
    table = clean_table(100, groups=2)
    parts = np.zeros(100, dtype=int)
    parts[:3] = 1
    found = finding(audit(table, parts=parts), "straddling_groups", "clean")
    assert found.numbers == {"groups": 1}
    assert found.severity == "fail"
    assert found.examples == ({"group": "1"},)


def test_the_tables_own_splits_are_the_parts():
    table = rows(["a", "b", "a"], [0, 1, 0], split=["train", "train", "test"])
    assert finding(audit(table), "straddling_duplicates", "t").severity == "fail"


def test_conflicting_labels_are_shown():
    found = finding(audit(rows(["it rains", "it  rains", "It rains.", "it snows"], [0, 1, 1, 1])), "conflicting_labels", "t")
    assert found.severity == "fail"
    assert found.numbers == {"texts": 1, "rows": 2}
    assert found.examples == ({"text": "it rains", "labels": [False, True]},)


def test_measurements_that_differ_a_little_do_not_conflict():
    numbers = np.arange(0, 40, 0.5)
    texts = [f"place {i}" for i in range(80)]
    close = audit(rows([*texts, "place 3"], [*numbers, numbers[3] + 0.1]))
    assert finding(close, "conflicting_labels", "t").severity == "ok"
    far = audit(rows([*texts, "place 3"], [*numbers, numbers[3] + 30]))
    assert finding(far, "conflicting_labels", "t").severity == "fail"


@pytest.mark.parametrize(
    ("labels", "severity"),
    [
        ([0, 1] * 10, "ok"),
        ([0] * 17 + [1] * 3, "warn"),
        ([1] * 20, "fail"),
        (["a", "b", "c", "d"] * 5, "warn"),
        (np.linspace(0, 1, 20), "ok"),
    ],
)
def test_balance(labels, severity):
    found = finding(audit(rows([f"text {i}" for i in range(20)], labels)), "balance", "t")
    assert found.severity == severity
    assert found.numbers["rows"] == 20


def test_an_unlabelled_table_is_still_checked_for_copies():
    leakage = audit(read_table(["a", "b", "a"]))
    assert {f.check for f in leakage.findings} == {"duplicates", "near_duplicates"}


def test_a_skipped_search_is_said(monkeypatch):
    monkeypatch.setattr("transect.data.duplicates.MOST_TEXTS", 10)
    found = finding(audit(clean_table(20)), "near_duplicates", "clean")
    assert found.severity == "warn"
    assert "were not searched" in found.sentence


def test_words_of_a_large_table_are_tried_on_a_sample(monkeypatch):
    monkeypatch.setattr("transect.data.surface.MOST_ROWS_FOR_WORDS", 100)
    assert finding(audit(clean_table(400)), "words", "clean").numbers["rows"] == 100


def test_the_record_is_plain_json_with_the_worst_first():
    table = clean_table(60)
    both = concat([table, table.take([0])], name="both")
    leakage = audit(both, {"both": table}, parts=np.arange(61) == 60)
    plain = leakage.to_json()
    assert json.loads(json.dumps(plain, allow_nan=False)) == plain
    assert plain["severity"] == leakage.severity == "fail"
    assert "repeat" in leakage.sentences[0] or "copy" in leakage.sentences[0]
    assert len(leakage.sentences) == len(leakage.findings)
    assert {f.table for f in leakage.findings} == {"both", "both (test)"}


def test_parts_must_fit():
    with pytest.raises(InputError, match=r"one value per row of 'clean', 20 in all; got 3"):
        audit(clean_table(20), parts=np.arange(3))
