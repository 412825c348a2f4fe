import numpy as np
import pytest

from transect.data.labels import read_labels
from transect.errors import TableError


def labels(values, **settings):
    return read_labels(np.array(values, dtype=object), name="label", **settings)


@pytest.mark.parametrize(
    "values",
    [
        ["0", "1", "1"],
        [0, 1, 1],
        [0.0, 1.0, 1.0],
        [False, True, True],
        ["false", "True", "TRUE"],
        ["no", "yes", "Yes"],
        [" 0", "1 ", "1"],
    ],
)
def test_truth_values_are_one_thing_however_they_are_spelt(values):
    read = labels(values)
    assert read.kind == "binary"
    assert read.classes == (False, True)
    assert read.values.tolist() == [False, True, True]


@pytest.mark.parametrize(
    ("values", "kind", "classes"),
    [
        (["spam", "ham"], "binary", ("ham", "spam")),
        ([-1, 1], "binary", (-1, 1)),
        (["1", "2"], "binary", (1, 2)),
        (["0.5", "1.5"], "binary", (0.5, 1.5)),
        (["a", "b", "c"], "multiclass", ("a", "b", "c")),
        ([1, 2, 3], "multiclass", (1, 2, 3)),
        (["1", "10", "9"], "multiclass", (1, 9, 10)),
        (list(range(20)), "multiclass", tuple(range(20))),
        (list(range(21)), "number", None),
        ([0.5, 1.0, 2.0], "number", None),
        (["0.5", "1", "2"], "number", None),
        ([1.0, 2.0, 3.0], "multiclass", (1, 2, 3)),
        ([True], "binary", (False, True)),
        (["cat"], "multiclass", ("cat",)),
        (["3_1", "3_2", "31"], "multiclass", ("31", "3_1", "3_2")),
        (["NA", "DE", "FR"], "multiclass", ("DE", "FR", "NA")),
        (["none", "joy", "fear"], "multiclass", ("fear", "joy", "none")),
    ],
)
def test_kinds_are_inferred(values, kind, classes):
    read = labels(values)
    assert read.kind == kind
    assert read.classes == classes


def test_kind_can_be_chosen():
    assert labels(range(30), kind="multiclass").classes == tuple(range(30))
    assert labels([1, 2, 3], kind="number").values.tolist() == [1.0, 2.0, 3.0]
    assert labels([0, 1], kind="multiclass").classes == (0, 1)
    assert labels(["1e3", "2"], kind="number").values.dtype == np.float64
    with pytest.raises(TableError, match="did you mean 'number'"):
        labels([1, 2], kind="numbr")


@pytest.mark.parametrize(
    ("values", "positive", "classes"),
    [
        (["ham", "spam"], "ham", ("spam", "ham")),
        ([0, 1], 0, (True, False)),
        (["yes", "no"], "no", (True, False)),
        (["yes", "no"], False, (True, False)),
        ([1, 2], "1", (2, 1)),
    ],
)
def test_positive_can_be_chosen(values, positive, classes):
    assert labels(values, positive=positive).classes == classes


def test_positive_must_be_a_label_of_two():
    with pytest.raises(TableError, match="did you mean 'spam'"):
        labels(["ham", "spam"], positive="spamm")
    with pytest.raises(TableError, match="multiclass"):
        labels(["a", "b", "c"], positive="a")


@pytest.mark.parametrize(
    "values",
    [
        ["x", None, "y"],
        ["x", "", "y"],
        ["x", "  ", "y"],
        [1.0, float("nan"), 0.0],
        ["1", "nan", "0"],
        ["1", "NA", "0"],
        ["true", "null", "false"],
        [1, "N/A", 2.5],
    ],
)
def test_missing_labels_are_named_by_row(values):
    with pytest.raises(TableError, match=r"1 of 3 rows have no label in the column 'label' \(row 2,"):
        labels(values)


def test_many_missing_labels_are_counted():
    with pytest.raises(TableError, match=r"14 of 16 rows .* and 4 more"):
        labels([None] * 14 + ["x", "y"])


@pytest.mark.parametrize(
    ("values", "settings", "message"),
    [
        (["1.5", "x", "2"], {"kind": "number"}, r"not finite numbers, for example 'x' \(row 2\)"),
        (["1.5", "inf", "2"], {}, r"not finite numbers, for example 'inf' \(row 2\)"),
        (["a", "b", "c"], {"kind": "binary"}, "has 3: 'a', 'b', 'c'"),
        (["a", "a"], {"kind": "binary"}, "two different labels, got 1"),
        ([f"id{i}" for i in range(30)], {}, "does not look like a label"),
        ([[1], [2]], {}, "a label must be one value"),
    ],
)
def test_labels_that_cannot_be_used(values, settings, message):
    column = np.fromiter(values, dtype=object, count=len(values))
    with pytest.raises(TableError, match=message):
        read_labels(column, name="label", **settings)


def test_declared_classes_keep_their_order():
    read = labels(["pos", "neg"], declared=["pos", "neg"])
    assert read.classes == ("pos", "neg")
    assert labels(["1", "0"], declared=["1", "0"]).classes == (False, True)
