"""The horizon of probabilities: the number of next clicks, beside the length of the list."""

import warnings

import numpy as np
import pytest

import bmcd
from bmcd.errors import FitWarning, ShortListWarning


@pytest.fixture(scope="module", params=["BMCD", "Tastes"])
def model(request):
    clicks = bmcd.simulate(n_users=80, consensuses=2, n_items=30, mean_clicks=4.0, seed=1).clicks
    made = bmcd.BMCD(2) if request.param == "BMCD" else bmcd.Tastes(2, chains=2)
    more = {"chains": 2} if request.param == "BMCD" else {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FitWarning)
        return made.fit(clicks, draws=5, warmup=5, **more)


def test_a_list_of_six_for_one_click_has_the_probabilities_of_one_click(model):
    whole = model.probabilities(1)
    frame = model.recommend(k=6, horizon=1)
    rows, columns = (model.clicks_.rows_of(frame["user"]), model.clicks_.columns_of(frame["item"]))
    assert np.allclose(frame["probability"], whole[rows, columns], atol=1e-12)
    assert (frame.groupby("user").size() == 6).all()
    order = frame.groupby("user")["probability"].agg(lambda p: bool((np.diff(p) <= 1e-6).all()))
    assert order.all()


def test_the_horizon_is_k_unless_it_is_given(model):
    assert model.recommend(3).equals(model.recommend(3, horizon=3))
    assert np.array_equal(model.probabilities(3), model.probabilities(8, horizon=3))
    items = model.clicks_.items.tolist()
    histories = {"ann": items[:2], "bob": []}
    one, three = (model.recommend_for(histories, 2, horizon=h)["probability"] for h in (1, 3))
    assert (one < three).all()
    lists = model.lists_for(model.clicks_, 2, horizon=3)
    assert np.allclose(lists.values["probability"], model.lists(2, horizon=3).values["probability"])


def test_explanations_have_a_horizon(model):
    user = model.clicks_.users[0]
    row = model.recommend(4, [user], horizon=2).iloc[0]
    found = model.explain(user, row["item"], 4, horizon=2)
    assert found.k == 2
    assert found.probability == pytest.approx(row["probability"], abs=1e-9)


def test_cutoffs_of_the_next_click_are_about_one_click(model):
    simulation = bmcd.simulate(n_users=80, consensuses=2, n_items=30, mean_clicks=4.0, seed=1)
    curve = model.cutoff_curve(simulation, 4, [0.0], horizon=1)
    found = bmcd.evaluate(model.recommend(4, horizon=1), simulation.clicks, simulation, horizon=1)
    assert curve["accuracy"][0] == pytest.approx(found.accuracy)
    assert found.n_hits <= 80
    cut = model.choose_cutoff(simulation, 0.01, 4, horizon=1, confidence=None)
    assert cut <= model.choose_cutoff(simulation, 0.3, 4, confidence=None)


@pytest.mark.parametrize("horizon", [0, -1, 1.5, True, "1"])
def test_a_horizon_that_is_none(model, horizon):
    with pytest.raises(ValueError, match="horizon, a number of next clicks"):
        model.recommend(3, horizon=horizon)
    with pytest.raises(ValueError, match="horizon, a number of next clicks"):
        model.recommend_for([[]], 3, horizon=horizon)


def test_a_horizon_beyond_what_is_left(model):
    with pytest.warns(ShortListWarning, match="horizon = 1180591620717411303424"):
        found = model.recommend(2, horizon=2**70)
    assert np.allclose(found["probability"], 1.0)
    with pytest.warns(ShortListWarning, match="their lists are shorter"):
        assert (model.recommend(29, horizon=1)["probability"] < 1).all()
