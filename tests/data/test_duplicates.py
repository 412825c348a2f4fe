import time

import numpy as np
import pytest

from transect.data import effective_groups, read_table
from transect.data.duplicates import COMMON_ROWS, SIMILARITY, exact_ids, jaccard, near_duplicates, normal_form

LETTERS = np.array(list("abcdefghijklmnopqrstuvwxyz "))


def random_texts(n, length, *, seed=0):
    rng = np.random.default_rng(seed)
    return ["".join(row) for row in LETTERS[rng.integers(0, len(LETTERS), size=(n, length))]]


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("It rains.", "it  rains", True),
        ("Don't go!", "don’t go", True),
        ("ﬁne", "fine", True),
        ("STRASSE", "straße", True),
        ("2 + 2 = 4", "2 - 2 = 4", False),
        ("1.5", "15", False),
        ("well-known", "well known", False),
        ("!!!", "???", False),
        ("!!!", "!!!", True),
    ],
)
def test_normal_form(one, other, same):
    assert (normal_form(one) == normal_form(other)) is same


def test_exact_ids_number_texts_by_first_appearance():
    ids, forms = exact_ids(["B.", "a", "b", "A!"])
    assert ids.tolist() == [0, 1, 0, 1]
    assert forms == ["b", "a"]


def with_edits(texts, *, seed=0):
    """Each text once more, with a number of letters in the middle replaced."""
    rng = np.random.default_rng(seed)
    copies = []
    for text in texts:
        size = int(rng.integers(1, 25))
        at = int(rng.integers(0, len(text) - size))
        copies.append(text[:at] + "Q" * size + text[at + size :])
    return copies


def test_near_duplicates_are_those_of_the_definition():
    originals = random_texts(60, 150)
    texts = originals + with_edits(originals)
    found = {tuple(sorted(pair)) for pair in near_duplicates(texts).pairs.tolist()}
    for i in range(60):
        similarity = jaccard(texts[i], texts[60 + i])
        if abs(similarity - SIMILARITY) > 0.02:  # a shared shingle of Qs may tip a pair on the very edge
            assert ((i, 60 + i) in found) == (similarity >= SIMILARITY)
    assert all(jaccard(texts[a], texts[b]) >= SIMILARITY - 0.02 for a, b in found)
    assert len(found) > 20


def test_a_shared_template_makes_no_near_duplicates():
    template = "You are a careful assistant. Read the following statement and decide whether it is true or false. Statement: "
    slots = random_texts(200, 40)
    assert len(near_duplicates([template + slot for slot in slots]).pairs) == 0
    # The same slot with a small change is found behind the template.
    texts = [template + slot for slot in (*slots, slots[0][:-1] + "Q")]
    assert near_duplicates(texts).pairs.tolist() == [[0, 200]]


def test_many_texts_that_are_all_alike_are_connected():
    base = random_texts(1, 300)[0]
    texts = [base[:-3] + f"{i:03d}" for i in range(COMMON_ROWS)]
    table = read_table([*texts, *random_texts(100, 50, seed=1)])
    ids = effective_groups(table).ids
    assert len(set(ids[:COMMON_ROWS].tolist())) == 1
    assert len(set(ids[COMMON_ROWS:].tolist())) == 100


def test_short_texts_are_compared_exactly_only():
    assert len(near_duplicates(["the cat sat", "the cat sits", "", "a"]).pairs) == 0


def test_too_much_text_is_not_searched_and_says_so(monkeypatch):
    monkeypatch.setattr("transect.data.duplicates.MOST_TEXTS", 10)
    found = near_duplicates(random_texts(11, 50))
    assert len(found.pairs) == 0
    assert "11 different texts" in found.skipped
    assert any("not searched" in note for note in effective_groups(read_table(random_texts(11, 50))).notes)


def test_given_groups_are_joined_by_shared_texts():
    rows = [("a", "1"), ("b", "1"), ("B", "2"), ("c", "2"), ("d", "3")]
    grouping = effective_groups(read_table([{"text": text, "group": group} for text, group in rows]))
    assert grouping.ids.tolist() == [0, 0, 0, 0, 1]
    assert len(grouping) == 2
    assert any("3 given groups became 2" in note for note in grouping.notes)


def test_near_duplicates_join_groups_unless_told_otherwise():
    texts = random_texts(30, 120)
    texts.append(texts[0] + "!x")
    table = read_table(texts)
    assert effective_groups(table).ids.tolist() == [*range(30), 0]
    assert "31 groups became 30" in effective_groups(table).notes[0]
    assert effective_groups(table, near=False).ids.tolist() == list(range(31))


def test_joining_more_than_half_of_the_rows_is_refused_aloud(monkeypatch):
    # Without the exception for common shingles, a template glues everything.
    monkeypatch.setattr("transect.data.duplicates.COMMON_SHARE", 1.0)
    template = random_texts(1, 400)[0]
    table = read_table([template + slot for slot in random_texts(50, 10, seed=1)])
    grouping = effective_groups(table)
    assert len(grouping) == 50
    assert any("would put 50 of 50 rows into one group" in note for note in grouping.notes)


def test_twenty_thousand_short_texts_take_a_second():
    texts = random_texts(20_000, 60)
    texts[-1] = texts[0] + "."
    texts[-2] = texts[1][:-1] + "Q"
    start = time.process_time()
    found = near_duplicates(texts[:-1])
    assert time.process_time() - start < 6  # 100,000 take about 3 on a quiet machine
    assert found.pairs.tolist() == [[1, 19_998]]
