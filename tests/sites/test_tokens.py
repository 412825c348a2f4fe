"""Token rules: parsing, canonical names, and the positions they give."""

import pytest

from transect.errors import TokenRuleError
from transect.sites import TokenRule, parse_tokens


@pytest.mark.parametrize(
    ("given", "name", "reduces", "positions"),
    [
        ("last", "last", "select", [6]),
        ("first", "first", "select", [0]),
        ("-1", "last", "select", [6]),
        ("0", "first", "select", [0]),
        (" +3 ", "3", "select", [3]),
        (3, "3", "select", [3]),
        ("-2", "-2", "select", [5]),
        ("-7", "-7", "select", [0]),
        ("mean", "mean", "mean", [0, 1, 2, 3, 4, 5, 6]),
        ("max", "max", "max", [0, 1, 2, 3, 4, 5, 6]),
        ("all", "all", "all", [0, 1, 2, 3, 4, 5, 6]),
        ("2:5", "2:5", "mean", [2, 3, 4]),
        ("1:", "1:", "mean", [1, 2, 3, 4, 5, 6]),
        (":-4", ":-4", "mean", [0, 1, 2]),
        ("5:99", "5:99", "mean", [5, 6]),
        (":", "mean", "mean", [0, 1, 2, 3, 4, 5, 6]),
        ("span:city", "span:city", "mean", [2, 3]),
        ("prompt[-1]", "prompt[-1]", "select", [4]),
        ("prompt[0]", "prompt[0]", "select", [0]),
        ("prompt[ 1:3 ]", "prompt[1:3]", "mean", [1, 2]),
        ("prompt[:]", "prompt[:]", "mean", [0, 1, 2, 3, 4]),
        ("prompt[*]", "prompt[*]", "all", [0, 1, 2, 3, 4]),
        ("generated[*]", "generated[*]", "all", [5, 6]),
        ("generated[0]", "generated[0]", "select", [5]),
        ("generated[ -1 ]", "generated[-1]", "select", [6]),
        ("generated[:]", "generated[:]", "mean", [5, 6]),
        ("generated[1:]", "generated[1:]", "mean", [6]),
        ("role:user", "role:user", "mean", [2, 3]),
        ("role:user[:]", "role:user", "mean", [2, 3]),
        ("role:tool[*]", "role:tool[*]", "all", [2, 3]),
        ("role:assistant[-1]", "role:assistant[-1]", "select", [3]),
        ("role:thinking[0:1]", "role:thinking[0:1]", "mean", [2]),
    ],
)
def test_a_rule_reads_these_tokens(given, name, reduces, positions):
    rule = parse_tokens(given)
    assert str(rule) == name
    assert rule.reduces == reduces
    assert list(rule.positions(7, span=(2, 4), prompt=(0, 5))) == positions
    assert parse_tokens(name) == rule
    assert str(parse_tokens(str(rule))) == name
    assert parse_tokens(rule) is rule


def test_a_slice_has_the_name_that_was_written_and_the_span_keeps_its_column():
    assert parse_tokens("span:my column").column == "my column"
    assert hash(parse_tokens("last")) == hash(parse_tokens("-1"))


@pytest.mark.parametrize(
    "given",
    [
        "",
        "lst",
        "1.5",
        "span:",
        "prompt[]",
        "prompt[x]",
        "generated[]",
        "generated",
        "role:",
        "role:[*]",
        "*",
        "1:2:3",
        "[3]",
        "last,first",
    ],
)
def test_an_unreadable_rule_repeats_itself_and_lists_the_grammar(given):
    with pytest.raises(TokenRuleError) as caught:
        parse_tokens(given)
    assert repr(given) in str(caught.value)
    assert "span:<column>" in str(caught.value)


@pytest.mark.parametrize(
    ("rule", "length", "span", "prompt", "says"),
    [
        ("7", 7, None, None, "has 7 tokens"),
        ("-8", 7, None, None, "has 7 tokens"),
        ("4:4", 7, None, None, "selects nothing"),
        ("9:", 7, None, None, "selects nothing"),
        ("last", 0, None, None, "has 0 tokens"),
        ("mean", 0, None, None, "has 0 tokens"),
        ("span:city", 7, None, None, "a span column 'city'"),
        ("span:city", 7, (3, 3), None, "the span has 0 tokens"),
        ("span:city", 7, (3, 9), None, "covers tokens 3:9"),
        ("prompt[-1]", 7, None, None, "texts that have a prompt"),
        ("prompt[5]", 7, None, (0, 5), "the prompt has 5 tokens"),
        ("generated[*]", 7, None, (0, 7), "the answer has 0 tokens"),
        ("generated[2]", 7, None, (0, 5), "the answer has 2 tokens"),
        ("generated[0]", 7, None, None, "texts that have a prompt"),
        ("role:tool", 7, None, None, "messages with the role 'tool'"),
    ],
)
def test_a_rule_that_selects_nothing_says_so(rule, length, span, prompt, says):
    with pytest.raises(TokenRuleError) as caught:
        parse_tokens(rule).positions(length, span=span, prompt=prompt)
    assert says in str(caught.value)


def test_rules_match_python_indexing():
    tokens = list(range(5))
    for start in range(-5, 5):
        assert list(parse_tokens(str(start)).positions(5)) == [tokens[start]]
        for stop in range(-5, 7):
            expected = tokens[start:stop]
            rule = parse_tokens(f"{start}:{stop}")
            if expected:
                assert list(rule.positions(5)) == expected
            else:
                with pytest.raises(TokenRuleError):
                    rule.positions(5)


def test_a_rule_is_frozen():
    with pytest.raises(AttributeError):
        parse_tokens("last").start = 3  # pyright: ignore[reportAttributeAccessIssue]
    assert isinstance(parse_tokens("last"), TokenRule)
