import csv
import gzip
import io
import json
import time

import datasets
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
import zstandard

from transect.data import Table, read_table
from transect.errors import TableError

# Texts that careless readers change: missing-value words, numbers, dates, quotes, separators, line breaks, letters.
AWKWARD = (
    "NA",
    "null",
    "None",
    "nan",
    "007",
    "1.50",
    "2024-05-01",
    "true",
    'She said "no", twice.',
    "a, b\tand c",
    "two\nlines",
    "carriage\r\nreturn",
    " leading and trailing ",
    "Zürich 東京 🙂",
    "a\u2028b",
    "\\N",
    "#not a comment",
    "'single'",
)
LABELS = tuple(i % 2 for i in range(len(AWKWARD)))


def as_csv(delimiter=","):
    out = io.StringIO()
    writer = csv.writer(out, delimiter=delimiter)
    writer.writerow(["text", "label"])
    writer.writerows(zip(AWKWARD, LABELS, strict=True))
    return out.getvalue().encode()


def as_parquet():
    out = io.BytesIO()
    pq.write_table(pa.table({"text": AWKWARD, "label": LABELS}), out)
    return out.getvalue()


ROWS = [{"text": text, "label": label} for text, label in zip(AWKWARD, LABELS, strict=True)]
FILES = {
    ".csv": as_csv(),
    ".tsv": as_csv("\t"),
    ".jsonl": "\n".join(map(json.dumps, ROWS)).encode(),
    ".ndjson": "\r\n".join(json.dumps(row, ensure_ascii=False) for row in ROWS).encode(),
    ".json": json.dumps(ROWS, indent=1).encode(),
    ".parquet": as_parquet(),
}
COMPRESS = {"": lambda data: data, ".gz": gzip.compress, ".zst": lambda data: zstandard.ZstdCompressor().compress(data)}


@pytest.mark.parametrize("compression", COMPRESS)
@pytest.mark.parametrize("ending", FILES)
def test_every_format_gives_back_exactly_what_was_written(tmp_path, ending, compression):
    path = tmp_path / f"my.data{ending}{compression}"
    path.write_bytes(COMPRESS[compression](FILES[ending]))
    table = read_table(path)
    assert table.texts == AWKWARD
    assert table.codes.tolist() == list(LABELS)
    assert table.name == "my.data"
    assert table.source == str(path)


def test_a_byte_order_mark_is_not_part_of_the_first_column(tmp_path):
    for ending in (".csv", ".jsonl", ".json"):
        path = tmp_path / f"bom{ending}"
        path.write_bytes(b"\xef\xbb\xbf" + FILES[ending])
        assert read_table(str(path)).texts == AWKWARD


def test_a_text_longer_than_a_block_is_read(tmp_path):
    path = tmp_path / "long.csv"
    path.write_text("text,label\n" + "x" * (1 << 25) + ",1\ny,0\n")
    assert [len(text) for text in read_table(path).texts] == [1 << 25, 1]


def test_uppercase_endings_and_headers(tmp_path):
    path = tmp_path / "DATA.CSV"
    path.write_text("Text,LABEL\na,1\nb,0\n")
    assert read_table(path).codes.tolist() == [1, 0]


