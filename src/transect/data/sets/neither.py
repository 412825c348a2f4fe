"""``cities_neither``: statements that are true, false, or neither, for testing how stable a probe of truth is.

After "Representational stability of truth in language models": relabel the neither statements as false, or leave them out, and see how
far a probe of truth moves. There are two sorts, in the column ``sort``: *unfamiliar* (made-up cities in made-up countries) and *fictional*
(places of well-known fiction, as the fiction has them). The true and false ones are from ``cities``, in the same groups.
"""

from collections.abc import Iterator
from typing import Any

from transect.data.sets.made_up import made_up_names
from transect.data.sets.rows import BuiltinRows, as_columns, facts
from transect.data.sets.truth import rows as truth_rows

_REAL = 160
_NOTES = (
    "cities_neither: 80 true and 80 false statements of cities, 40 about made-up cities, 40 from well-known fiction (column sort). Only "
    "names tell neither from the rest, so a probe of the three classes may read familiarity; the test of stability needs just that contrast.",
)


def names() -> tuple[str, ...]:
    """The set made here."""
    return ("cities_neither",)


def rows(name: str) -> BuiltinRows:
    """Its columns."""
    del name
    return BuiltinRows(columns=as_columns([*_real(), *_neither()]), notes=_NOTES)


def _real() -> Iterator[dict[str, Any]]:
    columns = truth_rows("cities").columns
    for at in range(_REAL):
        label = "true" if columns["label"][at] else "false"
        yield {
            "text": columns["text"][at],
            "label": label,
            "group": columns["group"][at],
            "subject": columns["subject"][at],
            "object": columns["object"][at],
            "sort": label,
        }


def _neither() -> Iterator[dict[str, Any]]:
    cities, countries = made_up_names(40, seed=1), made_up_names(40, seed=2, ending="ia")
    fiction = facts("fictional")
    places = {
        "unfamiliar": list(zip(cities, countries, strict=True)),
        "fictional": [(row["city"], row["place"]) for row in fiction],
    }
    for sort, pairs in places.items():
        for at, (city, place) in enumerate(pairs):
            yield {
                "text": f"The city of {city} is in {place}.",
                "label": "neither",
                "group": f"{sort} {place if sort == 'fictional' else at // 2}",
                "subject": city,
                "object": place,
                "sort": sort,
            }
