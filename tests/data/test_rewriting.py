import collections
import functools

import numpy as np
import pytest

from transect.data import Table, audit, builtin_names, concat, read_table, rewrite_table, shift_rewritings, style_rewritings
from transect.data.rewriting.words import NEGATIONS, sentences
from transect.data.sets.rows import facts
from transect.errors import InputError

ALL = {one.name: one for one in (*style_rewritings(), *shift_rewritings())}
STYLES = [one.name for one in style_rewritings()]
NEGATIONS_OF = {"cities": "neg_cities", "elements": "neg_elements", "animals": "neg_animals", "books": "neg_books"}


@functools.cache
def made(name):
    return read_table(name)


def rng():
    return np.random.default_rng(0)


def write(name, text, **settings):
    return ALL[name].apply(text, rng(), **settings)


@pytest.mark.parametrize("rewriting", ALL)
@pytest.mark.parametrize("name", builtin_names())
def test_rows_add_up_labels_and_groups_stay_and_nothing_leaks(name, rewriting):
    table = made(name)
    done = rewrite_table(table, ALL[rewriting])
    assert len(done.rows) + done.n_unchanged + done.n_excluded == len(table)
    assert sum(done.reasons.values()) == done.n_excluded
    again = rewrite_table(table.take(done.rows[::9]) if len(done.rows) else table.take([0, 1]), ALL[rewriting])
    if done.table is None:
        assert again.table is None
        assert len(done.rows) == 0
        return
    assert again.table is not None
    assert again.table.digest == done.table.take(np.arange(0, len(done.table), 9)).digest
    source = table.take(done.rows)
    assert all(new != old for new, old in zip(done.table.texts, source.texts, strict=True))
    if source.groups is not None:
        assert done.table.groups.tolist() == source.groups.tolist()
        owner = collections.defaultdict(set)
        for text, group in zip((*table.texts, *done.table.texts), (*table.groups, *done.table.groups), strict=True):
            owner[text].add(group)
        given = {text for text in table.texts if len(owner[text]) > 1}
        assert not [text for text, groups in owner.items() if len(groups) > 1 and text not in given]
    if rewriting == "negation":
        assert (done.table.codes == 1 - source.codes).all()
    else:
        assert done.table.labels.tolist() == source.labels.tolist()
    assert done.table.dataset[0] == f"{name}:{rewriting}"


@pytest.mark.parametrize("name", NEGATIONS_OF)
def test_a_negated_set_is_its_opposite_word_for_word_and_label_for_label(name):
    done = rewrite_table(read_table(name), ALL["negation"])
    other = read_table(NEGATIONS_OF[name])
    assert done.n_excluded == 0
    assert dict(zip(done.table.texts, done.table.labels, strict=True)) == dict(zip(other.texts, other.labels, strict=True))
    assert done.table.meaning == other.meaning
    back = rewrite_table(done.table, ALL["negation"])
    assert back.table.texts == read_table(name).texts
    assert back.table.labels.tolist() == read_table(name).labels.tolist()


@pytest.mark.parametrize(
    ("name", "thing", "sort", "kept"),
    [("cities", "city", "country", 560), ("animals", "animal", "class", 156), ("books", "title", "author", 128)],
)
@pytest.mark.parametrize("negated", [False, True])
def test_swapped_things_are_true_where_the_facts_say_so(name, thing, sort, kept, negated):
    spare = {row[thing]: row[sort] for row in facts(f"{name}_more")}
    assert not {row[thing] for row in facts(name)} & set(spare)
    table = made(f"neg_{name}" if negated else name)
    done = rewrite_table(table, ALL["entity_swap"])
    assert len(done.table) == kept
    assert done.reasons == {"no spare fact to swap in": len(table) - kept}
    for row, text, new, said, label in zip(
        done.rows, done.table.texts, done.table.column("subject"), done.table.column("object"), done.table.codes, strict=True
    ):
        assert text == table.texts[row].replace(table.column("subject")[row], new)
        assert (spare[new] == said) == (label != negated)
    # The same thing becomes the same thing, and no two become one.
    pairs = set(zip(table.column("subject")[done.rows], done.table.column("subject"), strict=True))
    assert len(pairs) == len({one for one, _ in pairs}) == len({other for _, other in pairs})


def test_swapped_elements_are_true_where_the_facts_say_so():
    spare = {row["element"]: row for row in facts("elements_more")}
    done = rewrite_table(read_table("elements"), ALL["entity_swap"])
    assert len(done.table) == 144
    for text, element, said, fact, label in zip(
        done.table.texts,
        done.table.column("subject"),
        done.table.column("object"),
        done.table.column("fact"),
        done.table.codes,
        strict=True,
    ):
        assert text.endswith(f" of {element} is {said}.")
        assert (spare[element][fact] == said) == label


