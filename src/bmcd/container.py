r"""Files of arrays and JSON that are safe to open: safetensors, with a checksum over the whole file.

The file is one that any reader of safetensors opens. Its metadata has a single entry, ``bmcd 3`` (3 is the number
of the format), whose value is JSON: first the checksum, then the kind of the file and its header. The checksum is
the sha256 of the file with 64 zeros in place of the checksum.

Nothing in such a file is ever run. A damaged or hostile file costs at most a small multiple of its size in memory,
and JSON of at most `MAX_HEADER` bytes. What header and arrays mean is checked by the reader.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
import shutil
import stat
import struct
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import numpy as np
import safetensors
import safetensors.numpy
from numpy.typing import NDArray

from bmcd.errors import StoreError
from bmcd.files import replacement

FORMAT = 3
MAX_HEADER = 2**21
DTYPES = {
    "F64": "<f8", "F32": "<f4", "I64": "<i8", "I32": "<i4", "I16": "<i2", "I8": "|i1", "U8": "|u1", "U16": "<u2",
    "U32": "<u4", "U64": "<u8", "BOOL": "|b1",
}  # fmt: skip
_NAME = re.compile(r"[A-Za-z0-9_./-]{1,100}")
_LENGTH = struct.Struct("<Q")
# How every file begins, after the length of its header.
_BEGINNING = re.compile(rb'\{"__metadata__":\{"bmcd (\d{1,9})":"\{\\"sha256\\":\\"([0-9a-f]{64})\\",')
_NO_CHECKSUM = "0" * 64
_FORMAT_1 = b"BMCD\r\n\x1a\n"  # of bmcd 0.1 and 0.2


class Stored(NamedTuple):
    """What a file holds."""

    path: Path
    header: dict[str, Any]
    arrays: dict[str, NDArray[Any]]


def write(
    path: str | Path,
    kind: str,
    header: Mapping[str, Any],
    arrays: Mapping[str, NDArray[Any]],
    *,
    private: bool = False,
    before_rename: Callable[[], None] | None = None,
) -> None:
    """Write a file so that at every moment either the old or the new one is there, complete; else `StoreError`.

    ``private`` and ``before_rename`` are those of `bmcd.files.replacement`.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write(f"{folder}/a.bmcd", "model", {"seed": 0}, {"alpha": np.array([1.5])})
    ...     read(f"{folder}/a.bmcd", "model").arrays["alpha"].tolist()
    [1.5]
    """
    path, content = Path(path), _content(kind, header, arrays)
    _, (first, last) = _beginning(content)
    sha = hashlib.sha256(content).hexdigest().encode()
    try:
        with replacement(path, private=private, before_rename=before_rename) as file:
            file.writelines([memoryview(content)[:first], sha, memoryview(content)[last:]])
    except OSError as error:
        room = ""
        with contextlib.suppress(OSError):
            room = f" ({shutil.disk_usage(path.parent).free:,} bytes are free there)"
        raise StoreError(
            f"{path}: cannot be written: {error.strerror or error}{room}. Make room, or give a path in another "
            "folder. What was there before is still there."
        ) from error


def read(path: str | Path, kind: str) -> Stored:
    """Read a file of that kind, or raise `StoreError`."""
    path = Path(path)
    try:
        about = path.stat()
        if not stat.S_ISREG(about.st_mode):  # opening a pipe would wait forever
            raise StoreError(f"{path}: is not a file.")
        with path.open("rb") as file:
            # The whole file at once: mapped memory would crash if another process made the file shorter.
            start = file.read(min(about.st_size, _LENGTH.size + MAX_HEADER))
            first, last = _check_start(start, about.st_size, path)
            file.seek(0)
            content = file.read()
    except OSError as error:
        raise StoreError(f"{path}: cannot be read: {error.strerror or error}.") from error
    sha = hashlib.sha256(content[:first] + _NO_CHECKSUM.encode())
    sha.update(memoryview(content)[last:])
    if sha.hexdigest().encode() != content[first:last]:
        _refuse(path, "is damaged or cut short: its bytes do not have the checksum that was written with them")
    try:
        return Stored(path, _header(content, kind), _arrays(content))
    except (ValueError, TypeError, KeyError, RecursionError, safetensors.SafetensorError) as error:
        _refuse(path, f"is damaged: {str(error)[:300]}")


def _content(kind: str, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> bytes:
    """Return the file with zeros in place of the checksum; ValueError or TypeError for what could not be read."""
    text = json.dumps(
        {"sha256": _NO_CHECKSUM, "kind": kind, "header": header}, allow_nan=False, separators=(",", ":")
    )
    ready = {name: np.asarray(a, a.dtype.newbyteorder("<"), order="C") for name, a in arrays.items()}
    for name, array in ready.items():
        if not _NAME.fullmatch(name) or array.dtype.str not in DTYPES.values():
            raise ValueError(f"array {name!r} with dtype {array.dtype} cannot be stored")
    content: bytes = safetensors.numpy.save(ready, {f"bmcd {FORMAT}": text})
    if (length := _LENGTH.unpack_from(content)[0]) > MAX_HEADER:
        raise ValueError(f"the header has {length:,} bytes, more than the {MAX_HEADER:,} a file may have")
    return content


def _beginning(content: bytes) -> tuple[int, tuple[int, int]]:
    """Return the number of the format, and where the checksum stands; ValueError for other files."""
    found = _BEGINNING.match(content, _LENGTH.size)
    if found is None:
        raise ValueError("is not a file of bmcd")
    return int(found[1]), found.span(2)


def _check_start(start: bytes, size: int, path: Path) -> tuple[int, int]:
    """Return where the checksum stands; raise `StoreError` if the start of the file is not one of this format."""
    if start.startswith(_FORMAT_1):
        _refuse(path, "was written by bmcd 0.2 or earlier, and this version does not read such files: fit again")
    if size <= _LENGTH.size:
        _refuse(path, f"is cut short or was not written by bmcd: it has only {size} bytes")
    try:
        version, checksum = _beginning(start)
    except ValueError:
        _refuse(path, "was not written by bmcd, is cut short, or was changed by a transfer as text")
    if version != FORMAT:
        _refuse(path, f"has format {version}, but this version of bmcd reads format {FORMAT}: fit again")
    if (length := _LENGTH.unpack_from(start)[0]) > min(MAX_HEADER, size - _LENGTH.size):
        _refuse(
            path, f"is damaged: a header of {length:,} bytes does not fit (file: {size:,}, limit: {MAX_HEADER:,})"
        )
    return checksum


def _header(content: bytes, kind: str) -> dict[str, Any]:
    length = _LENGTH.unpack_from(content)[0]
    metadata = _parsed(content[_LENGTH.size : _LENGTH.size + length])["__metadata__"]
    found = _parsed(metadata[f"bmcd {FORMAT}"])
    if len(metadata) != 1 or found.keys() != {"sha256", "kind", "header"} or not isinstance(found["header"], dict):
        raise ValueError("its metadata must be a checksum, a kind and a header")
    if found["kind"] != kind:
        raise ValueError(f"it holds a {str(found['kind'])[:50]!r}, not a {kind!r}")
    return dict(found["header"])


def _arrays(content: bytes) -> dict[str, NDArray[Any]]:
    arrays: dict[str, NDArray[Any]] = {}
    for name, about in safetensors.deserialize(content):
        if not _NAME.fullmatch(name) or about["dtype"] not in DTYPES:
            raise ValueError(f"array {name[:100]!r} has the dtype {about['dtype']}")
        flat = np.frombuffer(about["data"], DTYPES[about["dtype"]])
        if flat.dtype == np.bool_ and (flat.view(np.uint8) > 1).any():
            raise ValueError(f"array {name} has truth values that are neither 0 nor 1")
        arrays[name] = flat.reshape(about["shape"])
    return arrays


def _refuse(path: Path, what: str) -> NoReturn:
    raise StoreError(f"{path}: {what}.")


def _parsed(text: str | bytes) -> Any:
    return json.loads(text, object_pairs_hook=_no_duplicates, parse_constant=_no_constant)


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(dict(pairs)) != len(pairs):
        raise ValueError("a key stands twice in the header")
    return dict(pairs)


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not allowed in the header")
