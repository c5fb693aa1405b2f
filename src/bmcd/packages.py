"""Optional packages: imported when they are needed, or an error that says how to install them."""

from __future__ import annotations

import importlib
from typing import Any

from bmcd.errors import MissingPackageError


def import_optional(module: str, *, needed_by: str, extra: str | None = None) -> Any:
    """Import a module that the core does without, or raise `MissingPackageError` with the command that installs it.

    >>> import_optional("no_such_package.part", needed_by="ALS", extra="baselines")
    Traceback (most recent call last):
    bmcd.errors.MissingPackageError: ALS needs the package no-such-package: pip install "bmcd[baselines]"
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = module.partition(".")[0].replace("_", "-")
        install = f'"bmcd[{extra}]"' if extra else package  # double quotes: every shell takes them
        raise MissingPackageError(f"{needed_by} needs the package {package}: pip install {install}") from error
