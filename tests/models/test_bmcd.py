"""The estimator as people use it."""

from itertools import pairwise

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import bmcd
from bmcd.errors import FitWarning
from bmcd.mallows import log_likelihood, top_probabilities
from bmcd.models.shared_fit import Fit
from bmcd.models.top_k import TIE, best_items
from bmcd.testing import check_recommender, example_clicks

SHORT = {"draws": 10, "warmup": 10, "chains": 2, "seed": 1}


@pytest.fixture(scope="module")
def clicks():
    return example_clicks()


@pytest.fixture(scope="module")
def model(clicks):
    return bmcd.BMCD(2).fit(clicks, **SHORT)


@pytest.mark.parametrize(
    ("options", "fit"),
    [
        ({}, {}),
        ({"rank_scale": "sqrt"}, {}),
        ({"distance": "kendall", "sampler": "paper"}, {"count_k": [4]}),
    ],
)
def test_the_contract(options, fit):
    # Only the footrule can serve users it was not fitted to.
    footrule = options.get("distance", "footrule") == "footrule"
    check_recommender(lambda: bmcd.BMCD(2, **options), fit=SHORT | fit, histories=footrule)


def test_the_contract_on_an_ordered_log():
    check_recommender(lambda: bmcd.BMCD(2), fit=SHORT, clicks=example_clicks(ordered=True))


def test_scikit_learns_habits(model, clicks):
    new = clone(model)
    assert not hasattr(new, "draws_")
    assert repr(new) == "BMCD(n_clusters=2)"
    assert repr(model) == "BMCD(n_clusters=2), fitted to 60 users x 12 items: 2 chains x 10 draws, not converged"
    assert new.set_params(n_clusters=3, start="random").get_params()["n_clusters"] == 3
    assert "n_clusters=3, start='random'" in repr(new)
    for question in ("recommend", "probabilities", "diagnostics", "to_arviz"):
        with pytest.raises(NotFittedError, match="call fit"):
            getattr(new, question)()
    with pytest.raises(NotFittedError):
        _ = new.clusters_


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_frames_come_back_in_the_callers_library(clicks, library):
    frame = clicks.to_frame(library)
    kind = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "pyarrow": pa.Table}[library]
    model = bmcd.BMCD(2).fit(frame, draws=4, warmup=2, chains=2)
    found = model.recommend(k=3)
    assert isinstance(found, kind)
    assert isinstance(model.recommend_for([[clicks.items[0]]], k=2), kind)
    assert isinstance(model.clusters_.to_frame(), kind)
    none = model.recommend(k=3, min_probability=1.0, users=[clicks.users[2]])
    assert isinstance(none, kind)
    assert len(none) == 0
    if library == "polars":
        assert none.schema == found.schema


def test_any_k_without_fitting_again(model):
    before = np.zeros(1)
    left = 12 - np.diff(model.clicks_.matrix.indptr)
    for k in (1, 2, 5, 12, 40):
        found = model.probabilities(k)
        np.testing.assert_allclose(found.sum(axis=1), np.minimum(k, left), atol=1e-9)
        assert (found >= before - 1e-12).all()
        before = found
    assert (found[model.clicks_.matrix.toarray()] == 0).all()
    blocks = list(model.probability_blocks(5, users=model.clicks_.users[[3, 1]]))
    assert np.concatenate([ids for ids, _ in blocks]).tolist() == model.clicks_.users[[3, 1]].tolist()
    np.testing.assert_array_equal(blocks[0][1], model.probabilities(5)[[3, 1]])


def test_the_cutoff_and_the_allow_list(model, clicks):
    everything = model.recommend(k=4)
    some = model.recommend(k=4, min_probability=0.4)
    pd.testing.assert_frame_equal(
        some.reset_index(drop=True), everything[everything.probability >= 0.4].reset_index(drop=True)
    )
    allowed = clicks.items[:5].tolist()
    limited = model.recommend(k=4, items=allowed)
    assert set(limited["item"]) <= set(allowed)
    both = everything.merge(limited, on=["user", "item"])
    np.testing.assert_array_equal(both["probability_x"], both["probability_y"])
    for wrong in (-0.1, 1.5):
        with pytest.raises(ValueError, match="between 0 and 1"):
            model.recommend(min_probability=wrong)


