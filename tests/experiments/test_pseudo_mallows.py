"""Pseudo-Mallows: its draws against slow twins and enumerated laws, its estimator, and the quick comparison."""

from collections import Counter
from itertools import permutations

import numpy as np
import pandas as pd
import pytest
from experiments.pseudo_mallows import PseudoMallows
from experiments.pseudo_mallows.comparison import mean_variation
from experiments.pseudo_mallows.kernels import (
    FEW,
    draw_consensus,
    draw_place,
    draw_rankings,
    random_order,
    v_order,
)
from experiments.pseudo_mallows.slow import consensus_law, draw_by_turns, ranking_law, v_orders
from experiments.pseudo_mallows.study import PseudoStudy
from experiments.pseudo_mallows.tiny import given_rankings
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from tests.reference.streams import uniforms

import bmcd
from bmcd.errors import ConvergenceWarning, InputError
from bmcd.inference.bmcd.consensus import cost_matrix
from bmcd.inference.bmcd.initial import initial_state
from bmcd.inference.mixture import make_data
from bmcd.rng import STREAM_SIZE, open_stream, stream_key
from bmcd.testing import check_recommender

pytestmark = pytest.mark.deep  # a comparison that ended; its result stays in docs/results

DRAWS = 20_000
# Shares are compared in standard errors. Of all tests below about 500 are, so that 5.5 give a false alarm in one of
# 50,000 runs (two-sided normal; expected counts below 20 are put together).
ERRORS = 5.5


def stream_of(seed):
    stream = np.empty(STREAM_SIZE, np.uint64)
    open_stream(stream, stream_key(seed), 0, 0, 0, 0)
    return stream


def assert_law(counts, law):
    """Compare how often each outcome was drawn with its probability."""
    assert sum(law.values()) == pytest.approx(1.0)
    assert set(counts) <= {outcome for outcome, p in law.items() if p > 0}
    n = sum(counts.values())
    rare = [outcome for outcome, p in law.items() if n * p < 20]
    groups = [[outcome] for outcome in law if outcome not in rare] + ([rare] if rare else [])
    for group in groups:
        p, seen = sum(law[outcome] for outcome in group), sum(counts[outcome] for outcome in group)
        assert abs(seen - n * p) <= ERRORS * np.sqrt(n * p * (1 - p)) + 5 * (n * p < 20), (group[0], seen, n * p)


