import numpy as np
import pytest

import bmcd
from bmcd import plots


@pytest.fixture(scope="module")
def scores_clicks_and_test():
    """50 users who like the same items most; the plain lists leave most of the 12 out."""
    rng = np.random.default_rng(3)
    clicked = rng.random((50, 12)) < 0.1
    scores = np.clip(rng.random((50, 12)) * 0.2 + np.linspace(0.8, 0, 12), 0, 1)
    test = ~clicked & (rng.random((50, 12)) < scores)
    return scores, bmcd.Clicks.from_matrix(clicked), bmcd.Clicks.from_matrix(test)


def test_hits_and_what_is_given_up_are_drawn(scores_clicks_and_test):
    scores, clicks, test = scores_clicks_and_test
    ladder = bmcd.trade_off(scores, 2, clicks=clicks, value="probability", test=test, steps=4)
    above, below = plots.trade_off(ladder).axes
    expected, real = above.lines
    assert expected.get_xdata().tolist() == [row["coverage"] for row in ladder.rows()]
    assert expected.get_ydata().tolist() == [row["expected_hits"] for row in ladder.rows()]
    assert real.get_ydata().tolist() == [row["hits"] for row in ladder.rows()]
    assert below.lines[0].get_ydata().tolist() == [row["given_up"] for row in ladder.rows()]
    assert "Gini" in ladder.plot("gini").axes[1].get_xlabel()
    with pytest.raises(ValueError, match="x must be one of coverage"):
        ladder.plot("size")


def test_scores_are_not_drawn_as_hits(scores_clicks_and_test):
    scores, clicks, test = scores_clicks_and_test
    untested = bmcd.trade_off(scores, 2, clicks=clicks, min_exposure=[0, 2])
    assert plots.trade_off(untested).axes[0].get_ylabel() == "sum of scores"
    tested = bmcd.trade_off(scores, 2, clicks=clicks, min_exposure=[0, 2], test=test)
    (line,) = plots.trade_off(tested).axes[0].lines
    assert line.get_label() == "real hits (test)"
