"""Filters, list rules, similar items and the model card over HTTP, as in Python."""

import json

import numpy as np
import pytest

import bmcd
from bmcd.serve.messages import Recommend
from bmcd.serve.served_model import ServedModel

NASTY = "<b>kind</b> & more"


@pytest.fixture(scope="module")
def grouped(clicks):
    kinds = [NASTY if j % 3 == 0 else "plain" if j % 3 == 1 else "" for j in range(clicks.n_items)]
    table = {"item": clicks.items.tolist(), "kind": kinds, "price": list(range(clicks.n_items))}
    return clicks.with_items(table, groups=["kind"])


@pytest.fixture(scope="module")
def model(grouped):
    return bmcd.BMCD(2).fit(grouped, draws=6, chains=2, warmup=10, seed=1, progress=False)


@pytest.fixture(scope="module")
def ask(model, tmp_path_factory, inside):
    """Ask a service of the model: GET with a path, POST with a body too."""
    path = tmp_path_factory.mktemp("grouped") / "grouped.bmcd"
    model.save(path)
    running = inside(path=path)

    def ask(address, body=None, headers=None):
        async def question(client):
            if body is None:
                return await client.get(address, headers=headers)
            return await client.post(address, json=body)

        return running.run(question)

    return ask


def test_filters_and_rules_are_those_of_python(model, ask):
    people = [["i1", "i2"], []]
    filters = {"only": {"kind": [NASTY, "plain"]}, "never": {"price": [15, None]}}
    rules = {"group": "kind", "at_most": 2, "at_least_groups": 2}
    body = {"people": [{"clicked": own} for own in people], "k": 4, **filters, "rules": rules, "groups": True}
    answer = ask("/v1/recommend", body).json()
    want = model.recommend_for(people, 4, **filters, rules=bmcd.ListRules(**rules))
    found = [row for person in answer["people"] for row in person["recommendations"]]
    assert [row["item"] for row in found] == want["item"].tolist()
    np.testing.assert_allclose([row["probability"] for row in found], want["probability"])
    kinds = model.clicks_.items_table.groups["kind"]
    place = {item: column for column, item in enumerate(model.clicks_.items.tolist())}
    assert all(row["groups"] == {"kind": list(kinds.of_item(place[row["item"]]))} for row in found)
    assert answer["rules"]["price"] == pytest.approx(want.attrs["rules"]["price"])
    assert answer["rules"]["rules"] == [rules]
    without = ask("/v1/recommend", {"people": [{"clicked": []}], "k": 3}).json()
    assert "groups" not in without["people"][0]["recommendations"][0]
    assert "rules" not in without


def test_filters_of_users(model, ask):
    answer = ask("/v1/users/100/recommendations?k=3&only=kind:plain&groups=true").json()
    want = model.recommend(3, [100], only={"kind": ["plain"]})
    assert [row["item"] for row in answer["recommendations"]] == want["item"].tolist()


def test_similar_items(model, ask):
    answer = ask("/v1/items/i4/similar?k=3&never=kind:plain").json()
    want = model.similar("i4", 3, never={"kind": ["plain"]})
    assert [row["item"] for row in answer["similar"]] == want["item"].tolist()
    assert [row["lift"] for row in answer["similar"]] == pytest.approx(want["lift"].tolist())
    assert ask("/v1/items/nobody/similar").status_code == 422


def test_the_card(ask):
    card = ask("/v1/card").json()
    assert card["title"] == "Model card: BMCD"
    assert NASTY in json.dumps(card)
    page = ask("/v1/card", headers={"accept": "text/html"})
    assert page.headers["content-type"].startswith("text/html")
    assert NASTY not in page.text
    assert "&lt;b&gt;kind" in page.text


@pytest.mark.parametrize(
    ("more", "text"),
    [
        ({"only": {"kind": ["none"]}}, "there is no group 'none'"),
        ({"only": {"nothing": ["x"]}}, "no column 'nothing'"),
        ({"never": {"price": ["cheap"]}}, "column of numbers"),
        ({"rules": {"at_least_groups": 3}}, "only 2 have items"),
        ({"rules": {"at_most": 0}}, "t_most must be"),
        ({"rules": {"at_most": 2, "extra": 1}}, "extra"),
        ({"only": {f"c{i}": [] for i in range(60)}}, "32"),
    ],
)
def test_what_cannot_be_is_told(ask, more, text):
    answer = ask("/v1/recommend", {"people": [{"clicked": []}], "k": 3, **more})
    assert answer.status_code == 422
    assert text in json.dumps(answer.json())


def test_a_query_without_a_column(ask):
    answer = ask("/v1/users/100/recommendations?only=plain")
    assert answer.status_code == 422
    assert "such as section:sports" in answer.json()["detail"]


def test_models_without_a_table_say_so(files):
    served = ServedModel.from_file(files["bmcd"])
    assert served.about["groups"] == {}
    with pytest.raises(ValueError, match="fitted without one"):
        served.recommend(Recommend(people=[{"clicked": []}], k=3, only={"kind": ["x"]}))
