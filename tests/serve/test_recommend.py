"""Answers equal those of the model to the last digit, for models of every kind, whatever runs beside them."""

import asyncio
import random
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import pytest

import bmcd
from bmcd.serve.messages import Wanted
from bmcd.serve.served_model import ServedModel

pytestmark = pytest.mark.chance(0)

KINDS = ("bmcd", "tastes", "blend")


def expected(model, histories, k=10, **options):
    """What `recommend_for` gives, in the form of an answer."""
    frame = model.recommend_for(histories, k, **options)
    rows = {number: [] for number in range(len(histories))}
    for row in frame.to_dict("records"):
        rows[row.pop("user")].append(row)
    return [rows[number] for number in range(len(histories))]


def some_people(clicks, seed, n=12):
    chosen = random.Random(seed)
    return [chosen.sample(clicks.items.tolist(), chosen.randrange(0, 9)) for _ in range(n)]


@pytest.mark.parametrize("kind", KINDS)
def test_answers_are_those_of_recommend_for(kind, files, inside, clicks, rotating_seed):
    model, people = bmcd.load(files[kind]), some_people(clicks, rotating_seed)
    body = {
        "people": [{"clicked": own} for own in people],
        "k": 4,
        "min_probability": 0.2,
        "items": ["i1", "i2", "i7"],
    }

    async def ask(client):
        return (await client.post("/v1/recommend", json=body)).json()

    answer = inside(kind).run(ask)
    want = expected(model, people, 4, min_probability=0.2, items=["i1", "i2", "i7"])
    assert [one["recommendations"] for one in answer["people"]] == want
    assert answer["k"] == 4


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_changes_when_many_ask_at_once(kind, files, inside, clicks, rotating_seed):
    model, people = bmcd.load(files[kind]), some_people(clicks, rotating_seed, 60)

    async def ask(client):
        bodies = [{"people": [{"clicked": own}], "k": 5} for own in people]
        return await asyncio.gather(*(client.post("/v1/recommend", json=body) for body in bodies))

    answers = inside(kind, slots=8, queue=200).run(ask)
    found = [one.json()["people"][0]["recommendations"] for one in answers]
    assert found == [expected(model, [own], 5)[0] for own in people]


@pytest.mark.parametrize("layer", ["default", "omp", "workqueue"])
def test_many_callers_of_a_process_under_every_threading_layer(layer, files, start, clicks, rotating_seed):
    """Numba's parallel kernels abort a process that calls them from two threads: there must be none."""
    model, people = bmcd.load(files["bmcd"]), some_people(clicks, rotating_seed, 40)
    service = start(files["bmcd"], "--slots", "8", env={"NUMBA_THREADING_LAYER": layer})
    with service.client() as client, ThreadPoolExecutor(16) as pool:
        answers = list(
            pool.map(lambda own: client.post("/v1/recommend", json={"people": [{"clicked": own}]}).json(), people)
        )
    assert [one["people"][0]["recommendations"] for one in answers] == [expected(model, [own])[0] for own in people]
    assert service.process.poll() is None


def test_a_user_of_the_model_gets_what_recommend_gives(running, files):
    model = bmcd.load(files["tastes"])
    with running.client() as client:
        answer = client.get("/v1/users/107/recommendations", params={"k": 3, "min_probability": 0.1})
    want = model.recommend(3, users=[107], min_probability=0.1).drop(columns="user").to_dict("records")
    assert answer.json()["recommendations"] == want
    assert answer.json()["id"] == 107


def test_unknown_items_are_left_out_and_listed(running, files):
    model = bmcd.load(files["tastes"])
    with running.client() as client:
        people = [{"clicked": ["i1", "no", 5, "no"], "id": "ann"}, {"clicked": [], "id": 4}]
        answer = client.post("/v1/recommend", json={"people": people, "exclude": ["i2", "unheard of"]}).json()
    assert [one["unknown_items"] for one in answer["people"]] == [["no", 5], []]
    assert [one["id"] for one in answer["people"]] == ["ann", 4]
    others = [item for item in model.clicks_.items if item != "i2"]
    assert [one["recommendations"] for one in answer["people"]] == expected(model, [["i1"], []], items=others)


