"""One small model with hostile titles, its report, and a reader of reports."""

from html.parser import HTMLParser
from types import SimpleNamespace

import pytest

import bmcd

TITLES = [
    "<script>document.title = 'owned'</script>",
    "</script><img src=x onerror=\"document.title='owned'\">",
    "\"&<> 'quoted'",
    "gnp.\u202eexe evil",
    "nul\x00 and \x1b[31m",
    "x" * 10_000,
    "$x^2$",
    "emoji \U0001f600 裤子",
    "]]> --> $css {{css}} </style>",
    "  \t ",
    "50 % cotton",
]


class Page(HTMLParser):
    """The elements of a page with their attributes, and the text of each section."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.text, self.elements, self.texts, self.section, self.open = text, [], {}, None, []
        self.feed(text)
        self.close()

    @property
    def sections(self):
        return [attributes["id"] for name, attributes in self.elements if name == "section"]

    def handle_starttag(self, name, attributes):
        self.elements.append((name, dict(attributes)))
        if name not in ("meta", "input", "br", "img"):
            self.open.append(name)
        if name == "section":
            self.section = dict(attributes)["id"]

    def handle_endtag(self, name):
        assert self.open.pop() == name, f"</{name}> closes another element"

    def handle_startendtag(self, name, attributes):
        self.elements.append((name, dict(attributes)))

    def handle_data(self, text):
        if self.section and "script" not in self.open:
            self.texts[self.section] = self.texts.get(self.section, "") + text.replace("\u00a0", " ") + " "


@pytest.fixture(scope="session")
def read_page():
    """Read the HTML of a report; elements that are closed wrongly fail the test."""
    return Page


@pytest.fixture(scope="session")
def reported(tmp_path_factory):
    """A model of 120 users and 12 items, one of them without a title, with its report for k = 2 and 3."""
    folder = tmp_path_factory.mktemp("report")
    clicks = bmcd.simulate(120, 12, consensuses=2, alpha=5.0, mean_clicks=5.0, seed=3).clicks.at_least(4)
    clicks = clicks.with_titles({item: title for item, title in zip(range(12), TITLES, strict=False)})
    train, test = clicks.hold_out(2, seed=3)
    model = bmcd.BMCD(2).fit(train, draws=12, warmup=12, chains=2, seed=3)
    rivals = {"EASE": bmcd.baselines.EASE(), "Popularity": bmcd.baselines.Popularity()}
    path = bmcd.report(model, train, test, folder / "report.html", k=(2, 3), rivals=rivals)
    return SimpleNamespace(model=model, train=train, test=test, rivals=rivals, path=path)


@pytest.fixture(scope="session")
def page(reported):
    """The report, read."""
    return Page(reported.path.read_text(encoding="utf-8"))
