"""Progress on standard error, at a terminal or if asked for: bars for work that is counted, and single lines."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress, ProgressColumn


def is_wanted(progress: bool | None) -> bool:
    """Whether to show progress: as asked for, or, if that is None, if standard error is a terminal."""
    return sys.stderr.isatty() if progress is None else progress


def open_bar(progress: bool | None, *columns: ProgressColumn, refresh: bool, transient: bool = False) -> Progress:
    """Return a bar of rich's on standard error; without ``refresh`` it is drawn only when it is told to."""
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True, force_terminal=progress or None)
    return Progress(*columns, console=console, auto_refresh=refresh, transient=transient)


@contextmanager
def counting(progress: bool | None, what: str, total: int) -> Iterator[Callable[[int], None]]:
    """Show a bar over ``total`` pieces of work; call what is given with how many are done."""
    if not is_wanted(progress):
        yield lambda n_done: None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn

    columns = (TextColumn(what), BarColumn(bar_width=24), MofNCompleteColumn(), TimeRemainingColumn())
    with open_bar(progress, *columns, refresh=True, transient=True) as bar:
        task = bar.add_task(what, total=total)
        yield lambda n_done: bar.update(task, completed=n_done)


def tell(progress: bool | None, text: str) -> None:
    """Print a line to standard error, where a bar would be shown."""
    if is_wanted(progress):
        print(text, file=sys.stderr, flush=True)


def clock(seconds: float) -> str:
    """Return a duration as hours, minutes and seconds.

    >>> clock(3725.2)
    '1:02:05'
    """
    total = int(seconds)
    return f"{total // 3600}:{total // 60 % 60:02}:{total % 60:02}"
