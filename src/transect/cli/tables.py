"""Lists in options and tables on the terminal, alike in every command."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console


def listed(value: str) -> list[str]:
    """The parts of a comma-separated option.

    Examples:
        >>> listed("gdn, attention")
        ['gdn', 'attention']
    """
    return [item.strip() for item in value.split(",") if item.strip()]


def print_table(console: "Console", names: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table as it is, whatever its cells hold."""
    from rich.table import Table
    from rich.text import Text

    table = Table()
    for name in names:
        table.add_column(Text(name), overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    console.print(table)
