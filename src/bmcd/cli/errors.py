"""What happens when something goes wrong: one line for bad data, a traceback for a bug, and never half a file."""

from __future__ import annotations

import os
import re
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TextIO

import typer
from typer.core import TyperGroup

from bmcd.cli.output import complain
from bmcd.errors import BmcdError

BAD_DATA, NOT_CONVERGED = 1, 3  # 2 is bad usage, which click says
STOPPED, PIPE_CLOSED = 130, 141  # 128 + the number of the signal, as shells have it
# Arguments of Python that messages advise, and that are options here.
OPTIONS = re.compile(r"\b(draws|warmup|chains|sampler|delimiter)=")


class Commands(TyperGroup):
    """All commands of `bmcd`, whose errors are reported in the same way."""

    def invoke(self, ctx: Any) -> Any:
        """Run a command."""
        with _reported():
            return super().invoke(ctx)


@contextmanager
def _reported() -> Iterator[None]:
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # a title that the terminal's encoding lacks must not stop anything
            stream.reconfigure(errors="backslashreplace")
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _show_warning
            yield
            sys.stdout.flush()
    except BrokenPipeError:  # `bmcd recommend ... | head`: the reader has seen enough
        _forget_output()
        raise typer.Exit(PIPE_CLOSED) from None
    except KeyboardInterrupt as stop:
        complain(as_options(str(stop)) or "stopped by Ctrl-C.", "")
        raise typer.Exit(STOPPED) from None
    except Exception as error:
        if not is_expected(error):
            raise
        complain(as_options(_reason(error)))
        raise typer.Exit(BAD_DATA) from None


def is_expected(error: Exception) -> bool:
    """Whether an error is about data, files or options. If not, it is a bug, and its traceback is wanted."""
    if isinstance(error, OSError) and not isinstance(error, BmcdError):
        return error.filename is not None
    return isinstance(error, BmcdError | MemoryError)


def as_options(text: str) -> str:
    """Say it in options of the command line.

    >>> as_options("Ask for more draws, such as draws=200.")
    'Ask for more draws, such as --draws 200.'
    """
    return OPTIONS.sub(r"--\1 ", text)


def _reason(error: Exception) -> str:
    if isinstance(error, OSError):
        return f"{os.fsdecode(error.filename)}: {error.strerror or error}."
    if isinstance(error, MemoryError):
        return "there is not enough memory. Take fewer users, items or draws."
    return str(error)


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    complain(as_options(str(message)), "warning: ")


def _forget_output() -> None:
    """Let what is still to be flushed at the end go nowhere."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError:  # standard output is no file, as in tests
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115 (lasts as long as the process)
