"""`--quiet`, which every command has, and where the log of a command goes: to standard error."""

from __future__ import annotations

import functools
import inspect
import logging
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer

from bmcd.progress import LOG, QUIET

Quiet = Annotated[bool, typer.Option("--quiet", help="No progress and no notes; warnings and errors stay.")]


def with_quiet(command: Callable[..., None]) -> Callable[..., None]:
    """Return the command with the option --quiet, and with its log on standard error."""

    @functools.wraps(command)
    def run(*, quiet: bool, **options: Any) -> None:
        with _quiet(quiet), _logged():
            command(**options)

    own = inspect.signature(command, eval_str=True)
    option = inspect.Parameter("quiet", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=Quiet)
    parameters = [*own.parameters.values(), option]
    run.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


@contextmanager
def _quiet(wanted: bool) -> Iterator[None]:
    before = os.environ.get(QUIET)
    if wanted:
        os.environ[QUIET] = "1"
    try:
        yield
    finally:
        if wanted:
            del os.environ[QUIET]
            os.environ |= {} if before is None else {QUIET: before}


@contextmanager
def _logged() -> Iterator[None]:
    handler, level = logging.StreamHandler(sys.stderr), LOG.level
    handler.setFormatter(logging.Formatter("bmcd: %(message)s"))
    LOG.addHandler(handler)
    LOG.setLevel(logging.INFO)
    try:
        yield
    finally:
        LOG.removeHandler(handler)
        LOG.setLevel(level)
