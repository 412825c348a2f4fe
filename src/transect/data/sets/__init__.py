"""The built-in sets, a file for each kind; `transect.data.read_table` makes tables of them by name."""

from transect.data.sets.rows import BuiltinRows

__all__ = ["BuiltinRows"]
