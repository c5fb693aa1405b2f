"""Progress of long work: a bar at a terminal, a line in a notebook, otherwise a line of the log every 30 seconds.

A notebook needs no further package. The log is that of the logger "bmcd", at level INFO; the command line sends it
to standard error. The environment variable BMCD_QUIET (`--quiet`) turns off progress that is not asked for.
"""

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Literal

from bmcd.markup import tag

QUIET = "BMCD_QUIET"
LOG = logging.getLogger("bmcd")
# Seconds between two lines of the log; shorter work than the second number shows nothing in a notebook.
LOG_SECONDS, NOTEBOOK_SECONDS = 30.0, 0.5
# Seconds between two updates of a bar.
BAR_SECONDS = 0.1

Surface = Literal["bar", "notebook", "log", "none"]


class Display:
    """Where progress is shown: here, nowhere."""

    def show(self, what: str, n_done: float, total: float, text: str) -> None:
        """Show that ``n_done`` of ``total`` is done, with the name of the work and a text."""


def surface(progress: bool | None) -> Surface:
    """Return where progress is shown: nowhere if it is False; None chooses by the environment."""
    if progress is False or (progress is None and os.environ.get(QUIET)):
        return "none"
    if in_notebook():
        return "notebook"
    return "bar" if progress or sys.stderr.isatty() else "log"


def in_notebook() -> bool:
    """Return whether this code runs in a notebook, whose shell has a kernel."""
    ipython = sys.modules.get("IPython")
    return ipython is not None and hasattr(ipython.get_ipython(), "kernel")


@contextmanager
def open_display(progress: bool | None, *, transient: bool = False) -> Iterator[Display]:
    """Open a display of progress; a ``transient`` one is removed when the work is done."""
    where = surface(progress)
    if where == "bar":
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn

        columns = (TextColumn("{task.description}"), BarColumn(bar_width=8), TextColumn("{task.fields[text]}"))
        console = Console(stderr=True, force_terminal=progress or None)
        # Refreshed by hand: another thread would take time from the chains.
        with Progress(*columns, console=console, auto_refresh=False, transient=transient) as bar:
            yield _Bar(bar)
    elif where == "notebook":
        line = _NotebookLine()
        yield line
        if transient:
            line.clear()
    else:
        yield _LogLine() if where == "log" else Display()


@contextmanager
def counting(progress: bool | None, what: str, total: int) -> Iterator[Callable[[int], None]]:
    """Show the number of ``total`` pieces of work that are done: call the yielded function with it."""
    began, last_shown = time.monotonic(), -BAR_SECONDS
    with open_display(progress, transient=True) as display:

        def show(n_done: int) -> None:
            nonlocal last_shown
            now = time.monotonic()
            if now - last_shown >= BAR_SECONDS or n_done == total:
                last_shown = now
                left = f" · {clock((now - began) / n_done * (total - n_done))} left" if n_done else ""
                display.show(what, n_done, total, f"{n_done:,}/{total:,}{left}")

        show(0)
        yield show


def tell(progress: bool | None, text: str) -> None:
    """Print a text where progress is shown."""
    where = surface(progress)
    if where == "bar":
        print(text, file=sys.stderr, flush=True)
    elif where == "notebook":
        print(text, flush=True)
    elif where == "log":
        LOG.info(text)


def clock(seconds: float) -> str:
    """Return a duration as hours, minutes and seconds.

    >>> clock(3725.2)
    '1:02:05'
    """
    total = int(seconds)
    return f"{total // 3600}:{total // 60 % 60:02}:{total % 60:02}"


class _Bar(Display):
    def __init__(self, bar: Any) -> None:
        self.bar, self.task = bar, bar.add_task("starting", total=None, text="")

    def show(self, what: str, n_done: float, total: float, text: str) -> None:
        self.bar.update(self.task, completed=n_done, total=total, description=what, text=text)
        self.bar.refresh()


class _NotebookLine(Display):
    """One line of output that changes. It is HTML, and plain text where that cannot be shown."""

    def __init__(self) -> None:
        self.began, self.html, self.text = time.monotonic(), "", ""
        self.handle: Any = None

    def show(self, what: str, n_done: float, total: float, text: str) -> None:
        self.text = f"{what}: {text}"
        self.html = tag("div", what, " ", tag("progress", value=f"{n_done:g}", max=f"{total:g}"), " ", text)
        if self.handle is not None:
            self.handle.update(self)
        elif time.monotonic() - self.began >= NOTEBOOK_SECONDS:
            from IPython.display import display

            self.handle = display(self, display_id=True)

    def clear(self) -> None:
        self.html = self.text = ""
        if self.handle is not None:
            self.handle.update(self)

    def __repr__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        return self.html


class _LogLine(Display):
    def __init__(self) -> None:
        self.last_shown = time.monotonic()

    def show(self, what: str, n_done: float, total: float, text: str) -> None:
        if time.monotonic() - self.last_shown >= LOG_SECONDS:
            self.last_shown = time.monotonic()
            LOG.info("%s: %s", what, text)
