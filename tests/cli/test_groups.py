"""Groups of items on the command line: fit with a table, filter, rules, similar items, the card."""

import json

import pytest

import bmcd


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    """Clicks and an item table in files."""
    folder = tmp_path_factory.mktemp("shop")
    clicks = bmcd.simulate(n_users=60, n_items=12, consensuses=2, seed=5).clicks
    clicks.to_frame().to_csv(folder / "clicks.csv", index=False)
    rows = [f"{item},{'abc'[item % 3]}{'|d' if item == 0 else ''},{item}.5" for item in clicks.items.tolist()]
    (folder / "items.csv").write_text("item,kind,price\n" + "\n".join(rows) + "\n")
    return folder


@pytest.fixture(scope="module")
def model(shop):
    import subprocess
    import sys

    command = [
        sys.executable,
        "-m",
        "bmcd",
        "fit",
        shop / "clicks.csv",
        "-o",
        shop / "m.bmcd",
        "--items",
        shop / "items.csv",
    ]
    subprocess.run([*command, "--blend", "EASE", "--quiet"], check=True, capture_output=True)
    return shop / "m.bmcd"


def test_the_table_is_kept(model):
    table = bmcd.load(model).clicks_.items_table
    assert table.groups["kind"].names == ("a", "b", "c", "d")
    assert list(table.numbers) == ["price"]


def test_filters_and_rules(run, model):
    fitted = bmcd.load(model)
    options = ("--only", "kind=a,b", "--never", "price=5..", "-k", 3, "--json")
    found = run("recommend", model, *options).json()["recommendations"]
    want = fitted.recommend(3, only={"kind": ["a", "b"]}, never={"price": [5, None]})
    assert [row["item"] for row in found] == want["item"].tolist()
    rules = ("--group", "kind", "--at-most", 2, "--at-least-groups", 2, "--share", "b=0.25", "--worth", 0.01)
    found = run("recommend", model, "-k", 4, *rules, "--json").json()
    want = fitted.recommend(4, rules=bmcd.ListRules("kind", 2, 2, {"b": 0.25}, 0.01))
    assert [row["item"] for row in found["recommendations"]] == want["item"].tolist()
    assert found["rules"]["price"] == pytest.approx(want.attrs["rules"]["price"])
    assert "expected hits" in run("recommend", model, "-k", 4, *rules).out


def test_a_file_says_the_price_too(run, model, tmp_path):
    found = run("recommend", model, "-k", 4, "--at-most", 1, "-o", tmp_path / "r.csv")
    assert found.code == 0, found.err
    assert "groups in a list; price" in found.out


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (("--only", "kind"), "must be a column and groups"),
        (("--only", "kind=z"), "there is no group 'z'"),
        (("--only", "price=x..2"), "'x' is not a number"),
        (("--share", "b"), "must be a group and a share"),
        (("--group", "kind"), "goes with --at-most"),
        (("--at-least-groups", "9"), "asks for 9 groups"),
    ],
)
def test_what_cannot_be(run, model, options, text):
    found = run("recommend", model, *options)
    assert found.code != 0
    assert text in found.err.replace("\n", " ").replace("│", "")


def test_similar_items(run, model):
    want = bmcd.load(model).similar(3, 4, only={"kind": ["a"]})
    found = run("similar", model, 3, "-k", 4, "--only", "kind=a", "--json").json()
    assert [row["item"] for row in found["similar"]] == want["item"].tolist()
    assert run("similar", model, 3).code == 0
    assert "not known" in run("similar", model, "nobody").err


def test_cards(run, model, tmp_path):
    for suffix in ("md", "html", "json"):
        assert run("card", model, "-o", tmp_path / f"card.{suffix}").code == 0
    assert (tmp_path / "card.md").read_text().startswith("# Model card: Blend")
    assert json.loads((tmp_path / "card.json").read_text())["title"] == "Model card: Blend"
    assert "<!doctype html>" in (tmp_path / "card.html").read_text()
    assert run("card", model, "-o", tmp_path / "card.pdf").code != 0
