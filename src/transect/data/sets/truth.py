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

import dataclasses
from collections.abc import Iterator

from transect.data.sets.rows import TRUTH, BuiltinRows, as_columns, fact_pairs

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
    "animals": (
        "animals: common animals and the class each belongs to, own list. The classes are six, so a probe can learn them by heart from "
        "other groups; only the animals are new in a test part.",
    ),
    "books": ("books: famous works and their authors, own list; every author once.",),
}


# What decides the label in each set; in a flipped set it is the opposite.
_SHORTCUTS = {
    "cities": ("whether the city and the country match", "whether the city and the country do not match"),
    "larger_than": ("whether the first number is the larger one", "whether the first number is the smaller one"),
    "elements": ("whether the element and its symbol or number match", "whether the element and its symbol or number do not match"),
    "animals": ("whether the animal and the class match", "whether the animal and the class do not match"),
    "books": ("whether the work and the author match", "whether the work and the author do not match"),
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Statement:
    text: str
    label: int
    group: str
    subject: str
    object: str
    fact: str


def names() -> tuple[str, ...]:
    """The sets made here."""
    return tuple(_MAKERS)


def rows(name: str) -> BuiltinRows:
    """The columns of one of them."""
    base, flipped = _MAKERS[name]
    makers = {"cities": _cities, "elements": _elements, "larger_than": _larger_than, "animals": _animals, "books": _books}
    statements = list(makers[base](flipped))
    return BuiltinRows(
        columns=as_columns([dataclasses.asdict(statement) for statement in statements]),
        notes=_NOTES[base],
        meaning=(TRUTH, _SHORTCUTS[base][flipped]),
    )


def opposite_meaning(meaning: tuple[str, str] | None) -> tuple[str, str] | None:
    """What a set means once its statements are negated and its labels flipped; None where nobody said.

    Examples:
        >>> opposite_meaning(("whether the statement is true", "whether the city and the country match"))
        ('whether the statement is true', 'whether the city and the country do not match')
    """
    for one, other in _SHORTCUTS.values():
        if meaning in ((TRUTH, one), (TRUTH, other)):
            return TRUTH, other if meaning == (TRUTH, one) else one
    return None


_MAKERS = {
    "cities": ("cities", False),
    "neg_cities": ("cities", True),
    "elements": ("elements", False),
    "neg_elements": ("elements", True),
    "larger_than": ("larger_than", False),
    "smaller_than": ("larger_than", True),
    "animals": ("animals", False),
    "neg_animals": ("animals", True),
    "books": ("books", False),
    "neg_books": ("books", True),
}


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
    for a, b in fact_pairs("cities"):
        facts = (a["city"], a["country"]), (b["city"], b["country"])
        yield from _swaps(form, *facts, group=f"{a['city']}|{b['city']}", fact="country", flipped=flipped)


def _elements(flipped: bool) -> Iterator[_Statement]:
    forms = {"symbol": "The chemical symbol of {subject} %s {object}.", "number": "The atomic number of {subject} %s {object}."}
    for a, b in fact_pairs("elements"):
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


def _animals(flipped: bool) -> Iterator[_Statement]:
    form = f"{{subject}} {_is(flipped)} {{object}}."
    for a, b in fact_pairs("animals"):
        pair = (a["animal"], a["class"]), (b["animal"], b["class"])
        yield from _swaps(form, *pair, group=f"{a['animal']}|{b['animal']}", fact="class", flipped=flipped)


def _books(flipped: bool) -> Iterator[_Statement]:
    form = f"{{subject}} {'was not' if flipped else 'was'} written by {{object}}."
    for a, b in fact_pairs("books"):
        pair = (a["title"], a["author"]), (b["title"], b["author"])
        yield from _swaps(form, *pair, group=f"{a['title']}|{b['title']}", fact="author", flipped=flipped)
