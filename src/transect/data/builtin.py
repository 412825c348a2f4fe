"""Built-in sets of true and false statements, made on the spot from packaged facts.

In every set the statements come in swap groups: two facts and the same two facts with their second halves exchanged.
Within a group each word therefore stands in as many true as false statements, so a model of single words (or of text
length) has nothing to learn from them, and a probe that does better reads how the words belong together. The
``neg_`` sets and ``smaller_than`` say the opposite with the labels flipped, under the same group names: a probe that
reads truth keeps working there, one that reads "these two words belong together" turns upside down.

The form follows Marks and Tegmark, "The Geometry of Truth" (2023, arXiv:2310.06824); the facts, the pairing and the
wording are our own. The facts are in ``facts/*.csv``, where each two lines are a pair; pairs were matched for equal
length of name or country (symbol, number), so that swapping leaves the lengths as they were.
"""

import csv
import dataclasses
from collections.abc import Iterator
from importlib import resources

from transect.data.files import Columns, object_array

_UNITS = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
_TENS = {5: "fifty", 6: "sixty", 7: "seventy", 8: "eighty", 9: "ninety"}
# How far apart, in the list of numbers, the two compared ones are. Near ones, because a large first number must not
# give the answer away; a few of each, so that the distance is not always the same.
_STEPS = (2, 3, 5, 7, 9, 12)

_NOTES = {
    "cities": (
        "cities: well-known cities and their countries, own list, checked against GeoNames: each city is the best known of its name, and "
        "the wrong country has no place of that name with 500 inhabitants. Wrong countries are mostly on another continent, so the false "
        "statements are easy ones.",
    ),
    "larger_than": (
        "larger_than: numbers in words from fifty-one to ninety-nine. The words are balanced in each pair, but their order is what is "
        "asked, so 'the first number is large' alone predicts the label (AUROC 0.64).",
    ),
    "elements": (
        "elements: chemical symbols and atomic numbers, own list. In 25 of the 40 pairs both symbols start with the same letter; in "
        "the others the first letter helps to tell true from false.",
    ),
}


# What decides the label in each set; in a flipped set it is the opposite.
_SHORTCUTS = {
    "cities": ("whether the city and the country match", "whether the city and the country do not match"),
    "larger_than": ("whether the first number is the larger one", "whether the first number is the smaller one"),
    "elements": ("whether the element and its symbol or number match", "whether the element and its symbol or number do not match"),
}


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class BuiltinRows:
    """The columns of a built-in set (text, label, group, subject, object and more), and where they come from."""

    columns: Columns
    notes: tuple[str, ...]
    meaning: tuple[str, str]


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Statement:
    text: str
    label: int
    group: str
    subject: str
    object: str
    fact: str


def builtin_names() -> tuple[str, ...]:
    """The names that `read_table` makes on the spot, sorted.

    Examples:
        >>> builtin_names()
        ('cities', 'elements', 'larger_than', 'neg_cities', 'neg_elements', 'smaller_than')
    """
    return tuple(sorted(_MAKERS))


def builtin_rows(name: str) -> BuiltinRows:
    """The columns of a built-in set; `read_table` makes the table."""
    base, flipped = _MAKERS[name]
    statements = list({"cities": _cities, "elements": _elements, "larger_than": _larger_than}[base](flipped))
    columns = {
        field.name: object_array([getattr(statement, field.name) for statement in statements]) for field in dataclasses.fields(_Statement)
    }
    columns["label"] = columns["label"].astype(int)
    return BuiltinRows(columns=columns, notes=_NOTES[base], meaning=("whether the statement is true", _SHORTCUTS[base][flipped]))


_MAKERS = {
    "cities": ("cities", False),
    "neg_cities": ("cities", True),
    "elements": ("elements", False),
    "neg_elements": ("elements", True),
    "larger_than": ("larger_than", False),
    "smaller_than": ("larger_than", True),
}


def _pairs(name: str) -> Iterator[tuple[dict[str, str], dict[str, str]]]:
    text = resources.files("transect.data").joinpath("facts", f"{name}.csv").read_text(encoding="utf-8")
    rows = list(csv.DictReader(text.splitlines()))
    return zip(rows[::2], rows[1::2], strict=True)


def _swaps(form: str, a: tuple[str, str], b: tuple[str, str], *, group: str, fact: str, flipped: bool) -> Iterator[_Statement]:
    """The four statements of two facts ``(subject, object)``: both right, both exchanged."""
    for subject, right in (a, b):
        for said in (a[1], b[1]):
            true = (said == right) != flipped
            yield _Statement(
                text=form.format(subject=subject, object=said), label=int(true), group=group, subject=subject, object=said, fact=fact
            )


def _is(flipped: bool) -> str:
    return "is not" if flipped else "is"


def _cities(flipped: bool) -> Iterator[_Statement]:
    form = f"The city of {{subject}} {_is(flipped)} in {{object}}."
    for a, b in _pairs("cities"):
        facts = (a["city"], a["country"]), (b["city"], b["country"])
        yield from _swaps(form, *facts, group=f"{a['city']}|{b['city']}", fact="country", flipped=flipped)


def _elements(flipped: bool) -> Iterator[_Statement]:
    forms = {"symbol": "The chemical symbol of {subject} %s {object}.", "number": "The atomic number of {subject} %s {object}."}
    for a, b in _pairs("elements"):
        for fact, form in forms.items():
            facts = (a["element"], a[fact]), (b["element"], b[fact])
            yield from _swaps(form % _is(flipped), *facts, group=f"{a['element']}|{b['element']}", fact=fact, flipped=flipped)


def _larger_than(flipped: bool) -> Iterator[_Statement]:
    # Without fifty, sixty, ...: all numbers have the same form.
    words = [f"{_TENS[ten]}-{unit}" for ten in _TENS for unit in _UNITS]
    relation = "smaller" if flipped else "larger"
    for at, low in enumerate(words):
        for high in (words[at + step] for step in _STEPS if at + step < len(words)):
            for first, second in ((high, low), (low, high)):
                true = (first == high) != flipped
                yield _Statement(
                    text=f"{first.capitalize()} is {relation} than {second}.",
                    label=int(true),
                    group=f"{low}|{high}",
                    subject=first,
                    object=second,
                    fact="order",
                )
