"""Style: one to three typing mistakes.

A mistake must not change what is said, so it never touches digits, words for numbers, negations, words with a capital (names), short
words, or the words that the caller says carry the answer; and it never makes one English word into another: a letter is doubled
that English does not double, or, in words of six letters and more, two inner letters change places.
"""

import re

import numpy as np

from transect.data.rewriting.rewriting import Rewriting
from transect.data.rewriting.words import NEGATIONS, NUMBERS

_WORD = re.compile(r"(?<![\w'’-])[a-z]{4,}(?![\w'’-])")
_NEVER_DOUBLED = "aiuhwy"
_PER_WORDS = 8
_MOST = 3
# What a swap of two neighbours could make into another word.
_OTHER_WORDS = frozenset(
    [
        "untied",
        "united",
        "scared",
        "sacred",
        "martial",
        "marital",
        "causal",
        "casual",
        "sliver",
        "silver",
        "barley",
        "barely",
        "deserve",
        "trial",
        "trail",
    ]
)


def _typos(text: str, rng: "np.random.Generator", keep: tuple[str, ...]) -> str | None:
    closed = [found.span() for word in keep if word for found in re.finditer(re.escape(word), text, re.IGNORECASE)]
    spots = [
        found
        for found in _WORD.finditer(text)
        if found[0] not in NEGATIONS | NUMBERS
        and not any(start < found.end() and found.start() < end for start, end in closed)
        and _mistakes(found[0])
    ]
    if not spots:
        return None
    count = min(len(spots), _MOST, max(1, len(text.split()) // _PER_WORDS))
    for at in sorted(rng.choice(len(spots), size=count, replace=False).tolist(), reverse=True):
        options = _mistakes(spots[at][0])
        text = text[: spots[at].start()] + options[rng.integers(len(options))] + text[spots[at].end() :]
    return text


def _mistakes(word: str) -> list[str]:
    doubled = [word[:at] + letter + word[at:] for at, letter in enumerate(word[:-1]) if at and letter in _NEVER_DOUBLED]
    swapped = [word[:at] + word[at + 1] + word[at] + word[at + 2 :] for at in range(1, len(word) - 2)] if len(word) >= 6 else []
    return [made for made in dict.fromkeys(doubled + swapped) if made != word and made not in _OTHER_WORDS]


TYPOS = Rewriting(
    name="typos",
    kind="style",
    description="One to three typing mistakes, none in a number, a negation or a name.",
    rule=_typos,
    refusal="no word could be mistyped without risk to the meaning",
)
