"""Texts written differently: eight styles that keep the meaning, and three shifts (negation, paraphrase, swapped entities).

A probe that reads what it claims to read keeps its score under the styles and the paraphrase, and follows the label under the others.
"""

from transect.data.rewriting.apply import Rewritten, rewrite_table
from transect.data.rewriting.case import CASE
from transect.data.rewriting.entity_swap import ENTITY_SWAP
from transect.data.rewriting.filler import FILLER
from transect.data.rewriting.formality import FORMALITY
from transect.data.rewriting.language_tag import LANGUAGE_TAG
from transect.data.rewriting.list_form import LIST_FORM
from transect.data.rewriting.negation import NEGATION
from transect.data.rewriting.paraphrase import PARAPHRASE
from transect.data.rewriting.punctuation import PUNCTUATION
from transect.data.rewriting.quotation import QUOTATION
from transect.data.rewriting.rewriting import Rewriting
from transect.data.rewriting.typos import TYPOS

__all__ = ["Rewriting", "Rewritten", "rewrite_table", "shift_rewritings", "style_rewritings"]


def style_rewritings() -> tuple[Rewriting, ...]:
    """The eight styles: case, punctuation, filler, formality, list form, quotation, language tag, typos.

    Examples:
        >>> [one.name for one in style_rewritings()]
        ['case', 'punctuation', 'filler', 'formality', 'list_form', 'quotation', 'language_tag', 'typos']
    """
    return (CASE, PUNCTUATION, FILLER, FORMALITY, LIST_FORM, QUOTATION, LANGUAGE_TAG, TYPOS)


def shift_rewritings() -> tuple[Rewriting, ...]:
    """The three shifts: negation, paraphrase, swapped entities.

    Examples:
        >>> [one.name for one in shift_rewritings()]
        ['negation', 'paraphrase', 'entity_swap']
    """
    return (NEGATION, PARAPHRASE, ENTITY_SWAP)
