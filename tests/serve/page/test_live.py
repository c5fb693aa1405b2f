"""The live view of the page in a real browser: clicks, hits predicted and observed, what is trending."""

WIDTHS = (1280, 390)
FRESH = "<b onclick=alert(1)>fresh</b>"


def cards(tab):
    """The texts of the cards, by their labels."""
    found = tab.run(
        "return [...document.querySelectorAll('#live-cards > li')]"
        ".map(card => [card.querySelector('.label').lastChild.textContent,"
        " card.textContent.replaceAll('\\u00a0', ' ')])"
    )
    return dict(found)


def click(live, user, item, seconds):
    return live.ask("v1/clicks", {"clicks": [{"user": user, "item": item, "time": live.end + seconds}]})


def test_a_model_that_is_not_live_has_no_live_view(tab):
    tab.open()
    assert not tab.one("#live").is_displayed()


def test_the_view_follows_what_happens(live_tab, live):
    tab = live_tab.open()
    tab.until(lambda: len(cards(tab)) == 4)
    assert "No hits yet" in cards(tab)["In the last hour"]
    items = [row["item"] for row in live.recommended(k=12)]
    observed = 0
    for n in range(120):
        rows = live.ask(f"v1/users/visitor{n}/recommendations?k=5&horizon=1")["recommendations"]
        listed = [row["item"] for row in rows]
        others = [item for item in [FRESH, *items] if item not in listed]
        observed += n % 12 == 0
        click(live, f"visitor{n}", listed[0] if n % 12 == 0 else others[0], 600 + n)
    tab.until(lambda: "observed" in cards(tab)["In the last hour"])
    tab.until(lambda: "after 120 lists" in cards(tab)["In the last hour"])
    found = live.ask("v1/live")
    assert found["hour"]["observed"] == observed / 120
    said = f"Predicted {100 * found['hour']['predicted']:.1f} %, observed {100 * observed / 120:.1f} %"
    assert said in cards(tab)["In the last hour"]
    assert said in cards(tab)["In the last day"]
    assert found["hour"]["state"] == "warning"
    assert "Do not rely on the probabilities." in cards(tab)["In the last hour"]
    assert "look" in tab.one("#live-cards > li:nth-child(2)").get_attribute("class")
    tab.until(lambda: "0 clicks to be counted" in cards(tab)["Clicks per minute"])
    tab.until(lambda: FRESH in cards(tab)["Trending"])
    assert tab.all("#live-cards b[onclick]") == []
    bars = tab.run(
        "return [...document.querySelectorAll('#live .minutes rect')].map(x => Number(x.getAttribute('height')))"
    )
    assert len(bars) == 60
    assert max(bars) == 40
    assert sum(height > 0 for height in bars) == len([n for n in found["clicks_per_minute"] if n])
    assert tab.complaints() == []


def test_another_count_does_not_disturb_the_reader(live_tab, live):
    tab = live_tab.open()
    tab.one("#search-a").send_keys("skir\n")
    tab.wait()
    before = live.ask("v1/model")["hash"]
    click(live, "somebody", FRESH, 900)
    tab.until(lambda: live.ask("v1/model")["hash"] != before)
    tab.one("#search-a").send_keys("trous\n")
    tab.wait()
    assert tab.texts("#person-a .chips bdi") == ["Skirt", "Trousers, red"]
    assert tab.texts("#said") == [""] or "Another model" not in tab.texts("#said")[0]


def test_it_fits_narrow_and_wide(live_tab):
    for width in WIDTHS:
        live_tab.resize(width)
        live_tab.open()
        live_tab.until(lambda: len(cards(live_tab)) == 4)
        assert live_tab.run("return document.documentElement.scrollWidth <= innerWidth"), width
