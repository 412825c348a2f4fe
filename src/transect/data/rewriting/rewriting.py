"""`Rewriting`: one way of writing a text differently, for one text at a time.

Probes that look perfect on clean text can fall apart when only the style changes ("Pressure-Testing Deception Probes in
LLMs", a study of Gemma 3 under eight stylistic shifts), so a probe should be scored on its own test rows written differently.
A rewriting is a rule and no model: offline, in English, and the same every time.
"""

import dataclasses
from collections.abc import Callable
from typing import Literal

import numpy as np

RewritingKind = Literal["style", "negation", "paraphrase", "entity_swap"]
Rule = Callable[[str, "np.random.Generator", tuple[str, ...]], str | None]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Rewriting:
    """One way of writing a text differently.

    Args:
        name: short, as in reports.
        kind: "style" (meaning kept, surface changed), "negation", "paraphrase" or "entity_swap".
        description: what it does, in one sentence.
        rule: from a text, a random generator and the words to leave alone to the new text, or None where it does not apply.
        refusal: why the rule did not apply, for counts.

    Examples:
        >>> from transect.data import style_rewritings
        >>> quotation = next(one for one in style_rewritings() if one.name == "quotation")
        >>> quotation.apply("It rains.", np.random.default_rng(0))
        '«It rains.»'
    """

    name: str
    kind: RewritingKind
    description: str
    rule: Rule = dataclasses.field(repr=False)
    refusal: str = "the rule does not apply to this text"

    def apply(self, text: str, rng: "np.random.Generator", *, keep: tuple[str, ...] = ()) -> str | None:
        """The text written differently.

        Args:
            text: the text.
            rng: where random choices come from.
            keep: words that carry the answer, which a typo must not touch.

        Returns:
            The new text (which may equal the old one), or None where the rule does not apply.

        Examples:
            >>> from transect.data import shift_rewritings
            >>> shift_rewritings()[0].apply("The sky is blue.", np.random.default_rng(0))
            'The sky is not blue.'
        """
        return self.rule(text, rng, keep)
