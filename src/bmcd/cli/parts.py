"""A large table in parts beside the file it becomes, so that a command that was stopped can go on."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from bmcd.cli.output import open_table
from bmcd.errors import OutputError
from bmcd.files import write_json
from bmcd.progress import counting

FACTS = "what.json"


def fingerprint(model: Path, facts: dict[str, Any]) -> str:
    """Return what tells one table from another: the model file and all that was asked of it.

    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile() as file:
    ...     len(fingerprint(Path(file.name), {"k": 5}))
    64
    """
    with model.open("rb") as file:
        sha = hashlib.file_digest(file, "sha256")
    sha.update(json.dumps(facts, sort_keys=True, default=str).encode(errors="surrogatepass"))
    return sha.hexdigest()


def write_in_parts(
    target: Path,
    some: Callable[..., Any],
    users: Sequence[Any],
    size: int,
    of: str,
    text: Iterable[str],
    *,
    raw: bool = False,
) -> tuple[int, int]:
    """Write the rows of all users, ``size`` of them at a time; return rows, and users found from an earlier run.

    Each part is a file of its own in a folder beside the target. If that folder is there, left by a run of the same
    (``of``), its parts are not made again; those of another run are removed. When all parts are there they become
    the target, and the folder goes.
    """
    folder, text = target.with_name(target.name + ".parts"), list(text)
    if folder.exists() and not (folder / FACTS).exists() and any(folder.iterdir()):
        raise OutputError(f"{folder}: is in the way, and is not ours. Move it, or give another output.")
    if not _is_of(folder, of):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        write_json(folder / FACTS, {"of": of})
    paths = [folder / f"{first:012}.parquet" for first in range(0, len(users), size)]
    found = sum(min(size, len(users) - number * size) for number, path in enumerate(paths) if path.exists())
    last = 0
    try:
        with counting(None, "users", len(users)) as show:
            for number, path in enumerate(paths):
                first, last = number * size, min((number + 1) * size, len(users))
                if not path.exists():
                    with open_table(path, text) as write:
                        write(some(first, last, progress=False))
                show(last)
    except KeyboardInterrupt as stop:
        raise KeyboardInterrupt(
            f"stopped by Ctrl-C. {folder} has what was done; run the same command again to go on."
        ) from stop
    n_rows = _join(target, paths, text, raw)
    shutil.rmtree(folder)
    return n_rows, found


def _is_of(folder: Path, of: str) -> bool:
    try:
        return bool(json.loads((folder / FACTS).read_text(encoding="utf-8"))["of"] == of)
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _join(target: Path, paths: list[Path], text: list[str], raw: bool) -> int:
    import pandas as pd

    n_rows = 0
    with open_table(target, text, raw=raw) as write:
        for path in paths:
            part = pd.read_parquet(path)
            n_rows += len(part)
            write(part)
    return n_rows
