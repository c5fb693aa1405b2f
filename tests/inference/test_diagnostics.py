import dataclasses
import math
import re
import sys

import numpy as np
import pytest

from bmcd.clicks.log import Clicks
from bmcd.errors import MissingPackageError
from bmcd.inference.arviz import mixture_tree
from bmcd.inference.diagnostics import Verdict, probed_pairs, quantities, rows, table, verdict
from bmcd.inference.draws import Draws, FitSpec, match_clusters
from bmcd.inference.run import Plan

pytestmark = pytest.mark.chance(1e-4)

N_ITEMS = 4


def make(log_joint, seed, n_clusters=2, probe=0, **changes):
    """Draws with a given log joint; all else is independent noise, as of chains that have converged."""
    rng = np.random.default_rng(seed)
    n_chains, n_draws = log_joint.shape
    shape = (n_chains, n_draws, n_clusters)
    rho = rng.permuted(np.broadcast_to(np.arange(1, N_ITEMS + 1), (*shape, N_ITEMS)), axis=3)
    counts = rng.multinomial(30, np.full(n_clusters, 1 / n_clusters), size=shape[:2])
    arrays = {
        "alpha": rng.exponential(size=shape),
        "tau": rng.dirichlet(np.ones(n_clusters), size=shape[:2]),
        "rho": rho.astype(np.int16),
        "label_counts": counts,
        "log_joint": log_joint,
        "within_distance": rng.poisson(100.0, size=shape[:2]).astype(float),
        "alpha_accepted": np.full(shape, np.nan),
        "rho_accepted": rng.random(shape[:2]),
        "ranks_accepted": rng.random(shape[:2]),
        "probe": rng.random((n_chains, n_draws, probe)),
        "warmup_log_joint": np.zeros((n_chains, 7)),
        "tally": None,
        "n_tallied": np.zeros(n_chains, int),
        **changes,
    }
    problem = FitSpec(30, N_ITEMS, n_clusters, "ab" * 32)
    return Draws(**arrays, problem=problem, plan=Plan(n_chains, n_draws, 7), seed=3, version="1.2")


def noise(seed, n_chains=4, n_draws=500):
    return np.random.default_rng([seed, 1]).normal(size=(n_chains, n_draws)) - 5000.0


def test_figures_are_arvizs_own(require, rotating_seed):
    stats = require("arviz_stats").rhat, require("arviz_stats").ess, require("arviz_stats").mcse
    draws = make(noise(rotating_seed), rotating_seed, probe=3)
    found = {row.quantity: row for row in rows(draws)}
    followed = list(zip(*(numbers[:3] + 1 for numbers in probed_pairs(3, 30, N_ITEMS)), strict=True))
    assert list(found) == [
        "log joint",
        "within-cluster distance",
        "alpha 1 of 2",
        "alpha 2 of 2",
        "cluster size 1 of 2",
        "cluster size 2 of 2",
        *(f"probability of item number {i} for user number {u}" for u, i in followed),
    ]
    direct = {
        "log joint": draws.log_joint,
        "alpha 1 of 2": draws.alpha.max(axis=2),
        list(found)[-1]: draws.probe[..., 2].round(9),  # as it is judged: rounding errors are no disagreement
    }
    rhat, ess, mcse = stats
    for name, values in direct.items():
        axes = {"chain_axis": 0, "draw_axis": 1}
        row = found[name]
        assert row.rhat == pytest.approx(rhat(values, **axes), rel=1e-12)
        assert row.ess_bulk == pytest.approx(ess(values, method="bulk", **axes), rel=1e-12)
        assert row.ess_tail == pytest.approx(ess(values, method="tail", prob=(0.05, 0.95), **axes), rel=1e-12)
        assert row.mcse == pytest.approx(mcse(values, method="mean", **axes), rel=1e-12)
        assert row.mean == pytest.approx(values.mean())


def test_names_of_clusters_do_not_matter(rotating_seed):
    draws = make(noise(rotating_seed), rotating_seed, n_clusters=3)
    order = np.random.default_rng(rotating_seed).permuted(
        np.tile(np.arange(3), (*draws.log_joint.shape, 1)), axis=2
    )
    switched = dataclasses.replace(
        draws,
        alpha=np.take_along_axis(draws.alpha, order, 2),
        label_counts=np.take_along_axis(draws.label_counts, order, 2),
    )
    assert rows(draws) == rows(switched)


def test_table_has_a_line_for_each_quantity(rotating_seed):
    draws = make(noise(rotating_seed), rotating_seed)
    frame = table(draws)
    assert list(frame.index) == list(quantities(draws))
    assert list(frame.columns) == ["mean", "sd", "mcse", "rhat", "ess_bulk", "ess_tail", "constant"]


def test_good_chains_have_converged(rotating_seed):
    said = verdict(make(noise(rotating_seed), rotating_seed, probe=2))
    assert said.converged
    assert said.text.startswith("Converged: largest R-hat over 4 chains 1.0")
    assert said.advice == ()
    assert str(said) == said.text


