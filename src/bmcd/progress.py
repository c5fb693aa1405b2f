"""How far the work is: a bar at a terminal, a line in a notebook, elsewhere a line of the log now and then.

A notebook needs nothing but itself for it. The log is that of the logger "bmcd", at level INFO; the command line
sends it to standard error. The environment variable BMCD_QUIET (`--quiet`) silences all that was not asked for.
"""

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Literal, Protocol

from bmcd.markup import tag

QUIET = "BMCD_QUIET"
LOG = logging.getLogger("bmcd")
# Between two lines of the log; and work that takes less than this shows nothing in a notebook.
LOG_SECONDS, NOTEBOOK_SECONDS = 30.0, 0.5
# Between two looks of a bar over work that is counted.
BAR_SECONDS = 0.1

Surface = Literal["bar", "notebook", "log", "none"]


class Display(Protocol):
    """What shows how far the work is."""

    def show(self, what: str, n_done: float, total: float, text: str) -> None:
        """Show that ``n_done`` of ``total`` is done, with what is being done and a text about it."""


def surface(progress: bool | None) -> Surface:
    """Return where progress is shown: nowhere if it is False, and what suits the place if it is None."""
    if progress is False or (progress is None and os.environ.get(QUIET)):
        return "none"
    if in_notebook():
        return "notebook"
    return "bar" if progress or sys.stderr.isatty() else "log"


def in_notebook() -> bool:
    """Whether this code runs in a notebook, whose shell has a kernel."""
    ipython = sys.modules.get("IPython")
    return ipython is not None and hasattr(ipython.get_ipython(), "kernel")


@contextmanager
def open_display(progress: bool | None, *, transient: bool = False) -> Iterator[Display]:
    """Open what shows progress; what is ``transient`` is gone when the work is done."""
    where = surface(progress)
    if where == "bar":
        with _open_bar(progress, transient) as bar:
            yield bar
    elif where == "notebook":
        line = _NotebookLine()
        yield line
        if transient:
            line.clear()
    else:
        yield _LogLine() if where == "log" else _Silence()


@contextmanager
def counting(progress: bool | None, what: str, total: int) -> Iterator[Callable[[int], None]]:
    """Show how many of ``total`` pieces of work are done; call what is given with how many."""
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
    """Say something where progress is shown."""
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


@contextmanager
def _open_bar(progress: bool | None, transient: bool) -> Iterator[Display]:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    columns = (TextColumn("{task.description}"), BarColumn(bar_width=8), TextColumn("{task.fields[text]}"))
    console = Console(stderr=True, force_terminal=progress or None)
    # Refreshed by hand: a thread of its own would take time from the chains.
    with Progress(*columns, console=console, auto_refresh=False, transient=transient) as bar:
        yield _Bar(bar)


class _Bar:
    def __init__(self, bar: Any) -> None:
        self.bar, self.task = bar, bar.add_task("starting", total=None, text="")

    def show(self, what: str, n_done: float, total: float, text: str) -> None:
        self.bar.update(self.task, completed=n_done, total=total, description=what, text=text)
        self.bar.refresh()


class _NotebookLine:
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


class _LogLine:
    def __init__(self) -> None:
        self.last_shown = time.monotonic()

    def show(self, what: str, n_done: float, total: float, text: str) -> None:
        if time.monotonic() - self.last_shown >= LOG_SECONDS:
            self.last_shown = time.monotonic()
            LOG.info("%s: %s", what, text)


class _Silence:
    def show(self, what: str, n_done: float, total: float, text: str) -> None:
        pass
