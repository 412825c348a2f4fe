"""One progress bar for everything slow: on a terminal it moves, elsewhere it stays silent, and it never prints to stdout."""

import contextlib
import sys
from collections.abc import Callable, Iterator


@contextlib.contextmanager
def progress(title: str, *, total: float, unit: str, shown: bool | None = None) -> Iterator[Callable[[float], None]]:
    """A bar on stderr; the block gets a function that advances it.

    Args:
        title: what is being done.
        total: how many units there are in all.
        unit: what is counted; the bar shows units per second.
        shown: True or False to decide; None shows the bar on a terminal only.

    Examples:
        >>> with progress("counting", total=3, unit="tokens", shown=False) as advance:
        ...     advance(3)
    """
    if shown is None:
        shown = sys.stderr.isatty()
    if not shown:
        yield lambda _amount: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn, TimeRemainingColumn
    from rich.text import Text

    class Rate(ProgressColumn):
        def render(self, task: Task) -> Text:
            speed = task.finished_speed or task.speed
            return Text(f"{speed:,.0f} {unit}/s" if speed else "", style="dim")

    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:>3.0f}%"), Rate(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(title, total=total)
        yield lambda amount: bar.update(task, advance=amount)