def test_drifting_chains_need_warm_up(rotating_seed):
    drift = noise(rotating_seed) + np.linspace(0, 10, 500)
    said = verdict(make(drift, rotating_seed))
    assert not said.converged
    assert "(log joint; at most 1.05 is wanted)" in said.text
    assert (
        "still moves from one half of each chain to the other: give more warm-up, such as warmup=507"
        in said.advice[0]
    )
    assert str(said).count("\n- ") == len(said.advice)


def test_two_modes_need_chains(rotating_seed):
    log_joint = noise(rotating_seed)
    log_joint[2:] += 50
    said = verdict(make(log_joint, rotating_seed))
    assert not said.converged
    assert "The chains disagree on the log joint (means by chain: -5,000, -5,000, -4,950" in said.advice[0]
    assert "several modes: run more chains from different starts (chains=8)" in said.advice[1]


def test_one_chain_apart_is_named(rotating_seed):
    log_joint = noise(rotating_seed)
    log_joint[2] += 50
    said = verdict(make(log_joint, rotating_seed))
    assert not said.converged
    assert "without chain 2 the others agree" in said.advice[0]
    log_joint[2] += np.linspace(0, 20, 500)
    assert "chain 2 still drifts" in verdict(make(log_joint, rotating_seed)).advice[0]


def test_a_stuck_chain_is_named(rotating_seed):
    log_joint = noise(rotating_seed)
    log_joint[1] = -1234.5
    said = verdict(make(log_joint, rotating_seed))
    assert not said.converged
    assert "chain 1 is stuck (its log joint stood at -1,234.5 for 500 of 500 draws)" in said.text
    log_joint = noise(rotating_seed)
    log_joint[3, 200:] = -7.0
    assert "chain 3 is stuck (its log joint stood at -7 for 300 of 500 draws)" in verdict(make(log_joint, 0)).text
    draws = make(noise(rotating_seed), rotating_seed)
    draws.alpha[0] = 2.5
    assert "chain 0 is stuck (its alpha stood at 2.5 for all 500 draws)" in verdict(draws).text


def test_slow_chains_need_draws(rotating_seed):
    """An autoregression at 0.97 has an effective sample of 1.5 % of its draws."""
    steps = np.random.default_rng(rotating_seed).normal(size=(4, 4000))
    slow = np.zeros_like(steps)
    for t in range(1, 4000):
        slow[:, t] = 0.97 * slow[:, t - 1] + steps[:, t]
    said = verdict(make(slow, rotating_seed), min_ess=1000, max_rhat=1.2)
    assert not said.converged
    assert said.text.startswith("Not converged yet: ")
    assert "too few draws: ask for draws=" in said.advice[0]
    assert int(said.advice[0].split("draws=")[1].rstrip(".")) > 4000


def test_one_chain_is_judged_by_its_halves(rotating_seed):
    said = verdict(make(noise(rotating_seed, n_chains=1, n_draws=2000), rotating_seed))
    assert said.converged
    assert "split R-hat of the one chain" in said.text
    assert "R-hat between chains cannot be taken" in said.text
    assert said.advice == ("Run at least 2 chains, better 4.",)
    drift = noise(rotating_seed, n_chains=1) + np.linspace(0, 10, 500)
    said = verdict(make(drift, rotating_seed))
    assert not said.converged
    assert "give more warm-up" in said.advice[0]


def test_constants_are_no_trouble(rotating_seed):
    one_cluster = make(noise(rotating_seed), rotating_seed, n_clusters=1)
    one_cluster.within_distance[:] = 0
    said = verdict(one_cluster)
    assert said.converged
    assert "nan" not in str(said)
    found = {row.quantity: row for row in rows(one_cluster)}
    size = found["cluster size 1 of 1"]
    assert size[:4] == ("cluster size 1 of 1", 30.0, 0.0, 0.0)
    assert size.constant
    assert math.isnan(size.rhat)


def test_a_probability_that_is_always_1_but_for_rounding_is_constant(rotating_seed):
    draws = make(noise(rotating_seed), rotating_seed)
    shape = (*draws.log_joint.shape, 1)
    last_digits = 1e-15 * (np.arange(shape[0])[:, None, None] + np.random.default_rng(rotating_seed).random(shape))
    draws = dataclasses.replace(draws, probe=1.0 - last_digits)
    assert verdict(draws).converged
    assert rows(draws)[-1].quantity.startswith("probability of")
    assert rows(draws)[-1].constant


