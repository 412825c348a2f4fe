"""Texts and conversations to the strings that are tokenised."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from transect.errors import InputError


@dataclasses.dataclass(frozen=True, kw_only=True)
class Rendered:
    """What is handed to the tokenizer, one entry per example."""

    texts: tuple[str, ...]
    """The whole text."""
    prompts: tuple[str | None, ...]
    """The part before the answer, where a conversation ends with one; None where the whole text is the prompt."""
    originals: tuple[str | None, ...]
    """The plain text that the caller gave; None for a conversation."""
    chat: bool
    """Whether a chat template wrote the texts, special tokens included."""


def render(tokenizer: Any, rows: Sequence[Any], *, chat: bool, add_generation_prompt: bool) -> Rendered:
    """The strings to tokenise.

    Raises:
        InputError: as `encode` says.
    """
    conversations = [row for row, value in enumerate(rows) if not isinstance(value, str) and _is_conversation(value)]
    plain = _check_texts(rows, set(conversations))
    if conversations and plain:
        raise InputError(
            f"expected all texts or all conversations, got a text in row {plain[0]} and a conversation in row {conversations[0]}."
        )
    if not chat and not conversations:
        return Rendered(texts=tuple(rows), prompts=(None,) * len(rows), originals=tuple(rows), chat=False)
    if not getattr(tokenizer, "chat_template", None):
        raise InputError(
            "this tokenizer has no chat template (base models have none). Give plain texts without chat (--chat), "
            "or set one: model.tokenizer.chat_template = '...'."
        )
    texts, prompts = [], []
    for row, value in enumerate(rows):
        messages = messages_of(value)
        answered = messages[-1].get("role") == "assistant"
        if answered and len(messages) == 1:
            raise InputError(f"row {row}: the conversation holds an answer and nothing before it; give the question too.")
        texts.append(apply_template(tokenizer, messages, row, opening=add_generation_prompt and not answered))
        prompts.append(apply_template(tokenizer, messages[:-1], row, opening=True) if answered else None)
    originals = tuple(value if isinstance(value, str) else None for value in rows)
    return Rendered(texts=tuple(texts), prompts=tuple(prompts), originals=originals, chat=True)


def messages_of(value: Any) -> list[dict[str, Any]]:
    """A conversation as a list of its own; a plain text is one user turn."""
    return [{"role": "user", "content": value}] if isinstance(value, str) else [dict(message) for message in value]


def apply_template(tokenizer: Any, messages: list[dict[str, Any]], row: int, *, opening: bool) -> str:
    """A conversation as the template writes it.

    Raises:
        InputError: the template refuses it.
    """
    from jinja2 import TemplateError

    try:
        return tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=opening)
    except (TemplateError, TypeError, KeyError, ValueError) as error:
        roles = [message.get("role") for message in messages]
        raise InputError(f"row {row}: the chat template refuses a conversation with the roles {roles}: {error}.") from error


def _is_conversation(value: Any) -> bool:
    return isinstance(value, Sequence) and len(value) > 0 and all(isinstance(message, Mapping) for message in value)


def _check_texts(rows: Sequence[Any], conversations: set[int]) -> list[int]:
    """The rows that are plain texts; refuses what is neither text nor conversation, and empty texts."""
    plain = [row for row in range(len(rows)) if row not in conversations]
    wrong = [row for row in plain if not isinstance(rows[row], str)]
    if wrong:
        raise InputError(
            f"expected a text or a conversation (a list of {{'role', 'content'}}) in every row, got {rows[wrong[0]]!r} in row {wrong[0]}; "
            f"{len(wrong)} of {len(rows)} rows are like it."
        )
    empty = [row for row in plain if not rows[row].strip()]
    if empty:
        shown = ", ".join(str(row) for row in empty[:5]) + (", ..." if len(empty) > 5 else "")
        raise InputError(
            f"{len(empty)} of {len(rows)} texts are empty or blank: row {shown} (counted from 0). Fill them in or leave them out."
        )
    return plain