def test_ties_go_by_the_consensus_then_by_id():
    """Items within 1e-6 of the best of them are a tie; neither the order of columns nor float noise decides."""
    score = np.array([[0.3, 0.3 + 4e-7, 0.3 - 4e-7, 0.5, 0.3 - 2e-6, 0.1]])
    second = np.array([[5.0, 9.0, 2.0, 8.0, 1.0, 0.0]])
    everything = np.ones(score.shape, bool)
    order = np.arange(6)
    assert best_items(score, everything, 6, order, second)[0].tolist() == [3, 2, 0, 1, 4, 5]
    assert best_items(score, everything, 6, order)[0].tolist() == [3, 0, 1, 2, 4, 5]
    assert best_items(score, everything, 6, order[::-1])[0].tolist() == [3, 2, 1, 0, 4, 5]
    everything[0, 3] = False
    assert best_items(score, everything, 6, order, second)[0].tolist() == [2, 0, 1, 4, 5, -1]
    rng = np.random.default_rng(0)
    score = rng.integers(0, 4, (50, 9)) / 4 + rng.uniform(-TIE / 3, TIE / 3, (50, 9))
    second = rng.integers(0, 3, (50, 9)).astype(float)
    best = best_items(score, np.ones(score.shape, bool), 9, np.arange(9), second)
    shuffled = rng.permutation(9)
    other = best_items(score[:, shuffled], np.ones(score.shape, bool), 9, shuffled, second[:, shuffled])
    np.testing.assert_array_equal(shuffled[other], best)


def test_ties_of_the_model_are_broken_by_the_consensus(model, clicks):
    """A user with many clicks has exchangeable items: equal probabilities, listed by mean consensus rank."""
    predictor = model._answers.predictor(None)
    people = clicks.matrix[np.diff(clicks.matrix.indptr) >= 6]
    found = predictor.predict(people, 3)
    lists = best_items(found.probability, ~people.toarray(), 3, np.arange(12), found.tie_breaker)
    ties = 0
    for user, items in enumerate(lists):
        for one, two in pairwise(items):
            if two >= 0 and abs(found.probability[user, one] - found.probability[user, two]) <= TIE / 3:
                ties += 1
                assert found.tie_breaker[user, one] <= found.tie_breaker[user, two]
    assert ties > 0


def test_new_people_get_what_their_clicks_say(model, clicks):
    user = clicks.users[5]
    history = clicks.items[clicks.matrix[[5]].indices].tolist()
    known = model.recommend(k=3, users=[user]).drop(columns="user")
    for histories in ([history], [history[::-1] + history[:1]], {"someone": history}):
        found = model.recommend_for(histories, k=3)
        pd.testing.assert_frame_equal(found.drop(columns="user"), known, check_exact=True)
    whole = model.recommend_for(clicks, k=3)
    pd.testing.assert_frame_equal(whole, model.recommend(k=3), check_exact=True)
    frame = pd.DataFrame({"user": ["x"] * len(history), "item": history})
    assert model.recommend_for(frame, k=3)["item"].tolist() == known["item"].tolist()
    nobody = model.recommend_for([[]], k=12)
    assert nobody["item"].nunique() == 12
    assert nobody["probability"].is_monotonic_decreasing
    assert len(model.recommend_for([])) == 0
    assert len(model.recommend_for([clicks.items.tolist()])) == 0  # everything clicked: nothing left


def test_unknown_items_in_a_history(model, clicks):
    first = clicks.items[0]
    with pytest.raises(ValueError, match=r"2 items that the model does not know: 'new', 'newer'\. .* 'i05'"):
        model.recommend_for([[first, "new"], ["newer", "new"]])
    found = model.recommend_for([[first, "new"]], unknown="ignore", k=3)
    pd.testing.assert_frame_equal(found, model.recommend_for([[first]], k=3))
    with pytest.raises(TypeError, match=r"One person is \[\[...\]\]"):
        model.recommend_for([first])
    with pytest.raises(ValueError, match="'error' or 'ignore'"):
        model.recommend_for([[first]], unknown="drop")


def test_unknown_users_and_items_are_named(model):
    with pytest.raises(KeyError, match=r"1 of 2 users are not known: 'nobody'\..*recommend_for"):
        model.recommend(users=["u000", "nobody"])
    with pytest.raises(TypeError, match="list of ids"):
        model.recommend(users="u000")
    with pytest.raises(ValueError, match="k must be a whole number"):
        model.recommend(k=2.5)


