"""Where each message's content lies in a conversation as the chat template writes it.

The template is asked twice: once with the contents, once with a placeholder in the place of each. What stands between the
placeholders is what the template writes by itself; walked along the real text, it gives the place of every content, and
proves it: text, markup and contents must join up to the last character. A template that rewrites a content is refused, and
a word that stands in the markup too (``user``) is never mistaken for a content.

A ``<think>...</think>`` at the beginning of an assistant's content has the role ``thinking``; the assistant's content is what
follows. White space around a content belongs to nobody, since templates trim it.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from transect.errors import InputError, TokenRuleError
from transect.models.chat import apply_template, messages_of, render
from transect.models.model import Model

_OPEN, _CLOSE = "<think>", "</think>"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Segment:
    """The content of one message, or one part of it."""

    message: int
    """Which message, from 0."""
    role: str
    """The message's role, or ``thinking``."""
    offset: int
    """Where it begins in the message's content."""
    text: str
    """What it says, without white space around it."""
    start: int = -1
    """Where it begins in the rendered conversation; -1 where the template leaves it out."""

    @property
    def end(self) -> int:
        """One past its last character in the rendered conversation."""
        return self.start + len(self.text)


def find_segments(tokenizer: Any, value: Any, text: str, *, row: int, add_generation_prompt: bool) -> tuple[Segment, ...]:
    """The contents of one conversation and where they lie.

    Args:
        tokenizer: with a chat template.
        value: the conversation, or a plain text that is rendered as one user turn.
        text: as `transect.models.chat.render` rendered it.
        row: its number, for errors.
        add_generation_prompt: as it was rendered.

    Raises:
        InputError: the template rewrites a content, or writes it twice; the message is named.
    """
    messages = messages_of(value)
    segments = [part for index, message in enumerate(messages) for part in _parts(index, message, row)]
    marks = [_mark(index, text) for index in range(len(segments))]
    opening = add_generation_prompt and messages[-1].get("role") != "assistant"
    skeleton = apply_template(tokenizer, _with_marks(messages, segments, marks), row, opening=opening)
    for segment, mark in zip(segments, marks, strict=True):
        if skeleton.count(mark) > 1:
            raise _rewritten(row, segment, "writes it more than once")
    places = sorted((skeleton.find(mark), index) for index, mark in enumerate(marks))
    found, at, read = list(segments), 0, 0
    for place, index in places:
        if place < 0:  # left out, as some templates do with the thinking of earlier turns
            continue
        markup, segment = skeleton[read:place], segments[index]
        if not text.startswith(markup + segment.text, at):
            raise _rewritten(row, segment, "writes it, or what stands before it, in other words once it is there")
        at += len(markup)
        found[index] = dataclasses.replace(segment, start=at)
        at, read = at + len(segment.text), place + len(marks[index])
    if text[at:] != skeleton[read:]:
        raise _rewritten(row, segments[-1], "ends the conversation in other words once it is there")
    return tuple(found)


def role_span(segments: Sequence[Segment], role: str, *, row: int) -> tuple[int, int]:
    """The character range of a role's last content.

    Raises:
        TokenRuleError: no message has that role, or the template leaves it out.
    """
    having = [segment for segment in segments if segment.role == role]
    if not having:
        known = ", ".join(dict.fromkeys(segment.role for segment in segments)) or "none"
        raise TokenRuleError(f"row {row}: no message has content of the role {role!r}; the roles here are {known}.")
    if having[-1].start < 0:
        raise TokenRuleError(f"row {row}: the chat template leaves out the last {role!r} content (message {having[-1].message}).")
    return having[-1].start, having[-1].end


def content_span(segments: Sequence[Segment], value: Any, span: tuple[int, int], *, row: int) -> tuple[int, int]:
    """A character range of the contents, one message a line, as a range of the rendered conversation.

    Raises:
        InputError: the range reaches outside the contents, over two messages, or into what the template leaves out.
    """
    contents = [str(message.get("content") or "") for message in messages_of(value)]
    (start, end), total = span, len("\n".join(contents))
    if not 0 <= start < end <= total:
        raise InputError(f"row {row}: the span {span!r} is not a character range of a text of {total} characters.")
    begins, message, inside = 0, -1, None
    for content in contents:
        message += 1
        if begins <= start and end <= begins + len(content):
            marked = content[start - begins : end - begins]
            inside = (end - begins - len(marked.lstrip()), start - begins + len(marked.rstrip()))
            break
        begins += len(content) + 1
    if inside is None:
        raise InputError(f"row {row}: the span {span!r} reaches over the end of a message; mark words of one message.")
    parts = [segment for segment in segments if segment.message == message and segment.start >= 0]
    first = [part.start + inside[0] - part.offset for part in parts if part.offset <= inside[0] < part.offset + len(part.text)]
    last = [part.start + inside[1] - part.offset for part in parts if part.offset < inside[1] <= part.offset + len(part.text)]
    if not first or not last or first[0] >= last[0]:
        raise InputError(f"row {row}: the span {span!r} of message {message} is white space, or the chat template leaves it out.")
    return first[0], last[0]


