"""What `evaluate` takes and refuses, and the forms its result comes in."""

import json

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import bmcd
from bmcd import Clicks, ClicksError, evaluate


def with_probability(case):
    return case.recommendations.assign(probability=np.linspace(0.9, 0.2, len(case.recommendations)))


def test_every_kind_of_frame_in_any_order_gives_the_same(full):
    frame = with_probability(full)
    expected = evaluate(frame, full.train, full.test).to_dict()
    assert expected["calibration"]["brier"] > 0
    shuffled = frame.sample(frac=1, random_state=3)
    other = pl.from_pandas(frame)
    for same in (
        shuffled,
        other,
        other.lazy(),
        pa.Table.from_pandas(frame),
        frame.assign(rank=frame["rank"] * 1.0),
    ):
        assert evaluate(same, full.train, full.test).to_dict() == expected


def test_test_clicks_may_have_their_users_and_items_in_another_order(full):
    frame = full.test.to_frame().iloc[::-1]
    turned = Clicks.from_frame(frame)
    assert turned.items.tolist() != full.test.items.tolist()
    assert evaluate(full.recommendations, full.train, turned).to_dict() == evaluate(*full).to_dict()


def test_ids_of_any_kind():
    train = Clicks.from_matrix([[1, 0], [0, 1]], users=[("x", 1), ("y", 2)], items=[7, 9])
    test = Clicks.from_matrix([[0, 1], [1, 0]], users=[("x", 1), ("y", 2)], items=[7, 9])
    frame = pd.DataFrame({"user": [("x", 1)], "item": [9.0], "rank": [1]})
    assert evaluate(frame, train, test).n_hits == 1


def test_a_score_is_not_looked_at(full):
    frame = full.recommendations.assign(score=-5.0)
    assert evaluate(frame, full.train, full.test).to_dict() == evaluate(*full).to_dict()


def test_rounding_beyond_0_and_1_is_put_right(full):
    frame = full.recommendations.assign(probability=1 + 1e-12)
    found = evaluate(frame, full.train, full.test).calibration
    assert found.probability.tolist() == [1.0] * 15


def changed(row, **values):
    def change(frame):
        frame = frame.copy().astype({name: object for name in values})
        for name, value in values.items():
            frame.loc[row, name] = value
        return frame

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (changed(4, item="b", rank=2), r"row 4: item 'b' is recommended to user 'u2' twice"),
        (changed(0, item="a"), r"row 0: user 'u1' already clicked the recommended item 'a' in train"),
        (changed(5, user="u9"), r"row 5, column user: the user 'u9' is not in train, whose first user is 'u1'"),
        (changed(5, item="z"), r"row 5, column item: the item 'z' is not in train"),
        (changed(5, item=None), r"row 5, column item: the item id is missing"),
        (
            changed(2, rank=4),
            r"column rank: the ranks of user 'u1' are not 1, 2, ...: where 3 should follow, there is 4",
        ),
        (changed(1, rank=1), r"the ranks of user 'u1' .* where 2 should follow, there is 1"),
        (changed(0, rank=0), r"row 0, column rank: the rank is 0 .*Ranks are 1, 2"),
        (changed(1, rank=1.5), r"row 1, column rank: the rank is 1.5"),
        (changed(1, rank=None), r"row 1, column rank: the rank is (None|nan)"),
        (changed(1, rank="two"), r"column rank: the column must hold numbers"),
        (changed(7, probability=1.2), r"row 7, column probability: the probability is 1.2, .* column 'score'"),
        (changed(7, probability=-0.1), r"row 7, column probability: the probability is -0.1"),
        (changed(7, probability=float("nan")), r"row 7, column probability: the probability is nan"),
        (lambda frame: frame[:0], r"there are no recommendations: the frame has no rows"),
        (lambda frame: frame.drop(columns="rank"), r"there is no column 'rank'; the columns are 'user', 'item'"),
        (lambda frame: frame.to_dict(), r"expected a pandas, polars or Arrow table, got dict"),
    ],
)
def test_bad_recommendations_are_refused_with_their_place(full, change, message):
    with pytest.raises(ClicksError, match=message):
        evaluate(change(with_probability(full)), full.train, full.test)


