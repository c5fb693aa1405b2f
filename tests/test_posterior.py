"""From clicks to draws to probabilities: the parts put together."""

import numpy as np
import pytest

import bmcd
from bmcd.mallows import log_likelihood, top_probabilities
from bmcd.posterior import posterior_probabilities, sample_posterior
from bmcd.priors import Priors
from bmcd.store import StoreError

SHORT = {"draws": 4, "warmup": 3, "chains": 2, "seed": 3, "progress": False}
KEPT = ("alpha", "tau", "rho", "label_counts", "log_joint", "within_distance", "probe")


@pytest.fixture(scope="module")
def clicks():
    return bmcd.simulate(n_users=60, n_items=12, consensuses=2, mean_clicks=3, seed=1).clicks


def contents(draws):
    return [getattr(draws, name).tobytes() for name in KEPT]


def test_the_number_of_threads_changes_no_byte(clicks):
    one, two, eight = (sample_posterior(clicks, 2, n_threads=threads, **SHORT) for threads in (1, 2, 8))
    assert contents(one) == contents(two) == contents(eight)
    p = posterior_probabilities(clicks, one, 3, n_threads=1)
    assert p.tobytes() == posterior_probabilities(clicks, one, 3, n_threads=2).tobytes()


@pytest.mark.parametrize("sampler", ["exact", "paper"])
def test_a_resumed_run_ends_as_if_never_stopped(clicks, sampler, tmp_path):
    options = SHORT | {"sampler": sampler, "count_k": (2,)}
    whole = sample_posterior(clicks, 2, **options)
    file = tmp_path / "run.ckpt"
    sample_posterior(clicks, 2, **options | {"draws": 2}, checkpoint=file)
    resumed = sample_posterior(clicks, 2, **options, checkpoint=file)
    assert contents(resumed) == contents(whole)
    assert resumed.tally.tobytes() == whole.tally.tobytes()


def test_a_checkpoint_of_other_data_or_options_is_refused(clicks, tmp_path):
    file = tmp_path / "run.ckpt"
    sample_posterior(clicks, 2, **SHORT, checkpoint=file)
    before = file.read_bytes()
    with pytest.raises(StoreError, match="data_hash"):
        sample_posterior(clicks.at_least(2), 2, **SHORT, checkpoint=file)
    with pytest.raises(StoreError, match="rate"):
        sample_posterior(clicks, 2, **SHORT, priors=Priors(rate=0.5), checkpoint=file)
    assert file.read_bytes() == before


@pytest.mark.parametrize("scale", ["linear", "sqrt"])
def test_probabilities_are_the_average_over_draws(clicks, scale):
    draws = sample_posterior(clicks, 3, rank_scale=scale, **SHORT)
    k = 4
    expected = np.zeros((2, clicks.n_users, clicks.n_items))
    for chain in range(2):
        for draw in range(draws.n_draws):
            rho, alpha = draws.rho[chain, draw].astype(int), draws.alpha[chain, draw]
            weight = np.exp(log_likelihood(clicks, rho, alpha, rank_scale=scale)) * draws.tau[chain, draw]
            weight /= weight.sum(axis=1, keepdims=True)
            top = top_probabilities(clicks, rho, alpha, k, rank_scale=scale)
            expected[chain] += np.einsum("jic,jc->ji", top, weight) / draws.n_draws
    found = posterior_probabilities(clicks, draws, k)
    # Clusters below 1e-7 are left out: three of them cannot change more than 3e-7.
    np.testing.assert_allclose(found, expected, atol=3e-7)
    np.testing.assert_allclose(found.sum(axis=2), k, atol=1e-9)
    assert posterior_probabilities(clicks, draws, k, max_draws=2).shape == found.shape


def test_probabilities_can_be_asked_for_other_people(clicks):
    draws = sample_posterior(clicks, 2, **SHORT)
    strangers = bmcd.Clicks.from_matrix(np.eye(12)[:3])
    assert posterior_probabilities(strangers, draws, 5).shape == (2, 3, 12)


def test_the_truth_is_found_on_the_papers_simulation():
    """Short chains from k-means reach the limit: within one point of it."""
    simulation = bmcd.simulate(n_users=1500, seed=5)
    draws = sample_posterior(simulation.clicks, 3, draws=10, warmup=20, chains=2, progress=False)
    truth = simulation.next_items(5).matrix.toarray()

    def accuracy(probability):
        best = np.argsort(-probability, axis=1, kind="stable")[:, :5]
        return np.take_along_axis(truth, best, axis=1).mean()

    found = posterior_probabilities(simulation.clicks, draws, 5).mean(axis=0)
    assert accuracy(found) > accuracy(simulation.true_probabilities(5)) - 0.01
    assert np.abs(np.sort(draws.alpha.mean(axis=(0, 1))) - 3.0).max() < 0.6


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n_clusters": 0}, "between 1 and the number of users, 60"),
        ({"n_clusters": 61}, "61"),
        ({"sampler": "gibbs"}, "'exact', 'paper'"),
        ({"distance": "euclid"}, "footrule"),
        ({"distance": "kendall"}, "sampler='paper'"),
        ({"start": "cold"}, "kmeans"),
        ({"draws": 0}, "draws"),
        ({"warmup": -1}, "warmup"),
        ({"max_time": 0.0}, "max_time"),
    ],
)
def test_refusals(clicks, change, message):
    with pytest.raises(ValueError, match=message):
        sample_posterior(clicks, **{"n_clusters": 2} | SHORT | change)


@pytest.mark.parametrize(("rate", "concentration"), [(-1.0, 1.0), (1.0, 0.0), (float("nan"), 1.0), ("a", 1.0)])
def test_wrong_priors_are_refused(rate, concentration):
    with pytest.raises(ValueError, match="positive number"):
        Priors(rate, concentration)


def test_wrong_questions_to_the_draws_are_refused(clicks):
    draws = sample_posterior(clicks, 2, **SHORT)
    with pytest.raises(ValueError, match="12 items, but the clicks are on 3"):
        posterior_probabilities(bmcd.Clicks.from_matrix(np.eye(3)), draws, 2)
    with pytest.raises(ValueError, match="k must be"):
        posterior_probabilities(clicks, draws, 0)
    counted = sample_posterior(clicks, 2, **SHORT, distance="kendall", sampler="paper", count_k=(2,))
    assert counted.tally.shape == (2, 1, 60, 12)
    with pytest.raises(ValueError, match="count_k"):
        posterior_probabilities(clicks, counted, 2)
