"""The report in a real browser, Debian's chromium: what is shown, picked, pointed at and printed."""

import base64
from contextlib import suppress

import pytest

with suppress(ImportError):
    from selenium.webdriver.support.ui import WebDriverWait

WIDTHS = (1280, 390)


@pytest.fixture
def tab(browser, reported):
    """The report, opened anew in the browser."""
    resize(browser, 1280)
    browser.get(reported.path.as_uri())
    return browser


def resize(browser, width):
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)


def visible_texts(tab, selector):
    """The texts of the elements that can be seen."""
    script = "return [...document.querySelectorAll(arguments[0])].filter(x => x.checkVisibility())"
    script += ".map(x => x.innerText)"
    return [text.replace("\u00a0", " ") for text in tab.execute_script(script, selector)]


def test_it_opens_without_a_complaint_and_hostile_titles_do_nothing(tab):
    assert tab.get_log("browser") == []
    assert tab.title == "What is recommended, and how good it is"
    assert tab.execute_script("return document.querySelectorAll('img, iframe, object').length") == 0
    assert "<script>document.title = 'owned'</script>" in tab.execute_script("return document.body.innerText")


def test_the_policy_lets_nothing_in(tab):
    blocked = tab.execute_async_script(
        "const done = arguments[0];"
        "addEventListener('securitypolicyviolation', event => done(event.effectiveDirective));"
        "setTimeout(() => done('nothing'), 3000);"
        "const image = new Image(); image.src = 'file:///x.png';"
    )
    assert blocked == "img-src"


def test_picking_k_changes_the_numbers(tab):
    before = visible_texts(tab, "#summary li")
    assert before[0].startswith("Of the 2 items")
    tab.find_element("css selector", "input[name=k][value='3']").click()
    after = visible_texts(tab, "#summary li")
    assert after[0].startswith("Of the 3 items")
    assert len(visible_texts(tab, "#calibration .view")) == 1
    assert [text for text in visible_texts(tab, ".person h4") if "k =" in text] == ["Recommended (k = 3)"]


def test_picking_a_user_changes_the_list(tab):
    from selenium.webdriver.support.ui import Select

    assert len(visible_texts(tab, ".person")) == 1
    first = visible_texts(tab, ".person h3")
    Select(tab.find_element("id", "person")).select_by_index(4)
    assert len(visible_texts(tab, ".person")) == 1
    assert visible_texts(tab, ".person h3") != first
    assert tab.find_element("id", "person").get_attribute("value") == "4"


def test_items_and_users_can_be_looked_up(tab, reported):
    find = tab.find_element("id", "find")
    find.send_keys("COTTON")
    assert visible_texts(tab, "#found button") == ["50 % cotton"]
    find.send_keys("\n")
    column = reported.train.columns_of([10])[0]
    clicked = int(reported.train.per_item[column])
    told = visible_texts(tab, "#fact")[0]
    assert told.startswith(f"50 % cotton: clicked by {clicked} users; recommended to ")
    assert told.endswith("(k = 2).")
    find.send_keys("script")
    assert len(visible_texts(tab, "#found button")) >= 2  # titles with markup in them are text
    assert tab.title == "What is recommended, and how good it is"
    find.clear()
    name = tab.find_elements("css selector", "#person option")[5].get_attribute("textContent")
    find.send_keys(name)
    find.send_keys("\n")
    assert tab.find_element("id", "person").get_attribute("value") == "5"


def test_the_menu_stays_and_marks_what_is_read(tab):
    tab.execute_script("document.getElementById('method').scrollIntoView()")
    assert tab.execute_script("return document.querySelector('.menu').getBoundingClientRect().top") <= 1
    WebDriverWait(tab, 5).until(lambda tab: visible_texts(tab, "nav a.on") == ["How this was made"])


