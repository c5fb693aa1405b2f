"""Recorded clicks in a SQLite database: durable before they are acknowledged, never twice, deleted on request.

One thread writes. It commits the clicks that have arrived meanwhile as one group and only then acknowledges them,
so a click costs a part of a disk flush. A process that is killed leaves exactly what was committed.
"""

from __future__ import annotations

import contextlib
import hmac
import logging
import os
import secrets
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import IO, Any, NamedTuple

from bmcd.errors import InputError, StoreError

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

log = logging.getLogger("bmcd.serve")

DATABASE, LOCK = "clicks.sqlite", "lock"
# "bmcd" as a number, and the version of the tables.
APPLICATION_ID, VERSION = 0x626D6364, 1
# Clicks per commit, and rows that are removed at a time when they leave the window.
GROUP, SWEEP = 5_000, 5_000
# Time to wait for readers when the write-ahead log is emptied.
BUSY_SECONDS = 10.0
DIGEST_BYTES = 16
TABLES = """
CREATE TABLE clicks (n INTEGER PRIMARY KEY AUTOINCREMENT, user TEXT NOT NULL, item TEXT NOT NULL,
                     time INTEGER NOT NULL, event TEXT);
CREATE UNIQUE INDEX of_user ON clicks (user, item, time);
CREATE UNIQUE INDEX of_event ON clicks (event) WHERE event IS NOT NULL;
CREATE INDEX of_time ON clicks (time);
CREATE TABLE forgotten (id INTEGER PRIMARY KEY AUTOINCREMENT, digest BLOB NOT NULL);
CREATE TABLE about (name TEXT PRIMARY KEY, value);
"""


class Click(NamedTuple):
    """A click to record. Ids are text, times are microseconds since 1970."""

    user: str
    item: str
    time: int
    event: str | None = None
    answer: str | None = None
    """The id of the answer that showed the item, which is not recorded."""


class Recorded(NamedTuple):
    """A click that is recorded, and the number up to which the database holds everything of its group."""

    n: int
    click: Click


class Forgotten(NamedTuple):
    """A user who was forgotten: the number of clicks removed, and the number of the entry about it."""

    n: int
    id: int


class FullError(Exception):
    """Too many clicks wait to be written."""


class NotRecordedError(Exception):
    """The clicks could not be written; none was acknowledged."""


class _Work(NamedTuple):
    size: int
    clicks: Sequence[Click]
    other: Callable[[], Any] | None
    done: Future[Any]


