"""Files are complete or not there, keep their mode, and leave nothing behind."""

import os
import signal
import stat
import subprocess
import sys
import threading

import pytest

from bmcd.files import open_replacement, remove_leftovers, replacement, write_file

KILLED = """
import os, signal, sys
from pathlib import Path
from bmcd.files import replacement
with replacement(Path(sys.argv[1])) as file:
    file.write(b"half")
    file.flush()
    os.kill(os.getpid(), signal.SIGKILL)
"""


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "a.csv"


def test_the_mode_of_what_is_replaced_is_kept(path):
    for wanted in (0o640, 0o604):
        write_file(path, b"1")
        path.chmod(wanted)
        write_file(path, b"2")
        assert mode(path) == wanted
    with replacement(path, private=True) as file:
        file.write(b"3")
    assert mode(path) == 0o600
    with open_replacement(path) as file:
        file.write("4")
    assert (mode(path), path.read_text()) == (0o600, "4")


def test_a_new_file_has_the_usual_mode_and_a_private_one_its_own(path):
    before = os.umask(0o027)
    try:
        write_file(path, b"1")
        assert mode(path) == 0o640
        path.unlink()
        with replacement(path, private=True) as file:
            assert [mode(found) for found in path.parent.iterdir()] == [0o600]  # not even unfinished open to others
            file.write(b"2")
    finally:
        os.umask(before)
    assert mode(path) == 0o600


def test_a_failure_leaves_what_was_there(path):
    write_file(path, b"before")
    with pytest.raises(TypeError), replacement(path) as file:
        file.write("not bytes")
    assert path.read_bytes() == b"before"
    assert os.listdir(path.parent) == ["a.csv"]


@pytest.mark.skipif(sys.platform == "win32", reason="there is no kill -9")
def test_what_a_killed_save_left_is_removed_by_the_next(path):
    write_file(path, b"before")
    done = subprocess.run([sys.executable, "-c", KILLED, str(path)])
    assert done.returncode == -signal.SIGKILL
    assert path.read_bytes() == b"before"
    assert len(os.listdir(path.parent)) == 2
    write_file(path, b"after")
    assert path.read_bytes() == b"after"
    assert os.listdir(path.parent) == ["a.csv"]


def test_files_of_others_and_files_in_use_stay(path):
    names = ["a.csv", "a.csv.1", "a.csv.0123456789abcdef.tmp", "b.csv.0123456789abcdef.tmp", "a.csv.x.tmp", "a.tmp"]
    for name in names:
        (path.parent / name).touch()
    with replacement(path) as file:
        remove_leftovers(path)
        file.write(b"whole")
    assert path.read_bytes() == b"whole"
    assert sorted(os.listdir(path.parent)) == sorted(set(names) - {names[2]})


def test_many_at_one_path_never_disturb_each_other(path):
    def keep_writing(letter):
        for _ in range(30):
            write_file(path, letter * 10_000)

    threads = [threading.Thread(target=keep_writing, args=(letter,)) for letter in (b"a", b"b", b"c")]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        if path.exists():
            assert len(set(path.read_bytes())) == 1
    assert os.listdir(path.parent) == ["a.csv"]
