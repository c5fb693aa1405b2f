"""Move a cluster's scale alpha_c with every latent ranking of the cluster summed out.

Given the rankings, their total distance holds alpha in place and the chain crawls. With the rankings summed out it
moves freely.
"""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import math

import numba
import numpy as np

from bmcd.inference.rng_streams import ALPHA
from bmcd.inference.variates import normal
from bmcd.mallows.latent.scan import cluster_tables
from bmcd.mallows.latent.users import log_likelihoods
from bmcd.rng import STREAM_SIZE, open_stream, uniform

# Warm-up tunes the log-normal step to this share of accepted proposals, the best one in one dimension.
TARGET_ACCEPTANCE = 0.44
# Proposals outside are refused: the posterior has no mass there, and tables would under- or overflow.
SMALLEST, LARGEST = 1e-8, 1e8


@numba.njit(cache=True, nogil=True)
def alpha_log_ratio(log_p, log_p_proposal, alpha, proposal, rate):
    """Return the log acceptance ratio: likelihood, Exponential(rate) prior, Jacobian of the log-normal proposal."""
    return log_p_proposal - log_p - rate * (proposal - alpha) + math.log(proposal / alpha)


@numba.njit(cache=True, nogil=True)
def update_alpha(state, c, members, log_p, table, data, shared, rate, proposals, key, chain, sweep, warmup):
    """Move alpha_c by Metropolis steps in log alpha; return the tables of the new alpha_c and the share accepted.

    ``log_p`` is the present log-likelihood of the members, ``table`` the present tables.
    """
    stream = np.empty(STREAM_SIZE, np.uint64)
    open_stream(stream, key, chain, sweep, c, ALPHA)
    values = np.empty(members.size)
    n_accepted = 0
    for _ in range(proposals):
        alpha = state.alpha[c]
        proposal = alpha * math.exp(state.alpha_step[c] * normal(stream))
        u = uniform(stream)
        probability = 0.0
        if SMALLEST < proposal < LARGEST:
            proposed_table = cluster_tables(shared, proposal)
            log_likelihoods(members, data, state.rho[c], shared, proposed_table, values)
            log_p_proposal = values.sum()
            probability = math.exp(min(alpha_log_ratio(log_p, log_p_proposal, alpha, proposal, rate), 0.0))
            if u < probability:
                state.alpha[c] = proposal
                table = proposed_table
                log_p = log_p_proposal
                n_accepted += 1
        if warmup:
            # Robbins and Monro; the gain falls with the sweep, so that the step settles.
            step = state.alpha_step[c] * math.exp((probability - TARGET_ACCEPTANCE) * 3.0 / math.sqrt(sweep + 4.0))
            state.alpha_step[c] = min(max(step, 1e-4), 3.0)
    return table, n_accepted / proposals
