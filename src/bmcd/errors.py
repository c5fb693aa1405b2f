"""Every exception and warning of bmcd, under one base class each. Knows nothing else of the package.

An error below `BmcdError` is about what was given: data, files, options, missing packages. Its message says what is
wrong, where, and what to do, and the command line shows it in one line. Any other exception that leaves the
package is a bug, and its traceback is wanted. A model that is asked before it was fitted raises scikit-learn's own
`NotFittedError`, as every estimator does.

>>> issubclass(ClicksError, BmcdError), issubclass(ClicksError, ValueError)
(True, True)
"""

from __future__ import annotations

from typing import Any

__all__ = [
    "BlendError",
    "BmcdError",
    "BmcdWarning",
    "ClicksError",
    "ConfigError",
    "ContractError",
    "EstimateWarning",
    "ExposureError",
    "FitWarning",
    "InputError",
    "InputTypeError",
    "Interrupted",
    "JavaError",
    "MissingPackageError",
    "OutputError",
    "StoreError",
    "StoreWarning",
    "TimeBudgetError",
    "UnknownIdError",
]


class BmcdError(Exception):
    """Base of all errors about what was given to bmcd. What is not below it is a bug."""


class InputError(BmcdError, ValueError):
    """An argument or option has a value that cannot be used."""


class InputTypeError(InputError, TypeError):
    """An argument is a thing of the wrong kind, such as one id where a list of ids is wanted."""


class ClicksError(InputError):
    """Clicks, titles or recommendations that cannot be used, with the place and what to do about it.

    `file` is the path as given. `line` and `column` count from 1 in text files; in frames and matrices
    `row` counts from 0 and `column` is the column's name or number. What does not apply is None.
    """

    def __init__(
        self,
        reason: str,
        *,
        file: str | None = None,
        line: int | None = None,
        row: int | None = None,
        column: int | str | None = None,
        name: str | None = None,
    ) -> None:
        self.reason, self.file, self.line, self.row, self.column = reason, file, line, row, column
        place = [] if file is None else [file]
        places = (("line", line), ("row", row), ("column", column))
        place += [f"{word} {number}" for word, number in places if number is not None]
        where = ", ".join(place) + (f" ({name[:40]})" if name is not None else "")
        super().__init__(f"{where}: {reason}" if where else reason)


class UnknownIdError(InputError, KeyError):
    """A user or an item that is not known."""

    def __str__(self) -> str:  # a plain KeyError would show its message in quotes
        return str(self.args[0])


class BlendError(InputError):
    """A model of a blend failed; the message says which, in which fold, and why."""


class ConfigError(InputError):
    """A config file that cannot be run; the message says what to change."""


class ExposureError(InputError):
    """Limits that cannot be kept: `items` has the ids of those to blame, `shortfall` the number that is lacking."""

    def __init__(self, message: str, items: list[Any], shortfall: int) -> None:
        super().__init__(message)
        self.items, self.shortfall = items, shortfall


class StoreError(BmcdError):
    """A model or checkpoint file cannot be read or written; the message names it and says what to do."""


class OutputError(BmcdError):
    """A file cannot be written; the message names it."""


class TimeBudgetError(BmcdError, RuntimeError):
    """The time budget was used up before there was a draw of every chain."""


class MissingPackageError(BmcdError, ImportError):
    """An optional package is not installed; the message says how to install it."""


class JavaError(BmcdError, RuntimeError):
    """There is no Java that Spark can use; the message says what to install."""


class ContractError(BmcdError, AssertionError):
    """A recommender breaks the contract of `bmcd.testing`; the message says how."""


class Interrupted(KeyboardInterrupt):
    """Ctrl-C came before there was anything to return: `what` happened, and how to `resume`, if possible."""

    def __init__(self, what: str, resume: str = "") -> None:
        super().__init__(f"{what} {resume}".strip())
        self.what, self.resume = what, resume


class BmcdWarning(UserWarning):
    """Base of all warnings of bmcd."""


class FitWarning(BmcdWarning):
    """A fit ended before its time; what was drawn is kept."""


class StoreWarning(BmcdWarning):
    """Something is wrong with a file, and there was a way round."""


class EstimateWarning(BmcdWarning):
    """The value returned is an estimate by importance sampling, and its standard error was not asked for."""
