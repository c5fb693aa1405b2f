"""The README's examples run, in order, as a reader would run them, and print what it says they print."""

import contextlib
import io
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

README = Path(__file__).parents[1] / "README.md"
NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
# Another processor may round other last bits, and then the chains part: numbers may differ by their Monte Carlo
# error. That of a probability is 0.005 here, and that of the hit rate of 890 recommendations 0.015.
NEARNESS = 0.06


def blocks(*languages):
    """The (language, text) of every fenced block in one of the languages."""
    found = re.findall(r"^```(\w+)\n(.*?)^```$", README.read_text(), re.MULTILINE | re.DOTALL)
    return [(language, text) for language, text in found if language in languages]


def assert_reads_alike(printed, expected):
    """Words are the same; numbers are near. Items of nearly the same probability may trade places."""
    lines = [line.split() for line in printed.splitlines()], [line.split() for line in expected.splitlines()]
    assert len(lines[0]) == len(lines[1])
    for got, wanted in zip(*lines, strict=True):
        numbers = [[float(word) for word in line if NUMBER.fullmatch(word)] for line in (got, wanted)]
        assert len(numbers[0]) == len(numbers[1])
        for one, two in zip(*numbers, strict=True):
            assert abs(one - two) <= NEARNESS * max(1.0, abs(two)), (got, wanted)
        # Headings are the same, and so is the first recommendation, four standard errors ahead of the next.
        if not numbers[1] or wanted[0] == "0":
            assert [word for word in got if not NUMBER.fullmatch(word)] == [
                word for word in wanted if not NUMBER.fullmatch(word)
            ]


@pytest.fixture(scope="module")
def in_folder(tmp_path_factory):
    with contextlib.chdir(tmp_path_factory.mktemp("readme")):
        yield


@pytest.mark.usefixtures("in_folder")
def test_python():
    names, printed, n_compared = {}, "", 0
    for language, text in blocks("python", "text"):
        if language == "python":
            with contextlib.redirect_stdout(io.StringIO()) as output:
                exec(compile(text, "README.md", "exec"), names)
            printed = output.getvalue()
        else:
            assert_reads_alike(printed, text)
            n_compared += 1
    assert n_compared == 1
    assert Path("report.html").stat().st_size > 10_000
    assert Path("eshop.bmcd").exists()


@pytest.mark.usefixtures("in_folder")
def test_command_line():
    lines = [line for _, text in blocks("console") for line in text.splitlines()]
    assert all(line.startswith("$ ") for line in lines)
    commands = [shlex.split(line[2:]) for line in lines if line.startswith("$ bmcd ")]
    assert len(commands) == len(lines) - 1  # all but `pip install .`
    for command in commands:
        done = subprocess.run([sys.executable, "-m", *command], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    assert Path("recommendations.csv").read_text().count("\n") == 1 + 500 * 10
