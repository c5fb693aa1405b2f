"""Every exception and warning of bmcd, under one base class each. Knows nothing else of the package.

An error below `BmcdError` is about what was given: data, files, options, missing packages. Its message says what is
wrong, where, and what to do, and the command line shows it in one line. Any other exception that leaves the
package is a bug, and its traceback is wanted.

A message that advises an argument is a `Message` with an `Option` in it. It reads as Python would write the
argument; the command line, which may have another name for it, finds it there as data.

>>> issubclass(ClicksError, BmcdError), issubclass(ClicksError, ValueError)
(True, True)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = [
    "BlendError",
    "BmcdError",
    "BmcdWarning",
    "ClicksError",
    "ConfigError",
    "ContractError",
    "ConvergenceWarning",
    "EstimateWarning",
    "ExposureError",
    "FitWarning",
    "InputError",
    "InputTypeError",
    "Interrupted",
    "JavaError",
    "Message",
    "MissingPackageError",
    "NotFittedError",
    "Option",
    "OutputError",
    "ShortListWarning",
    "StoreError",
    "StoreWarning",
    "TimeBudgetError",
    "UnknownIdError",
]


@dataclass(frozen=True)
class Option:
    """An argument that a message advises: its name, the value to give it, and whether it is a method to call.

    >>> print(Option("unknown", "ignore"), Option("at_least", 6, call=True), Option("max_time"))
    unknown='ignore' at_least(6) max_time
    """

    name: str
    value: Any = None
    call: bool = False

    def __str__(self) -> str:
        if self.call:
            return f"{self.name}({self.value!r})"
        return self.name if self.value is None else f"{self.name}={self.value!r}"


class Message(str):
    """Text put together from `parts`, some of which are options; a message may be a part of another.

    >>> inner = Message("say ", Option("unknown", "ignore"))
    >>> Message("Leave them out, or ", inner, ".")
    "Leave them out, or say unknown='ignore'."
    >>> Message("Leave them out, or ", inner, ".").parts[2]
    Option(name='unknown', value='ignore', call=False)
    """

    parts: tuple[str | Option, ...]

    def __new__(cls, *parts: str | Option) -> Message:
        """Join the parts."""
        flat = tuple(one for part in parts for one in (part.parts if isinstance(part, Message) else (part,)))
        message = super().__new__(cls, "".join(map(str, flat)))
        message.parts = flat
        return message

    def __reduce__(self) -> tuple[type[Message], tuple[str | Option, ...]]:
        return Message, self.parts


class BmcdError(Exception):
    """Base of all errors about what was given to bmcd. What is not below it is a bug.

    >>> import bmcd
    >>> try:
    ...     bmcd.load_dataset("nonsense")
    ... except BmcdError as error:
    ...     print(error)
    there is no data set 'nonsense'; there are 'eshop', 'msweb', 'msweb-all'.
    """


class InputError(BmcdError, ValueError):
    """An argument or option has a value that cannot be used.

    >>> import bmcd
    >>> bmcd.simulate(n_users=0)
    Traceback (most recent call last):
    bmcd.errors.InputError: there must be at least one user and one item, not 0 and 50.
    """


class InputTypeError(InputError, TypeError):
    """An argument is a thing of the wrong kind, such as one id where a list of ids is wanted.

    >>> import bmcd
    >>> bmcd.load_dataset("eshop").rows_of(15)
    Traceback (most recent call last):
    bmcd.errors.InputTypeError: users must be a list of ids, such as [15], not 15.
    """


class ClicksError(InputError):
    """Clicks, titles or recommendations that cannot be used, with the place and what to do about it.

    `file` is the path as given. `line` and `column` count from 1 in text files; in frames and matrices
    `row` counts from 0 and `column` is the column's name or number. What does not apply is None.

    >>> import bmcd
    >>> import pandas as pd
    >>> try:
    ...     bmcd.Clicks.from_frame(pd.DataFrame({"user": ["ann", None], "item": ["tea", "milk"]}))
    ... except ClicksError as error:
    ...     print(error.row, error.column)
    1 user
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
        super().__init__(Message(f"{where}: ", reason) if where else reason)


class UnknownIdError(InputError, KeyError):
    """A user or an item that is not known.

    >>> import bmcd
    >>> try:
    ...     bmcd.load_dataset("eshop").columns_of(["Z99"])
    ... except UnknownIdError as error:
    ...     print(str(error).strip())
    the item is not known: 'Z99'. The item ids look like 'A13', 'A16', 'B4'.
    """

    def __str__(self) -> str:  # a plain KeyError would show its message in quotes
        return str(self.args[0])


class BlendError(InputError):
    """A model of a blend failed; the message says which, in which fold, and why.

    >>> issubclass(BlendError, InputError)
    True
    """


