"""Recorded clicks: durable when acknowledged, none twice, bounded while they wait, gone when forgotten."""

import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from bmcd.errors import StoreError
from bmcd.serve.store import DATABASE, GROUP, Click, FullError, NotRecordedError, Reader, Store, digest

T = 1_700_000_000_000_000
HOSTILE = [
    "'; DROP TABLE clicks; --", "nul\0inside", "two\nlines", "\u202eodd", "\U0001f600", "x" * 500, "%s", "NULL",
    "-1", "9223372036854775808", '"quoted"', "\\", "e\u0301",
]  # fmt: skip


@pytest.fixture
def opened(tmp_path):
    """Open the store of a folder; all are closed in the end."""
    stores = []

    def open_store(queue=1000, recorded=lambda new: None, folder=None):
        stores.append(Store(folder or tmp_path / "live", queue, recorded))
        return stores[-1]

    yield open_store
    for store in stores:
        store.close()


def clicks_in(store):
    reader = Reader(store.path)
    rows, gone = reader.since(0, 0)
    reader.close()
    return rows, gone


def test_clicks_are_there_when_they_are_acknowledged(opened):
    told = []
    store = opened(recorded=told.extend)
    clicks = [Click("ann", f"i{n}", T + n, f"e{n}") for n in range(7)]
    assert store.record(clicks[:4]).result() == 4
    assert [row[1:] for row in clicks_in(store)[0]] == [click[:3] for click in clicks[:4]]
    assert [one.click for one in told] == clicks[:4]
    assert store.record(clicks).result() == 3
    assert [row[1:] for row in clicks_in(store)[0]] == [click[:3] for click in clicks]
    assert [one.click for one in told] == clicks
    assert told[-1].n == clicks_in(store)[0][-1][0]


def test_a_click_is_recorded_once(opened):
    store = opened()
    assert store.record([Click("ann", "a", T, "e1"), Click("ann", "a", T, "e1")]).result() == 1
    assert store.record([Click("ann", "a", T)]).result() == 0  # the same click without its event
    assert store.record([Click("bob", "b", T + 1, "e1")]).result() == 0  # the event is taken
    assert store.record([Click("ann", "a", T + 1), Click("ann", "b", T), Click("bob", "a", T)]).result() == 3
    assert len(clicks_in(store)[0]) == 4


def test_everything_is_there_after_it_was_closed(opened, tmp_path):
    store = opened()
    done = [store.record([Click(f"u{n}", "a", T)]) for n in range(50)]
    store.close()
    assert sum(one.result() for one in done) == 50
    with pytest.raises(NotRecordedError):
        store.record([Click("late", "a", T)])
    again = opened()
    assert len(clicks_in(again)[0]) == 50
    assert again.record([Click("u7", "a", T)]).result() == 0


def test_only_so_many_may_wait(opened):
    go, busy = threading.Event(), threading.Event()

    def slow(new):
        busy.set()
        go.wait(60)

    store = opened(queue=10, recorded=slow)
    first = store.record([Click("ann", "a", T)])
    assert busy.wait(60)
    waiting = [store.record([Click("ann", f"b{n}", T)]) for n in range(9)]
    with pytest.raises(FullError):
        store.record([Click("ann", "c", T)])
    assert store.waiting == 10
    go.set()
    assert [one.result() for one in (first, *waiting)] == [1] * 10
    assert store.waiting == 0
    # More than may wait at once are taken if nothing waits: the limits of a request bound them.
    assert store.record([Click("ann", f"d{n}", T) for n in range(11)]).result() == 11


def test_what_waits_is_written_as_one_group(opened):
    go, groups = threading.Event(), []

    def slow(new):
        groups.append(len(new))
        go.wait(60)

    store = opened(queue=3 * GROUP, recorded=slow)
    done = [store.record([Click("first", "a", T)])]
    while not groups:
        time.sleep(0.001)
    done += [store.record([Click(f"u{n}", "a", T)]) for n in range(GROUP + 1)]
    go.set()
    assert sum(one.result() for one in done) == GROUP + 2
    assert groups == [1, GROUP, 1]


def test_hostile_ids_are_kept_as_they_are(opened):
    store = opened()
    clicks = [Click(user, item, T, f"{user} {item}") for user in HOSTILE for item in HOSTILE]
    assert store.record(clicks).result() == len(clicks)
    assert [row[1:3] for row in clicks_in(store)[0]] == [click[:2] for click in clicks]
    assert store.forget(HOSTILE[0]).result().n == len(HOSTILE)


def test_nothing_is_left_of_a_user_who_is_forgotten(opened, tmp_path):
    store = opened()
    name, event = "a-very-personal-name", "an-event-of-theirs"
    clicks = [Click(name, f"only-they-read-{n}", T + n, f"{event}-{n}") for n in range(300)]
    for n in range(0, 300, 20):
        others = [Click(f"user {n} {m}", "something", T + n, f"other {n} {m}") for m in range(20)]
        store.record([*clicks[n : n + 20], *others]).result()
    files = lambda: b"".join(path.read_bytes() for path in sorted((tmp_path / "live").iterdir()))  # noqa: E731
    assert name.encode() in files()
    found = store.forget(name).result()
    assert found.n == 300
    for left in (name, event, "only-they-read"):
        assert left.encode() not in files()
    rows, gone = clicks_in(store)
    assert len(rows) == 300
    assert gone == [(found.id, digest(Reader(store.path).key, name))]
    assert store.record([Click(name, "again", T)]).result() == 1
    assert store.forget("nobody").result().n == 0


