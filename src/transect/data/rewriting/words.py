"""Small helpers that several rewritings share: sentences, first words, and words that must not change."""

import re

NEGATIONS = frozenset(
    [
        "not",
        "no",
        "never",
        "none",
        "nobody",
        "nothing",
        "neither",
        "nor",
        "nowhere",
        "without",
        "cannot",
        "hardly",
        "barely",
        "scarcely",
        "unless",
        "except",
        "only",
        "anything",
        "but",
    ]
)
_UNITS = "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen"
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety hundred thousand million first second third"
NUMBERS = frozenset(f"{_UNITS} {_TENS}".split())
_OPENERS = frozenset(
    [
        "the",
        "a",
        "an",
        "it",
        "this",
        "that",
        "these",
        "those",
        "there",
        "he",
        "she",
        "they",
        "we",
        "you",
        "in",
        "on",
        "at",
        "if",
        "when",
        "what",
        "which",
        "who",
        "how",
        "is",
        "are",
        "do",
        "does",
    ]
)
_ABBREVIATIONS = frozenset(["mr", "mrs", "ms", "dr", "st", "no", "vs", "etc", "e.g", "i.e", "prof", "jr", "sr", "inc", "ltd", "co", "fig"])
_ENDS = re.compile(r"(?<=[.!?])\s+(?=[\"'“(]?[A-Z])")


def sentences(text: str) -> list[str]:
    """The sentences of a text; abbreviations and initials end none.

    Examples:
        >>> sentences("St. Louis is big. Is it?")
        ['St. Louis is big.', 'Is it?']
    """
    found: list[str] = []
    for part in _ENDS.split(text.strip()):
        last = found[-1].rsplit(maxsplit=1)[-1].rstrip(".").casefold() if found else ""
        if found and found[-1].endswith(".") and (last in _ABBREVIATIONS or len(last) == 1):
            found[-1] = f"{found[-1]} {part}"
        else:
            found.append(part)
    return found


def decapitalised(text: str) -> str:
    """The text as it goes on behind an opening phrase: a first word that is no name loses its capital.

    Examples:
        >>> decapitalised("The sea is wide."), decapitalised("Paris is wide.")
        ('the sea is wide.', 'Paris is wide.')
    """
    word = re.match(r"[A-Za-z]+", text)
    return text[0].lower() + text[1:] if word and word[0].casefold() in _OPENERS else text


def capitalised(text: str) -> str:
    """The text with a capital in front; the rest stays as it is.

    Examples:
        >>> capitalised("gold is Au.")
        'Gold is Au.'
    """
    return text[:1].upper() + text[1:]
