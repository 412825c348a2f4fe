"""Style: the text in quotation marks, said by nobody, of a sort that does not occur in it."""

import numpy as np

from transect.data.rewriting.rewriting import Rewriting

_MARKS = ('""', "“”", "«»")


def _quotation(text: str, rng: "np.random.Generator", keep: tuple[str, ...]) -> str | None:
    del keep
    free = [marks for marks in _MARKS if not set(marks) & set(text)]
    if not free:
        return None
    left, right = free[rng.integers(len(free))]
    return left + text + right


QUOTATION = Rewriting(
    name="quotation",
    kind="style",
    description="The whole text in quotation marks.",
    rule=_quotation,
    refusal="every sort of quotation mark is in the text already",
)
