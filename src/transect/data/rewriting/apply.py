"""`rewrite_table`: a rewriting applied to every row of a table, with the label right or the row left out and counted.

Random choices are made once per group and not per row. The rows of a group are balanced against each other (the same words in true and
in false statements), and would not be any more if one of them opened with "Well," and another with "So,".
"""

import collections
import dataclasses
import hashlib
from collections.abc import Mapping
from typing import Literal

import numpy as np

from transect.data.builtin import TRUTH
from transect.data.rewriting.entity_swap import swapped_facts
from transect.data.rewriting.rewriting import Rewriting
from transect.data.table import Message, Table
from transect.errors import InputError

LabelEffect = Literal["keeps", "flips"]
_UNKNOWN = {
    "negation": "the effect of a negation on this label is unknown; say label_effect='flips' or 'keeps' if you know it",
    "entity_swap": "the effect of other entities on this label is unknown; say label_effect='keeps' if it stays",
}
_NO_SPARE_FACT = "no spare fact to swap in"
_LEAK = "the new text is that of a row of another group"


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Rewritten:
    """A table written differently, and what became of the rows that are not in it.

    Args:
        table: the rewritten rows ``[m]``; None when none is left.
        rows: ``[m]`` int64, the row of the source table that each came from.
        n_unchanged: rows that the rewriting left as they were.
        n_excluded: rows that could not be rewritten with a label that is known to be right.
        reasons: why, with counts that add up to `n_excluded`.
        rewriting: the rewriting's name.

    Examples:
        >>> from transect.data import read_table, style_rewritings
        >>> done = rewrite_table(read_table(["it rains", "it SNOWS"]), style_rewritings()[0], seed=1)
        >>> done.rewriting, len(done.rows) + done.n_unchanged + done.n_excluded
        ('case', 2)
    """

    table: Table | None
    rows: np.ndarray
    n_unchanged: int
    n_excluded: int
    reasons: Mapping[str, int]
    rewriting: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Row:
    """A rewritten row: its text or chat, spans, and the subject and object where those changed."""

    text: str
    chat: tuple[Message, ...] | None = None
    spans: Mapping[str, tuple[int, int]] = dataclasses.field(default_factory=dict)
    fact: tuple[str, str] | None = None


def rewrite_table(table: Table, rewriting: Rewriting, *, seed: int = 0, label_effect: LabelEffect | None = None) -> Rewritten:
    """Every row of a table written differently, with labels, groups and other columns.

    Of chats the last message is rewritten. Spans are found again in the new text, or the row is excluded.

    Args:
        table: ``n`` rows.
        rewriting: one of `style_rewritings` or `shift_rewritings`.
        seed: another seed, other random choices.
        label_effect: what the rewriting does to the label, "keeps" or "flips". By itself: styles and paraphrases keep it (use none on
            a table whose label is about style); a negation flips it where the label is whether the statement is true; swapped entities
            keep it in the built-in sets that have spare facts. Everywhere else the effect is unknown and the rows are excluded.

    Returns:
        The rewritten rows. Rows in `table`, unchanged and excluded rows add up to ``n``.

    Raises:
        InputError: an unknown label_effect, "flips" for labels that are not two classes, or a seed below 0.

    Examples:
        >>> from transect.data import read_table, shift_rewritings
        >>> negation = shift_rewritings()[0]
        >>> done = rewrite_table(read_table("cities"), negation)
        >>> done.table.texts[0], bool(done.table.labels[0]), done.n_excluded
        ('The city of Miami is not in the United States.', False, 0)
        >>> rewrite_table(read_table(["It is raining."]), negation).n_excluded
        1
    """
    if seed < 0:
        raise InputError(f"seed must be 0 or larger, got {seed}.")
    effect = _effect(table, rewriting, label_effect)
    reasons: collections.Counter[str] = collections.Counter()
    made: dict[int, _Row] = {}
    unchanged = 0
    facts = swapped_facts(table) if rewriting.kind == "entity_swap" and label_effect != "flips" else None
    for row, text in enumerate(table.texts):
        if effect is None and facts is None:
            reasons[_UNKNOWN[rewriting.kind]] += 1
            continue
        found = _from_fact(table, row, facts[row]) if facts is not None else _row(table, row, rewriting, seed)
        if isinstance(found, str):
            reasons[found] += 1
        elif found.text == text:
            unchanged += 1
        else:
            made[row] = found
    for row in _leaking(table, made):
        del made[row]
        reasons[_LEAK] += 1
    rows = np.array(list(made), dtype=np.int64)
    return Rewritten(
        table=_table(table, rewriting, made, flip=effect == "flips") if made else None,
        rows=rows,
        n_unchanged=unchanged,
        n_excluded=sum(reasons.values()),
        reasons=dict(reasons),
        rewriting=rewriting.name,
    )


