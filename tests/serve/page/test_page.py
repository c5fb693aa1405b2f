"""The page for editors in a real browser: what is picked, shown, explained, compared, linked and copied."""

import csv
import io

import pytest

WIDTHS = (1280, 390)
STEPS = (1, 3, 5, 10)  # and 20, which the 12 items of the model cut to 12: not a step


def shown(tab, letter="a"):
    """The rows of a person: the ids of the items, and their probabilities as the page writes them."""
    rows = tab.run(
        "return [...document.querySelectorAll(arguments[0])].map(row => [row.dataset.item,"
        " row.querySelector('.value').textContent.replaceAll('\\u00a0', ' ')])",
        f"#person-{letter} .row",
    )
    return [tuple(row) for row in rows]


def wanted(recommendations, least=0.0):
    """The same, of the service's own answer."""
    return [
        (
            str(row["item"]),
            f"{100 * row['probability']:.1f} %" + (f" ± {200 * row['mcse']:.1f}" if row["mcse"] else ""),
        )
        for row in recommendations
        if row["probability"] >= least
    ]


def clicked_by(tab, letter="a"):
    return tab.texts(f"#person-{letter} .chips bdi")


def pick(tab, text, letter="a"):
    """Type and take the first item that is found."""
    tab.one(f"#search-{letter}").send_keys(text + "\n")
    tab.wait()


def item_called(service, title):
    return service.ask(f"v1/items?q={title}")["items"][0]["item"]


def test_it_opens_with_what_a_new_user_is_likely_to_click(tab, service):
    tab.open()
    assert shown(tab) == wanted(service.recommended())
    assert len(shown(tab)) == 10
    assert tab.texts("#model-line b") == ["BMCD"]
    assert service.ask("v1/model")["hash"][:12] in tab.texts("#model-line")[0]
    assert tab.complaints() == []


def test_items_are_picked_with_the_keyboard_alone(tab, service):
    tab.open()
    for _ in range(30):
        tab.press("TAB")
        if tab.run("return document.activeElement.id") == "search-a":
            break
    tab.press(*"skir")
    tab.until(lambda: tab.texts("#found-a li bdi") == ["Skirt"])
    assert tab.one("#search-a").get_attribute("aria-expanded") == "true"
    tab.press("ARROW_DOWN")
    marked = tab.one("#search-a").get_attribute("aria-activedescendant")
    assert tab.one(f"#{marked}").get_attribute("aria-selected") == "true"
    tab.press("ENTER")
    tab.wait()
    skirt = item_called(service, "Skirt")
    assert clicked_by(tab) == ["Skirt"]
    assert shown(tab) == wanted(service.recommended([skirt]))
    tab.press(*"bl", "ENTER")  # before the list can have opened
    tab.until(lambda: len(clicked_by(tab)) == 2)
    tab.wait()
    assert clicked_by(tab) == ["Skirt", "Blouse, white"]
    assert shown(tab) == wanted(service.recommended([skirt, item_called(service, "Blouse")]))
    tab.press("ARROW_DOWN")
    tab.until(lambda: tab.texts("#found-a li"))
    assert "Skirt" not in tab.texts("#found-a li bdi")  # it is taken
    tab.press("ESCAPE")
    assert tab.texts("#found-a li") == []
    tab.one(".chips button").send_keys("\n")
    tab.wait()
    assert clicked_by(tab) == ["Blouse, white"]
    assert tab.run("return document.activeElement.getAttribute('aria-label')") == "Remove \u2068Blouse, white\u2069"
    tab.press("ENTER")
    tab.wait()
    assert clicked_by(tab) == []
    assert tab.run("return document.activeElement.id") == "search-a"
    assert shown(tab) == wanted(service.recommended())
    pick(tab, "Skirt")
    tab.press("BACKSPACE")
    tab.wait()
    assert clicked_by(tab) == []


def test_moving_k_and_the_cut_off_asks_nothing(tab, service):
    tab.open()
    pick(tab, "Skirt")
    clicked = [item_called(service, "Skirt")]
    tab.run("performance.clearResourceTimings()")
    for k in reversed(STEPS):
        tab.until(lambda k=k: tab.texts("#k-value") == [str(k)])
        assert shown(tab) == wanted(service.recommended(clicked, k))
        tab.one("#k").send_keys("\ue012")  # arrow left
    tab.one("#k").send_keys("\ue010")  # end
    middle = service.recommended(clicked, 10)[5]["probability"]
    cut = int(100 * middle)
    tab.run("const cut = arguments[0]; const slider = document.getElementById('cut'); slider.value = cut", cut)
    tab.run("document.getElementById('cut').dispatchEvent(new Event('input'))")
    left = wanted(service.recommended(clicked, 10), cut / 100)
    assert 0 < len(left) < 10
    assert shown(tab) == left
    assert f"{10 - len(left)} other" in tab.texts(".summary")[0]
    tab.one("#cut").send_keys("\ue010")
    assert shown(tab) == []
    assert tab.texts(".summary") == ["No item reaches the cut-off of 100 %: 10 items are below it."]
    assert tab.run("return performance.getEntriesByType('resource').map(entry => entry.name)") == []
    assert tab.complaints() == []