def role_masks(model: Model, conversations: Sequence[Any], role: str, *, add_generation_prompt: bool = True) -> tuple[torch.Tensor, ...]:
    """Which tokens belong to the contents of a role, in all its messages.

    Args:
        model: with a tokenizer that has a chat template.
        conversations: ``n`` conversations.
        role: ``system``, ``user``, ``assistant``, ``tool``, or ``thinking``.
        add_generation_prompt: as for `transect.models.encode`.

    Returns:
        For each conversation a mask ``[t]`` of bools over its tokens, none of them True where it has no such message.

    Raises:
        InputError: a template rewrites a content; the row and the message are named.

    Examples:
        >>> import dataclasses
        >>> from transect.testing.tiny import tiny, tiny_chat_tokenizer
        >>> model = dataclasses.replace(tiny("llama"), tokenizer=tiny_chat_tokenizer())
        >>> chat = [{"role": "user", "content": "Yes"}, {"role": "assistant", "content": "It is"}]
        >>> (mask,) = role_masks(model, [chat], "assistant")
        >>> model.tokenizer.decode(model.tokenizer.apply_chat_template(chat, return_dict=False)[int(mask.int().argmax()):][:int(mask.sum())])
        'It is'
    """
    tokenizer: Any = model.tokenizer
    rendered = render(tokenizer, conversations, chat=True, add_generation_prompt=add_generation_prompt)
    masks = []
    for row, (value, text) in enumerate(zip(conversations, rendered.texts, strict=True)):
        segments = find_segments(tokenizer, value, text, row=row, add_generation_prompt=add_generation_prompt)
        offsets = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)["offset_mapping"]
        ranges = [(segment.start, segment.end) for segment in segments if segment.role == role and segment.start >= 0]
        masks.append(torch.tensor([any(first < end and last > start for start, end in ranges) for first, last in offsets]))
    return tuple(masks)


def _parts(index: int, message: Mapping[str, Any], row: int) -> list[Segment]:
    """The contents of one message; blank ones have no place."""
    content, role = message.get("content"), str(message.get("role"))
    if not isinstance(content, str):
        return []
    pieces = [(role, 0, content)]
    if role == "assistant" and _CLOSE in content:
        head, _, answer = content.partition(_CLOSE)
        before, opened, thinking = head.partition(_OPEN)
        if opened and before.strip():
            raise InputError(f"row {row}: message {index} says {before.strip()[:40]!r} before {_OPEN}; thinking comes first in an answer.")
        thinking = thinking if opened else head
        pieces = [("thinking", len(head) - len(thinking), thinking), (role, len(head) + len(_CLOSE), answer)]
    return [
        Segment(message=index, role=name, offset=at + len(text) - len(text.lstrip()), text=text.strip())
        for name, at, text in pieces
        if text.strip()
    ]


def _mark(index: int, text: str) -> str:
    """A word that is in no text, and that no template has a reason to change."""
    mark, extra = f"Placeholder{index}Mark", ""
    while mark + extra in text:
        extra += "x"
    return f"{mark}{extra}."


def _with_marks(messages: Sequence[dict[str, Any]], segments: Sequence[Segment], marks: Sequence[str]) -> list[dict[str, Any]]:
    changed = [dict(message) for message in messages]
    for segment, mark in reversed(list(zip(segments, marks, strict=True))):
        content = changed[segment.message]["content"]
        changed[segment.message]["content"] = content[: segment.offset] + mark + content[segment.offset + len(segment.text) :]
    return changed


def _rewritten(row: int, segment: Segment, how: str) -> InputError:
    return InputError(
        f"row {row}: the content of message {segment.message} ({segment.role}: {segment.text[:40]!r}) cannot be located, because the chat "
        f"template {how}. Choose a rule that needs no place of a content, such as 'prompt[-1]', or another template."
    )
