"""The figures show the numbers they are given."""

import numpy as np
import pandas as pd
import pytest

import bmcd
from bmcd import plots
from bmcd.clusters.curves import boxplot_rows
from bmcd.evaluation import Calibration, ItemCounts
from bmcd.evaluation.intervals import wilson
from bmcd.plots.style import KNOWN, STYLE, looks


def lines(ax, label):
    return [line for line in ax.get_lines() if line.get_label() == label]


@pytest.fixture(scope="module")
def calibration():
    rng = np.random.default_rng(5)
    p = rng.choice([0.05, 0.15, 0.155, 0.35], size=400)
    return Calibration.of(p, rng.random(400) < p + 0.1, bin_width=0.05)


@pytest.fixture(scope="module")
def counts():
    clicks = np.array([1, 2, 5, 9])
    one = ItemCounts(np.array(list("abcd")), clicks, np.array([0, 3, 4, 8]), np.array([0, 1, 0, 6]), n_popular=1)
    other = ItemCounts(np.array(list("abcd")), clicks, np.array([0, 0, 0, 15]), np.array([0, 0, 0, 2]), n_popular=1)
    return {"BMCD": one, "EASE": other}


def test_calibration_draws_every_bin_with_its_interval(calibration):
    figure = plots.calibration(calibration, rivals={"EASE": 0.4})
    above, below = figure.axes
    points, _, bars = above.containers[0]
    np.testing.assert_allclose(points.get_xdata(), calibration.bin_probability)
    np.testing.assert_allclose(points.get_ydata(), calibration.bin_hit_rate)
    low, high = wilson(calibration.bin_hit_rate * calibration.bin_n, calibration.bin_n)
    ends = np.array([segment[:, 1] for segment in bars[0].get_segments()])
    np.testing.assert_allclose(ends, np.column_stack([low, high]))
    assert [bar.get_height() for bar in below.patches] == calibration.bin_n.tolist()
    assert lines(above, "EASE: 40.0 %")[0].get_ydata() == [0.4, 0.4]
    assert lines(above, "as promised")[0].get_xydata().tolist() == [[0, 0], [1, 1]]
    assert len(figure.tips) == len(calibration.bin_n)
    n, rate = calibration.bin_n[0], calibration.bin_hit_rate[0]
    assert f"{n} recommendations, {round(n * rate)} hits ({rate:.1%}" in figure.tips[0].text


def test_calibration_of_a_dict_is_the_same(calibration):
    for make in (plots.calibration, plots.cutoff_curve):
        assert make(calibration.to_dict()).axes[0].get_legend_handles_labels() is not None
    points = plots.calibration(calibration.to_dict()).axes[0].containers[0][0]
    np.testing.assert_allclose(points.get_ydata(), calibration.bin_hit_rate)


def test_several_calibrations_differ_in_colour_and_marker(calibration):
    figure = plots.calibration({"BMCD": calibration, "paper": calibration})
    first, second = (container[0] for container in figure.axes[0].containers)
    assert first.get_color() != second.get_color()
    assert first.get_marker() != second.get_marker()


def test_cutoff_curve_is_the_cutoff_table(calibration):
    figure = plots.cutoff_curve(calibration, rivals={"EASE": 0.3})
    left, right = figure.axes
    shown = lines(left, "BMCD: hit rate")[0]
    table = calibration.cutoff_table(shown.get_xdata())
    np.testing.assert_allclose(shown.get_ydata(), table["accuracy"])
    assert shown.get_xdata()[0] <= 0.05
    assert shown.get_xdata()[-1] == 0.35
    assert lines(right, "how many are kept")[0].get_ydata()[-1] == (calibration.probability >= 0.35).sum()
    assert lines(left, "EASE: 30.0 %")


@pytest.mark.parametrize("hits", [[False] * 6, [True] * 6])
def test_no_hits_all_hits_and_one_probability(hits):
    one = Calibration.of([0.2] * 6, hits)
    for make in (plots.calibration, plots.cutoff_curve):
        make(one)._repr_png_()


