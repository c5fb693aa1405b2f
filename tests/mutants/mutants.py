"""Copies of bmcd with a bug put in on purpose, and what the tests say to them.

``python tests/mutants/mutants.py`` prints which tests notice which bug, as a table: an hour of processor time.
"""

import argparse
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
SEED = 1  # with rotating seeds a kill near the limit would come and go

# What can notice a bug, by sampler: name of the kind of test -> tests.
TESTS = {
    "paper": {
        "ratios": ["tests/inference/paper/test_paper_moves.py"],
        "kept distances": ["tests/inference/paper/test_paper_sampler.py::test_distances_are_kept_and_runs_resume"],
        "twin": ["tests/inference/paper/test_paper_twin.py"],
        "posterior": ["tests/inference/paper/test_paper_sampler.py::test_exact_posterior"],
    },
    "exact": {
        "ratios": ["tests/inference/bmcd/test_exact_moves.py"],
        "twin": ["tests/inference/bmcd/test_exact_twin.py"],
        "posterior": ["tests/statistical/test_exact_posterior.py::test_every_probability"],
        "Geweke": ["tests/statistical/test_geweke.py::test_the_prior_comes_back"],
        "calibration": ["tests/statistical/test_calibration_of_the_sampler.py::test_the_truth_ranks_uniformly"],
    },
    "tastes": {
        "ratios": ["tests/inference/tastes/test_taste_moves.py", "tests/inference/tastes/test_rank_laws.py"],
        "twin": ["tests/inference/tastes/test_taste_twin.py"],
        "posterior": ["tests/inference/tastes/test_taste_posterior.py::test_every_quantity"],
        "Geweke": ["tests/inference/tastes/test_taste_geweke.py::test_the_prior_comes_back"],
        "calibration": ["tests/inference/tastes/test_taste_geweke.py::test_the_truth_ranks_uniformly"],
    },
}
SAMPLING = ("posterior", "Geweke", "calibration")
COLUMNS = ("ratios", "kept distances", "twin", *SAMPLING)


class Mutant(NamedTuple):
    name: str
    bug: int
    sampler: str
    edits: tuple[tuple[str, str, str], ...]  # file, old text, new text
    seen: tuple[str, ...]  # kinds of sampling tests that notice


class Outcome(NamedTuple):
    code: int  # pytest's exit code
    used: Path  # the package that the tests imported
    errors: int  # collection, fixtures
    failed: dict[str, str]  # test -> first line of what it said
    passed: list[str]


def read_mutants():
    entries = tomllib.loads((HERE / "mutants.toml").read_text())["mutant"]
    return [
        Mutant(
            entry["name"],
            entry["bug"],
            entry["sampler"],
            tuple((edit["file"], edit["old"], edit["new"]) for edit in entry["edit"]),
            tuple(entry.get("seen", ())),
        )
        for entry in entries
    ]


def plant(edits, folder):
    """A copy of the package in ``folder``, with the edits; without compiled code, which would be the old one."""
    source = Path(importlib.util.find_spec("bmcd").origin).parent
    shutil.copytree(source, folder / "bmcd", ignore=shutil.ignore_patterns("__pycache__", "data"))
    for file, old, new in edits:
        path = folder / "bmcd" / file
        text = path.read_text()
        if text.count(old) != 1:
            raise LookupError(f"{text.count(old)} places in {file}, not one, read:\n{old}")
        path.write_text(text.replace(old, new))


def run(folders, tests, *, compiled, stop_early):
    """Run ``tests`` against the copies in ``folders``, all in one process; one `Outcome` each."""
    arguments = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", *tests]
    if stop_early:
        arguments.append("--maxfail=1")
    if not compiled:
        # The random streams count on unsigned integers that wrap around; without numba numpy says so.
        arguments += ["-W", "ignore:overflow encountered:RuntimeWarning"]
    outside = (
        "PYTEST_",
        "NUMBA_",
        "BMCD_",
        "COV_",
    )  # a run inside a run must not see the settings of the outer one
    environment = {name: value for name, value in os.environ.items() if not name.startswith(outside)}
    environment |= {
        "BMCD_QUIET": "1",
        "BMCD_SEED": str(SEED),
        "NUMBA_DISABLE_JIT": "0" if compiled else "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONPATH": "",
    }
    for folder in folders:
        (folder / "run.json").unlink(missing_ok=True)  # of an earlier run
    command = [sys.executable, str(HERE / "run_here.py"), json.dumps(arguments), *map(str, folders)]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    return [_outcome(folder, done) for folder in folders]


def _outcome(folder, done):
    if not (folder / "run.json").exists():
        raise RuntimeError(f"the tests did not run:\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}")
    record = json.loads((folder / "run.json").read_text())
    report = ElementTree.parse(folder / "report.xml").getroot()
    failed, passed = {}, []
    for case in report.iter("testcase"):
        name = f"{case.get('classname').replace('.', '/')}::{case.get('name')}"
        failure = case.find("failure")
        if failure is not None:
            failed[name] = failure.get("message")
        elif case.find("error") is None and case.find("skipped") is None:
            passed.append(name)
    return Outcome(record["code"], Path(record["used"]), len(list(report.iter("error"))), failed, passed)


def objection(outcome, folder):
    """Why the bug does not count as found, or "" if it does: tests must fail, and by an assertion.

    A test that cannot be collected, or kernels that do not compile, say nothing about the tests.
    """
    if not outcome.used.is_relative_to(folder):
        return f"the tests used {outcome.used}"
    if outcome.code not in (0, 1) or outcome.errors:
        return f"exit code {outcome.code}, {outcome.errors} errors"
    if not outcome.failed:
        return f"not noticed by {len(outcome.passed)} tests"
    for name, message in outcome.failed.items():
        if not message.startswith(("assert", "AssertionError")):
            return f"{name} failed otherwise than by an assertion: {message[:200]}"
    return ""


def judge(folder, tests):
    """Compiled: whether ``tests`` notice the bug in ``folder``, and why that does not count, if it does not.

    Kernels are compiled once for each folder; numba keeps them in the folder.
    """
    (outcome,) = run([folder], tests, compiled=True, stop_early=True)
    why = objection(outcome, folder)
    return bool(outcome.failed) and not why, why


def main():
    parser = argparse.ArgumentParser(description="Which tests notice which bug, as a table.")
    parser.add_argument("names", nargs="*", help="mutants; all, if none is given")
    parser.add_argument("--kinds", nargs="+", choices=COLUMNS, default=COLUMNS)
    options = parser.parse_args()
    print("| bug |", " | ".join(options.kinds), "|")
    print("|---" * (len(options.kinds) + 1) + "|")
    for mutant in read_mutants():
        kinds = [kind for kind in options.kinds if kind in TESTS[mutant.sampler]]
        if not kinds or (options.names and mutant.name not in options.names):
            continue
        with tempfile.TemporaryDirectory() as folder:
            plant(mutant.edits, Path(folder))
            verdicts = {kind: judge(Path(folder), TESTS[mutant.sampler][kind]) for kind in kinds}
        words = {True: "caught", False: "missed"}
        cells = [words[verdicts[kind][0]] if kind in verdicts else "" for kind in options.kinds]
        doubts = [why for _, why in verdicts.values() if why and not why.startswith("not noticed")]
        print(f"| {mutant.name} |", " | ".join(cells), "|", *doubts, flush=True)


if __name__ == "__main__":
    main()
