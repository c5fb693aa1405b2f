"""What else can be asked, and how what cannot be answered is refused: always a problem with a remedy."""

import re
from urllib.parse import quote

import pytest

import bmcd
from bmcd.serve.settings import Limits, Settings

KEY = "a key nobody guesses"


def ask_inside(inside, method, path, kind="tastes", settings=None, **options):
    async def ask(client):
        return await client.request(method, path, **options)

    return inside(kind, **(settings or {})).run(ask)


def test_items_are_searched_by_title_and_id(running, clicks):
    with running.client() as client:
        found = client.get("/v1/items", params={"q": "item 1", "limit": 3}).json()
        everything = client.get("/v1/items", params={"limit": 1000}).json()["items"]
        some = client.get("/v1/items", params={"ids": ["i3", "none", "i1"]}).json()["items"]
    with_it = [title for title in clicks.titles.tolist() if "item 1" in title.lower()]
    assert found["total"] == len(with_it)
    assert len(found["items"]) == 3
    counts = [one["clicks"] for one in everything]
    assert counts == sorted(counts, reverse=True)
    assert sum(counts) == clicks.n_clicks
    assert [(one["item"], one["title"]) for one in some] == [("i3", "<b>bold</b> & \u202eodd"), ("i1", "Item 1")]


def test_the_model_tells_about_itself(running, files):
    model = bmcd.load(files["tastes"])
    with running.client() as client:
        about, clusters = client.get("/v1/model").json(), client.get("/v1/clusters").json()
    assert about["data"] == {"users": 80, "items": 20, "clicks": model.clicks_.n_clicks, "holds_clicks": True}
    assert about["verdict"]["text"] == model.verdict_.text
    assert about["limits"] == vars(Limits())
    assert about["calibration"] is None
    assert [one["share"] for one in clusters["clusters"]] == [one.share for one in model.clusters_]
    assert clusters["model"] == about["hash"]


def test_calibration_is_measured_on_test_clicks(start, files, clicks, tmp_path):
    train, test = clicks.at_least(4).hold_out(2, seed=1)
    model = bmcd.Tastes(3, chains=2).fit(train, draws=2, warmup=5, seed=1)
    model.save(tmp_path / "m.bmcd")
    test.to_frame().to_csv(tmp_path / "test.csv", index=False)
    service = start(tmp_path / "m.bmcd", "--test", str(tmp_path / "test.csv"))
    with service.client() as client:
        found = client.get("/v1/model").json()["calibration"]
    want = bmcd.evaluate(model.recommend(2), train, test, k=2)
    assert found["users"] == train.n_users
    assert (found["hit_rate"], found["brier"]) == (want.accuracy, want.calibration.brier)
    assert found["promised"] == pytest.approx(want.calibration.probability.mean(), abs=1e-12)


def test_a_model_without_clicks_answers_for_people_only(inside):
    refused = ask_inside(inside, "GET", "/v1/users/107/recommendations", "without")
    assert refused.status_code == 404
    assert "without the clicks" in refused.json()["detail"]
    body = {"people": [{"clicked": ["i1"]}]}
    assert ask_inside(inside, "POST", "/v1/recommend", "without", json=body).status_code == 200


@pytest.mark.parametrize("kind", ["bmcd", "tastes", "blend", "without"])
def test_examples_of_the_description_work(kind, inside):
    async def try_all(client):
        description = (await client.get("/openapi.json")).json()
        tried = []
        for path, methods in description["paths"].items():
            for method, about in methods.items():
                values = {one["name"]: one.get("example") for one in about.get("parameters", [])}
                in_path = {name: values.pop(name) for name in ("user", "item") if f"{{{name}}}" in path}
                if None in in_path.values():
                    continue
                address = path.format(**in_path)
                given = {name: value for name, value in values.items() if value is not None}
                content = about.get("requestBody", {}).get("content", {}).get("application/json", {})
                body = {"json": content["example"]} if content else {}
                answer = await client.request(method, address, params=given, **body)
                tried.append((method, path, answer.status_code))
        return tried

    tried = inside(kind).run(try_all)
    assert {status for *_, status in tried} == {200}
    assert len(tried) >= 11