class Store:
    """The database in a folder, for one process at a time."""

    def __init__(self, folder: Path, most_waiting: int, recorded: Callable[[list[Recorded]], None]) -> None:
        """Open it; `StoreError` or `InputError` if it cannot be used.

        ``recorded`` is called with the new clicks of each group, when they are durable and before they are
        acknowledged.
        """
        self.folder, self.path, self.most_waiting = folder, folder / DATABASE, most_waiting
        self._recorded = recorded
        self._lock = _locked(folder)
        try:
            self._connection = _opened(self.path)
            self._key = bytes.fromhex(str(_about(self._connection, "key")))
        except BaseException:
            self._lock.close()
            raise
        self._work: deque[_Work] = deque()
        self._changed = threading.Condition()
        self._waiting = self._n_failed = 0
        self._is_closing = False
        self._thread = threading.Thread(target=self._write, name="bmcd-recording", daemon=True)
        self._thread.start()

    # ---- for callers ----

    def record(self, clicks: Sequence[Click]) -> Future[int]:
        """Record clicks; the result is the number of new ones. `FullError` if too many wait."""
        return self._submit(len(clicks), clicks, None)

    def forget(self, user: str) -> Future[Forgotten]:
        """Remove the clicks of a user, also from the write-ahead log; the result is their number."""
        return self._submit(1, (), lambda: self._forget(user))

    def sweep(self, before: int) -> Future[int]:
        """Remove some of the clicks before this time; the result is their number."""
        return self._submit(0, (), lambda: self._sweep(before))

    def set_about(self, name: str, value: Any) -> Future[None]:
        """Store a value in the database."""
        return self._submit(0, (), lambda: self._set_about(name, value))

    @property
    def waiting(self) -> int:
        """The number of clicks that wait to be written."""
        return self._waiting

    @property
    def n_failed(self) -> int:
        """The number of groups that could not be written."""
        return self._n_failed

    def close(self) -> None:
        """Write the waiting clicks, and end."""
        with self._changed:
            self._is_closing = True
            self._changed.notify()
        self._thread.join()
        self._connection.close()
        self._lock.close()

    # ---- the thread that writes ----

    def _submit(self, size: int, clicks: Sequence[Click], other: Callable[[], Any] | None) -> Future[Any]:
        work = _Work(size, clicks, other, Future())
        with self._changed:
            if self._is_closing:
                raise NotRecordedError("The service is shutting down. Try again when it is back.")
            if size and self._waiting + size > self.most_waiting and self._waiting:
                raise FullError
            self._waiting += size
            self._work.append(work)
            self._changed.notify()
        return work.done

    def _write(self) -> None:
        while True:
            with self._changed:
                while not self._work and not self._is_closing:
                    self._changed.wait()
                if not self._work:
                    return
                group = [self._work.popleft()]
                size = group[0].size
                while group[0].other is None and self._work and self._work[0].other is None:
                    if size + self._work[0].size > GROUP:
                        break
                    group.append(self._work.popleft())
                    size += group[-1].size
            try:
                found = self._commit(group) if group[0].other is None else [group[0].other()]
            except sqlite3.Error as error:
                self._n_failed += 1
                log.error("clicks were not recorded: %s", error)
                self._settle(group, size, None, NotRecordedError(f"The clicks could not be written: {error}."))
            except BaseException as error:  # a bug: callers get the error, and the next group is tried
                log.exception("a bug while clicks were recorded")
                self._settle(group, size, None, error)
            else:
                self._settle(group, size, found, None)

    def _settle(self, group: list[_Work], size: int, found: list[Any] | None, error: BaseException | None) -> None:
        with self._changed:
            self._waiting -= size
        for number, work in enumerate(group):
            if found is None:
                work.done.set_exception(error)
            else:
                work.done.set_result(found[number])

    def _commit(self, group: list[_Work]) -> list[int]:
        """Write a group of clicks, and return the number of new ones of each work."""
        new: list[list[Click]] = []
        with _transaction(self._connection) as database:
            last = database.execute("SELECT seq FROM sqlite_sequence WHERE name = 'clicks'").fetchone()
            n = 0 if last is None else int(last[0])
            for work in group:
                new.append([])
                for click in work.clicks:
                    row = database.execute(
                        "INSERT OR IGNORE INTO clicks (user, item, time, event) VALUES (?, ?, ?, ?)", click[:4]
                    )
                    if row.rowcount == 1:
                        new[-1].append(click)
                        n = row.lastrowid or n
        self._recorded([Recorded(n, click) for own in new for click in own])
        return [len(own) for own in new]

    def _forget(self, user: str) -> Forgotten:
        with _transaction(self._connection) as database:
            removed = database.execute("DELETE FROM clicks WHERE user = ?", (user,)).rowcount
            note = database.execute("INSERT INTO forgotten (digest) VALUES (?)", (digest(self._key, user),))
        self._empty_log()
        return Forgotten(removed, note.lastrowid or 0)

    def _empty_log(self) -> None:
        """Write the write-ahead log into the database and truncate it, so that no old pages remain."""
        until = time.monotonic() + BUSY_SECONDS
        while self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]:
            if time.monotonic() > until:
                raise sqlite3.OperationalError("removed, but the write-ahead log is being read; ask again")
            time.sleep(0.01)

    def _sweep(self, before: int) -> int:
        with _transaction(self._connection) as database:
            old = "SELECT n FROM clicks WHERE time < ? LIMIT ?"
            return database.execute(f"DELETE FROM clicks WHERE n IN ({old})", (before, SWEEP)).rowcount

    def _set_about(self, name: str, value: Any) -> None:
        with _transaction(self._connection) as database:
            database.execute("INSERT OR REPLACE INTO about VALUES (?, ?)", (name, value))


