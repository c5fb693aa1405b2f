"""Where a chain starts: labels, consensuses, scales and latent rankings that agree with the clicks.

The starting point decides real data. Clusters that start alike fall into each other, and labels are sticky, so
the default is a warm start: k-means on the clicks, then a few rounds of EM in which the exact likelihood, with the
latent rankings summed out, decides. The paper's own starts (its section "MCMC set up and initialization" and
Algorithm 1 of its supplement) are here as well.
With an earlier fit, a chain starts at a draw of it; users may be others, and new items are placed by their clicks.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from scipy.special import softmax

from bmcd.errors import InputError
from bmcd.inference.bmcd.em import (
    FIRST_ALPHA,
    Mixture,
    fit_mixture,
    inherit_order,
    log_joint,
    order_by,
    run_em,
    shares,
)
from bmcd.inference.bmcd.kmeans import click_counts, kmeans_distances
from bmcd.inference.draws import Previous
from bmcd.inference.mixture import ChainState, Priors
from bmcd.mallows.latent.exact import click_matrix
from bmcd.utils import Floats, Integers


def place_new_items(rho: Integers, counts: Floats) -> Integers:
    """Return rankings of all items, [cluster, item]: old ones in their order, new ones (rank 0) by their counts.

    A new item comes after all old ones with more clicks. A gap that an item has left is closed.

    >>> place_new_items(np.array([[5, 0, 1, 3]]), np.array([[1.0, 4.0, 9.0, 5.0]])).tolist()
    [[4, 3, 1, 2]]
    """
    out = np.empty(rho.shape, np.int64)
    for c, (ranks, clicks) in enumerate(zip(rho, np.broadcast_to(counts, rho.shape), strict=True)):
        old = np.flatnonzero(ranks > 0)
        new = np.flatnonzero(ranks == 0)
        key = np.empty(ranks.size)
        key[old[np.argsort(ranks[old])]] = np.arange(1.0, old.size + 1.0)
        more = old.size - np.searchsorted(np.sort(clicks[old]), clicks[new], side="right")
        key[new] = more + 0.5
        out[c, np.lexsort((-clicks, key))] = np.arange(1, ranks.size + 1)
    return out


def mixture_after(
    matrix: sparse.csr_array[Any], previous: Previous, chain: int, rank_scale: str | ArrayLike
) -> Mixture:
    """Return the mixture of a draw of the fit before, for these clicks.

    New items are placed by the clicks of all users, then, once their clusters are known, by those of each
    cluster.
    """
    draws, place = previous.draws, previous.place(chain)
    rho = np.where(previous.columns >= 0, draws.rho[place].astype(np.int64)[:, previous.columns], 0)
    tau = np.maximum(draws.tau[place], 1e-12)
    mixture = Mixture(place_new_items(rho, click_counts(matrix)), draws.alpha[place].copy(), tau / tau.sum())
    if (previous.columns >= 0).all():
        return mixture
    average_user = click_counts(matrix) / max(matrix.shape[0], 1)
    counts = click_counts(matrix, softmax(log_joint(matrix, mixture, rank_scale), axis=1)) + average_user
    return mixture._replace(rho=place_new_items(rho, counts))


STARTS = ("kmeans", "popularity", "random")

ALPHA_STEP = 0.1
# Rounds of EM after k-means; see `initial_state`.
EM_ROUNDS = 3


def initial_state(
    clicks: Any,
    n_clusters: int,
    start: str = "kmeans",
    *,
    em_rounds: int = EM_ROUNDS,
    seed: int = 0,
    chain: int = 0,
    rank_scale: str | ArrayLike = "linear",
) -> ChainState:
    """Start one chain. No cluster is empty, and every latent ranking agrees with the clicks.

    ``"random"`` is the random branch of the paper's Algorithm 1: labels uniform, alpha_c log-uniform on [1, 10],
    rho_c uniform over all rankings, latent ranks uniform among those that agree with the clicks. tau is drawn
    from the default prior.

    ``"popularity"`` is the start of the paper's section "MCMC set up and initialization": rho^0 by click counts;
    each latent ranking inherits the order of rho^0 among the clicked and among the unclicked items; labels and tau
    random; rho_c by the click counts of the cluster's users; alpha_c = 3. Ties are broken at random.

    ``"kmeans"`` takes labels from k-means, as the paper's discussion suggests, then

    * rho_c by the cluster's click counts, to which one average user's clicks are added, so that items without
      clicks in the cluster follow the overall order;
    * alpha_c by maximising the exact likelihood of the cluster's users (`fit_alpha`);
    * tau_c = (users in c + 1) / (users + clusters);
    * latent rankings that inherit the order of the user's rho_c.

    K-means sees the rows of the click matrix with item i weighed by 1 / sqrt(its clicks), scaled to length 1: a
    click on a rare item is more informative about taste, and the number of clicks is not. On the bundled data
    this gives starts of much higher likelihood than the plain binary rows.

    Then ``em_rounds`` rounds of EM: each user's probabilities of belonging to each cluster, from the exact
    likelihood; rho_c by click counts weighed with them; alpha_c and tau_c likewise. A round that does not raise
    the log-likelihood of the mixture is undone and ends it. At the end each user joins the likeliest cluster.

    Chains start apart: for the k-means start each takes its centres from its own random half of the users (or
    10 for each cluster, if that is more) and its own k-means++ seeds, and then assigns all users. With one cluster
    only the breaking of ties differs; ``"random"`` starts further apart.

    Parameters
    ----------
    clicks
        `Clicks`, or a dense or sparse matrix, users x items; non-zero is a click.
    n_clusters
        From 1 to the number of users.
    start
        One of `STARTS`.
    em_rounds
        Rounds of EM after k-means; 0 for none. The other starts have none.
    seed, chain
        The state is a function of both; the number of threads does not matter.
    rank_scale
        Spacing of the ranks, see `bmcd.mallows.rank_scale`. Other distances start from the fit of the footrule.

    Examples
    --------
    >>> clicks = np.array([[1, 1, 0, 0], [1, 1, 0, 0], [0, 0, 1, 1], [0, 0, 0, 1]])
    >>> state = initial_state(clicks, n_clusters=2, seed=1)
    >>> bool(state.labels[0] == state.labels[1] != state.labels[2] == state.labels[3])
    True
    >>> sorted(state.ranks[0, :2].tolist())
    [1, 2]
    """
    matrix = click_matrix(clicks).astype(np.bool_)
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(chain,)))
    if start == "kmeans":
        return _kmeans(matrix, n_clusters, rng, em_rounds, rank_scale)
    if start == "popularity":
        return _popularity(matrix, n_clusters, rng)
    if start == "random":
        return _random(matrix, n_clusters, rng)
    raise InputError(f"start is {start!r}: choose one of {', '.join(STARTS)}.")


def _random(matrix: sparse.csr_array[Any], n_clusters: int, rng: np.random.Generator) -> ChainState:
    n_users, n_items = matrix.shape
    rho = rng.permuted(np.tile(np.arange(1, n_items + 1), (n_clusters, 1)), axis=1)
    alpha = np.exp(rng.uniform(np.log(1.0), np.log(10.0), n_clusters))
    # Clicked items come first, in random order.
    order = np.argsort(rng.random((n_users, n_items)) - matrix.toarray(), axis=1)
    ranks = np.empty((n_users, n_items), np.int64)
    np.put_along_axis(ranks, order, np.arange(1, n_items + 1)[None], axis=1)
    return _state(Mixture(rho, alpha, _random_tau(n_clusters, rng)), _random_labels(matrix, n_clusters, rng), ranks)


def _popularity(matrix: sparse.csr_array[Any], n_clusters: int, rng: np.random.Generator) -> ChainState:
    overall = order_by(click_counts(matrix), rng)[0]
    labels = _random_labels(matrix, n_clusters, rng)
    rho = order_by(click_counts(matrix, _memberships(labels, n_clusters)), rng)
    mixture = Mixture(rho, np.full(n_clusters, FIRST_ALPHA), _random_tau(n_clusters, rng))
    return _state(mixture, labels, inherit_order(matrix.toarray(), overall))


def _kmeans(
    matrix: sparse.csr_array[Any],
    n_clusters: int,
    rng: np.random.Generator,
    em_rounds: int,
    rank_scale: str | ArrayLike,
) -> ChainState:
    labels = _nearest(-kmeans_distances(matrix, n_clusters, rng))
    mixture = fit_mixture(matrix, _memberships(labels, n_clusters), rng, rank_scale)
    if em_rounds and n_clusters > 1:
        mixture, log_p = run_em(matrix, mixture, em_rounds, rng, rank_scale)
        labels = _nearest(log_p)
    return _state_of(matrix, mixture, labels)


def state_after(
    clicks: Any, previous: Previous, *, seed: int = 0, chain: int = 0, rank_scale: str | ArrayLike = "linear"
) -> ChainState:
    """Start one chain at a draw of an earlier fit, then do rounds of EM as after k-means; see `initial_state`."""
    matrix = click_matrix(clicks).astype(np.bool_)
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(chain,)))
    mixture = mixture_after(matrix, previous, chain, rank_scale)
    mixture, log_p = run_em(matrix, mixture, EM_ROUNDS, rng, rank_scale)
    return _state_of(matrix, mixture, _nearest(log_p))


def _state_of(matrix: sparse.csr_array[Any], mixture: Mixture, labels: Integers) -> ChainState:
    """Return the state with these labels, and rankings in the order of their cluster's consensus."""
    clicked, ranks = matrix.toarray(), np.empty(matrix.shape, np.int64)
    for c in range(mixture.alpha.size):
        ranks[labels == c] = inherit_order(clicked[labels == c], mixture.rho[c])
    sizes = np.bincount(labels, minlength=mixture.alpha.size)
    return _state(mixture._replace(tau=shares(sizes)), labels, ranks)