def write(tmp_path, data, name="bad.csv"):
    path = tmp_path / name
    path.write_bytes(data)
    return path


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("bad.csv", b"text,label\na,1\nb,2,3\n", r"line 3 \(row 2\): expected 2 values as in the header, got 3: 'b,2,3'"),
        ("bad.csv", b'text,label\n"two\nlines",1\nb\n', r"line 4 \(row 2\): expected 2 values .* got 1: 'b'"),
        ("bad.csv", b'text,label\na,1\n"open,1\nb,0\n', r"line 3 .* got 1"),
        ("bad.tsv", b"text\tlabel\na\t1\t2\n", r"line 2 \(row 1\)"),
        ("bad.csv", b"text,text\na,b\n", "'text' more than once"),
        ("bad.csv", b"", "empty"),
        ("bad.csv", b"\n\n", "nothing but empty lines"),
        ("bad.csv", b"text,label\n", "0 rows"),
        ("bad.csv", b"text\na\n\nb\n", r"1 rows have an empty or blank text in the column 'text' \(row 2,"),
        ("bad.csv", b"text,label\nok,1\ncaf\xe9,0\n", r"byte 19 \(line 3\) is 0xe9.*iconv -f WINDOWS-1252"),
        ("bad.csv", b"t\xe9xt,label\nok,1\n", r"byte 1 \(line 1\)"),
        ("bad.csv", "text,label\na,1\n".encode("utf-16"), "iconv -f UTF-16"),
        ("bad.jsonl", b'{"text": "caf\xe9"}', r"byte 13 \(line 1\)"),
        ("bad.jsonl", b'{"text": "a"}\n{"text": \n', r"line 2: not JSON"),
        ("bad.jsonl", b'{"text": "a"}\n["b"]\n', r"line 2: expected an object"),
        ("bad.jsonl", b"\n\n", "0 rows"),
        ("bad.json", b'{"text": "a"}', "one list of objects, got dict"),
        ("bad.json", b'{"text": "a"}\n{"text": "b"}', "name it .jsonl"),
        ("bad.json", b"[1]", "row 1: expected a dict"),
        ("bad.json", b"[]", "0 rows"),
        ("bad.parquet", b"PAR1 no", "cannot be read as Parquet"),
        ("bad.parquet", as_parquet()[:-20], "cannot be read as Parquet.*complete"),
        ("bad.csv.gz", b"text,label\n", "gzip"),
        ("bad.csv.gz", gzip.compress(as_csv())[:-20], "gzip.*complete"),
        ("bad.csv.zst", zstandard.ZstdCompressor().compress(as_csv())[:-20], "zstd.*complete"),
        ("bad.csv.zst", b"text,label\n", "zstd"),
        ("bad.xlsx", b"PK", r"says no known format; expected one of .csv, .tsv"),
        ("bad.csv", b"text,label\na,1\n,0\n  ,1\n", r"2 rows have an empty or blank text in the column 'text' \(row 2, 3,"),
        ("bad.csv", b"text,label\na,1\nb,\n", r"1 of 2 rows have no label in the column 'label' \(row 2,"),
        ("bad.jsonl", b'{"text": "a"}\n{"txt": "b"}\n', r"1 rows have no text in the column 'text' \(row 2\)"),
        ("bad.jsonl", b'{"text": "a"}\n{"text": 7}\n', r"must hold text, but row 2 holds int: 7"),
        ("bad.jsonl", b'{"text": "a \\ud800 b"}\n', r"lone surrogate; row 1"),
    ],
)
def test_bad_files_are_named_with_what_to_do(tmp_path, name, data, message):
    with pytest.raises(TableError, match=message):
        read_table(write(tmp_path, data, name))


def test_a_truncated_gzip_at_every_point_is_refused(tmp_path):
    whole = gzip.compress(as_csv())
    for end in range(1, len(whole), 37):
        with pytest.raises(TableError):
            read_table(write(tmp_path, whole[:end], "cut.csv.gz"))


def test_missing_files_name_near_matches(tmp_path):
    write(tmp_path, as_csv(), "train.csv")
    with pytest.raises(TableError, match=r"did you mean 'train\.csv'"):
        read_table(str(tmp_path / "trian.csv"))
    with pytest.raises(TableError, match="did you mean 'cities'"):
        read_table("citties")
    with pytest.raises(TableError, match="is a folder"):
        read_table(tmp_path)
    with pytest.raises(TableError, match="no file"):
        read_table(tmp_path / "none.csv")


@pytest.mark.parametrize("option", ["text", "label", "group", "span", "split", "messages"])
def test_misspelt_columns_name_near_matches(option):
    rows = [{"statement": "a", "is_true": 1}, {"statement": "b", "is_true": 0}]
    with pytest.raises(TableError, match=rf"no column 'statment' \(for {option}\): did you mean 'statement'"):
        read_table(rows, **{option: "statment"})


def test_columns_are_found_by_their_usual_names():
    table = read_table(
        [{"Sentence": "a", "target": 1, "group_id": 3, "split": "dev"}, {"Sentence": "b", "target": 0, "group_id": 4, "split": "Train"}]
    )
    assert table.texts == ("a", "b")
    assert table.codes.tolist() == [1, 0]
    assert table.groups is not None
    assert table.splits is not None
    assert table.groups.tolist() == ["3", "4"]
    assert table.splits.tolist() == ["validation", "train"]
    assert not table.extra


