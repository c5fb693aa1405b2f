"""Kernels: compiled once, kept where they can be, never stale; tested in processes of their own."""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

import bmcd
from bmcd import compiling
from bmcd.compiling import forget_stale_kernels

NOBODY = 65534
# What needs Python's own library is imported first: the folder it lies in may be root's alone. No kernel is.
BECOME_NOBODY = f"""
import concurrent.futures.thread, json, os, sys, tempfile, numba, pandas, scipy.stats, bmcd.cli.doctor
os.setgroups([])
os.setgid({NOBODY})
os.setuid({NOBODY})
"""
CODE = """
if sys.argv[1:] == ["no temporary files"]:
    tempfile.tempdir = "/nonexistent"
assert "bmcd.compiling" not in sys.modules
value = bmcd.mallows.kendall([1, 2, 3], [3, 1, 2])
from bmcd.cli.doctor import check_compiled
from bmcd.compiling import CACHE
print(json.dumps([int(value), CACHE.kind, str(CACHE.folder), *check_compiled()]))
"""


def as_nobody(folder, *arguments, code=CODE, **environment):
    own = {name: value for name, value in os.environ.items() if not name.startswith(("NUMBA_", "XDG_", "BMCD_"))}
    own |= {"HOME": "/nonexistent", "TMPDIR": str(folder), "PYTHONPATH": str(Path(bmcd.__file__).parents[1])}
    command = [sys.executable, "-c", BECOME_NOBODY + code, *arguments]
    return subprocess.run(command, env=own | environment, cwd="/", capture_output=True, text=True, check=False)


@pytest.fixture
def tmp_path():
    """Return a folder that other users can enter; those that pytest makes they cannot."""
    roots = [Path(name).resolve() for name in (tempfile.gettempdir(), "/var/tmp")]
    open_to_all = [root for root in roots if all(part.stat().st_mode & 0o001 for part in (root, *root.parents))]
    assert open_to_all, f"other users can enter neither of {roots}"
    with tempfile.TemporaryDirectory(dir=open_to_all[0]) as made:
        Path(made).chmod(0o711)
        yield Path(made)


@pytest.fixture
def folder(tmp_path):
    """Return a folder of nobody's, in a process that can start one of nobody's."""
    if not hasattr(os, "getuid") or os.getuid() != 0:
        pytest.skip("only root can start a process as another user")
    (own := tmp_path / "own").mkdir()
    os.chown(own, NOBODY, NOBODY)
    inside = Path(bmcd.__file__).parent / "x"
    refused = as_nobody(own, code=f"open({str(inside)!r}, 'w')")
    assert "PermissionError" in refused.stderr
    return own


def answer(done):
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.root
def test_a_temporary_folder_where_nothing_else_can_be_written(folder):
    first = as_nobody(folder)
    value, kind, where, state, text, advice = answer(first)
    assert value == 2
    assert (kind, where) == ("temporary", str(folder / f"bmcd-kernels-{NOBODY}"))
    assert first.stderr.count("compiling") == 1
    assert f"kept in {where} for now" in first.stderr
    assert "NUMBA_CACHE_DIR" in first.stderr
    assert state == "note"
    assert "temporary folder" in text
    assert "NUMBA_CACHE_DIR" in advice
    assert oct(Path(where).stat().st_mode)[-3:] == "700"
    second = as_nobody(folder)
    assert answer(second)[:3] == [value, kind, where]
    assert second.stderr == ""


@pytest.mark.root
def test_a_room_that_nothing_else_has_prepared(folder):
    """Whatever is imported first: rates and races are used by commands that need no sampler."""
    code = "import bmcd.inference.arrivals\nprint(json.dumps(os.environ['NUMBA_CACHE_DIR']))"
    assert answer(as_nobody(folder, code=code)) == str(folder / f"bmcd-kernels-{NOBODY}")


def test_the_cache_is_chosen_before_any_kernel():
    package = Path(bmcd.__file__).parent
    chooses = "import bmcd.compiling"
    with_kernels = [path for path in package.rglob("*.py") if "\nimport numba" in path.read_text()]
    assert len(with_kernels) > 20
    for path in with_kernels:
        rooms = [room / "__init__.py" for room in path.parents if package in room.parents]
        assert chooses in "".join(file.read_text() for file in [*rooms, path]), path


@pytest.mark.root
def test_no_folder_at_all(folder):
    found = as_nobody(folder, "no temporary files")
    value, kind, _, state, text, _ = answer(found)
    assert value == 2
    assert (kind, state) == ("none", "note")
    assert "every start compiles again" in text
    assert "at every start" in found.stderr


@pytest.mark.root
def test_kernelscheck_compiled_in_advance_are_used_from_a_folder_that_cannot_be_written(folder, tmp_path):
    given = tmp_path / "given"
    given.mkdir()
    code = "import bmcd; bmcd.mallows.kendall([1, 2, 3], [3, 1, 2])"
    subprocess.run([sys.executable, "-c", code], env=os.environ | {"NUMBA_CACHE_DIR": str(given)}, check=True)
    found = as_nobody(folder, NUMBA_CACHE_DIR=str(given))
    assert answer(found)[1:3] == ["temporary", str(folder / f"bmcd-kernels-{NOBODY}")]
    assert "compiling" not in found.stderr


