"""Chains that see a random sample of the users each, and how large it must be."""

from itertools import pairwise

import numpy as np
import pytest

import bmcd
from bmcd.errors import ConvergenceWarning, InputError, StoreError
from bmcd.inference.run import Run, users_of_chain
from bmcd.inference.tastes.draws import sample_tastes
from bmcd.models import shared_fit

SHORT = {"draws": 4, "warmup": 6, "chains": 3}


@pytest.fixture(scope="module")
def clicks():
    return bmcd.simulate_tastes(400, 30, n_tastes=4, mean_clicks=6, seed=1).clicks


MODELS = [bmcd.Tastes(4), bmcd.BMCD(2)]


@pytest.mark.chance(1e-5)
def test_samples_follow_from_seed_and_chain_and_are_random(rotating_seed):
    one, again, other, seed = (
        users_of_chain(s, chain, 1000, 200)
        for s, chain in [(rotating_seed, 0)] * 2 + [(rotating_seed, 1), (rotating_seed + 1, 0)]
    )
    assert (one == again).all()
    assert one.size == np.unique(one).size == 200
    assert (np.diff(one) > 0).all()
    for different in (other, seed):
        # Hypergeometric: mean 40, standard deviation 5.1; eight of them are a false alarm in 10^15 runs.
        assert 0 < np.intersect1d(one, different).size < 81
    counts = np.bincount(
        np.concatenate([users_of_chain(rotating_seed, c, 50, 10) for c in range(500)]), minlength=50
    )
    # Each user is in a fifth of the samples: standard deviation 8.9, six of them among 50 numbers.
    assert np.abs(counts - 100).max() < 54


@pytest.mark.parametrize("model", MODELS, ids=repr)
def test_a_sample_of_all_users_changes_nothing(clicks, model):
    some, every = (type(model)(4).fit(clicks, **SHORT, max_users=size) for size in (10_000, None))
    np.testing.assert_array_equal(some.draws_.rho, every.draws_.rho)
    assert some.sample_ is None
    assert "a chain" not in repr(some)


@pytest.mark.parametrize("model", MODELS, ids=repr)
def test_chains_see_their_own_users_and_everybody_is_served(clicks, model, tmp_path):
    fitted = type(model)(2).fit(clicks, **SHORT, max_users=100, seed=5, n_threads=1)
    threads = type(model)(2).fit(clicks, **SHORT, max_users=100, seed=5, n_threads=2)
    np.testing.assert_array_equal(fitted.draws_.rho, threads.draws_.rho)
    assert "fitted to 400 users (100 a chain) x 30 items" in repr(fitted)
    assert "given 100 of 400 users, as asked for" in str(fitted.sample_)
    assert set(fitted.recommend(k=3)["user"]) == set(clicks.users.tolist())
    lists = [clicks.items[clicks.matrix[[row]].indices].tolist() for row in (3, 200)]
    new_users, known = fitted.recommend_for(lists, k=4), fitted.recommend(k=4, users=clicks.users[[3, 200]])
    assert new_users["probability"].tolist() == known["probability"].tolist()
    assert new_users["item"].tolist() == known["item"].tolist()
    fitted.save(tmp_path / "model.bmcd")
    again = bmcd.load(tmp_path / "model.bmcd")
    assert "fitted to 400 users (100 a chain) x 30 items" in repr(again)
    assert again.sample_.max_users == 100
    assert sum(c.n_users for c in fitted.clusters_) == pytest.approx(400)
    # Without samples it is another fit.
    assert (fitted.draws_.rho != type(model)(2).fit(clicks, **SHORT, seed=5).draws_.rho).any()


def test_a_chain_is_the_fit_to_its_users_alone(clicks):
    run = Run(**SHORT, seed=7, n_threads=1)
    sampled = sample_tastes(clicks, 3, run, aside=False, max_users=150)
    for chain in range(3):
        own = clicks.of_users(users_of_chain(7, chain, 400, 150))
        alone = sample_tastes(own, 3, Run(4, 6, chain + 1, seed=7), aside=False)
        np.testing.assert_array_equal(alone.rho[chain], sampled.rho[chain])
        np.testing.assert_array_equal(alone.log_joint[chain], sampled.log_joint[chain])


def test_a_chain_does_not_depend_on_the_number_of_chains(clicks):
    together = sample_tastes(clicks, 3, Run(**SHORT, seed=2, n_threads=1))
    for n_chains in (1, 2):
        fewer = sample_tastes(clicks, 3, Run(4, 6, n_chains, seed=2))
        np.testing.assert_array_equal(fewer.rho, together.rho[:n_chains])
        np.testing.assert_array_equal(fewer.probe, together.probe[:n_chains])


