"""Random events for property tests."""

import numpy as np
from hypothesis import strategies as st

from bmcd.baselines.counting import Events


@st.composite
def some_events(draw, n_items=5, most=25):
    n = draw(st.integers(0, most))
    item = draw(st.lists(st.integers(0, n_items - 1), min_size=n, max_size=n))
    new_session = draw(st.lists(st.booleans(), min_size=n, max_size=n))
    session = np.cumsum(new_session).astype(np.int64)
    tied = np.array(draw(st.lists(st.booleans(), min_size=n, max_size=n)), np.bool_)
    tied &= np.concatenate(([False], session[1:] == session[:-1]))[:n]
    age = None
    if draw(st.booleans()):
        # Hours in steps of a quarter, so that clicks of different sessions have equal ages too.
        age = 0.25 * np.array(draw(st.lists(st.integers(0, 400), min_size=n, max_size=n)), np.float64)
    return Events(np.array(item, np.int32), session, session, age, tied, n_items)