@pytest.mark.parametrize("width", WIDTHS)
def test_dark_screens_get_a_dark_page_that_can_be_read(tab, width):
    resize(tab, width)
    dark = [{"name": "prefers-color-scheme", "value": "dark"}]
    tab.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": dark})
    try:
        script = (
            "const of = (what, name) => getComputedStyle(document.querySelector(what))[name];"
            "return [of('body', 'backgroundColor'), of('body', 'color'), of('.plot', 'filter')]"
        )
        paper, ink, figure = tab.execute_script(script)
        assert paper == "rgb(22, 24, 27)"
        assert ink == "rgb(232, 232, 234)"
        assert figure.startswith("invert")
        assert tab.execute_script("return document.documentElement.scrollWidth") <= width
    finally:
        tab.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


def test_the_slider_changes_the_answer(tab):
    from selenium.webdriver.common.keys import Keys

    slider = tab.find_element("id", "wanted-2")
    slider.send_keys(Keys.HOME)
    low = visible_texts(tab, "#cut-2")
    slider.send_keys(Keys.END)
    high = visible_texts(tab, "#cut-2")
    assert low != high
    assert visible_texts(tab, "#rate-2")[0] in high[0] or "half" in high[0]
    rows = tab.find_elements("css selector", "#cutoff .view:not([hidden]) .steps tbody tr")
    assert [step for step, row in enumerate(rows) if row.get_attribute("class") == "on"] == [len(rows) - 1]


def test_pointing_shows_what_a_part_says(tab):
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.keys import Keys

    assert visible_texts(tab, "#tip") == []
    part = tab.find_element("css selector", "#comparison .view:not([hidden]) [data-tip]")
    tab.execute_script("arguments[0].scrollIntoView({block: 'center'})", part)
    ActionChains(tab).pause(0.1).move_to_element(part).perform()
    assert visible_texts(tab, "#tip") == [part.get_attribute("data-tip").replace("\u00a0", " ")]
    assert "BMCD, accuracy" in visible_texts(tab, "#tip")[0]
    ActionChains(tab).send_keys(Keys.ESCAPE).perform()
    plot = tab.find_element("css selector", "#exposure .view:not([hidden]) .plot")
    tab.execute_script("arguments[0].scrollIntoView({block: 'center'}); arguments[0].focus()", plot)
    ActionChains(tab).pause(0.1).send_keys(Keys.ARROW_RIGHT, Keys.ARROW_RIGHT).perform()
    tips = plot.find_elements("css selector", "[data-tip]")
    assert visible_texts(tab, "#tip") == [tips[1].get_attribute("data-tip")]
    tab.execute_script("arguments[0].blur()", plot)
    assert visible_texts(tab, "#tip") == []


@pytest.mark.parametrize("width", WIDTHS)
def test_nothing_sticks_out(tab, width):
    resize(tab, width)
    assert tab.execute_script("return document.documentElement.scrollWidth") <= width
    script = (
        "return [...document.querySelectorAll('.plot text')].filter(x => x.checkVisibility())"
        ".map(x => x.getBoundingClientRect().height).filter(x => x > 0)"
    )
    wide = "return [...document.querySelectorAll('.plot')].filter(x => x.checkVisibility()).map(x => x.clientWidth)"
    assert all(plot_width <= width for plot_width in tab.execute_script(wide))
    assert min(tab.execute_script(script)) >= 8  # letters that can be read


def test_it_prints_without_controls(tab):
    printed = tab.execute_cdp_cmd("Page.printToPDF", {"printBackground": True})
    pdf = base64.b64decode(printed["data"])
    assert pdf.startswith(b"%PDF")
    assert pdf.count(b"/Type /Page\n") + pdf.count(b"/Type /Page ") > 1
    tab.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    try:
        assert visible_texts(tab, ".control") == []
        assert visible_texts(tab, "nav") == []
        assert len(visible_texts(tab, "#summary .view")) == 1
    finally:
        tab.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})


def test_it_works_without_scripts(browser, reported):
    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        browser.get(reported.path.as_uri())
        shown = browser.find_element("css selector", "#summary").text
        assert "Of the 2 items" in shown
        assert "Of the 3 items" not in shown
        assert not browser.find_element("css selector", ".picker").is_displayed()
        assert not browser.find_element("id", "person").is_displayed()
        people = browser.find_elements("css selector", ".person")
        assert len(people) == 12
        assert all(person.is_displayed() for person in people)
        assert browser.find_element("id", "cut-2").text.startswith("To be right")
    finally:
        browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})
