"""Tests of the tests: bugs are put into copies of the package, and the tests must notice every one."""

import importlib.util
from pathlib import Path

import pytest

_spec = importlib.util.spec_from_file_location("mutants", Path(__file__).with_name("mutants.py"))
mutants = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(mutants)

BUGS = {
    1: "alpha moves without the Jacobian of its proposal",
    2: "labels drawn without Z(alpha)",
    3: "wrong cluster size in the ratio of alpha",
    4: "clicked items never permuted",
    5: "an asymmetric proposal taken as symmetric",
    6: "tau ignores the counts",
    7: "alpha in place of alpha / n",
    8: "a stale cache",
}
# The model with several tastes per user has other parts, hence other bugs.
BUGS_OF_TASTES = {
    11: "the number of visits to a clicked item may be zero before it is made one",
    12: "rates drawn with b instead of b + 1",
    13: "the prior of alpha without the spacing of its grid",
    14: "the change of a consensus swap with the wrong sign",
    15: "a visit counts itself when its taste is drawn",
    16: "several visits to an item counted once",
}
MUTANTS = mutants.read_mutants()


@pytest.mark.parametrize(("sampler", "bugs"), [("paper", BUGS), ("exact", BUGS), ("tastes", BUGS_OF_TASTES)])
def test_every_bug_is_there(sampler, bugs):
    assert {mutant.bug for mutant in MUTANTS if mutant.sampler == sampler} == set(bugs)
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)


@pytest.mark.parametrize(
    "sampler",
    ["exact", pytest.param("paper", marks=pytest.mark.deep), pytest.param("tastes", marks=pytest.mark.deep)],
)
def test_the_twin_notices_every_bug(sampler, tmp_path):
    """Not compiled: the twin's problems are small, and compiling each copy would take a minute."""
    chosen = [mutant for mutant in MUTANTS if mutant.sampler == sampler]
    folders = [tmp_path / f"mutant-{i}" for i in range(len(chosen))]
    for mutant, folder in zip(chosen, folders, strict=True):
        mutants.plant(mutant.edits, folder)
    mutants.plant((), tmp_path / "as-it-is")
    tests = mutants.TESTS[sampler]["twin"]
    # The package as it is comes last: it passes, so what failed before was not the fault of running in a row.
    outcomes = mutants.run([*folders, tmp_path / "as-it-is"], tests, compiled=False, stop_early=True)
    assert_passes(outcomes.pop(), tmp_path / "as-it-is")
    objections = [mutants.objection(*pair) for pair in zip(outcomes, folders, strict=True)]
    survivors = {mutant.name: why for mutant, why in zip(chosen, objections, strict=True) if why}
    assert not survivors


def test_a_mutant_that_no_longer_fits_is_refused(tmp_path):
    """Else it would be the package as it is, and survive; or worse, be killed by something else."""
    for i, (old, places) in enumerate([("no such text", 0), ("stream", "[0-9]+")]):
        with pytest.raises(LookupError, match=f"^{places} places in rng.py"):
            mutants.plant([("rng.py", old, "")], tmp_path / str(i))


@pytest.mark.parametrize(
    ("broken", "why"), [("STREAM_SIZE = nonsense", ", 1 errors"), ("STREAM_SIZE = 1", "otherwise than by")]
)
def test_a_copy_that_cannot_run_is_not_a_kill(broken, why, tmp_path):
    mutants.plant([("rng.py", "STREAM_SIZE = 11", broken)], tmp_path)
    (outcome,) = mutants.run([tmp_path], mutants.TESTS["exact"]["twin"], compiled=False, stop_early=True)
    assert why in mutants.objection(outcome, tmp_path)


def assert_passes(outcome, folder):
    assert outcome.used.is_relative_to(folder)
    assert outcome.code == 0, outcome.failed
    assert outcome.passed


@pytest.mark.deep
@pytest.mark.parametrize("sampler", ["paper", "exact", "tastes"])
def test_sampling_tests_pass_as_it_is(sampler, tmp_path):
    mutants.plant((), tmp_path)
    kinds = mutants.TESTS[sampler]
    tests = [test for kind in mutants.SAMPLING for test in kinds.get(kind, [])]
    (outcome,) = mutants.run([tmp_path], tests, compiled=True, stop_early=False)
    assert_passes(outcome, tmp_path)


@pytest.mark.deep
@pytest.mark.parametrize("mutant", [pytest.param(m, id=m.name) for m in MUTANTS if m.seen])
def test_sampling_tests_notice(mutant, tmp_path):
    """Compiled, minutes each. Which sampling tests notice a bug is written down in mutants.toml."""
    mutants.plant(mutant.edits, tmp_path)
    for kind in mutant.seen:
        noticed, why = mutants.judge(tmp_path, mutants.TESTS[mutant.sampler][kind])
        assert noticed, f"{kind}: {why}"
