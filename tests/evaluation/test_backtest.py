"""backtest, on users who follow a known Markov chain: predicted is observed, and no fit sees the future."""

import json

import numpy as np
import pandas as pd
import pytest

import bmcd
from bmcd import Clicks
from bmcd.baselines import EASE, Popularity
from bmcd.clicks import splitting
from bmcd.errors import ClicksError, InputError
from bmcd.evaluation.backtest import window_hits

from .markov import DAY, START, Oracle, Scores, next_within, simulate


@pytest.fixture(scope="module")
def clicks():
    return simulate(n_users=900)


@pytest.fixture(autouse=True)
def empty_log():
    Oracle.log.clear()


@pytest.mark.parametrize("horizon", [1, 3, 10])
@pytest.mark.parametrize("at", ["moment", "cut"])
def test_the_true_chain_is_calibrated_for_every_horizon(clicks, horizon, at):
    """|z| < 5 in each of six: false alarm below 1e-5."""
    result = bmcd.backtest(Oracle(), clicks, cuts=3, k=4, horizon=horizon, at=at, resamples=200)
    row = result.row()
    error = (row.difference_high - row.difference_low) / (2 * 1.96)
    assert abs(row.difference) < 5 * error
    assert error < 0.03
    assert row.predicted == pytest.approx(row.hit_rate + row.difference)
    assert row.ece_at_k < 0.1
    assert row.n_new_users > 0


def test_predictions_are_for_the_clicks_that_were_observed(clicks):
    """g = min(horizon, observed) for each user, against a count by hand and an enumeration of all paths."""
    window = next(iter(splitting.time_windows(clicks, 1, "1d", 3, seed=5)))
    found = window_hits(Oracle().fit(window.train), window, 4, 3, repeats=False)
    test, histories = window.test, window.histories
    g = np.diff(test.starts)
    assert set(g.tolist()) == {1, 2, 3}
    assert found.n_clicks.tolist() == g.tolist()
    asked = {user: horizon for kind, *rest in Oracle.log if kind == "ask" for users, horizon in [rest]
             for user in users.users.tolist()}  # fmt: skip
    assert asked == dict(zip(test.users.tolist(), g.tolist(), strict=True))
    for row in range(0, test.n_users, 7):
        own = [
            int(histories.items[c][1:])
            for c in histories.sequence[histories.starts[row] : histories.starts[row + 1]]
        ]
        p = next_within(own[-1] if own else 8, frozenset(own), int(g[row]))
        expected = sorted((p[item] for item in range(8) if item not in own), reverse=True)[:4]
        mine = found.user == row
        assert np.allclose(found.probability[mine], expected)
        followed = set(test.items[test.sequence[test.starts[row] : test.starts[row + 1]]])
        best = sorted((-p[i], f"i{i}") for i in range(8) if i not in own)[:4]
        assert found.hit[mine].tolist() == [name in followed for _, name in best]


@pytest.mark.parametrize("at", ["moment", "cut"])
def test_no_fit_sees_a_click_after_its_cut(at):
    clicks = simulate(n_users=300, planted=5)
    first = clicks.times[clicks.sequence == clicks.columns_of(["planted"])[0]].min()
    result = bmcd.backtest(Oracle(), clicks, cuts=4, k=3, at=at, resamples=50)
    fits = [of for kind, of, *_ in Oracle.log if kind == "fit"]
    assert len(fits) == 4
    end = clicks.times.max() + np.timedelta64(1, "us")
    for number, fitted in enumerate(fits):
        cut = end - (4 - number) * np.timedelta64(1, "D")
        assert (fitted.times < cut).all()
        assert ("planted" in fitted.items.tolist()) == (first < cut)
        assert fitted.n_clicks == int((clicks.times < cut).sum())
    frame = result.to_frame()
    outside = frame["observed_outside"].tolist()
    unseen = ["planted" not in fitted.items.tolist() for fitted in fits]
    assert [share > 0 for share in outside[:4]] == [
        one and (first < end - (3 - number) * np.timedelta64(1, "D")) for number, one in enumerate(unseen)
    ]
    assert any(outside[:4])


