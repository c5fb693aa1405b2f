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
    with pytest.raises(ValueError, match="'nonsense' is no measure; there are accuracy"):
        plots.comparison(comparison, ["nonsense"])
    with pytest.raises(ValueError, match="'brier' is no measure"):  # no method here gives probabilities
        plots.measures(comparison, "coverage", "brier")
    with pytest.raises(ValueError, match="give at least one measure"):
        plots.comparison(comparison, [])
