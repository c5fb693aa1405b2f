"""evaluate: its options, and the forms its result comes in."""

import json

import numpy as np
import pandas as pd
import pytest

from bmcd import Clicks, evaluate


def with_probability(case):
    return case.recommendations.assign(probability=np.linspace(0.9, 0.2, len(case.recommendations)))


@pytest.mark.parametrize("n_popular", [0, 10, -1])
def test_a_number_of_popular_items_there_cannot_be(full_lists, n_popular):
    with pytest.raises(ValueError, match="n_popular must be 1 to 9"):
        evaluate(*full_lists, n_popular=n_popular)


def test_a_bad_bin_width_is_refused_also_without_probabilities(full_lists):
    with pytest.raises(ValueError, match="bin_width must divide 1"):
        evaluate(*full_lists, bin_width=0.3)


def test_to_dict_is_ready_for_json(full_lists):
    evaluation = evaluate(with_probability(full_lists), full_lists.train, full_lists.test, n_popular=6)
    again = json.loads(json.dumps(evaluation.to_dict(), allow_nan=False))
    assert again == evaluation.to_dict()
    assert (again["accuracy"], again["n_popular"], again["n_rare"]) == (evaluation.accuracy, 6, 4)
    assert evaluate(*full_lists).to_dict()["calibration"] is None


def test_to_frame(full_lists):
    evaluation = evaluate(with_probability(full_lists), full_lists.train, full_lists.test)
    table = evaluation.to_frame("polars")
    assert table.columns == ["measure", "value"]
    assert dict(table.iter_rows())["recall"] == evaluation.recall
    assert dict(table.iter_rows())["brier"] == evaluation.calibration.brier
    wide = evaluation.to_frame(level=0.9, resamples=200).set_index("measure")
    assert wide.loc["mrr", "low"] < evaluation.mrr < wide.loc["mrr", "high"]
    assert wide.loc["coverage", ["low", "high"]].isna().all()
    assert "brier" not in evaluate(*full_lists).to_frame()["measure"].tolist()


def test_brier_and_log_score_by_user_are_those_of_the_calibration(full_lists):
    evaluation = evaluate(with_probability(full_lists), full_lists.train, full_lists.test)
    assert evaluation.per_user["brier"].value == pytest.approx(evaluation.calibration.brier)
    assert evaluation.per_user["log_score"].value == pytest.approx(evaluation.calibration.log_score)


def test_the_result_reads_well(full_lists):
    text = repr(evaluate(*full_lists))
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
    assert evaluate(frame, train, test).accuracy == 0.5
