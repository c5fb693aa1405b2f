"""Similar items: those whose probability a click raises most, computed again from recommendations."""

import math

import numpy as np
import pytest

import bmcd
from bmcd.errors import InputError, UnknownIdError


@pytest.fixture(scope="module")
def shop():
    return bmcd.load_dataset("eshop").of_users(range(3000))


@pytest.fixture(scope="module")
def model(shop):
    return bmcd.Blend().fit(shop)


def by_hand(model, item):
    n = model.clicks_.n_items
    after, before = (
        model.recommend_for([history], k=n, horizon=1).set_index("item")["probability"] for history in ([item], [])
    )
    gains = {
        other: p * math.log(p / before[other])
        for other, p in after.items()
        if other != item and p > before[other] > 0
    }
    return sorted(gains, key=lambda other: -gains[other]), gains, after, before


@pytest.mark.filterwarnings("ignore::bmcd.errors.ShortListWarning")
def test_they_are_those_that_a_click_raises_most(model):
    for item in ("A2", "P1", model.clicks_.items[-1]):
        order, gains, after, before = by_hand(model, item)
        found = model.similar(item, k=8)
        assert found["item"].tolist() == order[:8]
        assert found["rank"].tolist() == list(range(1, len(found) + 1))
        np.testing.assert_allclose(found["probability"], after[found["item"]], rtol=1e-9)
        np.testing.assert_allclose(found["lift"], [after[i] / before[i] for i in found["item"]], rtol=1e-9)
        np.testing.assert_allclose(found["gain"], [gains[i] for i in found["item"]], rtol=1e-9)
        assert item not in set(found["item"])


def test_filters_and_ids(model):
    found = model.similar("A2", k=5, only={"category": ["trousers"]}, never={"colour": ["blue"]})
    table = model.clicks_.items_frame().set_index("item")
    assert set(table.loc[found["item"], "category"]) == {"trousers"}
    assert "blue" not in set(table.loc[found["item"], "colour"])
    assert set(model.similar("A2", k=5, items=["A3", "A4"])["item"]) <= {"A3", "A4"}
    with pytest.raises(UnknownIdError, match="Z9"):
        model.similar("Z9")
    with pytest.raises(InputError, match="k must be"):
        model.similar("A2", k=0)


def test_they_are_of_the_same_kind(model):
    """In a shop visitors compare what is alike: most similar items are of the item's own category."""
    table = model.clicks_.items_frame().set_index("item")["category"]
    popular = model.clicks_.items[np.argsort(-model.clicks_.per_item)[:30]].tolist()
    same = [np.mean(table[model.similar(item, k=5)["item"]] == table[item]) for item in popular]
    chance = (table.value_counts(normalize=True) ** 2).sum()
    assert np.mean(same) > 2 * chance
