"""Shift: the same said with other words or in another order.

Known forms of statement are turned round as a whole; elsewhere a few set phrases are replaced that mean the same in any sentence. A
text with neither is left alone: a rule that guesses at synonyms would change labels.
"""

import re

import numpy as np

from transect.data.rewriting.rewriting import Rewriting
from transect.data.rewriting.words import capitalised

# (pattern, ways of saying it); {0}, {1}, ... are the groups.
_FORMS: tuple[tuple[str, tuple[str, ...]], ...] = (
    (r"The city of (.+) is in (.+)\.", ("{0} is a city in {1}.", "There is a city in {1} by the name of {0}.")),
    (r"The city of (.+) is not in (.+)\.", ("{0} is not a city in {1}.", "The location of the city of {0} is not in {1}.")),
    (r"(.+) is larger than (.+)\.", ("{1} is smaller than {0}.",)),
    (r"(.+) is smaller than (.+)\.", ("{1} is larger than {0}.",)),
    (r"The (chemical symbol|atomic number) of (.+) is not (.+)\.", ("{1} does not have the {0} {2}.", "{2} is not the {0} of {1}.")),
    (r"The (chemical symbol|atomic number) of (.+) is (.+)\.", ("{1} has the {0} {2}.", "{2} is the {0} of {1}.")),
    (r"(An? .+) is not an? (mammal|bird|insect|reptile|amphibian)\.", ("{0} does not belong to the {1}s.", "{0} is none of the {1}s.")),
    (r"(An? .+) is an? (mammal|bird|insect|reptile|amphibian)\.", ("{0} belongs to the {1}s.", "{0} is one of the {1}s.")),
    (r"(An? .+) is not a (fish)\.", ("{0} does not belong to the {1}.", "{0} is none of the {1}.")),
    (r"(An? .+) is a (fish)\.", ("{0} belongs to the {1}.", "{0} is one of the {1}.")),
    (r"(.+) was not written by (.+)\.", ("{1} did not write {0}.", "{1} is not the author of {0}.")),
    (r"(.+) was written by (.+)\.", ("{1} wrote {0}.", "{1} is the author of {0}.")),
)
_PHRASES = {
    "in order to": "so as to", "because": "since", "however,": "nevertheless,", "for example": "for instance", "a lot of": "plenty of",
    "in addition,": "moreover,", "therefore": "hence", "although": "even though", "perhaps": "maybe", "approximately": "roughly",
    "at this moment": "right now", "begins": "starts", "began": "started", "quickly": "fast",
}  # fmt: skip
_PHRASE = re.compile(r"\b(" + "|".join(sorted(_PHRASES, key=len, reverse=True)) + r")(?!\w| of\b)", re.IGNORECASE)


def _paraphrase(text: str, rng: "np.random.Generator", keep: tuple[str, ...]) -> str | None:
    del keep
    for pattern, ways in _FORMS:
        found = re.fullmatch(pattern, text)
        if found and " and the city" not in text:
            parts = [part if pattern.startswith("The") else _inside(part) for part in found.groups()]
            return capitalised(ways[rng.integers(len(ways))].format(*parts))

    def change(found: re.Match[str]) -> str:
        new = _PHRASES[found[0].casefold()]
        return capitalised(new) if found[0][0].isupper() else new

    return _PHRASE.sub(change, text) if _PHRASE.search(text) else None


def _inside(part: str) -> str:
    """A number word or an article that opened the sentence is written small further on."""
    number = re.fullmatch(r"(Fifty|Sixty|Seventy|Eighty|Ninety|One hundred \w+)-\w+", part)
    return part[0].lower() + part[1:] if number or part.startswith(("A ", "An ")) else part


PARAPHRASE = Rewriting(
    name="paraphrase",
    kind="paraphrase",
    description="The same said with other words or in another order.",
    rule=_paraphrase,
    refusal="no known form and no set phrase to say otherwise",
)