def test_exposure_has_a_panel_a_method_on_one_axis(counts):
    figure = plots.exposure(counts, titles={"d": "$x^2$ <b>"})
    assert [ax.get_title("left") for ax in figure.axes] == ["BMCD: 3 of 4 items", "EASE: 1 of 4 items"]
    for ax, one in zip(figure.axes, counts.values(), strict=True):
        light, dark = ax.patches[:2]
        assert light.get_data().values.tolist() == one.recommended.tolist()
        assert dark.get_data().values.tolist() == one.hits.tolist()
        assert lines(ax, "rare | popular")[0].get_xdata() == [3, 3]
        assert ax.get_ylim()[1] >= 15
    assert figure.tips[3].text == "BMCD, $x^2$ <b> (9 clicks): recommended 8 times, 6 hits"
    assert figure.tips[2].text == "BMCD, item c (5 clicks): recommended 4 times, 0 hits"
    texts = [text.get_text() for text in figure.findobj(lambda part: hasattr(part, "get_text"))]
    assert not [text for text in texts if "x^2" in text]
    assert len(plots.exposure(counts, hits=False).axes[0].patches) == len(figure.axes[0].patches) - 1


def test_many_items_share_places_to_point_at():
    n = 130
    one = ItemCounts(np.arange(n), np.arange(n), np.ones(n, int), np.zeros(n, int), n_popular=26)
    figure = plots.exposure({"BMCD": one})
    assert figure.tips[0].text == "BMCD, items 1 to 3 (0 to 2 clicks): recommended 3 times, 0 hits"
    assert sum(int(tip.text.split("recommended ")[1].split()[0]) for tip in figure.tips) == n


def test_item_popularity_is_sorted_and_parted():
    figure = plots.item_popularity({"one": [5, 1, 3], "two": [2, 2, 9]}, n_popular=1)
    assert [[p.get_data().values.tolist() for p in ax.patches[:2]] for ax in figure.axes] == [
        [[1, 3], [5]],
        [[2, 2], [9]],
    ]
    assert plots.item_popularity([4, 2], n_popular=2).axes[0].patches[0].get_data().values.tolist() == [2, 4]
    with pytest.raises(ValueError, match="1 to 2"):
        plots.item_popularity([4, 2], n_popular=3)


def test_comparison_draws_values_and_intervals():
    sim = bmcd.simulate(n_users=40, n_items=12, consensuses=2, mean_clicks=4.0, seed=1)
    rivals = {"Popularity": bmcd.baselines.Popularity(), "EASE": bmcd.baselines.EASE()}
    found = bmcd.compare(rivals, sim.clicks, sim, k=3)
    figure = plots.comparison(found, ["accuracy", "coverage"])
    accuracy, coverage = figure.axes
    for at, name in enumerate(found.entries):
        point, _, bars = accuracy.containers[at]
        assert (point.get_xdata()[0], point.get_ydata()[0]) == (found.value(name, "accuracy"), at)
        own = found.entries[name].intervals["accuracy"]
        np.testing.assert_allclose(bars[0].get_segments()[0][:, 0], [own.low, own.high])
        assert coverage.containers[at][0].get_xdata()[0] == found.value(name, "coverage")
        assert not coverage.containers[at].has_xerr
        assert point.get_color() == KNOWN[name.lower()].color
    with pytest.raises(ValueError, match="'nonsense' is no measure"):
        plots.comparison(found, ["nonsense"])


def test_accuracy_by_clusters_has_runs_means_and_standard_errors():
    rows = [
        {"n_clusters": c, "accuracy": 0.1 * c + 0.02 * run, "run": run, "series": series}
        for c in (3, 2)
        for run in (0, 1)
        for series in ("1 chain", "4 chains")
    ]
    ax = plots.accuracy_by_clusters(pd.DataFrame(rows)).axes[0]
    runs = [np.asarray(line.get_ydata(), float) for line in lines(ax, "_run")]
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
    for ax in figure.axes:
        assert [text.get_text() for text in ax.get_xticklabels()] == ["2", "5"]
        box = ax.patches[0].get_path().vertices[:, 1]
        assert (box.min(), box.max()) == (boxes["q1"].iloc[0], boxes["q3"].iloc[0])


