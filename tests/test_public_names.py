import pytest

import bmcd
from bmcd import evaluation, mallows


def test_every_public_name_is_there():
    for name in bmcd.__all__:
        assert getattr(bmcd, name) is not None
    assert set(bmcd.__all__) <= set(dir(bmcd))


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = bmcd.nonsense


def test_a_module_never_stands_where_a_function_should():
    """`mallows.footrule` is the distance: a submodule of that name would take its place."""
    for name in mallows.__all__:
        assert isinstance(getattr(mallows, name), tuple) == (name == "DISTANCES")
        assert callable(getattr(mallows, name)) == (name != "DISTANCES")
    for name in mallows.DISTANCES:
        assert getattr(mallows, name)([[2, 1, 3]], [1, 2, 3]) == mallows.distance([[2, 1, 3]], [1, 2, 3], name)


def test_rerank_and_trade_off_are_functions():
    assert bmcd.rerank is evaluation.rerank
    assert bmcd.trade_off is evaluation.trade_off


def test_evaluate_is_the_function():
    assert bmcd.evaluate is evaluation.evaluate
    for name in evaluation.__all__:
        assert callable(getattr(evaluation, name))