class ConfigError(InputError):
    """A config file that cannot be run; the message says what to change.

    >>> from pathlib import Path
    >>> from bmcd.cli.compare import read_config
    >>> _ = Path("study.toml").write_text("k = 10")
    >>> read_config("study.toml")
    Traceback (most recent call last):
    bmcd.errors.ConfigError: ...
    """


class ExposureError(InputError):
    """Limits that cannot be kept: `items` has the ids of those to blame, `shortfall` the number that is lacking.

    >>> error = ExposureError("item 'a' should be shown to 2 users, but only 1 has not clicked it", ["a"], 1)
    >>> error.items, error.shortfall
    (['a'], 1)
    """

    def __init__(self, message: str, items: list[Any], shortfall: int) -> None:
        super().__init__(message)
        self.items, self.shortfall = items, shortfall


class StoreError(BmcdError):
    """A model or checkpoint file cannot be read or written; the message names it and says what to do.

    >>> import bmcd
    >>> from pathlib import Path
    >>> _ = Path("model.bmcd").write_text("not a model")
    >>> bmcd.load("model.bmcd")
    Traceback (most recent call last):
    bmcd.errors.StoreError: ...
    """


class OutputError(BmcdError):
    """A file cannot be written; the message names it.

    >>> issubclass(OutputError, BmcdError), issubclass(OutputError, InputError)
    (True, False)
    """


class TimeBudgetError(BmcdError, RuntimeError):
    """The time budget was used up before there was a draw of every chain.

    >>> issubclass(TimeBudgetError, RuntimeError)
    True
    """


class MissingPackageError(BmcdError, ImportError):
    """An optional package is not installed; the message says how to install it.

    >>> issubclass(MissingPackageError, ImportError)
    True
    """


class NotFittedError(BmcdError, ValueError, AttributeError):
    """A model is used before its fit. Where scikit-learn is in use, it is scikit-learn's `NotFittedError` too.

    >>> import bmcd
    >>> bmcd.Blend().recommend(k=3)
    Traceback (most recent call last):
    bmcd.errors.NotFittedError: this Blend is not fitted yet: call fit(clicks) first.
    """


class JavaError(BmcdError, RuntimeError):
    """There is no Java that Spark can use; the message says what to install.

    >>> issubclass(JavaError, RuntimeError)
    True
    """


class ContractError(BmcdError, AssertionError):
    """A recommender breaks the contract of `bmcd.testing`; the message says how.

    >>> from types import SimpleNamespace
    >>> from bmcd.testing import check_recommender
    >>> check_recommender(lambda: SimpleNamespace(fit=lambda clicks: None))
    Traceback (most recent call last):
    bmcd.errors.ContractError: fit must return the model itself
    """


class Interrupted(KeyboardInterrupt):
    """Ctrl-C came before there was anything to return: `what` happened, and how to `resume`, if possible.

    >>> print(Interrupted("stopped before the first draw.", "The same call goes on."))
    stopped before the first draw. The same call goes on.
    """

    def __init__(self, what: str, resume: str = "") -> None:
        super().__init__(f"{what} {resume}".strip())
        self.what, self.resume = what, resume


class BmcdWarning(UserWarning):
    """Base of all warnings of bmcd.

    >>> import warnings
    >>> warnings.simplefilter("ignore", BmcdWarning)  # for none of them
    """


class FitWarning(BmcdWarning):
    """A fit ended before its time, or at the edge of what it tried; what was drawn is kept.

    >>> issubclass(ConvergenceWarning, FitWarning), issubclass(FitWarning, BmcdWarning)
    (True, True)
    """


class ConvergenceWarning(FitWarning):
    """The chains of a fit have not converged; the message says by how much, and what to do.

    >>> import warnings
    >>> warnings.simplefilter("error", ConvergenceWarning)  # a fit that has not converged is then an error
    """


class ShortListWarning(BmcdWarning):
    """More recommendations were asked for than there are items left for some users.

    >>> import warnings
    >>> warnings.simplefilter("ignore", ShortListWarning)  # for those who know
    """


class StoreWarning(BmcdWarning):
    """Something is wrong with a file, and there was a way round.

    >>> issubclass(StoreWarning, BmcdWarning)
    True
    """


class EstimateWarning(BmcdWarning):
    """The value returned is an estimate by importance sampling, and its standard error was not asked for.

    >>> import warnings
    >>> from bmcd import mallows
    >>> with warnings.catch_warnings(record=True) as seen:
    ...     warnings.simplefilter("always")
    ...     value = mallows.log_partition(25, 2.0, "spearman")
    >>> [warning.category.__name__ for warning in seen]
    ['EstimateWarning']
    """
