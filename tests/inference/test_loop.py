import contextlib
import importlib.util
import io
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from bmcd.clicks.log import Clicks
from bmcd.container import read, write
from bmcd.errors import StoreError, StoreWarning, TimeBudgetError
from bmcd.inference import checkpoint as checkpoint_module
from bmcd.inference import loop
from bmcd.inference import loop as progress_module
from bmcd.inference.bmcd.initial import initial_state
from bmcd.inference.bmcd.sampler import ExactSampler
from bmcd.inference.draws import MIXTURE, FitSpec
from bmcd.inference.loop import describe, sweeps
from bmcd.inference.mixture import Priors, SweepInfo, make_data
from bmcd.inference.paper.sampler import PaperSampler
from bmcd.inference.record import ChainRecord, RankCounts, Recording
from bmcd.inference.run import Plan, Run

SCRIPT = Path(__file__).parents[1] / "crash" / "toy.py"
_spec = importlib.util.spec_from_file_location("toy", SCRIPT)
toy = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(toy)
N_SWEEPS = toy.PLAN["warmup"] + toy.PLAN["draws"] * toy.PLAN["thin"]


def ctrl_c(at_sweep, times=1):
    """Send SIGINT to the main thread, as the key does, from within a sweep of chain 1."""

    def on_sweep(chain, sweep):
        if chain == 1 and at_sweep <= sweep < at_sweep + times:
            signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
            time.sleep(0.1)

    return on_sweep