@pytest.mark.root
def test_a_folder_that_others_can_write_is_not_trusted(folder):
    """Numba's files are pickles: whoever can put one there can run code as us."""
    planted = folder / f"bmcd-kernels-{NOBODY}"
    planted.mkdir()
    os.chown(planted, NOBODY, NOBODY)
    planted.chmod(0o777)
    where = Path(answer(as_nobody(folder))[2])
    assert where != planted
    assert where.name.startswith("bmcd-kernels-")
    assert not where.exists()  # it went with its process
    assert list(planted.iterdir()) == []


@pytest.mark.root
@pytest.mark.parametrize(
    "mode", [0o777, pytest.param(0o775, marks=pytest.mark.deep), pytest.param(0o1777, marks=pytest.mark.deep)]
)
def test_a_given_folder_that_others_can_write_is_refused(folder, mode):
    given = folder.parent / "given"
    given.mkdir()
    os.chown(given, NOBODY, 0)
    given.chmod(mode)
    found = as_nobody(folder, NUMBA_CACHE_DIR=str(given))
    assert answer(found)[1:3] == ["temporary", str(folder / f"bmcd-kernels-{NOBODY}")]
    assert f"NUMBA_CACHE_DIR={given} is not used: others can write {given}" in found.stderr
    assert list(given.iterdir()) == []


def test_a_given_folder_is_refused_for_what_is_above_and_in_it(tmp_path):
    given = tmp_path / "given"
    inside = given / "mallows_0123"
    inside.mkdir(parents=True)
    assert compiling.why_not_trusted(given) == ""
    assert compiling.why_not_trusted(tmp_path / "not there") == ""
    (inside / "kernel.nbi").touch()
    for path, mode in ((inside / "kernel.nbi", 0o666), (inside, 0o777), (tmp_path, 0o777)):
        before = path.stat().st_mode
        path.chmod(mode)
        assert compiling.why_not_trusted(given) == f"others can write {path}"
        path.chmod(before)
    if os.getuid() == 0:
        os.chown(inside / "kernel.nbi", NOBODY, 0)
        assert f"belongs to user {NOBODY}" in compiling.why_not_trusted(given)


def run(code, **environment):
    done = subprocess.run(
        [sys.executable, "-c", code], env=os.environ | environment, capture_output=True, text=True, check=True
    )
    return done.stdout, done.stderr


def test_says_once_that_it_compiles_and_then_never_again(tmp_path):
    code = "import bmcd; print(bmcd.mallows.log_partition(5, 1.0)); print(bmcd.mallows.log_partition(6, 1.0))"
    first, second = (run(code, NUMBA_CACHE_DIR=str(tmp_path), BMCD_QUIET="") for _ in range(2))
    assert first[0] == second[0]
    assert first[1].count("compiling") == 1
    assert second[1] == ""


def test_can_be_told_to_keep_quiet(tmp_path):
    code = "import bmcd; bmcd.mallows.log_partition(5, 1.0)"
    assert run(code, NUMBA_CACHE_DIR=str(tmp_path), BMCD_QUIET="1") == ("", "")


def test_importing_bmcd_loads_nothing_heavy():
    loaded = run("import bmcd, sys; print(*sys.modules)")[0].split()
    assert not {"jinja2", "numba", "numpy", "scipy", "pandas", "pyarrow"} & set(loaded)


def test_kernels_older_than_their_sources_are_forgotten(tmp_path):
    """A callee's file counts, also one without kernels beside it; a file at the top without kernels does not."""
    sub = tmp_path / "sub"
    for folder in (tmp_path, sub):
        (folder / "__pycache__").mkdir(parents=True)
    kernels = [
        tmp_path / "__pycache__" / "streams.draw-1.py311.nbi",
        sub / "__pycache__" / "moves.move-7.py311.nbi",
    ]
    files = [tmp_path / "streams.py", tmp_path / "cli.py", sub / "moves.py", sub / "constants.py"]
    now = time.time_ns()
    for file in (*files, *kernels):
        file.touch()
        os.utime(file, ns=(now, now))
    assert forget_stale_kernels(tmp_path) == 0
    os.utime(tmp_path / "cli.py", ns=(now + 1, now + 1))
    assert forget_stale_kernels(tmp_path) == 0
    os.utime(sub / "constants.py", ns=(now + 1, now + 1))
    assert forget_stale_kernels(tmp_path) == 2
    assert not any(kernel.exists() for kernel in kernels)


@pytest.mark.deep  # two minutes of compiling
def test_kernelscheck_compiled_just_now_and_those_read_from_disk_give_the_same_bytes(tmp_path):
    """Sums that may be reordered are reordered otherwise where they are compiled into their callers."""
    code = """
import hashlib, warnings, bmcd
warnings.simplefilter("ignore")
clicks = bmcd.simulate(100, 30, consensuses=2, alpha=5.0, mean_clicks=6.0, seed=3).clicks
for model in (bmcd.BMCD(2), bmcd.Tastes(4)):
    model.fit(clicks, draws=3, warmup=4, chains=2, progress=False)
    print(hashlib.sha256(model.probabilities(5).tobytes() + model.draws_.alpha.tobytes()).hexdigest())
"""
    first, second = (run(code, NUMBA_CACHE_DIR=str(tmp_path))[0] for _ in range(2))
    assert first == second
