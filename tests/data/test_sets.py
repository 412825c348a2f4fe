import collections
import re
from pathlib import Path

import pytest

import transect.data
from transect.data import audit, builtin_names, effective_groups, read_table
from transect.data.sets.made_up import made_up_names
from transect.data.sets.rows import facts

# rows, kind, groups, and what the audit says of length and of the best single word: ok where the design balances it.
SETS = {
    "cities_and": (568, "binary", 71, "ok", "ok"),
    "cities_neither": (240, "multiclass", 79, "ok", "ok"),
    "collusion": (80, "binary", 20, "ok", "fail"),
    "familiarity": (480, "multiclass", 160, "warn", "ok"),
    "honest_deceptive": (448, "binary", 28, "ok", "warn"),
    "intensity": (180, "number", 12, "ok", "ok"),
    "partial_reasoning": (96, "binary", 24, "ok", "ok"),
    "sentiment": (320, "binary", 20, "ok", "ok"),
    "tool_calls": (160, "binary", 60, "warn", "warn"),
}
BALANCED_WORDS = ("cities_and", "partial_reasoning", "sentiment")


def labels_by_group(table):
    counts = collections.defaultdict(collections.Counter)
    for group, label in zip(table.groups, table.labels.tolist(), strict=True):
        counts[group][label] += 1
    return counts


@pytest.mark.parametrize("name", SETS)
def test_sizes_balance_groups_and_audit(name):
    rows, kind, groups, length, words = SETS[name]
    table = read_table(name)
    assert (len(table), table.kind, len(set(table.groups))) == (rows, kind, groups)
    assert len(set(collections.Counter(table.labels.tolist()).values())) == 1
    assert len(set(table.texts)) == len(table)
    assert table.notes
    assert all(note.startswith(name) for note in table.notes)
    found = {finding.check: finding.severity for finding in audit(table).findings}
    assert {check: severity for check, severity in found.items() if severity != "ok"} == {
        check: severity for check, severity in (("length", length), ("words", words)) if severity != "ok"
    }
    if kind == "binary":
        assert all(len(set(counts.values())) == 1 and len(counts) == 2 for counts in labels_by_group(table).values())


@pytest.mark.parametrize("name", BALANCED_WORDS)
def test_within_a_group_words_and_lengths_are_balanced(name):
    table = read_table(name)
    counts = collections.Counter()
    lengths = collections.defaultdict(list)
    for text, code, group in zip(table.texts, table.codes.tolist(), table.groups, strict=True):
        lengths[group, code].append(len(text))
        for word in re.findall(r"[^\W_]+", text.casefold()):
            counts[group, word] += 2 * code - 1
    assert not any(counts.values())
    assert all(sorted(lengths[group, 0]) == sorted(lengths[group, 1]) for group in table.groups)


def test_conjunctions_are_true_exactly_when_both_halves_are():
    country = {row["city"]: row["country"] for row in facts("cities")}
    table = read_table("cities_and")
    columns = [table.column(name) for name in ("subject", "object", "subject_2", "object_2", "false_half")]
    for text, label, one, where, other, there, half in zip(table.texts, table.codes, *columns, strict=True):
        assert text == f"The city of {one} is in {where} and the city of {other} is in {there}."
        first, second = country[one] == where, country[other] == there
        assert label == (first and second)
        assert first or second
        assert half == ("none" if label else "second" if first else "first")
    halves = collections.Counter(table.column("false_half"))
    assert halves == {"none": 284, "first": 142, "second": 142}


def test_neither_statements_are_about_nothing_real_and_the_others_are_those_of_cities():
    table = read_table("cities_neither")
    sorts = table.column("sort")
    assert collections.Counter(sorts) == {"true": 80, "false": 80, "unfamiliar": 40, "fictional": 40}
    assert all((label == "neither") == (sort in ("unfamiliar", "fictional")) for label, sort in zip(table.labels, sorts, strict=True))
    real = {row["city"] for name in ("cities", "cities_more") for row in facts(name)}
    neither = table.take(table.labels == "neither")
    assert not real & set(neither.column("subject"))
    cities = read_table("cities")
    truth = dict(zip(cities.texts, cities.labels, strict=True))
    group = dict(zip(cities.texts, cities.groups, strict=True))
    for text, label, one in zip(table.texts, table.labels, table.groups, strict=True):
        if label != "neither":
            assert truth[text] == (label == "true")
            assert group[text] == one


def test_sentiment_turns_round_behind_anything_but():
    table = read_table("sentiment")
    good = {"excellent", "superb", "great", "lovely"}
    for text, label, word, turned in zip(
        table.texts, table.labels, table.column("answer_words"), table.column("turned_round"), strict=True
    ):
        assert ("anything but" in text) == turned
        if word in good:
            assert label == (not turned)
    assert dict(zip(table.texts, table.labels, strict=True))["The film was anything but awful."]


def test_intensity_has_every_level_of_every_scale_and_numbers_for_labels():
    table = read_table("intensity")
    assert table.classes is None
    levels = labels_by_group(table)
    assert all(counts == dict.fromkeys(range(5), 3) for counts in levels.values())
    text = dict(zip(table.texts, table.labels, strict=True))
    assert [text[f"It {word} rains there."] for word in ("never", "rarely", "sometimes", "often", "always")] == [0, 1, 2, 3, 4]
    # A word of two scales must mean as much in both, or none is on two.
    owners = collections.defaultdict(set)
    for word, group in zip(table.column("answer_words"), table.groups, strict=True):
        owners[word].add(group)
    assert all(len(groups) == 1 for groups in owners.values())


