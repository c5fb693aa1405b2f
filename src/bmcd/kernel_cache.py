"""Where compiled kernels are kept: where numba keeps them, or, if nothing can be written there, a temporary folder.

Numba keeps them in the folder NUMBA_CACHE_DIR, beside the sources, or in the user's cache folder, and without any
of these it refuses to define a kernel. A container with a read-only disk, whose user has no home, has none of them.
Then a folder below that for temporary files is used, which only this user can read: numba's files are pickles, so
nobody else may put some there. Where not even that can be written, kernels are compiled at every start.

For the same reason a folder of NUMBA_CACHE_DIR that others can write is not used.
"""

from __future__ import annotations

import atexit
import hashlib
import os
import shutil
import stat
import tempfile
import warnings
from pathlib import Path
from typing import Literal, NamedTuple

from numba.core import config
from numba.core.dispatcher import Dispatcher
from numba.misc.appdirs import AppDirs

from bmcd.errors import StoreWarning

PACKAGE = Path(__file__).parent
VARIABLE = "NUMBA_CACHE_DIR"
WHERE_TO_KEEP = f"{VARIABLE} may name a folder that stays"
ADVICE = f"Set {VARIABLE} to a folder that stays and that only this user can write (chmod go-w)."


class KernelCache(NamedTuple):
    """Where compiled kernels are kept in this process."""

    kind: Literal["usual", "temporary", "none"]
    folder: Path | None
    """That of NUMBA_CACHE_DIR or the temporary one; None for numba's own choice, and where there is none."""

    def remark(self) -> str:
        """Return how long what is compiled now will last, for a person who waits for it."""
        if self.kind == "usual":
            return "once; up to a minute, then kept on disk"
        if self.kind == "temporary":
            return f"up to a minute; kept in {self.folder} for now, {WHERE_TO_KEEP}"
        return f"up to a minute, and again at every start: no folder can be written; {WHERE_TO_KEEP}"


def choose_cache() -> KernelCache:
    """Make sure that kernels can be defined, before the first one is."""
    given, why = os.environ.get(VARIABLE), ""
    if given and (why := why_not_trusted(Path(given))):
        warnings.warn(
            f"{VARIABLE}={given} is not used: {why}, and files there run as code. {ADVICE}",
            StoreWarning,
            stacklevel=2,
        )
    elif given and is_writable(Path(given)):
        return KernelCache("usual", Path(given))
    if not given and (_is_tree_writable() or is_writable(user_folder())):
        return KernelCache("usual", None)
    folder = _temporary_folder()
    if folder is None:
        _compile_without_keeping()
        return KernelCache("none", None)
    if given and not why:
        _copy_kernels(Path(given), folder)
    os.environ[VARIABLE] = str(folder)  # for the processes that this one starts, too
    config.reload_config()
    return KernelCache("temporary", folder)


def kept_folders(cache: KernelCache, package: Path = PACKAGE) -> dict[Path, Path]:
    """Return the folders that may have kernels of the package, each with the folder of its sources."""
    sources = _source_folders(package)
    folders = {source / "__pycache__": source for source in sources}
    elsewhere = cache.folder or user_folder()
    return folders | {elsewhere / _subfolder(source): source for source in sources}


def user_folder() -> Path:
    """Return the user's cache folder, which numba takes where it cannot write beside the sources."""
    return Path(AppDirs(appname="numba", appauthor=False).user_cache_dir)


def is_writable(folder: Path) -> bool:
    """Whether files can be written into the folder, which is made if it is not there."""
    try:
        folder.mkdir(mode=0o755, parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


def why_not_trusted(folder: Path) -> str:
    """Return who else could put kernels into the folder, or an empty text.

    Looked at are the folder, those it is in (which could be renamed), and the kernels of the package in it.
    """
    if not hasattr(os, "getuid"):
        return ""
    folder = Path(os.path.realpath(folder))
    inside = [folder / _subfolder(source) for source in _source_folders(PACKAGE)]
    files = [path for kept in inside if kept.is_dir() for path in kept.iterdir()]
    for path in (*folder.parents[::-1], folder, *inside, *files):
        try:
            found = path.lstat()
        except OSError:  # not there yet, or gone
            continue
        if found.st_uid not in (0, os.getuid()):
            return f"{path} belongs to user {found.st_uid}"
        keeps_others_files = path in folder.parents and found.st_mode & stat.S_ISVTX
        others = 0o002 if _is_own_group(found.st_gid) else 0o022
        if found.st_mode & others and not stat.S_ISLNK(found.st_mode) and not keeps_others_files:
            return f"others can write {path}"
    return ""


def _is_own_group(number: int) -> bool:
    """Whether a group has no member but this user."""
    import grp
    import pwd

    try:
        group, user = grp.getgrgid(number), pwd.getpwuid(os.getuid())
    except KeyError:
        return False
    return group.gr_name == user.pw_name and number == user.pw_gid and set(group.gr_mem) <= {user.pw_name}


def _is_tree_writable() -> bool:
    """Whether kernels can be kept beside the sources; asked at every start, so nothing is written to find out."""
    kept = (folder / "__pycache__" for folder in _source_folders(PACKAGE))
    return all(os.access(folder if folder.exists() else folder.parent, os.W_OK) for folder in kept)


def _source_folders(package: Path) -> list[Path]:
    return [Path(folder) for folder, _, files in os.walk(package) if any(name.endswith(".py") for name in files)]


def _subfolder(sources: Path) -> str:
    """Return the name that numba gives the kernels of a folder of sources, outside of that folder."""
    return f"{sources.name}_{hashlib.sha1(str(sources.absolute()).encode()).hexdigest()}"


def _temporary_folder() -> Path | None:
    """Return a folder of this user alone, the same for every process, or one that goes with this process."""
    try:
        base = Path(tempfile.gettempdir())
    except OSError:
        return None
    if hasattr(os, "getuid"):
        shared = base / f"bmcd-kernels-{os.getuid()}"
        if _is_ours_alone(shared) and is_writable(shared):
            return shared
    try:
        own = tempfile.mkdtemp(prefix="bmcd-kernels-")
    except OSError:
        return None
    atexit.register(shutil.rmtree, own, ignore_errors=True)
    return Path(own)


def _is_ours_alone(folder: Path) -> bool:
    """Whether the folder, made if it is not there, is a real one that nobody else can write or read."""
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o077


def _copy_kernels(given: Path, folder: Path) -> None:
    """Copy kernels that were compiled in advance, with their times, unless they are there already."""
    for source in _source_folders(PACKAGE):
        name = _subfolder(source)
        try:
            if (given / name).is_dir() and not (folder / name).exists():
                shutil.copytree(given / name, folder / name)
        except OSError:  # of which shutil.Error is one: what could not be copied is compiled
            continue


def _compile_without_keeping() -> None:
    usual = Dispatcher.enable_caching

    def enable_caching(self: Dispatcher) -> None:
        if not self.py_func.__module__.startswith("bmcd."):
            usual(self)

    Dispatcher.enable_caching = enable_caching
