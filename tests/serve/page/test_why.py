"""Explanations on the page, for every kind of model; and a model that is replaced while the page is open."""

import pytest


@pytest.mark.parametrize("kind", ["Tastes", "Blend", "BMCD"])
def test_the_page_says_why_for_every_kind_of_model(tab, service, replace_model, kind):
    replace_model(kind)
    clicked = [item["item"] for item in service.ask("v1/items?limit=2")["items"]]
    tab.open("#k=5&" + "&".join(f"a={item}" for item in clicked))
    assert tab.texts("#model-line b") == [kind]
    row = tab.one(".row")
    button = tab.one(".row .ask")
    button.send_keys("\n")
    tab.wait()
    assert button.get_attribute("aria-expanded") == "true"
    first = service.recommended(clicked, 5)[0]["item"]
    assert row.get_attribute("data-item") == str(first)
    answer = service.ask("v1/explain", {"clicked": clicked, "item": first, "k": 5})
    told = tab.texts(".why")[0]
    for model in answer.get("models", []):
        assert f"{model['model']}: " in told
    for reason in answer.get("reasons", []):
        assert reason in told
    if kind == "Blend":
        assert answer["short"] == (answer["reasons"] or [""])[0]
    for part in answer["parts"].values() if kind == "Blend" else [answer]:
        contributions = part.get("tastes") or part["clusters"]
        values = tab.texts(".why .part .value")
        assert values == [f"adds {100 * one['contribution']:.1f} %" for one in contributions]
        names = [text.split(" · ")[0] for text in tab.texts(".why .part > span:first-child")]
        word = "taste" if "tastes" in part else "cluster"
        assert names == [f"{word.capitalize()} {one[word]}" for one in contributions]
    button.send_keys("\n")
    assert tab.texts(".why") == []
    assert tab.complaints() == []


def test_open_explanations_follow_k(tab, service):
    tab.open("#k=5")
    button = tab.one(".row .ask")
    item = button.get_attribute("data-item")
    button.click()
    tab.wait()
    before = tab.texts(".why .value")
    tab.one("#k").send_keys("\ue014")  # arrow right
    tab.until(lambda: tab.texts(".why .value") not in ([], before))
    answer = service.ask("v1/explain", {"clicked": [], "item": item, "k": 10})
    assert tab.texts(".why .value")[0] == f"adds {100 * answer['clusters'][0]['contribution']:.1f} %"


def test_the_page_notices_another_model(tab, service, replace_model):
    tab.open("#k=3")
    replace_model("Tastes")
    tab.one("#search-a").send_keys("Skirt\n")
    tab.until(lambda: tab.texts("#model-line b") == ["Tastes"])
    tab.wait()
    (skirt,) = (item["item"] for item in service.ask("v1/items?q=Skirt")["items"])
    rows = [row.get_attribute("data-item") for row in tab.all(".row")]
    assert rows == [str(row["item"]) for row in service.recommended([skirt], 3)]
    assert tab.complaints() == []