@pytest.mark.chance(1e-5)
@pytest.mark.parametrize("size", [1, 2, 5, 6])
def test_orders_are_v_shaped_and_equally_frequent(size, rotating_seed, times):
    stream, order, counts = stream_of(rotating_seed), np.empty(size, np.int64), Counter()
    for _ in range(times * DRAWS // 4):
        v_order(stream, size, order)
        counts[tuple(order.tolist())] += 1
    orders = v_orders(range(size))
    assert_law(counts, dict.fromkeys(orders, 1 / len(orders)))
    for drawn in counts:  # from the middle outwards
        far = [abs(place - (size - 1) / 2) for place in drawn]
        assert far == sorted(far)


@pytest.mark.chance(1e-5)
def test_any_order_is_as_frequent_as_any_other(rotating_seed, times):
    stream, order, counts = stream_of(rotating_seed), np.empty(4, np.int64), Counter()
    for _ in range(times * DRAWS // 4):
        random_order(stream, 4, order)
        counts[tuple(order.tolist())] += 1
    assert_law(counts, dict.fromkeys(permutations(range(4)), 1 / 24))


@settings(max_examples=60, deadline=None)
@given(n=st.integers(1, 12), n_users=st.integers(1, 9), beta=st.floats(0.0, 5.0), seed=st.integers(0, 2**31))
def test_a_consensus_is_that_of_the_slow_twin(n, n_users, beta, seed):
    rng = np.random.default_rng(seed)
    ranks = rng.permuted(np.tile(np.arange(1, n + 1), (n_users, 1)), axis=1)
    by_mean_rank = np.argsort(ranks.sum(axis=0), kind="stable")
    rho = np.zeros(n, np.int64)
    cost = cost_matrix(ranks, np.arange(n_users), np.arange(1.0, n + 1))
    draw_consensus(stream_of(seed), cost, by_mean_rank, beta, rho)
    numbers = iter(uniforms(stream_key(seed), 0, 0, 0, 0, 2 * n).tolist())
    slow = draw_by_turns(
        by_mean_rank.tolist(),
        range(1, n + 1),
        lambda item, rank: float(np.abs(ranks[:, item] - rank).sum()),
        beta,
        numbers,
    )
    assert rho.tolist() == [slow[item] for item in range(n)]


@pytest.mark.chance(1e-5)
def test_a_consensus_has_the_law_that_is_written_down(rotating_seed, times):
    rankings = [(1, 2, 3, 4, 5), (2, 1, 3, 5, 4), (1, 4, 2, 3, 5)]
    ranks, beta, n = np.array(rankings), 0.3, 5
    cost = cost_matrix(ranks, np.arange(3), np.arange(1.0, n + 1))
    by_mean_rank = np.argsort(ranks.sum(axis=0), kind="stable")
    stream, rho, counts = stream_of(rotating_seed), np.empty(n, np.int64), Counter()
    for _ in range(times * DRAWS):
        draw_consensus(stream, cost, by_mean_rank, beta, rho)
        counts[tuple(rho.tolist())] += 1
    assert_law(counts, consensus_law(rankings, beta))


@pytest.mark.chance(1e-5)
@pytest.mark.parametrize("v_shaped", [False, True])
def test_rankings_have_the_law_that_is_written_down(v_shaped, rotating_seed, times):
    rho, clicked, beta = np.array([3, 1, 5, 2, 4]), [0, 2], 0.4
    size = times * DRAWS
    rows = np.zeros((size, 5))
    rows[:, clicked] = 1
    ranks = np.empty((size, 5), np.int64)
    data = make_data(sparse.csr_array(rows))
    draw_rankings(np.arange(size), data, rho, beta, v_shaped, stream_key(rotating_seed), 0, 0, ranks)
    law = ranking_law(tuple(rho.tolist()), clicked, beta, v_shaped)
    assert_law(Counter(map(tuple, ranks.tolist())), law)


@pytest.mark.chance(1e-5)
@pytest.mark.parametrize("beta", [0.05, 1.5])  # most tries succeed, and most fail
def test_a_place_has_the_same_law_by_tries_and_by_sums(beta, rotating_seed, times):
    left, centre = np.array([19, 0, 7, 3, 11, 4, 12, 18, 9, 1, 15]), 6
    assert left.size > FEW
    power, stream = np.exp(-beta * np.arange(20)), stream_of(rotating_seed)
    counts = Counter(int(draw_place(stream, left, left.size, centre, power)) for _ in range(times * DRAWS))
    weights = power[np.abs(left - centre)]
    assert_law(counts, dict(enumerate((weights / weights.sum()).tolist())))


@settings(max_examples=30, deadline=None)
@given(
    n=st.integers(1, 40), beta=st.floats(0.0, 300.0), v_shaped=st.booleans(), seed=st.integers(0, 2**31)
)  # with 40 items and beta = 300 weights are far below the smallest number
def test_rankings_agree_with_the_clicks(n, beta, v_shaped, seed):
    rng = np.random.default_rng(seed)
    clicks = rng.random((6, n)) < rng.random((6, 1))
    ranks = np.zeros((6, n), np.int64)
    data = make_data(sparse.csr_array(clicks.astype(float)))
    draw_rankings(np.arange(6), data, rng.permutation(n) + 1, beta, v_shaped, stream_key(seed), 0, 0, ranks)
    assert (np.sort(ranks, axis=1) == np.arange(1, n + 1)).all()
    assert ((ranks <= clicks.sum(axis=1)[:, None]) == clicks).all()


def test_v_shaped_orders_are_nearest_where_there_is_little_doubt():
    """The authors' conjecture, and why a single ranking is drawn in any order."""
    sure, unsure = (given_rankings(3.0, n, n_items=5, n_sets=3, seed=0) for n in (40, 1))
    assert sure["V"]["kl"] < min(sure["any"]["kl"], sure["V from outside"]["kl"])
    assert unsure["any"]["kl"] < min(unsure["V"]["kl"], unsure["V from outside"]["kl"])
    for distances in [*sure.values(), *unsure.values()]:
        assert 0 <= 2 * distances["tv"] ** 2 <= distances["kl"]  # Pinsker


SHORT = {"draws": 5, "warmup": 5, "chains": 2}


@pytest.mark.parametrize("options", [{}, {"by_counts": True}, {"rankings_order": "V", "alpha": 2.0}])
def test_the_contract_is_kept(options):
    # Counts are of the users it was fitted to alone.
    histories = "by_counts" not in options
    check_recommender(lambda: PseudoMallows(2, **options), fit={**SHORT, "count_k": [4]}, histories=histories)


@pytest.fixture(scope="module")
def simulation():
    return bmcd.simulate(n_users=300, seed=11)


def test_the_number_of_threads_changes_nothing(simulation):
    one, two = (PseudoMallows(3).fit(simulation.clicks, **SHORT, seed=3, n_threads=n).draws_ for n in (1, 2))
    for name in ("rho", "tau", "alpha", "log_joint", "label_counts"):
        assert (getattr(one, name) == getattr(two, name)).all()
    assert (one.rho[0] != one.rho[1]).any()


def test_alpha_stays_where_it_was_put(simulation):
    clicks = simulation.clicks
    given_alpha = PseudoMallows(3, alpha=2.5, start="popularity").fit(clicks, **SHORT)
    assert (given_alpha.draws_.alpha == 2.5).all()
    estimated = PseudoMallows(3).fit(clicks, **SHORT, seed=4)
    for chain in range(2):
        alpha = initial_state(clicks.matrix, 3, seed=4, chain=chain).alpha
        assert (estimated.draws_.alpha[chain] == alpha).all()
    assert "alpha is fixed" in estimated.verdict_.text


def test_new_people_get_probabilities_but_no_counts(simulation):
    clicks = simulation.clicks
    assert PseudoMallows(2).fit(clicks, **SHORT).recommend_for([[1, 2]], k=3)["probability"].between(0, 1).all()
    counted = PseudoMallows(2, by_counts=True).fit(clicks, **SHORT, count_k=[3])
    assert counted.probabilities(3).sum(axis=1) == pytest.approx(3.0)
    with pytest.raises(InputError, match="leave out by_counts"):
        counted.recommend_for([[1, 2]], k=3)
    with pytest.raises(InputError, match="k = 3, not for 4"):
        counted.recommend(4)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"n_clusters": 0}, "between 1 and the number of users, 300"),
        ({"start": "random"}, "does not estimate alpha"),
        ({"alpha": -1.0}, "alpha must be a positive number"),
        ({"rankings_order": "A"}, "choose one of any, V"),
    ],
)
def test_bad_settings_are_refused(simulation, options, said):
    with pytest.raises(InputError, match=said):
        PseudoMallows(**{"n_clusters": 2, **options}).fit(simulation.clicks, **SHORT)
    with pytest.raises(InputError, match="cannot be saved"):
        PseudoMallows(2).fit(simulation.clicks, **SHORT).save("model.bmcd")