def _effect(table: Table, rewriting: Rewriting, given: str | None) -> str | None:
    """What happens to the label; None where nobody knows."""
    if given not in (None, "keeps", "flips"):
        raise InputError(f"label_effect must be 'keeps', 'flips' or None, got {given!r}.")
    if given == "flips" and table.kind not in (None, "binary"):
        raise InputError(f"label_effect='flips' needs two classes, but the labels of {table.name!r} are {table.kind}; leave it out.")
    if given is not None or rewriting.kind in ("style", "paraphrase"):
        return given or "keeps"
    truth = table.kind == "binary" and table.meaning is not None and table.meaning[0] == TRUTH
    return "flips" if rewriting.kind == "negation" and truth else None


def _keep(table: Table, row: int) -> tuple[str, ...]:
    """The words of a built-in set that carry the answer."""
    if not table.source.startswith("built-in "):
        return ()
    return tuple(str(table.extra[name][row]) for name in ("subject", "object", "answer_words") if name in table.extra)


def _rng(table: Table, row: int, seed: int) -> "np.random.Generator":
    key = table.texts[row] if table.groups is None else str(table.groups[row])
    return np.random.default_rng([seed, *hashlib.blake2b(key.encode(), digest_size=16).digest()])


def _row(table: Table, row: int, rewriting: Rewriting, seed: int) -> _Row | str:
    old = table.texts[row] if table.messages is None else table.messages[row][-1]["content"]
    new = rewriting.apply(old, _rng(table, row, seed), keep=_keep(table, row))
    if new is None or not new.strip():
        return rewriting.refusal
    if table.messages is None:
        return _spanned(table, row, new, None)
    chat = (*table.messages[row][:-1], {**table.messages[row][-1], "content": new})
    return _spanned(table, row, "\n".join(message["content"] for message in chat), chat)


def _from_fact(table: Table, row: int, fact: tuple[str, str, str] | None) -> _Row | str:
    if fact is None:
        return _NO_SPARE_FACT
    found = _spanned(table, row, fact[0], None)
    return found if isinstance(found, str) else dataclasses.replace(found, fact=fact[1:])


def _spanned(table: Table, row: int, text: str, chat: tuple[Message, ...] | None) -> _Row | str:
    spans: dict[str, tuple[int, int]] = {}
    folded = text.lower()
    for name, positions in table.spans.items():
        start, end = positions[row]
        marked = table.texts[row][start:end].lower()
        if folded.count(marked) != 1 or len(folded) != len(text):
            return f"the span {name!r} is not found again, exactly once, in the new text"
        at = folded.index(marked)
        spans[name] = (at, at + len(marked))
    return _Row(text=text, chat=chat, spans=spans)


def _leaking(table: Table, made: Mapping[int, _Row]) -> list[int]:
    """Rows whose new text is the old or the new text of a row in another group: on the other side of a split it would be a copy."""
    if table.groups is None:
        return []
    owners: dict[str, set[str]] = {}
    for row, text in enumerate(table.texts):
        owners.setdefault(text, set()).add(str(table.groups[row]))
    # Copies that the source has across groups already stay as they are.
    torn = {text for text, groups in owners.items() if len(groups) > 1}
    for row, new in made.items():
        owners.setdefault(new.text, set()).add(str(table.groups[row]))
    return [row for row, new in made.items() if len(owners[new.text]) > 1 and table.texts[row] not in torn]


def _table(table: Table, rewriting: Rewriting, made: Mapping[int, _Row], *, flip: bool) -> Table:
    from transect.data.sets.truth import opposite_meaning

    part = table.take(list(made))
    labels, meaning = part.labels, part.meaning
    if flip and part.labels is not None and part.classes is not None:
        labels = np.array(part.classes, dtype=part.labels.dtype)[1 - part.codes]
        meaning = opposite_meaning(part.meaning)
    extra = dict(part.extra)
    facts = [new.fact for new in made.values()]
    for at, name in enumerate(("subject", "object")):
        if any(facts) and name in extra:
            extra[name] = np.array([old if fact is None else fact[at] for old, fact in zip(extra[name], facts, strict=True)], dtype=object)
    chats = tuple(new.chat for new in made.values() if new.chat is not None)
    return dataclasses.replace(
        part,
        name=f"{table.name}:{rewriting.name}",
        texts=tuple(new.text for new in made.values()),
        messages=None if part.messages is None else chats,
        labels=labels,
        spans={name: tuple(new.spans[name] for new in made.values()) for name in part.spans},
        dataset=np.array([f"{name}:{rewriting.name}" for name in part.dataset], dtype=object),
        extra=extra,
        source=f"{table.source}, rewritten: {rewriting.name}",
        notes=(*part.notes, f"rewritten ({rewriting.name}): {rewriting.description}"),
        meaning=meaning,
    )
