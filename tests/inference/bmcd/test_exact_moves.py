"""Each move of the exact sampler alone: its ratio against the definition, its proposals and its law."""

import itertools
import math

import numba
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse, stats
from tests.reference.mallows import enumerate_rankings, probabilities_enumerated, slow_distance

import bmcd
from bmcd.inference.bmcd.consensus import (
    cost_matrix,
    draw_rank_pair,
    mark_exactly_one,
    relabel_change,
    relabel_pass,
    shuffle,
    swap_change,
    swap_pass,
)
from bmcd.inference.bmcd.labels import group_by_label, label_log_ratio, label_scores, scores_to_log_q
from bmcd.inference.bmcd.latent_rankings import hit_and_run
from bmcd.inference.bmcd.sampler import alpha_log_ratio
from bmcd.inference.mixture import make_data
from bmcd.inference.variates import draw_dirichlet, exponential, log_gamma_variate, normal
from bmcd.mallows.latent import log_likelihood, sample_latent
from bmcd.mallows.latent.scan import cluster_tables, shared_tables
from bmcd.mallows.rank_scale import scale_values
from bmcd.rng import STREAM_SIZE, open_stream, stream_key

SCALES = ["linear", "sqrt", "log"]


def stream_of(seed):
    stream = np.empty(STREAM_SIZE, np.uint64)
    open_stream(stream, stream_key(seed), 0, 0, 0, 0)
    return stream


@st.composite
def clusters(draw, max_users=6, max_items=6):
    """Clicks, compatible rankings, labels of two clusters and a consensus."""
    n_users, n = draw(st.integers(1, max_users)), draw(st.integers(2, max_items))
    seed = draw(st.integers(0, 2**32 - 1))
    rng = np.random.default_rng(seed)
    clicks = rng.random((n_users, n)) < draw(st.sampled_from([0.0, 0.3, 0.7, 1.0]))
    scale = draw(st.sampled_from(SCALES))
    rho = rng.permutation(n) + 1
    ranks = sample_latent(clicks, rho, 1.0, seed=seed)
    labels = rng.integers(0, 2, n_users)
    return clicks, ranks, labels, rho, scale


def distances(ranks, rho, scale):
    g = scale_values(len(rho), scale).tolist()
    return np.array([slow_distance(r.tolist(), rho.tolist(), "footrule", g) for r in ranks])


@given(problem=clusters())
def test_swap_change_is_the_change_of_distance(problem):
    _, ranks, _, rho, scale = problem
    g = scale_values(rho.size, scale)
    cost = cost_matrix(ranks, np.arange(len(ranks)), g)
    before = distances(ranks, rho, scale).sum()
    assert cost[np.arange(rho.size), rho - 1].sum() == pytest.approx(before, abs=1e-9)
    for a, b in itertools.combinations(range(rho.size), 2):
        swapped = rho.copy()
        swapped[[a, b]] = swapped[[b, a]]
        change = distances(ranks, swapped, scale).sum() - before
        assert swap_change(cost, rho, a, b) == pytest.approx(change, abs=1e-9)


def relabelled(clicks, ranks, labels, rho, a, b):
    """The definition: exchange a and b in rho, and in R_j of members of cluster 0 who clicked both or neither."""
    rho, ranks = rho.copy(), ranks.copy()
    rho[[a, b]] = rho[[b, a]]
    for user in np.flatnonzero((labels == 0) & (clicks[:, a] == clicks[:, b])):
        ranks[user, [a, b]] = ranks[user, [b, a]]
    return ranks, rho


@given(problem=clusters())
def test_relabel_change_is_the_change_of_distance(problem):
    clicks, ranks, labels, rho, scale = problem
    data = make_data(sparse.csr_array(clicks), scale)
    mark = np.zeros(len(ranks), np.bool_)
    members = labels == 0
    before = distances(ranks, rho, scale)[members].sum()
    for a, b in itertools.combinations(range(rho.size), 2):
        new_ranks, new_rho = relabelled(clicks, ranks, labels, rho, a, b)
        mark_exactly_one(data, a, b, mark)
        np.testing.assert_array_equal(mark, clicks[:, a] != clicks[:, b])
        change = relabel_change(data, ranks, labels, 0, rho, data.scale, a, b, mark)
        mark_exactly_one(data, a, b, mark)
        assert not mark.any()
        assert change == pytest.approx(distances(new_ranks, new_rho, scale)[members].sum() - before, abs=1e-9)


