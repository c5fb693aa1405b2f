"""The figure of a back-test."""

import itertools
import math

import pandas as pd

from bmcd import plots
from bmcd.evaluation.backtest import Backtest, Row


def result(n_cuts, predicted=0.3, models=("A",)):
    labels = [*(f"2026-05-{day:02d} 00:00:00" for day in range(1, n_cuts + 1)), "all"]
    rows = [
        Row(
            model,
            cut,
            90,
            2,
            1,
            900,
            250,
            0.28,
            0.25,
            0.31,
            predicted,
            predicted - 0.28,
            -0.01,
            0.05,
            0.01,
            0,
            0,
            1,
        )
        for model in models
        for cut in labels
    ]
    return Backtest(tuple(rows), 10, 1, "moment", ("",) * n_cuts, 0.95)


def test_predicted_and_observed_are_drawn_for_each_cut_and_can_be_pointed_at():
    figure = plots.backtest(result(3))
    assert [label.get_text() for label in figure.axes[0].get_xticklabels()] == ["05-01", "05-02", "05-03"]
    assert [tip.text for tip in figure.tips[:2]] == [
        "2026-05-01 00:00:00: observed 28.0 % (95 % interval 25.0 % to 31.0 %)".replace("95 %", "95%"),
        "2026-05-01 00:00:00: predicted 30.0 %",
    ]
    assert {text.get_text() for text in figure.legends[0].get_texts()} == {"observed", "predicted"}


def test_models_have_a_panel_each_and_scores_no_prediction():
    figure = plots.backtest(result(2, math.nan, models=("A", "B")))
    assert [ax.get_title() for ax in figure.axes] == ["", ""]  # titles stand at the left
    assert [ax.get_title(loc="left") for ax in figure.axes] == ["A", "B"]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["observed"]


def test_labels_of_many_cuts_do_not_cover_each_other():
    figure = plots.backtest(result(24), width=3.2)
    figure.draw_without_rendering()
    boxes = [label.get_window_extent() for label in figure.axes[0].get_xticklabels()]
    assert len(boxes) < 24
    assert all(b.x0 > a.x1 for a, b in itertools.pairwise(boxes))


def test_past_windows_show_predicted_beside_observed():
    windows = pd.DataFrame(
        {"label": ["2026-05-01", "2026-05-02"], "predicted": 0.4, "observed": 0.35, "error": 0.02}
    )
    figure = plots.past_windows(windows)
    assert [tip.text for tip in figure.tips[:2]] == [
        "2026-05-01: observed 35.0 % (95% interval 31.1 % to 38.9 %)",
        "2026-05-01: predicted 40.0 %",
    ]
    assert figure.axes[0].get_ylim()[0] == 0
    assert {text.get_text() for text in figure.legends[0].get_texts()} == {"observed", "predicted"}