def test_ids_are_found_by_value_or_by_text(tmp_path, inside):
    clicks = bmcd.Clicks.from_matrix(np.eye(6, dtype=int) + np.eye(6, k=1, dtype=int), items=[1, 2, 3, 4, 5, 6])
    bmcd.Tastes(2, chains=2).fit(clicks, draws=2, warmup=2).save(tmp_path / "m.bmcd")

    async def ask(client):
        bodies = [{"people": [{"clicked": own}], "k": 2} for own in ([1, 2], ["1", "2"])]
        return [(await client.post("/v1/recommend", json=body)).json() for body in bodies]

    first, second = inside(path=tmp_path / "m.bmcd").run(ask)
    assert first == second
    assert isinstance(first["people"][0]["recommendations"][0]["item"], int)


@pytest.mark.parametrize("kind", KINDS)
def test_explanations_are_those_of_the_model(kind, files, inside):
    model = bmcd.load(files[kind])

    async def ask(client):
        by_clicks = await client.post("/v1/explain", json={"clicked": ["i1", "i5", "x"], "item": "i9", "k": 4})
        by_user = await client.post("/v1/explain", json={"user": "103", "item": item, "k": 4})
        return by_clicks.json(), by_user.json()

    item = model.recommend(1, users=[103])["item"][0]
    by_clicks, by_user = inside(kind).run(ask)
    one, other = model.explain(None, "i9", 4, history=["i1", "i5"]), model.explain(103, item, 4)
    for answer, found in ((by_clicks, one), (by_user, other)):
        assert answer["probability"] == found.probability
        assert answer["text"] == str(found)
    assert by_clicks["unknown_items"] == ["x"]
    if kind == "blend":
        parts = by_clicks["parts"]["Tastes"]["tastes"]
        assert (
            parts[0]["contribution"]
            == model.models_["Tastes"].explain(None, "i9", 4, history=["i1", "i5"]).tastes[0].contribution
        )


def test_mlflow_forms_give_the_same_rows(running, files):
    model = bmcd.load(files["tastes"])
    rows = [("ann", "i1"), ("bob", None), ("ann", "i4")]
    records = [{"user": user, "item": item} for user, item in rows]
    forms = (
        {"dataframe_split": {"columns": ["user", "item"], "data": [list(row) for row in rows]}},
        {"dataframe_records": records},
        {"instances": records},
        {"inputs": {"user": [row[0] for row in rows], "item": [row[1] for row in rows]}},
    )
    with running.client() as client:
        answers = [client.post("/invocations", json=form | {"params": {"k": 2}}) for form in forms]
        alone = client.post("/invocations", json={"inputs": {"item": ["i1", "i4"]}, "params": {"k": 2}})
        assert client.get("/ping").status_code == 200
    want = model.recommend_for({"ann": ["i1", "i4"], "bob": []}, 2).to_dict("records")
    assert [answer.json()["predictions"] for answer in answers] == [want] * 4
    assert alone.json()["predictions"] == [{name: row[name] for name in row if name != "user"} for row in want[:2]]


def test_what_a_user_clicked_is_given_in_click_order():
    """The latest click last, each item once, so that it can be asked for again as it is; by item without order."""
    rows = pd.DataFrame({"user": ["ann"] * 5 + ["bob"] * 5, "item": [*"dbadc", *"abcde"]})
    wanted = {"rows": ["b", "a", "d", "c"], None: ["d", "b", "a", "c"]}
    for order, items in wanted.items():
        clicks = bmcd.Clicks.from_frame(rows, order=order)
        model = bmcd.BMCD(1).fit(clicks, draws=2, warmup=1, chains=1)
        served = ServedModel(model, "")
        assert served.recommend_to_user("ann", Wanted(k=1))["clicked"] == items
