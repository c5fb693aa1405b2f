"""The report in a real browser, Debian's chromium: what is shown, picked, pointed at and printed."""

import base64
import os
import shutil

import pytest

WIDTHS = (1280, 390)


def missing(what):
    if os.environ.get("BMCD_REQUIRE_ALL") == "1":
        pytest.fail(f"{what} is required: scripts/need_chromium.sh gets it")
    pytest.skip(f"missing: {what}")


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    try:
        from selenium import webdriver
        from selenium.webdriver.chrome.service import Service
    except ImportError:
        missing("selenium")
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    driver = shutil.which("chromedriver")
    if not chromium or not driver:
        missing("chromium with chromedriver")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for flag in (
        *("headless", "no-sandbox", "disable-gpu", "no-first-run", "disable-background-networking"),
        *("disable-component-update", "disable-sync", "disable-dev-shm-usage"),
        f"user-data-dir={tmp_path_factory.mktemp('chromium')}",
    ):
        options.add_argument(f"--{flag}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    started = webdriver.Chrome(options=options, service=Service(driver))
    yield started
    started.quit()


@pytest.fixture
def page(browser, made):
    """The report, opened anew."""
    resize(browser, 1280)
    browser.get(made.path.as_uri())
    return browser


def resize(browser, width):
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)


def seen(page, selector):
    """The text of what is shown."""
    script = "return [...document.querySelectorAll(arguments[0])].filter(x => x.checkVisibility())"
    script += ".map(x => x.innerText)"
    return [text.replace("\u00a0", " ") for text in page.execute_script(script, selector)]


def test_it_opens_without_a_complaint_and_hostile_titles_do_nothing(page):
    assert page.get_log("browser") == []
    assert page.title == "What is recommended, and how good it is"
    assert page.execute_script("return document.querySelectorAll('img, iframe, object').length") == 0
    assert "<script>document.title = 'owned'</script>" in page.execute_script("return document.body.innerText")


def test_the_policy_lets_nothing_in(page):
    blocked = page.execute_async_script(
        "const done = arguments[0];"
        "addEventListener('securitypolicyviolation', event => done(event.effectiveDirective));"
        "setTimeout(() => done('nothing'), 3000);"
        "const image = new Image(); image.src = 'file:///x.png';"
    )
    assert blocked == "img-src"


def test_picking_k_changes_the_numbers(page):
    before = seen(page, "#summary li")
    assert before[0].startswith("Of the 2 items")
    page.find_element("css selector", "input[name=k][value='3']").click()
    after = seen(page, "#summary li")
    assert after[0].startswith("Of the 3 items")
    assert len(seen(page, "#calibration .view")) == 1
    assert [text for text in seen(page, ".person h4") if "k =" in text] == ["Recommended (k = 3)"]


def test_picking_a_user_changes_the_list(page):
    from selenium.webdriver.support.ui import Select

    assert len(seen(page, ".person")) == 1
    first = seen(page, ".person h3")
    Select(page.find_element("id", "person")).select_by_index(4)
    assert len(seen(page, ".person")) == 1
    assert seen(page, ".person h3") != first
    assert page.find_element("id", "person").get_attribute("value") == "4"


def test_the_slider_changes_the_answer(page):
    from selenium.webdriver.common.keys import Keys

    slider = page.find_element("id", "wanted-2")
    slider.send_keys(Keys.HOME)
    low = seen(page, "#cut-2")
    slider.send_keys(Keys.END)
    high = seen(page, "#cut-2")
    assert low != high
    assert seen(page, "#rate-2")[0] in high[0] or "half" in high[0]
    rows = page.find_elements("css selector", "#cutoff .view:not([hidden]) .steps tbody tr")
    assert [at for at, row in enumerate(rows) if row.get_attribute("class") == "on"] == [len(rows) - 1]


def test_pointing_shows_what_a_part_says(page):
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.keys import Keys

    assert seen(page, "#tip") == []
    part = page.find_element("css selector", "#comparison .view:not([hidden]) [data-tip]")
    page.execute_script("arguments[0].scrollIntoView({block: 'center'})", part)
    ActionChains(page).pause(0.1).move_to_element(part).perform()
    assert seen(page, "#tip") == [part.get_attribute("data-tip").replace("\u00a0", " ")]
    assert "BMCD, accuracy" in seen(page, "#tip")[0]
    ActionChains(page).send_keys(Keys.ESCAPE).perform()
    plot = page.find_element("css selector", "#exposure .view:not([hidden]) .plot")
    page.execute_script("arguments[0].scrollIntoView({block: 'center'}); arguments[0].focus()", plot)
    ActionChains(page).pause(0.1).send_keys(Keys.ARROW_RIGHT, Keys.ARROW_RIGHT).perform()
    tips = plot.find_elements("css selector", "[data-tip]")
    assert seen(page, "#tip") == [tips[1].get_attribute("data-tip")]
    page.execute_script("arguments[0].blur()", plot)
    assert seen(page, "#tip") == []


@pytest.mark.parametrize("width", WIDTHS)
def test_nothing_sticks_out(page, width):
    resize(page, width)
    assert page.execute_script("return document.documentElement.scrollWidth") <= width
    script = (
        "return [...document.querySelectorAll('.plot text')].filter(x => x.checkVisibility())"
        ".map(x => x.getBoundingClientRect().height).filter(x => x > 0)"
    )
    wide = "return [...document.querySelectorAll('.plot')].filter(x => x.checkVisibility()).map(x => x.clientWidth)"
    assert all(own <= width for own in page.execute_script(wide))
    assert min(page.execute_script(script)) >= 8  # letters that can be read


def test_it_prints_without_controls(page, tmp_path):
    printed = page.execute_cdp_cmd("Page.printToPDF", {"printBackground": True})
    pdf = base64.b64decode(printed["data"])
    assert pdf.startswith(b"%PDF")
    assert pdf.count(b"/Type /Page\n") + pdf.count(b"/Type /Page ") > 1
    page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    try:
        assert seen(page, ".control") == []
        assert seen(page, "nav") == []
        assert len(seen(page, "#summary .view")) == 1
    finally:
        page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})


def test_it_works_without_scripts(browser, made):
    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        browser.get(made.path.as_uri())
        shown = browser.find_element("css selector", "#summary").text
        assert "Of the 2 items" in shown
        assert "Of the 3 items" not in shown
        assert not browser.find_element("css selector", ".picker").is_displayed()
        assert not browser.find_element("id", "person").is_displayed()
        people = browser.find_elements("css selector", ".person")
        assert len(people) == 12
        assert all(one.is_displayed() for one in people)
        assert browser.find_element("id", "cut-2").text.startswith("To be right")
    finally:
        browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})
