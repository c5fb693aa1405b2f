import numpy as np
import pytest

import bmcd
from bmcd import plots
from bmcd.plots.comparisons import MEASURES
from bmcd.plots.style import METHOD_LOOKS


@pytest.fixture(scope="module")
def comparison():
    """Two rivals, neither of which gives probabilities."""
    sim = bmcd.simulate(n_users=40, n_items=12, consensuses=2, mean_clicks=4.0, seed=1)
    rivals = {"Popularity": bmcd.baselines.Popularity(), "EASE": bmcd.baselines.EASE()}
    return bmcd.compare(rivals, sim.clicks, sim, k=3)


def test_every_measure_of_an_evaluation_can_be_drawn(comparison):
    recommended = comparison.entries["EASE"].model.recommend(3).assign(probability=0.5)
    evaluation = bmcd.evaluate(recommended, comparison.train, comparison.test, k=3)
    assert list(MEASURES) == evaluation.to_frame()["measure"].tolist()


def test_comparison_draws_values_and_intervals(comparison):
    accuracy, coverage = plots.comparison(comparison, ["accuracy", "coverage"]).axes
    for row, (name, entry) in enumerate(comparison.entries.items()):
        point, _, bars = accuracy.containers[row]
        assert (point.get_xdata()[0], point.get_ydata()[0]) == (entry.evaluation.accuracy, row)
        interval = entry.intervals["accuracy"]
        np.testing.assert_allclose(bars[0].get_segments()[0][:, 0], [interval.low, interval.high])
        assert coverage.containers[row][0].get_xdata()[0] == entry.evaluation.coverage
        assert not coverage.containers[row].has_xerr
        assert point.get_color() == METHOD_LOOKS[name.lower()].color


def test_measures_draws_a_point_for_each_method_with_intervals_both_ways(comparison):
    ax = plots.measures(comparison, "novelty", "accuracy").axes[0]
    for container, (name, entry) in zip(ax.containers, comparison.entries.items(), strict=True):
        point, _, (across, up) = container
        place = (entry.evaluation.novelty, entry.evaluation.accuracy)
        assert (point.get_xdata()[0], point.get_ydata()[0]) == place
        assert point.get_color() == METHOD_LOOKS[name.lower()].color
        novelty, accuracy = entry.intervals["novelty"], entry.intervals["accuracy"]
        np.testing.assert_allclose(across.get_segments()[0][:, 0], [novelty.low, novelty.high])
        np.testing.assert_allclose(up.get_segments()[0][:, 1], [accuracy.low, accuracy.high])
    assert not plots.measures(comparison, "coverage", "accuracy").axes[0].containers[0].has_xerr


def test_what_cannot_be_drawn_is_refused(comparison):
    with pytest.raises(ValueError, match="'nonsense' is not a measure; choose from accuracy"):
        plots.comparison(comparison, ["nonsense"])
    with pytest.raises(ValueError, match="'brier' is not a measure"):  # no method here gives probabilities
        plots.measures(comparison, "coverage", "brier")
    with pytest.raises(ValueError, match="give at least one measure"):
        plots.comparison(comparison, [])


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
    assert line.get_label() == "observed hits (test)"
