"""``familiarity``: questions about well-known, obscure and made-up entities of four types, 40 of each.

After work on entity familiarity in the Bielik models: does the model know, before it answers, whether it has met this entity? The
columns ``type`` (city, writer, athlete, musician) and ``entity`` allow training on some types and testing on others.
"""

from collections.abc import Iterator
from typing import Any

from transect.data.sets.made_up import made_up_names
from transect.data.sets.rows import BuiltinRows, as_columns, facts

_QUESTIONS = {
    "city": "In which country is the city of {}?",
    "writer": "In which country was the writer {} born?",
    "athlete": "In which country was the athlete {} born?",
    "musician": "In which country was the musician {} born?",
}
_FIRST = (
    "Adam",
    "Boris",
    "Clara",
    "Daniel",
    "Erik",
    "Felix",
    "Greta",
    "Hugo",
    "Irena",
    "Julia",
    "Karl",
    "Lena",
    "Martin",
    "Nora",
    "Otto",
    "Paul",
)
_NOTES = (
    "familiarity: own lists of names. 'known' is meant as known to most readers of English, 'obscure' as real but known to few; a model may "
    "see that otherwise. Obscure athletes are tennis players, obscure musicians composers, and the obscure names are seldom English ones, "
    "so origin, trade and length go along with the label. Fabricated names are made of syllables; that nobody has one cannot be promised.",
)


def names() -> tuple[str, ...]:
    """The set made here."""
    return ("familiarity",)


def rows(name: str) -> BuiltinRows:
    """Its columns."""
    del name
    return BuiltinRows(columns=as_columns(list(_questions())), notes=_NOTES)


def _questions() -> Iterator[dict[str, Any]]:
    real = facts("entities")
    for at, (sort, question) in enumerate(_QUESTIONS.items()):
        listed = {
            level: [row["name"] for row in real if (row["type"], row["familiarity"]) == (sort, level)] for level in ("known", "obscure")
        }
        invented = made_up_names(len(listed["known"]), seed=10 + at)
        if sort != "city":
            invented = [f"{_FIRST[place % len(_FIRST)]} {surname}" for place, surname in enumerate(invented)]
        for level, entities in {**listed, "fabricated": invented}.items():
            for place, entity in enumerate(entities):
                yield {
                    "text": question.format(entity),
                    "label": level,
                    # One of each sort to a group, so that every part has as many of each.
                    "group": f"{sort} {place + 1}",
                    "type": sort,
                    "entity": entity,
                    "subject": entity,
                }