def test_longer_lists_than_k_are_refused(full):
    with pytest.raises(ValueError, match=r"user 'u1' has 3 recommendations, but k is 2. Pass k=3"):
        evaluate(*full, k=2)
    with pytest.raises(ValueError, match="k must be 1 or more, but it is 0"):
        evaluate(*full, k=0)


@pytest.mark.parametrize("n_popular", [0, 10, -1])
def test_a_number_of_popular_items_there_cannot_be(full, n_popular):
    with pytest.raises(ValueError, match="n_popular must be 1 to 9"):
        evaluate(*full, n_popular=n_popular)


def test_a_bad_bin_width_is_refused_also_without_probabilities(full):
    with pytest.raises(ValueError, match="bin_width must divide 1"):
        evaluate(*full, bin_width=0.3)


def test_bad_test_clicks_are_refused(full):
    def refused(matrix, users, items, message):
        with pytest.raises(ClicksError, match=message):
            evaluate(full.recommendations, full.train, Clicks.from_matrix(matrix, users, items))

    refused([[1]], ["u9"], ["a"], "column user: the test clicks have the user 'u9', which is not in train")
    refused([[1]], ["u1"], ["z"], "column item: the test clicks have the item 'z', which is not in train")
    refused([[1, 1, 1]], ["u1"], ["d", "b", "a"], "user 'u1' clicked item 'b' in train and in test, and 1 more")
    with pytest.raises(TypeError, match="test must be Clicks or a Simulation, not DataFrame"):
        evaluate(full.recommendations, full.train, full.test.to_frame())
    with pytest.raises(TypeError, match="train must be Clicks, not DataFrame"):
        evaluate(full.recommendations, full.train.to_frame(), full.test)


def test_to_dict_is_ready_for_json(full):
    found = evaluate(with_probability(full), full.train, full.test, n_popular=6)
    again = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert again == found.to_dict()
    assert (again["accuracy"], again["n_popular"], again["n_rare"]) == (found.accuracy, 6, 4)
    assert evaluate(*full).to_dict()["calibration"] is None


def test_to_frame(full):
    found = evaluate(with_probability(full), full.train, full.test)
    table = found.to_frame("polars")
    assert table.columns == ["measure", "value"]
    assert dict(table.iter_rows())["recall"] == found.recall
    assert dict(table.iter_rows())["brier"] == found.calibration.brier
    wide = found.to_frame(level=0.9, resamples=200).set_index("measure")
    assert wide.loc["mrr", "low"] < found.mrr < wide.loc["mrr", "high"]
    assert wide.loc["coverage", ["low", "high"]].isna().all()
    assert "brier" not in evaluate(*full).to_frame()["measure"].tolist()


def test_brier_and_log_score_by_user_are_those_of_the_calibration(full):
    found = evaluate(with_probability(full), full.train, full.test)
    assert found.per_user["brier"].value == pytest.approx(found.calibration.brier)
    assert found.per_user["log_score"].value == pytest.approx(found.calibration.log_score)


def test_the_result_reads_well(full):
    text = repr(evaluate(*full))
    assert text.startswith("Evaluation(7 hits in 15 recommendations to 5 users, k=3)\n  accuracy")
    assert "0.4667" in text
    assert text.endswith("rare: not among the 2 most clicked of 9 items)")


def test_the_size_of_the_papers_data():
    """7,872 users, 200 items, 10 recommendations each, half of them hits."""
    rng = np.random.default_rng(0)
    n_users, n_items, k = 7872, 200, 10
    order = np.argsort(rng.random((n_users, n_items)) * np.arange(1, n_items + 1), axis=1)
    parts = np.zeros((2, n_users, n_items), dtype=bool)
    for part, items in zip(parts, (order[:, :10], order[:, 10:20]), strict=True):
        np.put_along_axis(part, items, True, axis=1)
    ids = [f"user {u}" for u in range(n_users)], [f"item {i}" for i in range(n_items)]
    train, test = (Clicks.from_matrix(part, *ids) for part in parts)
    frame = pd.DataFrame({"user": np.repeat(train.users, k), "item": train.items[order[:, 15:25].ravel()]})
    frame = frame.assign(rank=np.tile(np.arange(1, k + 1), n_users), probability=rng.random(n_users * k))
    assert bmcd.evaluate(frame, train, test).accuracy == 0.5
