import errno
import json
import os
import resource
import struct
import threading
import tracemalloc
import warnings
from hashlib import sha256

import numpy as np
import pytest

from bmcd.errors import StoreError, StoreWarning
from bmcd.sampling import store
from bmcd.sampling.store import read, read_checkpoint, remove_leftovers, write, write_checkpoint

HEADER = {
    "kind": "checkpoint",
    "version": "1.2",
    "seed": 3,
    "data_hash": "ab" * 32,
    "options": {"distance": "footrule", "priors": {"rate": 0.1}},
    "run": {"next_sweep": [4]},
}
ARRAYS = {
    "0/rho": np.array([[1, 2, 3], [3, 1, 2]], np.int16),
    "alpha": np.array([1.5, -0.0, np.nan]),
    "empty": np.zeros((0, 4), np.int64),
    "scalar": np.array(7, np.int32),
    "bytes": np.frombuffer(b"\x00\xff", np.uint8),
}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "run.ckpt"


def same(stored, header=HEADER, arrays=ARRAYS):
    return (
        stored.header == header
        and stored.arrays.keys() == arrays.keys()
        and all(
            (a.dtype, a.shape, a.tobytes()) == (arrays[name].dtype, arrays[name].shape, arrays[name].tobytes())
            for name, a in stored.arrays.items()
        )
    )


def forged(path, text, body=b"", magic=store.MAGIC, version=store.FORMAT, length=None):
    """A file with any header and the right hash."""
    text = text if isinstance(text, bytes) else json.dumps(text).encode()
    content = struct.pack("<8sII", magic, version, len(text) if length is None else length) + text + body
    path.write_bytes(content + sha256(content).digest())
    return path


def listing(*arrays, **changes):
    return {**HEADER, "arrays": list(arrays), **changes}


def test_what_is_written_is_read(path):
    write(path, HEADER, ARRAYS)
    stored = read(path, "checkpoint")
    assert same(stored)
    assert stored.path == path
    assert all(array.flags.writeable for array in stored.arrays.values())
    assert os.listdir(path.parent) == ["run.ckpt"]


def test_any_layout_and_byte_order_is_written_the_same(path):
    matrix = np.arange(12.0).reshape(3, 4)
    write(path, HEADER, {"a": matrix})
    before = path.read_bytes()
    write(path, HEADER, {"a": np.asfortranarray(matrix).astype(">f8")})
    assert path.read_bytes() == before


def test_every_flip_and_cut_is_noticed(path, deep, rotating_seed):
    write(path, HEADER, ARRAYS)
    whole = path.read_bytes()
    rng = np.random.default_rng(rotating_seed)
    places = range(len(whole)) if deep else sorted(rng.choice(len(whole), 150, replace=False).tolist())
    for place in places:
        masks = [1 << bit for bit in range(8)] if deep else [1 << int(rng.integers(8))]
        broken = [whole[:place] + bytes([whole[place] ^ mask]) + whole[place + 1 :] for mask in masks]
        for content in [
            *broken,
            whole[:place],
            whole[:place] + whole[place + 1 :],
            whole + whole[:place][:40] + b"x",
        ]:
            path.write_bytes(content)
            with pytest.raises(StoreError, match=r"run\.ckpt: "):
                read(path, "checkpoint")


