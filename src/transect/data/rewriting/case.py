"""Style: everything in lower case, or everything in capitals.

Words that are nothing without their capitals (``NASA``, ``US``, ``I``, the symbol ``Co``) stay: in another case they are other words.
"""

import re

import numpy as np

from transect.data.rewriting.rewriting import Rewriting

_WORD = re.compile(r"[^\W\d_]+")
_SHORT = 2


def _case(text: str, rng: "np.random.Generator", keep: tuple[str, ...]) -> str:
    del keep
    lower = bool(rng.integers(2))

    def change(found: re.Match[str]) -> str:
        word = found[0]
        opens = not text[: found.start()].strip(" \t\n\"'“(") or text[: found.start()].rstrip()[-1:] in (".", "!", "?", ":")
        symbol = word[0].isupper() and len(word) <= _SHORT and not opens
        acronym = len(word) > 1 and word.isupper()
        if symbol or acronym or word == "I" or not word.isascii():
            return word
        return word.lower() if lower else word.upper()

    return _WORD.sub(change, text)


CASE = Rewriting(name="case", kind="style", description="All lower case or all capitals; symbols and acronyms stay.", rule=_case)
