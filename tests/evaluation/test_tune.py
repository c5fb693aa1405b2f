from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import bmcd
from bmcd.baselines import EASE, ItemKNN, Popularity
from bmcd.clicks.splitting import folds as click_folds
from bmcd.evaluation.tune import Tuning, tune
from bmcd.testing import example_clicks


@pytest.fixture
def clicks():
    return example_clicks()


def test_every_click_is_in_one_fold(clicks):
    parts = click_folds(clicks, 4, seed=3)
    assert (sum(part.test.matrix.astype(int) for part in parts) != clicks.matrix).nnz == 0
    for part in parts:
        assert ((part.train.matrix.astype(int) + part.test.matrix) != clicks.matrix).nnz == 0
        assert part.users == [u for u, n in zip(clicks.users, part.test.matrix.sum(axis=1), strict=True) if n]


def test_users_lose_their_share_to_each_fold(clicks):
    own = np.diff(clicks.matrix.indptr)
    for part in click_folds(clicks, 4, seed=3):
        taken = np.diff(part.test.matrix.indptr)
        assert (taken >= own // 4).all()
        assert (taken <= -(-own // 4)).all()


def test_accuracy_is_that_of_fits_without_the_fold(clicks):
    tuning = tune(ItemKNN, clicks, {"neighbours": [1, 3]}, folds=3, k=2, seed=5)
    for at, neighbours in enumerate((1, 3)):
        for f, part in enumerate(click_folds(clicks, 3, seed=5)):
            frame = ItemKNN(neighbours).fit(part.train).recommend(2)
            truth = part.test.to_frame().assign(hit=1)
            frame = frame[frame["user"].isin(truth["user"])]
            hits = frame.merge(truth, on=["user", "item"], how="left")["hit"].notna()
            assert tuning.fold_accuracy[at, f] == pytest.approx(hits.mean())


def test_threads_change_nothing_and_the_seed_does(clicks):
    grid = {"regularization": [0.5, 5.0, 50.0]}
    one, two, other = (tune(EASE, clicks, grid, 3, 2, n_threads=n, seed=s) for n, s in ((1, 0), (3, 0), (1, 1)))
    np.testing.assert_array_equal(one.fold_accuracy, two.fold_accuracy)
    assert (one.fold_accuracy != other.fold_accuracy).any()


def test_table_and_best_go_together(clicks):
    tuning = tune(EASE, clicks, [{"regularization": [5.0]}, {"regularization": [0.5, 50.0]}], folds=3, k=2)
    table = tuning.table
    assert isinstance(table, pd.DataFrame)
    assert table["accuracy"].is_monotonic_decreasing
    assert table.loc[0, "regularization"] == tuning.best["regularization"]
    assert tuning.model.get_params() == EASE().get_params() | tuning.best
    assert not hasattr(tuning.model, "clicks_")
    assert "the best of 3 settings in 3 folds" in repr(tuning)


def test_no_settings_at_all_are_one_setting(clicks):
    assert tune(Popularity, clicks, {}, folds=2).best == {}


def test_the_best_at_the_edge_is_said():
    settings = tuple({"regularization": value} for value in (0.0, 0.5, 1.0))
    scores = np.array([[0.3, 0.2], [0.2, 0.2], [0.1, 0.2]])
    tuning = Tuning(EASE, settings, scores, np.ones((3, 2)), k=5, seed=0)
    assert tuning.at_the_edge == ("regularization",)
    assert "At the edge of the grid: regularization" in repr(tuning)
    inside = replace(tuning, fold_accuracy=scores[[1, 0, 2]])
    assert inside.at_the_edge == ()
    assert inside.best == {"regularization": 0.5}


def test_a_bar_is_shown_when_asked_for(clicks, capsys):
    tune(EASE, clicks, {"regularization": [1.0]}, folds=2, progress=True)
    assert "tuning" in capsys.readouterr().err
    tune(EASE, clicks, {"regularization": [1.0]}, folds=2)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("folds", [1, 0, 10_000])
def test_a_number_of_folds_that_cannot_be_is_an_error(clicks, folds):
    with pytest.raises(ValueError, match="folds must be 2 to 257"):
        tune(EASE, clicks, {}, folds=folds)


def test_an_error_in_one_fit_ends_all(clicks):
    with pytest.raises(ValueError, match="regularization must be"):
        tune(EASE, clicks, {"regularization": [1.0, -1.0]}, folds=2)


def test_any_recommender_can_be_tuned():
    clicks = bmcd.simulate(n_users=60, seed=1).clicks
    fit = {"draws": 2, "warmup": 2, "chains": 1}
    tuning = tune(bmcd.BMCD, clicks, {"n_clusters": [1, 2]}, folds=2, k=5, fit=fit)
    assert tuning.fold_accuracy.shape == (2, 2)
