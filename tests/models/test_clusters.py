"""Names of clusters: given by people, kept in the file; or suggested by what sets a cluster apart."""

import pandas as pd
import pytest

import bmcd
from bmcd import container
from bmcd.errors import InputError, StoreError
from bmcd.models.clusters import suggest_names
from bmcd.models.persistence import pack
from bmcd.testing import example_clicks

SHORT = {"draws": 6, "warmup": 4, "chains": 2, "seed": 1}
KINDS = {
    "BMCD": lambda: bmcd.BMCD(2).fit(example_clicks(), **SHORT),
    "Tastes": lambda: bmcd.Tastes(2, chains=2).fit(example_clicks(), draws=4, warmup=10, seed=1),
}


@pytest.fixture(params=KINDS)
def model(request):
    return KINDS[request.param]()


def test_a_name_is_shown_wherever_the_cluster_is(model):
    assert model.name_clusters({1: "skirts"}) is model
    assert " 1 (skirts): " in str(model.clusters_)
    assert model.clusters_[1].name is None
    assert model.clusters_.to_frame()["name"].iloc[0] == "skirts"
    best = model.recommend(k=1)
    explained = [model.explain(user, item) for user, item in zip(best["user"], best["item"], strict=True)]
    assert any(" 1 (skirts), wh" in str(one) for one in explained)
    for one in explained:
        parts = one.clusters if hasattr(one, "clusters") else one.tastes
        numbers = [getattr(part, "cluster", None) or part.taste for part in parts]
        assert [part.name for part in parts] == ["skirts" if number == 1 else None for number in numbers]


def test_columns_of_memberships_keep_their_numbers(model):
    before = model.memberships()
    pd.testing.assert_frame_equal(model.name_clusters({1: "skirts"}).memberships(), before)
    assert before.columns.tolist() == ["user", "1", "2"]


def test_names_are_kept_in_the_file_and_forgotten_by_a_new_fit(model, tmp_path):
    model.name_clusters({2: "röcke"}).save(tmp_path / "m.bmcd")
    other = bmcd.load(tmp_path / "m.bmcd")
    assert [c.name for c in other.clusters_] == [None, "röcke"]
    other.name_clusters({1: "a", 2: ""})
    assert [c.name for c in other.clusters_] == ["a", None]
    other.fit(example_clicks(), draws=4, warmup=4, chains=2)
    assert [c.name for c in other.clusters_] == [None, None]


@pytest.mark.parametrize("names", [{0: "a"}, {3: "a"}, {True: "a"}, {"1": "a"}, {1: 7}, {1: "two\nlines"}, ["a"]])
def test_bad_names_are_refused(names):
    model = KINDS["BMCD"]()
    with pytest.raises(InputError):
        model.name_clusters(names)
    assert [c.name for c in model.clusters_] == [None, None]


@pytest.mark.parametrize("names", [[1], {"x": "a"}, {"9": "a"}, {"1": None}, "skirts"])
def test_bad_names_in_a_file_are_refused(names, tmp_path):
    header, arrays = pack(KINDS["BMCD"](), clicks=True)
    container.write(tmp_path / "bad.bmcd", "model", {**header, "cluster_names": names}, arrays)
    with pytest.raises(StoreError, match="damaged"):
        bmcd.load(tmp_path / "bad.bmcd")


@pytest.mark.slow
def test_a_blend_names_the_clusters_of_its_first_part_that_has_some(tmp_path):
    parts = {"EASE": bmcd.baselines.EASE(), "BMCD": bmcd.BMCD(2)}
    blend = bmcd.Blend(parts).fit(example_clicks(), seed=1, fit_options={"BMCD": SHORT | {"seed": 1}})
    blend.name_clusters({1: "skirts"}).save(tmp_path / "blend.bmcd")
    assert [c.name for c in bmcd.load(tmp_path / "blend.bmcd").clusters_] == ["skirts", None]
    alone = bmcd.Blend(bmcd.baselines.EASE()).fit(example_clicks(), seed=1)
    with pytest.raises(InputError, match="no member of this blend has clusters: EASE"):
        alone.name_clusters({1: "skirts"})


def test_suggestions_come_from_shared_words_or_from_titles():
    shop = [
        f"{color} {kind} {n}" for n, color in enumerate(["red", "blue", "gray", "red"]) for kind in ("skirt", "hat")
    ]
    skirts, hats = shop[::2], shop[1::2]
    assert suggest_names([skirts, hats], shop) == ["skirt", "hat"]
    # Two of the same words cannot be told apart without a title; nor do numbers say anything.
    assert suggest_names([skirts, skirts[1:]], shop) == ["skirt: red skirt 0", "skirt: blue skirt 1"]
    assert suggest_names([["17", "12"]], ["12", "17", "30"]) == ["17 + 12"]
    assert suggest_names([["9" * 50]], ["9" * 50]) == ["9" * 29 + "…"]
