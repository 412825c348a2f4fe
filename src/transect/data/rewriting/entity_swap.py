"""Shift: other entities, the same statement.

In the built-in sets about cities, elements and numbers the new entities come from spare facts that no set uses: a city becomes another
city of the same country, an element and its symbol and number become those of another element, and a number a larger one, so the label
stays what it was and no new text is that of another row. The swap is the same for every row, or the balance of words would be lost.

In any other table a swap may change the label (most labels are about somebody). Only when the caller says that it does not are names
(capitalised words inside a sentence) replaced by made-up ones, the same name always by the same.
"""

import hashlib
import re

import numpy as np

from transect.data.rewriting.rewriting import Rewriting
from transect.data.sets.rows import facts
from transect.data.table import Table

_NAME = re.compile(r"(?<=[a-z,;] )[A-Z][a-z]+(?:[ -][A-Z][a-z]+)*")
_SYLLABLES = ("ba", "dor", "fen", "gil", "ka", "lor", "mi", "nev", "po", "ras", "sul", "tam", "vek", "wen", "yo", "zar")


def _names(text: str, rng: np.random.Generator, keep: tuple[str, ...]) -> str | None:
    del rng, keep  # the same name must become the same in every row, so nothing is drawn
    return _NAME.sub(lambda found: re.sub("[A-Z][a-z]+", lambda word: _made_up(word[0]), found[0]), text) if _NAME.search(text) else None


def _made_up(word: str) -> str:
    digest = hashlib.blake2b(word.encode(), digest_size=3).digest()
    return "".join(_SYLLABLES[byte % len(_SYLLABLES)] for byte in digest).capitalize()


ENTITY_SWAP = Rewriting(
    name="entity_swap",
    kind="entity_swap",
    description="Other entities in the same statement, with the label kept.",
    rule=_names,
    refusal="no name inside a sentence to swap",
)


def swapped_facts(table: Table) -> list[tuple[str, str, str] | None] | None:
    """For a built-in set with spare facts: new text, subject and object of each row, None for rows without a spare fact.

    Returns:
        None for other tables.
    """
    base = {"neg_cities": "cities", "neg_elements": "elements", "smaller_than": "larger_than"}
    name = table.source.removeprefix("built-in ") if table.source.startswith("built-in ") else ""
    swap = {"cities": _cities, "elements": _elements, "larger_than": _numbers}.get(base.get(name, name))
    if swap is None:
        return None
    columns = (table.texts, table.column("subject"), table.column("object"), table.column("fact"), table.groups)
    new = swap()
    return [_swap(new, *map(str, row)) for row in zip(*columns, strict=True)]  # type: ignore[arg-type]


def _swap(new: dict[tuple[str, str], str], text: str, subject: str, said: str, fact: str, group: str) -> tuple[str, str, str] | None:
    names = group.split("|")
    if fact == "order":
        a, b = (f"one hundred {word}" for word in (subject, said))
        head = text[len(subject) :].removesuffix(f"{said}.")
        # Only the sentence as it was made can be taken apart like this.
        return None if text != f"{subject.capitalize()}{head}{said}." else (f"{a.capitalize()}{head}{b}.", a, b)
    if any((fact, name) not in new for name in names):
        return None
    said_new = new.get((f"{fact} said", said), said)
    head, ending = text[: len(text) - len(said) - 1], text[len(text) - len(said) - 1 :]
    if ending != f"{said}." or head.count(subject) != 1:
        return None
    return head.replace(subject, new[fact, subject]) + f"{said_new}.", new[fact, subject], said_new


def _cities() -> dict[tuple[str, str], str]:
    spare: dict[str, list[str]] = {}
    for row in reversed(facts("cities_more")):
        spare.setdefault(row["country"], []).append(row["city"])
    found = {row["city"]: spare[row["country"]].pop() if spare.get(row["country"]) else None for row in facts("cities")}
    return {("country", city): other for city, other in found.items() if other}


def _elements() -> dict[tuple[str, str], str]:
    new: dict[tuple[str, str], str] = {}
    for old, other in zip(facts("elements"), facts("elements_more"), strict=False):
        for fact in ("symbol", "number"):
            new[fact, old["element"]] = other["element"]
            new[f"{fact} said", old[fact]] = other[fact]
    return new


def _numbers() -> dict[tuple[str, str], str]:
    return {}
