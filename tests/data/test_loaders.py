import json

import datasets
import pytest
import zstandard

from transect.data import audit, effective_groups, read_pairs, read_sae_probes, read_table, read_tables
from transect.errors import TableError


def zst(path, text):
    path.write_bytes(zstandard.ZstdCompressor().compress(text.encode()))
    return path


def test_sae_probes_are_deduplicated_and_say_so(tmp_path):
    body = "prompt,target,prompt_len\n" + "It rains.,1,3\n" * 5 + "It snows.,0,3\nIt hails.,0,3\nIt hails.,1,3\n"
    table = read_sae_probes(zst(tmp_path / "41_rain.csv.zst", body))
    assert table.name == "41_rain"
    assert table.texts == ("It rains.", "It snows.", "It hails.", "It hails.")
    assert table.labels.tolist() == [True, False, False, True]
    assert table.column("prompt_len").tolist() == ["3"] * 4
    assert table.notes == (
        "4 of 8 rows repeated an earlier row (same text, same label) and were left out.",
        "1 texts have different labels in different rows, and all are kept: 'It hails.' is False and True.",
    )
    found = {finding.check: finding for finding in audit(table).findings}
    assert found["conflicting_labels"].numbers["texts"] == 1
    assert len(effective_groups(table)) == 3


def test_sae_probes_with_nothing_to_report_have_no_notes(tmp_path):
    table = read_sae_probes(zst(tmp_path / "a.csv.zst", "prompt,target\nOne.,a\nTwo.,b\nThree.,c\n"))
    assert table.notes == ()
    assert table.kind == "multiclass"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("promt,target\nx,1\n", "no column 'prompt'.*did you mean 'promt'"),
        ("prompt,targets\nx,1\n", "no column 'target'.*did you mean 'targets'"),
        ("prompt,target\n", "0 rows"),
        ("", "is empty"),
    ],
)
def test_bad_sae_probes_are_refused(tmp_path, body, message):
    with pytest.raises(TableError, match=message):
        read_sae_probes(zst(tmp_path / "bad.csv.zst", body))


def test_a_folder_is_a_table_per_file_with_other_columns_kept(tmp_path):
    (tmp_path / "b_cities.csv").write_text(
        "statement,label,city,country\nParis is in France.,1,Paris,France\nRome is in Peru.,0,Rome,Peru\n"
    )
    zst(tmp_path / "a_rain.csv.zst", "statement,label\nIt rains.,1\nIt snows.,0\n")
    (tmp_path / "README.md").write_text("not data")
    (tmp_path / "inside").mkdir()
    tables = read_tables(tmp_path)
    assert [table.name for table in tables] == ["a_rain", "b_cities"]
    assert tables[1].column("city").tolist() == ["Paris", "Rome"]
    assert tables[1].labels.tolist() == [True, False]
    assert [table.name for table in read_tables(str(tmp_path), names=("b_cities",))] == ["b_cities"]
    assert read_tables(tmp_path, names=("b_cities",), group="country")[0].groups.tolist() == ["France", "Peru"]


def test_bad_folders_are_refused(tmp_path):
    with pytest.raises(TableError, match="nothing of that name"):
        read_tables(tmp_path / "gone")
    with pytest.raises(TableError, match=r"no file with an ending of \.csv"):
        read_tables(tmp_path)
    (tmp_path / "rain.csv").write_text("statement,label\nIt rains.,1\nIt snows.,0\n")
    with pytest.raises(TableError, match="it is a file"):
        read_tables(tmp_path / "rain.csv")
    with pytest.raises(TableError, match=r"no table 'rian'.*did you mean 'rain'"):
        read_tables(tmp_path, names=("rian",))
    (tmp_path / "odd.csv").write_text("words,label\nIt rains.,1\n")
    with pytest.raises(TableError, match=r"'odd\.csv'.*no column of text.*names="):
        read_tables(tmp_path)
    (tmp_path / "odd.csv").write_bytes("statement,label\nÜber,1\n".encode("latin-1"))
    with pytest.raises(TableError, match=r"'odd\.csv'.*not UTF-8"):
        read_tables(tmp_path)
    (tmp_path / "odd.csv").unlink()
    (tmp_path / "rain.jsonl").write_text('{"statement": "It rains.", "label": 1}\n')
    with pytest.raises(TableError, match="both be the table 'rain'"):
        read_tables(tmp_path)


CAA = [
    {"question": "Is it so?\n (A) Yes\n (B) No", "answer_matching_behavior": " (A)", "answer_not_matching_behavior": " (B)", "id": 1},
    {"question": "And this?", "answer_matching_behavior": " (B)", "answer_not_matching_behavior": " (A)", "id": 2},
]


