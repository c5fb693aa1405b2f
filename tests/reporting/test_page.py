"""The page as a whole: sections in order, nothing from elsewhere, and titles that stay text."""

import json
import re

import numpy as np
import pytest
from jinja2 import UndefinedError

import bmcd
from bmcd.reporting.page import environment

ORDER = [
    *("summary", "calibration", "convergence", "cutoff", "comparison", "exposure"),
    *("groups", "users", "data", "method"),
]


def test_sections_come_in_order_and_the_menu_links_to_each(page):
    assert page.sections == ORDER
    assert [given["href"] for name, given in page.elements if name == "a"] == [f"#{name}" for name in ORDER]


def test_elements_are_closed_and_ids_are_unique(page):
    assert page.open == []
    ids = [given["id"] for _, given in page.elements if "id" in given]
    assert len(ids) == len(set(ids))


def test_nothing_comes_from_elsewhere(page):
    for name, given in page.elements:
        assert not {"src", "srcset", "action", "onload", "onerror", "onclick"} & set(given), name
        assert given.get("href", "#").startswith("#")
        assert "://" not in given.get("style", "")
    assert not re.search(r"https?://|@import|url\((?!#)", page.text)
    policy = [given["content"] for name, given in page.elements if given.get("http-equiv")]
    assert policy == ["default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"]


def test_hostile_titles_are_text(page):
    assert [name for name, _ in page.elements].count("script") == 3  # two of data, and ours
    assert "img" not in {name for name, _ in page.elements}
    for forbidden in ("\x00", "\x1b", "\u202e", "x" * 200):
        assert forbidden not in page.text
    shown = " ".join(page.texts.values())
    for title in (
        *("<script>document.title = 'owned'</script>", "\"&<> 'quoted'", "$x^2$", "emoji \U0001f600 裤子"),
        *("gnp.\ufffdexe evil", "]]> --> $css {{css}} </style>"),
        "item 11",  # it has no title
    ):
        assert title in shown


@pytest.mark.parametrize(
    ("title", "markup"), [("$css and $$", "$css and $$"), ("</title><script>", "&lt;/title&gt;&lt;script&gt;")]
)
def test_the_heading_may_be_anything(reported, read_page, tmp_path, title, markup):
    path = bmcd.report(reported.model, path=tmp_path / "r.html", k=2, title=title)
    read = read_page(path.read_text("utf-8"))
    assert [name for name, _ in read.elements].count("script") == 2  # what can be looked up, and ours
    assert f"<title>{markup}</title>" in read.text
    assert f"<h1>{markup}</h1>" in read.text


def test_the_page_tells_which_data_and_which_day(reported, read_page, tmp_path):
    path = bmcd.report(reported.model, path=tmp_path / "r.html", k=2, data="<shop>", date="2024-02-29")
    assert "<p>&lt;shop&gt;, 2024-02-29</p>" in path.read_text("utf-8")
    today = bmcd.report(reported.model, path=tmp_path / "r.html", k=2).read_text("utf-8")
    assert re.search(r"<p>\d{4}-\d\d-\d\d</p>", today)


def test_what_can_be_looked_up_are_all_items_and_users(reported, page):
    data = json.loads(re.search(r'id="lookup">(.*?)</script>', page.text)[1])
    assert len(data["items"]) == 12
    assert len(data["users"]) == reported.train.n_users
    assert sorted(card for _, _, card, _ in data["users"] if card >= 0) == list(range(12))
    clicks = [clicked for _, clicked, _ in data["items"]]
    assert clicks == sorted(reported.train.per_item.tolist(), reverse=True)
    recommended = reported.model.recommend(3)
    assert sum(by_k["3"][0] for _, _, by_k in data["items"]) == len(recommended)
    hits = bmcd.evaluate(recommended, reported.train, reported.test, k=3).n_hits
    assert sum(by_k["3"][1] for _, _, by_k in data["items"]) == hits


def test_nothing_in_data_can_end_its_element():
    inside = environment().from_string("{{ data | tojson }}").render(data={"a": "</script><!--\u2028&'"})
    assert not set("<>&'\u2028") & set(inside)
    assert json.loads(inside) == {"a": "</script><!--\u2028&'"}


def test_what_templates_put_in_is_escaped_plain_text():
    text = environment().from_string('<p title="{{ text }}">{{ text }}</p>').render(text='<b>"5 %"\x1b\u202e')
    assert text == '<p title="&lt;b&gt;&#34;5\u00a0%&#34;\ufffd\ufffd">&lt;b&gt;&#34;5\u00a0%&#34;\ufffd\ufffd</p>'


def test_a_name_that_is_missing_in_a_template_is_an_error():
    with pytest.raises(UndefinedError):
        environment().from_string("{{ missing }}").render()


def test_users_without_a_card_are_looked_up_with_their_own_lists(reported, page):
    data = json.loads(re.search(r'id="lookup">(.*?)</script>', page.text)[1])
    recommended = reported.model.recommend(3)
    of_user = {f"user {user}": list(frame.probability) for user, frame in recommended.groupby("user")}
    for name, _, _, lists in data["users"]:
        expected = of_user.get(name, [])
        np.testing.assert_allclose(np.array(lists["3"][1::2]) / 1000, expected, atol=0.0005001)
        assert all(0 <= place < len(data["items"]) for place in lists["3"][::2])


def test_more_users_than_the_page_can_hold_are_left_out(reported, tmp_path, monkeypatch):
    monkeypatch.setattr("bmcd.reporting.context.MOST_USERS", 15)
    path = bmcd.report(reported.model, path=tmp_path / "r.html", k=2, users=reported.train.users[:2])
    data = json.loads(re.search(r'id="lookup">(.*?)</script>', path.read_text("utf-8"))[1])
    assert len(data["users"]) == 15
    assert [card for _, _, card, _ in data["users"][:3]] == [0, 1, -1]
    clicked = [n for _, n, card, _ in data["users"] if card < 0]
    assert clicked == sorted(clicked, reverse=True)