def test_cuts_do_not_know_of_each_other_and_the_model_given_is_not_fitted(clicks):
    model = Oracle()
    whole = bmcd.backtest(model, clicks, cuts=3, k=3, resamples=50).to_frame()
    assert not hasattr(model, "clicks_")
    end = clicks.times.max() + np.timedelta64(1, "us")
    last = bmcd.backtest(model, clicks, [str(end - np.timedelta64(3, "D"))], k=3, resamples=50).to_frame()
    columns = ["n_users", "n_hits", "hit_rate", "predicted", "ece_at_k", "observed_outside"]
    assert whole[columns].iloc[0].tolist() == last[columns].iloc[0].tolist()


def test_scores_have_only_hits_and_several_models_one_table(clicks):
    result = bmcd.backtest({"oracle": Oracle(), "scores": Scores()}, clicks, cuts=2, k=3, resamples=50)
    frame = result.to_frame("polars")
    assert frame["model"].to_list() == ["oracle"] * 3 + ["scores"] * 3
    assert frame["cut"].to_list()[2] == "all"
    assert result.models == ["oracle", "scores"]
    scores = result.row(model="scores")
    assert scores.n_hits > 0
    assert np.isnan(scores.predicted)
    assert np.isnan(scores.ece_at_k)
    text, page = str(result), result._repr_html_()
    assert text.startswith("Back-test: lists of 3 for the next 3 clicks after a random moment of each user")
    assert "scores" in text
    assert "<table>" in page
    assert json.loads(json.dumps(result.to_dict(), allow_nan=False))["rows"][5]["predicted"] is None
    assert result.plot().axes


def test_all_is_the_sum_of_the_cuts(clicks):
    frame = bmcd.backtest(Oracle(), clicks, cuts=3, k=3, horizon=2, resamples=50).to_frame()
    cuts, total = frame.iloc[:3], frame.iloc[3]
    for column in ("n_users", "n_new_users", "n_with_fewer", "n_recommendations", "n_hits"):
        assert total[column] == cuts[column].sum()
    weights = cuts["n_recommendations"] / total["n_recommendations"]
    assert total["predicted"] == pytest.approx((cuts["predicted"] * weights).sum())
    assert total["hit_rate_low"] < total["hit_rate"] < total["hit_rate_high"]
    assert 0 < total["n_with_fewer"] < total["n_users"]


def test_what_a_model_expects_outside_is_beside_what_happened():
    class WithOutside(Oracle):
        def outside(self, horizon):
            return 0.1 * horizon

    clicks = simulate(n_users=300, planted=5)
    result = bmcd.backtest(WithOutside(), clicks, cuts=1, k=3, resamples=50)
    assert result.row().expected_outside == pytest.approx(0.1)
    assert 0 < result.row().observed_outside < 1
    assert "(10.0)" in str(result)


def test_without_a_clock_cuts_are_between_users(clicks):
    rows = clicks.to_frame().drop(columns="time")
    ordered = Clicks.from_frame(rows, order="rows")
    result = bmcd.backtest(Oracle(), ordered, cuts=2, k=3, horizon=1, resamples=50)
    assert result.cuts == ["50% of users", "75% of users"]
    assert abs(result.row().difference) < 0.05
    with pytest.raises(ClicksError, match="no clock, so a window of 1d has no meaning"):
        bmcd.backtest(Oracle(), ordered, window="1d")
    with pytest.raises(InputError, match="at='cut' needs a log with a clock"):
        bmcd.backtest(Oracle(), ordered, at="cut")


