"""Shift: the statement negated, or a negated one made positive.

One "not" goes behind the first verb of a plain statement, or comes out again. Sentences where that is not the negation are left
alone: questions, several clauses, and words of quantity, whose scope a "not" would leave open ("all birds are not ...").
"""

import re

import numpy as np

from transect.data.rewriting.rewriting import Rewriting
from transect.data.rewriting.words import sentences

_VERB = re.compile(r"\b(is|are|was|were|can|will|could|would|should|must)\b( not\b)?", re.IGNORECASE)
_OPEN = re.compile(
    r"\b(all|every|each|some|any|both|either|or|and|but|if|because|although|while|when|unless|that|which|who|only|never|no|none|neither|nor|"
    r"nobody|nothing|always|often|sometimes|rarely|many|most|few|anything|let|please)\b|n't\b|[;:,\n]",
    re.IGNORECASE,
)
# "could not" and "must not" deny something else than "could" and "must" assert.
_SCOPED = frozenset(["could", "would", "should", "must"])


def _negation(text: str, rng: "np.random.Generator", keep: tuple[str, ...]) -> str | None:
    del rng
    plain = text
    for name in keep:  # a country may be called "Bosnia and Herzegovina"
        plain = plain.replace(name, "x" * len(name)) if name else plain
    verb = _VERB.search(plain)
    if verb is None or text.rstrip().endswith("?") or len(sentences(text)) > 1 or _OPEN.search(plain) or verb.start() == 0:
        return None
    if verb[1].casefold() in _SCOPED or len(re.findall(r"\bnot\b", plain)) > (1 if verb[2] else 0):
        return None
    if verb[2]:
        return text[: verb.end(1)] + text[verb.end() :]
    return text[: verb.end(1)] + " not" + text[verb.end() :]


NEGATION = Rewriting(
    name="negation",
    kind="negation",
    description="A 'not' behind the first verb of a plain statement, or taken out.",
    rule=_negation,
    refusal="not a plain statement with one verb that a single 'not' would negate",
)
