import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from tests.reference.streams import uniforms

from bmcd.rng import STREAM_SIZE, next_blocks, open_stream, stream_key, uniform, unit_interval

counter, small = st.integers(0, 2**63 - 1), st.integers(0, 2**31 - 1)


@given(seed=st.integers(0, 2**128 - 1), chain=small, sweep=counter, user=counter, purpose=small)
def test_streams_are_numpys_philox_bit_for_bit(seed, chain, sweep, user, purpose):
    ours = uniforms(stream_key(seed), chain, sweep, user, purpose, 9)
    counters = [0, user, sweep, chain + 2**32 * purpose]
    twin = np.random.Generator(np.random.Philox(key=stream_key(seed), counter=counters))
    np.testing.assert_array_equal(ours, twin.random(9))


def test_neighbouring_streams_share_nothing():
    key = stream_key(0)
    streams = [uniforms(key, *name, 50) for name in itertools.product(range(3), repeat=4)]
    assert len({value for stream in streams for value in stream}) == 81 * 50


@given(seed=st.integers(0, 2**32), before=st.integers(0, 9), n_blocks=st.integers(0, 4))
def test_blocks_are_what_single_numbers_are(seed, before, n_blocks):
    """Whole blocks, from the next one on; then single numbers go on behind them."""
    stream, bits = np.empty(STREAM_SIZE, np.uint64), np.empty(4 * n_blocks, np.uint64)
    open_stream(stream, stream_key(seed), 1, 2, 3, 4)
    for _ in range(before):
        uniform(stream)
    next_blocks(stream, bits)
    start = (before + 3) // 4 * 4
    one_by_one = uniforms(stream_key(seed), 1, 2, 3, 4, start + bits.size + 1)
    assert [unit_interval(b) for b in bits] == one_by_one[start:-1].tolist()
    assert uniform(stream) == one_by_one[-1]
