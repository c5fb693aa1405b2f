import numpy as np
import pandas as pd
from experiments import figures

from bmcd.models.choose import boxplot_rows


def lines_labelled(ax, label):
    return [line for line in ax.get_lines() if line.get_label() == label]


def test_accuracy_by_clusters_has_runs_means_and_standard_errors():
    rows = [
        {"n_clusters": c, "accuracy": 0.1 * c + 0.02 * run, "run": run, "series": series}
        for c in (3, 2)
        for run in (0, 1)
        for series in ("1 chain", "4 chains")
    ]
    ax = figures.accuracy_by_clusters(pd.DataFrame(rows)).axes[0]
    runs = [np.asarray(line.get_ydata(), float) for line in lines_labelled(ax, "_run")]
    np.testing.assert_allclose(runs[:2], [[0.2, 0.3], [0.22, 0.32]])
    mean, _, bars = ax.containers[0]
    np.testing.assert_allclose(np.asarray(mean.get_ydata(), float), [0.21, 0.31])
    np.testing.assert_allclose(np.asarray(bars[0].get_segments()[0])[:, 1], [0.20, 0.22])
    assert ax.get_legend_handles_labels()[1] == ["1 chain", "4 chains"]


def test_within_distance_draws_the_boxes():
    boxes = boxplot_rows({2: np.arange(9.0), 5: np.arange(4.0)})
    figure = figures.within_distance({"a": boxes, "b": boxes.reset_index()})
    for ax, name in zip(figure.axes, "ab", strict=True):
        assert ax.get_title("left") == name
        assert [text.get_text() for text in ax.get_xticklabels()] == ["2", "5"]
        box = ax.patches[0].get_path().vertices[:, 1]
        assert (box.min(), box.max()) == (boxes["q1"].iloc[0], boxes["q3"].iloc[0])


def test_kmeans_curve_marks_choices():
    ax = figures.kmeans_curve({3: 40.0, 2: 100.0}, chosen={"elbow": 3, "held out": 3}).axes[0]
    assert ax.get_lines()[0].get_xydata().tolist() == [[2, 100], [3, 40]]
    assert lines_labelled(ax, "held out: 3")[0].get_xydata().tolist() == [[3, 40]]


def test_rare_items_has_a_dot_for_each_run():
    table = {"method": ["CF", "BMCD", "CF"], "n_rare": [1, 9, 3], "n_users_with_rare": [1, 7, 2]}
    left, right = figures.rare_items(pd.DataFrame(table)).axes
    assert [line.get_ydata().tolist() for line in lines_labelled(left, "runs")] == [[1, 3], [9]]
    assert [line.get_ydata().tolist() for line in lines_labelled(right, "runs")] == [[1, 2], [7]]
    assert [text.get_text() for text in left.get_xticklabels()] == ["CF", "BMCD"]
