"""The table of Gamma variates in `rates.py`: it is a hat, cells weigh the same, quick decisions equal full ones."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, stats

from bmcd.inference.tastes.rates import LOWEST, STEPS, draw_small_gammas, gamma_table, propose
from bmcd.rng import STREAM_SIZE, next_blocks, open_stream, stream_key, unit_interval

CUT = 1e-6
shapes = st.floats(1e-4, 0.999)
numbers = st.sampled_from([0, 12, 500, 5_000, 200_000])


def stream_of(seed):
    stream = np.empty(STREAM_SIZE, np.uint64)
    open_stream(stream, stream_key(seed), 0, 0, 0, 0)
    return stream


def density(a, x):
    return math.exp((a - 1) * math.log(x) - x)


@given(a=shapes, n=numbers)
def test_boxes_are_a_hat_of_equal_areas(a, n):
    table = gamma_table(a, n)
    boxes = range(table.n_first, table.n_cells - 1)
    assert table.n_cells <= table.low.size
    for cell in boxes:
        low, width = table.low[cell], table.width[cell]
        assert density(a, low) * width == pytest.approx(table.area, rel=1e-9)
        assert table.low[cell + 1] == low + width
        # At once only what is accepted anywhere in the cell: least at the right end, since the density falls.
        assert table.at_once[cell] <= STEPS * density(a, low + width) / density(a, low)
    assert table.low[table.n_first] == table.first >= LOWEST
    assert not table.at_once[: table.n_first].any()
    assert table.at_once[table.n_cells - 1] == 0


@given(a=st.floats(0.02, 0.999), n=numbers)
def test_accepted_area_is_that_of_the_law(a, n):
    """Probability to accept, averaged over all cells and places, times the area of all cells: Gamma(a)."""
    table = gamma_table(a, n)

    def accepted(cell):
        return integrate.quad(lambda f: propose(table, cell + f)[1], 0, 1 - 1e-12, limit=200)[0]

    ends = accepted(0) * table.n_first + accepted(table.n_cells - 1)
    inner = np.arange(table.n_first, table.n_cells - 1)
    x, w = np.polynomial.legendre.leggauss(12)
    middle = sum(
        0.5 * wi * propose(table, cell + 0.5 * (xi + 1))[1] for cell in inner for xi, wi in zip(x, w, strict=True)
    )
    assert (ends + middle) * table.area == pytest.approx(math.gamma(a), rel=1e-4)


@given(seed=st.integers(0, 2**32 - 1), a=shapes, n=numbers)
def test_quick_decisions_are_those_in_full(seed, a, n):
    table, out, bits = gamma_table(a, n), np.empty(40), np.empty(40, np.uint64)
    draw_small_gammas(stream_of(seed), table, out, bits)
    again = np.empty(40, np.uint64)
    next_blocks(stream_of(seed), again)
    for x, number in zip(out, again, strict=True):
        place, step = unit_interval(number) * table.n_cells, int(number) % STEPS
        proposed, accept = propose(table, place)
        if step < table.at_once[int(place)]:
            assert x == proposed
            assert step + 1 <= STEPS * accept
        assert x >= 0


@pytest.mark.chance(1e-5)
@pytest.mark.parametrize("n", [0, 200_000])
@pytest.mark.parametrize("a", [0.003, 0.0125, 0.02, 0.05, 0.1, 0.3, 0.7, 0.99])
def test_variates_have_their_law(a, n, rotating_seed, times):
    """Two p-values for each of 16: variates below LOWEST need only be as many as they should, and the others."""
    out = np.empty(40_000 * times)
    draw_small_gammas(stream_of(rotating_seed), gamma_table(a, n), out, np.empty(out.size, np.uint64))
    law, low = stats.gamma(a), 10 * LOWEST
    below = law.cdf(low)
    assert stats.binomtest(int((out < low).sum()), out.size, below).pvalue > CUT
    assert stats.kstest(out[out >= low], lambda x: (law.cdf(x) - below) / (1 - below)).pvalue > CUT