@pytest.mark.parametrize(
    ("text", "body", "named"),
    [
        (listing(["a", "<f8", [2**40]]), b"", "cut short: its arrays need 8,796,093,022,208 bytes"),
        (listing(["a", "<f8", [2**62, 2**62]]), b"", "larger than any file"),
        (listing(["a", "<f8", [0, 2**62, 2**62]]), b"", "larger than any file"),
        (listing(["a", "<f8", [-1]]), b"", r"shape \[-1\]"),
        (listing(["a", "<f8", [-1, -1]]), b"12345678", "shape"),
        (listing(["a", "<f8", [True]]), b"12345678", "shape"),
        (listing(["a", "<f8", [1.0]]), b"12345678", "shape"),
        (listing(["a", "<f8", ["1"]]), b"12345678", "shape"),
        (listing(["a", "<f8", 1]), b"12345678", "shape"),
        (listing(["a", "<f8", [1] * 9]), b"12345678", "shape"),
        (listing(["a", "|O", [1]]), b"12345678", "dtype '|O'"),
        (listing(["a", "<U9", [1]]), b"12345678", "dtype"),
        (listing(["a", "<f8,<f8", [1]]), b"12345678", "dtype"),
        (listing(["a", ["<f8"], [1]]), b"12345678", "dtype"),
        (listing(["a", None, [1]]), b"12345678", "dtype"),
        (listing(["a", "|u1", [1]], ["a", "|u1", [1]]), b"12", "there twice"),
        (listing(["../a b", "|u1", [1]]), b"1", "not allowed"),
        (listing(["a" * 65, "|u1", [1]]), b"1", "not allowed"),
        (listing([1, "|u1", [1]]), b"1", "not allowed"),
        (listing(["a", "|u1"]), b"1", "name, dtype and shape"),
        (listing("abc"), b"1", "name, dtype and shape"),
        (listing(["a", "|u1", [1]]), b"12", "has bytes too many"),
        (listing(arrays={}), b"", "must be a list"),
        (listing(extra=1), b"", "must have the keys"),
        ({"kind": "checkpoint"}, b"", "must have the keys"),
        (listing(kind="model"), b"", "it holds 'model', not 'checkpoint'"),
        (listing(kind="pickle"), b"", "it holds 'pickle'"),
        (listing(seed=True), b"", "seed in the header must be int"),
        (listing(seed="1"), b"", "seed in the header must be int"),
        (listing(options=[]), b"", "options in the header must be dict"),
        ([], b"", "must have the keys"),
        (b"", b"", "damaged"),
        (b"\xff\xfe", b"", "damaged"),
        (b"[" * 200_000, b"", "damaged"),
        (b'{"a":' * 40_000, b"", "damaged"),
        (b'{"kind": "checkpoint", "kind": "model"}', b"", "a key stands twice"),
        (b"[NaN]", b"", "NaN is not allowed"),
        (b"1" * 200_000, b"", "damaged"),
        (b"1e999", b"", "must have the keys"),
        (b"[" + b"[]," * 80_000 + b"[]]", b"", "must have the keys"),
    ],
)
def test_hostile_headers_cost_no_more_than_the_file(path, text, body, named):
    forged(path, text, body)
    with pytest.raises(StoreError):
        read(path, "checkpoint")  # once before measuring, for what is allocated for good
    tracemalloc.start()
    with pytest.raises(StoreError, match=named) as caught:
        read(path, "checkpoint")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    # JSON of the worst kind takes some 25 times its bytes as objects, and a header has 256 kB at most.
    assert peak < path.stat().st_size * 30 + 100_000
    assert str(path) in str(caught.value)
    assert len(str(caught.value)) < 1000


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"magic": b"BMCD\n\x1a\n\n"}, "not written by bmcd"),
        ({"version": 2}, "format 2, but this version of bmcd reads format 1"),
        ({"length": 2**32 - 1}, "header of 4,294,967,295 bytes does not fit"),
        ({"length": 3}, "damaged"),
    ],
)
def test_hostile_starts(path, changes, named):
    forged(path, listing(["a", "|u1", [1]]), b"1", **changes)
    with pytest.raises(StoreError, match=named):
        read(path, "checkpoint")


def test_random_bytes_behind_a_right_start(path, rotating_seed, deep):
    rng = np.random.default_rng(rotating_seed)
    for _ in range(20_000 if deep else 200):
        forged(path, rng.bytes(int(rng.integers(200))), rng.bytes(int(rng.integers(50))))
        with pytest.raises(StoreError):
            read(path, "checkpoint")


def test_what_is_not_a_file(tmp_path):
    with pytest.raises(StoreError, match="is not a file"):
        read(tmp_path, "model")
    with pytest.raises(StoreError, match="cannot be read: No such file"):
        read(tmp_path / "nothing", "model")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(StoreError, match="is not a file"):
        read(tmp_path / "pipe", "model")
    (tmp_path / "empty").touch()
    with pytest.raises(StoreError, match="it has only 0 bytes"):
        read(tmp_path / "empty", "model")