def pair_probability(n, low, high):
    """The declared q: gap g with probability log((g + 1) / g) / log n, then the place uniformly."""
    gap = high - low
    return math.log((gap + 1) / gap) / math.log(n) / (n - gap)


@pytest.mark.chance(1e-5)
@pytest.mark.parametrize("n", [2, 3, 5, 8])
def test_rank_pairs_are_drawn_as_declared(n, rotating_seed, times):
    @numba.njit
    def draw(stream, size):
        counts = np.zeros((n, n), np.int64)
        for _ in range(size):
            low, high = draw_rank_pair(stream, n)
            counts[low, high] += 1
        return counts

    size = 200_000 * times
    counts = draw(stream_of(rotating_seed), size)
    pairs = list(itertools.combinations(range(n), 2))
    expected = np.array([pair_probability(n, *pair) for pair in pairs]) * size
    assert expected.sum() == pytest.approx(size, rel=1e-12)
    observed = np.array([counts[pair] for pair in pairs])
    assert observed.sum() == size
    if n > 2:
        assert stats.chisquare(observed, expected).pvalue > 1e-6


@pytest.mark.parametrize("n", [2, 3, 4, 5])
@pytest.mark.parametrize("beta", [0.0, 0.3, 2.0])
def test_swaps_are_in_detailed_balance(n, beta):
    """The whole transition matrix over rho, from the declared q and the kernel's own change of distance."""
    rng = np.random.default_rng(n)
    ranks = np.array([rng.permutation(n) + 1 for _ in range(3)])
    cost = cost_matrix(ranks, np.arange(3), scale_values(n, "sqrt"))
    states = [np.array(r) for r in enumerate_rankings(n)]
    number = {tuple(r.tolist()): i for i, r in enumerate(states)}
    weight = np.array([math.exp(-beta * distances(ranks, rho, "sqrt").sum()) for rho in states])
    flow = np.zeros((len(states), len(states)))
    for i, rho in enumerate(states):
        item_at = np.argsort(rho)
        for low, high in itertools.combinations(range(n), 2):
            a, b = item_at[low], item_at[high]
            swapped = rho.copy()
            swapped[[a, b]] = swapped[[b, a]]
            accept = min(1.0, math.exp(-beta * swap_change(cost, rho, a, b)))
            flow[i, number[tuple(swapped.tolist())]] += weight[i] * pair_probability(n, low, high) * accept
    assert np.abs(flow - flow.T).max() <= 1e-14 * max(1.0, flow.max())


@pytest.mark.parametrize("beta", [0.0, 0.4, 1.5])
def test_relabelling_is_in_detailed_balance(beta):
    """Over the joint states (rho, R_1, R_2) of a small cluster, one member who clicked and one who did not."""
    n = 3
    clicks = np.array([[1, 0, 0], [0, 0, 0]], bool)
    data = make_data(sparse.csr_array(clicks))
    labels = np.zeros(2, np.int64)
    compatible = [
        [r for r in enumerate_rankings(n) if all(r[i] <= row.sum() for i in np.flatnonzero(row))] for row in clicks
    ]
    states = list(itertools.product(enumerate_rankings(n), *compatible))
    number = {state: i for i, state in enumerate(states)}
    mark = np.zeros(2, np.bool_)
    flow = np.zeros((len(states), len(states)))
    for i, (rho_, *rows) in enumerate(states):
        rho, ranks = np.array(rho_), np.array(rows)
        weight = math.exp(-beta * distances(ranks, rho, "linear").sum())
        item_at = np.argsort(rho)
        for low, high in itertools.combinations(range(n), 2):
            a, b = item_at[low], item_at[high]
            mark_exactly_one(data, a, b, mark)
            change = relabel_change(data, ranks, labels, 0, rho, data.scale, a, b, mark)
            mark_exactly_one(data, a, b, mark)
            new_ranks, new_rho = relabelled(clicks, ranks, labels, rho, a, b)
            j = number[tuple(map(tuple, [new_rho.tolist(), *new_ranks.tolist()]))]
            flow[i, j] += weight * pair_probability(n, low, high) * min(1.0, math.exp(-beta * change))
    assert np.abs(flow - flow.T).max() <= 1e-14


