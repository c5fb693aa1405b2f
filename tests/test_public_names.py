import pytest

import bmcd
from bmcd import mallows


def test_every_public_name_is_there():
    for name in bmcd.__all__:
        assert getattr(bmcd, name) is not None
    for name in mallows.__all__:
        assert getattr(mallows, name) is not None
    assert set(bmcd.__all__) <= set(dir(bmcd))


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = bmcd.nonsense
