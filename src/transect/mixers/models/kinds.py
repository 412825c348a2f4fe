"""From what a configuration says of a block to a class and its settings; classes are found by walking, so none is listed by hand."""

import inspect
import types
from collections.abc import Mapping
from functools import cache
from numbers import Integral, Real
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from torch import nn

from transect.errors import InputError, near_matches
from transect.mixers import feed_forward, layers
from transect.mixers.layers import SequenceLayer

Spec = str | Mapping[str, Any]


@cache
def layer_kinds() -> Mapping[str, type[SequenceLayer]]:
    """Every sequence layer, by its class name in lower case and by its alias.

    Examples:
        >>> layer_kinds()["gdn"].__name__, layer_kinds()["gateddeltanet"].__name__
        ('GatedDeltaNet', 'GatedDeltaNet')
    """
    found: dict[str, type[SequenceLayer]] = {}
    for name in layers.__all__:
        value = getattr(layers, name)
        if inspect.isclass(value) and issubclass(value, SequenceLayer) and not inspect.isabstract(value):
            found[name.lower()] = value
            if value.alias is not None:
                found[value.alias] = value
    return found


@cache
def feed_forward_kinds() -> Mapping[str, type[nn.Module]]:
    """Every feed-forward layer, by its class name in lower case and by its alias; one that remembers tokens is a `SequenceLayer`.

    Examples:
        >>> feed_forward_kinds()["swiglu"].__name__
        'GatedMLP'
    """
    found: dict[str, type[nn.Module]] = {}
    for name in feed_forward.__all__:
        value = getattr(feed_forward, name)
        if inspect.isclass(value) and issubclass(value, feed_forward.FeedForward | SequenceLayer) and not inspect.isabstract(value):
            found[name.lower()] = value
            if value.alias is not None:
                found[value.alias] = value
    return found


def resolve(spec: Spec, kinds: Mapping[str, type[nn.Module]], *, what: str) -> tuple[type[nn.Module], dict[str, Any]]:
    """The class that a name, or a mapping with a ``kind``, means, and the mapping's other settings.

    Raises:
        InputError: no such kind, or a setting that it does not take, with near matches; or a setting of another type.
    """
    settings = {} if isinstance(spec, str) else dict(spec)
    name = spec if isinstance(spec, str) else settings.pop("kind", None)
    if not isinstance(name, str) or name.lower() not in kinds:
        raise InputError(f"expected a {what} that exists, got {name!r}; {near_matches(str(name), sorted(kinds))}.")
    kind = kinds[name.lower()]
    taken = set(inspect.signature(kind).parameters) - {"hidden_size", "layer_idx"}
    hints = get_type_hints(kind.__init__)
    for key, value in settings.items():
        if key not in taken:
            raise InputError(f"{kind.__name__} takes no setting {key!r}; {near_matches(key, sorted(taken))}.")
        if not _fits(value, hints.get(key)):
            raise InputError(f"expected {key} of {kind.__name__} as {_named(hints[key])}, got {value!r}.")
    return kind, settings


def _fits(value: Any, hint: Any) -> bool:
    """Whether a plain value is of an annotation's kind; what is not a plain number, word or choice is for the class itself to refuse."""
    if get_origin(hint) in {Union, types.UnionType}:
        return any(_fits(value, one) for one in get_args(hint))
    if get_origin(hint) is Literal:
        return value in get_args(hint)
    if hint is int:
        return isinstance(value, Integral) and not isinstance(value, bool)
    if hint is float:
        return isinstance(value, Real) and not isinstance(value, bool)
    return isinstance(value, hint) if hint in {bool, str, types.NoneType} else True


def _named(hint: Any) -> str:
    if get_origin(hint) in {Union, types.UnionType}:
        return " or ".join(_named(one) for one in get_args(hint))
    if get_origin(hint) is Literal:
        return " or ".join(map(repr, get_args(hint)))
    names = {int: "a whole number", float: "a number", bool: "true or false", str: "a word", types.NoneType: "none"}
    return names.get(hint, getattr(hint, "__name__", str(hint)))


def make(kind: type[nn.Module], settings: Mapping[str, Any], **usual: Any) -> nn.Module:
    """A module with its settings, and of the usual ones those that it takes; its own settings win."""
    taken = inspect.signature(kind).parameters
    chosen = {name: value for name, value in usual.items() if name in taken and value is not None}
    return kind(**{**chosen, **settings})
