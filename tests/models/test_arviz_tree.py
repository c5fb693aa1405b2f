"""The draws in ArviZ's container: clusters matched, likelihoods exact, predicted clicks like those seen."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import logsumexp

import bmcd
from bmcd.inference.bmcd.next_items import replicated_counts
from bmcd.mallows.latent.scan import shared_tables
from bmcd.models.shared_fit import Fit
from bmcd.rng import stream_key

pytest.importorskip("arviz_base")
UP = np.arange(1, 13)


@pytest.fixture(scope="module")
def model():
    clicks = bmcd.simulate(90, 12, consensuses=[UP, UP[::-1]], alpha=6.0, mean_clicks=4.0, seed=3).clicks
    return bmcd.BMCD(2).fit(clicks, draws=30, warmup=20, chains=3, seed=1, progress=False)


@pytest.fixture(scope="module")
def tree(model):
    return model.to_arviz(progress=False)


def test_clusters_are_matched_between_draws_and_chains(model, tree):
    """Clusters that are renumbered at random in every draw change nothing; R-hat sees chains that agree."""
    draws, rng = model.draws_, np.random.default_rng(1)
    order = np.argsort(rng.random(draws.alpha.shape), axis=2)
    mixed = {n: np.take_along_axis(getattr(draws, n), order, axis=2) for n in ("alpha", "tau", "label_counts")}
    mixed["rho"] = np.take_along_axis(draws.rho, order[..., None], axis=2)
    other = bmcd.BMCD(2)
    other._learn(Fit(model.clicks_, replace(draws, **mixed), None, None, {}))
    mixed_tree = other.to_arviz(progress=False)
    for name in ("alpha", "tau", "rho", "membership"):
        np.testing.assert_allclose(mixed_tree["posterior"][name].values, tree["posterior"][name].values, rtol=1e-6)
    assert tree["posterior"]["cluster"].values.tolist() == [c.cluster for c in model.clusters_]
    np.testing.assert_allclose(
        tree["posterior"]["alpha"].mean(("chain", "draw")), [c.alpha for c in model.clusters_]
    )
    from arviz_stats.base import array_stats

    for c in range(2):
        values = tree["posterior"]["alpha"].values[:, :, c]
        assert array_stats.rhat(values, chain_axis=0, draw_axis=1, method="rank") < 1.2


def test_log_likelihood_and_memberships_are_the_exact_sums(model, tree):
    posterior, place = tree["posterior"], {"chain": 2, "draw": 17}
    at = {name: posterior[name].isel(place).values for name in ("rho", "alpha", "tau")}
    joint = bmcd.mallows.log_likelihood(model.clicks_.matrix, at["rho"], at["alpha"]) + np.log(at["tau"])
    want = logsumexp(joint, axis=1)
    np.testing.assert_allclose(tree["log_likelihood"]["clicks"].isel(place), want, rtol=1e-9)
    np.testing.assert_allclose(posterior["membership"].isel(place), np.exp(joint - want[:, None]), atol=1e-6)


def test_observed_and_predicted_clicks(model, tree):
    clicks = model.clicks_
    np.testing.assert_array_equal(tree["observed_data"]["clicks"], clicks.matrix.toarray())
    predicted = tree["posterior_predictive"]["clicks_per_item"]
    assert (predicted.sum("item") == clicks.n_clicks).all()
    low, high = np.percentile(predicted.values.reshape(-1, 12), (0.5, 99.5), axis=0)
    assert ((low <= clicks.per_item) & (clicks.per_item <= high)).mean() > 0.8
    again = model.to_arviz(n_threads=1, progress=False)["posterior_predictive"]["clicks_per_item"]
    np.testing.assert_array_equal(again, predicted)


def test_replicates_follow_the_law_of_the_model():
    """Against the exact probability that an item is among the first c of a ranking from the cluster."""
    n, n_users, n_draws = 9, 400, 60
    rng = np.random.default_rng(5)
    rho = np.stack([rng.permutation(n) + 1, rng.permutation(n) + 1])
    alpha, weight = np.array([2.0, 5.0]), np.tile([0.3, 0.7], (n_users, 1))
    n_clicked = np.full(n_users, 3)
    counts = np.zeros((n_draws, n), np.int64)
    for draw in range(n_draws):
        replicated_counts(
            n_clicked, rho, alpha, shared_tables(np.ones(n - 1)), weight, stream_key(4), 0, draw, counts[draw]
        )
    nobody = np.zeros((1, n))
    top = [bmcd.mallows.top_probabilities(nobody, rho[c], alpha[c], 3)[0].ravel() for c in range(2)]
    want = 0.3 * top[0] + 0.7 * top[1]
    error = np.sqrt(want * (1 - want) / (n_users * n_draws))
    assert (np.abs(counts.mean(axis=0) / n_users - want) < 4.5 * error).all()


def test_fewer_draws_and_no_users(model):
    tree = model.to_arviz(users=False, max_draws=12, progress=False)
    assert tree["posterior"]["alpha"].shape == (3, 4, 2)
    assert set(tree.children if hasattr(tree, "children") else tree.groups()) == {
        "posterior",
        "sample_stats",
        "warmup_sample_stats",
    }
    with pytest.raises(ValueError, match="at least one of each of 3 chains"):
        model.to_arviz(max_draws=2)


def test_a_distance_without_exact_sums_has_what_was_observed(model):
    clicks = model.clicks_
    kendall = bmcd.BMCD(2, distance="kendall", sampler="paper").fit(
        clicks, draws=4, warmup=4, chains=2, progress=False
    )
    tree = kendall.to_arviz()
    assert "observed_data" in tree
    assert "log_likelihood" not in tree


@pytest.mark.slow
def test_tastes_are_matched_with_those_people_see(model):
    tastes = bmcd.Tastes(2, chains=3).fit(model.clicks_, draws=4, warmup=30, seed=1, progress=False)
    tree = tastes.to_arviz()
    rank = tree["posterior"]["rho"].mean("draw").values
    for c, summary in enumerate(tastes.clusters_):
        best = [summary.top[place].item for place in range(3)]
        columns = tastes.clicks_.columns_of(best, "")
        assert (rank[:, c][:, columns] < 7).all()  # in every chain, not only in the one that is shown
    predicted = tree["posterior_predictive"]["clicks_per_item"].values.mean(axis=(0, 1))
    assert np.corrcoef(predicted, tastes.clicks_.per_item)[0, 1] > 0.7
