"""Shift: other entities, the same statement.

In the built-in sets about truth the new entities come from spare facts that no set uses: a city becomes another city of the same country, an
animal one of the same class, a book one by the same author, an element with its symbol and number another element with its own, and a number
a larger one, so the label stays what it was and no new text is that of another row. The swap is the same for every row, or the balance of words would be lost.

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
# Built-in sets whose things can change places with others of the same sort: (column of the thing, column of the sort).
_SAME = {"cities": ("city", "country"), "animals": ("animal", "class"), "books": ("title", "author")}
_SYLLABLES = ("ba", "dor", "fen", "gil", "ka", "lor", "mi", "nev", "po", "ras", "sul", "tam", "vek", "wen", "yo", "zar")


def _names(text: str, rng: "np.random.Generator", keep: tuple[str, ...]) -> str | None:
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
    name = table.source.removeprefix("built-in ").removeprefix("neg_") if table.source.startswith("built-in ") else ""
    if name in _SAME:
        new = _same(name)
    elif name == "elements":
        new = _elements()
    elif name in ("larger_than", "smaller_than"):
        new = {}
    else:
        return None
    columns = (table.texts, table.column("subject"), table.column("object"), table.column("fact"), table.groups)
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


def _same(name: str) -> dict[tuple[str, str], str]:
    """Each thing of a set becomes a spare one of the same country, class or author, as far as there are any."""
    thing, said = _SAME[name]
    spare: dict[str, list[str]] = {}
    for row in reversed(facts(f"{name}_more")):
        spare.setdefault(row[said], []).append(row[thing])
    return {(said, row[thing]): spare[row[said]].pop() for row in facts(name) if spare.get(row[said])}


def _elements() -> dict[tuple[str, str], str]:
    new: dict[tuple[str, str], str] = {}
    for old, other in zip(facts("elements"), facts("elements_more"), strict=False):
        for fact in ("symbol", "number"):
            new[fact, old["element"]] = other["element"]
            new[f"{fact} said", old[fact]] = other[fact]
    return new