@pytest.mark.parametrize("model", MODELS, ids=repr)
def test_auto_doubles_until_it_gains_less_than_a_standard_error(clicks, model, monkeypatch, tmp_path):
    monkeypatch.setattr(shared_fit, "FIRST", 20)
    fitted = type(model)(2).fit(clicks, **SHORT, max_users="auto", seed=3)
    found = fitted.sample_
    table = found.table
    sizes = table["n_users"].tolist()
    assert sizes[0] == 20
    assert all(two in (2 * one, 320) for one, two in pairwise(sizes))
    gained = (table["gain"] >= table["gain_se"]).tolist()
    assert all(gained[1:-1])
    assert not gained[-1] or sizes[-1] == 320
    np.testing.assert_allclose(np.diff(table["log_probability"]), table["gain"][1:])
    assert found.max_users == (sizes[-1] if sizes[-1] < 320 else 400)
    assert f"({found.max_users:,} a chain, chosen)" in repr(fitted)
    fitted.save(tmp_path / "model.bmcd")
    assert str(bmcd.load(tmp_path / "model.bmcd").sample_) == str(found)
    assert str(found) == str(type(model)(2).fit(clicks, **SHORT, max_users="auto", seed=3).sample_)


@pytest.mark.chance(0)
def test_auto_scores_users_whom_no_chain_sees_by_the_mean_of_probabilities(clicks, rotating_seed):
    judges, pairs, others = shared_fit._set_apart(clicks, rotating_seed)
    assert not set(judges.users.tolist()) & set(others.users.tolist())
    assert judges.n_users + others.n_users == clicks.n_users
    for row, item in pairs.tolist():
        place = int(clicks.rows_of([judges.users[row]])[0])
        assert clicks.matrix[place, item]
        assert not judges.matrix[row, item]
        assert clicks.per_user[place] == judges.per_user[row] + 1
    fitted = bmcd.Tastes(3).fit(others, **SHORT)
    law, _ = fitted.law_of_next_click(judges)
    want = np.log(law[np.arange(len(pairs)), pairs[:, 1]])
    np.testing.assert_array_equal(shared_fit._log_probabilities(fitted._answers, judges, pairs, 1), want)


def test_the_number_of_tastes_is_chosen_on_a_sample_too(clicks):
    assert shared_fit.some_users(clicks, 50, 1).n_users == 50
    assert shared_fit.some_users(clicks, None, 1) is clicks
    assert shared_fit.some_users(clicks, "auto", 1) is clicks  # there are fewer than CHOOSING


def test_the_verdict_judges_every_chain_by_itself(clicks):
    with pytest.warns(ConvergenceWarning):
        fitted = bmcd.BMCD(2).fit(clicks, draws=6, warmup=2, chains=3, max_users=60)
    assert (
        "Every chain has its own sample of users and is assessed by itself: this is chain" in fitted.verdict_.text
    )
    assert "Run at least 2 chains" not in " ".join(fitted.verdict_.advice)


def test_checkpoints_know_the_samples(clicks, tmp_path):
    want = bmcd.Tastes(3).fit(clicks, **SHORT, max_users=50).draws_
    stopped = {**SHORT, "draws": 2}
    bmcd.Tastes(3).fit(clicks, **stopped, max_users=50, checkpoint=tmp_path / "a")
    again = bmcd.Tastes(3).fit(clicks, **SHORT, max_users=50, checkpoint=tmp_path / "a").draws_
    np.testing.assert_array_equal(want.rho, again.rho)
    with pytest.raises(StoreError, match="max_users is 50 there and 'nothing' here"):
        bmcd.Tastes(3).fit(clicks, **SHORT, checkpoint=tmp_path / "a")


@pytest.mark.parametrize(
    ("model", "size", "message"),
    [
        (bmcd.Tastes(3), 0, "max_users must be a whole number, 1 or more, 'auto' or None, but it is 0"),
        (bmcd.Tastes(3), "some", "but it is 'some'"),
        (bmcd.BMCD(5), 3, "max_users.* is 3, fewer than the 5 clusters"),
        (bmcd.BMCD(3, distance="kendall", sampler="paper"), 50, "max_users is for the footrule"),
    ],
)
def test_wrong_sizes_are_named(clicks, model, size, message):
    with pytest.raises(InputError, match=message):
        model.fit(clicks, **SHORT, max_users=size)


def test_auto_needs_users_to_judge_by():
    tiny = bmcd.Clicks.from_matrix(np.eye(6)[:, :4] + np.eye(6)[:, 2:])
    with pytest.raises(InputError, match="too few to find out how many each chain needs"):
        bmcd.Tastes(2).fit(tiny, **SHORT, max_users="auto")