def test_alpha_traces():
    alpha = np.arange(24.0).reshape(2, 4, 3)
    figure = plots.alpha_traces(alpha, clusters=["A", "B", "C"], truth=[1, 2, 3])
    assert [ax.get_title("left") for ax in figure.axes] == ["A", "B", "C"]
    for c, ax in enumerate(figure.axes):
        assert lines(ax, "chain 2")[0].get_ydata().tolist() == alpha[1, :, c].tolist()
        assert lines(ax, "truth")[0].get_ydata() == [c + 1, c + 1]
    with pytest.raises(ValueError, match="truth has 2 entries, but alpha has 3"):
        plots.alpha_traces(alpha, truth=[1, 2])


def test_kmeans_curve_marks_choices():
    ax = plots.kmeans_curve({3: 40.0, 2: 100.0}, chosen={"elbow": 3, "held out": 3}).axes[0]
    assert ax.get_lines()[0].get_xydata().tolist() == [[2, 100], [3, 40]]
    assert lines(ax, "held out: 3")[0].get_xydata().tolist() == [[3, 40]]
    with pytest.raises(ValueError, match="elbow is 7"):
        plots.kmeans_curve({2: 1.0}, chosen={"elbow": 7})


def test_rare_items():
    table = {"method": ["CF", "BMCD", "CF"], "n_rare": [1, 9, 3], "n_users_with_rare": [1, 7, 2]}
    left, right = plots.rare_items(table).axes
    assert [line.get_ydata().tolist() for line in lines(left, "runs")] == [[1, 3], [9]]
    assert [line.get_ydata().tolist() for line in lines(right, "runs")] == [[1, 2], [7]]
    assert [text.get_text() for text in left.get_xticklabels()] == ["CF", "BMCD"]


def test_a_tip_lies_where_it_is_drawn():
    figure = plots.cluster_sizes([30.0, 20.0])
    figure._repr_png_()
    first, second = (tip.box() for tip in figure.tips)
    assert first[2] == pytest.approx(1.5 * second[2])
    assert first[0] == pytest.approx(second[0])
    assert first[1] + first[3] < second[1]  # the first is on top
    assert second[1] + second[3] < 72 * figure.get_figheight()


def test_cluster_sizes():
    ax = plots.cluster_sizes([30.5, 20], [(25, 35), (15, 25)]).axes[0]
    assert [bar.get_width() for bar in ax.patches] == [30.5, 20]


def test_looks_never_repeat_and_methods_keep_theirs():
    names = [f"method {i}" for i in range(40)]
    found = looks(["EASE", *names])
    assert len({(look.color, look.marker) for look in found.values()}) == 41
    assert found["EASE"] == looks(["ease"])["ease"] == KNOWN["ease"]
    assert looks(["Item-KNN"])["Item-KNN"] == KNOWN["itemknn"]
    assert len({look.marker for look in KNOWN.values()}) == len(KNOWN) - 1  # CF is Spark's ALS


def test_global_settings_are_left_alone_and_figures_are_reproducible(calibration):
    import matplotlib as mpl

    before = dict(mpl.rcParams)
    figure = plots.cutoff_curve(calibration)
    svg, png = figure._repr_svg_(), figure._repr_png_()
    assert dict(mpl.rcParams) == before
    assert any(before[key] != value for key, value in STYLE.items())
    assert png.startswith(b"\x89PNG")
    assert svg == plots.cutoff_curve(calibration)._repr_svg_()


def test_nothing_to_draw_is_said():
    for make in (plots.calibration, plots.exposure):
        with pytest.raises(ValueError, match="nothing to draw"):
            make({})
    with pytest.raises(TypeError, match="BMCD must be a ItemCounts, not int"):
        plots.exposure(3)
    with pytest.raises(TypeError, match="x must be a Calibration"):
        plots.calibration({"x": 3})