@given(problem=clusters(max_users=8), seed=st.integers(0, 2**32 - 1), beta=st.sampled_from([0.0, 0.2, 3.0]))
def test_passes_keep_rankings_compatible_and_say_what_they_did(problem, seed, beta):
    clicks, ranks, labels, rho, scale = problem
    data = make_data(sparse.csr_array(clicks), scale)
    members = np.flatnonzero(labels == 0)
    before, outside = ranks.copy(), labels == 1
    mark = np.zeros(len(ranks), np.bool_)
    relabel_pass(stream_of(seed), data, ranks, labels, members, 0, rho, beta, 20, mark)
    swap_pass(stream_of(seed + 1), cost_matrix(ranks, members, data.scale), rho, beta, 20)
    hit_and_run(members, data, rho, beta, bool(seed % 2), stream_key(seed), 0, 0, 0, ranks)
    n = rho.size
    assert not mark.any()
    assert sorted(rho) == list(range(1, n + 1))
    assert (np.sort(ranks, axis=1) == np.arange(1, n + 1)).all()
    assert ((ranks <= clicks.sum(axis=1)[:, None]) == clicks).all()
    np.testing.assert_array_equal(ranks[outside], before[outside])


@pytest.mark.chance(1e-5)
@pytest.mark.parametrize("upwards", [True, False])
@pytest.mark.parametrize("scale", ["linear", "sqrt"])
@pytest.mark.parametrize("clicked", [[], [4], [1, 3], [0, 1, 4]])
def test_hit_and_run_keeps_the_law(upwards, scale, clicked, rotating_seed, p_value, times):
    """From exact draws, one redraw leaves the law as it is; from one fixed ranking, many redraws reach it."""
    rho, alpha, size = np.array([3, 1, 4, 5, 2]), 4.0, 20_000 * times
    clicks = np.zeros((size, 5), bool)
    clicks[:, clicked] = True
    data = make_data(sparse.csr_array(clicks), scale)
    law = probabilities_enumerated(tuple(rho.tolist()), alpha, "footrule", scale_values(5, scale).tolist())
    compatible = {r: p for r, p in law.items() if all(r[i] <= len(clicked) for i in clicked)}
    total = sum(compatible.values())
    law = {r: p / total for r, p in compatible.items()}
    members, key = np.arange(size), stream_key(rotating_seed)
    ranks = sample_latent(clicks, rho, alpha, seed=rotating_seed, rank_scale=scale)
    hit_and_run(members, data, rho, alpha / 5, upwards, key, 0, 0, 0, ranks)
    assert p_value(ranks, law) > 1e-6
    fixed = np.tile(max(compatible, key=lambda r: -compatible[r]), (size, 1))
    for step in range(60):
        hit_and_run(members, data, rho, alpha / 5, upwards, key, 0, step, 1, fixed)
    assert p_value(fixed, law) > 1e-6


def test_alpha_ratio_is_the_ratio_of_posterior_times_proposal():
    """q(a -> b) of a log-normal walk is symmetric in log a, so its density in a carries 1 / b."""
    a, b, rate, log_p_a, log_p_b = 2.0, 3.5, 0.7, -11.0, -10.2

    def target(alpha, log_p):
        return log_p + stats.expon(scale=1 / rate).logpdf(alpha)

    forth = stats.lognorm(s=0.3, scale=a).logpdf(b)
    back = stats.lognorm(s=0.3, scale=b).logpdf(a)
    expected = target(b, log_p_b) + back - target(a, log_p_a) - forth
    assert alpha_log_ratio(log_p_a, log_p_b, a, b, rate) == pytest.approx(expected, rel=1e-12)


@given(labels=st.lists(st.integers(0, 4), min_size=1, max_size=30))
def test_grouping_by_label(labels):
    users, start = group_by_label(np.array(labels), 5)
    for c in range(5):
        assert users[start[c] : start[c + 1]].tolist() == [u for u, label in enumerate(labels) if label == c]