@pytest.mark.deep  # half a minute: every sampler, twice
def test_the_quick_comparison_is_that_of_the_estimators(tmp_path):
    page = PseudoStudy(quick=True).reproduce(tmp_path, n_workers=1, progress=False)
    table = pd.read_csv(tmp_path / "tables/simulation.csv").set_index("method")
    simulation = bmcd.simulate(200, seed=101)
    sampling = {"chains": 2, "draws": 4, "warmup": 4, "seed": 101, "n_threads": 1}
    model = PseudoMallows(3, rankings_order="V").fit(simulation.clicks, **sampling)
    row = table.loc["Pseudo-Mallows, V-shaped orders for rankings too, 2 x (4 + 4)"]
    for k in (5, 10):
        evaluation = bmcd.evaluate(model.recommend(k), simulation.clicks, simulation, k=k)
        assert row[f"next {k}: accuracy %"] == pytest.approx(100 * evaluation.accuracy, abs=0.006)
        assert row[f"next {k}: ECE"] == pytest.approx(evaluation.calibration.expected_calibration_error, abs=6e-5)
    with pytest.warns(ConvergenceWarning):
        reference = bmcd.BMCD(3).fit(simulation.clicks, **{**sampling, "draws": 5, "warmup": 5})
    distance = mean_variation(model.probabilities(5), reference.probabilities(5))
    assert row["next 5: distance"] == pytest.approx(distance, abs=6e-5)
    assert 0 < table.loc["reference, another seed", "next 5: distance"] < 1
    for name in ("clicks", "rankings", "tiny"):
        assert f"tables/{name}.csv" in page.read_text()
