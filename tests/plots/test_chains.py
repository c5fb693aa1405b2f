import numpy as np
import pytest

from bmcd import plots
from bmcd.errors import InputError


class Tree:
    """As much of ArviZ's container as the figures read."""

    def __init__(self, **variables):
        import xarray

        self.posterior = xarray.Dataset(variables)


def test_traces_draw_every_chain_of_every_cluster(lines_labelled):
    alpha = np.random.default_rng(1).random((3, 7, 2))
    figure = plots.traces(Tree(alpha=(("chain", "draw", "cluster"), alpha)))
    assert [ax.get_title(loc="left") for ax in figure.axes] == ["alpha 0", "alpha 1"]
    (line,) = lines_labelled(figure.axes[1], "chain 3")
    np.testing.assert_array_equal(line.get_ydata(), alpha[2, :, 1])


def test_rank_histograms_are_flat_where_chains_agree_and_not_where_they_differ():
    rng = np.random.default_rng(1)
    agree = rng.random((2, 2_000))
    differ = agree + np.array([[0.0], [0.5]])
    figure = plots.rank_histograms({"agree": agree, "differ": differ})
    heights = [[patch.get_data().values for patch in ax.patches] for ax in figure.axes]
    for values in heights[0]:
        assert values.sum() == 2_000
        assert np.abs(values - 100).max() < 40
    assert heights[1][0][-1] == 0
    assert heights[1][1][0] == 0


def test_predicted_counts_put_the_interval_beside_what_was_seen():
    rng = np.random.default_rng(1)
    observed = np.array([50, 400, 100])
    replicated = rng.poisson([60, 390, 100], (2, 300, 3))
    figure = plots.predicted_counts(observed, replicated, names=["a", "b", "c"], most=2)
    (ax,) = figure.axes
    assert [text.get_text() for text in ax.get_yticklabels()] == ["b", "c"]
    (seen,) = [line for line in ax.get_lines() if line.get_label() == "clicked"]
    assert seen.get_xdata().tolist() == [400, 100]
    segments = ax.containers[0][2][0].get_segments()
    low, high = np.percentile(replicated[:, :, 1], (5, 95))
    np.testing.assert_allclose(segments[0][:, 0], [low, high])


@pytest.mark.parametrize("wrong", [{}, {"a": np.ones(3)}, 7])
def test_what_cannot_be_drawn_is_refused(wrong):
    with pytest.raises(InputError):
        plots.traces(wrong)
    with pytest.raises(InputError):
        plots.predicted_counts([1, 2], [[1, 2, 3]])
