"""Files of arrays: what is written is read, and nothing else is."""

import json
import os
import resource
import struct
import tracemalloc
from hashlib import sha256

import numpy as np
import pytest
import safetensors.numpy

from bmcd import container
from bmcd.container import read, write
from bmcd.errors import StoreError

pytestmark = pytest.mark.chance(0)

HEADER = {"seed": 3, "options": {"distance": "footrule", "text": 'a "quoted" \\ é', "priors": {"rate": 0.1}}}
ARRAYS = {
    "0/rho": np.array([[1, 2, 3], [3, 1, 2]], np.int16),
    "alpha": np.array([1.5, -0.0, np.nan]),
    "empty": np.zeros((0, 4), np.int64),
    "scalar": np.array(7, np.int32),
    "bytes": np.frombuffer(b"\x00\xff", np.uint8),
    "truth": np.array([True, False]),
}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "run.bmcd"


def same(stored, header=HEADER, arrays=ARRAYS):
    return (
        stored.header == header
        and stored.arrays.keys() == arrays.keys()
        and all(
            (a.dtype, a.shape, a.tobytes()) == (arrays[name].dtype, arrays[name].shape, arrays[name].tobytes())
            for name, a in stored.arrays.items()
        )
    )


def forged(path, arrays="", body=b"", *, text=None, version=container.FORMAT, length=None):
    """Write a file with any header and the right checksum: what an attacker can write."""
    inner = '"kind":"model","header":{}}' if text is None else text
    inner = json.dumps('{"sha256":"' + "0" * 64 + '",' + inner)
    start = f'{{"__metadata__":{{"bmcd {version}":{inner}}}{arrays}}}'.encode()
    start += b" " * (-len(start) % 8)
    content = struct.pack("<Q", len(start) if length is None else length) + start + body
    place = content.index(b"0" * 64)
    path.write_bytes(content[:place] + sha256(content).hexdigest().encode() + content[place + 64 :])
    return path


def array(name="a", dtype="F64", shape="[1]", offsets="[0,8]"):
    return f',"{name}":{{"dtype":"{dtype}","shape":{shape},"data_offsets":{offsets}}}'


def test_what_is_written_is_read(path):
    write(path, "model", HEADER, ARRAYS)
    stored = read(path, "model")
    assert same(stored)
    assert stored.path == path
    assert all(array.flags.writeable for array in stored.arrays.values())
    assert os.listdir(path.parent) == ["run.bmcd"]


def test_any_reader_of_safetensors_opens_it(path):
    write(path, "model", HEADER, ARRAYS)
    arrays = safetensors.numpy.load_file(path)
    assert arrays["0/rho"].tolist() == ARRAYS["0/rho"].tolist()
    with safetensors.safe_open(path, "numpy") as file:
        assert json.loads(file.metadata()["bmcd 3"])["header"] == HEADER


def test_any_layout_and_byte_order_is_written_the_same(path):
    matrix = np.arange(12.0).reshape(3, 4)
    write(path, "model", HEADER, {"a": matrix})
    before = path.read_bytes()
    write(path, "model", HEADER, {"a": np.asfortranarray(matrix).astype(">f8")})
    assert path.read_bytes() == before


def test_every_flip_and_cut_is_noticed(path, deep, rotating_seed):
    write(path, "model", HEADER, ARRAYS)
    whole = path.read_bytes()
    rng = np.random.default_rng(rotating_seed)
    places = range(len(whole)) if deep else sorted(rng.choice(len(whole), 200, replace=False).tolist())
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
            with pytest.raises(StoreError, match=r"run\.bmcd: "):
                read(path, "model")


