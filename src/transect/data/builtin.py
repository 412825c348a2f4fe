"""The names of the built-in sets, and the file of `transect.data.sets` that makes each."""

from types import ModuleType

from transect.data.sets import collusion, conjunction, familiarity, honesty, intensity, neither, reasoning, sentiment, tool_calls, truth
from transect.data.sets.rows import TRUTH, BuiltinRows
from transect.data.sets.truth import opposite_meaning

__all__ = ["TRUTH", "BuiltinRows", "builtin_names", "builtin_rows", "opposite_meaning"]

_MODULES: tuple[ModuleType, ...] = (
    collusion,
    conjunction,
    familiarity,
    honesty,
    intensity,
    neither,
    reasoning,
    sentiment,
    tool_calls,
    truth,
)


def builtin_names() -> tuple[str, ...]:
    """The names that `read_table` makes on the spot, sorted.

    Examples:
        >>> {"cities", "neg_cities", "animals", "larger_than"} <= set(builtin_names())
        True
    """
    return tuple(sorted(name for module in _MODULES for name in module.names()))


def builtin_rows(name: str) -> BuiltinRows:
    """The columns of a built-in set; `read_table` makes the table."""
    return next(module for module in _MODULES if name in module.names()).rows(name)
