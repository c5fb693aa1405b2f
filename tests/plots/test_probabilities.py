import numpy as np
import pytest

from bmcd import plots
from bmcd.evaluation import Calibration
from bmcd.models.cutoffs import wilson


@pytest.fixture(scope="module")
def calibration():
    """400 recommendations with four probabilities, hit ten points more often than predicted."""
    rng = np.random.default_rng(5)
    p = rng.choice([0.05, 0.15, 0.155, 0.35], size=400)
    return Calibration.of(p, rng.random(400) < p + 0.1, bin_width=0.05)


def test_calibration_draws_every_bin_with_its_interval(calibration, lines_labelled):
    figure = plots.calibration(calibration, rivals={"EASE": 0.4})
    above, below = figure.axes
    points, _, bars = above.containers[0]
    np.testing.assert_allclose(points.get_xdata(), calibration.bin_probability)
    np.testing.assert_allclose(points.get_ydata(), calibration.bin_hit_rate)
    low, high = wilson(calibration.bin_hit_rate * calibration.bin_n, calibration.bin_n)
    ends = np.array([segment[:, 1] for segment in bars[0].get_segments()])
    np.testing.assert_allclose(ends, np.column_stack([low, high]))
    assert [bar.get_height() for bar in below.patches] == calibration.bin_n.tolist()
    assert lines_labelled(above, "EASE: 40.0 %")[0].get_ydata() == [0.4, 0.4]
    assert lines_labelled(above, "as predicted")[0].get_xydata().tolist() == [[0, 0], [1, 1]]
    assert len(figure.tips) == len(calibration.bin_n)
    n, rate = calibration.bin_n[0], calibration.bin_hit_rate[0]
    assert f"{n} recommendations, {round(n * rate)} hits ({rate:.1%}" in figure.tips[0].text


def test_wilson_solves_the_equation_that_defines_it():
    """Each end is a share p from which the observed share h is z standard errors away: (h-p)^2 = z^2 p(1-p)/n."""
    hits, n, z = np.array([1, 3, 40, 99]), np.array([7, 9, 100, 100]), 1.959963984540054
    for end in wilson(hits, n):
        np.testing.assert_allclose((hits / n - end) ** 2, z**2 * end * (1 - end) / n)
    assert [end.tolist() for end in wilson([0, 0], [0, 4])] == [[0.0, 0.0], [1.0, pytest.approx(0.4899, abs=1e-4)]]
    with pytest.raises(ValueError, match="more hits than tries"):
        wilson([2], [1])
    with pytest.raises(ValueError, match="level must be between 0 and 1"):
        wilson([1], [2], level=95)


def test_several_calibrations_differ_in_colour_and_marker(calibration):
    figure = plots.calibration({"BMCD": calibration, "paper": calibration})
    first, second = (container[0] for container in figure.axes[0].containers)
    assert first.get_color() != second.get_color()
    assert first.get_marker() != second.get_marker()


def test_cutoff_curve_is_the_cutoff_table(calibration, lines_labelled):
    figure = plots.cutoff_curve(calibration, rivals={"EASE": 0.3})
    left, right = figure.axes
    curve = lines_labelled(left, "BMCD: hit rate")[0]
    table = calibration.cutoff_table(curve.get_xdata())
    np.testing.assert_allclose(curve.get_ydata(), table["accuracy"])
    assert curve.get_xdata()[0] <= 0.05
    assert curve.get_xdata()[-1] == 0.35
    assert lines_labelled(right, "number kept")[0].get_ydata()[-1] == (calibration.probability >= 0.35).sum()
    assert lines_labelled(left, "EASE: 30.0 %")


def test_cutoffs_go_from_the_last_that_keeps_all_to_the_last_that_keeps_any():
    tips = plots.cutoff_curve(Calibration.of([0.125, 0.155], [True, False])).tips
    assert [tip.text.split(" on:")[0] for tip in tips] == ["From 12%", "From 13%", "From 14%", "From 15%"]


@pytest.mark.parametrize("hits", [[False] * 6, [True] * 6])
def test_no_hits_all_hits_and_one_probability_can_be_drawn(hits):
    calibration = Calibration.of([0.2] * 6, hits)
    for draw in (plots.calibration, plots.cutoff_curve):
        assert draw(calibration)._repr_png_().startswith(b"\x89PNG")


def test_what_is_no_calibration_is_refused():
    with pytest.raises(ValueError, match="nothing to draw"):
        plots.calibration({})
    with pytest.raises(TypeError, match="x must be a Calibration, not int"):
        plots.calibration({"x": 3})
