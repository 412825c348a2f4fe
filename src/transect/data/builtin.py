"""The names of the built-in sets, and the file of `transect.data.sets` that makes each."""

from types import ModuleType

from transect.data.sets.rows import TRUTH, BuiltinRows

__all__ = ["TRUTH", "BuiltinRows", "builtin_names", "builtin_rows"]


def builtin_names() -> tuple[str, ...]:
    """The names that `read_table` makes on the spot, sorted.

    Examples:
        >>> {"cities", "neg_cities", "animals", "larger_than"} <= set(builtin_names())
        True
    """
    return tuple(sorted(name for module in _modules() for name in module.names()))


def builtin_rows(name: str) -> BuiltinRows:
    """The columns of a built-in set; `read_table` makes the table."""
    return next(module for module in _modules() if name in module.names()).rows(name)


def _modules() -> tuple[ModuleType, ...]:
    # Here and not above: who reads files of their own need not wait for the sets.
    from transect.data.sets import collusion, conjunction, familiarity, honesty, intensity, neither, reasoning, sentiment, tool_calls, truth

    return collusion, conjunction, familiarity, honesty, intensity, neither, reasoning, sentiment, tool_calls, truth
