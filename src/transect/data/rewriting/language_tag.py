"""Style: a tag in front that names the language, as in files of several languages."""

import numpy as np

from transect.data.rewriting.rewriting import Rewriting

_TAGS = ("[EN] ", "(English) ", "<en> ", "en: ", "Language: English\n")


def _language_tag(text: str, rng: "np.random.Generator", keep: tuple[str, ...]) -> str:
    del keep
    return _TAGS[rng.integers(len(_TAGS))] + text


LANGUAGE_TAG = Rewriting(name="language_tag", kind="style", description="A tag in front that names the language.", rule=_language_tag)
