"""Some users held out, and the exact log-likelihood of their clicks under the draws of a fit to the others."""

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

__all__ = ["log_likelihood_by_draw", "log_mean", "split_users"]

Floats = NDArray[np.float64]

# Sets the stream that chooses the held-out users apart from those of the chains, which are numbered from 0.
SPLIT_STREAM = 2**32 - 1


def split_users(clicks: Clicks, holdout: float, seed: int) -> tuple[Clicks, Clicks]:
    """The users to fit, and those to score."""
    number = isinstance(holdout, int | float | np.integer | np.floating) and not isinstance(holdout, bool)
    if not number or not 0 < holdout < 1:
        raise InputError(f"holdout is a share of users: it must lie between 0 and 1, but it is {holdout!r}.")
    n_held_out = round(float(holdout) * clicks.n_users)
    if n_held_out < 2 or n_held_out == clicks.n_users:
        raise InputError(
            f"holdout={holdout} of {clicks.n_users} users holds out {n_held_out}: two or more are needed to have a "
            "standard error, and some must stay to fit. Choose another share, or get more users."
        )
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(SPLIT_STREAM,)))
    chosen = np.zeros(clicks.n_users, np.bool_)
    chosen[rng.permutation(clicks.n_users)[:n_held_out]] = True
    what = f"{n_held_out} of {clicks.n_users} users at random (seed {seed})"
    return _users(clicks, ~chosen, f"left out {what}"), _users(clicks, chosen, f"kept only {what}")


def _users(clicks: Clicks, mask: NDArray[np.bool_], step: str) -> Clicks:
    return replace(clicks, users=clicks.users[mask], matrix=clicks.matrix[mask], history=(*clicks.history, step))


def log_likelihood_by_draw(clicks: Clicks, draws: Draws, n_threads: int | None = None) -> Floats:
    """log sum_c tau_c P(A_j | rho_c, alpha_c), users x chains x draws."""
    shape = (clicks.n_users, draws.n_draws, draws.problem.n_clusters)
    out = np.empty((clicks.n_users, draws.n_chains, draws.n_draws))
    for chain in range(draws.n_chains):
        # All clusters of all draws at once: the tables they share are made once.
        log_p = log_likelihood(
            clicks,
            draws.rho[chain].reshape(-1, clicks.n_items),
            draws.alpha[chain].reshape(-1),
            rank_scale=draws.problem.options["rank_scale"],
            n_threads=n_threads,
        ).reshape(shape)
        with np.errstate(divide="ignore"):  # a tau that has underflowed to 0
            log_tau = np.log(draws.tau[chain])
        out[:, chain] = logsumexp(log_p + log_tau, axis=2)
    return out


def log_mean(log_values: Floats, axis: int | tuple[int, ...]) -> Floats:
    """Log of the mean of what these are the logs of."""
    axes = (axis,) if isinstance(axis, int) else axis
    number = math.prod(log_values.shape[a] for a in axes)
    out: Floats = logsumexp(log_values, axis=axes) - math.log(number)
    return out
