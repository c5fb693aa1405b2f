"""From clicks to draws to probabilities: the parts put together."""

import re

import numpy as np
import pytest

import bmcd
from bmcd.errors import InputError, StoreError
from bmcd.inference.diagnostics import verdict
from bmcd.inference.mixture import Priors
from bmcd.inference.paper import log_z
from bmcd.inference.posterior import sample_posterior
from bmcd.inference.run import Run
from bmcd.mallows import estimation
from bmcd.models.bmcd_predictor import PreparedDraws

SHORT = {"draws": 4, "warmup": 3, "chains": 2, "seed": 3, "progress": False}
KEPT = ("alpha", "tau", "rho", "label_counts", "log_joint", "within_distance", "probe")


@pytest.fixture(scope="module")
def clicks():
    return bmcd.simulate(n_users=60, n_items=12, consensuses=2, mean_clicks=3, seed=1).clicks


def contents(draws):
    return [getattr(draws, name).tobytes() for name in KEPT]


def test_the_number_of_threads_changes_no_byte(clicks):
    one, two, eight = (sample_posterior(clicks, 2, Run(n_threads=threads, **SHORT)) for threads in (1, 2, 8))
    assert contents(one) == contents(two) == contents(eight)


@pytest.mark.parametrize("sampler", ["exact", "paper"])
def test_a_resumed_run_ends_as_if_never_stopped(clicks, sampler, tmp_path):
    options = {"sampler": sampler, "count_k": (2,)}
    never_stopped = sample_posterior(clicks, 2, Run(**SHORT), **options)
    file = tmp_path / "run.ckpt"
    sample_posterior(clicks, 2, Run(**SHORT | {"draws": 2}, checkpoint=file), **options)
    resumed = sample_posterior(clicks, 2, Run(**SHORT, checkpoint=file), **options)
    assert contents(resumed) == contents(never_stopped)
    assert resumed.tally.tobytes() == never_stopped.tally.tobytes()


def test_a_checkpoint_of_other_data_or_options_is_refused(clicks, tmp_path):
    file = tmp_path / "run.ckpt"
    sample_posterior(clicks, 2, Run(**SHORT, checkpoint=file))
    before = file.read_bytes()
    with pytest.raises(StoreError, match="data_hash"):
        sample_posterior(clicks.at_least(2), 2, Run(**SHORT, checkpoint=file))
    with pytest.raises(StoreError, match="rate"):
        sample_posterior(clicks, 2, Run(**SHORT, checkpoint=file), priors=Priors(rate=0.5))
    assert file.read_bytes() == before


def test_the_truth_is_found_on_the_papers_simulation():
    """Short chains from k-means reach the limit: within one point of it."""
    simulation = bmcd.simulate(n_users=1500, seed=5)
    draws = sample_posterior(simulation.clicks, 3, Run(draws=10, warmup=20, chains=2, progress=False))
    truth = simulation.next_items(5).matrix.toarray()

    def accuracy(probability):
        best = np.argsort(-probability, axis=1, kind="stable")[:, :5]
        return np.take_along_axis(truth, best, axis=1).mean()

    found = PreparedDraws(draws).predict(simulation.clicks.matrix, 5).probability
    assert accuracy(found) > accuracy(simulation.true_probabilities(5)) - 0.01
    assert np.abs(np.sort(draws.alpha.mean(axis=(0, 1))) - 3.0).max() < 0.6


def test_estimates_of_log_z_are_owned_up_to(monkeypatch):
    """Spearman on 21 items: log Z is estimated, and draws and verdict say how well; on 20 it is not."""
    monkeypatch.setattr(log_z, "KNOTS", 8)
    monkeypatch.setattr(estimation, "BUDGET", 1_000_000)
    log_z.make_table.cache_clear()
    clicks = bmcd.simulate(n_users=30, n_items=21, consensuses=2, mean_clicks=3, seed=1).clicks
    draws = sample_posterior(clicks, 2, Run(**SHORT | {"thin": 10}), distance="spearman", sampler="paper")
    found = re.search(
        r"estimated for 21 items, with a standard error of up to (\S+) .* off by up to (\S+) of", draws.caveat
    )
    assert 0 < float(found[1]) < 0.2
    assert 0 < float(found[2]) < 1
    assert verdict(draws).text.endswith(draws.caveat)
    log_z.make_table.cache_clear()
    assert sample_posterior(clicks, 2, Run(**SHORT), distance="kendall", sampler="paper").caveat == ""


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n_clusters": 0}, "between 1 and the number of users, 60"),
        ({"n_clusters": 61}, "61"),
        ({"sampler": "gibbs"}, "'exact', 'paper'"),
        ({"distance": "euclid"}, "footrule"),
        ({"distance": "kendall"}, "sampler='paper'"),
        ({"start": "cold"}, "kmeans"),
    ],
)
def test_models_that_are_refused(clicks, change, message):
    with pytest.raises(InputError, match=message):
        sample_posterior(clicks, run=Run(**SHORT), **{"n_clusters": 2} | change)


@pytest.mark.parametrize(("rate", "concentration"), [(-1.0, 1.0), (1.0, 0.0), (float("nan"), 1.0), ("a", 1.0)])
def test_wrong_priors_are_refused(rate, concentration):
    with pytest.raises(ValueError, match="must be a number above 0"):
        Priors(rate, concentration)
