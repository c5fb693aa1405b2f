import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.reference.mallows import slow_distance

from bmcd.errors import InputError
from bmcd.mallows import distances
from bmcd.mallows.distances import DISTANCES, check_ranks, distance
from bmcd.mallows.rank_scale import scale_values

names = pytest.mark.parametrize("name", DISTANCES)


@st.composite
def rankings(draw, how_many):
    n = draw(st.integers(1, 12))
    return [draw(st.permutations(range(1, n + 1))) for _ in range(how_many)]


@names
@given(pair=rankings(2))
def test_fast_equals_slow(name, pair):
    r, rho = pair
    assert distance(r, rho, name) == slow_distance(r, rho, name)
    assert getattr(distances, name)(r, rho) == slow_distance(r, rho, name)


@pytest.mark.parametrize("scale", ["sqrt", "log"])
@given(pair=rankings(2))
def test_stretched_footrule_equals_slow(scale, pair):
    r, rho = pair
    slow = slow_distance(r, rho, "footrule", scale_values(len(r), scale).tolist())
    # two orders of adding at most 12 numbers below 12: a few units in the last place
    assert distance(r, rho, "footrule", scale) == pytest.approx(slow, rel=1e-13, abs=1e-13)


@names
@given(triple=rankings(3))
def test_metric_and_right_invariant(name, triple):
    r, rho, other = (np.array(ranks) for ranks in triple)
    relabel = other - 1
    d = distance(r, rho, name)
    assert d == distance(rho, r, name)
    assert d == distance(r[relabel], rho[relabel], name)
    assert distance(r, r, name) == 0
    assert (d == 0) == np.array_equal(r, rho)
    if name != "spearman":  # its square root is a metric, it is not
        assert d <= distance(r, other, name) + distance(other, rho, name)


@pytest.mark.parametrize("n", [1, 2, 5, 6, 301])
def test_reversal(n):
    up = np.arange(1, n + 1)
    down = up[::-1]
    assert distance(up, down, "footrule") == n * n // 2
    assert distance(up, down, "spearman") == n * (n * n - 1) // 3
    assert distance(up, down, "kendall") == n * (n - 1) // 2
    assert distance(up, down, "cayley") == n // 2
    assert distance(up, down, "hamming") == n - n % 2
    assert distance(up, down, "ulam") == n - 1


def test_one_item_moved_to_the_top():
    rho = [1, 2, 3, 4, 5]
    r = [2, 3, 4, 5, 1]  # the item at the bottom of rho comes first, the others slide down
    computed = {name: int(distance(r, rho, name)) for name in DISTANCES}
    assert computed == {"footrule": 8, "spearman": 20, "kendall": 4, "cayley": 4, "hamming": 5, "ulam": 1}


@names
def test_many_at_once(name):
    rng = np.random.default_rng(0)
    ranks = rng.permuted(np.tile(np.arange(1, 8), (4, 1, 3, 1)), axis=-1)
    rho = rng.permuted(np.tile(np.arange(1, 8), (2, 1, 1)), axis=-1)
    computed = distance(ranks, rho, name)
    assert computed.shape == (4, 2, 3)
    assert computed.dtype == np.int64
    for i, j, k in itertools.product(range(4), range(2), range(3)):
        assert computed[i, j, k] == slow_distance(ranks[i, 0, k].tolist(), rho[j, 0].tolist(), name)


@names
def test_types_and_empty_input(name):
    assert isinstance(distance([1, 2], [2, 1], name), np.int64)
    assert distance(np.empty((0, 3), dtype=int), [1, 2, 3], name).shape == (0,)
    assert distance(np.array([[1, 2]], dtype=np.uint8), [2.0, 1.0], name).dtype == np.int64
    before = np.array([[2, 1, 3]])
    distance(before, [1, 2, 3], name)
    assert before.tolist() == [[2, 1, 3]]


def test_a_stretched_scale_gives_floats():
    assert isinstance(distance([1, 2, 3], [2, 1, 3], "footrule", "sqrt"), np.float64)
    assert distance([[1, 2, 3]], [2, 1, 3], rank_scale=[0.0, 1.0, 4.0]).tolist() == [1.0]


@pytest.mark.parametrize(
    ("ranks", "message"),
    [
        ([[1, 2, 3], [0, 1, 2]], r"ranks\[1\] = \[0, 1, 2\] holds 0: ranks start at 1"),
        ([0, 1, 2], r"^ranks = \[0, 1, 2\] holds 0: ranks start at 1"),
        ([1, 2, 2], r"holds 2 more than once; each of 1\.\.3"),
        ([1, 2, 4], r"holds 4: with 3 items the ranks are 1\.\.3"),
        ([1, 2, -3], "holds -3: ranks start at 1"),
        ([1.0, float("nan"), 2.0], r"ranks\[1\] is nan: every item needs a rank"),
        ([[1, 2, float("inf")]], r"ranks\[0, 2\] is inf"),
        ([1.0, 2.5, 3.0], r"ranks\[1\] is 2\.5: ranks are whole numbers; break ties"),
        ([1.0, 2.0, 1e300], "holds 1e[+]300: with 3 items"),
        (np.array([1, 2, 2**64 - 1], dtype=np.uint64), "with 3 items"),
        (["a", "b", "c"], "has type <U1: give whole numbers"),
        ([True, False, True], "has type bool"),
        ([None, 1, 2], "has type object"),
        ([[1, 2, 3], [1, 2]], "rows of unequal length"),
        (1, r"has shape \(\)"),
        ([], r"has shape \(0,\)"),
        ([1, 2], "ranks has 2 items .* and rho has 3"),
    ],
)
def test_wrong_ranks_are_refused(ranks, message):
    with pytest.raises(ValueError, match=message) as caught:
        distance(ranks, [1, 2, 3])
    assert type(caught.value) is InputError


def test_wrong_rho_and_shapes_are_refused():
    with pytest.raises(ValueError, match=r"rho = \[1, 3, 3\] holds 3 more than once"):
        distance([1, 2, 3], [1, 3, 3])
    with pytest.raises(ValueError, match=r"shape \(2, 3\) and rho of shape \(4, 3\) do not fit together"):
        distance([[1, 2, 3]] * 2, [[1, 2, 3]] * 4)


def test_long_rankings_are_cut_short_in_messages():
    with pytest.raises(ValueError, match=r"8, 9, \.\.\.\] holds 0"):
        check_ranks(range(100))


def test_unknown_distance_lists_the_choices():
    with pytest.raises(ValueError, match="choose one of footrule, spearman, kendall, cayley, hamming, ulam"):
        distance([1, 2], [1, 2], "euclid")


@pytest.mark.parametrize("name", [name for name in DISTANCES if name != "footrule"])
@pytest.mark.parametrize("scale", ["sqrt", [1.0, 2.0]])
def test_only_the_footrule_has_a_rank_scale(name, scale):
    with pytest.raises(ValueError, match="only the footrule has a rank scale"):
        distance([1, 2], [1, 2], name, scale)
