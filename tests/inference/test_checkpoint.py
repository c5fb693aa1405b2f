"""Two checkpoints are kept, and the older one helps when the newest is damaged."""

import errno
import os
import stat
import threading
import warnings

import numpy as np
import pytest

from bmcd.container import read, write
from bmcd.errors import StoreError, StoreWarning
from bmcd.inference.checkpoint import KIND, previous, read_checkpoint, remove_checkpoint, write_checkpoint

ARRAYS = {"0/rho": np.array([[1, 2, 3], [3, 1, 2]], np.int16)}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "run.ckpt"


def numbered(n):
    return {"run": {"next_sweep": [n]}}


def test_two_checkpoints_are_kept_and_removed(path):
    assert read_checkpoint(path) is None
    for n in range(4):
        write_checkpoint(path, numbered(n), ARRAYS, keep_previous=True)
    assert read_checkpoint(path).header == numbered(3)
    assert read(previous(path), KIND).header == numbered(2)
    assert sorted(os.listdir(path.parent)) == ["run.ckpt", "run.ckpt.1"]
    assert {stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()} == {0o600}  # clicks are in them
    path.with_name("run.ckpt.0123456789abcdef.tmp").touch()
    remove_checkpoint(path)
    assert os.listdir(path.parent) == []


def test_a_damaged_checkpoint_gives_way_to_the_one_before(path):
    for n in range(2):
        write_checkpoint(path, numbered(n), ARRAYS, keep_previous=True)
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.warns(StoreWarning, match=r"run.ckpt: is damaged.*Resuming from the checkpoint before it, .*\.1"):
        stored = read_checkpoint(path)
    assert stored.header == numbered(0)
    # The next one must not push the good one out in favour of the damaged one.
    write_checkpoint(path, numbered(2), ARRAYS, keep_previous=False)
    assert read(previous(path), KIND).header == numbered(0)
    assert read_checkpoint(path).header == numbered(2)


def test_a_missing_checkpoint_gives_way_to_the_one_before(path):
    write(previous(path), KIND, numbered(1), ARRAYS)
    with pytest.warns(StoreWarning, match="No such file"):
        assert read_checkpoint(path).header == numbered(1)


def test_two_damaged_checkpoints(path):
    for n in range(2):
        write_checkpoint(path, numbered(n), ARRAYS, keep_previous=True)
    path.write_bytes(b"")
    previous(path).write_bytes(b"x" * 100)
    with pytest.raises(StoreError, match=r"run.ckpt: is cut.*run.ckpt.1: was not written by bmcd.*Neither"):
        read_checkpoint(path)
    previous(path).unlink()
    with pytest.raises(StoreError, match="there is no older one"):
        read_checkpoint(path)


@pytest.mark.parametrize("step", ["fsync", "replace", "link"])
def test_whichever_step_of_writing_fails_a_whole_file_stays(path, monkeypatch, step):
    for n in range(2):
        write_checkpoint(path, numbered(n), ARRAYS, keep_previous=True)

    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, step, full)
    if step == "link":  # a file system without hard links: there is another way
        write_checkpoint(path, numbered(2), ARRAYS, keep_previous=True)
    else:
        with pytest.raises(
            StoreError, match=r"run.ckpt: cannot be written: No space left on device \([\d,]+ bytes are"
        ):
            write_checkpoint(path, numbered(2), ARRAYS, keep_previous=True)
    monkeypatch.undo()
    assert read_checkpoint(path).header == numbered(2 if step == "link" else 1)
    assert sorted(os.listdir(path.parent)) == ["run.ckpt", "run.ckpt.1"]


def test_a_file_that_another_run_replaces_while_it_is_kept_is_no_error(path, monkeypatch):
    write_checkpoint(path, numbered(1), ARRAYS, keep_previous=True)
    link, refused = os.link, []

    def gone_once(source, target):  # what Linux says if the file is renamed over between look-up and link
        if not refused:
            refused.append(source)
            raise FileNotFoundError(source)
        link(source, target)

    monkeypatch.setattr(os, "link", gone_once)
    write_checkpoint(path, numbered(2), ARRAYS, keep_previous=True)
    assert refused
    assert sorted(os.listdir(path.parent)) == ["run.ckpt", "run.ckpt.1"]
    assert read_checkpoint(path).header == numbered(2)


def test_two_runs_at_one_path_by_mistake_never_leave_a_broken_file(path):
    def keep_writing(n):
        for _ in range(30):
            write_checkpoint(path, numbered(n), {"a": np.full(1000, float(n))}, keep_previous=True)

    threads = [threading.Thread(target=keep_writing, args=(n,)) for n in range(3)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", StoreWarning)  # there is none yet at the very first
            stored = read_checkpoint(path)
        if stored is not None:
            assert stored.arrays["a"].tolist() == [float(stored.header["run"]["next_sweep"][0])] * 1000
    assert sorted(os.listdir(path.parent)) == ["run.ckpt", "run.ckpt.1"]
