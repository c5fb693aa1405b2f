"""The moves of the paper's sampler: all random choices enumerated, changes of distance against definitions."""

import math
from collections import defaultdict
from itertools import combinations, permutations

import numpy as np
import pytest
from tests.reference.mallows import slow_distance
from tests.reference.streams import uniforms

from bmcd.inference.paper.distance_cache import change_by_leap, list_leap
from bmcd.inference.paper.iteration import draw_labels
from bmcd.inference.paper.moves import (
    alpha_log_ratio,
    block_of,
    leap_and_shift,
    leap_log_ratio,
    leap_target,
    leap_targets,
    swap,
    swap_partner,
    tuned_step,
)
from bmcd.inference.paper.sampler import whole_scale
from bmcd.mallows.distances import (
    DISTANCES,
    change_by_swap,
    cost_of_swap,
    distance_from_scratch,
    is_additive,
    make_scratch,
    place_cost,
)
from bmcd.mallows.partition import log_partition
from bmcd.mallows.rank_scale import scale_values
from bmcd.rng import STREAM_SIZE, four_uniforms, open_stream, stream_key

pytestmark = pytest.mark.chance(0)


def leap_probability(origin, target, low, high, leap):
    """The probability of proposing to move the item at ``origin`` to ``target``, both within low, ..., high.

    One of the high - low + 1 items is picked, then one of its targets. Where the two are neighbours, a leap of
    either of the two items gives the same ranking, so both ways count (Vitelli et al. 2018, section 3.1).
    """
    probability = 1.0 / leap_targets(origin, low, high, leap)
    if abs(target - origin) == 1:
        probability += 1.0 / leap_targets(target, low, high, leap)
    return probability / (high - low + 1)


def ranks_of(order):
    ranks = np.empty(len(order), np.int64)
    ranks[list(order)] = np.arange(1, len(order) + 1)
    return ranks


def leaps(order, low, high, leap):
    """Every (new order, probability of the choices, position, target) of leap-and-shift within low..high."""
    for origin in range(low, high + 1):
        size = leap_targets(origin, low, high, leap)
        for choice in range(size):
            target = leap_target(origin, choice, low, high, leap)
            orders, ranks = np.array([order]), ranks_of(order)[None]
            leap_and_shift(orders, ranks, 0, origin, target)
            assert (ranks_of(orders[0]) == ranks[0]).all()
            yield tuple(orders[0].tolist()), 1 / ((high - low + 1) * size), origin, target


def swaps(order, n_clicked):
    n = len(order)
    for origin in range(n):
        low, high = block_of(origin, n_clicked, n)
        for choice in range(high - low):
            partner = swap_partner(origin, choice, low)
            orders, ranks = np.array([order]), ranks_of(order)[None]
            swap(orders, ranks, 0, origin, partner)
            assert (ranks_of(orders[0]) == ranks[0]).all()
            yield tuple(orders[0].tolist()), 1 / (n * (high - low)), origin, partner


def largest_gap(states, log_target, proposals, log_ratio):
    """Largest gap in detailed balance of the Metropolis-Hastings kernel, with what is enumerated as proposal."""
    flow = defaultdict(float)
    for state in states:
        for new, probability, origin, target in proposals(state):
            ratio = log_ratio(origin, target) + log_target[new] - log_target[state]
            flow[state, new] += math.exp(log_target[state]) * probability * math.exp(min(ratio, 0.0))
    return max(abs(forth - flow[new, old]) for (old, new), forth in list(flow.items()))


def log_law(n, states):
    """An uneven law over orders, its logarithm."""
    target = {
        order: -0.8 * slow_distance(ranks_of(order).tolist(), range(1, n + 1), "footrule") for order in states
    }
    total = math.log(sum(math.exp(value) for value in target.values()))
    return {order: value - total for order, value in target.items()}


@pytest.mark.parametrize(("n", "leap"), [(n, leap) for n in (2, 3, 4, 5) for leap in range(1, n)])
def test_leap_and_shift_has_the_declared_probability_and_balances(n, leap):
    states = list(permutations(range(n)))
    for order in states if n < 5 else states[:3]:
        computed, declared = defaultdict(float), {}
        for new, probability, origin, target in leaps(order, 0, n - 1, leap):
            computed[new] += probability
            declared[new] = leap_probability(origin, target, 0, n - 1, leap)
            back = leap_probability(target, origin, 0, n - 1, leap)
            assert leap_log_ratio(origin, target, 0, n - 1, leap) == pytest.approx(
                math.log(back / declared[new]), abs=1e-14
            )
        assert math.fsum(computed.values()) == pytest.approx(1, abs=1e-14)
        assert max(abs(computed[new] - declared[new]) for new in computed) <= 1e-14
    gap = largest_gap(
        states,
        log_law(n, states),
        lambda order: leaps(order, 0, n - 1, leap),
        lambda origin, target: leap_log_ratio(origin, target, 0, n - 1, leap),
    )
    assert gap <= 1e-14


