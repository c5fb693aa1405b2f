"""Files of arrays that are safe to open: no pickle, nothing allocated before it is checked, a hash over all.

======================  =============================================================================
8 bytes                 ``BMCD\\r\\n\\x1a\\n``: a transfer that rewrites line ends breaks it, and is noticed
4 bytes                 version of the format
4 bytes                 length of the header
header                  JSON: the keys of `HEADER`, and name, dtype and shape of every array
arrays                  their bytes, one after the other, in C order, little-endian
32 bytes                sha256 of everything before
======================  =============================================================================

The file must be exactly as long as the header says, which is checked first. So a hostile file costs at most its own
size in memory, plus that of a header of at most `MAX_HEADER` bytes. What the arrays mean is checked by who reads
them.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
import re
import secrets
import shutil
import stat
import struct
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from bmcd.errors import StoreError, StoreWarning

MAGIC = b"BMCD\r\n\x1a\n"
FORMAT = 1
KINDS = ("checkpoint", "model")
HEADER: dict[str, type] = {
    "kind": str,  # one of KINDS
    "version": str,  # of bmcd
    "seed": int,
    "data_hash": str,
    "options": dict,  # what was fitted and how: anything JSON can say
    "run": dict,  # how far it got
}
DTYPES = ("<f8", "<i8", "<i4", "<i2", "|u1")
MAX_HEADER = 2**18
_NAME = re.compile(r"[A-Za-z0-9_./]{1,64}")
_START = struct.Struct("<8sII")
_HASH_BYTES = 32


class Stored(NamedTuple):
    """What a file holds."""

    path: Path
    header: dict[str, Any]
    arrays: dict[str, NDArray[Any]]


def write(path: str | Path, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write a file so that at every moment either the old or the new one is there, whole.

    >>> import tempfile
    >>> header = {"kind": "model", "version": "1", "seed": 0, "data_hash": "", "options": {}, "run": {}}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write(f"{folder}/a.bmcd", header, {"alpha": np.array([1.5])})
    ...     read(f"{folder}/a.bmcd", "model").arrays["alpha"].tolist()
    [1.5]
    """
    write_checkpoint(path, header, arrays, keep_previous=False)


def write_checkpoint(
    path: str | Path, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], keep_previous: bool
) -> None:
    """`write`, and keep what was there under ``<path>.1``; only if it is known to be whole (`keep_previous`)."""
    path = Path(path)
    with _renamed_when_whole(path, keep_previous) as file:
        _write_to(file, header, arrays)
    _sync_folder(path.parent)


def read(path: str | Path, kind: str) -> Stored:
    """Read a file of that kind, or raise `StoreError`."""
    path = Path(path)
    try:
        if not stat.S_ISREG(path.stat().st_mode):  # opening a pipe would wait for ever
            raise StoreError(f"{path}: is not a file.")
        with path.open("rb") as file:
            return _read_from(file, path, kind)
    except OSError as error:
        raise StoreError(f"{path}: cannot be read: {error.strerror or error}.") from error


def read_checkpoint(path: str | Path) -> Stored | None:
    """Read the newest checkpoint that is whole, with a warning if it is the older one; None if there is none."""
    path = Path(path)
    older = previous(path)
    if not path.exists() and not older.exists():
        return None
    try:
        return read(path, "checkpoint")
    except StoreError as error:
        if not older.exists():
            hint = f"Remove it to start anew, or give another checkpoint path; there is no older one ({older})."
            raise StoreError(f"{error} {hint}") from error
        try:
            stored = read(older, "checkpoint")
        except StoreError as second:
            hint = "Neither checkpoint can be used: remove both to start anew, or give another checkpoint path."
            raise StoreError(f"{error} {second} {hint}") from second
        warnings.warn(f"{error} Going on from the checkpoint before it, {older}.", StoreWarning, stacklevel=2)
        return stored


def previous(path: Path) -> Path:
    """Where the checkpoint before the newest is kept."""
    return path.with_name(path.name + ".1")