@pytest.mark.parametrize("ending", [".json", ".jsonl", "list"])
def test_pairs_become_two_rows_of_one_group(tmp_path, ending):
    source = tmp_path / f"caa{ending}"
    if ending == ".json":
        source.write_text(json.dumps(CAA))
    elif ending == ".jsonl":
        source.write_text("\n".join(map(json.dumps, CAA)))
    else:
        source = CAA
    table = read_pairs(source, prompt="question")
    assert table.name == ("pairs" if ending == "list" else "caa")
    assert table.texts[0] == CAA[0]["question"] + " (A)"
    assert table.labels.tolist() == [True, False, True, False]
    assert table.groups.tolist() == ["pair 1", "pair 1", "pair 2", "pair 2"]
    assert [text[start:end] for text, (start, end) in zip(table.texts, table.spans["answer"], strict=True)] == ["(A)", "(B)", "(B)", "(A)"]
    assert list(table.column("id")) == [1, 1, 2, 2]
    assert table.column("question")[3] == "And this?"


@pytest.mark.parametrize(("yes", "no"), [("honest", "deceptive"), ("positive", "negative"), ("correct", "incorrect")])
def test_usual_pairs_are_found_by_themselves(yes, no):
    table = read_pairs([{no: "It is.", yes: "It is not."}])
    assert table.texts == ("It is not.", "It is.")
    assert table.labels.tolist() == [True, False]


def test_records_with_one_prompt_are_one_group():
    rows = [{"q": "Which?", "positive": "a", "negative": "b"}, {"q": "Why?", "positive": "a", "negative": "b"}]
    table = read_pairs([*rows, {"q": "Which?", "positive": "c", "negative": "d"}], prompt="q")
    assert table.groups.tolist() == ["pair 1", "pair 1", "pair 2", "pair 2", "pair 1", "pair 1"]


@pytest.mark.parametrize(
    ("rows", "settings", "message"),
    [
        ([{"honest": "a", "deceptive": "b"}], {"positive": "honset", "negative": "deceptive"}, "no field 'honset'.*did you mean 'honest'"),
        ([{"honest": "a", "deceptive": "b"}], {"prompt": "qestion"}, "no field 'qestion'"),
        ([{"honest": "a", "deceptive": "b"}, {"honest": "a"}], {}, r"1 records have no 'deceptive' \(record 2\)"),
        ([{"honest": "a", "deceptive": " "}], {}, "no 'deceptive'"),
        ([{"honest": "a", "deceptive": "a "}], {}, r"same text as 'honest' and as 'deceptive' \(record 1\)"),
        ([{"honest": "a", "deceptive": 3}], {}, "must hold text, but record 1 holds 3"),
        ([{"a": "x", "b": "y"}], {}, "none of the usual pairs"),
        ([{"a": "x", "b": "y"}], {"positive": "a"}, "must name two different fields, got 'a' and None"),
        ([{"a": "x", "b": "y"}], {"positive": "a", "negative": "a"}, "two different fields"),
        ([], {}, "0 records"),
        (7, {}, "expected a file or a list of records, got int"),
    ],
)
def test_bad_pairs_are_refused(rows, settings, message):
    with pytest.raises(TableError, match=message):
        read_pairs(rows, **settings)


def test_damaged_pair_files_are_refused(tmp_path):
    (tmp_path / "empty.json").write_text("")
    with pytest.raises(TableError, match="is empty"):
        read_pairs(tmp_path / "empty.json")
    (tmp_path / "one.json").write_text('{"honest": "a"}')
    with pytest.raises(TableError, match="one list of objects"):
        read_pairs(tmp_path / "one.json")
    (tmp_path / "latin.jsonl").write_bytes('{"honest": "Ü", "deceptive": "x"}'.encode("latin-1"))
    with pytest.raises(TableError, match="not UTF-8"):
        read_pairs(tmp_path / "latin.jsonl")


def test_class_names_of_a_dataset_dict_are_kept_in_every_split():
    features = datasets.Features({"text": datasets.Value("string"), "label": datasets.ClassLabel(names=["world", "sport", "trade"])})
    train = datasets.Dataset.from_dict({"text": ["a", "b", "c"], "label": [2, 0, 1]}, features=features)
    test = datasets.Dataset.from_dict({"text": ["d"], "label": [1]}, features=features)
    table = read_table(datasets.DatasetDict({"train": train, "test": test}))
    assert table.classes == ("world", "sport", "trade")
    assert table.labels.tolist() == ["trade", "world", "sport", "sport"]
    assert table.splits.tolist() == ["train", "train", "train", "test"]
