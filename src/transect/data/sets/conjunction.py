"""``cities_and``: two statements of ``cities`` joined by "and"; true when both are, false when exactly one is.

A group takes two swap pairs and makes four true and four false sentences out of their halves, chosen so that every word, and every
length, stands in as many true as false ones. A probe that only looks for one true half is right about half of the time.
"""

import itertools
from collections.abc import Iterator
from typing import Any

from transect.data.sets.rows import TRUTH, BuiltinRows, as_columns, fact_pairs

_Fact = tuple[str, str]
_NOTE = "cities_and: the cities of the set cities, two swap pairs to a group; false sentences have exactly one false half."


def names() -> tuple[str, ...]:
    """The set made here."""
    return ("cities_and",)


def rows(name: str) -> BuiltinRows:
    """Its columns."""
    del name
    shortcut = "whether both cities match their countries"
    return BuiltinRows(columns=as_columns(list(_sentences())), notes=(_NOTE,), meaning=(TRUTH, shortcut))


def _sentences() -> Iterator[dict[str, Any]]:
    pairs = [tuple((row["city"], row["country"]) for row in pair) for pair in fact_pairs("cities")]
    for (a, b), (c, d) in zip(pairs[::2], pairs[1::2], strict=True):
        group = "|".join(city for city, _ in (a, b, c, d))
        for label, sentences in ((1, _true((a, b), (c, d))), (0, _false((a, b), (c, d)))):
            for first, second in sentences:
                yield {
                    "text": f"The city of {first[0]} is in {first[1]} and the city of {second[0]} is in {second[1]}.",
                    "label": label,
                    "group": group,
                    "subject": first[0],
                    "object": first[1],
                    "subject_2": second[0],
                    "object_2": second[1],
                    "false_half": _false_half(first, second, (a, b, c, d)),
                }


def _true(one: tuple[_Fact, ...], other: tuple[_Fact, ...]) -> list[tuple[_Fact, _Fact]]:
    return list(itertools.product(one, other))


def _false(one: tuple[_Fact, ...], other: tuple[_Fact, ...]) -> list[tuple[_Fact, _Fact]]:
    """Four sentences with each name twice and one false half each, of the same lengths as the true ones."""
    wanted = sorted(map(_length, _true(one, other)))
    options: list[list[tuple[_Fact, _Fact]]] = []
    for right, wrong in itertools.product((other, other[::-1]), repeat=2):
        options.append([*zip(one, _swapped(right), strict=True), *zip(_swapped(one), wrong, strict=True)])
    return next((option for option in options if sorted(map(_length, option)) == wanted), options[0])


def _swapped(pair: tuple[_Fact, ...]) -> tuple[_Fact, ...]:
    (a, x), (b, y) = pair
    return (a, y), (b, x)


def _length(sentence: tuple[_Fact, _Fact]) -> int:
    return sum(len(word) for half in sentence for word in half)


def _false_half(first: _Fact, second: _Fact, facts: tuple[_Fact, ...]) -> str:
    return "none" if first in facts and second in facts else "second" if first in facts else "first"