REFUSED = [
    ({"people": []}, "people"),
    ({"people": [{"clicked": ["i1"]}], "k": 0}, "k"),
    ({"people": [{"clicked": ["i1"]}], "k": 201}, "k"),
    ({"people": [{"clicked": ["i1"]}], "k": "3"}, "k"),
    ({"people": [{"clicked": ["i1"]}], "min_probability": 1.5}, "min_probability"),
    ({"people": [{"clicked": ["i1"]}], "top": 3}, "top"),
    ({"people": [{"clicked": [["i1"]]}]}, "people.0.clicked.0"),
    ({"people": [{"clicked": [True]}]}, "people.0.clicked.0"),
    ({"people": [{"clicked": [None]}]}, "people.0.clicked.0"),
    ({"people": [{"clicked": ["i1"], "name": "x"}]}, "people.0.name"),
    ({"people": [{"id": 4}]}, "people.0.clicked"),
    ({"people": [{"clicked": ["x" * 501]}]}, "500"),
    ({"people": [{"clicked": [10**30]}]}, "too large"),
    ({"people": [{"clicked": ["i1"] * 5001}]}, "5,001"),
    ({"people": [{"clicked": []}] * 501}, "501"),
    ({"people": [{"clicked": []}], "items": ["i1", "nope"]}, "nope"),
    ([1, 2], "body"),
]


@pytest.mark.parametrize(("body", "named"), REFUSED, ids=[name for _, name in REFUSED])
def test_what_cannot_be_answered_is_named(body, named, running):
    with running.client() as client:
        answer = client.post("/v1/recommend", json=body)
    problem = answer.json()
    assert (answer.status_code, answer.headers["content-type"]) == (422, "application/problem+json")
    assert named in problem["detail"] or named in [one["field"] for one in problem["errors"]]
    assert "Traceback" not in answer.text


@pytest.mark.parametrize(
    ("method", "path", "options", "status", "named"),
    [
        ("GET", "/nothing", {}, 404, "/docs"),
        ("DELETE", "/v1/model", {}, 405, "method"),
        ("GET", "/v1/users/ann/recommendations", {}, 404, "'ann'"),
        ("GET", "/v1/users/107/recommendations?k=many", {}, 422, "k"),
        ("GET", "/v1/users/107/recommendations?size=3", {}, 422, "size"),
        ("GET", "/v1/items?limit=0", {}, 422, "limit"),
        ("GET", "/page/../settings.py", {}, 404, ""),
        ("GET", "/page/__init__.py", {}, 404, "file"),
        ("POST", "/v1/explain", {"json": {"item": "i1"}}, 422, "clicked"),
        ("POST", "/v1/explain", {"json": {"item": "no", "clicked": []}}, 422, "'no'"),
        ("POST", "/v1/explain", {"json": {"item": "i1", "clicked": ["i1"]}}, 422, "has clicked"),
        ("POST", "/v1/explain", {"json": {"item": "i1", "user": 5}}, 404, "no user 5"),
        ("POST", "/v1/recommend", {"content": b"{", "headers": {"content-type": "application/json"}}, 400, "JSON"),
        (
            "POST",
            "/v1/recommend",
            {"content": b"\xff", "headers": {"content-type": "application/json"}},
            400,
            "JSON",
        ),
        ("POST", "/v1/recommend", {"content": b"people=1"}, 415, "application/json"),
        ("POST", "/v1/recommend", {"data": {"people": "1"}}, 415, "application/json"),
        ("POST", "/invocations", {"json": {}}, 422, "dataframe_split"),
        ("POST", "/invocations", {"json": {"inputs": {"item": ["i1"]}, "params": {"top": 1}}}, 422, "top"),
        ("POST", "/invocations", {"json": {"inputs": {"item": ["i1"], "user": []}}}, 422, "0 users"),
        ("POST", "/invocations", {"json": {"inputs": {"clicks": ["i1"]}}}, 422, "clicks"),
        ("POST", "/invocations", {"json": {"instances": [{"item": 1.5}]}}, 422, "1.5"),
        (
            "POST",
            "/invocations",
            {"json": {"dataframe_split": {"columns": ["item"], "data": [[]]}}},
            422,
            "1 values",
        ),
        ("GET", "/v1/model", {"headers": {"host": "evil.example"}}, 421, "evil.example"),
        ("POST", "/v1/reload", {"headers": {"sec-fetch-site": "cross-site"}}, 403, "other sites"),
    ],
)
def test_every_refusal_is_a_problem(method, path, options, status, named, running):
    with running.client() as client:
        answer = client.request(method, path, **options)
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/problem+json"
    assert named in answer.json()["detail"]
    for header in ("content-security-policy", "x-content-type-options", "referrer-policy", "x-request-id"):
        assert header in answer.headers


def test_large_bodies_are_refused_whether_or_not_they_say_their_size(inside):
    large = b'{"people": [' + b" " * 2000 + b"]}"

    async def parts():
        for start in range(0, len(large), 100):
            yield large[start : start + 100]

    head = {"content-type": "application/json"}
    settings = {"limits": Limits(body_bytes=1000)}
    for content in (large, parts()):
        answer = ask_inside(inside, "POST", "/v1/recommend", settings=settings, content=content, headers=head)
        assert answer.status_code == 413
        assert "1,000 bytes" in answer.json()["detail"]


