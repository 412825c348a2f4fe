import collections
import re

import numpy as np
import pytest

from transect.data import audit, concat, effective_groups, read_table
from transect.data.sets.rows import facts

SIZES = {
    "cities": 568, "neg_cities": 568, "larger_than": 464, "smaller_than": 464, "elements": 320, "neg_elements": 320,
    "animals": 164, "neg_animals": 164, "books": 132, "neg_books": 132,
}  # fmt: skip
OPPOSITES = [
    ("cities", "neg_cities"),
    ("larger_than", "smaller_than"),
    ("elements", "neg_elements"),
    ("animals", "neg_animals"),
    ("books", "neg_books"),
]
every_set = pytest.mark.parametrize("name", SIZES)


def words(text):
    return re.findall(r"[^\W_]+(?:-[^\W_]+)*", text.casefold())


@every_set
def test_sizes_and_balance(name):
    table = read_table(name)
    assert len(table) == SIZES[name]
    assert table.kind == "binary"
    assert table.classes == (False, True)
    assert table.codes.mean() == 0.5
    assert set(table.dataset) == {name}
    assert len(set(table.texts)) == len(table)
    assert table.notes


@every_set
def test_within_a_group_every_word_is_as_often_in_true_as_in_false_statements(name):
    table = read_table(name)
    assert table.groups is not None
    counts = collections.Counter()
    for text, code, group in zip(table.texts, table.codes.tolist(), table.groups, strict=True):
        for word in words(text):
            counts[group, word] += 2 * code - 1
    assert not any(counts.values())


@every_set
def test_within_a_group_lengths_are_the_same_for_true_and_false(name):
    table = read_table(name)
    assert table.groups is not None
    lengths = collections.defaultdict(list)
    for text, code, group in zip(table.texts, table.codes.tolist(), table.groups, strict=True):
        lengths[group, code].append(len(text))
    for group, _ in list(lengths):
        assert sorted(lengths[group, 0]) == sorted(lengths[group, 1])


@every_set
def test_groups_are_disjoint_swap_groups(name):
    table = read_table(name)
    assert table.groups is not None
    size = {"larger_than": 2, "smaller_than": 2, "elements": 8, "neg_elements": 8}.get(name, 4)
    assert set(collections.Counter(table.groups.tolist()).values()) == {size}
    if name not in ("larger_than", "smaller_than"):  # a number has to be compared with several others
        owner = {}
        for subject, group in zip(table.column("subject"), table.groups, strict=True):
            assert owner.setdefault(subject, group) == group


@every_set
def test_no_duplicates_join_groups(name):
    table = read_table(name)
    grouping = effective_groups(table)
    assert grouping.notes == ()
    assert table.groups is not None
    assert len(grouping) == len(set(table.groups.tolist()))


@every_set
def test_the_audit_finds_nothing(name):
    assert audit(read_table(name)).severity == "ok"


@pytest.mark.parametrize(("name", "opposite"), OPPOSITES)
def test_opposites_have_the_same_groups_and_flipped_labels(name, opposite):
    one, other = read_table(name), read_table(opposite)
    assert one.groups is not None
    assert other.groups is not None
    assert one.groups.tolist() == other.groups.tolist()
    assert (one.codes != other.codes).all()
    both = concat([one, other])
    assert len(effective_groups(both)) == len(set(one.groups.tolist()))


def test_facts_that_everybody_knows():
    truth = {text: bool(code) for name in SIZES for text, code in zip(read_table(name).texts, read_table(name).codes, strict=True)}
    assert truth["The city of Manila is in the Philippines."]
    assert not truth["The city of Manila is not in the Philippines."]
    assert truth["The chemical symbol of gold is Au."]
    assert truth["The atomic number of iron is 26."]
    assert truth["Fifty-three is larger than fifty-one."]
    assert not truth["Fifty-three is smaller than fifty-one."]


def test_cities_are_many_and_their_countries_too():
    table = read_table("cities")
    assert len(set(table.column("subject"))) == 284
    assert len(set(table.column("object"))) == 107


def test_every_comparison_is_right():
    units = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
    tens = dict(zip(["fifty", "sixty", "seventy", "eighty", "ninety"], range(50, 100, 10), strict=True))
    value = {f"{ten}-{unit}": base + at for ten, base in tens.items() for at, unit in enumerate(units, start=1)}
    table = read_table("larger_than")
    for first, second, label in zip(table.column("subject"), table.column("object"), table.codes, strict=True):
        assert (value[first] > value[second]) == label
    # The order note of the set: how well the size of the first number alone does.
    first = np.array([value[word] for word in table.column("subject")])
    true, false = first[table.codes == 1][:, None], first[table.codes == 0]
    assert round(float((true > false).mean() + 0.5 * (true == false).mean()), 2) == 0.64
    assert any("AUROC 0.64" in note for note in table.notes)


def test_symbols_and_numbers_of_elements_do_not_repeat():
    table = read_table("elements")
    for fact in ("symbol", "number"):
        right = (table.column("fact") == fact) & (table.codes == 1)
        assert right.sum() == 80
        assert len(set(table.column("object")[right])) == 80
    same = sum(
        len({said[0] for said in table.column("object")[(table.column("fact") == "symbol") & (table.groups == group)]}) == 1
        for group in dict.fromkeys((table.groups if table.groups is not None else np.empty(0)).tolist())
    )
    assert same == 25  # the set's note


@pytest.mark.parametrize(
    ("name", "subject", "said"), [("animals", "animal", "class"), ("books", "title", "author"), ("cities", "city", "country")]
)
def test_truth_is_what_the_facts_say(name, subject, said):
    right = {row[subject]: row[said] for row in facts(name)}
    for flipped, table in enumerate((read_table(name), read_table(f"neg_{name}"))):
        for text, one, other, label in zip(table.texts, table.column("subject"), table.column("object"), table.codes, strict=True):
            assert (right[one] == other) == (label != flipped)
            assert one in text
            assert text.endswith(f"{other}.")
            assert (" not " in text) == bool(flipped)
