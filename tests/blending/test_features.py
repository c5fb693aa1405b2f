"""Scores on scales that do not depend on how a model writes them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from bmcd.blending.features import KNOTS, Scores, feature_names, features_of, make_scale, places

finite = st.floats(-1e6, 1e6, allow_nan=False)


@given(hnp.arrays(np.float64, st.tuples(st.integers(1, 6), st.integers(1, 8)), elements=finite))
def test_places_keep_the_order_of_scores(values):
    free = np.ones(values.shape, bool)
    e = places(values, make_scale(values, free))
    order = np.argsort(values, axis=None, kind="stable")
    assert (np.diff(e.ravel()[order]) >= -1e-9).all()
    assert np.isfinite(e).all()


def test_a_place_is_the_share_of_scores_below():
    rng = np.random.default_rng(0)
    values = rng.normal(size=(200, 50))
    e = places(values, make_scale(values, np.ones(values.shape, bool)))
    share = (values.ravel()[:, None] > rng.choice(values.ravel(), 2000)).mean(axis=1)
    assert np.abs(-np.expm1(-e.ravel()) - share).max() < 0.06


@pytest.mark.parametrize(
    "distort", [lambda s: s**2, np.cbrt, lambda s: s + 100.0], ids=["squared", "root", "shifted"]
)
def test_distorted_scores_stand_where_they_stood(distort):
    values = np.random.default_rng(1).gamma(0.5, size=(300, 40))
    free = np.random.default_rng(2).random(values.shape) < 0.8
    plain, other = (places(of, make_scale(of, free)) for of in (values, distort(values)))
    assert np.abs(plain - other).max() < 0.1


def test_beyond_the_best_that_was_seen_it_grows_on():
    scale = make_scale(np.arange(20.0)[None], np.ones((1, 20), bool))
    e = places(np.array([19.0, 20.0, 25.0, 1e9]), scale)
    assert (np.diff(e) > 0).all()
    assert e[-1] < e[0] + 5


def test_the_parts_of_a_scale_add_up_and_have_names():
    values = np.random.default_rng(3).random((30, 20))
    scale = make_scale(values, np.ones(values.shape, bool))
    parts = features_of(Scores(values), scale)
    assert parts.shape[2] == len(feature_names(False)) == len(KNOTS) - 1
    assert np.allclose(parts.sum(axis=2), places(values, scale))
    law = np.array([[0.0, 1.0]])
    assert np.isfinite(features_of(Scores(law), None)).all()
    assert len(feature_names(True)) == 1


def test_no_score_at_all_has_a_scale():
    assert places(np.ones((1, 2)), make_scale(np.ones((1, 2)), np.zeros((1, 2), bool))).tolist() == [[0.0, 0.0]]
