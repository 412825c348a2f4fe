"""Between frozen records and plain JSON, by the records' own annotations.

One function each way for every record: a field's annotation is the file format. Writing refuses what JSON cannot say
(NaN, infinity, arrays); reading checks every value against the annotation and names the path of the one that is wrong.

An `Estimate` without an interval has NaN ends, which are written as null: the only NaN that has a meaning.

A field annotated with `ABSENT` is left out of the JSON while it is None; every other field is always there, as null where
it is None. The annotations understood: str, bool, int, float, None, Any (plain JSON), Literal, unions, ``tuple[T, ...]``,
``Mapping[str, T]`` and other records.
"""

import dataclasses
import functools
import math
import types
import typing
from collections.abc import Mapping
from typing import Any, Literal, TypeVar, Union

import numpy as np

from transect.errors import InputError, StoreError
from transect.measure import Estimate

T = TypeVar("T")

ABSENT = "absent when None"  # in an Annotated: the field is left out of the JSON while it is None
NAN_IS_NULL: Mapping[type, frozenset[str]] = types.MappingProxyType({Estimate: frozenset({"low", "high"})})


def to_json(value: Any, *, path: str = "report") -> Any:
    """Plain JSON values of a record, or of anything a record may hold.

    Args:
        value: the record or value.
        path: what to call it in an error.

    Raises:
        InputError: a number is NaN or infinite, or a value is of a kind that JSON does not have.

    Examples:
        >>> to_json({"sites": ("embed", "layers[0]")})
        {'sites': ['embed', 'layers[0]']}
    """
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return _record_to_json(value, path)
    if isinstance(value, Mapping):
        return {str(key): to_json(item, path=f"{path}.{key}") for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [to_json(item, path=f"{path}[{index}]") for index, item in enumerate(value)]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        raise InputError(
            f"{path} is {value}, expected a finite number. Where the field is optional, give None for a number that is not known."
        )
    if value is None or isinstance(value, str | bool | int | float):
        return value
    raise InputError(f"{path} is a {type(value).__name__}, expected a record, str, number, bool, None, or a tuple or mapping of these.")


def _record_to_json(record: Any, path: str) -> dict[str, Any]:
    kind = type(record)
    fields = {name: getattr(record, name) for name in field_types(kind)}
    kept: dict[str, Any] = {name: value for name, value in fields.items() if value is not None or name not in absent_fields(kind)}
    kept |= {name: None for name in nan_fields(kind) if math.isnan(kept[name])}
    return {name: to_json(value, path=f"{path}.{name}") for name, value in kept.items()}


def from_json(record: type[T], value: Any, *, path: str = "report") -> T:
    """The inverse of `to_json` for one class of record.

    Args:
        record: the class to make.
        value: what `to_json` gave.
        path: what to call it in an error.

    Raises:
        StoreError: a field is missing, unknown, or holds a value that its annotation does not allow; names its path.
    """
    if not isinstance(value, Mapping):
        raise StoreError(f"{path} is {_shown(value)}, expected an object.")
    hints = field_types(record)
    unknown = sorted(set(value) - set(hints))
    if unknown:
        raise StoreError(f"{path} has the unknown fields {unknown}. Written by a newer transect? Upgrade transect and read it again.")
    missing = [field.name for field in dataclasses.fields(record) if field.name not in value and _required(field)]  # type: ignore[arg-type]
    if missing:
        raise StoreError(f"{path} lacks the fields {missing}. It is damaged or was not written by transect; make it again.")
    nan = {name: math.nan for name in nan_fields(record) if value.get(name) is None}
    return record(**nan, **{name: _read(hints[name], item, f"{path}.{name}") for name, item in value.items() if name not in nan})


@functools.cache
def field_types(record: type) -> dict[str, Any]:
    """The resolved annotation of each field of a record."""
    hints = typing.get_type_hints(record)
    return {field.name: hints[field.name] for field in dataclasses.fields(record)}


@functools.cache
def absent_fields(record: type) -> frozenset[str]:
    """The fields of a record that are left out of the JSON while they are None."""
    hints = typing.get_type_hints(record, include_extras=True)
    return frozenset(name for name, hint in hints.items() if ABSENT in getattr(hint, "__metadata__", ()))


def nan_fields(record: type) -> frozenset[str]:
    """The fields of a record whose NaN means "none" and is written as null."""
    return NAN_IS_NULL.get(record, frozenset())


def _required(field: "dataclasses.Field[Any]") -> bool:
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


def options(annotation: Any) -> tuple[Any, ...]:
    """The members of a union, or the annotation alone.

    >>> options(int | None)
    (<class 'int'>, <class 'NoneType'>)
    """
    return typing.get_args(annotation) if typing.get_origin(annotation) in (Union, types.UnionType) else (annotation,)


def _read(annotation: Any, value: Any, path: str) -> Any:
    for option in options(annotation):
        if _fits(option, value):
            return _build(option, value, path)
    raise StoreError(f"{path} is {_shown(value)}, expected {_named(annotation)}. The file is damaged or was edited; make it again.")


def _fits(option: Any, value: Any) -> bool:
    """Whether the JSON value is of the annotation's kind; what is inside a container is read later, with its own path."""
    origin = typing.get_origin(option)
    if option is Any:
        return True
    if origin is Literal:
        return any(value == choice and type(value) is type(choice) for choice in typing.get_args(option))
    if origin is tuple:
        return isinstance(value, list)
    if dataclasses.is_dataclass(option) or (isinstance(origin, type) and issubclass(origin, Mapping)):
        return isinstance(value, dict)
    if option is float:
        return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    if option is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, option)


def _build(option: Any, value: Any, path: str) -> Any:
    origin = typing.get_origin(option)
    if origin is tuple:
        inner = typing.get_args(option)[0]
        return tuple(_read(inner, item, f"{path}[{index}]") for index, item in enumerate(value))
    if dataclasses.is_dataclass(option):
        return from_json(typing.cast("type[Any]", option), value, path=path)
    if isinstance(value, dict) and option is not Any:
        inner = typing.get_args(option)[1]
        return {key: _read(inner, item, f"{path}.{key}") for key, item in value.items()}
    return value


def _named(annotation: Any) -> str:
    return " or ".join("null" if option is type(None) else getattr(option, "__name__", str(option)) for option in options(annotation))


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
