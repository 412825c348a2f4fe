"""Style: formal (contractions written out, a stiff opening) or informal (contractions, a loose opening).

``'s`` is never written out, because it may be "is", "has" or a genitive.
"""

import re

import numpy as np

from transect.data.rewriting.rewriting import Rewriting
from transect.data.rewriting.words import decapitalised

_FORMAL = ("For the record: ", "The following is submitted: ", "Please note the following: ")
_INFORMAL = ("hey, ", "fyi, ", "oh and ")
_LONG = {
    "isn't": "is not", "aren't": "are not", "wasn't": "was not", "weren't": "were not", "don't": "do not", "doesn't": "does not",
    "didn't": "did not", "can't": "cannot", "won't": "will not", "haven't": "have not", "hasn't": "has not", "couldn't": "could not",
    "shouldn't": "should not", "wouldn't": "would not", "i'm": "I am", "we're": "we are", "they're": "they are", "you're": "you are",
    "i've": "I have", "we've": "we have", "i'll": "I will", "we'll": "we will", "you'll": "you will",
}  # fmt: skip
_SHORT = {long: short for short, long in _LONG.items() if short.endswith("n't")}


def _replaced(text: str, words: dict[str, str]) -> str:
    pattern = re.compile(r"\b(" + "|".join(map(re.escape, words)) + r")\b", re.IGNORECASE)

    def change(found: re.Match[str]) -> str:
        new = words[found[0].casefold()]
        return new[0].upper() + new[1:] if found[0][0].isupper() else new

    return pattern.sub(change, text)


def _formality(text: str, rng: "np.random.Generator", keep: tuple[str, ...]) -> str:
    del keep
    text = text.replace("’", "'")
    if rng.integers(2):
        return _FORMAL[rng.integers(len(_FORMAL))] + _replaced(text, _LONG)
    # A contracted question turns its words round ("is he not" is not "isn't he"), so questions keep them.
    loose = text if text.rstrip().endswith("?") else _replaced(text, _SHORT)
    return _INFORMAL[rng.integers(len(_INFORMAL))] + decapitalised(loose)


FORMALITY = Rewriting(name="formality", kind="style", description="Formal, or informal with contractions.", rule=_formality)
