"""The page about the addresses, in a real browser: all of them are there, and their examples work."""

import json
import subprocess

import pytest


def test_every_address_is_there_and_its_example_works(tab, service):
    tab.open("docs")
    description = service.ask("openapi.json")
    routes = [(method, path) for path, methods in description["paths"].items() for method in methods]
    assert tab.texts(".route h3") == [f"{method.upper()} {path}" for method, path in routes]
    for method, path in routes:
        first = description["paths"][path][method]["description"].split("\n\n")[0]
        assert first in tab.texts(".route p")
    assert "people[].clicked" in tab.texts("#post-v1-recommend th")
    for button in tab.all(".send"):
        button.click()
        tab.wait()
    assert tab.texts(".sent b") == ["Status 200"] * len(routes)
    assert tab.complaints() == []


def test_the_curl_lines_answer_what_the_page_shows(tab):
    tab.open("docs")
    for name in ("post-v1-recommend", "get-v1-users-user-recommendations", "post-v1-explain", "get-v1-items"):
        tab.one(f"#{name} .send").click()
        tab.wait()
        line = tab.texts(f"#{name} .curl")[0]
        answer = subprocess.run(["sh", "-c", f"{line} -sS"], capture_output=True, text=True, check=True).stdout
        shown = tab.run("return document.querySelector(arguments[0]).textContent", f"#{name} .sent pre")
        assert json.loads(shown) == json.loads(answer)  # ids too large for JavaScript included


def test_what_is_typed_is_sent_and_refusals_are_shown(tab):
    tab.open("docs")
    name = "#get-v1-items"
    tab.run("document.querySelectorAll(arguments[0]).forEach(input => { input.value = '' })", f"{name} input")
    tab.one(f"{name}-limit").send_keys("0")
    tab.one(f"{name}-q").send_keys("it's")
    assert "q=it%27s&limit=0" in tab.texts(f"{name} .curl")[0]
    tab.one(f"{name} .send").click()
    tab.wait()
    assert tab.texts(f"{name} .sent b") == ["Status 422: refused"]
    assert "limit must be from 1 to 1,000" in tab.texts(f"{name} .sent pre")[0]


def test_the_key_is_asked_for_and_not_shown(locked_tab):
    tab = locked_tab
    tab.load("docs")
    tab.until(lambda: tab.texts("#key-form"))
    tab.press(*"open sesame", "ENTER")
    tab.wait()
    assert '"Authorization: Bearer $BMCD_SERVE_KEY"' in tab.texts(".curl")[0]
    assert "sesame" not in tab.run("return document.documentElement.outerHTML")
    tab.one("#post-v1-recommend .send").click()
    tab.wait()
    assert tab.texts("#post-v1-recommend .sent b") == ["Status 200"]
    tab.run("sessionStorage.clear()")


@pytest.mark.parametrize("width", [1280, 390])
def test_nothing_sticks_out(tab, width):
    tab.resize(width)
    tab.open("docs")
    tab.one("#post-v1-recommend .send").click()
    tab.wait()
    assert tab.run("return document.documentElement.scrollWidth") <= width
