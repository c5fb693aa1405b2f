"""Distinct clicks against an obvious reference, by either way of sorting."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bmcd.clicks import sequences
from bmcd.clicks.sequences import Sequences, distinct_clicks


@pytest.mark.parametrize("small", [0, 10**9], ids=["counting sorts", "one sort"])
@given(histories=st.lists(st.lists(st.integers(-1, 4), max_size=9), max_size=6))
def test_distinct_clicks_are_those_of_each_user(small, histories):
    starts = np.cumsum([0, *map(len, histories)])
    clicks = [item for own in histories for item in own]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sequences, "SMALL", small)
        found = distinct_clicks(Sequences(starts, np.array(clicks, np.int32)), 5)
    rows = [sorted({item for item in own if item >= 0}) for own in histories]
    matrix = found.matrix
    assert [matrix.indices[a:b].tolist() for a, b in zip(matrix.indptr, matrix.indptr[1:], strict=False)] == rows
    place = iter([(user, item) for user, own in enumerate(rows) for item in own])
    number = {pair: entry for entry, pair in enumerate(place)}
    pairs = [(user, item) for user, own in enumerate(histories) for item in own]
    assert found.pair.tolist() == [number.get(pair, -1) for pair in pairs]
    first = [pair not in pairs[:at] and pair[1] >= 0 for at, pair in enumerate(pairs)]
    assert found.first.tolist() == first
