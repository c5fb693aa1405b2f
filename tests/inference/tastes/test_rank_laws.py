"""Laws of the first item: against sums over all rankings, against the top-k scan, and as a grid with a prior."""

import math
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from tests.reference.tastes import slow_first_item_law

from bmcd.inference.tastes.rank_laws import (
    DISTANCES,
    LOWEST,
    MAX_ITEMS,
    SPACING,
    TOLERANCE,
    TOP,
    RankLaws,
    footrule_log_law,
    rank_laws,
)
from bmcd.mallows import top_probabilities
from bmcd.mallows.rank_scale import scale_values

SCALES = ["linear", "sqrt", "log"]


@pytest.mark.parametrize("distance", DISTANCES)
@pytest.mark.parametrize("n", range(1, 8))
def test_laws_are_sums_over_all_rankings(distance, n):
    laws = RankLaws(n, distance)
    points = np.linspace(0, laws.alphas.size - 1, 5).astype(int)
    laws.make(points)
    for g in points:
        expected = slow_first_item_law(n, laws.alphas[g], distance)
        # Sums over rankings lose what is far below 1; the logarithms here do not.
        np.testing.assert_allclose(np.exp(laws.log_law[g]), expected, rtol=1e-10, atol=1e-16)


@given(n=st.integers(1, 6), scale=st.sampled_from(SCALES), log_alpha=st.floats(-3, 4))
def test_footrule_on_any_scale(n, scale, log_alpha):
    alpha = math.exp(log_alpha)
    law = footrule_log_law(np.diff(scale_values(n, scale)), alpha / n)
    np.testing.assert_allclose(np.exp(law), slow_first_item_law(n, alpha, "footrule", scale), rtol=1e-10)


@pytest.mark.parametrize("scale", [*SCALES, "uneven"])
def test_footrule_is_the_top_1_scan(scale):
    """With many items, where nothing can be enumerated. The scan gives probabilities, not their logarithms."""
    n = 150
    if scale == "uneven":
        scale = np.cumsum(np.random.default_rng(0).gamma(0.5, size=n) + 1e-3)
    laws = RankLaws(n, "footrule", scale)
    points = np.linspace(0, laws.alphas.size - 1, 8).astype(int)
    laws.make(points)
    for g in points:
        expected = top_probabilities(np.zeros((1, n)), np.arange(1, n + 1), laws.alphas[g], 1, rank_scale=scale)
        np.testing.assert_allclose(np.exp(laws.log_law[g]), expected[0, :, 0], rtol=1e-9, atol=1e-14)


def test_far_ranks_of_sharp_laws_keep_their_logarithms():
    """exp(-4000) is no number, its logarithm is. At n = 40 the sum over rankings is led by few of them.

    For the item at rank n to come first, at a distance of 2 (n - 1), the cheapest rankings shift blocks of the
    items between; at beta = 10 all others weigh exp(-20) less.
    """
    n, beta = 40, 10.0
    law = footrule_log_law(np.ones(n - 1), beta)
    # Displacements of neighbours to the left or to the right on the way: 2^(n - 2) rankings at the least distance.
    assert law[-1] == pytest.approx(-beta * 2 * (n - 1) + (n - 2) * math.log(2), abs=1e-6)
    assert np.isfinite(law).all()


@pytest.mark.parametrize("n", [2, 30])
@pytest.mark.parametrize("distance", DISTANCES)
@pytest.mark.parametrize("rate", [0.001, 0.1, 3.0])
def test_the_prior_on_the_grid_is_the_exponential_law(n, distance, rate):
    """Mass of each cell by definition; all of it sums to 1; and each point carries the spacing of the grid."""
    laws = RankLaws(n, distance)
    prior = np.exp(laws.log_prior(rate))
    law = stats.expon(scale=1 / rate)
    edges = [0.0, *np.sqrt(laws.alphas[1:] * laws.alphas[:-1]), math.inf]
    np.testing.assert_allclose(prior, -np.diff(law.sf(edges)), rtol=1e-6, atol=1e-14)
    assert prior.sum() == pytest.approx(1.0, rel=1e-12)
    inner = slice(1, min(np.searchsorted(laws.alphas, 1 / rate), prior.size - 1))  # the outer points carry tails
    np.testing.assert_allclose(prior[inner], (laws.alphas * law.pdf(laws.alphas) * SPACING)[inner], rtol=1e-3)


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("n", [2, 5, 200])
def test_no_data_can_leave_the_grid(n, scale):
    """Below it all is nearly uniform, above it the best item comes first: there is nothing further to learn."""
    laws = RankLaws(n, "footrule", scale)
    laws.make([0, -1])
    assert np.abs(laws.log_law[0] + math.log(n)).max() < 0.1
    assert -math.expm1(laws.log_law[-1, 0]) < 2 * math.exp(-TOP)
    assert laws.alphas[0] == LOWEST
    np.testing.assert_allclose(np.diff(np.log(laws.alphas)), SPACING)


def test_laws_are_made_when_asked_for_and_shared():
    laws = RankLaws(6)
    laws.make([3, 5])
    assert np.flatnonzero(~np.isnan(laws.log_law[:, 0])).tolist() == [3, 5]
    assert rank_laws(6, rank_scale="log") is rank_laws(6, rank_scale=scale_values(6, "log"))
    assert rank_laws(6) is not rank_laws(6, "kendall")


def test_threads_make_the_same_laws():
    alone, together = RankLaws(30), RankLaws(30)
    alone.make(np.arange(alone.alphas.size))
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(together.make, np.random.default_rng(0).integers(0, alone.alphas.size, (50, 40))))
    made = ~np.isnan(together.log_law[:, 0])
    assert made.sum() > 200
    np.testing.assert_array_equal(together.log_law[made], alone.log_law[made])


@pytest.mark.parametrize("distance", ["spearman", "ulam", "nonsense"])
def test_other_distances_are_refused(distance):
    with pytest.raises(ValueError, match=f"footrule, kendall, cayley, hamming, but not for '{distance}'"):
        RankLaws(5, distance)


@pytest.mark.parametrize("alpha", [LOWEST, 3.0, 300.0])
def test_nothing_vanishes_with_as_many_items_as_are_allowed(alpha):
    """Rows whose largest cell is 1 lose cells that matter here, and the law no longer sums to 1."""
    law = footrule_log_law(np.ones(MAX_ITEMS - 1), alpha / MAX_ITEMS)
    assert abs(np.exp(law).sum() - 1.0) < TOLERANCE
    assert np.diff(law).max() < 0.0


def test_too_many_items_are_refused():
    with pytest.raises(ValueError, match="up to 10000 items, but there are 10001"):
        RankLaws(10001)
