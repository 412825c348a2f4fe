"""Texts and conversations to token ids, as the model was trained to see them."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from transect.errors import InputError
from transect.models.chat import Rendered, messages_of, render
from transect.models.model import Model
from transect.models.roles import content_span, find_segments, role_span

Messages = Sequence[Mapping[str, Any]]
"""One conversation, as chat templates take it: ``[{"role": "user", "content": "..."}, ...]``."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Encoded:
    """Token ids without padding, one list per text."""

    ids: tuple[list[int], ...]
    """The token ids of each text, special tokens included, no padding."""
    prompts: tuple[tuple[int, int], ...]
    """The token range ``(start, end)`` of the prompt before the answer, per text; all of a text that holds no answer.

    When the prompt itself was cut, it ends at the cut."""
    spans: tuple[tuple[int, int], ...] | None = None
    """The token range ``(start, end)`` of each text's span, when spans were given."""
    n_truncated: int = 0
    """How many texts were longer than the limit and were cut."""

    def __len__(self) -> int:
        return len(self.ids)


def encode(
    model: Model,
    texts: Sequence[str] | Sequence[Messages],
    *,
    chat: bool = False,
    add_generation_prompt: bool = True,
    max_length: int | None = None,
    truncate: bool = False,
    spans: Sequence[str] | Sequence[tuple[int, int]] | None = None,
    role: str | None = None,
) -> Encoded:
    """Tokenise texts or conversations in one call, without padding.

    A plain text gets the special tokens that the tokenizer adds by itself, such as ``<bos>``. With `chat`, or for
    conversations, the tokenizer's chat template writes them all, so none is added twice. When a conversation ends
    with an answer (role ``assistant``), its prompt is everything up to where that answer begins.

    Args:
        model: with a tokenizer.
        texts: one string per example, or one conversation per example (a list of ``{"role", "content"}``).
        chat: render each plain text as one user turn of the chat template.
        add_generation_prompt: end a conversation that waits for an answer with the template's opening of that answer.
        max_length: the most tokens allowed; the model's own limit when None.
        truncate: cut longer texts at the end (special tokens there are kept) instead of refusing them.
        spans: one piece of text per example, found at its first occurrence, or one character range ``(start, end)``
            of the text (of a conversation's contents, one message a line). Tokens that touch the span belong to it; white space
            around it does not count.
        role: take as spans the content of the last message of this role, for example ``assistant`` or ``thinking`` (see
            `transect.models.roles`).

    Raises:
        InputError: the model has no tokenizer; a text is empty or no string; a text is longer than the limit and
            `truncate` is off; there is no chat template, or it refuses a conversation, or it writes the prompt of an answer
            differently once the answer is there; a span does not occur, or a template rewrites what holds it. Row numbers count from 0.

    Examples:
        >>> from transect.testing.tiny import tiny
        >>> encoded = encode(tiny("llama"), ["The city of Paris", "Yes"], spans=["Paris", "Yes"])
        >>> encoded.ids[0][0], encoded.prompts[0], encoded.spans[0]
        (1, (0, 5), (4, 5))
    """
    tokenizer = model.tokenizer
    if tokenizer is None:
        raise InputError("this model has no tokenizer, so it cannot read text; load it with one: load(source, tokenizer=...).")
    if isinstance(texts, str):
        raise InputError(f"expected a sequence of texts, got one string; write [{texts[:40]!r}].")
    if spans is not None and len(spans) != len(texts):
        raise InputError(f"expected one span per text, got {len(spans)} spans for {len(texts)} texts.")
    if role is not None and spans is not None:
        raise InputError(f"give spans or role={role!r}, not both: either marks a part of each text.")
    rendered = render(tokenizer, texts, chat=chat, add_generation_prompt=add_generation_prompt)
    if role is not None and not rendered.chat:
        raise InputError(f"role={role!r} is for conversations, and these are plain texts; give messages, or chat=True (--chat).")
    marked = role is not None or spans is not None
    rows = _tokenise(tokenizer, rendered, offsets=marked)
    ids, prompts = list(rows["input_ids"]), _prompts(tokenizer, rendered, rows["input_ids"])
    token_spans = None
    if marked:
        token_spans = []
        for row, offsets in enumerate(rows["offset_mapping"]):
            wanted = role if spans is None else spans[row]
            if wanted is None or not rendered.chat:
                at = _character_span(row, rendered, wanted)
            else:
                at = _span_in_chat(tokenizer, texts[row], rendered, row, wanted, role=spans is None, opening=add_generation_prompt)
            token_spans.append(_token_span(row, rendered.texts[row], at, offsets, wanted))
    limit = min((length for length in (max_length, model.max_length) if length is not None), default=None)
    too_long = [row for row, row_ids in enumerate(ids) if limit is not None and len(row_ids) > limit]
    if too_long and limit is not None:
        if not truncate:
            longest = max(too_long, key=lambda row: len(ids[row]))
            raise InputError(
                f"{len(too_long)} of {len(ids)} texts are longer than the limit of {limit} tokens; the longest is row {longest} with "
                f"{len(ids[longest])}. Shorten them, leave them out, or cut them with truncate=True (--truncate), which is counted."
            )
        tail = 0 if rendered.chat else _n_trailing_special(tokenizer)
        for row in too_long:
            kept = max(limit - tail, 0)
            ids[row] = ids[row][:kept] + ids[row][len(ids[row]) - tail :][: limit - kept]
            prompts[row] = (min(prompts[row][0], limit), min(prompts[row][1], limit))
            if token_spans is not None:
                token_spans[row] = _still_there(row, token_spans[row], kept)
    _check_vocabulary(model, ids)
    return Encoded(
        ids=tuple(ids),
        prompts=tuple(prompts),
        spans=None if token_spans is None else tuple(token_spans),
        n_truncated=len(too_long),
    )