class Reader:
    """Reads the database while another process writes."""

    def __init__(self, path: Path) -> None:
        self._connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=BUSY_SECONDS)
        self._connection.isolation_level = None
        self.key = bytes.fromhex(str(self.about("key")))

    def about(self, name: str) -> Any:
        """Return a value that the service stored, or None."""
        return _about(self._connection, name)

    def since(self, n: int, forgotten: int) -> tuple[list[tuple[int, str, str, int]], list[tuple[int, bytes]]]:
        """Return the clicks (n, user, item, time) and users forgotten (id, digest) after these numbers."""
        with _transaction(self._connection, "BEGIN") as database:
            clicks = database.execute("SELECT n, user, item, time FROM clicks WHERE n > ? ORDER BY n", (n,))
            rows = clicks.fetchall()
            gone = database.execute("SELECT id, digest FROM forgotten WHERE id > ? ORDER BY id", (forgotten,))
            return rows, gone.fetchall()

    def close(self) -> None:
        """End reading."""
        self._connection.close()


def _about(database: sqlite3.Connection, name: str) -> Any:
    row = database.execute("SELECT value FROM about WHERE name = ?", (name,)).fetchone()
    return None if row is None else row[0]


def digest(key: bytes, user: str) -> bytes:
    """Return the stored digest of the id of a user who was forgotten."""
    return hmac.digest(key, user.encode(), "sha256")[:DIGEST_BYTES]


@contextlib.contextmanager
def _transaction(database: sqlite3.Connection, begin: str = "BEGIN IMMEDIATE") -> Iterator[sqlite3.Connection]:
    database.execute(begin)
    try:
        yield database
        database.execute("COMMIT")
    except BaseException:
        with contextlib.suppress(sqlite3.Error):
            database.execute("ROLLBACK")
        raise


def _locked(folder: Path) -> IO[str]:
    """Return the lock of a folder, which holds as long as it is open."""
    if fcntl is None:
        raise InputError("live use needs a system whose files can be locked (flock), such as Linux or macOS.")
    with contextlib.ExitStack() as stack:
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            opened = os.fdopen(os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o600), "r+")
            lock = stack.enter_context(opened)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                owner = lock.read(20).strip()
                process = f" (process {owner})" if owner.isdigit() else ""
                raise StoreError(
                    f"{folder}: another service uses this folder{process}. Stop it first, or give each service "
                    "a folder."
                ) from None
            lock.truncate(0)
            lock.write(str(os.getpid()))
            lock.flush()
        except OSError as error:
            raise StoreError(f"{folder}: cannot be written: {error.strerror or error}.") from error
        stack.pop_all()
        return lock


def _opened(path: Path) -> sqlite3.Connection:
    """Return the database, created if it is missing, and checked for damage."""
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))  # the files beside it get the same mode
        database = sqlite3.connect(path, timeout=BUSY_SECONDS, check_same_thread=False)
    except (OSError, sqlite3.Error) as error:
        raise StoreError(f"{path}: cannot be written: {getattr(error, 'strerror', None) or error}.") from error
    try:
        database.isolation_level = None
        database.execute("PRAGMA secure_delete = ON")
        if database.execute("PRAGMA journal_mode = WAL").fetchone()[0] != "wal":
            raise StoreError(f"{path}: this file system cannot hold a write-ahead log. Use a local disk.")
        database.execute("PRAGMA synchronous = FULL")
        if not database.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
            _fill(database)
        kind, version = (
            database.execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version")
        )
        if (kind, version) != (APPLICATION_ID, VERSION):
            raise StoreError(f"{path}: is not a database of recorded clicks of this version of bmcd.")
        if (found := database.execute("PRAGMA quick_check(1)").fetchone()[0]) != "ok":
            raise sqlite3.DatabaseError(found)
        with _transaction(database):  # an error now rather than later if the disk is full or read-only
            database.execute("INSERT OR REPLACE INTO about VALUES ('opened', ?)", (time.time_ns() // 1000,))
    except sqlite3.OperationalError as error:
        database.close()
        raise StoreError(f"{path}: cannot be written: {error}.") from error
    except sqlite3.DatabaseError as error:
        database.close()
        raise StoreError(
            f"{path}: is damaged: {error}. Restore a back-up, or read what is left with: sqlite3 {path} .recover"
        ) from error
    except BaseException:
        database.close()
        raise
    return database


def _fill(database: sqlite3.Connection) -> None:
    with _transaction(database):
        for statement in TABLES.split(";"):
            database.execute(statement)
        database.execute("INSERT INTO about VALUES ('key', ?)", (secrets.token_hex(32),))
        database.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        database.execute(f"PRAGMA user_version = {VERSION}")
