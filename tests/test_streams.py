import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from bmcd.streams import stream_key, uniforms

counter = st.integers(0, 2**63 - 1)


@given(seed=st.integers(0, 2**128 - 1), chain=counter, sweep=counter, user=counter)
def test_streams_are_numpys_philox_bit_for_bit(seed, chain, sweep, user):
    ours = uniforms(stream_key(seed), chain, sweep, user, 9)
    twin = np.random.Generator(np.random.Philox(key=stream_key(seed), counter=[0, user, sweep, chain]))
    np.testing.assert_array_equal(ours, twin.random(9))


def test_neighbouring_streams_share_nothing():
    key = stream_key(0)
    streams = [
        uniforms(key, chain, sweep, user, 50) for chain in range(3) for sweep in range(3) for user in range(3)
    ]
    assert len({value for stream in streams for value in stream}) == 27 * 50