def _tokenise(tokenizer: Any, rendered: Rendered, *, offsets: bool) -> Any:
    """All texts in one batched call; a chat template has written its special tokens already."""
    if offsets and not getattr(tokenizer, "is_fast", False):
        raise InputError("spans need a fast tokenizer, which knows where in the text each token came from; this one does not.")
    if not rendered.texts:
        return {"input_ids": [], "offset_mapping": []}
    rows = tokenizer(
        list(rendered.texts),
        add_special_tokens=not rendered.chat,
        padding=False,
        truncation=False,
        return_attention_mask=False,
        return_token_type_ids=False,
        return_offsets_mapping=offsets,
        verbose=False,
    )
    empty = [row for row, row_ids in enumerate(rows["input_ids"]) if not row_ids]
    if empty:
        raise InputError(
            f"the tokenizer makes no token of row {empty[0]} ({rendered.texts[empty[0]]!r}); {len(empty)} rows are like it. Leave them out."
        )
    return rows


def _prompts(tokenizer: Any, rendered: Rendered, ids: Sequence[list[int]]) -> list[tuple[int, int]]:
    """The token range of each prompt; where an answer follows, the prompt alone must be the start of the whole."""
    prompts = [(0, len(row_ids)) for row_ids in ids]
    answered = [row for row, prompt in enumerate(rendered.prompts) if prompt is not None]
    if not answered:
        return prompts
    alone = tokenizer(
        [rendered.prompts[row] for row in answered], add_special_tokens=False, padding=False, truncation=False, verbose=False
    )["input_ids"]
    for row, prompt in zip(answered, alone, strict=True):
        if ids[row][: len(prompt)] != list(prompt) or len(prompt) == len(ids[row]):
            written = rendered.prompts[row] or ""
            followed = rendered.texts[row][len(written) - 40 :][:80]
            raise InputError(
                f"row {row}: the place before the answer is not defined, because the chat template writes the prompt differently once the "
                f"answer is there: alone it ends {written[-40:]!r}, with the answer it reads {followed!r} there. "
                f"Leave the answer out of the messages, or use a template that only appends."
            )
        prompts[row] = (0, len(prompt))
    return prompts


def _token_span(row: int, text: str, at: tuple[int, int], offsets: Sequence[tuple[int, int]], wanted: Any) -> tuple[int, int]:
    """The tokens that touch a character range of the text; `wanted` is what the caller asked for."""
    start, end = at
    inside = text[start:end]
    if inside.strip():
        start, end = start + len(inside) - len(inside.lstrip()), end - len(inside) + len(inside.rstrip())
    touching = [index for index, (first, last) in enumerate(offsets) if first < end and last > start]
    if not touching:
        raise InputError(f"row {row}: no token touches the span {wanted!r} of {text!r}.")
    return touching[0], touching[-1] + 1


def _character_span(row: int, rendered: Rendered, span: Any) -> tuple[int, int]:
    """A span of a plain text as a character range."""
    text = rendered.texts[row]
    if isinstance(span, str):
        start = text.find(span) if span else -1
        if start < 0:
            raise InputError(f"row {row}: the span {span!r} does not occur in the text {text!r}.")
        return start, start + len(span)
    start, end = span
    if not 0 <= start < end <= len(text):
        raise InputError(f"row {row}: the span {span!r} is not a character range of a text of {len(text)} characters.")
    return start, end


def _span_in_chat(
    tokenizer: Any, value: Any, rendered: Rendered, row: int, wanted: Any, *, role: bool, opening: bool
) -> tuple[int, int]:  # fmt: skip
    """A span or a role as a character range of the rendered conversation."""
    segments = find_segments(tokenizer, value, rendered.texts[row], row=row, add_generation_prompt=opening)
    if role:
        return role_span(segments, wanted, row=row)
    if isinstance(wanted, str):
        # Words are looked for in what was said; the template's own words come second.
        contents = "\n".join(str(message.get("content") or "") for message in messages_of(value))
        start = contents.find(wanted) if wanted else -1
        if start < 0:
            return _character_span(row, rendered, wanted)
        wanted = (start, start + len(wanted))
    return content_span(segments, value, wanted, row=row)


def _still_there(row: int, span: tuple[int, int], kept: int) -> tuple[int, int]:
    if span[1] > kept:
        raise InputError(
            f"row {row}: the span covers tokens {span[0]}:{span[1]}, but truncation keeps {kept} tokens. Leave the row out or shorten it."
        )
    return span


def _n_trailing_special(tokenizer: Any) -> int:
    """How many special tokens the tokenizer puts after a text, such as BERT's ``[SEP]``."""
    mask = tokenizer("a", return_special_tokens_mask=True)["special_tokens_mask"]
    return next((index for index, special in enumerate(reversed(mask)) if not special), 0)


def _check_vocabulary(model: Model, ids: Sequence[list[int]]) -> None:
    """A tokenizer of another model shows here; the usual case costs nothing."""
    if model.structure.tokens is None:
        return
    size = model.module.get_submodule(model.structure.tokens).get_parameter("weight").shape[0]
    if len(model.tokenizer or ()) <= size:
        return
    for row, row_ids in enumerate(ids):
        if max(row_ids) >= size:
            raise InputError(
                f"row {row}: token id {max(row_ids)} is outside the model's vocabulary of {size}. Is this the tokenizer of another model?"
            )