def test_a_new_user_differs_by_no_more_than_the_users_own_influence():
    """A fit without a user, weighted by how likely each draw makes the user's clicks, is a fit with the user.

    That weight is the user's whole influence. Two fits of 8 chains; the standard errors are between chains, so each
    difference is a t of about 14 degrees of freedom: |t| < 8 has a false alarm below 1e-5 for the 8 items.
    """
    clicks = bmcd.simulate(n_users=41, n_items=8, consensuses=2, alpha=4, mean_clicks=2, seed=3).clicks
    user, k = 40, 2
    others = bmcd.Clicks.from_matrix(clicks.matrix[:user])
    run = {"draws": 400, "warmup": 50, "chains": 8, "seed": 5}
    whole = bmcd.BMCD(2).fit(clicks, **run)
    without = bmcd.BMCD(2).fit(others, **run | {"seed": 6})

    alone = clicks.matrix[[user]]

    def by_draw(draws):
        rho, alpha = draws.rho.reshape(-1, 8).astype(int), draws.alpha.reshape(-1)
        weight = np.exp(log_likelihood(alone, rho, alpha)[0]) * draws.tau.reshape(-1)
        top = top_probabilities(alone, rho, alpha, k)[0].T
        shape = (8, draws.n_draws, 2)
        given = (weight[:, None] * top).reshape(*shape, 8).sum(axis=2)
        likely = weight.reshape(shape).sum(axis=2)
        return given / likely[:, :, None], likely

    fitted, _ = by_draw(whole.draws_)
    np.testing.assert_allclose(whole.probabilities(k, max_draws=None)[user], fitted.mean(axis=(0, 1)), atol=3e-5)
    folded, likely = by_draw(without.draws_)
    np.testing.assert_allclose(
        without._answers.predictor(None).predict(alone, k).probability[0], folded.mean(axis=(0, 1)), atol=3e-5
    )
    weighted = (likely[:, :, None] * folded).sum(axis=1) / likely.sum(axis=1)[:, None]
    left = ~alone.toarray()[0]
    difference = (weighted.mean(axis=0) - fitted.mean(axis=(0, 1)))[left]
    error = np.sqrt((weighted.var(axis=0, ddof=1) + fitted.mean(axis=1).var(axis=0, ddof=1)) / 8)[left]
    assert (np.abs(difference) < 8 * error).all(), difference / error


def test_explanations_add_up(model, clicks):
    row = model.recommend(k=4, users=[clicks.users[2]]).iloc[1]
    found = model.explain(row["user"], row["item"], k=4)
    assert found.probability == pytest.approx(row["probability"], abs=1e-9)
    assert found.mcse == pytest.approx(row["mcse"], abs=1e-9)
    assert sum(c.contribution for c in found.clusters) == pytest.approx(found.probability, abs=1e-9)
    assert sum(c.membership for c in found.clusters) == pytest.approx(1.0)
    assert all(c.rank_interval[0] <= c.rank <= c.rank_interval[1] for c in found.clusters)
    assert f"Item {row['item']} is among the next 4 of user {row['user']}" in str(found)
    history = clicks.items[clicks.matrix[[2]].indices]
    new_user = model.explain(None, row["item"], k=4, history=history)
    assert new_user.clusters == found.clusters
    assert "Someone has" in str(new_user)
    with pytest.raises(ValueError, match="has clicked item"):
        model.explain(row["user"], history[0])


def test_clusters_are_described(clicks):
    titled = clicks.with_titles({own: f"Title of {own}" for own in clicks.items.tolist()})
    model = bmcd.BMCD(2).fit(titled, draws=60, warmup=60, chains=3, seed=2)
    one, two = model.clusters_
    assert one.n_users >= two.n_users
    assert one.n_users + two.n_users == pytest.approx(60)
    assert one.share + two.share == pytest.approx(1.0)
    for cluster in (one, two):
        assert cluster.alpha_interval[0] <= cluster.alpha <= cluster.alpha_interval[1]
        assert cluster.agreement > 0.7
        ranks = [item.rank for item in cluster.top]
        assert ranks == sorted(ranks)
    # The tastes are opposite: what sets one apart stands low in the other.
    assert one.apart[0].elsewhere > 2 * one.apart[0].rank
    assert not {item.item for item in one.top[:3]} & {item.item for item in two.top[:3]}
    assert "set apart by: Title of" in str(model.clusters_)
    frame = model.clusters_.to_frame()
    assert frame["cluster"].unique().tolist() == [1, 2]