def test_paraphrased_and_swapped_comparisons_are_right():
    units = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
    tens = {"fifty": 50, "sixty": 60, "seventy": 70, "eighty": 80, "ninety": 90}
    value = {f"{ten}-{unit}": base + at for ten, base in tens.items() for at, unit in enumerate(units, start=1)}
    value |= {f"one hundred {word}": 100 + number for word, number in value.items()}
    for name in ("larger_than", "smaller_than"):
        for rewriting in ("paraphrase", "entity_swap"):
            table = rewrite_table(read_table(name), ALL[rewriting]).table
            for text, label in zip(table.texts, table.codes, strict=True):
                relation = "larger" if "larger" in text else "smaller"
                first, second = text.casefold().rstrip(".").split(f" is {relation} than ")
                assert (value[first] > value[second]) == (label == (relation == "larger"))


@pytest.mark.parametrize("rewriting", [name for name in ALL if name != "negation"])
def test_balance_by_groups_survives(rewriting):
    table = rewrite_table(made("elements"), ALL[rewriting]).table
    assert audit(table).severity == "ok"


@pytest.mark.parametrize("seed", range(2))
def test_typos_touch_no_name_number_or_negation(seed):
    for name in ("cities", "neg_cities", "elements", "neg_elements", "larger_than", "books", "neg_books"):
        table = read_table(name)
        done = rewrite_table(table, ALL["typos"], seed=seed)
        assert done.table is not None
        for row, new in zip(done.rows.tolist(), done.table.texts, strict=True):
            kept = [word.casefold() for word in (table.column("subject")[row], table.column("object")[row])]
            old_words, new_words = ([f" {text.casefold().rstrip('.')} "] for text in (table.texts[row], new))
            assert all(new_words[0].count(f" {word} ") == old_words[0].count(f" {word} ") == 1 for word in kept)
            for word in NEGATIONS:
                assert new.split().count(word) == table.texts[row].split().count(word)
            assert [c for c in new if c.isdigit()] == [c for c in table.texts[row] if c.isdigit()]


def test_typos_do_not_apply_where_every_word_matters():
    assert write("typos", "Never say 15 to Ann, nothing without it.", keep=("it",)) is None
    assert write("typos", "It may not be.") is None
    assert write("typos", "It is united.", keep=("united",)) is None
    assert write("typos", "The ocean covers everything.") not in (None, "The ocean covers everything.")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The sky is blue.", "The sky is not blue."),
        ("The sky is not blue.", "The sky is blue."),
        ("Cats can swim.", "Cats can not swim."),
        ("All birds are blue.", None),
        ("Is the sky blue?", None),
        ("It is wet and it is cold.", None),
        ("The sky is blue. The sea is green.", None),
        ("Birds sing.", None),
        ("It isn't blue.", None),
        ("It is never blue.", None),
        ("You must go.", None),
    ],
)
def test_negation_of_plain_statements_only(text, expected):
    assert write("negation", text) == expected


def test_negation_sees_through_names_with_and():
    text = "The city of Mostar is in Bosnia and Herzegovina."
    assert write("negation", text) is None
    assert write("negation", text, keep=("Bosnia and Herzegovina",)) == "The city of Mostar is not in Bosnia and Herzegovina."


@pytest.mark.parametrize("seed", range(8))
def test_case_keeps_symbols_acronyms_and_i(seed):
    new = ALL["case"].apply("It is said that Co is what NASA and I saw.", np.random.default_rng(seed))
    assert {"Co", "NASA", "I"} <= set(new.strip(".").split())
    assert new[:2] in ("it", "IT")


@pytest.mark.parametrize("seed", range(12))
def test_styles_keep_every_word_of_the_text(seed):
    text = "The Danube does not flow through Spain. It flows through Vienna, in 1 country of 10."
    draw = np.random.default_rng(seed)
    for name in ("punctuation", "filler", "list_form", "quotation", "language_tag"):
        new = ALL[name].apply(text, draw)
        assert new != text
        kept = iter(new.casefold().replace(".", " ").replace("!", " ").replace('"', " ").split())
        wanted = [word.strip(".") for word in text.casefold().split()]
        found = " ".join(kept)
        assert all(word.strip(",") in found for word in wanted)


@pytest.mark.parametrize("seed", range(6))
def test_questions_stay_questions_in_every_style(seed):
    for name in STYLES:
        new = ALL[name].apply("Which river flows through the city of Vienna?", np.random.default_rng(seed))
        assert "?" in new


def test_sentences_do_not_end_at_abbreviations():
    assert sentences("Dr. Smith met J. Doe. They left! Did they?") == ["Dr. Smith met J. Doe.", "They left!", "Did they?"]


def test_quotation_refuses_when_every_mark_is_taken():
    assert write("quotation", 'a "b" “c” «d»') is None


def labelled(texts, labels, **more):
    return Table(name="mine", texts=tuple(texts), labels=np.array(labels), kind="binary", classes=(False, True), **more)


def test_unknown_effects_exclude_and_say_why():
    table = labelled(["The film was good.", "The film was bad."], [True, False])
    for name in ("negation", "entity_swap"):
        done = rewrite_table(table, ALL[name])
        assert done.table is None
        assert (done.n_excluded, done.n_unchanged) == (2, 0)
        assert list(done.reasons.values()) == [2]
        assert "label_effect" in next(iter(done.reasons))
    flipped = rewrite_table(table, ALL["negation"], label_effect="flips")
    assert flipped.table.labels.tolist() == [False, True]
    kept = rewrite_table(table, ALL["negation"], label_effect="keeps")
    assert kept.table.labels.tolist() == [True, False]


