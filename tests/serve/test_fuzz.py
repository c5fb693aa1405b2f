"""Random and malformed bodies: no answer has a status of 500 or above, and every refusal is a problem."""

import asyncio
import json

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

ROUTES = ("/v1/recommend", "/v1/explain", "/invocations", "/v1/reload")
KNOWN = st.sampled_from(["i1", "i2", "i19", "i20", "", " ", "101", "\ud800", "<b>", "x" * 600])
IDS = st.one_of(KNOWN, st.text(max_size=5), st.integers(), st.floats(), st.booleans(), st.none())
NAMES = st.sampled_from(
    [
        "people",
        "clicked",
        "id",
        "k",
        "min_probability",
        "items",
        "exclude",
        "item",
        "user",
        "params",
        "inputs",
        "dataframe_split",
        "dataframe_records",
        "instances",
        "columns",
        "data",
        "index",
    ]
)
ANYTHING = st.recursive(
    IDS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES | st.text(max_size=3), inner, max_size=4)
)
NEARLY = st.fixed_dictionaries(
    {
        "people": st.lists(
            st.fixed_dictionaries({"clicked": st.lists(IDS, max_size=4)}, optional={"id": IDS}), max_size=3
        )
    },
    optional={
        "k": st.integers(-1, 300) | IDS,
        "min_probability": st.floats() | IDS,
        "items": st.lists(IDS, max_size=3),
        "exclude": st.lists(IDS, max_size=3),
    },
)
ROWS = st.lists(st.dictionaries(st.sampled_from(["user", "item", "more"]), IDS, max_size=2), max_size=4)
FORMS = st.fixed_dictionaries(
    {},
    optional={
        "dataframe_records": ROWS,
        "instances": ROWS,
        "inputs": ROWS | st.dictionaries(st.sampled_from(["user", "item"]), st.lists(IDS, max_size=3)),
        "dataframe_split": st.dictionaries(
            st.sampled_from(["columns", "data"]), st.lists(st.lists(IDS, max_size=2))
        ),
        "params": st.dictionaries(st.sampled_from(["k", "items", "min_probability"]), IDS, max_size=2),
    },
)
WHY = st.fixed_dictionaries({"item": IDS}, optional={"clicked": st.lists(IDS, max_size=3), "user": IDS, "k": IDS})


@pytest.fixture(scope="module")
def ask(inside):
    """Send one body to a service in this process."""
    with asyncio.Runner() as runner:
        service = inside().service
        runner.run(service.current.start(service._loaded))

        def send(path, content, kind="application/json"):
            async def sent():
                transport = httpx.ASGITransport(service.app)
                async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
                    return await client.post(path, content=content, headers={"content-type": kind})

            return runner.run(sent())

        yield send


def check(answer):
    assert answer.status_code < 500, answer.text
    if answer.status_code != 200:
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.json()["detail"]
        assert "Traceback" not in answer.text
    json.loads(answer.text, parse_constant=pytest.fail)  # neither NaN nor Infinity


thousand = settings(max_examples=1000, suppress_health_check=list(HealthCheck))


@thousand
@given(path=st.sampled_from(ROUTES[:3]), body=st.one_of(ANYTHING, NEARLY, FORMS, WHY))
def test_a_thousand_random_bodies(ask, path, body):
    check(ask(path, json.dumps(body).encode()))


@thousand
@given(
    path=st.sampled_from(ROUTES),
    body=st.one_of(NEARLY, FORMS, WHY),
    place=st.floats(0, 1),
    inserted=st.binary(max_size=6),
    dropped=st.integers(0, 5),
)
def test_a_thousand_malformed_bodies(ask, path, body, place, inserted, dropped):
    good = json.dumps(body).encode()
    at = int(place * len(good))
    check(ask(path, good[:at] + inserted + good[at + dropped :]))


@pytest.mark.parametrize(
    "content",
    [
        b"[" * 100_000,
        b'{"people":' * 20_000,
        b"1" * 100_000,
        b'{"people": [{"clicked": [' + b"9" * 5000 + b"]}]}",
        b'{"people": [{"clicked": [1e999, NaN, -Infinity]}]}',
        b'{"people": [{"clicked": []}], "min_probability": NaN}',
        b'{"people": [{"clicked": ["\\ud800"]}], "items": ["\\udfff"]}',
        b'{"people": [{"clicked": ["\\u0000"], "id": "\\ud83d"}]}',
        b"\xef\xbb\xbf{}",
        b"\x00",
        '{"people": []}'.encode("utf-16"),
        b'{"people": [{"clicked": []}], "people": 3}',
    ],
    ids=range(12),
)
@pytest.mark.parametrize("path", ROUTES)
def test_bodies_that_have_broken_others(ask, path, content):
    check(ask(path, content))