def remove_leftovers(path: str | Path) -> None:
    """Remove the unfinished file that a killed run may have left beside ``path``."""
    path = Path(path)
    for unfinished in path.parent.glob("*.tmp"):
        if re.fullmatch(re.escape(path.name) + r"\.[0-9a-f]{16}\.tmp", unfinished.name):
            with contextlib.suppress(OSError):
                unfinished.unlink()


@contextlib.contextmanager
def _renamed_when_whole(path: Path, keep_previous: bool) -> Iterator[BinaryIO]:
    # A name of its own, so that two runs at the same path by mistake cannot rename each other's half-written file.
    unfinished = path.with_name(f"{path.name}.{secrets.token_hex(8)}.tmp")
    try:
        with unfinished.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if keep_previous and path.exists():
            _keep(path, previous(path))
        os.replace(unfinished, path)
    except OSError as error:
        room = ""
        with contextlib.suppress(OSError):
            room = f" ({shutil.disk_usage(path.parent).free:,} bytes are free there)"
        raise StoreError(
            f"{path}: cannot be written: {error.strerror or error}{room}. Make room, or give a path in another "
            "folder. What was there before is still there."
        ) from error
    finally:
        with contextlib.suppress(OSError):
            unfinished.unlink()


def _keep(path: Path, older: Path) -> None:
    """Give the file a second name, so that there is never a moment without ``path``."""
    second = older.with_name(f"{path.name}.{secrets.token_hex(8)}.tmp")
    for _ in range(100):
        try:
            os.link(path, second)
            break
        except FileNotFoundError:  # another run renamed its file over this one just now: keep that one
            if not path.exists():
                return
        except OSError:  # a file system without hard links
            with contextlib.suppress(FileNotFoundError):  # another run has kept it
                os.replace(path, older)
            return
    else:  # others write all the time, and keep what was there
        return
    try:
        os.replace(second, older)
    finally:  # renaming does nothing if both names are the same file already, as after a kill just here
        second.unlink(missing_ok=True)


