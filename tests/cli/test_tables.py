"""Tables on terminals, narrow and wide, and in files."""

import io

import pytest
from rich.console import Console

from transect.cli.tables import print_table

NAMES = ["layer", *(f"pairs {count} (beyond)" for count in range(8))]
ROWS = [["gla:conv_size=4", *["0.989"] * 8], ["chance", "", *["0.250"] * 7]]


@pytest.mark.parametrize(("width", "terminal", "lines"), [(80, False, 6), (200, True, 6), (80, True, 9 + 8 + 2)])
def test_no_cell_is_cut_or_broken(width, terminal, lines):
    out = io.StringIO()
    print_table(Console(file=out, width=width, force_terminal=terminal, color_system=None, highlight=False), NAMES, ROWS)
    shown = out.getvalue().splitlines()
    assert len(shown) == lines
    for cell in ("gla:conv_size=4", "pairs 7 (beyond)", "chance", "0.250"):
        assert any(cell in line for line in shown)
    if terminal:
        assert max(map(len, shown)) <= width
