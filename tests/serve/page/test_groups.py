"""Groups on the page: filters that the service applies, rules worked out in the browser, the model card."""

import re

import pytest

import bmcd

KINDS = ["<img src=x onerror=\"document.title='owned'\">", "plain: kind", "third"]


@pytest.fixture(scope="module")
def grouped(models, serve, tmp_path_factory):
    """A service of a model whose items have groups."""
    model = bmcd.load(models["BMCD"])
    table = {
        "item": model.clicks_.items.tolist(),
        "kind": [KINDS[j % 3] for j in range(12)],
        "half": ["a", "b"] * 6,
    }
    model.clicks_ = model.clicks_.with_items(table)
    path = tmp_path_factory.mktemp("grouped") / "model.bmcd"
    model.save(path)
    with serve(path) as running:
        yield running, model


def items_shown(tab):
    return tab.run("return [...document.querySelectorAll('#person-a .row')].map(row => row.dataset.item)")


def set_slider(tab, name, value):
    tab.run(
        "const one = document.getElementById(arguments[0]); one.value = arguments[1];"
        "one.dispatchEvent(new Event('input'))",
        name,
        value,
    )


@pytest.fixture
def own_tab(tab, grouped):
    service, model = grouped
    tab.address = service.address
    return tab, service, model


def test_rules_give_the_lists_of_list_rules(own_tab):
    tab, _, model = own_tab
    tab.open("#k=5")
    for most, least in [(1, 1), (2, 3), (3, 2)]:
        set_slider(tab, "most", most)
        set_slider(tab, "least", least)
        rules = bmcd.ListRules("kind", at_most=most, at_least_groups=least)
        if most * 3 < 5:
            continue
        want = model.recommend_for([[]], 5, rules=rules)
        assert items_shown(tab) == [str(item) for item in want["item"]]
        report = want.attrs["rules"]
        said = tab.texts("#person-a .price")[0]
        numbers = [float(text) for text in re.findall(r"\d+\.\d+", said)]
        assert numbers[:2] == pytest.approx([report["price"], report["plain"]], abs=0.006)
    assert tab.complaints() == []


def test_a_cap_that_leaves_a_short_list_says_so(own_tab):
    tab, _, _ = own_tab
    tab.open("#k=5&column=kind&most=1")
    assert len(items_shown(tab)) == 3
    assert "Only 3 items can be shown" in tab.texts("#person-a .price")[0]


def test_filters_ask_the_service(own_tab):
    tab, _, model = own_tab
    tab.open("#k=3")
    tab.run(
        "const one = document.getElementById('only'); one.value = arguments[0];"
        "one.dispatchEvent(new Event('change'))",
        KINDS[1],
    )
    tab.wait()
    want = model.recommend_for([[]], 3, only={"kind": [KINDS[1]]})
    assert items_shown(tab) == [str(item) for item in want["item"]]
    link = tab.run("return location.hash")
    tab.open(link)
    assert items_shown(tab) == [str(item) for item in want["item"]]
    user = model.clicks_.users[3]
    tab.open(f"{link}&a-user={user}")
    own = model.recommend(3, [user], only={"kind": [KINDS[1]]})
    assert items_shown(tab) == [str(item) for item in own["item"]]


def test_the_card_opens_and_is_text(own_tab):
    tab, _, _ = own_tab
    tab.open()
    tab.run("document.getElementById('card-details').open = true")
    tab.wait()
    found = tab.run("return document.getElementById('card').textContent")
    assert "Intended use" in found
    assert KINDS[0] in found
    assert tab.run("return document.title") != "owned"
    assert tab.run("return document.querySelectorAll('#card img').length") == 0
    assert tab.complaints() == []


@pytest.mark.parametrize("width", [1280, 390])
def test_it_fits_the_screen(own_tab, width):
    tab, _, _ = own_tab
    tab.resize(width)
    tab.open("#k=5&column=kind&most=2&least=2")
    assert tab.run("return document.documentElement.scrollWidth") <= width