def test_forgetting_waits_for_readers(opened):
    store = opened()
    store.record([Click("ann", "a", T)]).result()
    reader = sqlite3.connect(store.path)
    reader.execute("BEGIN")
    assert reader.execute("SELECT count(*) FROM clicks").fetchone() == (1,)
    done = store.forget("ann")
    time.sleep(0.2)
    assert not done.done()
    reader.execute("COMMIT")
    reader.close()
    assert done.result(60).n == 1


def test_old_clicks_are_swept(opened):
    store = opened(queue=20_000)
    store.record([Click("ann", f"i{n}", T + n) for n in range(12_000)]).result()
    swept = []
    while not swept or swept[-1]:
        swept.append(store.sweep(T + 11_000).result())
    assert swept == [5000, 5000, 1000, 0]
    assert min(row[3] for row in clicks_in(store)[0]) == T + 11_000


def test_a_reader_sees_whole_groups_since_a_number(opened):
    store = opened()
    store.record([Click("ann", "a", T), Click("bob", "b", T)]).result()
    reader = Reader(store.path)
    rows, _ = reader.since(0, 0)
    store.record([Click("cat", "c", T)]).result()
    assert [row[1] for row in reader.since(rows[-1][0], 0)[0]] == ["cat"]
    reader.close()


def test_a_second_service_is_refused(opened, tmp_path):
    opened()
    with pytest.raises(StoreError, match=rf"another service uses this folder \(process {os.getpid()}\)"):
        opened()


def test_a_full_disk_is_told_and_nothing_is_lost(opened):
    store = opened()
    store.record([Click("ann", "a", T)]).result()
    store._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    store._connection.execute("PRAGMA max_page_count = 1")  # SQLite says "database or disk is full"
    lost = store.record([Click("bob" * 100, f"{n}" * 100, T) for n in range(500)])
    with pytest.raises(NotRecordedError, match="disk is full"):
        lost.result()
    assert store.n_failed == 1
    assert len(clicks_in(store)[0]) == 1
    store._connection.execute("PRAGMA max_page_count = 1000000")
    assert store.record([Click("bob", "b", T)]).result() == 1


@pytest.mark.parametrize("place", ["header", "middle", "text"])
def test_a_damaged_database_is_told(opened, tmp_path, place):
    store = opened(queue=20_000)
    store.record([Click(f"u{n}", f"i{n}", T + n) for n in range(5_000)]).result()
    store.close()
    path = tmp_path / "live" / DATABASE
    content = bytearray(path.read_bytes())
    if place == "text":
        content = bytearray(b"user,item\n" * 1000)
    elif place == "header":
        content[:100] = os.urandom(100)
    else:
        rng = np.random.default_rng(1)
        content[8192 : 8192 + 40_000] = rng.bytes(40_000)
    path.write_bytes(content)
    with pytest.raises(StoreError, match="damaged"):
        opened()
    assert path.read_bytes() == bytes(content)


def test_what_cannot_be_opened_is_told(opened, tmp_path):
    with pytest.raises(StoreError, match="cannot be written"):
        opened(folder=Path("/proc/bmcd"))
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(StoreError, match="cannot be written"):
        opened(folder=tmp_path / "file")
    folder = tmp_path / "other"
    folder.mkdir()
    sqlite3.connect(folder / DATABASE).execute("CREATE TABLE mine (a)").connection.close()
    with pytest.raises(StoreError, match="is not a database of recorded clicks"):
        opened(folder=folder)


def test_the_folder_is_private(opened, tmp_path):
    store = opened()
    store.record([Click("ann", "a", T)]).result()
    assert (tmp_path / "live").stat().st_mode & 0o077 == 0
    for path in (tmp_path / "live").iterdir():
        assert path.stat().st_mode & 0o077 == 0, path


WRITER = """
import sys
from pathlib import Path
from bmcd.serve.store import Click, Store
store = Store(Path(sys.argv[1]), 10**6, lambda new: None)
print("open", flush=True)
first = int(sys.argv[2])
waiting = []
for n in range(first, first + 10**6):
    clicks = [Click(f"u{n % 50}", f"i{n}.{m}", 10**15 + n, f"e{n}.{m}") for m in range(n % 7 + 1)]
    waiting.append((n, store.record(clicks)))
    if len(waiting) > 20:
        n, done = waiting.pop(0)
        done.result()
        print(n, flush=True)
"""


@pytest.mark.chance(0)
def test_what_was_acknowledged_survives_being_killed(tmp_path, deep, rotating_seed):
    rng = np.random.default_rng(rotating_seed)
    folder, acknowledged, first = tmp_path / "live", set(), 0
    for _ in range(100 if deep else 5):
        command = [sys.executable, "-c", WRITER, str(folder), str(first)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout.readline() == "open\n"
            time.sleep(rng.exponential(0.15))
            process.send_signal(signal.SIGKILL)
            own = {int(line) for line in process.stdout.read().splitlines()[:-1]}  # the last may be cut off
        acknowledged |= own
        first = max(acknowledged, default=0) + 100
        store = Store(folder, 100, lambda new: None)
        rows = clicks_in(store)[0]
        store.close()
        found = [row[2] for row in rows]
        assert len(found) == len(set(found))
        assert {f"i{n}.{m}" for n in acknowledged for m in range(n % 7 + 1)} <= set(found)
        groups = {one.partition(".")[0] for one in found}
        assert len(found) == sum(int(group[1:]) % 7 + 1 for group in groups)  # all of a request, or none
    assert len(acknowledged) > 5
