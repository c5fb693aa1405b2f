"""A small honest sampler for the tests of the loop; and, run as a script, a run of it that a test can kill.

python toy.py CHECKPOINT LOG SECONDS_PER_SWEEP THREADS
"""

import sys
import time
from pathlib import Path

import numpy as np

from bmcd.inference import checkpoint as checkpoint_module
from bmcd.inference import loop
from bmcd.inference.draws import FitSpec
from bmcd.inference.mixture import ChainState, SweepInfo
from bmcd.inference.record import RankCounts, Recording
from bmcd.inference.run import Run

N_USERS, N_ITEMS, N_CLUSTERS = 6, 5, 2
PROBLEM = FitSpec(N_USERS, N_ITEMS, N_CLUSTERS, "a" * 64, {"distance": "footrule", "priors": {"rate": 0.1}})
PLAN = {"chains": 3, "draws": 20, "warmup": 12, "thin": 3, "seed": 7}


class Toy:
    """Every part of the state moves, in place, by numbers that depend on seed, chain and sweep only."""

    def __init__(self, seed=7, pause=0.0, on_sweep=None):
        self.seed, self.pause, self.on_sweep = seed, pause, on_sweep

    def sweep(self, state, chain, sweep, warmup):
        rng = np.random.default_rng([self.seed, chain, sweep])
        if self.pause:
            time.sleep(self.pause)
        if self.on_sweep is not None:
            self.on_sweep(chain, sweep)
        state.tau[:] = rng.dirichlet(np.bincount(state.labels, minlength=N_CLUSTERS) + 1.0)
        state.labels[:] = rng.random(N_USERS) > state.tau[0]
        for rows in (state.rho, state.ranks):
            i, j = rng.integers(N_ITEMS, size=2)
            rows[:, [i, j]] = rows[:, [j, i]]
        step = state.alpha_step * rng.normal(size=N_CLUSTERS)
        accepted = rng.random(N_CLUSTERS) < np.exp(np.minimum(0, step - state.alpha * np.expm1(step)))
        state.alpha[:] = np.where(accepted, state.alpha * np.exp(step), state.alpha)
        if warmup:
            state.alpha_step[:] = np.where(accepted, state.alpha_step * 1.1, state.alpha_step / 1.1)
        distance = float(np.abs(state.ranks - state.rho[state.labels]).sum())
        shares = accepted if sweep % 2 else np.full(N_CLUSTERS, np.nan)  # like a move made every second sweep
        log_joint = -state.alpha.sum() - distance + np.log(state.tau[state.labels]).sum()
        counts = np.bincount(state.labels, minlength=N_CLUSTERS)
        return SweepInfo(float(log_joint), distance, counts, shares * 1.0, float(rng.random()), np.nan)


def start(chain):
    rng = np.random.default_rng([99, chain])
    return ChainState(
        np.ones(N_CLUSTERS),
        np.full(N_CLUSTERS, 1 / N_CLUSTERS),
        np.array([rng.permutation(N_ITEMS) + 1 for _ in range(N_CLUSTERS)]),
        rng.integers(N_CLUSTERS, size=N_USERS),
        np.array([rng.permutation(N_ITEMS) + 1 for _ in range(N_USERS)]),
        np.full(N_CLUSTERS, 0.5),
    )


def probe(state):
    return np.array([state.alpha.max(), state.tau.min()])


def run(toy=None, **changes):
    """Run the toy with progress off; ``changes`` to the Run of PLAN or to the Recording."""
    toy = toy or Toy()
    tally = RankCounts(np.ones(N_USERS, int), N_ITEMS, (1, 2))
    kept = {"problem": PROBLEM, "probe": probe, "tally": tally}
    kept |= {name: changes.pop(name) for name in kept if name in changes}
    run_options = {"progress": False, **PLAN, **changes}
    return loop.run_chains(lambda chain: toy, start, Recording(**kept), Run(**run_options))


def same(one, two):
    """Whether two Draws are the same, byte by byte."""
    assert vars(one).keys() == vars(two).keys()
    for name, value in vars(one).items():
        other = vars(two)[name]
        if isinstance(value, np.ndarray):
            if (value.dtype, value.shape, value.tobytes()) != (other.dtype, other.shape, other.tobytes()):
                return False
        elif value != other:
            return False
    return True


def main(checkpoint, log, pause, n_threads):
    """Log every checkpoint once it is whole, then every sweep: what was logged must never be lost."""
    write_checkpoint = checkpoint_module.write_checkpoint

    with Path(log).open("a", buffering=1) as lines:

        def write_and_log(path, header, arrays, keep_previous):
            write_checkpoint(path, header, arrays, keep_previous)
            lines.write(f"checkpoint {sum(header['run']['next_sweep'])}\n")

        checkpoint_module.write_checkpoint = write_and_log
        toy = Toy(pause=float(pause), on_sweep=lambda chain, sweep: lines.write("sweep\n"))
        draws = run(toy, checkpoint=checkpoint, checkpoint_every=0.02, n_threads=int(n_threads))
        print(draws.stopped, draws.n_draws, draws.note)


if __name__ == "__main__":
    main(*sys.argv[1:])
