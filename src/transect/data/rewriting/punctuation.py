"""Style: another mark, or none, at the end of the text. Marks inside it, which can carry meaning, stay."""

import numpy as np

from transect.data.rewriting.rewriting import Rewriting

_STATED = ("", "!", "...", " .")
_ASKED = ("??", " ?", "?!")


def _punctuation(text: str, rng: "np.random.Generator", keep: tuple[str, ...]) -> str:
    del keep
    body = text.rstrip()
    if body.endswith("?"):
        return body.rstrip("?") + _ASKED[rng.integers(len(_ASKED))]
    if body.endswith((".", "!")):
        bare = body.rstrip(".!").rstrip()
        options = [mark for mark in _STATED if bare + mark not in (text, "")]
        return bare + options[rng.integers(len(options))] if options else text
    return body + ("...", ".")[rng.integers(2)]


PUNCTUATION = Rewriting(name="punctuation", kind="style", description="Another mark, or none, at the end.", rule=_punctuation)
