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
    """Print a table as it is, whatever its cells hold: as wide as it needs in a file or pipe, and on a terminal too narrow for it row after row."""
    from rich.console import Console
    from rich.measure import Measurement
    from rich.table import Table
    from rich.text import Text

    table = Table()
    for name in names:
        table.add_column(Text(name), overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    wide = Measurement.get(console, console.options.update(width=10_000), table).maximum
    if wide <= console.width:
        console.print(table)
        return
    if not console.is_terminal:
        Console(file=console.file, width=wide, highlight=False).print(table)
        return
    for row in rows:
        each = Table.grid(padding=(0, 2))
        each.add_column(no_wrap=True)
        each.add_column(overflow="fold")
        for name, cell in zip(names, row, strict=True):
            if cell:
                each.add_row(Text(name), Text(cell))
        console.print(each)
        console.print()