@pytest.fixture(autouse=True)
def ctrl_c_as_in_a_terminal():
    """A test run started in the background ignores SIGINT; here it must mean what it means to a person."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(scope="module")
def whole():
    return toy.run(n_threads=1)


def test_draws_have_the_shapes_they_promise(whole):
    assert repr(whole) == "Draws(3 chains x 20 draws, 2 clusters, 5 items)"
    assert whole.alpha.shape == whole.tau.shape == whole.label_counts.shape == (3, 20, 2)
    assert whole.rho.shape == (3, 20, 2, 5)
    assert whole.rho.dtype == np.int16
    assert whole.log_joint.shape == whole.within_distance.shape == whole.ranks_accepted.shape == (3, 20)
    assert whole.warmup_log_joint.shape == (3, 12)
    assert whole.probe.shape == (3, 20, 2)
    assert (whole.stopped, whole.note, whole.n_tallied.tolist()) == ("finished", "", [20, 20, 20])


def test_draws_are_what_the_sampler_did(whole):
    """Against a plain loop over the sampler, chain by chain, with everything kept."""
    for chain in range(3):
        state, sampler = toy.start(chain), toy.Toy()
        infos, alphas, ranks = [], [], []
        for sweep in range(N_SWEEPS):
            infos.append(sampler.sweep(state, chain, sweep, sweep < 12))
            alphas.append(state.alpha.copy())
            ranks.append(state.ranks.copy())
        kept = slice(12 + 2, None, 3)
        np.testing.assert_array_equal(whole.alpha[chain], alphas[kept])
        np.testing.assert_array_equal(whole.probe[chain, :, 0], np.max(alphas[kept], axis=1))
        np.testing.assert_array_equal(whole.log_joint[chain], [info.log_joint for info in infos[kept]])
        np.testing.assert_array_equal(whole.warmup_log_joint[chain], [info.log_joint for info in infos[:12]])
        in_top = [np.array(ranks[kept]) <= 1 + k for k in (1, 2)]
        np.testing.assert_array_equal(whole.tally[chain], [top.sum(axis=0) for top in in_top])
        shares = np.array([info.alpha_accepted for info in infos[12:]]).reshape(20, 3, 2)
        np.testing.assert_allclose(whole.alpha_accepted[chain], np.nanmean(shares, axis=1))
        assert np.isnan(whole.ranks_accepted).all()


@pytest.mark.parametrize("n_threads", [2, 3, 8, None])
def test_the_number_of_threads_changes_nothing(whole, n_threads, monkeypatch):
    monkeypatch.setattr(loop, "SECONDS_PER_TURN", 0.0)  # so that chains change hands at every sweep
    assert toy.same(whole, toy.run(n_threads=n_threads))


def test_starts_are_not_changed():
    first = toy.start(0)
    before = first.ranks.copy()
    loop.run_chains(
        lambda chain: toy.Toy(),
        lambda chain: first,
        Recording(toy.PROBLEM),
        Run(chains=2, draws=2, warmup=0, seed=7, progress=False),
    )
    np.testing.assert_array_equal(first.ranks, before)


@pytest.mark.parametrize("n_threads", [1, 2])
@pytest.mark.parametrize("at_sweep", [0, 5, 11, 12, 13, 18, 40, 71])
def test_a_resumed_run_ends_as_one_that_was_never_stopped(whole, tmp_path, at_sweep, n_threads, capfd, monkeypatch):
    monkeypatch.setattr(loop, "SECONDS_PER_TURN", 0.0)  # no chain gets far ahead of the others
    path = tmp_path / "run.ckpt"
    stopped, draws, said = toy.Toy(on_sweep=ctrl_c(at_sweep)), None, ""
    try:
        draws = toy.run(stopped, n_threads=n_threads, checkpoint=path)
    except KeyboardInterrupt as error:
        said = str(error)
    if n_threads == 1:  # with two, how far the other one is then is not known
        assert (draws is None) == (at_sweep < 14)
    if draws is None:
        assert f"the checkpoint {path} has all results" in said
        assert "before the first draw of every chain" in said
    else:
        assert draws.stopped == "interrupted" or at_sweep == 71
        for name in ("alpha", "rho", "log_joint", "probe"):
            np.testing.assert_array_equal(getattr(draws, name), getattr(whole, name)[:, : draws.n_draws])
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert toy.same(whole, toy.run(n_threads=3 - n_threads, checkpoint=path))
    assert toy.same(whole, toy.run(toy.Toy(on_sweep=pytest.fail), checkpoint=path))  # all done: no sweep is made
    assert capfd.readouterr() == ("", "")


def test_a_run_stopped_again_and_again_ends_the_same(whole, tmp_path):
    path = tmp_path / "run.ckpt"
    for at_sweep in range(3, 70, 9):
        with contextlib.suppress(KeyboardInterrupt):
            toy.run(toy.Toy(on_sweep=ctrl_c(at_sweep)), checkpoint=path, checkpoint_every=0)
    assert toy.same(whole, toy.run(checkpoint=path))


def test_more_draws_may_be_asked_for_later(tmp_path):
    path = tmp_path / "run.ckpt"
    toy.run(checkpoint=path, draws=9)
    assert toy.same(toy.run(checkpoint=path), toy.run())
    with pytest.raises(StoreError, match=r"it has 20 draws, more than the 9 asked for; ask for 20 or more"):
        toy.run(checkpoint=path, draws=9)


def test_a_second_ctrl_c_aborts_and_leaves_the_checkpoint(whole, tmp_path):
    path = tmp_path / "run.ckpt"
    hold = threading.Event()

    def on_sweep(chain, sweep):
        if chain == 1 and sweep == 30:
            for _ in range(2):
                signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
                time.sleep(0.1)
            hold.wait(5)

    with pytest.raises(KeyboardInterrupt):
        toy.run(toy.Toy(on_sweep=on_sweep), checkpoint=path, n_threads=2)
    hold.set()
    assert toy.same(whole, toy.run(checkpoint=path))


def test_ctrl_c_is_left_to_who_has_taken_it_over(whole):
    seen = []
    signal.signal(signal.SIGINT, lambda *_: seen.append(1))
    try:
        assert toy.same(whole, toy.run(toy.Toy(on_sweep=ctrl_c(20))))
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    assert seen == [1]


def test_runs_in_a_thread_of_the_caller(whole):
    found = []
    thread = threading.Thread(target=lambda: found.append(toy.run()))
    thread.start()
    thread.join()
    assert toy.same(whole, found[0])


def test_a_real_ctrl_c_in_a_process(tmp_path):
    path, log = tmp_path / "run.ckpt", tmp_path / "log"
    command = [sys.executable, str(SCRIPT), str(path), str(log), "0.02", "2"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        while not log.exists() or log.read_text().count("sweep") < 3 * 20:
            time.sleep(0.01)
            assert process.poll() is None, process.stderr.read()
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=20)
    assert (process.returncode, err) == (0, "")
    assert out.startswith("interrupted ")
    assert "stopped by Ctrl-C after" in out
    assert toy.same(toy.run(), toy.run(checkpoint=path))


def test_time_budget_keeps_what_was_drawn(whole, tmp_path):
    path, clock = tmp_path / "run.ckpt", [0.0]

    def ten_milliseconds(chain, sweep):
        clock[0] += 0.01

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop.time, "monotonic", lambda: clock[0])
        draws = toy.run(toy.Toy(on_sweep=ten_milliseconds), n_threads=1, max_time=1.2, checkpoint=path)
    assert clock[0] == pytest.approx(1.2, abs=0.03)  # of the 2.16 s that all sweeps would take
    assert 1 <= draws.n_draws < 20
    assert draws.stopped == "time"
    assert draws.note.startswith(f"stopped by the time budget of 1.2 s after {draws.n_draws} of 20 draws")
    np.testing.assert_array_equal(draws.rho, whole.rho[:, : draws.n_draws])
    assert toy.same(whole, toy.run(checkpoint=path, max_time=60.0))


def test_chains_of_different_lengths_are_cut_to_the_shortest(whole):
    slow = toy.Toy(on_sweep=lambda chain, sweep: time.sleep(0.03 if chain == 2 else 0.001))
    draws = toy.run(slow, n_threads=3, max_time=0.9, warmup=3)
    cut = int(draws.n_tallied.sum()) - 3 * draws.n_draws
    assert cut > 0
    assert f"{cut} draws were cut so that all chains are equally long" in draws.note


def test_no_chain_is_left_behind_by_too_few_threads():
    draws = toy.run(toy.Toy(pause=0.005), n_threads=1, chains=5, warmup=0, draws=1000, thin=1, max_time=2.5)
    assert np.ptp(draws.n_tallied) <= 60  # a turn of 0.2 s is at most 40 sweeps
    assert draws.n_draws > 0


@pytest.mark.parametrize("checkpoint", [None, "run.ckpt"])
def test_more_warm_up_than_time(tmp_path, checkpoint, whole):
    path = None if checkpoint is None else tmp_path / checkpoint
    with pytest.raises(TimeBudgetError, match="before the first draw of every chain") as caught:
        toy.run(toy.Toy(pause=0.03), n_threads=1, max_time=0.2, checkpoint=path)
    text = str(caught.value)
    assert "after 12 of warm-up and 3 more, about" in text
    assert "has done" in text
    if path is None:
        assert "Give max_time more" in text
    else:
        assert f"the checkpoint {path} has all results" in text
        assert toy.same(whole, toy.run(checkpoint=path))


def test_a_failing_sweep_says_which_and_keeps_the_checkpoint(whole, tmp_path):
    path = tmp_path / "run.ckpt"

    def fail(chain, sweep):
        if (chain, sweep) == (1, 33):
            raise ArithmeticError("no")

    with pytest.raises(ArithmeticError, match="no") as caught:
        toy.run(toy.Toy(on_sweep=fail), checkpoint=path, checkpoint_every=0)
    assert caught.value.__notes__ == ["bmcd: this was sweep 33 of chain 1"]
    assert toy.same(whole, toy.run(checkpoint=path))


def test_a_log_joint_that_is_not_a_number_is_a_failure():
    class Broken(toy.Toy):
        def sweep(self, state, chain, sweep, warmup):
            return super().sweep(state, chain, sweep, warmup)._replace(log_joint=np.nan)

    with pytest.raises(FloatingPointError, match="log joint is nan"):
        toy.run(Broken())


def test_sweeps_is_a_generator_that_can_be_left_and_taken_up():
    plan = Plan(1, 3, 2)
    record = ChainRecord(0, toy.start(0), Recording(toy.PROBLEM), plan)
    for info in sweeps(toy.Toy(), record):
        assert isinstance(info, SweepInfo)
        if record.next_sweep == 3:
            break
    assert (record.next_sweep, record.n_kept) == (3, 1)
    assert len(list(sweeps(toy.Toy(), record))) == 2
    assert list(sweeps(toy.Toy(), record)) == []


class Stretching(toy.Toy):
    """The toy with several sweeps in one call; ``sizes`` are the (chain, first, number) of the calls."""

    def __init__(self, **options):
        super().__init__(**options)
        self.sizes = []

    def stretch(self, state, chain, first_sweep, n_sweeps, warmup):
        self.sizes.append((chain, first_sweep, n_sweeps))
        return [self.sweep(state, chain, s, warmup) for s in range(first_sweep, first_sweep + n_sweeps)]


def test_several_sweeps_in_one_call_change_no_byte(whole, monkeypatch):
    one_by_one = Stretching()
    with monkeypatch.context() as patch:
        patch.setattr(loop, "SECONDS_PER_STRETCH", -1.0)  # every call takes too long for a longer one to follow
        assert toy.same(whole, toy.run(one_by_one, n_threads=1))
    assert {n for _, _, n in one_by_one.sizes} == {1}
    monkeypatch.setattr(loop, "SECONDS_PER_STRETCH", 60.0)
    many = Stretching()
    assert toy.same(whole, toy.run(many, n_threads=3))
    assert len(many.sizes) < len(one_by_one.sizes) / 2
    first = [(s, n) for chain, s, n in many.sizes if chain == 0]
    assert first[:6] == [
        (0, 1),
        (1, 2),
        (3, 4),
        (7, 5),
        (12, 3),
        (15, 3),
    ]  # to the end of warm-up, then draw by draw


def test_stretches_grow_only_while_they_are_short():
    slow = Stretching(pause=0.02)
    with pytest.raises(TimeBudgetError):
        toy.run(slow, warmup=1000, chains=1, n_threads=1, max_time=0.7)
    assert max(n for _, _, n in slow.sizes) <= 4  # 1, 2 (0.04 s), 4 (0.08 s) and no more


@pytest.mark.parametrize("stop", [2, 9, 13, 40])
def test_ctrl_c_within_a_stretch_waits_for_its_end_and_resumes(stop, whole, tmp_path, monkeypatch):
    monkeypatch.setattr(loop, "SECONDS_PER_STRETCH", 60.0)
    path = tmp_path / "run.ckpt"
    with contextlib.suppress(KeyboardInterrupt):
        assert toy.run(Stretching(on_sweep=ctrl_c(stop)), checkpoint=path, n_threads=1).stopped == "interrupted"
    done = read(path, "checkpoint").header["run"]["next_sweep"]
    assert sum(done) < 3 * N_SWEEPS
    assert done[1] > stop
    for go_on in (toy.Toy(), Stretching()):
        (tmp_path / "copy.ckpt").write_bytes(path.read_bytes())
        assert toy.same(whole, toy.run(go_on, checkpoint=tmp_path / "copy.ckpt"))


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"seed": 8}, "seed is 7 there and 8 here"),
        ({"thin": 2}, "options.thin is 3 there and 2 here"),
        ({"warmup": 13}, "options.warmup is 12 there and 13 here"),
        ({"chains": 2}, "options.n_chains is 3 there and 2 here"),
        ({"problem": replace(toy.PROBLEM, data_hash="b" * 64)}, "data_hash is 'aaaaaa"),
        (
            {"problem": replace(toy.PROBLEM, options={"distance": "footrule", "priors": {"rate": 2}})},
            "rate is 0.1 there",
        ),
        ({"problem": replace(toy.PROBLEM, options={})}, "options.distance is 'footrule' there and 'nothing' here"),
        ({"probe": None}, r"draws/probe of chain 0 is float64 \(0, 2\), not float64 \(0, 0\)"),
        ({"tally": None}, "what is kept of chain 0 differs: tally"),
        ({"problem": replace(toy.PROBLEM, n_users=7)}, "labels of the state is int64"),
    ],
)
def test_a_checkpoint_of_another_run_is_refused(tmp_path, changes, named):
    path = tmp_path / "run.ckpt"
    with pytest.raises(TimeBudgetError):
        toy.run(checkpoint=path, max_time=1e-9)
    before = path.read_bytes()
    with pytest.raises(StoreError, match=named) as caught:
        toy.run(checkpoint=path, **changes)
    assert str(path) in str(caught.value)
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("name", "change", "named"),
    [
        ("0/state/rho", lambda rho: rho + 1, "each row of rho of the state must be a ranking"),
        ("2/state/ranks", lambda ranks: ranks * 0 - 9, "each row of ranks of the state must be a ranking"),
        ("1/state/labels", lambda labels: labels + 10**15, "labels of the state must lie in 0..1"),
        ("1/state/labels", lambda labels: labels[:-1], "labels of the state is int64"),
        ("1/state/alpha", lambda alpha: alpha * np.nan, "alpha of the state must be finite"),
        (
            "1/state/alpha_step",
            lambda step: step.astype(np.int64),
            "state/alpha_step of chain 1 must be there as <f8",
        ),
        ("0/draws/rho", lambda rho: rho[:1], "draws/rho of chain 0 is"),
        ("0/pending/rho_accepted", lambda pending: None, "what is kept of chain 0 differs: pending/rho_accepted"),
        ("0/state/tau", lambda tau: None, "state/tau of chain 0 must be there"),
        ("7/extra", lambda extra: np.zeros(1), "'7'"),
        ("next_sweep", lambda done: [5, 5], "a sweep number for each of 3 chains"),
        ("next_sweep", lambda done: [5, 5, -5], "a sweep number for each of 3 chains"),
        ("next_sweep", lambda done: [5, 5, 10**20], "draws, more than the 20 asked for"),
        ("next_sweep", lambda done: [40, 40, 40], "of chain 0 is"),
    ],
)
def test_a_forged_checkpoint_never_reaches_compiled_code(tmp_path, name, change, named):
    """Whoever can write a file can write its hash too: what indexes memory is checked by itself."""
    path = tmp_path / "run.ckpt"
    toy.run(checkpoint=path)
    stored = read(path, "checkpoint")
    if name == "next_sweep":
        stored.header["run"][name] = change(stored.header["run"][name])
    elif (value := change(stored.arrays.get(name))) is None:
        del stored.arrays[name]
    else:
        stored.arrays[name] = value
    write(path, "checkpoint", stored.header, stored.arrays)
    with pytest.raises(StoreError, match=named) as caught:
        toy.run(toy.Toy(on_sweep=pytest.fail), checkpoint=path)
    assert str(path) in str(caught.value)


def test_a_checkpoint_of_another_version_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "run.ckpt"
    toy.run(checkpoint=path)
    monkeypatch.setattr(checkpoint_module, "__version__", "9.9")
    with pytest.raises(StoreError, match=r"version is '.*' there and '9.9' here"):
        toy.run(checkpoint=path)


def test_checkpoints_come_in_time_and_two_are_kept(tmp_path):
    path, seen = tmp_path / "run.ckpt", []

    def look(chain, sweep):
        seen.append(sum(read(path, "checkpoint").header["run"]["next_sweep"]))

    toy.run(
        toy.Toy(pause=0.01, on_sweep=look), checkpoint=path, checkpoint_every=0.2, n_threads=1, chains=1, warmup=9
    )
    assert len(set(seen)) >= 3
    assert max(np.diff(sorted(set(seen)))) <= 21  # 0.2 s at 0.01 s or more a sweep, and the sweep under way
    newest, older = (read(file, "checkpoint").header["run"] for file in (path, tmp_path / "run.ckpt.1"))
    assert newest == {"next_sweep": [69]}
    assert older["next_sweep"][0] < 69
    assert sorted(os.listdir(tmp_path)) == ["run.ckpt", "run.ckpt.1"]


def test_a_folder_that_is_not_there_is_found_out_before_the_first_sweep(tmp_path):
    with pytest.raises(StoreError, match="cannot be written: No such file"):
        toy.run(toy.Toy(on_sweep=pytest.fail), checkpoint=tmp_path / "no" / "run.ckpt")


def test_a_disk_that_fills_up_costs_no_draw(whole, tmp_path, monkeypatch):
    write, calls = checkpoint_module.write_checkpoint, []

    def full(path, *rest, **named):
        calls.append(path)
        if len(calls) > 3:
            raise StoreError(f"{path}: cannot be written: No space left on device.")
        write(path, *rest, **named)

    monkeypatch.setattr(checkpoint_module, "write_checkpoint", full)
    with pytest.warns(StoreWarning, match="No space left on device. The run continues without it"):
        draws = toy.run(checkpoint=tmp_path / "run.ckpt", checkpoint_every=0)
    assert toy.same(whole, draws)
    with pytest.warns(StoreWarning), pytest.raises(TimeBudgetError) as caught:
        toy.run(toy.Toy(pause=0.02), checkpoint=tmp_path / "run.ckpt", max_time=0.1, n_threads=1)
    assert "has all results" not in str(caught.value)
    monkeypatch.undo()
    assert toy.same(whole, toy.run(checkpoint=tmp_path / "run.ckpt"))


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"draws": 0}, "draws must be a whole number, 1 or more, but it is 0"),
        ({"warmup": -1}, "warmup must be a whole number, 0 or more"),
        ({"thin": 1.5}, "thin must be a whole number"),
        ({"chains": True}, "chains must be a whole number"),
        ({"max_time": 0}, "max_time must be a positive number of seconds"),
        ({"max_time": float("nan")}, "max_time must be a positive number of seconds"),
        ({"n_threads": 0}, "n_threads must be a whole number, 1 or more"),
        ({"checkpoint_every": -1}, "checkpoint_every must be a positive"),
    ],
)
def test_bad_arguments(changes, named):
    with pytest.raises(ValueError, match=named):
        toy.run(**changes)


@pytest.mark.parametrize(
    ("part", "value", "named"),
    [
        ("labels", np.full(6, 2), r"labels of the state must lie in 0..1"),
        ("rho", np.ones((2, 5), int), "each row of rho"),
        ("ranks", np.zeros((6, 5)), "ranks of the state is float64"),
        ("alpha", np.array([1, np.inf]), "alpha of the state must be finite"),
        ("tau", np.ones(3), r"tau of the state is float64 \(3,\)"),
    ],
)
def test_a_state_that_compiled_code_could_not_trust_is_refused(part, value, named):
    with pytest.raises(ValueError, match=named):
        MIXTURE.check_state(toy.start(0)._replace(**{part: value}), toy.PROBLEM)


def test_rank_counts_of_one_draw():
    counts = RankCounts(np.array([0, 2]), 4, (1, 2))
    total = counts.zeros()
    counts.add(total, toy.start(0)._replace(ranks=np.array([[1, 2, 3, 4], [4, 3, 2, 1]])))
    assert total.tolist() == [[[1, 0, 0, 0], [0, 1, 1, 1]], [[1, 1, 0, 0], [1, 1, 1, 1]]]


@pytest.mark.chance(0)
@pytest.mark.parametrize(("name", "thin"), [("exact", 1), ("paper", 1), ("paper", 10)])
def test_the_samplers_themselves_resume_and_share_threads(tmp_path, name, thin, rotating_seed):
    clicks = np.random.default_rng(rotating_seed).random((15, 6)) < 0.4
    clicks[0, 0] = True
    data = make_data(clicks)
    problem = FitSpec(15, 6, 2, "c" * 64, {"sampler": name})

    def run(stop=None, **changes):
        """Every sweep is a call of its own if ``stop`` is given, and Ctrl-C comes in that sweep."""
        made = (ExactSampler if name == "exact" else PaperSampler)(data, 2, Priors(rate=0.1), seed=rotating_seed)

        class Watched:
            def sweep(self, state, chain, sweep, warmup):
                ctrl_c(stop)(chain, sweep)
                return made.sweep(state, chain, sweep, warmup)

        def begin(chain):
            return initial_state(clicks, 2, "random", seed=rotating_seed, chain=chain)

        plan = {"chains": 2, "draws": 30, "warmup": 35, "seed": rotating_seed, "progress": False, "thin": thin}
        sampler = made if stop is None else Watched()
        return loop.run_chains(lambda chain: sampler, begin, Recording(problem), Run(**plan | changes))

    whole = run(stop=-1, n_threads=1)
    assert np.ptp(whole.log_joint, axis=1).min() > 0
    for n_threads in (1, 2):
        assert toy.same(whole, run(n_threads=n_threads))
    for stop in (3, 35, 50):
        path = tmp_path / f"{stop}.ckpt"
        with contextlib.suppress(KeyboardInterrupt):
            assert run(stop, checkpoint=path).stopped == "interrupted"
        assert toy.same(whole, run(checkpoint=path))


def test_the_hash_of_clicks_sees_clicks_and_ids():
    matrix = [[1, 0], [1, 1]]
    variants = [
        Clicks.from_matrix(matrix),
        Clicks.from_matrix([[1, 1], [1, 1]]),
        Clicks.from_matrix(matrix, users=["0", "1"]),
        Clicks.from_matrix(matrix, items=[1, 0]),
    ]
    assert len({(clicks).fingerprint() for clicks in variants}) == 4


def test_progress_is_silent_unless_asked_for_or_at_a_terminal(capfd, whole, monkeypatch):
    toy.run(progress=None)
    assert capfd.readouterr() == ("", "")
    monkeypatch.setattr(progress_module, "SECONDS_BETWEEN", 0.0)
    assert toy.same(whole, toy.run(toy.Toy(pause=0.004), progress=True))
    out, err = capfd.readouterr()
    assert out == ""
    assert "216/216 sweeps" in err
    assert "R-hat" not in err  # that is for the verdict alone
    assert "warm-up" in err
    assert "drawing" in err


def test_progress_at_a_terminal(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    monkeypatch.setattr(sys, "stderr", Terminal())
    toy.run(progress=None)
    assert "216/216 sweeps" in sys.stderr.getvalue()
    shown = len(sys.stderr.getvalue())
    toy.run(progress=False)
    assert len(sys.stderr.getvalue()) == shown


def test_the_line_says_how_long_still():
    assert describe(0, 10_000, 2.0, None) == "0/10,000 sweeps · 2.0/s · 1:23:20 left"
    assert describe(0, 10_000, 2.0, 61.0) == "0/10,000 sweeps · 2.0/s · 0:01:01 left"
