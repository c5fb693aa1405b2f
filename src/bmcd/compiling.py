"""Compiled kernels: where they are kept, a notice while numba compiles, and the removal of stale ones.

Numba compiles a kernel at its first call and keeps it in the folder NUMBA_CACHE_DIR, beside the sources, or in the
user's cache folder. Where none of these can be written, as in a container with a read-only disk, it refuses to
define a kernel; then a folder below that for temporary files is used, or kernels are compiled at every start.
Numba's files are pickles, which run as code: a folder in which other users can write is not used.

Numba checks only the file of the kernel itself, not the files of the kernels it calls. So kernels older than any
source they may depend on are removed.
"""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import os
import shutil
import stat
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any, Literal, NamedTuple

from numba.core import config, event
from numba.core.dispatcher import Dispatcher
from numba.misc.appdirs import AppDirs

from bmcd.errors import StoreWarning
from bmcd.progress import QUIET

PACKAGE = Path(__file__).parent
VARIABLE = "NUMBA_CACHE_DIR"
ADVICE = f"Set {VARIABLE} to a permanent folder that only this user can write (chmod go-w)."


class KernelCache(NamedTuple):
    """Where compiled kernels are kept in this process."""

    kind: Literal["usual", "temporary", "none"]
    folder: Path | None
    """NUMBA_CACHE_DIR or the temporary folder; None for numba's own choice, and where there is none."""

    def remark(self) -> str:
        """Return how long newly compiled kernels will last, for a user who waits for them."""
        if self.kind == "usual":
            return "once; up to a minute, then kept on disk"
        if self.kind == "temporary":
            return f"up to a minute; kept in {self.folder} for now; {VARIABLE} may name a permanent folder"
        return f"up to a minute, at every start: no folder can be written; {VARIABLE} may name one"


def choose_cache() -> KernelCache:
    """Make sure that numba can define cached kernels; to be called before the first definition."""
    given = os.environ.get(VARIABLE)
    reason = why_not_trusted(Path(given)) if given else ""
    if reason:
        message = f"{VARIABLE}={given} is not used: {reason}, and files there run as code. {ADVICE}"
        warnings.warn(message, StoreWarning, stacklevel=2)
    elif is_writable(Path(given)) if given else _can_keep_beside_sources() or is_writable(user_folder()):
        return KernelCache("usual", Path(given) if given else None)
    folder = _temporary_folder()
    if folder is None:
        Dispatcher.enable_caching = lambda self: None  # without a folder it would raise an error
        return KernelCache("none", None)
    if given and not reason:  # kernels compiled in advance, on a read-only disk
        with contextlib.suppress(OSError):  # what cannot be copied is compiled
            for kept in Path(given).iterdir():
                if not (folder / kept.name).exists():
                    shutil.copytree(kept, folder / kept.name)
    os.environ[VARIABLE] = str(folder)  # also for child processes
    config.reload_config()
    return KernelCache("temporary", folder)


def user_folder() -> Path:
    """Return the user's cache folder, which numba takes where it cannot write beside the sources."""
    return Path(AppDirs(appname="numba", appauthor=False).user_cache_dir)


def is_writable(folder: Path) -> bool:
    """Return whether files can be written into the folder; it is created if it is missing."""
    try:
        folder.mkdir(mode=0o755, parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


def why_not_trusted(folder: Path) -> str:
    """Return who else could put kernels into the folder or replace it, or an empty text."""
    if not hasattr(os, "getuid"):
        return ""
    folder = Path(os.path.realpath(folder))
    for path in (*folder.parents[::-1], folder, *folder.glob("*_*"), *folder.glob("*_*/*")):
        with contextlib.suppress(OSError):  # missing
            found = path.lstat()
            if found.st_uid not in (0, os.getuid()):
                return f"{path} belongs to user {found.st_uid}"
            protected = path in folder.parents and found.st_mode & stat.S_ISVTX
            others = 0o022
            if found.st_mode & others and not stat.S_ISLNK(found.st_mode) and not protected:
                return f"others can write {path}"
    return ""


def forget_stale_kernels(package: Path = PACKAGE) -> int:
    """Remove compiled kernels older than a source they may depend on, and return their number.

    These sources are the files with kernels and, since kernels also use constants, every file of a subpackage
    with kernels.
    """
    elsewhere = [CACHE.folder or user_folder()]
    kernels: dict[Path, Path] = {}
    for source in _source_folders(package):
        # The name that numba gives to a folder of kernels outside of the sources.
        name = f"{source.name}_{hashlib.sha1(str(source.absolute()).encode()).hexdigest()}"
        for folder in (source / "__pycache__", *(base / name for base in elsewhere)):
            kernels |= dict.fromkeys(folder.glob("*.nbi"), source)
    sources: set[Path] = set()
    for index, source in kernels.items():
        sources.update([source / f"{index.name.split('.')[0]}.py"] if source == package else source.glob("*.py"))
    newest = max((path.stat().st_mtime_ns for path in sources if path.exists()), default=0)
    n_removed = 0
    for index in kernels:
        # Another process may have removed it, or the folder may be read-only: then only numba's own check is left.
        with contextlib.suppress(OSError):
            if index.stat().st_mtime_ns < newest:
                index.unlink()
                n_removed += 1
    return n_removed


def _source_folders(package: Path) -> list[Path]:
    return [Path(folder) for folder, _, files in os.walk(package) if any(name.endswith(".py") for name in files)]


def _can_keep_beside_sources() -> bool:
    # At every start, so nothing is written to find out.
    kept = (folder / "__pycache__" for folder in _source_folders(PACKAGE))
    return all(os.access(folder if folder.exists() else folder.parent, os.W_OK) for folder in kept)


def _temporary_folder() -> Path | None:
    """Return a folder that only this user can enter: the same for every process, else one for this process."""
    try:
        shared = Path(tempfile.gettempdir()) / f"bmcd-kernels-{os.getuid() if hasattr(os, 'getuid') else 'user'}"
        shared.mkdir(mode=0o700, exist_ok=True)
        found = shared.lstat()
        ours = hasattr(os, "getuid") and found.st_uid == os.getuid() and not found.st_mode & 0o077
        if ours and stat.S_ISDIR(found.st_mode) and is_writable(shared):
            return shared
    except OSError:
        pass
    try:
        own = tempfile.mkdtemp(prefix="bmcd-kernels-")
    except OSError:
        return None
    atexit.register(shutil.rmtree, own, ignore_errors=True)
    return Path(own)


class _Notice(event.Listener):  # type: ignore[misc]  # numba has no types
    """Prints one line at the first compilation of a kernel of this package, unless BMCD_QUIET is set."""

    printed = False

    def on_start(self, event: Any) -> None:
        ours = event.data["dispatcher"].py_func.__module__.startswith("bmcd.")
        if ours and not self.printed and not os.environ.get(QUIET):
            self.printed = True
            print(f"bmcd: compiling for this machine ({CACHE.remark()}) ...", file=sys.stderr, flush=True)

    def on_end(self, event: Any) -> None:
        pass


CACHE = choose_cache()
event.register("numba:compile", _Notice())
forget_stale_kernels()
