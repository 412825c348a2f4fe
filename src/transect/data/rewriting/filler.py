"""Style: words of speech in front that say nothing.

None of them vouches for what follows (no "honestly", no "in fact"), since that could carry a label about truth.
"""

import numpy as np

from transect.data.rewriting.rewriting import Rewriting
from transect.data.rewriting.words import decapitalised

_FILLERS = ("Well, ", "So, ", "Um, so, ", "Okay, ", "You know, ", "Right, so, ")


def _filler(text: str, rng: "np.random.Generator", keep: tuple[str, ...]) -> str:
    del keep
    return _FILLERS[rng.integers(len(_FILLERS))] + decapitalised(text)


FILLER = Rewriting(name="filler", kind="style", description="Words of speech in front that say nothing, such as 'Well, '.", rule=_filler)
