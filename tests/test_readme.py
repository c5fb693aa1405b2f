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
NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?=%?,?$)")
# Another processor may round other last bits, and fits end within a tolerance: numbers may differ a little.
NEARNESS = 0.02


def blocks(*languages):
    """The (language, text) of every fenced block in one of the languages."""
    found = re.findall(r"^```(\w+)\n(.*?)^```$", README.read_text(), re.MULTILINE | re.DOTALL)
    return [(language, text) for language, text in found if language in languages]


def assert_reads_alike(printed, expected):
    """Words are the same; numbers are near."""
    lines = [line.split() for line in printed.splitlines()], [line.split() for line in expected.splitlines()]
    assert len(lines[0]) == len(lines[1])
    for got, wanted in zip(*lines, strict=True):
        numbers = [[float(NUMBER.match(word)[0]) for word in line if NUMBER.match(word)] for line in (got, wanted)]
        assert len(numbers[0]) == len(numbers[1])
        for one, two in zip(*numbers, strict=True):
            assert abs(one - two) <= NEARNESS * max(1.0, abs(two)), (got, wanted)
        assert [word for word in got if not NUMBER.match(word)] == [
            word for word in wanted if not NUMBER.match(word)
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
    evaluated = names["found"]
    assert abs(evaluated.calibration.mean_probability - evaluated.accuracy) < 0.015
    assert names["model"].verdict_.converged


@pytest.mark.usefixtures("in_folder")
def test_command_line():
    lines = [line for _, text in blocks("console") for line in text.splitlines()]
    assert all(line.startswith("$ ") for line in lines)
    commands = [shlex.split(line[2:]) for line in lines if line.startswith("$ bmcd ")]
    assert len(commands) == len(lines) - 1  # all but `pip install .`
    for command in commands:
        done = subprocess.run([sys.executable, "-m", *command], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    assert Path("recommendations.csv").read_text().count("\n") == 1 + 24_026 * 10


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_the_calls_take_every_kind_of_frame(library, tmp_path):
    """What the README calls, on clicks of a frame of each kind; tables come back in the same kind."""
    import narwhals as nw

    import bmcd

    simulated = bmcd.simulate(60, 10, consensuses=2, alpha=6.0, mean_clicks=5.0, seed=1).clicks.at_least(4)
    rows = {"user": simulated.users, "item": simulated.items}
    frame = nw.from_dict(
        {
            name: ids.take(at).tolist()
            for (name, ids), at in zip(rows.items(), simulated.matrix.nonzero(), strict=True)
        },
        backend=library,
    ).to_native()
    clicks = bmcd.Clicks.from_frame(frame)
    train, test = clicks.hold_out(2, seed=0)
    model = bmcd.BMCD(2).fit(train, draws=6, warmup=4, chains=2, seed=0, progress=False)
    user, history = clicks.users[0].item(), train.items[:2].tolist()
    tables = [
        model.recommend(k=2),
        model.cutoff_curve(test, k=2, cutoffs=[0.0, 0.3]),
        model.recommend_for({"ann": history, "bob": []}, k=2),
        model.memberships(),
    ]
    for table in tables:
        assert nw.from_native(table).implementation.value == library
        assert len(nw.from_native(table)) > 0
    item = nw.from_native(tables[0]).filter(nw.col("user") == user)["item"].to_list()[0]
    comparison = bmcd.compare({"BMCD": model, "EASE": bmcd.baselines.EASE()}, train, test, k=2, progress=False)
    for answer in (model.explain(user=user, item=item, k=2), model.clusters_[0], model.verdict_, comparison):
        assert str(answer)
    assert len(nw.from_native(bmcd.rerank(model, k=2, min_exposure=3).recommendations)) > 0
    assert bmcd.report(model, train, test, tmp_path / "report.html", k=2, rivals={}).stat().st_size > 10_000