def test_several_candidates_are_an_error():
    with pytest.raises(TableError, match=r"several columns could be the text: 'text', 'sentence'. Choose one with text="):
        read_table([{"text": "a", "sentence": "b"}])
    assert read_table([{"text": "a", "sentence": "b"}], text="sentence").texts == ("b",)
    with pytest.raises(TableError, match="several columns could be the label"):
        read_table([{"text": "a", "label": 1, "target": 2}])
    with pytest.raises(TableError, match="no column of text was found; there is: 'body'"):
        read_table([{"body": "a"}])
    with pytest.raises(TableError, match="both 'text' and 'messages'"):
        read_table([{"text": "a", "messages": [{"role": "user", "content": "b"}]}])


def test_a_table_without_labels_can_be_read():
    table = read_table(["It rains.", "It snows."])
    assert table.kind is None
    assert table.labels is None
    assert table.name == "texts"
    with pytest.raises(TableError, match="no label column was found"):
        read_table(["It rains."], positive=1)


@pytest.mark.parametrize("column", ["label", "group", "split"])
def test_nested_values_where_one_is_needed(column):
    with pytest.raises(TableError, match=r"one value.*, got \['x'\]"):
        read_table([{"text": "a", column: ["x"]}])


def test_unknown_splits_are_named():
    with pytest.raises(TableError, match=r"1 rows of the column 'split' name an unknown split: 'holdout' \(row 2\)"):
        read_table([{"text": "a", "split": "train"}, {"text": "b", "split": "holdout"}])


def test_missing_groups_are_named():
    with pytest.raises(TableError, match=r"1 rows have no group in the column 'group' \(row 2\)"):
        read_table([{"text": "a", "group": "x"}, {"text": "b", "group": None}])


@pytest.mark.parametrize("values", [["4:7", "0:3"], [[4, 7], [0, 3]], [(4, 7), np.array([0, 3])], ["cat", "the"]])
def test_spans_are_positions_or_words(values):
    rows = [{"text": "the cat", "who": value} for value in values]
    assert read_table(rows, span="who").spans == {"who": ((4, 7), (0, 3))}


def test_a_span_that_looks_like_positions_among_words_is_words():
    rows = [{"text": "at 12:30 sharp", "when": "12:30"}, {"text": "at noon", "when": "noon"}]
    assert read_table(rows, span="when").spans == {"when": ((3, 8), (3, 7))}


@pytest.mark.parametrize("value", ["dog", "3:99", [5, 5], [-1, 2], [0, 2, 3], [0.0, 2.0], None, 7, ""])
def test_spans_outside_their_text_are_named(value):
    with pytest.raises(TableError, match=r"1 spans in the column 'who' do not lie in their text \(row 1\)"):
        read_table([{"text": "the cat", "who": value}], span="who")


def test_an_ambiguous_span_takes_the_first_and_says_so():
    table = read_table([{"text": "the cat saw the dog", "who": "the"}], span=["who"])
    assert table.spans["who"] == ((0, 3),)
    assert any("more than once" in note for note in table.notes)


CHAT = [{"role": "user", "content": "Is it raining?"}, {"role": "assistant", "content": "Yes."}]


@pytest.mark.parametrize("ending", [".jsonl", ".parquet", ".csv"])
def test_chats_are_read_from_files(tmp_path, ending):
    path = tmp_path / f"chats{ending}"
    if ending == ".jsonl":
        path.write_text("\n".join(json.dumps({"messages": CHAT, "label": i}) for i in (0, 1)))
    elif ending == ".parquet":
        pq.write_table(pa.table({"messages": [CHAT, CHAT], "label": [0, 1]}), path)
    else:
        pd.DataFrame({"messages": [json.dumps(CHAT)] * 2, "label": [0, 1]}).to_csv(path, index=False)
    table = read_table(path)
    assert table.messages == (CHAT, CHAT)
    assert table.texts == ("Is it raining?\nYes.",) * 2


@pytest.mark.parametrize("chat", [[], "hello", [{"role": "user"}], [{"role": "user", "content": ["parts"]}], None, ["hello"]])
def test_what_is_not_a_chat_is_named(chat):
    with pytest.raises(TableError, match=r"1 rows of the column 'messages' are not chats \(row 2\)"):
        read_table([{"messages": CHAT}, {"messages": chat}])


def test_a_list_of_chats():
    assert read_table([CHAT, CHAT]).messages == (CHAT, CHAT)


def test_repeated_texts_are_kept_and_noted():
    table = read_table(["a", "b", "a"])
    assert len(table) == 3
    assert table.notes == ("1 rows repeat the text of another row; all are kept, and copies stay on one side of every split.",)


