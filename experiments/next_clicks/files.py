"""Session files: lists of item numbers, as plain text or as pickled lists."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np

from bmcd import Clicks
from experiments.tasks import StudyError

Sessions = list[list[int]]


class PlainUnpickler(pickle.Unpickler):
    """Reads lists, tuples and numbers; a pickle that names any class or function is refused."""

    def find_class(self, module: str, name: str) -> Any:
        """Refuse every class and function."""
        raise StudyError(f"the pickle asks for {module}.{name}: only lists of numbers are read from pickles.")


def read_sessions(path: Path) -> Sessions:
    """Return the sessions of a file, as lists of item numbers in the order of the clicks.

    Plain text has one session per line, with numbers separated by blanks or commas. A pickle has a list of
    sessions, or the pair (lists of earlier clicks, the click that followed each), which is read as whole sessions.

    >>> path = Path("sessions.txt")
    >>> _ = path.write_text("3 1 2\\n1,3\\n")
    >>> read_sessions(path)
    [[3, 1, 2], [1, 3]]
    """
    content = path.read_bytes()
    found = _unpickled(path) if content[:1] in (b"\x80", b"(", b"]") else _text(path, content)
    if isinstance(found, tuple) and len(found) == 2 and len(found[0]) == len(found[1]):
        found = [[*earlier, following] for earlier, following in zip(*found, strict=True)]
    if not isinstance(found, list) or not found:
        raise StudyError(f"{path}: there are no sessions in it; expected a list of lists of item numbers.")
    for number, session in enumerate(found):
        if not isinstance(session, list | tuple) or not all(
            type(item) is int and 0 <= item < 2**31 for item in session
        ):
            raise StudyError(f"{path}: session {number + 1} is not a list of item numbers: {repr(session)[:60]}.")
    return [list(session) for session in found]


def _unpickled(path: Path) -> Any:
    with path.open("rb") as file:
        try:
            return PlainUnpickler(file).load()
        except (
            pickle.UnpicklingError,
            EOFError,
            ValueError,
            IndexError,
            KeyError,
            TypeError,
            AttributeError,
        ) as error:
            raise StudyError(f"{path}: not a pickle of lists of numbers ({error}).") from None


def _text(path: Path, content: bytes) -> Sessions:
    sessions = []
    for number, line in enumerate(content.decode("utf-8", "replace").splitlines(), 1):
        try:
            sessions.append([int(item) for item in line.replace(",", " ").split()])
        except ValueError:
            raise StudyError(f"{path}, line {number}: not a list of item numbers: {line[:60]!r}.") from None
    return [session for session in sessions if session]


def clicks_of(sessions: Sessions) -> Clicks:
    """Return sessions as an ordered log, one user per session.

    >>> clicks_of([[3, 1, 2], [1, 3, 1]]).sequence.tolist()
    [2, 0, 1, 0, 2, 0]
    """
    items, codes = np.unique(
        np.concatenate([np.array(session, np.int64) for session in sessions]), return_inverse=True
    )
    users = np.repeat(np.arange(len(sessions)), [len(session) for session in sessions])
    return Clicks.from_codes(users, codes, np.arange(len(sessions)), items, order="rows")
