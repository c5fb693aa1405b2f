"""The numbers of a stream, one by one."""

import numpy as np

from bmcd.rng import STREAM_SIZE, open_stream, uniform


def uniforms(key, chain, sweep, user, purpose, size):
    """The first numbers of a stream."""
    stream = np.empty(STREAM_SIZE, np.uint64)
    open_stream(stream, key, chain, sweep, user, purpose)
    return np.array([uniform(stream) for _ in range(size)])
