"""Hold out some users, and score their clicks by the exact log-likelihood under a fit to the others."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from bmcd.clicks.table import Clicks
from bmcd.errors import InputError
from bmcd.mallows.latent.exact import log_likelihood
from bmcd.sampling.draws import Draws

Floats = NDArray[np.float64]

# The random stream that chooses the held-out users; those of the chains are numbered from 0.
SPLIT_STREAM = 2**32 - 1


def split_users(clicks: Clicks, holdout: float, seed: int) -> tuple[Clicks, Clicks]:
    """Return the clicks of the users to fit, and of those to score."""
    is_number = isinstance(holdout, int | float | np.integer | np.floating) and not isinstance(holdout, bool)
    if not is_number or not 0 < holdout < 1:
        raise InputError(f"holdout is a share of users: it must lie between 0 and 1, but it is {holdout!r}.")
    n_held_out = round(float(holdout) * clicks.n_users)
    if n_held_out < 2 or n_held_out == clicks.n_users:
        raise InputError(
            f"holdout={holdout} of {clicks.n_users} users holds out {n_held_out}: two or more are needed for a "
            "standard error, and some must stay to fit. Choose another share, or get more users."
        )
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(SPLIT_STREAM,)))
    chosen = np.zeros(clicks.n_users, np.bool_)
    chosen[rng.permutation(clicks.n_users)[:n_held_out]] = True
    what = f"{n_held_out} of {clicks.n_users} users at random (seed {seed})"
    training, held_out = (
        replace(clicks.of_users(mask), history=(*clicks.history, f"{step} {what}"))
        for mask, step in ((~chosen, "left out"), (chosen, "kept only"))
    )
    return training, held_out


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
