import dataclasses
import time

import numpy as np
import pytest

from transect.data import Table, concat, read_table, require_two_classes
from transect.errors import InputError, TableError


def small(**changes):
    values = {
        "name": "small",
        "texts": ("a b", "c d", "e f"),
        "labels": np.array(["x", "y", "x"], dtype=object),
        "kind": "binary",
        "classes": ("x", "y"),
        "groups": np.array(["1", "2", "3"], dtype=object),
        "extra": {"note": np.array([10, 20, 30])},
    }
    return Table(**(values | changes))


def test_codes_follow_the_classes():
    assert small().codes.tolist() == [0, 1, 0]
    assert small(classes=("y", "x")).codes.tolist() == [1, 0, 1]
    assert small().codes.dtype == np.int64


def test_codes_for_other_classes_name_what_was_never_seen():
    assert small().codes_for(("z", "y", "x")).tolist() == [2, 1, 2]
    with pytest.raises(InputError, match=r"2 rows of 'small' have a label that was not seen in training: 'x'"):
        small().codes_for(("y", "z"))


def test_booleans_and_numbers_mean_the_same_classes():
    truth = read_table({"text": ["a", "b"], "label": ["true", "false"]})
    assert truth.codes_for((0, 1)).tolist() == [1, 0]


def test_unlabelled_and_number_tables_have_no_codes():
    with pytest.raises(TableError, match="no labels"):
        small(labels=None, kind=None, classes=None).codes  # noqa: B018  the property is what is tested
    with pytest.raises(TableError, match="numbers"):
        small(labels=np.array([1.0, 2.0, 3.0]), kind="number", classes=None).codes  # noqa: B018  as above


def test_targets_are_codes_or_numbers():
    assert small().targets.tolist() == [0, 1, 0]
    assert small(labels=np.array([1.5, 2.0, 3.0]), kind="number", classes=None).targets.tolist() == [1.5, 2.0, 3.0]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"texts": ()}, "0 rows"),
        ({"groups": np.array(["1"], dtype=object)}, "3 texts but 1 values of groups"),
        ({"kind": None}, "labels without a kind"),
        ({"classes": None}, "classes are needed"),
        ({"classes": ("x",)}, "negative, positive"),
        ({"spans": {"who": ((0, 1),)}}, "spans"),
    ],
)
def test_a_table_that_does_not_fit_together_is_refused(changes, message):
    with pytest.raises(TableError, match=message):
        small(**changes)


def test_a_table_cannot_be_changed():
    with pytest.raises(dataclasses.FrozenInstanceError):
        small().name = "other"


def test_take_keeps_every_column_together():
    table = read_table(
        [{"text": f"the cat {i}", "label": i % 2, "group": i, "who": "cat", "split": "train", "more": i * i} for i in range(6)], span="who"
    )
    part = table.take([4, 0, 4])
    assert part.texts == ("the cat 4", "the cat 0", "the cat 4")
    assert part.labels is not None
    assert part.labels.tolist() == [False, False, False]
    assert part.groups is not None
    assert part.groups.tolist() == ["4", "0", "4"]
    assert part.spans["who"] == ((4, 7),) * 3
    assert part.column("more").tolist() == [16, 0, 16]
    assert part.take(np.array([False, True, False])).texts == ("the cat 0",)


@pytest.mark.parametrize(
    ("rows", "message"), [([], "no rows"), ([3], "from 0 to 2, got 3"), (np.array([True]), "a mask"), (np.zeros(3, dtype=bool), "no rows")]
)
def test_take_refuses_what_is_not_there(rows, message):
    with pytest.raises(TableError, match=message):
        small().take(rows)


def test_column_names_near_matches():
    with pytest.raises(TableError, match="did you mean 'note'"):
        small().column("notes")


def test_digest_sees_every_change_and_nothing_else():
    digests = {
        small().digest,
        small(texts=("a b", "c d", "e g")).digest,
        small(texts=("a bc", " d", "e f")).digest,
        small(labels=np.array(["x", "y", "y"], dtype=object)).digest,
        small(classes=("y", "x")).digest,
        small(groups=np.array(["1", "2", "2"], dtype=object)).digest,
        small(groups=None).digest,
        small(spans={"s": ((0, 1),) * 3}).digest,
        small(splits=np.array(["train"] * 3, dtype=object)).digest,
    }
    assert len(digests) == 9
    assert small(name="other", source="elsewhere").digest == small().digest


def test_digest_is_fixed_for_ever():
    # Stores and saved probes remember it: a change here orphans them.
    assert small().digest == "b3217a1e5b727fc8ae8571a6570f149f"


def test_require_two_classes():
    require_two_classes(small())
    with pytest.raises(TableError, match="every one of the 2 rows of 'small' has the label 'x'"):
        require_two_classes(small().take([0, 2]))
    with pytest.raises(TableError, match="no labels"):
        require_two_classes(small(labels=None, kind=None, classes=None))


def test_concat_keeps_rows_groups_and_where_they_came_from():
    other = small(name="other", texts=("g", "h", "i"), extra={"page": np.array([1, 2, 3])})
    both = concat([small(), other])
    assert both.name == "small+other"
    assert both.dataset.tolist() == ["small"] * 3 + ["other"] * 3
    assert both.groups is not None
    assert both.groups.tolist() == ["1", "2", "3"] * 2
    assert both.codes.tolist() == [0, 1, 0] * 2
    assert both.column("note").tolist() == [10, 20, 30, None, None, None]
    assert concat([both, small(name="third")]).dataset.tolist()[-1] == "third"


def test_concat_gives_ungrouped_rows_groups_of_their_own():
    both = concat([small(), small(name="loose", groups=None)])
    assert both.groups is not None
    assert len(set(both.groups.tolist())) == 6


def test_concat_says_which_spans_it_leaves_out():
    spanned = small(name="spanned", spans={"who": ((0, 1),) * 3})
    both = concat([spanned, small()])
    assert both.spans == {}
    assert any("'who'" in note for note in both.notes)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"classes": ("y", "x")}, "labels are"),
        ({"labels": None, "kind": None, "classes": None}, "missing"),
        ({"splits": np.array(["train"] * 3, dtype=object)}, "only one of them has splits"),
        ({"messages": ([{"role": "user", "content": "a"}],) * 3}, "one holds chats"),
    ],
)
def test_concat_refuses_tables_that_differ(changes, message):
    with pytest.raises(TableError, match=message):
        concat([small(), small(**changes)])


def test_concat_of_nothing():
    with pytest.raises(TableError, match="nothing to join"):
        concat([])


def test_repr_says_what_it_is():
    assert repr(small()) == "Table('small', 3 rows, binary ['x', 'y'], 3 groups)"


def test_a_million_rows_are_hashed_and_taken_in_a_moment():
    n = 1_000_000
    table = Table(name="big", texts=tuple(map(str, range(n))), labels=np.arange(n) % 2, kind="binary", classes=(0, 1))
    start = time.process_time()
    assert len(table.digest) == 32
    assert table.take(np.arange(0, n, 2)).codes.sum() == 0
    assert time.process_time() - start < 10