def test_leap_and_shift_taken_as_symmetric_would_be_caught():
    states = list(permutations(range(4)))
    gap = largest_gap(states, log_law(4, states), lambda order: leaps(order, 0, 3, 2), lambda origin, target: 0.0)
    assert gap > 1e-3


@pytest.mark.parametrize("n_clicked", [0, 1, 2, 3, 5])
def test_swap_is_symmetric_and_keeps_the_clicks(n_clicked):
    states = list(permutations(range(5)))
    target = log_law(5, states)
    assert largest_gap(states, target, lambda order: swaps(order, n_clicked), lambda origin, target: 0.0) <= 1e-14
    computed = defaultdict(float)
    for new, probability, _, _ in swaps(states[7], n_clicked):
        assert set(new[:n_clicked]) == set(states[7][:n_clicked])
        computed[new] += probability
    n_pairs = math.comb(n_clicked, 2) + math.comb(5 - n_clicked, 2)
    assert len(computed) == n_pairs  # every pair of a block can be proposed


@pytest.mark.parametrize(("n_clicked", "leap"), [(2, 1), (2, 2), (3, 1), (3, 2), (4, 3), (0, 3), (5, 2)])
@pytest.mark.parametrize("part", ["clicked", "others"])
def test_leaps_within_a_part_balance_and_keep_the_clicks(n_clicked, leap, part):
    low, high = (0, n_clicked - 1) if part == "clicked" else (n_clicked, 4)
    if high <= low:
        return  # nothing is proposed
    states = list(permutations(range(5)))
    gap = largest_gap(
        states,
        log_law(5, states),
        lambda order: leaps(order, low, high, leap),
        lambda origin, target: leap_log_ratio(origin, target, low, high, leap),
    )
    assert gap <= 1e-14
    for new, _, origin, target in leaps(states[11], low, high, leap):
        assert set(new[:n_clicked]) == set(states[11][:n_clicked])
        assert low <= target <= high
        assert 0 < abs(origin - target) <= leap


@pytest.mark.parametrize("n_users", [0, 3])
def test_alpha_ratio_is_density_times_proposal(n_users):
    n, rate, within, step = 5, 0.2, 17.0, 0.7
    z = {alpha: log_partition(n, alpha) for alpha in (0.8, 2.1)}

    def log_density(alpha):
        return -rate * alpha - n_users * z[alpha] - alpha / n * within

    def log_proposal(here, there):  # density of the log-normal law
        return -math.log(there) - 0.5 * (math.log(there / here) / step) ** 2

    wanted = log_density(2.1) + log_proposal(2.1, 0.8) - log_density(0.8) - log_proposal(0.8, 2.1)
    assert alpha_log_ratio(0.8, 2.1, n_users, within, z[0.8], z[2.1], n, rate) == pytest.approx(wanted, abs=1e-13)


def test_tuning_goes_the_right_way():
    assert tuned_step(0.3, 0.0, 5) > 0.3
    assert tuned_step(0.3, -math.inf, 5) < 0.3
    assert tuned_step(0.3, math.log(0.44), 5) == pytest.approx(0.3, abs=1e-14)


def test_four_uniforms_are_those_of_the_stream(rotating_seed):
    stream = np.empty(STREAM_SIZE, np.uint64)
    open_stream(stream, stream_key(rotating_seed), 1, 2, 3, 103)
    assert four_uniforms(stream) == tuple(uniforms(stream_key(rotating_seed), 1, 2, 3, 103, 4).tolist())