def test_a_key_is_wanted_everywhere_but_on_pages_and_health(inside):
    async def ask(client):
        paths = ("/v1/model", "/openapi.json", "/metrics", "/v1/items", "/nothing")
        without = [(await client.get(path)).status_code for path in paths]
        wrong = await client.get("/v1/model", headers={"authorization": f"Bearer {KEY}x"})
        odd = await client.get("/v1/model", headers={"authorization": b"Bearer \xff"})
        basic = await client.get("/v1/model", headers={"authorization": f"Basic {KEY}"})
        right = await client.get("/v1/model", headers={"authorization": f"Bearer {KEY}"})
        free = [(await client.get(path)).status_code for path in ("/", "/docs", "/health/ready", "/page/page.js")]
        return without, [wrong.status_code, odd.status_code, basic.status_code], right.status_code, free

    assert inside(key=KEY).run(ask) == ([401] * 5, [401] * 3, 200, [200] * 4)


def test_neither_keys_nor_clicks_nor_users_are_logged(start, files):
    service = start(files["tastes"], env={"BMCD_SERVE_KEY": KEY})
    with service.client(headers={"authorization": f"Bearer {KEY}"}) as client:
        client.post("/v1/recommend", json={"people": [{"clicked": ["i17"], "id": "ann"}]})
        client.get("/v1/users/107/recommendations")
        client.get("/v1/users/nobody/recommendations?k=3")
        client.post("/v1/recommend", json={"people": [{"clicked": ["i17", 1.5]}]})
        client.get("/v1/model", headers={"authorization": "Bearer wrongwrong"})
    service.process.terminate()
    written = service.stopped()
    for secret in (KEY, "wrongwrong", "i17", "ann", "107", "nobody"):
        assert secret not in re.sub(r'"(time|request|ms|bytes)": [^,}]*', "", written)
    lines = [(one["route"], one["status"]) for one in service.access_lines()]
    assert lines[-5:] == [
        ("/v1/recommend", 200),
        ("/v1/users/{user:path}/recommendations", 200),
        ("/v1/users/{user:path}/recommendations", 404),
        ("/v1/recommend", 422),
        ("/v1/model", 401),
    ]


def test_metrics_count_every_request_by_route_and_status(start, files):
    service = start(files["tastes"], "--quiet")
    with service.client() as client:
        client.post("/v1/recommend", json={"people": [{"clicked": []}] * 3})
        client.post("/v1/recommend", json={})
        client.get("/v1/nothing/somebody")
        client.get("/v1/model", headers={"host": "evil.example"})
        text = client.get("/metrics").text
        hash_of_file = client.get("/v1/model").json()["hash"]
    counted = dict(re.findall(r"^bmcd_request_seconds_count\{(.*)\} (\S+)$", text, re.M))
    assert counted['route="/v1/recommend",status="200"'] == "1.0"
    assert counted['route="/v1/recommend",status="422"'] == "1.0"
    assert counted['route="none",status="404"'] == "1.0"
    assert counted['route="/v1/model",status="421"'] == "1.0"
    assert "bmcd_people_total 3.0" in text
    assert f'bmcd_model{{hash="{hash_of_file}",kind="Tastes"}} 1.0' in text
    assert "bmcd_queue_waiting 0.0" in text
    assert "somebody" not in text


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"slots": 0}, "slots must be a whole number, 1 or more"),
        ({"queue": 0}, "queue"),
        ({"key": "short"}, "8 characters"),
        ({"limits": {"k": 0}}, "limit k"),
    ],
)
def test_settings_that_cannot_work_are_refused(options, named, files):
    with pytest.raises(bmcd.errors.InputError, match=named):
        Settings(
            files["tastes"],
            **{key: Limits(**value) if key == "limits" else value for key, value in options.items()},
        )


def test_ids_with_slashes_and_other_marks_are_found(tmp_path, inside):
    users = ["a/b", "c d", "100%", "e?f#g", "\u00e6/\u0141"]
    clicks = bmcd.Clicks.from_matrix(
        [[1, 1, 0, 0], [0, 1, 1, 0], [0, 0, 1, 1], [1, 0, 0, 1], [1, 0, 1, 0]], users=users
    )
    bmcd.Tastes(2, chains=2).fit(clicks, draws=2, warmup=2).save(tmp_path / "m.bmcd")

    async def ask(client):
        paths = [f"/v1/users/{quote(user, safe='')}/recommendations" for user in users]
        return [(await client.get(path)).json()["id"] for path in paths]

    assert inside(path=tmp_path / "m.bmcd").run(ask) == users
