"""The recommendations and test clicks that `evaluate` takes and refuses."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from bmcd import Clicks, evaluate
from bmcd.errors import ClicksError


def with_probability(case):
    return case.recommendations.assign(probability=np.linspace(0.9, 0.2, len(case.recommendations)))


def test_every_kind_of_frame_in_any_order_gives_the_same(full_lists):
    frame = with_probability(full_lists)
    expected = evaluate(frame, full_lists.train, full_lists.test).to_dict()
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
        assert evaluate(same, full_lists.train, full_lists.test).to_dict() == expected


def test_large_ids_with_a_missing_one_are_not_rounded():
    """NumPy makes floats of integers with missing values; rows that lack an id are named."""
    ids = [2**53 + 1, 2**53]
    train = Clicks.from_matrix([[1, 0, 0], [0, 1, 0]], users=ids, items=[*ids, 5])
    test = Clicks.from_matrix([[0, 1, 0], [1, 0, 0]], users=ids, items=[*ids, 5])
    for make in (pl.DataFrame, lambda data: pd.DataFrame({k: pd.array(v, "Int64") for k, v in data.items()})):
        whole = {"user": ids, "item": ids[::-1], "rank": [1, 1]}
        assert evaluate(make(whole), train, test).n_hits == 2
        with pytest.raises(ClicksError, match="row 2, column user: the user id is missing"):
            evaluate(make({"user": [*ids, None], "item": [*ids, 5], "rank": [1, 1, 1]}), train, test)


def test_test_clicks_may_have_their_users_and_items_in_another_order(full_lists):
    frame = full_lists.test.to_frame().iloc[::-1]
    turned = Clicks.from_frame(frame)
    assert turned.items.tolist() != full_lists.test.items.tolist()
    evaluation = evaluate(full_lists.recommendations, full_lists.train, turned)
    assert evaluation.to_dict() == evaluate(*full_lists).to_dict()


def test_ids_of_any_kind():
    train = Clicks.from_matrix([[1, 0], [0, 1]], users=[("x", 1), ("y", 2)], items=[7, 9])
    test = Clicks.from_matrix([[0, 1], [1, 0]], users=[("x", 1), ("y", 2)], items=[7, 9])
    frame = pd.DataFrame({"user": [("x", 1)], "item": [9.0], "rank": [1]})
    assert evaluate(frame, train, test).n_hits == 1


def test_a_score_is_not_looked_at(full_lists):
    frame = full_lists.recommendations.assign(score=-5.0)
    assert evaluate(frame, full_lists.train, full_lists.test).to_dict() == evaluate(*full_lists).to_dict()


def test_rounding_beyond_0_and_1_is_put_right(full_lists):
    frame = full_lists.recommendations.assign(probability=1 + 1e-12)
    evaluation = evaluate(frame, full_lists.train, full_lists.test)
    assert evaluation.calibration.probability.tolist() == [1.0] * 15


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
        (changed(7, probability=1.2), r"row 7, column probability: the probability is 1.2 .* column 'score'"),
        (changed(7, probability=-0.1), r"row 7, column probability: the probability is -0.1"),
        (changed(7, probability=float("nan")), r"row 7, column probability: the probability is nan"),
        (lambda frame: frame[:0], r"there are no recommendations: the frame has no rows"),
        (lambda frame: frame.drop(columns="rank"), r"there is no column 'rank'; the columns are 'user', 'item'"),
        (lambda frame: frame.to_dict(), r"expected a pandas, polars or Arrow table, got dict"),
    ],
)
def test_bad_recommendations_are_refused_with_their_place(full_lists, change, message):
    with pytest.raises(ClicksError, match=message):
        evaluate(change(with_probability(full_lists)), full_lists.train, full_lists.test)


def test_longer_lists_than_k_are_refused(full_lists):
    with pytest.raises(ValueError, match=r"user 'u1' has 3 recommendations, but k is 2. Pass k=3"):
        evaluate(*full_lists, k=2)
    with pytest.raises(ValueError, match="k must be a whole number, 1 or more, but it is 0"):
        evaluate(*full_lists, k=0)


def test_bad_test_clicks_are_refused(full_lists):
    def refused(matrix, users, items, message):
        with pytest.raises(ClicksError, match=message):
            evaluate(full_lists.recommendations, full_lists.train, Clicks.from_matrix(matrix, users, items))

    refused([[1]], ["u9"], ["a"], "column user: the test clicks do not fit train: the user is not known: 'u9'")
    refused([[1]], ["u1"], ["z"], "column item: the test clicks do not fit train: the item is not known: 'z'")
    refused([[1, 1, 1]], ["u1"], ["d", "b", "a"], "user 'u1' clicked item 'b' in train and in test, and 1 more")
    with pytest.raises(TypeError, match="test must be Clicks or a Simulation, not DataFrame"):
        evaluate(full_lists.recommendations, full_lists.train, full_lists.test.to_frame())
    with pytest.raises(TypeError, match="train must be Clicks, not DataFrame"):
        evaluate(full_lists.recommendations, full_lists.train.to_frame(), full_lists.test)
