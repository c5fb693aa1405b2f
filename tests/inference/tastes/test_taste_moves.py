"""Each move of the tastes alone: its law against the definition, by enumeration where that is possible."""

import itertools
import math

import numba
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special, stats

from bmcd.inference.tastes.consensus import (
    GAPS,
    draw_swap,
    draw_window,
    list_of_gaps,
    swap_change,
    update_consensus,
    update_scale,
)
from bmcd.inference.tastes.priors import Hyper, a_log_ratio, log_visits_given, pairs_with_more, update_b
from bmcd.inference.tastes.rank_laws import RankLaws
from bmcd.inference.tastes.rates import draw_gammas, gamma_table, update_rates
from bmcd.inference.tastes.start import TasteState, make_taste_data
from bmcd.inference.tastes.visits import (
    BLOCK,
    collapsed_pass,
    first_item_probabilities,
    padded,
    pick,
    positive_poisson,
    update_visits,
    weigh,
)
from bmcd.rng import STREAM_SIZE, next_blocks, open_stream, stream_key, uniform

CUT = 1e-6  # p-values below are failures: about 40 are looked at, so a false alarm comes once in 25,000 runs


def stream_of(seed):
    stream = np.empty(STREAM_SIZE, np.uint64)
    open_stream(stream, stream_key(seed), 0, 0, 0, 0)
    return stream


def fits(observed, probability):
    """p-value of counts against a law; cells expected under 5 times count together."""
    expected = np.asarray(probability) / np.sum(probability) * np.sum(observed)
    rare = expected < 5
    observed = np.append(np.asarray(observed)[~rare], np.asarray(observed)[rare].sum())
    expected = np.append(expected[~rare], expected[rare].sum())
    if expected[-1] < 1:
        assert observed[-1] < 30
        observed, expected = observed[:-1], expected[:-1]
    return (
        stats.chisquare(observed, expected * observed.sum() / expected.sum()).pvalue if len(expected) > 1 else 1.0
    )


# ------------------------------------------------------------------------------------------------------- visits


@numba.njit
def many_positive(stream, mu, size):
    out = np.empty(size, np.int64)
    for i in range(size):
        out[i] = positive_poisson(stream, uniform(stream), mu)
    return out


@pytest.mark.chance(1e-5)
@pytest.mark.parametrize("mu", [1e-200, 1e-9, 0.01, 0.8, 3.0, 15.99, 16.0, 40.0, 700.0, 2000.0])
def test_positive_poisson_has_its_law(mu, rotating_seed, times):
    """Zero-truncated Poisson by its probabilities; tiny and large means, and both sides of the switch."""
    draws = many_positive(stream_of(rotating_seed), mu, 40_000 * times)
    assert draws.min() >= 1
    top = draws.max() + 1
    law = stats.poisson(mu).pmf(np.arange(1, top + 1))
    if mu < 1e-6:
        assert (draws == 1).all()  # 2 has probability mu / 2
    else:
        assert fits(np.bincount(draws, minlength=top + 1)[1:], law) > CUT


@st.composite
def rows(draw):
    """A user's row, an item's row, their number of tastes, and what is added to the user's."""
    n_tastes = draw(st.integers(1, 20))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    of_user, of_item = np.zeros(padded(n_tastes)), np.zeros(padded(n_tastes))
    of_user[:n_tastes] = rng.poisson(0.7, n_tastes)
    of_item[:n_tastes] = rng.gamma(0.2, size=n_tastes) + 1e-150
    return of_user, of_item, n_tastes, draw(st.sampled_from([0.02, 0.5, 3.0]))


