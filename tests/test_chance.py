"""How often the whole suite fails although all is well, added up from what its tests state."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

MOST = 1e-4
LARGEST = 1e-3
ROOT = Path(__file__).parents[1]
COLLECT = """
import json, sys, pytest

class Statements:
    def pytest_collection_finish(self, session):
        self.found = [
            (item.nodeid, mark.args[0] if (mark := item.get_closest_marker("chance")) else None)
            for item in session.items
            if "rotating_seed" in getattr(item, "fixturenames", ())
        ]

statements = Statements()
code = pytest.main(["--collect-only", "-qq", "-p", "no:cacheprovider", "tests"], [statements])
with open(sys.argv[1], "w") as out:
    json.dump({"code": int(code), "found": statements.found}, out)
"""


@pytest.fixture(scope="module")
def statements(tmp_path_factory):
    """What every test with a seed states: [test, rate or None]; those of the deep run are among them."""
    out = tmp_path_factory.mktemp("chance") / "statements.json"
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    environment["BMCD_DEEP"] = "1"
    done = subprocess.run(
        [sys.executable, "-c", COLLECT, str(out)], cwd=ROOT, env=environment, capture_output=True, text=True
    )
    result = json.loads(out.read_text())
    assert result["code"] == 0, done.stdout[-2000:]
    return result["found"]


def test_every_test_with_a_seed_states_how_often_it_fails_by_chance(statements):
    silent = [name for name, rate in statements if rate is None]
    assert not silent, "mark these with @pytest.mark.chance(rate), 0 if they are right for any seed"
    too_often = [name for name, rate in statements if not 0 <= rate <= LARGEST]
    assert not too_often, f"these fail by chance in more than {LARGEST} of their attempts"


def test_the_suite_fails_by_chance_in_at_most_one_of_ten_thousand_runs(statements):
    """A test fails if two attempts do, the second with another seed: rate ** 2. The deep run is counted in."""
    attempts = sum(rate for _, rate in statements)
    both = sum(rate**2 for _, rate in statements)
    print(f"{len(statements)} tests with a seed; in {attempts:.1%} of runs one is repeated; {both:.1e} fail")
    assert both <= MOST


PROGRAM = """
import pytest

@pytest.mark.chance({rate})
def test_unlucky(rotating_seed, times):
    with open("attempts", "a") as out:
        print(times, rotating_seed, file=out)
    assert times > {enough}
"""


@pytest.mark.parametrize(
    ("rate", "enough", "seed", "passes", "attempts"),
    [
        (1e-3, 1, None, True, [1, 10]),
        (1e-3, 10, None, False, [1, 10]),
        (0, 1, None, False, [1]),
        (1e-3, 1, "7", False, [1]),
    ],
)
def test_a_failure_is_repeated_once(tmp_path, rate, enough, seed, passes, attempts):
    (tmp_path / "conftest.py").write_text((ROOT / "tests" / "conftest.py").read_text())
    (tmp_path / "test_it.py").write_text(PROGRAM.format(rate=rate, enough=enough))
    drop = ("PYTEST_", "BMCD_SEED", "BMCD_TIMES")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(drop)}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist"],
        cwd=tmp_path, env=environment | ({"BMCD_SEED": seed} if seed else {}), capture_output=True, text=True,
    )  # fmt: skip
    assert (done.returncode == 0) == passes, done.stdout
    made = [line.split() for line in (tmp_path / "attempts").read_text().splitlines()]
    assert [int(times) for times, _ in made] == attempts
    assert len({number for _, number in made}) == len(made)  # another seed each time
    if not passes:
        assert "BMCD_SEED=" in done.stdout
