"""Do chains leave their modes if they may split, merge or exchange clusters? The moves beside plain chains."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from typing import Any

import arviz_stats
import numpy as np
from numpy.typing import NDArray

from bmcd import __version__
from bmcd.inference.bmcd.initial import initial_state
from bmcd.inference.bmcd.sampler import ExactSampler
from bmcd.inference.priors import Priors
from bmcd.inference.record import ChainRecord, Recording, draws_of
from bmcd.inference.run import Plan
from bmcd.inference.schema import Problem
from bmcd.inference.state import ChainState, make_data
from bmcd.mallows import log_likelihood, top_probabilities
from bmcd.models.bmcd_predictor import Predictor
from experiments.case_study.data import DataSet, prepare
from experiments.case_study.plan import DATA_SETS, quick_part
from experiments.document import Contents, Row
from experiments.modes.clusters import Clusters, close_clusters, open_clusters
from experiments.modes.exchange import exchange
from experiments.modes.split_merge import SplitMerge
from experiments.study import Stage, Study
from experiments.tasks import Result, Task

Floats = NDArray[np.float64]
PLAIN, EXCHANGE, SPLIT_MERGE = "plain chains", "exchange of clusters", "split and merge"
# Users whose probability of one item is followed.
FOLLOWED = 60


@dataclass(frozen=True)
class Size:
    """How large the comparison is."""

    data: DataSet
    n_clusters: int
    seeds: tuple[int, ...]
    chains: int
    sweeps: Mapping[str, int]
    """Of each form, about as many as make the CPU time the same; a third is warm-up."""
    every: int = 5
    """Sweeps between rounds of moves."""
    exchanges: int = 60
    """Proposals in a round, over all chains."""
    splits: int = 4
    """Proposals in a round, of each chain."""


FULL = Size(DATA_SETS["eshop-1"], 10, (0, 1), 4, {PLAIN: 150, EXCHANGE: 120, SPLIT_MERGE: 100})
QUICK = Size(quick_part(DATA_SETS["eshop-1"]), 3, (0,), 2, {PLAIN: 15, EXCHANGE: 12, SPLIT_MERGE: 12}, 4, 4, 2)


def run_form(
    data: Mapping[str, Any],
    form: str,
    n_clusters: int,
    seed: int,
    chains: int,
    sweeps: int,
    every: int,
    proposals: int,
) -> Result:
    """Run the chains in one form, and measure how far they agree and how good they are."""
    data_set = DataSet(**data)
    prepared = prepare(data_set)
    train, test = prepared.train, prepared.test
    matrix, priors, rng = train.matrix.astype(np.float64), Priors(), np.random.default_rng(seed)
    sampler = ExactSampler(make_data(train.matrix), n_clusters, priors, seed=seed)
    problem = Problem(
        train.n_users, train.n_items, n_clusters, "", {"distance": "footrule", "rank_scale": "linear"}
    )
    plan = Plan(chains, sweeps - sweeps // 3, sweeps // 3)
    recording = Recording(problem, probe=_followed(matrix, data_set.remove, seed))
    records = [
        ChainRecord(chain, initial_state(train.matrix, n_clusters, seed=seed, chain=chain), recording, plan)
        for chain in range(chains)
    ]
    split_merge, ratios, accepted, moving = SplitMerge(matrix, priors), [], 0, 0.0
    began = time.process_time()
    for sweep in range(sweeps):
        if sweep % every == 0 and form != PLAIN:
            started = time.process_time()
            states = [record.state for record in records]
            found = _round(form, states, matrix, priors, split_merge, proposals, rng)
            ratios += found[0]
            accepted += found[1]
            moving += time.process_time() - started
        for record in records:
            record.add(sampler.sweep(record.state, record.chain, sweep, sweep < plan.warmup))
    seconds = time.process_time() - began
    draws = draws_of(records, seed, __version__)
    rhat = np.array([float(arviz_stats.rhat(draws.probe[:, :, i])) for i in range(draws.probe.shape[2])])
    truth = test.matrix.toarray() > 0
    by_chain = [
        Predictor(draws.of_chain(chain), 10).predict(train.matrix, data_set.remove, 1).probability
        for chain in range(chains)
    ]
    return {
        "seconds": seconds,
        "of_moves": moving,
        "proposed": len(ratios),
        "accepted": accepted,
        "ratios": [] if not ratios else np.quantile(ratios, [0.5, 0.9, 1.0]).tolist(),
        "rhat": [float(np.nanquantile(rhat, q)) for q in (0.5, 1.0)],
        "log_likelihood": [_log_likelihood(record.state, matrix) for record in records],
        "accuracy": _accuracy(np.mean(by_chain, axis=0), truth, data_set.remove),
        "accuracy_of_chains": [_accuracy(probability, truth, data_set.remove) for probability in by_chain],
    }


def _round(
    form: str,
    states: Sequence[ChainState],
    matrix: Any,
    priors: Priors,
    split_merge: SplitMerge,
    proposals: int,
    rng: np.random.Generator,
) -> tuple[list[float], int]:
    """Propose moves, and put what was accepted into the states. Returns the log ratios and the number accepted."""
    before = [open_clusters(state, matrix, priors.concentration, rng) for state in states]
    chains: list[Clusters] = list(before)
    ratios, accepted = [], 0
    if form == EXCHANGE:
        pairs = list(combinations(range(len(chains)), 2))
        for i in rng.integers(len(pairs), size=proposals).tolist():
            a, b = pairs[i]
            (first, second), ratio = exchange((chains[a], chains[b]), rng)
            accepted += first is not chains[a]
            chains[a], chains[b] = first, second
            ratios.append(ratio)
    else:
        for chain in range(len(chains)):
            for _ in range(proposals):
                after, ratio = split_merge.propose(chains[chain], rng)
                accepted += after is not chains[chain]
                chains[chain] = after
                ratios.append(ratio)
    for state, old, new in zip(states, before, chains, strict=True):
        if new is not old:
            close_clusters(new, state, rng)
    return ratios, accepted


def _followed(matrix: Any, k: int, seed: int) -> Any:
    """Return what is followed of a chain: of some users, how probable the most clicked item is that is left."""
    users = np.random.default_rng(seed).integers(matrix.shape[0], size=FOLLOWED)
    rows = matrix[users]
    appeal = np.where(rows.toarray() > 0, -1.0, np.asarray(matrix.sum(axis=0)))
    items = appeal.argmax(axis=1)

    def probe(state: ChainState) -> Floats:
        joint = log_likelihood(rows, state.rho, state.alpha, n_threads=1) + np.log(state.tau)
        share = np.exp(joint - joint.max(axis=1, keepdims=True))
        share /= share.sum(axis=1, keepdims=True)
        given = top_probabilities(rows, state.rho, state.alpha, k, n_threads=1)[np.arange(FOLLOWED), items]
        return np.asarray((share * given).sum(axis=1))

    return probe


def _log_likelihood(state: ChainState, matrix: Any) -> float:
    return open_clusters(state, matrix, 1.0, np.random.default_rng(0)).shares()[0]


def _accuracy(probability: Floats, truth: NDArray[np.bool_], k: int) -> float:
    best = np.argsort(-probability, axis=1, kind="stable")[:, :k]
    return float(np.take_along_axis(truth, best, axis=1).mean())


class ModesStudy(Study):
    """The comparison; ``quick`` has a few users and sweeps, and shows that everything runs."""

    package = __package__

    def __init__(self, *, quick: bool = False) -> None:
        self.quick, self.size = quick, QUICK if quick else FULL

    def stages(self, results: Mapping[str, Result]) -> Iterator[Stage]:
        """Yield all tasks; they need nothing of each other."""
        size = self.size
        common = {
            "data": asdict(size.data),
            "n_clusters": size.n_clusters,
            "chains": size.chains,
            "every": size.every,
        }
        proposals = {PLAIN: 0, EXCHANGE: size.exchanges, SPLIT_MERGE: size.splits}
        tasks = [
            Task(
                f"{form}/{seed}".replace(" ", "-"),
                run_form,
                {**common, "form": form, "seed": seed, "sweeps": size.sweeps[form], "proposals": proposals[form]},
                120,
            )
            for form in proposals
            for seed in size.seeds
        ]
        yield Stage("forms", tasks)

    def contents(self, results: Mapping[str, Result]) -> Contents:
        """Return the words and the table of page.md."""
        size = self.size
        rows = [
            _row(form, seed, size.sweeps[form], results[f"{form}/{seed}".replace(" ", "-")])
            for seed in size.seeds
            for form in (PLAIN, EXCHANGE, SPLIT_MERGE)
        ]
        words = {"form": ", in its quick form" if self.quick else "", "version": __version__, "size": size}
        return Contents(words | {"data": size.data.name, "k": size.data.remove}, {"forms": rows}, {})


def _row(form: str, seed: int, sweeps: int, found: Result) -> Row:
    median, ninety, largest = found["ratios"] or [float("nan")] * 3
    single = [100 * accuracy for accuracy in found["accuracy_of_chains"]]
    return {
        "seed": seed,
        "form": form,
        "sweeps a chain": sweeps,
        "CPU s": f"{found['seconds']:.0f}",
        "of it moves": f"{found['of_moves']:.0f}",
        "accepted": f"{found['accepted']:,} of {found['proposed']:,}" if found["proposed"] else "",
        "log ratio: median, 90 %, largest": f"{median:.0f}, {ninety:.0f}, {largest:.1f}" if found["ratios"] else "",
        "R-hat: median, largest": "{:.2f}, {:.2f}".format(*found["rhat"]),
        "log-likelihood of the chains": ", ".join(f"{value:,.0f}" for value in sorted(found["log_likelihood"])),
        "accuracy %": f"{100 * found['accuracy']:.2f}",
        "single chains %": f"{min(single):.2f} to {max(single):.2f}",
    }
