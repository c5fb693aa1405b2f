"""The settings of estimators behave as scikit-learn's do."""

import pytest
import sklearn.base

import bmcd
from bmcd.errors import InputError
from bmcd.models.estimator import BaseEstimator, clone


class Model(BaseEstimator):
    def __init__(self, size=3, inner=None):
        self.size, self.inner = size, inner


class Theirs(sklearn.base.BaseEstimator):
    def __init__(self, size=3, inner=None):
        self.size, self.inner = size, inner


@pytest.mark.parametrize("deep", [False, True])
def test_params_are_those_of_scikit_learn(deep):
    ours, theirs = Model(5, Model()).get_params(deep), Theirs(5, Theirs()).get_params(deep)
    assert list(sorted(ours)) == sorted(theirs)
    assert ours["size"] == theirs["size"] == 5


def test_params_of_an_inner_estimator_can_be_set():
    model = Model(inner=Model())
    assert model.set_params(size=1, inner__size=2) is model
    assert (model.size, model.inner.size) == (1, 2)
    with pytest.raises(InputError, match="Model has no parameter 'sise'; it has size, inner"):
        model.set_params(sise=1)


@pytest.mark.parametrize("copy", [clone, sklearn.base.clone])
def test_clones_are_new_and_not_fitted(copy):
    model = Model(4, Model(7))
    model.fitted_ = True
    new = copy(model)
    assert (new.size, new.inner.size) == (4, 7)
    assert new.inner is not model.inner
    assert not hasattr(new, "fitted_")
    assert clone(Theirs(4, [1])).get_params() == {"size": 4, "inner": [1]}


@pytest.mark.parametrize("make", [bmcd.Blend, bmcd.BMCD, bmcd.Tastes, bmcd.baselines.EASE, bmcd.baselines.Trending])
def test_every_model_can_be_cloned_by_scikit_learn(make):
    assert repr(sklearn.base.clone(make())) == repr(make())


def test_what_is_printed_is_what_was_given():
    assert repr(Model()) == "Model()"
    assert repr(Model(4, Model(1))) == "Model(size=4, inner=Model(size=1))"
    assert len(repr(Model("x" * 1000))) <= 700
