"""The exact log-likelihood of the clicks of held-out users under a fit to the others."""

from __future__ import annotations

import math

import numpy as np
from scipy.special import logsumexp

from bmcd.clicks.log import Clicks
from bmcd.inference.draws import Draws
from bmcd.mallows.latent.exact import log_likelihood
from bmcd.utils import Floats


def log_likelihood_by_draw(clicks: Clicks, draws: Draws, n_threads: int | None = None) -> Floats:
    """Return log sum_c tau_c P(A_j | rho_c, alpha_c), users x chains x draws."""
    shape = (clicks.n_users, draws.n_draws, draws.problem.n_clusters)
    log_mixture = np.empty((clicks.n_users, draws.n_chains, draws.n_draws))
    for chain in range(draws.n_chains):
        # All clusters of all draws at once, so that the tables they share are made once.
        log_p = log_likelihood(
            clicks,
            draws.rho[chain].reshape(-1, clicks.n_items),
            draws.alpha[chain].reshape(-1),
            rank_scale=draws.problem.options["rank_scale"],
            n_threads=n_threads,
        ).reshape(shape)
        with np.errstate(divide="ignore"):  # a tau that has underflowed to 0
            log_tau = np.log(draws.tau[chain])
        log_mixture[:, chain] = logsumexp(log_p + log_tau, axis=2)
    return log_mixture


def log_mean(log_values: Floats, axis: int | tuple[int, ...]) -> Floats:
    """Return the log of the mean of values, given their logs.

    >>> log_mean(np.log([[1.0, 3.0]]), axis=1).round(6).tolist() == np.log([2.0]).round(6).tolist()
    True
    """
    axes = (axis,) if isinstance(axis, int) else axis
    number = math.prod(log_values.shape[a] for a in axes)
    log_of_mean: Floats = logsumexp(log_values, axis=axes) - math.log(number)
    return log_of_mean
