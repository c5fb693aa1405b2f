"""The move of a cluster's scale, with every latent ranking of the cluster summed out.

Given the rankings, their total distance pins alpha and the chain crawls; summed out, it moves freely.
"""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import math

import numba
import numpy as np

from bmcd.mallows.latent.scan import cluster_tables
from bmcd.sampling.exact.labels import likelihoods
from bmcd.sampling.purposes import ALPHA
from bmcd.system.streams import STREAM_SIZE, open_stream, uniform
from bmcd.system.variates import normal

# Acceptance that the log-normal step is tuned to in warm-up: best for one dimension.
TARGET_ACCEPTANCE = 0.44
# Proposals outside are refused: the posterior has no mass there, and tables would under- or overflow.
SMALLEST, LARGEST = 1e-8, 1e8


@numba.njit(cache=True, nogil=True)
def alpha_log_ratio(log_p, log_p_proposal, alpha, proposal, rate):
    """Log acceptance ratio: likelihood, Exponential(rate) prior, and the Jacobian of the log-normal proposal."""
    return log_p_proposal - log_p - rate * (proposal - alpha) + math.log(proposal / alpha)


@numba.njit(cache=True, nogil=True)
def update_alpha(state, c, members, log_p, table, data, shared, rate, proposals, key, chain, sweep, warmup):
    """Metropolis on log alpha_c. ``log_p`` is the log-likelihood of the members now. Returns the tables of the new
    alpha_c and the share of proposals taken."""
    stream = np.empty(STREAM_SIZE, np.uint64)
    open_stream(stream, key, chain, sweep, c, ALPHA)
    values = np.empty(members.size)
    taken = 0
    for _ in range(proposals):
        alpha = state.alpha[c]
        proposal = alpha * math.exp(state.alpha_step[c] * normal(stream))
        u = uniform(stream)
        probability = 0.0
        if SMALLEST < proposal < LARGEST:
            other = cluster_tables(shared, proposal)
            likelihoods(members, data, state.rho[c], shared, other, values)
            log_p_proposal = values.sum()
            probability = math.exp(min(alpha_log_ratio(log_p, log_p_proposal, alpha, proposal, rate), 0.0))
            if u < probability:
                state.alpha[c] = proposal
                table = other
                log_p = log_p_proposal
                taken += 1
        if warmup:
            # Robbins and Monro; the gain falls with the sweep, so that the step settles.
            step = state.alpha_step[c] * math.exp((probability - TARGET_ACCEPTANCE) * 3.0 / math.sqrt(sweep + 4.0))
            state.alpha_step[c] = min(max(step, 1e-4), 3.0)
    return table, taken / proposals
