"""The contract itself: each way to break it must be noticed."""

import pandas as pd
import pytest

from bmcd.baselines import Popularity, Transitions
from bmcd.errors import ContractError
from bmcd.testing import check_recommender, example_clicks


def with_change(change):
    """A recommender that is right, but for what ``change`` does to its frames."""

    class Changed(Popularity):
        def recommend(self, k=10, users=None, items=None):
            return change(super().recommend(k, users, items), k, users)

    return Changed


def with_clicked_item(frame, k, users):
    return frame.assign(
        item=["i05" if rank == 1 else item for rank, item in zip(frame["rank"], frame["item"], strict=True)]
    )


def other_scores_alone(frame, k, users):
    return frame if users is None else frame.assign(score=frame["score"] + 1)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (with_clicked_item, "that were clicked|an item twice"),
        (lambda frame, k, users: frame[frame["rank"] < k], "gets 3 items, not 4"),
        (lambda frame, k, users: frame.assign(rank=frame["rank"] + 1), "has the ranks"),
        (lambda frame, k, users: frame.assign(score=frame["rank"] * 1.0), "best first"),
        (lambda frame, k, users: frame.assign(score=float("nan")), "not finite"),
        (
            lambda frame, k, users: frame.rename(columns={"score": "probability"}).assign(probability=1.5),
            "probabilities",
        ),
        (lambda frame, k, users: frame.drop(columns="score"), "probability or score"),
        (lambda frame, k, users: frame.sort_values(["rank", "user"]), "come together"),
        (other_scores_alone, "what they get together"),
    ],
)
def test_every_wrong_frame_is_noticed(change, message):
    with pytest.raises(ContractError, match=message):
        check_recommender(with_change(change))


class Remembers(Popularity):
    """It stays with the clicks it was fitted to first."""

    def fit(self, clicks, **options):
        self.first = getattr(self, "first", clicks)
        return super().fit(self.first, **options)


class ReturnsNothing(Popularity):
    def fit(self, clicks, **options):
        super().fit(clicks, **options)


class ForgetsAClick(Popularity):
    """It changes the caller's clicks."""

    def fit(self, clicks, **options):
        clicks.matrix.data[0] = False
        return super().fit(clicks, **options)


class NeverRefuses(Popularity):
    def recommend(self, k=10, users=None, items=None):
        try:
            return super().recommend(k, users, items)
        except (ValueError, KeyError):
            return pd.DataFrame()


class HasNoHistories(Popularity):
    recommend_for = None


class RecommendsWhatWasClicked(Popularity):
    def recommend_for(self, histories, k=10, items=None, unknown="error"):
        return super().recommend_for({user: [] for user in histories}, k, items, unknown)


class KnowsEverything(Popularity):
    def recommend_for(self, histories, k=10, items=None, unknown="error"):
        return super().recommend_for(histories, k, items, "ignore")


class RefusesUnknownItems(Popularity):
    def recommend_for(self, histories, k=10, items=None, unknown="error"):
        return super().recommend_for(histories, k, items, "error")


class ScoresEverybodyTogether(Popularity):
    def recommend_for(self, histories, k=10, items=None, unknown="error"):
        frame = super().recommend_for(histories, k, items, unknown)
        return frame.assign(score=frame["score"] + frame["user"].nunique())


class ReadsListsBackwards(Transitions):
    """It takes the first item of a list for the latest."""

    def recommend_for(self, histories, k=10, items=None, unknown="error"):
        if isinstance(histories, dict):
            histories = {user: items[::-1] for user, items in histories.items()}
        return super().recommend_for(histories, k, items, unknown)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (HasNoHistories, "method recommend_for"),
        (RecommendsWhatWasClicked, "that were clicked"),
        (KnowsEverything, "must be an error"),
        (RefusesUnknownItems, "unknown"),
        (ScoresEverybodyTogether, "among others"),
        (Remembers, "gets|come together|like a new one"),
        (ReturnsNothing, "return the model"),
        (ForgetsAClick, "not change the clicks"),
        (NeverRefuses, "must be an error"),
    ],
)
def test_a_model_that_breaks_the_contract_is_noticed(model, message):
    with pytest.raises(ContractError, match=message):
        check_recommender(model)


def test_a_model_that_keeps_the_contract_passes():
    check_recommender(Popularity)
    check_recommender(Popularity, clicks=example_clicks(ordered=True))


def test_histories_read_backwards_are_noticed():
    with pytest.raises(ContractError, match="from a list and from a frame"):
        check_recommender(ReadsListsBackwards, clicks=example_clicks(ordered=True))


def test_example_clicks_are_the_same_with_and_without_order():
    ordered, plain = example_clicks(ordered=True), example_clicks()
    assert ordered.order == "time"
    assert ordered.has_clock
    assert ordered.n_repeated > 20
    clicked = ordered.matrix[ordered.rows_of(plain.users)][:, ordered.columns_of(plain.items)]
    assert (clicked != plain.matrix).nnz == 0
