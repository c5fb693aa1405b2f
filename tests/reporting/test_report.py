"""What stands in a report: right numbers, in order, and nothing from elsewhere."""

import json
import re
from html.parser import HTMLParser

import numpy as np
import pytest

import bmcd
from bmcd.errors import OutputError
from bmcd.evaluation.calibration import Calibration
from bmcd.prediction.top_k import Lists
from bmcd.reporting import words
from bmcd.reporting.facts import choose_k, cut_steps, gather
from bmcd.reporting.markup import json_script, short, tag

ORDER = [
    "summary",
    "data",
    "convergence",
    "groups",
    "calibration",
    "cutoff",
    "comparison",
    "exposure",
    "users",
    "method",
]


class Page(HTMLParser):
    """Elements with their attributes, and the text of each section."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.elements, self.texts, self.section, self.open = [], {}, None, []
        self.feed(text)
        self.close()

    def handle_starttag(self, name, attributes):
        self.elements.append((name, dict(attributes)))
        if name not in ("meta", "input", "br"):
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


@pytest.fixture(scope="module")
def page(made):
    return Page(made.page)


def test_sections_come_in_order_and_elements_are_closed(page):
    assert [given["id"] for name, given in page.elements if name == "section"] == ORDER
    assert page.open == []
    ids = [given["id"] for _, given in page.elements if "id" in given]
    assert len(ids) == len(set(ids))
    links = [given["href"] for name, given in page.elements if name == "a"]
    assert links == [f"#{name}" for name in ORDER]


def test_nothing_comes_from_elsewhere(made, page):
    for name, given in page.elements:
        assert not {"src", "srcset", "action", "onload", "onerror", "onclick"} & set(given), name
        assert given.get("href", "#").startswith("#")
        assert "://" not in given.get("style", "")
    assert not re.search(r"https?://|@import|url\((?!#)", made.page)
    policy = [given["content"] for name, given in page.elements if given.get("http-equiv")]
    assert policy == ["default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"]


def test_hostile_titles_are_text(made, page):
    assert [name for name, _ in page.elements].count("script") == 2  # the data and ours
    assert "img" not in {name for name, _ in page.elements}
    assert "\x00" not in made.page
    assert "\x1b" not in made.page
    assert "\u202e" not in made.page
    assert "x" * 200 not in made.page
    said = " ".join(page.texts.values())
    for title in ("<script>document.title = 'owned'</script>", "\"&<> 'quoted'", "$x^2$", "emoji \U0001f600 裤子"):
        assert title in said
    assert "gnp.\ufffdexe evil" in said
    assert "]]> --> {{css}} </style>" in said
    assert "item 11" in said  # it has no title


def test_numbers_are_those_of_evaluate(made, page):
    for k in (2, 3):
        found = bmcd.evaluate(made.model.recommend(k), made.train, made.test, k=k)
        own = found.interval("accuracy")
        assert (
            f"Of the {k} items recommended to each of {found.n_users_with_list} users, "
            f"{words.in_100(found.accuracy)} were among the clicks kept aside "
            f"(95 % interval: {words.percent(own.low)} to {words.percent(own.high)})"
        ) in page.texts["summary"]
        promised = (
            f"promised {words.percent(found.calibration.mean_probability)}, and {words.percent(found.accuracy)}"
        )
        assert promised in page.texts["summary"]
        gap = bmcd.compare({"BMCD": made.model, **made.rivals}, made.train, made.test, k).differences["EASE"][
            "accuracy"
        ]
        assert (
            f"{100 * gap.difference:+.1f} ({100 * gap.low:+.1f} to {100 * gap.high:+.1f})"
            in page.texts["comparison"]
        )
        assert f"BMCD: {int((found.items.recommended > 0).sum())} of 12 items" in made.page
    assert f"{made.train.n_users} users" in page.texts["data"]
    assert f"{made.train.n_clicks:,} clicks" in page.texts["data"]


def test_the_chance_is_that_of_a_random_item(made):
    facts = gather(
        made.model, made.train, made.test, 2, {}, n_popular=None, seed=0, n_threads=1, show=lambda _: None
    )
    rng, hits = np.random.default_rng(0), []
    train, test = (clicks.matrix.toarray() for clicks in (made.train, made.test))
    for own, kept in zip(train, test, strict=True):
        hits.append(kept[rng.choice(np.flatnonzero(~own), 400)].mean())
    assert facts.chance == pytest.approx(np.mean(hits), abs=0.01)


def test_people_have_their_own_lists_and_hits(made):
    person = made.page.index('data-user="0"')
    card = made.page[person : made.page.index('data-user="1"')]
    user = re.search(r"<h3>User <bdi>(.*?)</bdi>", card)[1]
    row = made.model.recommend(2, users=[int(user)])
    kept = made.test.to_frame()
    kept = set(kept.loc[kept["user"] == int(user), "item"])
    assert f"{len(kept & set(row['item']))} of 2 were among the {len(kept)} clicks kept aside." in card
    for p in row["probability"]:
        assert words.percent(p).replace(" %", "\u00a0%") in card
    assert made.page.count('class="card person"') == 12


def test_verdict_is_in_words_then_in_numbers(made, page):
    verdict = made.model.verdict_
    assert verdict.text.replace("\u00a0", " ") in page.texts["convergence"]
    assert page.texts["convergence"].index("The calculation") < page.texts["convergence"].index(verdict.text[:20])


def test_the_same_bytes_twice_also_from_a_file(made, tmp_path):
    made.model.save(tmp_path / "model.bmcd")
    again = bmcd.report(
        bmcd.load(tmp_path / "model.bmcd"), None, made.test, tmp_path / "r.html", k=(2, 3), rivals=dict(made.rivals)
    )
    assert again.read_text(encoding="utf-8") == made.page
    assert [file.name for file in tmp_path.glob("r.html*")] == ["r.html"]


def test_without_a_test_it_says_what_is_missing(made, tmp_path):
    text = bmcd.report(made.model, path=tmp_path / "r.html", k=2, users=[made.train.users[3]]).read_text("utf-8")
    page = Page(text)
    left_out = {"calibration", "cutoff", "comparison"}
    assert [given["id"] for name, given in page.elements if name == "section"] == [
        x for x in ORDER if x not in left_out
    ]
    assert "no clicks were kept aside" in page.texts["summary"]
    assert "--test test.csv" in page.texts["summary"]
    assert "hits" not in page.texts["exposure"]
    assert text.count('class="card person"') == 1
    assert "fieldset" not in {name for name, _ in page.elements}  # one k: nothing to pick


def test_no_hits_no_rivals_and_one_cluster(made, tmp_path):
    best = made.model.recommend(1)
    pairs = set(zip(best["user"], best["item"], strict=True))
    taken = made.train.to_frame()
    taken = set(zip(taken["user"], taken["item"], strict=True))
    # Everybody clicks the first item that is neither known nor recommended.
    kept = {u: next(i for i in range(12) if (u, i) not in pairs | taken) for u in made.train.users.tolist()}
    matrix = np.zeros((made.train.n_users, 12), bool)
    position = {item: at for at, item in enumerate(made.train.items.tolist())}
    for row, user in enumerate(made.train.users.tolist()):
        matrix[row, position[kept[user]]] = True
    test = bmcd.Clicks.from_matrix(matrix, users=made.train.users, items=made.train.items)
    text = bmcd.report(made.model, None, test, tmp_path / "r.html", k=1, rivals={}).read_text("utf-8")
    page = Page(text)
    assert "none were among the clicks kept aside" in page.texts["summary"]
    assert "No cut-off helps: none of the recommendations were hits." in page.texts["cutoff"]
    assert "No other method was asked for." in page.texts["comparison"]
    one = bmcd.BMCD(1).fit(made.train, draws=3, warmup=3, chains=1)
    page = Page(bmcd.report(one, path=tmp_path / "one.html").read_text("utf-8"))
    assert "All users are taken for one group" in page.texts["groups"]
    assert "cannot be judged" in page.texts["convergence"]


def test_numbers_of_recommendations(made):
    most = 12 - int(np.diff(made.train.matrix.indptr).min())
    assert choose_k(made.model, None) == [k for k in (5, 10) if k <= most]
    assert choose_k(made.model, (3, 2, 3)) == [3, 2]
    assert choose_k(made.model, 4) == [4]
    with pytest.raises(ValueError, match=f"k is 12, but no user has more than {most} items left"):
        choose_k(made.model, 12)
    with pytest.raises(ValueError, match="k is empty"):
        choose_k(made.model, ())
    with pytest.raises(ValueError, match="1 or more"):
        choose_k(made.model, 0)


def test_cut_steps_keep_what_they_say():
    rng = np.random.default_rng(4)
    p = np.round(rng.random((200, 3)), 3)
    items = np.tile(np.arange(3), (200, 1))
    items[0, 2] = -1  # a shorter list
    hit = (rng.random((200, 3)) < p)[items >= 0]
    found = Calibration.of(p[items >= 0], hit)
    steps, best = cut_steps(found, Lists(items, {"probability": p}))
    assert steps[-1].wanted <= best.hit_rate
    for step in steps:
        kept = (p >= step.cutoff) & (items >= 0)
        assert step.hit_rate >= step.wanted
        assert (step.n, step.n_users) == (kept.sum(), kept.any(axis=1).sum())
        assert step.per_user == pytest.approx(kept.sum() / 200)
        assert step.cutoff == found.cutoff_for(step.wanted)
    assert cut_steps(Calibration.of([0.5] * 4, [False] * 4), Lists(items[:2, :2], {"probability": p[:2, :2]})) == (
        (),
        None,
    )


def test_probabilities_that_are_all_equal():
    steps, best = cut_steps(
        Calibration.of([0.5] * 4, [True, False] * 2),
        Lists(np.zeros((2, 2), int), {"probability": np.full((2, 2), 0.5)}),
    )
    assert best.hit_rate == 0.5
    assert [step.cutoff for step in steps] == [0.0]


def test_what_is_refused(made, tmp_path):
    path = tmp_path / "r.html"
    strangers = bmcd.Clicks.from_matrix([[1]], users=["nobody"], items=made.train.items[:1])
    other, _ = made.train.hold_out(1)
    made.model.save(tmp_path / "bare.bmcd", clicks=False)
    refused = [
        (lambda: bmcd.report(made.model, path=tmp_path / "r.pdf"), ValueError, "must end in .html"),
        (lambda: bmcd.report(made.model, path=tmp_path / "no" / "r.html"), OutputError, "does not exist"),
        (lambda: bmcd.report(made.model, None, strangers, path, k=2), ValueError, "nobody"),
        (lambda: bmcd.report(made.model, other, None, path), ValueError, "fitted to other clicks"),
        (lambda: bmcd.report(made.model, None, "test.csv", path), TypeError, "test must be Clicks"),
        (lambda: bmcd.report(bmcd.baselines.EASE(), path=path), TypeError, "about a BMCD"),
        (lambda: bmcd.report(bmcd.load(tmp_path / "bare.bmcd"), path=path), ValueError, "without the clicks"),
        (lambda: bmcd.report(made.model, path=path, users=["nobody"]), ValueError, "nobody"),
        (lambda: bmcd.report(made.model, path=path, users=[]), ValueError, "users is empty"),
        (lambda: bmcd.report(made.model, None, made.test, path, rivals={"BMCD": 1}), ValueError, "own name"),
        (lambda: bmcd.report(made.model, path=path, n_popular=13), ValueError, "1 to 12"),
    ]
    for call, kind, said in refused:
        with pytest.raises(kind, match=said):
            call()
    assert not path.exists()


def test_report_is_a_function_whatever_was_imported_before():
    import subprocess
    import sys

    codes = (
        "import bmcd, types; assert isinstance(bmcd.report, types.FunctionType)",
        "import bmcd.reporting.report, bmcd, types; assert isinstance(bmcd.report, types.FunctionType)",
        "import bmcd.reporting, sys; assert 'matplotlib' not in sys.modules",
    )
    for code in codes:
        subprocess.run([sys.executable, "-c", code], check=True)


def test_markup_escapes_everything():
    assert tag("p", "<b>", title='"x"') == '<p title="&quot;x&quot;">&lt;b&gt;</p>'
    script = json_script("d", {"a": "</script><!--\u2028&"})
    inside = script[script.index(">") + 1 : script.rindex("</")]
    assert not set("<>&\u2028") & set(inside)
    assert json.loads(inside) == {"a": "</script><!--\u2028&"}
    assert short("\t ") == "(no title)"


def test_words_for_shares():
    assert [words.percent(x) for x in (0, 0.0004, 0.0996, 0.5, 0.996, 0.9999, 1)] == [
        *("0 %", "under 0.1 %", "10 %", "50 %", "99.6 %", "100 %", "100 %"),
    ]