def test_a_probability_is_named_after_its_item_and_user(rotating_seed):
    """The chains disagree on it by 0.2, so the verdict names it, and says who and what."""
    draws = make(noise(rotating_seed), rotating_seed, probe=1)
    draws.probe[:] = 0.5 + 0.2 * (np.arange(4) == 3)[:, None, None] + 1e-3 * draws.probe
    users, items = [f"ann-{u}" for u in range(30)], [f"A{i}" for i in range(N_ITEMS)]
    clicks = Clicks.from_matrix(np.ones((30, N_ITEMS)), users, items)
    user, item = (numbers[0] for numbers in probed_pairs(3, 30, N_ITEMS))
    said = verdict(draws, clicks)
    name = f"probability of 'A{item}' for user 'ann-{user}'"
    assert said.state == "not converged"
    assert name in said.text
    assert f"The chains disagree on the {name} (means by chain: 0.50" in said.advice[0]
    assert name in table(draws, clicks).index
    nobody = clicks.of_users(np.arange(0))
    assert f"probability of 'A{item}' for user number {user + 1}" in verdict(draws, nobody).text


def test_probabilities_that_differ_by_nothing_that_matters_are_settled(rotating_seed):
    draws = make(noise(rotating_seed), rotating_seed, probe=1)
    apart = (np.arange(4) == 3)[:, None, None] + 1e-2 * np.random.default_rng(rotating_seed).random((4, 500, 1))
    near = dataclasses.replace(draws, probe=0.1209 + 0.0002 * apart)
    assert rows(near)[-1].rhat > 1.5
    assert verdict(near).converged
    drifts = dataclasses.replace(draws, probe=near.probe + np.linspace(0, 0.05, 500)[:, None])
    assert verdict(drifts).state == "not converged"
    far = dataclasses.replace(draws, probe=0.12 + 0.02 * apart)
    assert verdict(far).state == "not converged"


def test_constants_that_differ_between_chains_are_a_disagreement(rotating_seed):
    draws = make(noise(rotating_seed), rotating_seed)
    draws.within_distance[:] = np.array([[1.0], [1.0], [1.0], [2.0]])
    said = verdict(draws)
    assert not said.converged
    assert "R-hat over 4 chains above 10 (within-cluster distance" in said.text
    assert "without chain 3 the others agree (R-hat 1.000)" in said.advice[0]


@pytest.mark.parametrize("n_chains", [1, 2, 3])
@pytest.mark.parametrize("n_draws", [1, 3, 4, 5, 7, 8, 20])
def test_few_draws_and_values_give_a_verdict_and_no_warning(n_chains, n_draws, rotating_seed):
    rng = np.random.default_rng(rotating_seed)
    shape = (n_chains, n_draws)
    log_joint = noise(rotating_seed, *shape)
    draws = make(log_joint, rotating_seed, within_distance=rng.integers(2, size=shape).astype(float))
    draws.label_counts[:] = 15
    draws.label_counts[0, -1] = [14, 16]  # a single move in one chain
    said = verdict(draws)
    assert isinstance(said, Verdict)
    assert not said.converged
    assert "nan" not in str(said)
    if n_draws < 4:
        assert f"{n_draws} draws of each chain are too few" in said.text
        with pytest.raises(ValueError, match="at least 4 draws"):
            rows(draws)


def test_a_run_cut_short_says_so(rotating_seed):
    draws = make(noise(rotating_seed), rotating_seed)
    said = verdict(dataclasses.replace(draws, note="stopped by Ctrl-C after 500 of 900 draws of each chain."))
    assert said.text.endswith("The run was stopped by Ctrl-C after 500 of 900 draws of each chain.")


def as_tree(draws):
    clicks = Clicks.from_matrix(np.ones((1, 4), bool), items=["a", "b", "c", "d"])
    return mixture_tree(draws, match_clusters(draws), clicks, users=False, max_draws=None)


def test_to_arviz(require, rotating_seed):
    require("arviz_base")
    draws = make(noise(rotating_seed), rotating_seed, n_clusters=3, probe=2)
    tree = as_tree(draws)
    assert tree.posterior.alpha.dims == ("chain", "draw", "cluster")
    assert tree.posterior.rho.dims == ("chain", "draw", "cluster", "item")
    assert tree.posterior.rho.sel(item="b").shape == (4, 500, 3)
    np.testing.assert_array_equal(tree.posterior.rho.values, match_clusters(draws).sort(draws.rho))
    np.testing.assert_array_equal(tree.sample_stats.lp.values, draws.log_joint)
    assert tree.sample_stats.label_counts.dims == ("chain", "draw", "cluster")
    assert tree.sample_stats.probe.shape == (4, 500, 2)
    assert tree.warmup_sample_stats.lp.shape == (4, 7)
    assert tree.posterior.attrs["seed"] == "3"


def test_the_verdict_needs_no_arviz(monkeypatch):
    for name in ("arviz_stats", "arviz_base", "xarray"):
        monkeypatch.setitem(sys.modules, name, None)
    assert verdict(make(noise(0), 0)).converged
    with pytest.raises(MissingPackageError, match=re.escape('pip install "bmcd[arviz]"')):
        as_tree(make(noise(0), 0))