@given(problem=rows(), u=st.floats(0, 1, exclude_max=True))
def test_weights_and_pick_are_a_draw_by_inversion(problem, u):
    of_user, of_item, n_tastes, extra = problem
    weights, sums = np.empty(of_user.size), np.empty(of_user.size // BLOCK)
    total = weigh(of_user, extra, of_item, weights, sums)
    expected = (of_user + extra) * of_item
    np.testing.assert_allclose(weights, expected, rtol=1e-14)
    assert total == pytest.approx(math.fsum(expected), rel=1e-13)
    c = pick(u * total, weights, sums, n_tastes)
    running = np.append(0.0, np.cumsum(expected))
    assert 0 <= c < n_tastes
    # Within rounding of the running sum: u lies in the interval of c.
    assert running[c] - 1e-12 * total <= u * total <= running[c + 1] + 1e-12 * total


@given(seed=st.integers(0, 2**32 - 1), n_tastes=st.integers(1, 9))
def test_probabilities_are_read_by_rank(seed, n_tastes):
    rng = np.random.default_rng(seed)
    laws = RankLaws(5)
    index = rng.integers(0, laws.alphas.size, n_tastes)
    laws.make(index)
    item_at = np.array([rng.permutation(5) for _ in range(n_tastes)])
    q = np.zeros((5, padded(n_tastes)))
    first_item_probabilities(item_at, index, laws.log_law, q)
    for c, r in itertools.product(range(n_tastes), range(5)):
        assert q[item_at[c, r], c] == pytest.approx(max(math.exp(laws.log_law[index[c], r]), 1e-150), rel=1e-14)
    assert (q[:, n_tastes:] == 0).all()


@numba.njit
def repeat_visits(rates, data, q, a, passes, key, size, n_tastes, most):
    """How often each table of visits [item, taste] came up; tables are numbers in base ``most``."""
    of_user, of_item = np.empty((1, n_tastes)), np.empty((data.n_items, n_tastes))
    counts = np.zeros(most ** (data.n_items * n_tastes), np.int64)
    for sweep in range(size):
        update_visits(rates, data, q, a, passes, key, 0, sweep, of_user, of_item)
        code = 0
        for n in of_item.flat:
            code = code * most + min(int(n), most - 1)
        counts[code] += 1
    return counts


@pytest.mark.chance(1e-5)
def test_visits_are_poisson_given_that_clicked_items_have_one(rotating_seed, times):
    """One user, items 0 and 2 of 3 clicked, 2 tastes: n_ic ~ Poisson(lambda_c q_c(i)), item totals not zero.

    Fours and more count as 3, so that tables can be numbered.
    """
    q = np.zeros((3, BLOCK))
    q[:, :2] = [[0.7, 0.1], [0.2, 0.2], [0.1, 0.7]]
    rates = np.array([[1.1, 0.6]])
    most, data = 4, make_taste_data([[1, 0, 1]])
    counts = repeat_visits(rates, data, q, 0.3, 0, stream_key(rotating_seed), 60_000 * times, 2, most)
    law = np.zeros(counts.size)
    for table in itertools.product(range(most), repeat=4):
        first, second = table[:2], table[2:]
        if sum(first) and sum(second):
            mu = [rates[0, c] * q[i, c] for i in (0, 2) for c in (0, 1)]
            terms = [
                stats.poisson(m).pmf(n) if n < most - 1 else stats.poisson(m).sf(n - 1)
                for n, m in zip(table, mu, strict=True)
            ]
            law[int("".join(map(str, [*first, 0, 0, *second])), most)] = math.prod(terms)
    assert counts[law == 0].sum() == 0
    assert fits(counts[law > 0], law[law > 0]) > CUT


@pytest.mark.parametrize("passes", [1, 2])
def test_a_collapsed_pass_keeps_the_law_of_the_tastes(passes):
    """The transition matrix of a pass over three visits, by enumeration of all that it can draw: pi P = pi.

    The law of the tastes given the items visited, rates integrated out: prod_c Gamma(a + n_c) times prod q.
    """
    n_tastes, a, items = 2, 0.4, np.array([0, 1, 1])
    q = np.zeros((2, BLOCK))
    q[:, :2] = [[0.8, 0.3], [0.2, 0.7]]
    states = list(itertools.product(range(n_tastes), repeat=3))
    law = np.array([
        math.prod(math.gamma(a + state.count(c)) for c in range(n_tastes))
        * math.prod(q[i, c] for i, c in zip(items, state, strict=True))
        for state in states
    ])  # fmt: skip
    law /= law.sum()
    after = law
    for _ in range(passes):
        for visit in range(3):
            flow = np.zeros(len(states))
            for state, mass in zip(states, after, strict=True):
                others = [c for v, c in enumerate(state) if v != visit]
                count = np.zeros(BLOCK)
                np.add.at(count, others, 1.0)
                weights, sums = np.empty(BLOCK), np.empty(1)
                total = weigh(count, a, q[items[visit]], weights, sums)
                for c in range(n_tastes):
                    new = tuple(c if v == visit else old for v, old in enumerate(state))
                    flow[states.index(new)] += mass * weights[c] / total
            after = flow
    np.testing.assert_allclose(after, law, rtol=1e-12)


@numba.njit
def repeat_pass(stream, items, tastes, q, a, size, n_tastes, n_states):
    counts = np.zeros(n_states, np.int64)
    weights, sums, count = np.empty(q.shape[1]), np.empty(q.shape[1] // BLOCK), np.empty(q.shape[1])
    bits = np.empty(4, np.uint64)
    for _ in range(size):
        count[:] = 0.0
        for c in tastes:
            count[c] += 1.0
        next_blocks(stream, bits)
        collapsed_pass(bits, items, tastes, count, q, a, weights, sums, n_tastes)
        code = 0
        for c in tastes:
            code = code * n_tastes + c
        counts[code] += 1
    return counts


@pytest.mark.chance(1e-5)
def test_collapsed_passes_reach_the_law_of_the_tastes(rotating_seed, times):
    """One chain of 200,000 passes over 8 states, judged by means of 400 batches, |z| < 5.5: false alarm 3e-7."""
    n_tastes, a, items = 2, 0.4, np.array([0, 1, 1])
    q = np.zeros((2, BLOCK))
    q[:, :2] = [[0.8, 0.3], [0.2, 0.7]]
    states = list(itertools.product(range(n_tastes), repeat=3))
    law = np.array([
        math.prod(math.gamma(a + state.count(c)) for c in range(n_tastes))
        * math.prod(q[i, c] for i, c in zip(items, state, strict=True))
        for state in states
    ])  # fmt: skip
    law /= law.sum()
    stream, tastes = stream_of(rotating_seed), np.zeros(3, np.int64)
    batches = np.array([
        repeat_pass(stream, items, tastes, q, a, 500 * times, n_tastes, 8) for _ in range(400)
    ]) / (500 * times)  # fmt: skip
    error = batches.std(axis=0, ddof=1) / math.sqrt(len(batches))
    assert (np.abs(batches.mean(axis=0) - law) < 5.5 * error).all()


# -------------------------------------------------------------------------------------------------------- rates


@pytest.mark.chance(1e-5)
@pytest.mark.parametrize(
    ("a", "n"), [(0.02, 0), (0.1, 0), (0.1, 1), (0.1, 6), (0.1, 7), (0.95, 0), (1.0, 0), (2.5, 3)]
)
def test_gammas_have_their_law(a, n, rotating_seed, times):
    out = np.empty(50_000 * times)
    table, bits = gamma_table(min(a, 0.95), out.size), np.empty(out.size, np.uint64)
    draw_gammas(stream_of(rotating_seed), a, np.full(out.size, float(n)), table, out, bits)
    assert stats.kstest(out, stats.gamma(a + n).cdf).pvalue > CUT


@given(seed=st.integers(0, 2**32 - 1), a=st.sampled_from([0.05, 0.7, 1.5]), b=st.floats(0.01, 20))
def test_rates_are_gammas_over_b_plus_1(seed, a, b):
    rng = np.random.default_rng(seed)
    counts = rng.poisson(1.0, (4, 3)).astype(float)
    rates, key = np.empty((4, 3)), stream_key(seed)
    total = update_rates(rates, counts, a, b, key, 2, 5)
    table = gamma_table(min(a, 0.95), rates.size)
    for user in range(4):
        stream, gammas = np.empty(STREAM_SIZE, np.uint64), np.empty(3)
        open_stream(stream, key, 2, 5, user, 202)
        draw_gammas(stream, a, counts[user], table, gammas, np.empty(4, np.uint64))
        np.testing.assert_allclose(rates[user], np.maximum(gammas / (b + 1), 1e-150), rtol=1e-13)
    assert total == pytest.approx(rates.sum())


# ---------------------------------------------------------------------------------------------------- consensus


def log_target(counts, log_law, item_at):
    """The definition: visits of each item times the log probability of its rank."""
    return math.fsum(counts[item] * log_law[r] for r, item in enumerate(item_at))


@given(seed=st.integers(0, 2**32 - 1), n=st.integers(2, 7))
def test_swap_change_is_the_change_of_the_log_posterior(seed, n):
    rng = np.random.default_rng(seed)
    counts, log_law = rng.poisson(3.0, n).astype(float), -np.sort(rng.gamma(1.0, size=n))
    item_at = rng.permutation(n)
    for low, high in itertools.combinations(range(n), 2):
        swapped = item_at.copy()
        swapped[[low, high]] = swapped[[high, low]]
        expected = log_target(counts, log_law, swapped) - log_target(counts, log_law, item_at)
        assert swap_change(counts, log_law, item_at, low, high) == pytest.approx(expected, abs=1e-9)


@numba.njit
def count_swaps(stream, gaps, n_visited, n, size):
    counts = np.zeros((n_visited, 2 * n + 1), np.int64)
    for _ in range(size):
        which, shift = draw_swap(stream, gaps, n_visited)
        counts[which, n + shift] += 1
    return counts


def shift_probability(gaps, shift):
    """The declared q: one of the gaps of the list, in either direction."""
    return np.count_nonzero(gaps == abs(shift)) / GAPS / 2


@pytest.mark.chance(1e-5)
@pytest.mark.parametrize("n", [2, 3, 5, 8, 2000])
def test_swaps_are_drawn_as_declared(n, rotating_seed, times):
    gaps, n_visited = list_of_gaps(n), 3
    assert gaps.min() == 1
    assert gaps.max() < n
    counts = count_swaps(stream_of(rotating_seed), gaps, n_visited, n, 200_000 * times)
    law = np.array([[shift_probability(gaps, shift) for shift in range(-n, n + 1)]] * n_visited) / n_visited
    assert law.sum() == pytest.approx(1.0)
    assert counts[law == 0].sum() == 0
    assert fits(counts[law > 0], law[law > 0]) > CUT


@pytest.mark.parametrize("n", [2, 3, 4])
@pytest.mark.parametrize("sharpness", [0.0, 0.3, 2.0])
def test_swaps_are_in_detailed_balance(n, sharpness):
    """The whole transition matrix over consensuses, from the declared q and the kernel's own change.

    One item is never visited, so that the two directions of a swap do not have the same number of ways by accident.
    """
    counts = np.random.default_rng(n).poisson(2.0, n) + 1.0
    counts[0] = 0.0
    log_law, gaps, visited = -sharpness * np.arange(n), list_of_gaps(n), np.flatnonzero(counts)
    states = [np.array(order) for order in itertools.permutations(range(n))]
    number = {tuple(order.tolist()): i for i, order in enumerate(states)}
    flow = np.zeros((len(states), len(states)))
    for i, item_at in enumerate(states):
        weight = math.exp(log_target(counts, log_law, item_at))
        for item, shift in itertools.product(visited, [*range(1 - n, 0), *range(1, n)]):
            r = item_at.tolist().index(item)
            if 0 <= r + shift < n:
                swapped = item_at.copy()
                swapped[[r, r + shift]] = swapped[[r + shift, r]]
                accept = min(1.0, math.exp(swap_change(counts, log_law, item_at, r, r + shift)))
                q = shift_probability(gaps, shift) / visited.size
                flow[i, number[tuple(swapped.tolist())]] += weight * q * accept
    assert np.abs(flow - flow.T).max() <= 1e-14 * max(1.0, flow.max())


@given(seed=st.integers(0, 2**32 - 1), n=st.integers(1, 9))
def test_consensuses_stay_rankings(seed, n):
    rng = np.random.default_rng(seed)
    counts, item_at = rng.poisson(1.0, n).astype(float), rng.permutation(n)
    before = item_at.copy()
    tried, taken = update_consensus(stream_of(seed), counts, -np.arange(n) / 3, item_at, list_of_gaps(n), 4)
    assert sorted(item_at) == list(range(n))
    assert tried == (4 * np.count_nonzero(counts) if n > 1 else 0)
    assert 0 <= taken <= tried
    if n == 1:
        assert item_at == before


@numba.njit
def count_consensuses(stream, item_at, counts, log_law, gaps, size, out):
    n = counts.size
    for _ in range(size):
        update_consensus(stream, counts, log_law, item_at, gaps, 3)
        code = 0
        for item in item_at:
            code = code * n + item
        out[code] += 1


@pytest.mark.chance(1e-5)
def test_consensus_moves_reach_their_law(rotating_seed, times):
    """n = 4, two items unvisited, all 24 consensuses: 400 batches of 500, |z| < 5.5: false alarm 1e-6."""
    counts, log_law, n = np.array([2.0, 0.0, 1.0, 0.0]), np.log([0.5, 0.25, 0.15, 0.1]), 4
    orders = list(itertools.permutations(range(n)))
    law = np.array([math.exp(log_target(counts, log_law, order)) for order in orders])
    law /= law.sum()
    codes = [int("".join(map(str, order)), n) for order in orders]
    stream, batches, item_at = stream_of(rotating_seed), [], np.array([0, 2, 1, 3])
    for _ in range(400):
        out = np.zeros(n**n, np.int64)
        count_consensuses(stream, item_at, counts, log_law, list_of_gaps(n), 500 * times, out)
        batches.append(out[codes] / (500 * times))
    batches = np.array(batches)
    np.testing.assert_allclose(batches.sum(axis=1), 1.0)
    error = batches.std(axis=0, ddof=1) / math.sqrt(len(batches))
    assert (np.abs(batches.mean(axis=0) - law) < 5.5 * error).all()


# -------------------------------------------------------------------------------------------------------- scale


@pytest.mark.parametrize("window", [1, 2, 5, 40])
def test_windows_make_a_move_in_detailed_balance(window):
    """The transition matrix over a grid of 12 points, from every place of the window: pi_g P_gh = pi_h P_hg."""
    size = 12
    weight = np.random.default_rng(window).gamma(0.5, size=size)
    flow = np.zeros((size, size))
    for g in range(size):
        for offset in range(window):
            first, end = max(g - offset, 0), min(g - offset + window, size)
            flow[g, first:end] += weight[g] / window * weight[first:end] / weight[first:end].sum()
    np.testing.assert_allclose(flow, flow.T, atol=1e-15)


@numba.njit
def count_windows(stream, index, window, size, draws):
    counts = np.zeros((size, size + 1), np.int64)
    for _ in range(draws):
        first, end = draw_window(stream, index, window, size)
        counts[first, end] += 1
    return counts


@pytest.mark.chance(1e-5)
@pytest.mark.parametrize("index", [0, 3, 11])
def test_windows_are_laid_as_declared(index, rotating_seed, times):
    size, window = 12, 5
    law = np.zeros((size, size + 1))
    for offset in range(window):
        law[max(index - offset, 0), min(index - offset + window, size)] += 1 / window
    counts = count_windows(stream_of(rotating_seed), index, window, size, 20_000 * times)
    assert counts[law == 0].sum() == 0
    assert fits(counts[law > 0], law[law > 0]) > CUT


@numba.njit
def count_scales(stream, index, counts_at, log_law, log_prior, window, size, out):
    for _ in range(size):
        index[0] = update_scale(stream, index[0], counts_at, log_law, log_prior, window)
        out[index[0]] += 1
    return out


@pytest.mark.chance(1e-5)
@pytest.mark.parametrize("visits", [[0.0, 0.0, 0.0], [5.0, 1.0, 0.0]])
def test_scales_reach_their_conditional(visits, rotating_seed, times):
    """Against prior times likelihood on the grid, in 20 groups of points; 400 batches, |z| < 5.5."""
    laws, counts_at = RankLaws(3), np.array(visits)
    laws.make(np.arange(laws.alphas.size))
    log_prior = laws.log_prior(0.3)
    log_p = laws.log_law @ counts_at + log_prior
    law = np.exp(log_p - log_p.max())
    groups = np.linspace(0, law.size, 20, endpoint=False).astype(int)
    stream, batches, index = stream_of(rotating_seed), [], np.array([np.argmax(law)])
    for _ in range(400):
        out = count_scales(stream, index, counts_at, laws.log_law, log_prior, 100, 500 * times, np.zeros(law.size))
        batches.append(np.add.reduceat(out, groups) / (500 * times))
    batches, law = np.array(batches), np.add.reduceat(law, groups) / law.sum()
    error = batches.std(axis=0, ddof=1) / math.sqrt(len(batches))
    assert (
        np.abs(batches.mean(axis=0) - law) < 5.5 * error + 2e-4
    ).all()  # groups that 200,000 draws may never see


# -------------------------------------------------------------------------------------------------------- a and b


@given(seed=st.integers(0, 2**32 - 1), a=st.floats(0.01, 5), b=st.floats(0.05, 10), proposal=st.floats(0.01, 5))
def test_the_ratio_of_a_is_that_of_posterior_times_proposal(seed, a, b, proposal):
    """Negative binomial visits by definition; the proposal is log-normal, so its density carries 1 / a."""
    counts = np.random.default_rng(seed).poisson(1.0, (3, 4)).astype(float)
    more, hyper = pairs_with_more(counts), Hyper(2.0, 3.0, 0.0, 0.0)

    def log_p(a):
        return stats.nbinom(a, b / (b + 1)).logpmf(counts).sum() + stats.gamma(2.0, scale=1 / 3).logpdf(a)

    expected = log_p(proposal) - log_p(a) + math.log(proposal / a)
    assert a_log_ratio(a, proposal, b, more, counts.size, hyper) == pytest.approx(expected, abs=1e-8)
    visits = stats.nbinom(a, b / (b + 1)).logpmf(counts).sum() + special.gammaln(counts + 1).sum()
    assert log_visits_given(a, b, more, counts.size) == pytest.approx(visits, abs=1e-8)


@numba.njit
def many_b(state, total_rate, hyper, key, out):
    for sweep in range(out.size):
        update_b(state, total_rate, hyper, key, 0, sweep)
        out[sweep] = state.b[0]


@pytest.mark.chance(1e-5)
def test_b_is_drawn_from_its_conditional(rotating_seed, times):
    rates = np.full((3, 2), 0.7)
    nothing = np.zeros((2, 1), np.int64)
    state = TasteState(rates, nothing, nothing[0], np.array([0.5]), np.array([1.0]), np.array([0.1]))
    draws = np.empty(20_000 * times)
    many_b(state, rates.sum(), Hyper(0.0, 0.0, 2.0, 3.0), stream_key(rotating_seed), draws)
    # Gamma(2, 3) prior times six Gamma(0.5, b) densities of the rates.
    assert stats.kstest(draws, stats.gamma(2 + 0.5 * 6, scale=1 / (3 + 4.2)).cdf).pvalue > CUT
    many_b(state, rates.sum(), Hyper(0.0, 0.0, 0.0, 0.0), stream_key(rotating_seed), draws[:5])
    assert (draws[:5] == draws[4]).all()
