"""Move the cluster weights tau by a Gibbs draw."""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import numba
import numpy as np

from bmcd.inference.rng_streams import TAU
from bmcd.inference.variates import draw_dirichlet
from bmcd.rng import STREAM_SIZE, open_stream


@numba.njit(cache=True, nogil=True)
def update_tau(tau, counts, concentration, key, chain, sweep):
    """Draw tau given the labels, from Dirichlet(psi + users in each cluster)."""
    stream = np.empty(STREAM_SIZE, np.uint64)
    open_stream(stream, key, chain, sweep, 0, TAU)
    draw_dirichlet(stream, concentration + counts, tau)
