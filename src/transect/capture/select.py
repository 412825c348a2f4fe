"""From a module's whole output to the few rows that are kept."""

import dataclasses
from collections.abc import Sequence
from typing import Literal

import torch

from transect.errors import SiteError, TokenRuleError
from transect.sites import Place, TokenRule

Axes = Literal["n t d", "t n d", "(n t) d", "n d"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Layout:
    """How the tensor at a place is laid out; learnt from one pass, since modules do not say."""

    place: Place
    axes: Axes
    """Where examples, tokens and width are. ``n d`` has no tokens: one vector per example."""
    width: int
    """``d``."""
    dtype: torch.dtype
    """The type in which the model computes here."""
    tokens: int | None
    """How many tokens there were in that pass; None without a token axis."""


def find_layout(place: Place, seen: torch.Tensor, *, n: int, t: int | None) -> Layout:
    """Tell a place's layout from the tensor seen there.

    Args:
        place: the place.
        seen: its tensor (on any device, meta included).
        n: how many examples ran.
        t: how many tokens each had, unlike `n`; None when that is not known (images).

    Raises:
        SiteError: the shape is none that we know, has another number of tokens than the text, or holds no real numbers.
    """
    shape = list(seen.shape)
    if not seen.dtype.is_floating_point:
        raise SiteError(f"{place.name} carries {seen.dtype}, expected floating-point activations; choose a site that carries those.")
    axes: Axes | None = None
    if len(shape) == 3 and shape[0] == n and t in (None, shape[1]):
        axes = "n t d"
    elif len(shape) == 3 and t is not None and shape[:2] == [t, n]:
        axes = "t n d"
    elif len(shape) == 2 and t is not None and shape[0] == n * t:
        axes = "(n t) d"
    elif len(shape) == 2 and shape[0] == n:
        axes = "n d"
    if axes is None:
        raise SiteError(
            f"{place.name} has shape {shape} for {n} examples of {'?' if t is None else t} tokens; expected [n, t, d], [t, n, d], "
            f"[n*t, d] or [n, d]. Choose a site whose last axis is the width and whose tokens are the text's, such as a block."
        )
    tokens = {"n t d": shape[1], "t n d": shape[0], "(n t) d": t, "n d": None}[axes] if len(shape) > 1 else None
    return Layout(place=place, axes=axes, width=shape[-1], dtype=seen.dtype, tokens=tokens)


def pick_rows(hidden: torch.Tensor, layout: Layout, reads: Sequence[range] | None, rule: TokenRule) -> torch.Tensor:
    """The rows that a token rule keeps of one batch: always a copy, so that the whole tensor can be freed.

    Args:
        hidden: the tensor at the place, laid out as `layout` says.
        layout: from `find_layout`.
        reads: for each of the batch's ``n`` examples the token positions it reads; None lets the rule count the tokens here.
        rule: how several tokens become one.

    Returns:
        ``[n, d]``; for the rule ``all`` ``[sum of tokens read, d]``, example after example. Means are taken in float32 at least.

    Raises:
        SiteError: the shape changed since the layout was learnt.
        TokenRuleError: the rule selects nothing, or there are no tokens here to select from.
    """
    if layout.axes == "n d":
        check_no_tokens(layout, rule)
        return hidden.clone()
    hidden = _examples_first(hidden, layout, None if reads is None else len(reads))
    if reads is None:
        reads = [rule.positions(hidden.shape[1])] * len(hidden)
    needed = max(at.stop for at in reads)
    if hidden.ndim != 3 or hidden.shape[2] != layout.width or len(hidden) != len(reads) or needed > hidden.shape[1]:
        raise SiteError(
            f"{layout.place.name} changed its shape between passes: now {list(hidden.shape)} [n, t, d], expected {len(reads)} examples of "
            f"width {layout.width} and at least {needed} tokens. A site must look alike for every text."
        )
    if rule.reduces == "select":
        rows = torch.arange(len(reads), device=hidden.device)
        return hidden[rows, torch.tensor([at.start for at in reads], device=hidden.device)]
    pieces = [hidden[row, at.start : at.stop] for row, at in enumerate(reads)]
    if rule.reduces == "all":
        return torch.cat(pieces)
    if rule.reduces == "max":
        return torch.stack([piece.amax(dim=0) for piece in pieces])
    precise = torch.promote_types(hidden.dtype, torch.float32)
    return torch.stack([piece.mean(dim=0, dtype=precise) for piece in pieces]).to(hidden.dtype)


def check_no_tokens(layout: Layout, rule: TokenRule) -> None:
    """Refuse a rule about tokens where there are none.

    Raises:
        TokenRuleError: the rule is not ``last``, the default.
    """
    if layout.axes == "n d" and str(rule) != "last":
        raise TokenRuleError(
            f"token rule {str(rule)!r} cannot be applied at {layout.place.name}: it has one vector per example and no tokens. "
            f"Leave the rule at its default, 'last'."
        )


def _examples_first(hidden: torch.Tensor, layout: Layout, n: int | None) -> torch.Tensor:
    if layout.axes == "t n d" and hidden.ndim == 3:
        return hidden.transpose(0, 1)
    if layout.axes == "(n t) d" and hidden.ndim == 2:
        n = n if n is not None else hidden.shape[0] // (layout.tokens or 1)
        return hidden.unflatten(0, (n, -1)) if n and hidden.shape[0] % n == 0 else hidden
    return hidden