@pytest.mark.parametrize("n_clusters", [1, 2, 3, 17])
@pytest.mark.parametrize("spread", [0.01, 1.0, 30.0])
def test_labels_without_exponentials_are_those_with(n_clusters, spread, rotating_seed):
    """Against the plain rule: the label is where the running sum of the weights passes u times their total."""
    rng = np.random.default_rng(rotating_seed)
    n_users = 3000
    distances = rng.integers(0, 500, (n_users, n_clusters))
    log_base, slope = rng.normal(size=n_clusters), np.full(n_clusters, spread / 100)
    # Numbers near 0, 1 and the borders between clusters are where a short cut could go wrong.
    numbers = rng.random(n_users)
    numbers[:400] = rng.choice([0.0, 1e-300, 1e-13, 2e-12, 1e-9, 1 - 1e-9, 1 - 2e-12, 1 - 1e-13, 1 - 2.0**-53], 400)
    logs = log_base - slope * distances
    running = np.cumsum(np.exp(logs - logs.max(axis=1, keepdims=True)), axis=1)
    if n_clusters > 1:
        at_border = np.arange(400, 900)
        shares = (running / running[:, -1:])[at_border, rng.integers(0, n_clusters - 1, 500)]
        numbers[at_border] = np.clip(shares * (1 + rng.choice([-1e-9, 1e-9], 500)), 0, 1 - 2.0**-53)
    wanted = (running[:, :-1] <= (numbers * running[:, -1])[:, None]).sum(axis=1)
    labels = np.full(n_users, -1)
    for first, last in ((0, 1000), (1000, n_users)):
        draw_labels(labels, distances, log_base, slope, numbers[first:last], np.empty(n_clusters), first, last)
    np.testing.assert_array_equal(labels, wanted)


def swap_change(code, orders, j, others, k, a, b, scale, distance, scratch):
    """The change by a swap, as the sampler computes it."""
    if not is_additive(code):
        return change_by_swap(code, orders, j, others, k, a, b, distance, scratch)
    x, y = others[k, orders[j, a]] - 1, others[k, orders[j, b]] - 1
    return cost_of_swap(code, scale[a], scale[b], scale[x], scale[y])


def leap_change(code, orders, j, others, k, origin, target, scale, distance, scratch):
    """The change by a leap, as the sampler computes it."""
    if not is_additive(code):
        return change_by_leap(code, orders, j, others, k, origin, target, distance, scratch)
    total = 0
    for m in range(list_leap(orders, j, origin, target, scale, scratch)):
        item, before, after = scratch[:, m]
        x = scale[others[k, item] - 1]
        total += place_cost(code, after, x) - place_cost(code, before, x)
    return total


@pytest.mark.parametrize("name", [*DISTANCES, "stretched"])
def test_changes_of_distance(name, rotating_seed):
    """Each change, by swap and by leap, equals the difference of two distances taken by definition."""
    rng = np.random.default_rng(rotating_seed)
    distance = "footrule" if name == "stretched" else name
    code = DISTANCES.index(distance)
    for _ in range(60):
        n = int(rng.integers(2, 9))
        scale, unit = whole_scale(scale_values(n, "sqrt" if name == "stretched" else "linear"))
        scratch = make_scratch(n)
        orders = np.array([rng.permutation(n), rng.permutation(n)])
        other = np.array([rng.permutation(n) + 1])

        def by_definition(order, n=n, other=other, scale=scale, unit=unit):
            g = (scale * unit).tolist() if name == "stretched" else None
            return slow_distance(ranks_of(order).tolist(), other[0].tolist(), distance, g)

        now = distance_from_scratch(code, orders, 1, other, 0, scale, scratch)
        assert now * unit == pytest.approx(by_definition(orders[1]), rel=1e-13)
        a, b = rng.choice(n, 2, replace=False).tolist()
        for change, move in ((swap_change, swap), (leap_change, leap_and_shift)):
            moved, ranks = orders.copy(), np.array([ranks_of(order) for order in orders])
            move(moved, ranks, 1, a, b)
            computed = change(code, orders, 1, other, 0, a, b, scale, now, scratch)
            assert computed == distance_from_scratch(code, moved, 1, other, 0, scale, scratch) - now
            assert (now + computed) * unit == pytest.approx(by_definition(moved[1]), rel=1e-13)


def test_whole_scale_keeps_sums_exact():
    for n in (2, 50, 5000):
        scale, unit = whole_scale(scale_values(n, "sqrt"))
        assert np.abs(scale * unit - scale_values(n, "sqrt")).max() <= unit
        assert n * int(scale[-1] - scale[0]) < 2**53
    assert all(a < b for a, b in combinations(whole_scale(scale_values(50, "log"))[0].tolist(), 2))