def test_pandas_frames_keep_words_and_find_gaps():
    table = read_table(pd.DataFrame({"text": ["NA", "b"], "label": pd.Categorical(["x", "y"])}))
    assert table.texts == ("NA", "b")
    assert table.classes == ("x", "y")
    with pytest.raises(TableError, match="no label"):
        read_table(pd.DataFrame({"text": ["a", "b"], "label": [1.0, np.nan]}))
    with pytest.raises(TableError, match="no label"):
        read_table(pd.DataFrame({"text": ["a", "b"], "label": pd.array([1, None], dtype="Int64")}))
    with pytest.raises(TableError, match="no text"):
        read_table(pd.DataFrame({"text": ["a", np.nan]}))
    with pytest.raises(TableError, match="more than once"):
        read_table(pd.DataFrame([["a", "b"]], columns=["text", "text"]))


def test_arrow_tables_and_dicts_of_columns():
    columns = {"text": ["a", "b"], "label": [0, 1]}
    assert read_table(pa.table(columns)).codes.tolist() == [0, 1]
    assert read_table(
        pa.table({"text": pa.array(["a", "b"], pa.large_string()), "label": pa.array(["x", "y"]).dictionary_encode()})
    ).classes == ("x", "y")
    assert read_table(columns).codes.tolist() == [0, 1]
    assert read_table({"text": np.array(["a", "b"])}).texts == ("a", "b")
    with pytest.raises(TableError, match="one length"):
        read_table({"text": ["a", "b"], "label": [0]})
    with pytest.raises(TableError, match="must be a list"):
        read_table({"text": "abc"})


def test_hugging_face_datasets_with_class_names():
    features = datasets.Features({"text": datasets.Value("string"), "label": datasets.ClassLabel(names=["pos", "neg"])})
    dataset = datasets.Dataset.from_dict({"text": ["a", "b", "c"], "label": [0, 1, 1]}, features=features)
    table = read_table(dataset)
    assert table.classes == ("pos", "neg")
    assert table.codes.tolist() == [0, 1, 1]
    assert read_table(dataset.select([2, 0])).texts == ("c", "a")
    hidden = datasets.Dataset.from_dict({"text": ["a"], "label": [-1]}, features=features)
    with pytest.raises(TableError, match="no label"):
        read_table(hidden)


def test_hugging_face_dataset_dicts_keep_their_splits():
    part = datasets.Dataset.from_dict({"text": ["a", "b"], "label": [0, 1]})
    table = read_table(datasets.DatasetDict({"train": part, "test": part}))
    assert table.splits is not None
    assert table.splits.tolist() == ["train", "train", "test", "test"]
    other = datasets.Dataset.from_dict({"text": ["a"]})
    with pytest.raises(TableError, match="different columns"):
        read_table(datasets.DatasetDict({"train": part, "test": other}))


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ([], "0 rows"),
        ({}, "0 rows"),
        (pd.DataFrame({"text": []}), "0 rows"),
        ((text for text in "ab"), "made a list first"),
        (7, "cannot read labelled text from int"),
        (["a", {"text": "b"}], "row 1: expected a dict"),
        (["a", None], r"no text in the column 'text' \(row 2\)"),
    ],
)
def test_objects_that_are_no_tables(source, message):
    with pytest.raises(TableError, match=message):
        read_table(source)


def test_a_table_passes_through():
    table = read_table(["a"])
    assert read_table(table) is table
    assert read_table(table, name="other").name == "other"
    with pytest.raises(TableError, match="already a Table"):
        read_table(table, label="x")
    assert isinstance(table, Table)


def test_a_million_rows(tmp_path):
    n = 1_000_000
    labels = np.arange(n) % 2
    texts = pa.array(np.char.add("The number is ", np.arange(n).astype(str)))
    columns = pa.table({"text": texts, "label": labels})
    pq.write_table(columns, tmp_path / "big.parquet")
    pyarrow.csv.write_csv(columns, tmp_path / "big.csv")
    for name in ("big.parquet", "big.csv"):
        start = time.process_time()
        table = read_table(tmp_path / name)
        assert time.process_time() - start < 10  # CPU seconds of a busy machine; about 2 on a quiet one
        assert len(table) == n
        assert table.texts[-1] == f"The number is {n - 1}"
        assert table.codes.sum() == n // 2