@pytest.mark.parametrize(
    ("arrays", "body", "text"),
    [
        (array(shape=f"[{2**40}]", offsets=f"[0,{2**43}]"), b"", None),
        (array(shape=f"[{2**62},{2**62}]"), bytes(8), None),
        (array(shape=f"[0,{2**62},{2**62}]", offsets="[0,0]"), b"", None),
        (array(shape="[" + "1," * 80 + "1]"), bytes(8), None),
        (array(shape="[-1]"), bytes(8), None),
        (array(shape="[true]"), bytes(8), None),
        (array(shape="[1.5]"), bytes(8), None),
        (array(shape='"1"'), bytes(8), None),
        (array(dtype="BF16", offsets="[0,2]"), bytes(2), None),
        (array(dtype="object"), bytes(8), None),
        (array(dtype="BOOL", offsets="[0,1]"), b"\x02", None),
        (array(offsets="[8,16]"), bytes(16), None),
        (array(offsets="[8,0]"), bytes(8), None),
        (array(offsets="[0,8]") + array("b", offsets="[0,8]"), bytes(8), None),
        (array() + array(), bytes(8), None),
        (array("../a b"), bytes(8), None),
        (array("a" * 101), bytes(8), None),
        (array(), bytes(9), None),
        (array(), bytes(7), None),
        (',"__metadata__":{}', b"", None),
        ("", b"", '"kind":"model"}'),
        ("", b"", '"kind":"model","header":[]}'),
        ("", b"", '"kind":"model","header":{},"more":1}'),
        ("", b"", '"kind":"checkpoint","header":{}}'),
        ("", b"", '"kind":["model"],"header":{}}'),
        ("", b"", '"kind":"model","header":{"a":1,"a":2}}'),
        ("", b"", '"kind":"model","header":{"a":NaN}}'),
        ("", b"", "not JSON"),
        ("", b"", '"header":' + "[" * 200_000),
        ("", b"", '"header":' + '{"a":' * 40_000),
        ("", b"", '"header":' + "1" * 200_000 + "}"),
        ("", b"", '"header":[' + "[]," * 300_000 + "[]]}"),
        ("".join(array(f"a{n}", "U8", "[0]", "[0,0]") for n in range(20_000)), b"", '"kind":"other","header":{}}'),
    ],
    ids=lambda value: str(value)[:40],  # some are a megabyte
)
def test_hostile_files_cost_no_more_than_a_multiple_of_their_size(path, arrays, body, text):
    forged(path, arrays, body, text=text)
    with pytest.raises(StoreError):
        read(path, "model")  # once before measuring, for what is allocated for good
    tracemalloc.start()
    with pytest.raises(StoreError) as caught:
        read(path, "model")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    # JSON of the worst kind takes some 25 times its bytes as objects, and a header has 2 MiB at most.
    assert peak < path.stat().st_size * 30 + 100_000
    assert str(path) in str(caught.value)
    assert len(str(caught.value)) < 1000


def test_a_forged_file_is_read_if_nothing_is_wrong_with_it(path):
    """Otherwise the test above would show nothing."""
    stored = read(forged(path, array(), np.array([2.5]).tobytes()), "model")
    assert stored.header == {}
    assert stored.arrays["a"].tolist() == [2.5]


@pytest.mark.parametrize("length", [2**63, 2**33, 10, 0])
def test_a_header_that_does_not_fit(path, length):
    with pytest.raises(StoreError, match="damaged"):
        read(forged(path, array(), bytes(8), length=length), "model")


def test_files_of_other_versions_are_to_be_made_again(path):
    path.write_bytes(b"BMCD\r\n\x1a\n" + struct.pack("<II", 1, 2**31) + bytes(100))
    with pytest.raises(StoreError, match=r"written by bmcd 0.2 or earlier.*fit again"):
        read(path, "model")
    with pytest.raises(StoreError, match=r"format 4, but this version of bmcd reads format 3: fit again"):
        read(forged(path, version=4), "model")
    safetensors.numpy.save_file({"a": np.zeros(3)}, path)
    with pytest.raises(StoreError, match="was not written by bmcd"):
        read(path, "model")


def test_random_bytes_behind_a_right_start(path, rotating_seed, deep):
    rng = np.random.default_rng(rotating_seed)
    for _ in range(20_000 if deep else 200):
        text = rng.bytes(int(rng.integers(200))).decode("latin-1")
        with pytest.raises(StoreError):
            read(forged(path, text, rng.bytes(int(rng.integers(1, 50)))), "model")


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
        ({"x": float("nan")}, {}),
        ({"x": object()}, {}),
        ({"x": "y" * container.MAX_HEADER}, {}),
        (HEADER, {"a": np.array(["text"])}),
        (HEADER, {"a": np.array([None])}),
        (HEADER, {"a": np.array(["2026"], "datetime64[us]")}),
        (HEADER, {"a b": np.zeros(1)}),
    ],
)
def test_what_could_not_be_read_is_not_written(path, header, arrays):
    write(path, "model", HEADER, ARRAYS)
    with pytest.raises((ValueError, TypeError)):
        write(path, "model", header, arrays)
    assert same(read(path, "model"))
    assert os.listdir(path.parent) == ["run.bmcd"]


def test_a_file_that_may_not_grow(path):
    """A real failure in the middle of writing, through a limit on the size of files."""
    write(path, "model", HEADER, ARRAYS)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
    try:
        with pytest.raises(StoreError, match=r"File too large \([\d,]+ bytes are free there\)"):
            write(path, "model", HEADER, {"a": np.zeros(100_000)})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert same(read(path, "model"))
    assert os.listdir(path.parent) == ["run.bmcd"]


def test_a_folder_that_cannot_be_written_to(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match="cannot be written: Not a directory"):
        write(tmp_path / "file" / "run.bmcd", "model", HEADER, ARRAYS)
