import numpy as np
import pandas as pd
import pytest

from bmcd import plots
from bmcd.models.cluster_curves import boxplot_rows


def test_accuracy_by_clusters_has_runs_means_and_standard_errors(lines_labelled):
    rows = [
        {"n_clusters": c, "accuracy": 0.1 * c + 0.02 * run, "run": run, "series": series}
        for c in (3, 2)
        for run in (0, 1)
        for series in ("1 chain", "4 chains")
    ]
    ax = plots.accuracy_by_clusters(pd.DataFrame(rows)).axes[0]
    runs = [np.asarray(line.get_ydata(), float) for line in lines_labelled(ax, "_run")]
    np.testing.assert_allclose(runs[:2], [[0.2, 0.3], [0.22, 0.32]])
    mean, _, bars = ax.containers[0]
    np.testing.assert_allclose(np.asarray(mean.get_ydata(), float), [0.21, 0.31])
    np.testing.assert_allclose(np.asarray(bars[0].get_segments()[0])[:, 1], [0.20, 0.22])
    assert ax.get_legend_handles_labels()[1] == ["1 chain", "4 chains"]
    with pytest.raises(ValueError, match="no column 'accuracy'"):
        plots.accuracy_by_clusters({"n_clusters": [1]})


def test_within_distance_draws_the_boxes():
    boxes = boxplot_rows({2: np.arange(9.0), 5: np.arange(4.0)})
    figure = plots.within_distance({"a": boxes, "b": boxes.reset_index()})
    for ax, name in zip(figure.axes, "ab", strict=True):
        assert ax.get_title("left") == name
        assert [text.get_text() for text in ax.get_xticklabels()] == ["2", "5"]
        box = ax.patches[0].get_path().vertices[:, 1]
        assert (box.min(), box.max()) == (boxes["q1"].iloc[0], boxes["q3"].iloc[0])


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


def test_kmeans_curve_marks_choices(lines_labelled):
    ax = plots.kmeans_curve({3: 40.0, 2: 100.0}, chosen={"elbow": 3, "held out": 3}).axes[0]
    assert ax.get_lines()[0].get_xydata().tolist() == [[2, 100], [3, 40]]
    assert lines_labelled(ax, "held out: 3")[0].get_xydata().tolist() == [[3, 40]]
    with pytest.raises(ValueError, match="elbow is 7"):
        plots.kmeans_curve({2: 1.0}, chosen={"elbow": 7})


def test_cluster_sizes_has_a_bar_and_an_interval_for_each_cluster():
    figure = plots.cluster_sizes([30.5, 20], [(25, 35), (15, 25)])
    ax = figure.axes[0]
    assert [bar.get_width() for bar in ax.patches] == [30.5, 20]
    ends = [container[2][0].get_segments()[0][:, 0].tolist() for container in ax.containers[1:]]
    assert ends == [[25, 35], [15, 25]]
    assert figure.tips[1].text == "cluster 2: 20 users (from 15 to 25)"
