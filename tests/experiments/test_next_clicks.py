"""The study of next clicks: its quick form on the shop, a timed log and session files, and hostile files."""

import json
import pickle
from pathlib import Path

import numpy as np
import pytest
from experiments.__main__ import app
from experiments.document import write_page
from experiments.next_clicks import methods as choices
from experiments.next_clicks.files import clicks_of, read_sessions
from experiments.next_clicks.methods import BLEND, REPEATING
from experiments.next_clicks.study import NextClicksStudy
from experiments.study import read_text
from experiments.tasks import StudyError
from typer.testing import CliRunner

COMMITTED = Path(__file__).parents[2] / "experiments" / "next_clicks"
FEW = ("Popularity", "Transitions", BLEND, REPEATING)


@pytest.fixture
def few_methods(monkeypatch):
    """Four methods, which is enough to see every kind of row."""
    all_methods = choices.methods
    for module in ("experiments.next_clicks.study", "experiments.next_clicks.measures"):
        monkeypatch.setattr(
            f"{module}.methods", lambda *, quick: {n: m for n, m in all_methods(quick=quick).items() if n in FEW}
        )


def walks(n_sessions=600, n_items=30, seed=0):
    """Sessions that mostly go from an item to the next one, and sometimes back."""
    rng = np.random.default_rng(seed)
    sessions = []
    for _ in range(n_sessions):
        steps = rng.choice([1, 2, -1], rng.integers(3, 8), p=[0.7, 0.2, 0.1])
        sessions.append(((rng.integers(n_items) + np.cumsum(steps)) % n_items + 100).tolist())
    return sessions


def test_the_quick_study_of_the_shop_writes_page_and_results(tmp_path, few_methods):
    page = NextClicksStudy(quick=True).reproduce(tmp_path, n_workers=1, progress=False).read_text()
    assert "No method can be calibrated fully here" in page
    assert "Back-test" not in page
    results = json.loads((tmp_path / "results.json").read_text())
    blend, popular = results["later/Blend"]["10/10"], results["later/Popularity"]["10/10"]
    assert blend["hits"] > popular["hits"]
    assert 0 < blend["predicted"] < 1
    assert "predicted" not in popular
    assert (tmp_path / "tables" / "later.csv").read_text().count("Transitions") == 3


def test_a_timed_log_is_back_tested_from_the_command_line(tmp_path, few_methods):
    lines = ["visitor,thing,when"]
    for number, session in enumerate(walks(800)):
        lines += [f"{number},{item},{1_700_000_000 + 600 * number + 20 * i}" for i, item in enumerate(session)]
    (tmp_path / "log.csv").write_text("\n".join(lines) + "\n")
    options = ["--user-column", "visitor", "--item-column", "thing", "--time-column", "when", "--window", "1d"]
    out = ["-o", str(tmp_path / "out"), "--workers", "1", "--quick", "--json", "--cuts", "2"]
    result = CliRunner().invoke(app, ["next_clicks", "--log", str(tmp_path / "log.csv"), *options, *out])
    assert result.exit_code == 0, result.output
    page = (tmp_path / "out" / "README.md").read_text()
    assert "## Back-test of log.csv" in page
    assert "shop" not in page
    assert page.count("| all |") == 3


def test_session_files_give_hits_and_ranks(tmp_path, few_methods):
    train, test = tmp_path / "train.txt", tmp_path / "test.txt"
    train.write_bytes(pickle.dumps(walks()))
    cases = walks(200, seed=1)
    test.write_bytes(pickle.dumps(([case[:-1] for case in cases], [case[-1] for case in cases])))
    study = NextClicksStudy(quick=True, sessions=train, test_sessions=test)
    study.reproduce(tmp_path / "out", n_workers=1, progress=False)
    results = json.loads((tmp_path / "out" / "results.json").read_text())
    blend = results["sessions/Blend-repeats-True"]
    assert blend["n_cases"] == 200
    assert blend["hits"] > 0.9
    assert 1 / 20 < blend["mrr"] < blend["hits"]


def test_text_and_pickle_read_the_same(tmp_path):
    sessions = [[3, 1, 2], [1, 3]]
    (tmp_path / "a.txt").write_text("3 1 2\n1,3\n")
    (tmp_path / "b.txt").write_bytes(pickle.dumps(sessions))
    (tmp_path / "c.txt").write_bytes(pickle.dumps(([[3, 1], [1]], [2, 3]), protocol=0))
    assert all(read_sessions(tmp_path / name) == sessions for name in ("a.txt", "b.txt", "c.txt"))
    clicks = clicks_of(sessions)
    assert clicks.items[clicks.sequence].tolist() == [3, 1, 2, 1, 3]


class Hostile:
    """Would run a command when unpickled."""

    def __reduce__(self):
        return (print, ("unpickled",))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (pickle.dumps(Hostile()), "only lists of numbers"),
        (pickle.dumps(np.arange(3)), "only lists of numbers"),
        (pickle.dumps([[1, "a"]]), "session 1 is not a list"),
        (pickle.dumps([[1, -2]]), "session 1 is not a list"),
        (pickle.dumps([]), "no sessions"),
        (b"\x80\x04garbage", "not a pickle"),
        (b"1 2\n3 x\n", "line 2"),
        (b"", "no sessions"),
    ],
)
def test_bad_session_files_are_refused(tmp_path, capsys, content, message):
    (tmp_path / "sessions").write_bytes(content)
    with pytest.raises(StudyError, match=message):
        read_sessions(tmp_path / "sessions")
    assert "unpickled" not in capsys.readouterr().out


def test_missing_files_are_named(tmp_path):
    with pytest.raises(StudyError, match="give both"):
        NextClicksStudy(sessions=tmp_path / "a")
    with pytest.raises(StudyError, match="no such file"):
        NextClicksStudy(log=tmp_path / "a.csv")


def test_the_committed_page_is_that_of_the_committed_results(tmp_path):
    study, results = NextClicksStudy(), json.loads((COMMITTED / "results.json").read_text())
    page = write_page(tmp_path, read_text(study.package, "page.md"), study.contents(results))
    # The page names the version that made it, which may be an earlier one.
    assert page.read_text().split("\n", 3)[3] == (COMMITTED / "README.md").read_text().split("\n", 3)[3]
    for table in sorted((tmp_path / "tables").iterdir()):
        assert table.read_bytes() == (COMMITTED / "tables" / table.name).read_bytes()
    found = results["later/Blend"]
    for asked in ("5/1", "3/3", "10/10"):
        assert abs(found[asked]["predicted"] - found[asked]["hits"]) < 0.015