def _sync_folder(folder: Path) -> None:
    if os.name == "nt":  # folders cannot be opened there, and renames are durable without
        return
    with contextlib.suppress(OSError):  # some network file systems refuse; the file itself is safe
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _write_to(file: BinaryIO, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
    ready = {name: np.ascontiguousarray(array, array.dtype.newbyteorder("<")) for name, array in arrays.items()}
    ready = {name: array.reshape(arrays[name].shape) for name, array in ready.items()}  # 0-d came back as 1-d
    listed = [[name, array.dtype.str, list(array.shape)] for name, array in ready.items()]
    text = json.dumps({**header, "arrays": listed}, allow_nan=False, sort_keys=True).encode()
    _check_header(json.loads(text), None)
    if len(text) > MAX_HEADER:
        raise ValueError(f"the header has {len(text):,} bytes, more than the {MAX_HEADER:,} a file may have")
    sha = hashlib.sha256()
    parts: list[bytes | memoryview] = [_START.pack(MAGIC, FORMAT, len(text)), text]
    for part in parts + [_bytes_of(array) for array in ready.values()]:
        sha.update(part)
        file.write(part)
    file.write(sha.digest())


def _bytes_of(array: NDArray[Any]) -> memoryview:
    return array.reshape(-1).view(np.uint8).data


def _read_from(file: BinaryIO, path: Path, kind: str) -> Stored:
    size, sha = os.fstat(file.fileno()).st_size, hashlib.sha256()

    def broken(what: str) -> NoReturn:
        raise StoreError(f"{path}: {what}.")

    def take(n_bytes: int) -> bytes:
        part = file.read(n_bytes)
        if len(part) != n_bytes:
            broken("became shorter while it was read")
        return part

    if size < _START.size + _HASH_BYTES:
        broken(f"is cut short or not written by bmcd: it has only {size} bytes")
    start = take(_START.size)
    magic, version, length = _START.unpack(start)
    if magic != MAGIC:
        broken("was not written by bmcd, or a transfer as text has changed it")
    if version != FORMAT:
        broken(f"has format {version}, but this version of bmcd reads format {FORMAT}")
    if length > min(MAX_HEADER, size - _START.size - _HASH_BYTES):
        broken(f"is damaged: a header of {length:,} bytes does not fit (file: {size:,}, limit: {MAX_HEADER:,})")
    text = take(length)
    try:
        header = json.loads(text.decode(), object_pairs_hook=_no_duplicates, parse_constant=_no_constant)
        shapes = _check_header(header, kind)
    except (ValueError, RecursionError) as error:
        broken(f"is damaged: {str(error)[:300]}")
    expected = size - _START.size - length - _HASH_BYTES
    described = sum(math.prod(shape) * dtype.itemsize for dtype, shape in shapes.values())
    if described != expected:
        where = "is cut short" if described > expected else "has bytes too many"
        broken(f"{where}: its arrays need {described:,} bytes and there are {expected:,}")
    sha.update(start)
    sha.update(text)
    arrays = {}
    for name, (dtype, shape) in shapes.items():
        array = np.empty(shape, dtype)
        if file.readinto(_bytes_of(array)) != array.nbytes:  # type: ignore[attr-defined]
            broken("became shorter while it was read")
        sha.update(_bytes_of(array))
        arrays[name] = array
    if sha.digest() != take(_HASH_BYTES):
        broken("is damaged: its bytes do not have the hash that was written with them")
    del header["arrays"]
    return Stored(path, header, arrays)


def _check_header(header: Any, kind: str | None) -> dict[str, tuple[np.dtype[Any], tuple[int, ...]]]:
    """The dtypes and shapes of the arrays, or ValueError."""
    if not isinstance(header, dict) or header.keys() != {*HEADER, "arrays"}:
        keys = sorted(header) if isinstance(header, dict) else type(header).__name__
        raise ValueError(f"the header must have the keys {sorted({*HEADER, 'arrays'})}, not {keys}")
    for key, kind_of_value in HEADER.items():
        if not isinstance(header[key], kind_of_value) or isinstance(header[key], bool):
            raise ValueError(f"{key} in the header must be {kind_of_value.__name__}, not {header[key]!r}")
    if header["kind"] not in KINDS or (kind is not None and header["kind"] != kind):
        raise ValueError(f"it holds {header['kind']!r}, not {kind or ' or '.join(KINDS)!r}")
    if not isinstance(header["arrays"], list):
        raise ValueError("arrays in the header must be a list")
    shapes: dict[str, tuple[np.dtype[Any], tuple[int, ...]]] = {}
    for entry in header["arrays"]:
        if not (isinstance(entry, list) and len(entry) == 3):
            raise ValueError(f"an array must be described by name, dtype and shape, not {entry!r}")
        name, dtype, shape = entry
        if not (isinstance(name, str) and _NAME.fullmatch(name)) or name in shapes:
            raise ValueError(f"array name {name!r} is not allowed, or there twice")
        if not (isinstance(dtype, str) and dtype in DTYPES):
            raise ValueError(f"array {name} has dtype {dtype!r}; allowed are {', '.join(DTYPES)}")
        # type() and not isinstance(): True is an int too.
        if not (isinstance(shape, list) and len(shape) <= 8 and all(type(n) is int and n >= 0 for n in shape)):
            raise ValueError(f"array {name} has shape {shape!r}")
        if math.prod(max(n, 1) for n in shape) >= 2**56:  # even an empty array must have a size NumPy can count
            raise ValueError(f"array {name} of shape {shape} is larger than any file")
        shapes[name] = np.dtype(dtype), tuple(shape)
    return shapes


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(dict(pairs)) != len(pairs):
        raise ValueError("a key stands twice in the header")
    return dict(pairs)


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not allowed in the header")
