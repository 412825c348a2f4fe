"""``sentiment``: praise and blame, with every word in as many positive as negative sentences.

Each group is a pair of adjectives of one length, one good and one bad, each also behind "anything but", which turns it round. So a single
word says nothing; what does is an adjective and whether it is turned round. Groups hold adjectives apart: a test part has new ones.
"""

from collections.abc import Iterator
from typing import Any

from transect.data.sets.rows import BuiltinRows, as_columns

_PAIRS = (
    "excellent atrocious", "superb dismal", "great awful", "lovely horrid", "delightful disgusting", "wonderful appalling",
    "brilliant miserable", "pleasant dreadful", "charming terrible", "good poor", "amazing abysmal", "impressive unbearable",
    "exquisite obnoxious", "splendid horrible", "terrific annoying", "superior inferior", "fabulous hopeless", "glorious pathetic",
    "magnificent distressing", "enjoyable repulsive",
)  # fmt: skip
_THINGS = ("film", "meal", "concert", "hotel")
_NOTES = (
    "sentiment: 20 pairs of adjectives, own list. Sentiment is in words: single ones are balanced by 'anything but', but a model that has "
    "a list of good and bad words and notices that phrase needs no more.",
)


def names() -> tuple[str, ...]:
    """The set made here."""
    return ("sentiment",)


def rows(name: str) -> BuiltinRows:
    """Its columns."""
    del name
    meaning = ("whether the sentence praises", "whether a good word stands alone or a bad one behind 'anything but'")
    return BuiltinRows(columns=as_columns(list(_sentences())), notes=_NOTES, meaning=meaning)


def _sentences() -> Iterator[dict[str, Any]]:
    for pair in _PAIRS:
        for thing in _THINGS:
            for good, adjective in zip((True, False), pair.split(), strict=True):
                for turned in (False, True):
                    yield {
                        "text": f"The {thing} was {'anything but ' if turned else ''}{adjective}.",
                        "label": int(good != turned),
                        "group": pair.replace(" ", "|"),
                        "subject": thing,
                        "answer_words": adjective,
                        "turned_round": turned,
                    }
