"""What a label column means: two classes, several classes, or a number.

The rules, in order, on the distinct values of the column:

1. ``0/1``, ``true/false``, ``yes/no`` (any case, as text, numbers or booleans): binary, read as False and True.
2. Two other values: binary; sorted, the second (for numbers: the larger) is positive.
3. Numbers with a fractional value, or more than 20 different whole numbers: a number to predict.
4. Anything else: one class per value.

``kind=`` and ``positive=`` override them.
"""

import dataclasses
import math
from collections.abc import Sequence
from typing import Any, get_args

import numpy as np

from transect.data.table import Kind
from transect.errors import TableError, near_matches

MOST_WHOLE_NUMBER_CLASSES = 20
_TRUTH = {"0": False, "1": True, "false": False, "true": True, "no": False, "yes": True}
_TRUTH_PAIRS = ({"0", "1"}, {"false", "true"}, {"no", "yes"})
_ALWAYS_MISSING = {"", "nan"}
# Words that may also be the name of a class: missing only in a column of numbers or truth values.
_PERHAPS_MISSING = {"na", "n/a", "<na>", "none", "null"}


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Labels:
    """A label column as `Table` keeps it."""

    values: np.ndarray
    kind: Kind
    classes: tuple[Any, ...] | None


def read_labels(
    column: np.ndarray, *, name: str, kind: Kind | None = None, positive: Any = None, declared: Sequence[Any] | None = None
) -> Labels:
    """The labels of a table, by the rules above.

    Args:
        column: ``[n]`` raw values: str, bool, numbers or None.
        name: the column's name, for messages.
        kind: decide instead of inferring.
        positive: for binary labels, the value that counts as positive, as it is written in the column.
        declared: the classes in their declared order, where the source has one (Hugging Face ``ClassLabel``).

    Raises:
        TableError: missing labels (rows are named), or values that do not fit the kind.

    Examples:
        >>> labels = read_labels(np.array(["spam", "ham", "spam"], dtype=object), name="label", positive="spam")
        >>> labels.kind, labels.classes
        ('binary', ('ham', 'spam'))
    """
    if kind is not None and kind not in get_args(Kind):
        raise TableError(f"kind must be one of {', '.join(get_args(Kind))}, got {kind!r}; {near_matches(str(kind), get_args(Kind))}")
    values = column.tolist()
    try:
        plain = {value: _plain(value) for value in set(values)}
    except TypeError:
        nested = next(value for value in values if isinstance(value, (list, dict, set, np.ndarray)))
        raise TableError(f"a label must be one value, got {nested!r}; name another column with label=.") from None
    raw = [plain[value] for value in values]
    _refuse_missing(raw, name)
    labels = (
        Labels(values=_numbers(raw, name), kind="number", classes=None)
        if kind == "number"
        else _infer(raw, name=name, kind=kind, declared=declared)
    )
    return labels if positive is None else _with_positive(labels, positive, name)


def _plain(value: Any) -> Any:
    return value.strip() if isinstance(value, str) else value


def _word(value: Any) -> str:
    """How a value is spelt, whatever type it arrived in: 1, 1.0, True and "1" must mean the same."""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value).casefold()


def is_missing(value: Any) -> bool:
    """None, NaN of any library, and blank text."""
    if isinstance(value, str):
        return value.casefold() in _ALWAYS_MISSING
    # pandas has its own missing values, known here by how they print so that pandas is not needed.
    return value is None or (isinstance(value, float) and math.isnan(value)) or str(value) in ("<NA>", "NaT")


def _refuse_missing(raw: list[Any], name: str) -> None:
    distinct = set(raw)
    absent = {value for value in distinct if is_missing(value)}
    words = {value for value in distinct if isinstance(value, str) and value.casefold() in _PERHAPS_MISSING}
    others = distinct - absent - words
    if words and others and all(_float(value) is not None or _word(value) in _TRUTH for value in others):
        absent |= words
    if not absent:
        return
    rows = [row for row, value in enumerate(raw, start=1) if value in absent]
    raise TableError(
        f"{len(rows)} of {len(raw)} rows have no label in the column {name!r} (row {row_list(rows)}, counted from 1 without the header). "
        f"Fill in those labels or remove those rows; none is dropped for you."
    )


def row_list(rows: Sequence[int], *, most: int = 10) -> str:
    """Row numbers for a message: the first few, and how many more there are."""
    shown = ", ".join(map(str, rows[:most]))
    return shown if len(rows) <= most else f"{shown} and {len(rows) - most} more"