def test_bars_show_the_probability_and_two_standard_errors(tab, service):
    tab.open()
    first = service.recommended()[0]
    scale = float(tab.texts(".summary")[0].rsplit(" ", 2)[1]) / 100
    bar = "const bar = document.querySelector('.row .bar');"
    width = float(tab.run(bar + "return bar.querySelector('.share').getAttribute('width')"))
    low, high = tab.run(
        bar + "const line = bar.querySelector('.error'); return ['x1', 'x2'].map(name => +line.getAttribute(name))"
    )
    error = 2 * first["mcse"]
    assert width == pytest.approx(200 * first["probability"] / scale)
    assert low == pytest.approx(200 * max(0, first["probability"] - error) / scale)
    assert high == pytest.approx(200 * min(1, first["probability"] + error) / scale)


def test_two_people_are_compared(tab, service):
    tab.open("#k=5")
    pick(tab, "Skirt")
    tab.one("#compare").click()
    tab.wait()
    assert clicked_by(tab, "b") == ["Skirt"]
    assert shown(tab, "b") == shown(tab, "a")
    pick(tab, "Blouse", "b")
    skirt, blouse = item_called(service, "Skirt"), item_called(service, "Blouse")
    first, second = service.recommended([skirt], 5), service.recommended([skirt, blouse], 5)
    assert shown(tab, "a") == wanted(first)
    assert shown(tab, "b") == wanted(second)
    both = {row["item"] for row in first} & {row["item"] for row in second}
    assert tab.texts("#shared")[0].startswith(f"{len(both)} item" if both else "Nothing")
    assert len(tab.texts(".both")) == 2 * len(both)
    tab.one("#compare").click()
    assert tab.all("#person-b") == []
    assert tab.texts("#shared") == []
    assert shown(tab, "a") == wanted(first)


def test_the_link_restores_the_screen_in_another_tab(tab):
    tab.open("#k=5&cut=20")
    pick(tab, "Skirt")
    tab.one("#compare").click()
    pick(tab, "emoji", "b")
    before = [shown(tab, "a"), shown(tab, "b"), clicked_by(tab, "a"), clicked_by(tab, "b")]
    tab.until(lambda: "people=2" in tab.browser.current_url)
    link = tab.browser.current_url
    first = tab.browser.current_window_handle
    tab.browser.switch_to.new_window("tab")
    try:
        tab.browser.get(link)
        tab.wait()
        assert [shown(tab, "a"), shown(tab, "b"), clicked_by(tab, "a"), clicked_by(tab, "b")] == before
        assert (tab.texts("#k-value"), tab.texts("#cut-value")) == (["5"], ["20 %"])
        assert tab.browser.current_url == link
        tab.run("location.hash = 'k=3'")  # as when a link is opened on the page
        tab.until(lambda: tab.texts("#k-value") == ["3"])
        tab.wait()
        assert len(shown(tab)) == 3
        assert tab.all("#person-b") == []
    finally:
        tab.browser.close()
        tab.browser.switch_to.window(first)


def test_odd_links_do_no_harm(tab, service):
    tab.open("#k=-3&cut=1e9&a=%3Cb%3E&a=nothing%FF&a=&people=7&b-user=%00")
    assert tab.texts("#k-value") == ["10"]
    assert tab.texts("#cut-value") == ["0 %"]
    assert "<b>" in clicked_by(tab)
    assert len(tab.texts(".chips .unknown")) == 3
    assert shown(tab) == wanted(service.recommended())


def test_users_of_the_model_are_a_start(tab, service):
    tab.open()
    tab.one(".start summary").click()
    tab.one("#user-a").send_keys("user ü 7\n")
    tab.wait()
    answer = service.ask("v1/users/user%20%C3%BC%207/recommendations")
    assert shown(tab) == wanted(answer["recommendations"])
    query = "&".join(f"ids={item}" for item in answer["clicked"])
    titles = [item["title"] for item in service.ask(f"v1/items?{query}")["items"]]
    assert [text.replace("…", "") for text in clicked_by(tab)] == [title[:120] for title in titles]
    assert "a-user=" in tab.browser.current_url
    tab.one(".chips button").click()  # what if?
    tab.wait()
    assert shown(tab) == wanted(service.recommended(answer["clicked"][1:]))
    assert "a-user=" not in tab.browser.current_url
    tab.one("#user-a").clear()
    tab.one("#user-a").send_keys("nobody\n")
    tab.wait("error")
    assert tab.texts("#person-a .problem")[0].startswith("The model has no user 'nobody'.")
    assert shown(tab) == []
    tab.complaints()  # the browser logs the 404
    pick(tab, "Skirt")
    assert tab.texts(".problem") == []


