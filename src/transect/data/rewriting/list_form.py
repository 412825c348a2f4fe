"""Style: each sentence as a point of a list."""

import numpy as np

from transect.data.rewriting.rewriting import Rewriting
from transect.data.rewriting.words import sentences


def _list_form(text: str, rng: "np.random.Generator", keep: tuple[str, ...]) -> str:
    del keep
    mark = ("- ", "* ", "• ", "{}. ", "{}) ")[rng.integers(5)]
    return "\n".join(mark.format(at) + sentence for at, sentence in enumerate(sentences(text), start=1))


LIST_FORM = Rewriting(name="list_form", kind="style", description="Each sentence as a point of a list.", rule=_list_form)
