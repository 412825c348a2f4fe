"""Which tokens of a text are read: token rules such as ``last``, ``2:5`` or ``span:statement``."""

import dataclasses
import re
from typing import Literal

from transect.errors import TokenRuleError

Reduction = Literal["select", "mean", "max", "all"]
Extent = Literal["text", "span", "prompt", "generated", "role"]

_KNOWN = (
    "last, first, mean, max, all, an index such as 3 or -2, a slice such as 2:5, span:<column>, role:<role>, role:<role>[-1], prompt[-1], "
    "generated[*]"
)
_INDEX = re.compile(r"[+-]?\d+")
_SLICE = re.compile(r"([+-]?\d+)?:([+-]?\d+)?")
_PART = re.compile(r"(prompt|generated|role:[A-Za-z_][\w-]*)\[(.*)\]")
_ROLE = re.compile(r"role:([A-Za-z_][\w-]*)")


@dataclasses.dataclass(frozen=True, kw_only=True)
class TokenRule:
    """Which tokens of one text are read, and how several are made one. Made by `parse_tokens`.

    Token positions are counted in the unpadded text with the special tokens that the tokenizer adds: position 0 is the
    beginning-of-text token where there is one.
    """

    reduces: Reduction
    """``select``: one token. ``mean``, ``max``: many tokens made one. ``all``: one row per token."""
    extent: Extent = "text"
    """The tokens counted from: the whole text, a span of it, the prompt before the answer, the answer, or a role's last message."""
    column: str | None = None
    """For a span: the column of the table that holds it. For a role: its name."""
    start: int | None = None
    """The first position (negative: from the end); None is the beginning."""
    stop: int | None = None
    """One past the last position (negative: from the end); None is the end. Unused when one token is selected."""

    def __str__(self) -> str:
        """The canonical name; `parse_tokens` reads it back to an equal rule."""
        if self.extent == "span":
            return f"span:{self.column}"
        whole = self.start is None and self.stop is None
        if self.extent == "role" and self.reduces == "mean" and whole:
            return f"role:{self.column}"
        if self.extent == "text" and self.reduces != "select" and whole:
            return self.reduces
        if self.reduces == "all":
            inner = "*"
        elif self.reduces == "select":
            words = {-1: "last", 0: "first"} if self.extent == "text" else {}
            inner = words.get(self.start or 0, str(self.start))
        else:
            inner = f"{'' if self.start is None else self.start}:{'' if self.stop is None else self.stop}"
        part = f"role:{self.column}" if self.extent == "role" else self.extent
        return inner if self.extent == "text" else f"{part}[{inner}]"

    def positions(self, length: int, span: tuple[int, int] | None = None, prompt: tuple[int, int] | None = None) -> range:
        """The token positions this rule reads in one text.

        Args:
            length: how many tokens the text has, without padding.
            span: the span's or the role's token range ``(start, end)``, end exclusive; needed by ``span:<column>`` and ``role:<role>``.
            prompt: the token range of the prompt before the answer; needed by ``prompt[...]`` and ``generated[...]``.

        Raises:
            TokenRuleError: the rule selects no token in this text, or the range it needs was not given.

        Examples:
            >>> parse_tokens("-2").positions(5)
            range(3, 4)
        """
        base = self._base(length, span, prompt)
        if self.reduces == "select":
            index = self.start or 0
            inside = -len(base) <= index < len(base)
            at = base[index % len(base) :][:1] if inside else range(0)
        else:
            at = base[self.start : self.stop]
        if len(at) == 0:
            what = {"generated": "answer", "role": "message"}.get(self.extent, self.extent)
            raise TokenRuleError(
                f"token rule {str(self)!r} selects nothing: the {what} has {len(base)} tokens here. "
                f"Choose a rule that every text can meet, such as 'last', or leave the short texts out."
            )
        return at

    def _base(self, length: int, span: tuple[int, int] | None, prompt: tuple[int, int] | None) -> range:
        if self.extent == "text":
            return range(length)
        given = span if self.extent in ("span", "role") else prompt
        if given is None:
            need = {
                "span": f"a span column {self.column!r} in the table",
                "role": f"chat messages with the role {self.column!r}",
            }.get(self.extent, "texts that have a prompt (chat messages, or plain text)")
            raise TokenRuleError(f"token rule {str(self)!r} needs {need}, but there is none for this text.")
        start, end = given
        if not 0 <= start <= end <= length:
            raise TokenRuleError(f"the {self.extent} covers tokens {start}:{end}, but the text has {length} tokens.")
        return range(end, length) if self.extent == "generated" else range(start, end)


def parse_tokens(rule: "str | int | TokenRule") -> TokenRule:
    """Read a token rule.

    | rule | reads |
    |---|---|
    | ``last``, ``first`` | that token |
    | ``3``, ``-2`` | the token at this index; negative counts from the end |
    | ``mean``, ``max`` | the mean or the element-wise maximum over all tokens, special tokens included |
    | ``2:5``, ``1:`` | the mean over a slice of tokens, as Python slices |
    | ``span:<column>`` | the mean over the tokens of a span that the table marks |
    | ``prompt[-1]`` | the last token before the answer; any index or slice works, and ``*`` for every token |
    | ``generated[*]`` | every token of the answer; ``generated[-1]`` the last, ``generated[:]`` the mean, any index or slice |
    | ``role:<role>`` | the mean over the content of the last message of a role (``user``, ``assistant``, ``thinking``, ...) |
    | ``role:<role>[-1]`` | the last token of that content; any index or slice works, and ``*`` for every token |
    | ``all`` | every token, one row each |

    Raises:
        TokenRuleError: the rule cannot be read.

    Examples:
        >>> str(parse_tokens("-1")), str(parse_tokens("prompt[-1]")), parse_tokens("1:").reduces
        ('last', 'prompt[-1]', 'mean')
    """
    if isinstance(rule, TokenRule):
        return rule
    text = str(rule).strip()
    if text in ("mean", "max", "all"):
        return TokenRule(reduces=text)  # pyright: ignore[reportArgumentType]
    if text.startswith("span:") and len(text) > len("span:"):
        return TokenRule(reduces="mean", extent="span", column=text.removeprefix("span:"))
    role = _ROLE.fullmatch(text)
    if role:
        return TokenRule(reduces="mean", extent="role", column=role[1])
    inside = _PART.fullmatch(text)
    if inside:
        part, _, name = inside[1].partition(":")
        extent: Extent = part  # pyright: ignore[reportAssignmentType] - one of the words in the pattern
        return _indexed(inside[2].strip(), extent=extent, column=name or None, rule=text)
    return _indexed({"last": "-1", "first": "0"}.get(text, text), extent="text", rule=text)


def _indexed(inner: str, *, extent: Extent, rule: str, column: str | None = None) -> TokenRule:
    if inner == "*" and extent != "text":
        return TokenRule(reduces="all", extent=extent, column=column)
    if _INDEX.fullmatch(inner):
        return TokenRule(reduces="select", extent=extent, column=column, start=int(inner))
    ends = _SLICE.fullmatch(inner)
    if ends:
        start, stop = (None if end is None else int(end) for end in ends.groups())
        return TokenRule(reduces="mean", extent=extent, column=column, start=start, stop=stop)
    raise TokenRuleError(f"cannot read token rule {rule!r}; expected one of: {_KNOWN}.")