def test_cluster_names_survive_label_switching(clicks):
    """Relabel the clusters of every draw at random: the summary must not notice."""
    from dataclasses import replace

    model = bmcd.BMCD(3).fit(clicks, **SHORT)
    draws, rng = model.draws_, np.random.default_rng(1)
    order = np.argsort(rng.random(draws.alpha.shape), axis=2)
    mixed = {
        name: np.take_along_axis(getattr(draws, name), order, axis=2) for name in ("alpha", "tau", "label_counts")
    }
    mixed["rho"] = np.take_along_axis(draws.rho, order[..., None], axis=2)
    other = bmcd.BMCD(3)
    other._learn(Fit(clicks, replace(draws, **mixed), None, None, {}))
    assert str(other.clusters_) == str(model.clusters_)


def test_the_number_of_clusters_can_be_chosen(capsys):
    up = np.arange(1, 11)
    clicks = bmcd.simulate(200, 10, consensuses=[up, up[::-1]], alpha=6, mean_clicks=3, seed=1).clicks
    model = bmcd.BMCD("auto").fit(clicks, draws=5, warmup=5, chains=2, progress=True)
    assert model.choice_.reason in capsys.readouterr().err
    assert model.n_clusters_ == model.choice_.recommended == 2
    assert "(2 chosen)" in repr(model)
    with pytest.raises(ValueError, match="'auto'"):
        bmcd.BMCD("many").fit(clicks)


def test_a_fit_out_of_time_warns_and_keeps_its_draws(clicks):
    with pytest.warns(FitWarning, match="time budget of 0.6 s"):
        model = bmcd.BMCD(2).fit(clicks, draws=10_000_000, warmup=2, chains=2, max_time=0.6)
    assert model.draws_.n_draws < 10_000_000
    assert len(model.recommend(k=1)) == 60


def test_diagnostics_and_arviz(model):
    assert "log joint" in model.diagnostics().index
    assert model.converged_ == model.verdict_.converged
    assert model.to_arviz()["posterior"]["rho"].sizes["item"] == 12


def test_other_distances_answer_what_was_counted(clicks):
    model = bmcd.BMCD(2, distance="kendall", sampler="paper").fit(clicks, **SHORT)
    assert len(model.recommend(k=5, users=clicks.users[:1])) == 2
    with pytest.raises(ValueError, match=r"for k = 5, 10, not for 7: fit again with count_k=\[7\]"):
        model.recommend(k=7)
    with pytest.raises(ValueError, match="only the footrule can serve"):
        model.recommend_for([[clicks.items[0]]], k=5)


def test_cutoffs_are_chosen_on_held_out_clicks():
    simulation = bmcd.simulate(n_users=400, seed=2)
    model = bmcd.BMCD(3).fit(simulation.clicks, draws=10, warmup=15, chains=2)
    curve = model.cutoff_curve(simulation, k=5)
    frame = model.recommend(k=5)
    truth = simulation.next_items(5).matrix.toarray()
    hit = truth[frame["user"], frame["item"]]
    for row in curve.itertuples():
        kept = frame["probability"] >= row.cutoff
        assert row.n == kept.sum()
        assert row.accuracy == pytest.approx(hit[kept].mean())
    wanted = float(curve["accuracy"].iloc[0]) + 0.03
    cut = model.choose_cutoff(simulation, wanted, k=5, confidence=None)
    kept = frame["probability"] >= cut
    assert hit[kept].mean() >= wanted
    assert len(model.recommend(k=5, min_probability=cut)) == kept.sum()
    with pytest.raises(ValueError, match="Ask for less"):
        model.choose_cutoff(simulation, 0.999, k=5, confidence=None)
    with pytest.raises(ValueError, match=r"no cut-off has a hit rate of 0\.999 with 95% confidence"):
        model.choose_cutoff(simulation, 0.999, k=5)
    assert model.choose_cutoff(simulation, 0.01, k=5) == 0.0
