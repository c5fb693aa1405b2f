import numpy as np
import pytest

from bmcd import plots
from bmcd.errors import InputError


def test_alpha_traces_has_a_panel_for_each_cluster_and_a_line_for_each_chain(lines_labelled):
    alpha = np.arange(24.0).reshape(2, 4, 3)
    figure = plots.alpha_traces(alpha, clusters=["A", "B", "C"], truth=[1, 2, 3])
    assert [ax.get_title("left") for ax in figure.axes] == ["A", "B", "C"]
    for c, ax in enumerate(figure.axes):
        assert lines_labelled(ax, "chain 2")[0].get_ydata().tolist() == alpha[1, :, c].tolist()
        assert lines_labelled(ax, "truth")[0].get_ydata() == [c + 1, c + 1]
    with pytest.raises(ValueError, match="truth has 2 entries, but alpha has 3"):
        plots.alpha_traces(alpha, truth=[1, 2])
    with pytest.raises(ValueError, match="clusters has 1 entries, but alpha has 3"):
        plots.alpha_traces(alpha, clusters=["A"])


def test_cluster_sizes_has_a_bar_and_an_interval_for_each_cluster():
    figure = plots.cluster_sizes([30.5, 20], [(25, 35), (15, 25)])
    ax = figure.axes[0]
    assert [bar.get_width() for bar in ax.patches] == [30.5, 20]
    ends = [container[2][0].get_segments()[0][:, 0].tolist() for container in ax.containers[1:]]
    assert ends == [[25, 35], [15, 25]]
    assert figure.tips[1].text == "cluster 2: 20 users (from 15 to 25)"


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


def test_wrong_shapes_are_refused():
    with pytest.raises(InputError, match="alpha must be"):
        plots.alpha_traces(np.ones(3))
    with pytest.raises(InputError, match="observed must be"):
        plots.predicted_counts([1, 2], [[1, 2, 3]])