def test_names_are_swapped_the_same_way_everywhere_when_the_caller_allows():
    table = labelled(["I met Anna in Berlin.", "They say Anna left.", "Nobody came."], [True, False, True])
    done = rewrite_table(table, ALL["entity_swap"], label_effect="keeps")
    assert done.rows.tolist() == [0, 1]
    assert done.reasons == {ALL["entity_swap"].refusal: 1}
    first, second = done.table.texts
    assert first.split()[2] == second.split()[2] != "Anna"
    assert "Berlin" not in first


def test_numbers_and_classes_cannot_flip():
    table = Table(name="mine", texts=("It is warm.",), labels=np.array([1.5]), kind="number")
    with pytest.raises(InputError, match=r"needs two classes.*number"):
        rewrite_table(table, ALL["negation"], label_effect="flips")
    assert rewrite_table(table, ALL["case"]).table.labels.tolist() == [1.5]
    with pytest.raises(InputError, match="label_effect must be"):
        rewrite_table(table, ALL["negation"], label_effect="maybe")
    with pytest.raises(InputError, match="seed"):
        rewrite_table(table, ALL["case"], seed=-1)


def test_unchanged_texts_are_counted_and_left_out():
    done = rewrite_table(read_table(["it is warm today", "It Is Cold"]), ALL["case"], seed=1)
    assert done.n_unchanged + len(done.rows) == 2
    counts = [rewrite_table(read_table(["it is warm today"]), ALL["case"], seed=seed).n_unchanged for seed in range(8)]
    assert set(counts) == {0, 1}


def test_a_new_text_that_is_another_groups_text_is_excluded():
    table = labelled(["The sky is blue.", "The sky is not blue."], [True, False], groups=np.array(["a", "b"], dtype=object))
    done = rewrite_table(table, ALL["negation"], label_effect="flips")
    assert done.table is None
    assert done.reasons == {"the new text is that of a row of another group": 2}
    together = labelled(["The sky is blue.", "The sky is not blue."], [True, False], groups=np.array(["a", "a"], dtype=object))
    assert len(rewrite_table(together, ALL["negation"], label_effect="flips").table) == 2


def test_rewriting_a_part_gives_what_rewriting_all_gives():
    table = read_table("cities")
    rows = [3, 100, 44]
    for name, rewriting in ALL.items():
        done = rewrite_table(table, rewriting, seed=7)
        whole = dict(zip(done.rows.tolist(), done.table.texts, strict=True))
        assert [whole[row] for row in rows] == list(rewrite_table(table.take(rows), rewriting, seed=7).table.texts), name


def test_spans_move_with_their_words_or_exclude():
    table = read_table([{"text": "The sky is blue.", "part": "sky"}, {"text": "A b b.", "part": "b"}], span="part")
    done = rewrite_table(table, ALL["language_tag"])
    start, end = done.table.spans["part"][0]
    assert done.table.texts[0][start:end] == "sky"
    assert done.reasons == {"the span 'part' is not found again, exactly once, in the new text": 1}


def test_only_the_last_message_of_a_chat_changes():
    chat = [{"role": "user", "content": "Say it."}, {"role": "assistant", "content": "The sky is blue."}]
    table = read_table([{"messages": chat, "label": 1}, {"messages": chat[:1], "label": 0}])
    done = rewrite_table(table, ALL["quotation"])
    new = done.table.messages[0]
    assert new[0] == chat[0]
    assert new[1]["content"][1:-1] == "The sky is blue."
    assert done.table.texts[0] == "\n".join(message["content"] for message in new)
    assert chat[1]["content"] == "The sky is blue."


def test_joined_tables_remember_where_rows_came_from():
    both = concat([read_table("cities"), read_table("neg_cities")])
    done = rewrite_table(both, ALL["case"])
    assert set(done.table.dataset) == {"cities:case", "neg_cities:case"}


def test_names_are_unique_and_kinds_known():
    assert len(ALL) == 11
    assert {one.kind for one in style_rewritings()} == {"style"}
    assert [one.kind for one in shift_rewritings()] == ["negation", "paraphrase", "entity_swap"]
    assert all(one.description for one in ALL.values())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("He stayed because it rained.", "He stayed since it rained."),
        ("Because it rained, he stayed.", "Since it rained, he stayed."),
        ("He stayed because of the rain.", None),
        ("However hard it rained, he left.", None),
        ("A camel is a mammal.", "A camel belongs to the mammals."),
        ("Hamlet was not written by Leo Tolstoy.", "Leo Tolstoy is not the author of Hamlet."),
    ],
)
def test_paraphrases_say_the_same(text, expected):
    options = {ALL["paraphrase"].apply(text, np.random.default_rng(seed)) for seed in range(8)}
    assert expected in options
    assert (None in options) == (expected is None)


def test_spare_facts_are_used_even_when_the_caller_says_that_labels_stay():
    assert rewrite_table(made("cities"), ALL["entity_swap"], label_effect="keeps").table.texts[0].startswith("The city of Baltimore")