def test_the_csv_is_what_is_shown_and_no_formula(tab, service):
    tab.open()
    permissions = {"permissions": ["clipboardReadWrite", "clipboardSanitizedWrite"], "origin": service.address}
    tab.browser.execute_cdp_cmd("Browser.grantPermissions", permissions)
    tab.one("#copy-csv").click()
    tab.until(lambda: tab.texts("#done") == ["10 rows copied as csv."])
    read = "const done = arguments[0]; navigator.clipboard.readText().then(done, error => done(String(error)))"
    copied = tab.browser.execute_async_script(read)
    rows = list(csv.DictReader(io.StringIO(copied, newline="")))
    expected = service.recommended()
    assert [row["item"] for row in rows] == [str(row["item"]) for row in expected]
    assert [float(row["probability"]) for row in rows] == [row["probability"] for row in expected]
    assert [float(row["mcse"]) for row in rows] == [row["mcse"] for row in expected]
    assert {row["person"] for row in rows} == {"A"}
    for row, own in zip(rows, expected, strict=True):
        formula = own["title"].startswith("=")
        assert row["title"] == ("'" if formula else "") + own["title"]
    assert any(own["title"].startswith("=") for own in expected)


def test_without_a_clipboard_the_csv_can_be_copied_by_hand(tab):
    tab.open()
    tab.run("Object.defineProperty(navigator, 'clipboard', {value: undefined})")
    tab.one("#copy-csv").click()
    tab.until(lambda: tab.texts("#by-hand"))
    script = "const box = document.getElementById('by-hand-text'); return [box.value, getSelection().toString()]"
    text, selected = tab.run(script)
    assert text.startswith('"person","k","rank","item","title","probability","mcse"')
    assert selected
    tab.one("#by-hand-close").click()
    assert tab.texts("#by-hand") == []


def test_titles_are_never_markup(tab, service):
    everything = service.ask("v1/items?limit=100")["items"]
    tab.open("#k=5&people=2&" + "&".join(f"a={item['item']}" for item in everything[:6]))
    tab.one("#search-b").click()
    tab.until(lambda: len(tab.texts("#found-b li")) == len(everything))
    texts = tab.texts("#found-b li bdi") + clicked_by(tab)
    assert "<img src=x onerror=\"document.title='owned'\">" in texts
    assert sum(text.startswith("long x") and text.endswith("…") for text in texts) >= 1
    tab.press("ESCAPE")
    tab.run("document.querySelectorAll('.ask').forEach(button => button.click())")
    tab.wait()
    assert tab.run("return document.querySelectorAll('main :is(img, script, iframe, b img)').length") == 0
    outside = tab.run(
        "const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT); let found = [], node;"
        "while ((node = walker.nextNode()))"
        " if (/\\u202e/.test(node.data) && !node.parentElement.closest('bdi, #said')) found.push(node.data);"
        "return found"
    )
    assert outside == []  # what turns the direction of writing round stays in its place
    assert tab.browser.title == "What will they click next?"
    assert tab.complaints() == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS)
def test_nothing_sticks_out_and_all_can_be_read(tab, service, width, scheme):
    tab.resize(width)
    tab.prefer(prefers_color_scheme=scheme, prefers_reduced_motion="reduce")
    ids = [item["item"] for item in service.ask("v1/items?limit=100")["items"]]
    tab.open("#people=2&cut=5&" + "&".join([f"a={item}" for item in ids[:4]] + [f"b={item}" for item in ids[3:8]]))
    tab.one("#about summary").click()
    tab.one("#person-a .ask").click()
    tab.wait()
    assert tab.run("return document.documentElement.scrollWidth") <= width
    style = "return getComputedStyle(document.querySelector(arguments[0]))[arguments[1]]"
    paper, ink = {"light": (255, 29), "dark": (22, 232)}[scheme]
    assert tab.run(style, "body", "backgroundColor").startswith(f"rgb({paper}, ")
    assert tab.run(style, "body", "color").startswith(f"rgb({ink}, ")
    assert tab.run(style, ".recommended", "transitionDuration") == "0s"
    beside = tab.run(
        "const [a, b] = ['a', 'b'].map(x => document.getElementById(`person-${x}`).getBoundingClientRect());"
        "return b.left >= a.right"
    )
    assert beside == (width == 1280)
    unnamed = (
        "return [...document.querySelectorAll('input, button, textarea')].filter(x => x.checkVisibility()"
        " && !x.labels?.length && !x.getAttribute('aria-label') && !x.textContent.trim()).length"
    )
    assert tab.run(unnamed) == 0