@pytest.mark.parametrize(
    ("header", "arrays"),
    [
        ({**HEADER, "more": 1}, {}),
        ({**HEADER, "kind": "other"}, {}),
        ({**HEADER, "options": {"x": float("nan")}}, {}),
        ({**HEADER, "options": {"x": "y" * store.MAX_HEADER}}, {}),
        (HEADER, {"a": np.array(["text"])}),
        (HEADER, {"a": np.array([None])}),
        (HEADER, {"a b": np.zeros(1)}),
    ],
)
def test_what_could_not_be_read_is_not_written(path, header, arrays):
    write(path, HEADER, ARRAYS)
    with pytest.raises((ValueError, TypeError)):
        write(path, header, arrays)
    assert same(read(path, "checkpoint"))
    assert os.listdir(path.parent) == ["run.ckpt"]


def numbered(n):
    return {**HEADER, "run": {"next_sweep": [n]}}


def test_two_checkpoints_are_kept(path):
    assert read_checkpoint(path) is None
    for n in range(4):
        write_checkpoint(path, numbered(n), ARRAYS, keep_previous=True)
    assert read_checkpoint(path).header == numbered(3)
    assert read(store.previous(path), "checkpoint").header == numbered(2)
    assert sorted(os.listdir(path.parent)) == ["run.ckpt", "run.ckpt.1"]


def test_a_damaged_checkpoint_gives_way_to_the_one_before(path):
    for n in range(2):
        write_checkpoint(path, numbered(n), ARRAYS, keep_previous=True)
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.warns(StoreWarning, match=r"run.ckpt: is cut short.*Going on from the checkpoint before it, .*\.1"):
        stored = read_checkpoint(path)
    assert same(stored, numbered(0))
    # The next one must not push the good one out in favour of the damaged one.
    write_checkpoint(path, numbered(2), ARRAYS, keep_previous=False)
    assert read(store.previous(path), "checkpoint").header == numbered(0)
    assert read_checkpoint(path).header == numbered(2)


def test_a_missing_checkpoint_gives_way_to_the_one_before(path):
    write(store.previous(path), HEADER, ARRAYS)
    with pytest.warns(StoreWarning, match="No such file"):
        assert same(read_checkpoint(path))


def test_two_damaged_checkpoints(path):
    for n in range(2):
        write_checkpoint(path, numbered(n), ARRAYS, keep_previous=True)
    path.write_bytes(b"")
    store.previous(path).write_bytes(b"x" * 100)
    with pytest.raises(StoreError, match=r"run.ckpt: is cut.*run.ckpt.1: was not written by bmcd.*Neither"):
        read_checkpoint(path)
    store.previous(path).unlink()
    with pytest.raises(StoreError, match="there is no older one"):
        read_checkpoint(path)


def test_leftovers_of_a_killed_run_are_removed_and_nothing_else(path):
    names = [
        "run.ckpt",
        "run.ckpt.1",
        "run.ckpt.0123456789abcdef.tmp",
        "other.ckpt.0123456789abcdef.tmp",
        "run.tmp",
    ]
    for name in names:
        (path.parent / name).touch()
    remove_leftovers(path)
    assert sorted(os.listdir(path.parent)) == sorted([n for n in names if n != names[2]])


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


def test_a_file_that_may_not_grow(path):
    """A real failure in the middle of writing, through a limit on the size of files."""
    write_checkpoint(path, HEADER, ARRAYS, keep_previous=True)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
    try:
        with pytest.raises(StoreError, match="File too large"):
            write_checkpoint(path, HEADER, {"a": np.zeros(100_000)}, keep_previous=True)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert same(read_checkpoint(path))
    assert os.listdir(path.parent) == ["run.ckpt"]


def test_a_folder_that_cannot_be_written_to(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match="cannot be written: Not a directory"):
        write(tmp_path / "file" / "run.ckpt", HEADER, ARRAYS)


def test_a_file_that_another_run_replaces_while_it_is_kept_is_no_error(path, monkeypatch):
    write_checkpoint(path, numbered(1), {"a": np.full(10, 1.0)}, keep_previous=True)
    link, refused = os.link, []

    def gone_once(source, target):  # what Linux says if the file is renamed over between look-up and link
        if not refused:
            refused.append(source)
            raise FileNotFoundError(source)
        link(source, target)

    monkeypatch.setattr(os, "link", gone_once)
    write_checkpoint(path, numbered(2), {"a": np.full(10, 2.0)}, keep_previous=True)
    assert refused
    assert sorted(os.listdir(path.parent)) == ["run.ckpt", "run.ckpt.1"]
    assert read_checkpoint(path).arrays["a"][0] == 2.0


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