def _state(mixture: Mixture, labels: Integers, ranks: Integers) -> ChainState:
    step = np.full(mixture.alpha.size, ALPHA_STEP)
    return ChainState(mixture.alpha, mixture.tau, mixture.rho, labels, ranks, step)


def _random_labels(matrix: sparse.csr_array[Any], n_clusters: int, rng: np.random.Generator) -> Integers:
    """Uniform labels, except that the first users of a random order go one to each cluster."""
    n_users = matrix.shape[0]
    labels = rng.integers(n_clusters, size=n_users)
    labels[rng.permutation(n_users)[:n_clusters]] = np.arange(n_clusters)
    return labels


def _random_tau(n_clusters: int, rng: np.random.Generator) -> Floats:
    return rng.dirichlet(np.full(n_clusters, Priors().concentration))


def _memberships(labels: Integers, n_clusters: int) -> Floats:
    """Users x clusters, 1 where the user belongs to the cluster."""
    return np.eye(n_clusters)[labels]


def _nearest(closeness: NDArray[Any]) -> Integers:
    """The closest cluster of each user, given users x clusters.

    Then each empty cluster gets the user who loses least by it, from a cluster with more than one.
    """
    labels: Integers = closeness.argmax(axis=1).astype(np.int64)
    users, counts = np.arange(labels.size), np.bincount(labels, minlength=closeness.shape[1])
    for c in np.flatnonzero(counts == 0):
        gain = closeness[:, c] - closeness[users, labels]
        user = np.where(counts[labels] > 1, gain, -np.inf).argmax()
        counts[labels[user]] -= 1
        counts[c] += 1
        labels[user] = c
    return labels