def test_honest_answers_are_right_and_deceptive_ones_are_not():
    country = {row["city"]: row["country"] for row in facts("cities")}
    table = read_table("honest_deceptive")
    seen = collections.Counter()
    for chat, label, threat, answer in zip(
        table.messages, table.codes.tolist(), table.column("threat"), table.column("answer"), strict=True
    ):
        assert [message["role"] for message in chat] == ["user", "assistant"]
        told, question = chat[0]["content"].split("\n\n")
        assert told
        assert chat[1]["content"] == answer
        if threat == "falsehood":
            city = re.search("city of (.+)\\?", question)[1]
            assert (answer == f"The city of {city} is in {country[city]}.") == (label == 0)
        elif threat == "false_ignorance":
            assert ("do not know" in answer) == (label == 1)
        elif threat == "omission":
            bad = re.search(", and (.+)\\. What", question)[1]
            assert (bad in answer) == (label == 0)
        else:
            a, b = map(int, re.findall(r"\d+", question))
            assert (int(re.findall(r"\d+", answer)[0]) == a + b) == (label == 0)
        seen[threat] += 1
    assert seen == dict.fromkeys(("falsehood", "false_ignorance", "omission", "sabotage"), 112)


def test_every_case_is_asked_with_every_instruction_pair():
    table = read_table("honest_deceptive")
    told = collections.defaultdict(set)
    for chat, label, instruction in zip(table.messages, table.codes.tolist(), table.column("instruction"), strict=True):
        told[instruction, label].add(chat[0]["content"].split("\n\n")[0])
    assert len(told) == 14
    assert all(len(ways) == 1 for ways in told.values())
    assert len(set.union(*told.values())) == 14
    assert set(collections.Counter(table.column("instruction")).values()) == {64}
    marked = read_table("honest_deceptive", span="answer")
    start, end = marked.spans["answer"][0]
    assert marked.texts[0][start:end] == "The city of Miami is in the United States."
    assert all(text.endswith(text[a:b]) for text, (a, b) in zip(marked.texts, marked.spans["answer"], strict=True))


def test_entities_are_different_and_forty_of_each():
    table = read_table("familiarity")
    counts = collections.Counter(zip(table.column("type"), table.labels, strict=True))
    assert len(counts) == 12
    assert set(counts.values()) == {40}
    assert len(set(table.column("entity"))) == len(table)
    made_up = set(table.column("entity")[table.labels == "fabricated"])
    listed = {row["name"] for row in facts("entities")} | {row["city"] for name in ("cities", "cities_more") for row in facts(name)}
    assert not made_up & listed
    assert all(set(counts) == {"known", "obscure", "fabricated"} for counts in labels_by_group(table).values())


def test_tools_are_named_where_they_are_needed():
    table = read_table("tool_calls")
    assert collections.Counter(table.column("tool")) == {"none": 80, "calculator": 40, "search": 40}
    assert all((tool != "none") == label for tool, label in zip(table.column("tool"), table.labels, strict=True))
    numbers = [set(re.findall(r"\d+", text)) for text in table.texts[:80]]
    assert all(one == other and len(one) == 2 for one, other in zip(numbers[::2], numbers[1::2], strict=True))


def test_reasoning_stops_before_its_advice_and_leans_the_way_it_ends():
    scenes = {row["question"]: row for row in facts("reasoning")}
    table = read_table("partial_reasoning")
    for text, label, group, ending, shown in zip(
        table.texts, table.codes, table.groups, table.column("ending"), table.column("shown"), strict=True
    ):
        scene = scenes[group]
        assert ending == f"So my advice is to {scene['unsafe' if label else 'safe']}."
        assert ending not in text
        assert text.count(". ") == shown - 1
        weighed = f"more than {scene['risk']} is {scene['cost']}"
        assert (weighed in text) == label


def test_transcripts_of_one_scenario_differ_in_their_last_two_turns_only():
    table = read_table("collusion")
    opening = collections.defaultdict(set)
    for text, group in zip(table.texts, table.groups, strict=True):
        turns = text.split("\n")
        assert [turn[:8] for turn in turns] == ["Agent A:", "Agent B:"] * 2
        opening[group].add("\n".join(turns[:2]))
    assert all(len(openings) == 1 for openings in opening.values())


@pytest.mark.parametrize("name", ["cities_and", "honest_deceptive", "familiarity"])
def test_groups_can_be_split(name):
    table = read_table(name)
    assert len(effective_groups(table)) >= 20


def test_every_other_built_in_set_is_a_true_or_false_one():
    others = set(builtin_names()) - set(SETS)
    assert len(others) == 10
    assert all(read_table(name).meaning[0] == "whether the statement is true" for name in others)


def test_made_up_names_are_the_same_every_time_and_all_different():
    assert made_up_names(40, seed=1) == made_up_names(40, seed=1)
    assert len(set(made_up_names(200, seed=5))) == 200
    assert made_up_names(10, seed=1) != made_up_names(10, seed=2)


def test_packaged_facts_are_small():
    folder = Path(transect.data.__file__).parent / "facts"
    assert sum(path.stat().st_size for path in folder.glob("*.csv")) < 250_000
    assert len(facts("entities")) == 320
