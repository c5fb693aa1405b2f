"""The contract itself: each way to break it must be noticed."""

import pandas as pd
import pytest

from bmcd.baselines import Popularity
from bmcd.errors import ContractError
from bmcd.testing import check_recommender


class Broken(Popularity):
    """Right, but for what a test puts in the place of `change`."""

    def recommend(self, k=10, users=None, items=None):
        return self.change(super().recommend(k, users, items), k, users)


def broken(change):
    return type("Broken", (Broken,), {"change": staticmethod(change)})


def clicked_item(frame, k, users):
    return frame.assign(
        item=["i05" if rank == 1 else item for rank, item in zip(frame["rank"], frame["item"], strict=True)]
    )


def alone_differs(frame, k, users):
    return frame if users is None else frame.assign(score=frame["score"] + 1)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (clicked_item, "that were clicked|an item twice"),
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
        (alone_differs, "what they get together"),
    ],
)
def test_every_breach_is_noticed(change, message):
    with pytest.raises(ContractError, match=message):
        check_recommender(broken(change))


def test_a_model_that_remembers_or_meddles_is_noticed():
    class Remembers(Popularity):
        def fit(self, clicks, **options):
            self.first = getattr(self, "first", clicks)
            return super().fit(self.first, **options)

    class ReturnsNothing(Popularity):
        def fit(self, clicks, **options):
            super().fit(clicks, **options)

    class Permissive(Popularity):
        def recommend(self, k=10, users=None, items=None):
            try:
                return super().recommend(k, users, items)
            except (ValueError, KeyError):
                return pd.DataFrame()

    for model, message in (
        (Remembers, None),
        (ReturnsNothing, "return the model"),
        (Permissive, "must be an error"),
    ):
        with pytest.raises((ContractError, KeyError), match=message):
            check_recommender(model)
    check_recommender(Popularity)  # and what is right passes
