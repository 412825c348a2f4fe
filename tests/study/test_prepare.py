import numpy as np
import pytest

from transect.data import read_table
from transect.errors import InputError, TableError
from transect.study import Settings, combine
from transect.study.prepare import cast, scored_rows


def groups_of(part, rows):
    return set(part.table.groups[rows].tolist())


def test_no_group_of_the_training_rows_is_scored_anywhere():
    parts = cast(read_table("cities"), [read_table("neg_cities"), read_table("larger_than")], Settings())
    fitted = np.unique(parts.train.groups[parts.train.development])
    assert not groups_of(parts.train, parts.train.development) & groups_of(parts.train, parts.train.test)
    negated, larger = parts.tests
    assert groups_of(negated, scored_rows(negated, fitted)) == groups_of(parts.train, parts.train.test)
    assert len(scored_rows(larger, fitted)) == len(larger.table)
    assert "share a group" in negated.notes[0]
    assert larger.notes == ()


def test_joined_tables_keep_their_components_apart():
    parts = cast(combine([read_table("cities"), read_table("neg_cities")]), [], Settings())
    assert [str(part.table.dataset[part.test[0]]) for part in parts.components] == ["cities", "neg_cities"]
    joined = np.sort(np.concatenate([part.test for part in parts.components]))
    assert np.array_equal(joined, parts.train.test)


def test_the_same_seed_divides_alike_and_another_seed_differently():
    first, again, other = (cast(read_table("cities"), [], Settings(seed=seed)).train.test for seed in (0, 0, 1))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_a_text_that_was_fitted_on_is_not_scored_in_another_table():
    rows = [{"text": f"statement number {index} about topic {index % 7}", "label": index % 2} for index in range(60)]
    train = read_table(rows, name="train")
    parts = cast(train, [read_table(rows, name="copy")], Settings())
    fitted = np.unique(parts.train.groups[parts.train.development])
    assert len(scored_rows(parts.tests[0], fitted)) == len(parts.train.test)


@pytest.mark.parametrize(
    ("test", "error", "message"),
    [
        ([{"text": "a b c", "label": "maybe"}, {"text": "d e f", "label": "yes"}], InputError, "'maybe'"),
        ([{"text": "a b c", "label": "yes"}, {"text": "d e f", "label": "yes"}], TableError, "at least two different labels"),
        ([{"text": "a b c", "label": 0.25}, {"text": "d e f", "label": 1.75}, {"text": "g h", "label": 3.5}], InputError, "number"),
    ],
)
def test_test_tables_that_cannot_be_scored_are_refused(test, error, message):
    train = read_table([{"text": f"text {index}", "label": "yes" if index % 2 else "no"} for index in range(20)], name="train")
    with pytest.raises(error, match=message):
        cast(train, [read_table(test, name="test")], Settings())


def test_two_tables_of_one_name_are_refused():
    with pytest.raises(InputError, match="two tables are called 'cities'"):
        cast(read_table("cities"), [read_table("cities")], Settings())