def test_repeated_clicks_may_be_next_clicks():
    rows = [(u, "ab"[n % 2], START + 60 * (40 * u + n)) for u in range(80) for n in range(6)]
    clicks = Clicks.from_frame(pd.DataFrame(rows, columns=["user", "item", "time"]))

    class Last:
        def fit(self, clicks):
            self.clicks_ = clicks
            return self

        def recommend_for(self, histories, k=10, *, unknown="error", horizon=None):
            own = [
                histories.sequence[a:b] for a, b in zip(histories.starts[:-1], histories.starts[1:], strict=True)
            ]
            items = ["a" if not len(one) or histories.items[one[-1]] == "b" else "b" for one in own]
            return pd.DataFrame({"user": histories.users, "item": items, "rank": 1, "probability": 1.0})

    result = bmcd.backtest(Last(), clicks, 2, "6h", k=1, horizon=1, repeats=True, resamples=50)
    assert result.row().hit_rate == 1.0 == result.row().predicted


def test_windows_without_clicks_are_left_out():
    """A site that stood still for two days, and settings that are chosen on a log with such a gap."""
    rows = [(u, "ab"[n], START + day * DAY + 60 * n) for day in (0, 1, 4) for u in range(9) for n in range(2)]
    rows = [(f"{u} on {int((t - START) // DAY)}", item, t) for u, item, t in rows]
    clicks = Clicks.from_frame(pd.DataFrame(rows, columns=["user", "item", "time"]))
    result = bmcd.backtest(Popularity(), clicks, cuts=4, window="1d", k=1, resamples=20)
    assert (len(result.cuts), len(result.without_clicks), len(result.splits)) == (2, 2, 2)
    assert not set(result.cuts) & set(result.without_clicks)
    assert result.row().n_users == 18
    note = f"left out, because nobody clicked in their windows: {', '.join(result.without_clicks)}"
    assert note in str(result)
    assert note in result._repr_html_()
    assert result.to_dict()["without_clicks"] == list(result.without_clicks)
    assert result.plot().axes
    late = clicks.keep(clicks.times != clicks.times.max())
    tuning = bmcd.tune(EASE, late, {"regularization": [1.0, 10.0]}, folds=6, k=1, n_threads=1)
    assert 1 <= tuning.fold_accuracy.shape[1] < 6
    assert np.isfinite(tuning.fold_accuracy).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"cuts": 0}, "cuts must be a whole number"),
        ({"cuts": 50}, "Use at most 5 cuts,"),
        ({"cuts": 9, "window": "3d"}, "Use at most 1 cut,"),
        ({"cuts": ["now"]}, "the time 'now' cannot be read"),
        ({"cuts": ["1999-01-01"]}, "outside the log"),
        ({"window": "30d"}, "longer than the log"),
        ({"window": "soon"}, "must be a duration"),
        ({"horizon": 0}, "horizon, a number of next clicks, must be"),
        ({"k": 0}, "k must be a whole number"),
        ({"at": "noon"}, "at must be 'moment' or 'cut'"),
        ({"level": 2}, "level must be between 0 and 1"),
    ],
)
def test_what_cannot_be_is_refused(clicks, options, message):
    with pytest.raises(ValueError, match=message):
        bmcd.backtest(Oracle(), clicks, **{"cuts": 2, "k": 3, "resamples": 20, **options})


def test_what_is_no_model_or_no_log(clicks):
    with pytest.raises(TypeError, match="must have fit and recommend_for"):
        bmcd.backtest({"it": object()}, clicks)
    with pytest.raises(InputError, match="no models"):
        bmcd.backtest({}, clicks)
    with pytest.raises(TypeError, match="clicks must be Clicks"):
        bmcd.backtest(Oracle(), clicks.to_frame())
    with pytest.raises(ClicksError, match="no order"):
        bmcd.backtest(Oracle(), Clicks.from_matrix(np.eye(4)))
    rows = [(u, "ab"[u % 2], START + (9 * DAY if u > 5 else 0) + u) for u in range(9)]
    gap = Clicks.from_frame(pd.DataFrame(rows, columns=["user", "item", "time"]))
    with pytest.raises(InputError, match="nobody clicked anything in the windows that begin at 2023-11-18"):
        bmcd.backtest(Oracle(), gap, ["2023-11-18"], k=1)
