import subprocess
import sys
from pathlib import Path
from typing import get_args, get_type_hints

import pytest

import bmcd
from bmcd.cli import app, errors
from bmcd.cli.fit import STARTS, fit

BMCD = ("--model", "bmcd")
COMMANDS = [command.callback.__name__ for command in app.registered_commands]


def test_all_commands_are_there():
    assert [
        *("demo", "simulate", "split", "fit", "update", "recommend", "evaluate", "backtest"),
        "compare",
        *("report", "card", "clusters", "explain", "similar", "serve", "replay", "doctor"),
    ] == COMMANDS


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_an_example(run, command):
    result = run(command, "--help")
    assert result.code == 0
    assert f"Example: bmcd {command}" in result.out
    assert "--json" in result.out


def test_help_and_version_import_nothing_heavy():
    heavy = "{'numpy', 'numba', 'pandas', 'scipy', 'jinja2', 'matplotlib', 'rich.table'}"
    code = f"import sys, bmcd.cli; print(sorted({heavy} & set(sys.modules)))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout == "[]\n"


def test_version(run):
    assert run("--version").out == f"bmcd {bmcd.__version__}\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nonsense"], "nonsense"),
        (["fit", "clicks.csv"], "--output"),
        (["fit", "clicks.csv", "-o", "m.bmcd", "--draws", "many"], "--draws"),
        (["fit", "clicks.csv", "-o", "m.bmcd", "--draws", "0"], "--draws"),
        (["fit", "clicks.csv", "-o", "m.bmcd", "--threads", "0"], "--threads"),
        (["fit", "clicks.csv", "-o", "m.bmcd", "--max-time", "0"], "--max-time"),
        (["fit", "clicks.csv", "-o", "m.bmcd", "--max-time", "nan"], "--max-time"),
        (["fit", "clicks.csv", "-o", "m.bmcd", "--clusters", "some"], "auto"),
        (["fit", "clicks.csv", "-o", "m.bmcd", "--clusters", "0"], "auto"),
        (["fit", "clicks.csv", "-o", "m.bmcd", "--clusters", "8-2"], "4-20"),
        (["fit", "clicks.csv", "-o", "m.bmcd", "--clusters", "²"], "4-20"),
        (["fit", "clicks.csv", "-o", "m.bmcd", "--distance", "city"], "footrule"),
        (["fit", "clicks.csv", "-o", "m.bmcd", "--model", "bmcd", "--distance", "kendall"], "--sampler paper"),
        (["fit", "clicks.csv", "-o", "m.bmcd", *BMCD, "--distance", "ulam", "--sampler", "paper"], "--clusters"),
        (["fit", "clicks.csv", "-o", "m.bmcd", *BMCD, "--count-k", "5,x"], "5,10"),
        (["fit", "clicks.csv", "-o", "model.csv"], ".bmcd"),
        (["fit", "eshop", "-o", "m.bmcd", "--titles", "items.csv"], "--titles"),
        (["recommend", "m.bmcd", "-k", "0"], "-k"),
        (["recommend", "m.bmcd", "--min-probability", "2"], "--min-probability"),
        (["recommend", "m.bmcd", "-o", "recs.xlsx"], ".csv or .parquet or .json"),
        (["recommend", "m.bmcd", "-o", "recs"], ".csv or .parquet or .json"),
        (["recommend", "m.bmcd", "--users", "a", "--histories", "b.csv"], "--histories"),
        (["recommend", "m.bmcd", "--users", " , "], "--users"),
        (["clusters", "m.bmcd", "-o", "c.txt"], ".parquet"),
        (["report", "m.bmcd", "-o", "report.pdf"], ".html"),
        (["report", "m.bmcd", "-k", "5,x"], "5,10"),
        (["report", "m.bmcd", "-k", "0"], "-k"),
        (["report", "m.bmcd", "--user", " , "], "--user"),
        (["explain", "m.bmcd", "ann"], "ITEM"),
        (["simulate", "-o", "clicks.bmcd"], ".csv"),
        (["simulate", "-o", "clicks.csv", "--truth", "./clicks.csv"], "overwrite"),
        (["demo", "--seed", "-1"], "--seed"),
    ],
)
def test_bad_usage_is_exit_code_2_and_writes_nothing(run, arguments, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = run(*arguments)
    assert result.code == 2, result.err
    assert said.lower() in " ".join(result.err.split()).lower()
    assert list(tmp_path.iterdir()) == []


def test_options_offer_what_the_library_has():
    from bmcd import baselines
    from bmcd.cli.fit_checks import MEMBERS
    from bmcd.inference.bmcd import initial
    from bmcd.inference.posterior import SAMPLERS
    from bmcd.mallows import DISTANCES
    from bmcd.mallows.rank_scale import scale_values

    def offered(name):
        (choices, *_) = get_args(get_type_hints(fit, include_extras=True)[name])
        return set(get_args(get_args(choices)[0]))

    assert offered("distance") == set(DISTANCES)
    assert offered("sampler") == set(SAMPLERS)
    assert set(STARTS) == set(initial.STARTS)
    assert {"Tastes", "BMCD", *baselines.__all__} - {"Baseline"} == set(MEMBERS)
    for scale in offered("rank_scale"):
        assert len(scale_values(5, scale)) == 5


def test_a_bug_shows_its_traceback(run, monkeypatch, tmp_path):
    def broken(*arguments, **options):
        return {}["missing"]

    monkeypatch.setattr("bmcd.simulation.simulate", broken)
    result = run("simulate", "-o", tmp_path / "clicks.csv")
    assert result.code == 1
    assert isinstance(result.exception, KeyError)
    assert "bmcd: error" not in result.err


def raised(function):
    try:
        function()
    except Exception as error:
        return error


def test_which_errors_are_about_the_data():
    import numpy as np

    assert errors.is_expected(raised(lambda: bmcd.simulate(0)))  # our own check
    assert errors.is_expected(raised(Path("/no/such/file").read_text))
    assert not errors.is_expected(raised(lambda: np.zeros(3).reshape(2)))  # a ValueError, but NumPy's
    assert not errors.is_expected(raised(lambda: bmcd.simulate("3")))  # a slip inside, without `raise`
    assert not errors.is_expected(raised(lambda: [][0]))
    assert not errors.is_expected(OSError(5, "no file in sight"))
