"""The exact sampler against posteriors summed up in full: C = 1, 2, 3, unequal clusters, odd users, rank scales."""

import numpy as np
import pytest
from scipy import sparse
from tests.reference.mixture import exact_posterior

from bmcd.inference.bmcd.sampler import Effort, ExactSampler
from bmcd.inference.mixture import ChainState, Priors, make_data

PROBLEMS = {
    "two unequal clusters": (
        [[1, 1, 0, 0], [1, 0, 0, 0], [1, 1, 0, 0], [0, 0, 0, 1]],
        2,
        Priors(0.3, 0.7),
        "linear",
    ),
    "one cluster": ([[1, 0, 0, 0], [1, 0, 1, 0], [0, 1, 1, 1]], 1, Priors(0.2, 1.0), "log"),
    "nothing and everything clicked": ([[1, 0, 0], [0, 0, 0], [1, 1, 1], [0, 1, 0]], 2, Priors(0.5, 2.0), "sqrt"),
    "more clusters than tastes": ([[1, 0, 0], [1, 0, 0], [0, 1, 1]], 3, Priors(0.4, 0.5), "linear"),
}
K = 1


def first_state(clicks, n_clusters):
    n_users, n = clicks.shape
    order = np.argsort(~clicks, axis=1, kind="stable")
    return ChainState(
        alpha=np.full(n_clusters, 2.0),
        tau=np.full(n_clusters, 1 / n_clusters),
        rho=np.tile(np.arange(1, n + 1), (n_clusters, 1)),
        labels=np.zeros(n_users, np.int64),
        ranks=np.argsort(order, axis=1) + 1,
        alpha_step=np.full(n_clusters, 1.0),
    )


def run(clicks, n_clusters, priors, scale, seed, sweeps, batches):
    """Means of label-free quantities over batches of sweeps: [batch, quantity]."""
    sampler = ExactSampler(
        make_data(sparse.csr_array(clicks), scale), n_clusters, priors, seed=seed, effort=Effort(1, 1, 1, 1)
    )
    state = first_state(clicks, n_clusters)
    pairs = np.triu_indices(len(clicks), 1)
    limit = clicks.sum(axis=1)[:, None] + K
    out = []
    for sweep in range(sweeps):
        sampler.sweep(state, 0, sweep, warmup=sweep < 500)
        together = (state.labels[:, None] == state.labels)[pairs]
        largest = np.bincount(state.labels).max()
        quantities = [together, (state.ranks <= limit).ravel(), [state.alpha.sum(), largest]]
        out.append(np.concatenate(quantities))
    kept = np.array(out[500:])
    return kept[: len(kept) // batches * batches].reshape(batches, -1, kept.shape[1]).mean(axis=1)


@pytest.mark.chance(1e-4)
@pytest.mark.parametrize("name", PROBLEMS)
def test_every_probability(name, rotating_seed, deep, times):
    """Within 5 Monte Carlo standard errors from 400 batches: 70 comparisons, false alarm 5e-5 in all."""
    given, n_clusters, priors, scale = PROBLEMS[name]
    clicks = np.array(given, bool)
    exact = exact_posterior(clicks, n_clusters, priors, K, rank_scale=scale)
    batches = run(
        clicks, n_clusters, priors, scale, rotating_seed, 500 + times * (2_000_000 if deep else 90_000), 400
    )
    mean, error = batches.mean(axis=0), batches.std(axis=0, ddof=1) / np.sqrt(len(batches))
    expected = np.concatenate(
        [
            exact.together[np.triu_indices(len(clicks), 1)],
            exact.top.ravel(),
            [exact.total_alpha, exact.largest @ np.arange(exact.largest.size)],
        ]
    )
    probabilities = slice(0, expected.size - 2)
    assert error[probabilities].max() < 0.005
    # 1e-6 for what is certain, which has no error of its own, and for the quadrature.
    assert (np.abs(mean - expected) < 5 * error + 1e-6).all(), np.c_[mean, expected, error]


def test_without_clicks_the_posterior_is_the_prior():
    """The oracle itself: labels follow the Dirichlet-multinomial law, everything is equally likely."""
    psi, rate = 0.8, 0.5
    exact = exact_posterior(np.zeros((2, 3), bool), 2, Priors(rate, psi), 1)
    assert exact.together[0, 1] == pytest.approx((psi + 1) / (2 * psi + 1), rel=1e-9)
    np.testing.assert_allclose(exact.top, 1 / 3, rtol=1e-9)
    assert exact.total_alpha == pytest.approx(2 / rate, rel=1e-3)


def test_probabilities_of_the_oracle_sum_to_k():
    clicks = np.array(PROBLEMS["two unequal clusters"][0], bool)
    exact = exact_posterior(clicks, 2, Priors(0.3, 0.7), 2)
    np.testing.assert_allclose((exact.top * ~clicks).sum(axis=1), 2.0)
