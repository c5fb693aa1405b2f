"""What the page does when it is refused, told to wait, or cannot reach the service."""

# Answers the next requests of the page with this status, then lets the rest through.
REFUSE = """
const [status, times, path, seconds] = arguments, real = window.fetch;
let left = times;
window.fetch = (address, options) => {
  if (left <= 0 || !String(address).includes(path)) return real(address, options);
  left -= 1;
  const body = JSON.stringify({detail: 'refused by the test'});
  return Promise.resolve(new Response(body, {status, headers: {'Retry-After': seconds}}));
};
"""


def test_a_key_is_asked_for_and_kept_out_of_the_link(locked_tab, locked):
    tab = locked_tab
    tab.load()
    tab.wait("error")
    tab.until(lambda: tab.texts("#key-form"))
    assert tab.run("return document.activeElement.id") == "key"
    tab.press(*"wrong key", "ENTER")
    tab.until(lambda: tab.texts("#key-wrong"))
    tab.press(*"open sesame", "ENTER")
    tab.wait()
    assert tab.texts("#key-form") == []
    rows = [row.get_attribute("data-item") for row in tab.all(".row")]
    assert rows == [str(row["item"]) for row in locked.recommended()]
    assert "sesame" not in tab.browser.current_url
    assert "sesame" not in tab.run("return document.documentElement.outerHTML + JSON.stringify(localStorage)")
    tab.browser.refresh()
    tab.wait()
    assert len(tab.all(".row")) == 10
    tab.run("sessionStorage.clear()")


def test_a_page_that_is_told_to_wait_asks_again(tab, service):
    tab.open()
    for status, words in ((429, "is busy"), (503, "not ready yet")):
        tab.run(REFUSE, status, 2, "v1/recommend", "1")
        tab.one("#search-a").send_keys("e\n")
        tab.until(lambda words=words: any(words in text for text in tab.texts("#trouble")))
        assert tab.run("return document.documentElement.dataset.state") == "error"
        tab.until(lambda: not tab.texts("#trouble"))
        tab.wait()
    assert len(tab.texts(".chips bdi")) == 2
    assert len(tab.all(".row")) == 10


def test_somebody_in_a_hurry_need_not_wait(tab):
    tab.open()
    tab.run("window.setTimeout = () => 0")  # no waiting ever ends by itself
    tab.run(REFUSE, 503, 1, "v1/items", "10")
    tab.one("#search-a").click()
    tab.until(lambda: tab.texts("#try-now"))
    tab.one("#try-now").click()
    tab.until(lambda: not tab.texts("#trouble"))
    tab.wait()


def test_what_cannot_be_answered_is_said(tab):
    tab.open()
    tab.run(REFUSE, 504, 1, "v1/recommend", "1")
    tab.one("#search-a").send_keys("Skirt\n")
    tab.wait("error")
    assert tab.texts("#person-a .problem") == ["refused by the test"]
    assert tab.all(".row") == []


def test_a_network_that_comes_back_is_used_again(tab):
    tab.open()
    gone = {"offline": True, "latency": 0, "downloadThroughput": -1, "uploadThroughput": -1}
    tab.browser.execute_cdp_cmd("Network.enable", {})
    tab.browser.execute_cdp_cmd("Network.emulateNetworkConditions", gone)
    try:
        tab.one("#search-a").send_keys("Skirt\n")
        tab.until(lambda: any("cannot be reached" in text for text in tab.texts("#trouble")))
        tab.wait("error")
    finally:
        tab.browser.execute_cdp_cmd("Network.emulateNetworkConditions", gone | {"offline": False})
    tab.until(lambda: not tab.texts("#trouble"))  # nobody has pressed anything
    tab.wait()
    assert tab.texts(".chips bdi") == ["Skirt"]
    assert len(tab.all(".row")) == 10
