import matplotlib as mpl
import pytest

from bmcd import plots
from bmcd.evaluation import Calibration
from bmcd.plots.style import METHOD_LOOKS, STYLE, looks


def test_a_module_never_stands_where_a_figure_should():
    for name in plots.__all__:
        assert callable(getattr(plots, name)), name


def test_looks_never_repeat_and_methods_keep_theirs():
    by_name = looks(["EASE", *(f"method {i}" for i in range(40))])
    assert len({(look.color, look.marker) for look in by_name.values()}) == 41
    assert by_name["EASE"] == looks(["ease"])["ease"] == METHOD_LOOKS["ease"]
    assert looks(["Item-KNN"])["Item-KNN"] == METHOD_LOOKS["itemknn"]
    assert len({look.marker for look in METHOD_LOOKS.values()}) == len(METHOD_LOOKS) - 1  # CF is Spark's ALS


def test_a_tip_lies_where_it_is_drawn():
    figure = plots.cluster_sizes([30.0, 20.0])
    figure._repr_png_()
    first, second = (tip.box() for tip in figure.tips)
    assert first[2] == pytest.approx(1.5 * second[2])
    assert first[0] == pytest.approx(second[0])
    assert first[1] + first[3] < second[1]  # the first is on top
    assert second[1] + second[3] < 72 * figure.get_figheight()


def test_a_legend_takes_fewer_columns_rather_than_being_cut():
    binned = Calibration.of([0.1, 0.3] * 50, [False, True] * 50)
    for name in ("Blend", "Blend of everything that was fitted"):
        figure = plots.calibration({name: binned, f"{name}, again": binned}, rivals={"Popularity": 0.2})
        figure._repr_png_()
        box = figure.legends[0].get_window_extent()
        assert box.x0 >= 0
        assert box.x1 <= figure.bbox.width


def test_global_settings_are_left_alone_and_figures_are_reproducible():
    before = dict(mpl.rcParams)
    figure = plots.cluster_sizes([30.0, 20.0])
    svg, png = figure._repr_svg_(), figure._repr_png_()
    assert dict(mpl.rcParams) == before
    assert any(before[key] != value for key, value in STYLE.items())
    assert png.startswith(b"\x89PNG")
    assert svg == plots.cluster_sizes([30.0, 20.0])._repr_svg_()