@numba.njit
def many(stream, kind, parameter, size):
    out = np.empty(size)
    for i in range(size):
        if kind == 0:
            out[i] = exponential(stream)
        elif kind == 1:
            out[i] = normal(stream)
        else:
            out[i] = log_gamma_variate(stream, parameter)
    return out


@pytest.mark.chance(1e-5)
@pytest.mark.parametrize(
    ("kind", "parameter", "law"),
    [
        (0, 0.0, stats.expon()),
        (1, 0.0, stats.norm()),
        (2, 0.05, stats.loggamma(0.05)),
        (2, 1.0, stats.loggamma(1.0)),
        (2, 37.5, stats.loggamma(37.5)),
    ],
)
def test_variates_have_their_law(kind, parameter, law, rotating_seed, times):
    draws = many(stream_of(rotating_seed), kind, parameter, 50_000 * times)
    assert stats.kstest(draws, law.cdf).pvalue > 1e-6


@pytest.mark.chance(1e-5)
def test_dirichlet_has_its_mean_and_never_a_zero(rotating_seed, times):
    concentration = np.array([0.001, 2.0, 5.0])
    out, stream = np.empty((20_000 * times, 3)), stream_of(rotating_seed)
    for row in out:
        draw_dirichlet(stream, concentration, row)
    assert (out > 0).all()
    np.testing.assert_allclose(out.sum(axis=1), 1.0)
    error = out.std(axis=0) / np.sqrt(len(out))
    assert (np.abs(out.mean(axis=0) - concentration / concentration.sum()) < 5 * error + 1e-12).all()


@pytest.mark.chance(1e-5)
def test_shuffle_is_uniform(rotating_seed, p_value, times):
    draws, stream = np.empty((12_000 * times, 4), np.int64), stream_of(rotating_seed)
    for row in draws:
        shuffle(stream, row)
    assert p_value(draws, dict.fromkeys(enumerate_rankings(4), 1 / 24)) > 1e-6


@pytest.mark.parametrize("n_clusters", [2, 5])
def test_label_proposals_are_a_law_and_balance_the_target(n_clusters):
    rng = np.random.default_rng(n_clusters)
    log_tau = np.log(rng.dirichlet(np.ones(n_clusters)))
    scores, log_p = rng.normal(0, 30, n_clusters), rng.normal(0, 3, n_clusters)
    log_q = np.empty(n_clusters)
    scores_to_log_q(log_tau, scores, log_q)
    assert np.exp(log_q).sum() == pytest.approx(1.0, rel=1e-12)
    assert np.exp(log_q).min() >= 0.05 / n_clusters
    target = np.exp(log_tau + log_p)
    flow = np.zeros((n_clusters, n_clusters))
    for z, c in itertools.permutations(range(n_clusters), 2):
        ratio = label_log_ratio(log_tau, log_p[z], log_p[c], log_q, z, c)
        flow[z, c] = target[z] * math.exp(log_q[c]) * min(1.0, math.exp(ratio))
    np.testing.assert_allclose(flow, flow.T, rtol=1e-12)


@numba.njit
def scores_of(data, rho, alpha, shared, out):
    label_scores(data, rho, shared, [cluster_tables(shared, a) for a in alpha], out)


def test_label_scores_come_close_to_the_likelihood():
    """Their differences between clusters, which is all that matters: most proposals must be worth accepting."""
    simulation = bmcd.simulate(n_users=300, seed=0)
    data = make_data(simulation.clicks.matrix)
    shared = shared_tables(np.diff(data.scale))
    scores = np.empty((3, 300))
    scores_of(data, simulation.rho, simulation.alpha, shared, scores)
    exact = log_likelihood(simulation.clicks, simulation.rho, simulation.alpha).T

    def posterior(log_weight):
        weight = np.exp(log_weight - log_weight.max(axis=0))
        return weight / weight.sum(axis=0)

    distance = 0.5 * np.abs(posterior(scores) - posterior(exact)).sum(axis=0)
    assert distance.mean() < 0.05
