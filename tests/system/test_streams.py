import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from bmcd.system.streams import stream_key, uniforms

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