def _float(value: Any) -> float | None:
    if isinstance(value, str) and "_" in value:
        return None  # Python reads "3_1" as 31; in a table it is a name
    try:
        return float(value)
    except (TypeError, ValueError):
        return None


def _numbers(raw: list[Any], name: str) -> np.ndarray:
    numbers = [_float(value) for value in raw]
    bad = [row for row, number in enumerate(numbers, start=1) if number is None or not math.isfinite(number)]
    if bad:
        raise TableError(
            f"{len(bad)} rows of the column {name!r} are not finite numbers, for example {raw[bad[0] - 1]!r} (row {row_list(bad)}); "
            f"correct them, or read the column as classes with kind='multiclass'."
        )
    return np.array(numbers, dtype=np.float64)


def _infer(raw: list[Any], *, name: str, kind: Kind | None, declared: Sequence[Any] | None) -> Labels:
    distinct = set(raw)
    if kind == "binary" and len({_word(value) for value in distinct}) > 2:
        raise TableError(f"kind='binary' needs two different labels, the column {name!r} has {len(distinct)}: {_some(distinct)}.")
    if declared is not None and {_word(value) for value in declared} not in _TRUTH_PAIRS:
        return _classes(raw, tuple(declared), kind)
    words = {value: _word(value) for value in distinct}
    if any(set(words.values()) <= pair for pair in _TRUTH_PAIRS) and kind != "multiclass":
        meaning = {value: _TRUTH[word] for value, word in words.items()}
        return Labels(values=np.array([meaning[value] for value in raw], dtype=bool), kind="binary", classes=(False, True))
    numbers = {value: _float(value) for value in distinct}
    if all(number is not None for number in numbers.values()):
        return _numeric(raw, numbers, name=name, kind=kind)
    _refuse_free_text(len(distinct), len(raw), name, kind)
    text = [str(value) for value in raw]
    return _classes(text, tuple(sorted(set(text))), kind)


def _numeric(raw: list[Any], numbers: dict[Any, float | None], *, name: str, kind: Kind | None) -> Labels:
    values = np.array([numbers[value] for value in raw], dtype=np.float64)
    if not np.isfinite(values).all():
        return Labels(values=_numbers(raw, name), kind="number", classes=None)  # says which rows
    distinct = sorted(set(values.tolist()))
    whole = all(value.is_integer() for value in distinct)
    if kind is None and len(distinct) > 2 and (not whole or len(distinct) > MOST_WHOLE_NUMBER_CLASSES):
        return Labels(values=_numbers(raw, name), kind="number", classes=None)
    if whole and all(abs(value) < 2**53 for value in distinct):
        return _classes([int(value) for value in values.tolist()], tuple(int(value) for value in distinct), kind)
    return _classes(values.tolist(), tuple(distinct), kind)


def _classes(values: list[Any], classes: tuple[Any, ...], kind: Kind | None) -> Labels:
    decided: Kind = kind or ("binary" if len(classes) == 2 else "multiclass")
    if decided == "binary" and len(classes) != 2:
        raise TableError(f"kind='binary' needs two different labels, got {len(classes)}: {_some(classes)}.")
    kept = np.array(values) if isinstance(classes[0], (int, float)) else np.fromiter(values, dtype=object, count=len(values))
    return Labels(values=kept, kind=decided, classes=classes)


def _refuse_free_text(n_distinct: int, n: int, name: str, kind: Kind | None) -> None:
    if kind is None and n > 20 and n_distinct > n / 2:
        raise TableError(
            f"the column {name!r} has {n_distinct} different values in {n} rows, so it does not look like a label; name the label "
            f"column with label=, or confirm with kind='multiclass'."
        )


def _with_positive(labels: Labels, positive: Any, name: str) -> Labels:
    if labels.kind != "binary" or labels.classes is None:
        raise TableError(f"positive={positive!r} is for two classes, but the labels in {name!r} are {labels.kind}; leave it out.")
    wanted = _word(_plain(positive))
    found = [value for value in labels.classes if _word(value) == wanted or (isinstance(value, bool) and _TRUTH.get(wanted) is value)]
    if not found:
        raise TableError(f"positive={positive!r} is not a label in {name!r}: {near_matches(str(positive), map(str, labels.classes))}")
    negative = next(value for value in labels.classes if value is not found[0])
    return dataclasses.replace(labels, classes=(negative, found[0]))


def _some(values: Any, *, most: int = 5) -> str:
    shown = sorted(map(repr, values))
    return ", ".join(shown[:most]) + (", ..." if len(shown) > most else "")
