"""``intensity``: words in order of strength, with the labels 0 to 4 as numbers.

Each group is one scale (never, rarely, sometimes, often, always), so a test part has scales that were not trained on, and a probe must
have found "how much" in general. Within a scale the word decides, as it must.
"""

from collections.abc import Iterator
from typing import Any

from transect.data.sets.rows import BuiltinRows, as_columns

# scale: (sentences, five words from least to most)
_SCALES: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "temperature": (("The soup is {}.", "The water is {}.", "The tea is {}."), ("freezing", "cool", "lukewarm", "hot", "boiling")),
    "frequency": (("It {} rains there.", "She {} calls him.", "They {} eat fish."), ("never", "rarely", "sometimes", "often", "always")),
    "certainty": (
        ("Snow tomorrow is {}.", "A delay is {}.", "A second round is {}."),
        ("impossible", "unlikely", "possible", "likely", "certain"),
    ),
    "size": (("The dog is {}.", "The house is {}.", "The box is {}."), ("tiny", "small", "medium-sized", "large", "enormous")),
    "quality": (("The work is {}.", "The play is {}.", "The report is {}."), ("terrible", "poor", "average", "good", "excellent")),
    "loudness": (("The engine is {}.", "The music is {}.", "The crowd is {}."), ("silent", "quiet", "audible", "loud", "deafening")),
    "quantity": (
        ("{} of the guests left.", "{} of the lamps work.", "{} of the seats are taken."),
        ("None", "A few", "Half", "Most", "All"),
    ),
    "agreement": (
        ("They {} with the plan.", "We {} with the rule.", "I {} with the view."),
        ("totally disagree", "disagree", "partly agree", "agree", "totally agree"),
    ),
    "difficulty": (("The task is {}.", "The exam is {}.", "The climb is {}."), ("trivial", "easy", "moderate", "hard", "extremely hard")),
    "wealth": (
        ("The family is {}.", "The farmer is {}.", "The widow is {}."),
        ("penniless", "hard up", "comfortable", "wealthy", "immensely rich"),
    ),
    "wetness": (("The towel is {}.", "The ground is {}.", "The coat is {}."), ("bone-dry", "dry", "damp", "wet", "soaking")),
    "weight": (("The bag is {}.", "The parcel is {}.", "The stone is {}."), ("weightless", "light", "portable", "heavy", "immovable")),
}
_NOTES = (
    "intensity: twelve scales of five words, own list, steps by ordinary use and not measured. The words are the label; what is tested "
    "is whether a probe carries over to scales it has not seen.",
)


def names() -> tuple[str, ...]:
    """The set made here."""
    return ("intensity",)


def rows(name: str) -> BuiltinRows:
    """Its columns."""
    del name
    return BuiltinRows(columns=as_columns(list(_sentences())), notes=_NOTES, kind="number")


def _sentences() -> Iterator[dict[str, Any]]:
    for scale, (forms, words) in _SCALES.items():
        for form in forms:
            for level, word in enumerate(words):
                yield {"text": form.format(word), "label": level, "group": scale, "answer_words": word}
