"""Errors and signals: one line for bad data, a traceback for a bug, exit codes, signals that have to wait."""

from __future__ import annotations

import os
import re
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import typer
from typer.core import TyperGroup

from bmcd.cli.output import complain
from bmcd.errors import BmcdError, Message, Option

BAD_DATA, NOT_CONVERGED = 1, 3  # 2 is bad usage, which click reports
STOPPED, PIPE_CLOSED = 130, 141  # 128 + the number of the signal, as in shells
# Arguments of Python whose option here has another name; the others have dashes for underscores.
NAMES = {
    "user": "--user-column",
    "item": "--item-column",
    "title": "--title-column",
    "title_item": "--title-item-column",
    "n_threads": "--threads",
    "n_clusters": "--clusters",
    "n_tastes": "--tastes",
    "unknown": "--ignore-unknown",
}
FLAGS = ("--ignore-unknown",)
# The options of the command that runs and, if it takes a model, those of `bmcd fit`, which made it.
known: ContextVar[tuple[frozenset[str], frozenset[str]]] = ContextVar("known", default=(frozenset(), frozenset()))


class Commands(TyperGroup):
    """All commands of `bmcd`; errors are reported in one way, in terms of the options of the command."""

    def invoke(self, ctx: Any) -> Any:
        """Run a command."""
        before = known.set((frozenset(), frozenset()))
        try:
            with _reported():
                return super().invoke(ctx)
        finally:
            known.reset(before)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the command by its name."""
        found: Any = super().resolve_command(ctx, args)
        takes_model = any(param.name == "model" for param in found[1].params)
        known.set((_options(found[1]), _options(self.commands["fit"]) if takes_model else frozenset()))
        return found


def _options(command: Any) -> frozenset[str]:
    return frozenset(name for param in command.params for name in param.opts)


@contextmanager
def _reported() -> Iterator[None]:
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # characters that the terminal's encoding lacks are escaped
            stream.reconfigure(errors="backslashreplace")
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _show_warning
            yield
            sys.stdout.flush()
    except BrokenPipeError:  # `bmcd recommend ... | head`: the reader has closed the pipe
        _forget_output()
        raise typer.Exit(PIPE_CLOSED) from None
    except KeyboardInterrupt as stop:
        complain(str(stop) or "stopped by Ctrl-C.", "")
        raise typer.Exit(STOPPED) from None
    except Exception as error:
        if not is_expected(error):
            raise
        complain(_reason(error))
        raise typer.Exit(BAD_DATA) from None


def is_expected(error: Exception) -> bool:
    """Return whether an error is about data, files or options; any other is a bug, and its traceback is shown."""
    if isinstance(error, OSError) and not isinstance(error, BmcdError):
        return error.filename is not None
    return isinstance(error, BmcdError | MemoryError)


def as_options(text: str) -> str:
    """Return a message in terms of options: of the command that runs, or of the fit of its model.

    >>> _ = known.set((frozenset(["--draws"]), frozenset()))
    >>> as_options(Message("Ask for more draws, such as ", Option("draws", 200), "."))
    'Ask for more draws, such as --draws 200.'
    """
    parts = text.parts if isinstance(text, Message) else (text,)
    return "".join(_as_option(part) if isinstance(part, Option) else part for part in parts)


def _as_option(option: Option) -> str:
    name = NAMES.get(option.name, "--" + option.name.replace("_", "-"))
    value = ",".join(map(str, option.value)) if isinstance(option.value, list) else option.value
    words = name if value is None or name in FLAGS else f"{name} {_typed(str(value))}"
    own, of_fit = known.get()
    if name in own:
        return words
    # Advice about a fit may appear when its model is used. Else Python's words, which are those of config files.
    return f"bmcd fit {words}" if name in of_fit else str(option)


def _typed(value: str) -> str:
    """Return the value as every shell accepts it."""
    if value == "\t":
        return "tab"
    return value if re.fullmatch(r"[\w./:,-]+", value) else f'"{value}"'


def _reason(error: Exception) -> str:
    if isinstance(error, OSError):
        return f"{os.fsdecode(error.filename)}: {error.strerror or error}."
    if isinstance(error, MemoryError):
        return "there is not enough memory. Use fewer users, items or draws."
    return as_options(error.args[0]) if error.args and isinstance(error.args[0], Message) else str(error)


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    text = message.args[0] if isinstance(message, Warning) and message.args else message
    complain(as_options(text) if isinstance(text, Message) else str(message), "warning: ")


def _forget_output() -> None:
    """Discard what is still to be flushed."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError:  # standard output is not a file, as in tests
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115 (lasts as long as the process)


@contextmanager
def held_back(number: int = signal.SIGINT) -> Iterator[Callable[[], bool]]:
    """Delay Ctrl-C or another signal until the block is done; the yielded function returns whether it came."""
    came = threading.Event()
    if threading.current_thread() is not threading.main_thread():  # which alone receives signals
        yield came.is_set
        return
    before = signal.signal(number, lambda *_: came.set())
    try:
        yield came.is_set
    finally:
        signal.signal(number, before)
