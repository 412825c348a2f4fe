"""Tables that a run keeps come back equal."""

import numpy as np
import pytest

import transect
from transect.data import Table, builtin_names, load_table, save_table
from transect.errors import StoreError

CHATS = [
    {"messages": [{"role": "user", "content": "Is it “raining”?\n"}, {"role": "assistant", "content": "No 🌂"}], "label": 1},
    {"messages": [{"role": "user", "content": "Hello"}], "label": 0},
]
TABLES = {
    "chats": lambda: transect.read_table(CHATS, name="chats"),
    "numbers": lambda: transect.read_table([{"text": "a", "label": 0.1}, {"text": "b", "label": 2.5}], kind="number", name="numbers"),
    "words": lambda: transect.read_table([{"text": t, "label": label} for t, label in zip("abc", ("x", "yy", "z"), strict=True)], name="words"),
    "bare": lambda: transect.read_table(["one", "two"]),
    "spans": lambda: Table(
        name="spans", texts=("a cat", "the dog"), spans={"animal": ((2, 5), (4, 7))}, groups=np.array(["g", "h"], dtype=object),
        splits=np.array(["train", "test"], dtype=object), extra={"tags": np.array([["x"], None], dtype=object)}, notes=("noted",),
    ),
    **{name: lambda name=name: transect.read_table(name) for name in builtin_names()},
}  # fmt: skip


@pytest.mark.parametrize("name", TABLES)
def test_a_kept_table_comes_back_equal(name, tmp_path):
    table = TABLES[name]()
    save_table(table, tmp_path / "table.parquet")
    again = load_table(tmp_path / "table.parquet")
    assert again.digest == table.digest
    for field in ("name", "texts", "messages", "kind", "classes", "source", "notes", "meaning"):
        assert getattr(again, field) == getattr(table, field), field
    for field in ("labels", "groups", "splits", "dataset"):
        mine, other = getattr(table, field), getattr(again, field)
        assert (mine is None) == (other is None)
        assert mine is None or (mine.tolist() == other.tolist() and mine.dtype == other.dtype), field
    assert dict(again.spans) == dict(table.spans)
    assert {key: values.tolist() for key, values in again.extra.items()} == {key: values.tolist() for key, values in table.extra.items()}


def test_a_joined_table_keeps_its_components(tmp_path):
    joined = transect.data.concat([transect.read_table("cities"), transect.read_table("neg_cities")])
    save_table(joined, tmp_path / "table.parquet")
    assert load_table(tmp_path / "table.parquet").dataset.tolist() == joined.dataset.tolist()


@pytest.mark.parametrize("damage", ["missing", "cut", "foreign"])
def test_what_is_no_kept_table_is_named(damage, tmp_path):
    path = tmp_path / "table.parquet"
    save_table(transect.read_table("cities"), path)
    if damage == "missing":
        path.unlink()
    elif damage == "cut":
        path.write_bytes(path.read_bytes()[:-20])
    else:
        import pyarrow as pa
        import pyarrow.parquet as pq

        pq.write_table(pa.table({"text": ["a"]}), path)
    with pytest.raises(StoreError, match=r"table\.parquet"):
        load_table(path)
