"""Model cards: everything is there, nothing in it is markup, and it needs no report."""

import json
import subprocess
import sys

import pytest

import bmcd
from bmcd.reporting.card import html_card, make_card, markdown_card

NASTY = "<script>alert(1)</script> | *x* `y` [z](javascript:1)"


@pytest.fixture(scope="module")
def model():
    clicks = bmcd.load_dataset("eshop").of_users(range(3000))
    names = {item: NASTY if row % 2 else "plain" for row, item in enumerate(clicks.items.tolist())}
    clicks = clicks.with_items({"item": list(names), "kind": list(names.values())})
    return bmcd.Blend().fit(clicks)


def test_it_says_what_a_card_must_say(model):
    card = make_card(model, "ab" * 32)
    parts = {part.title: part for part in card.parts}
    assert list(parts) == [
        "The model", "Intended use", "Data", "Members and weights", "Calibration and back-test", "Groups of items",
        "Limits", "Versions and hashes",
    ]  # fmt: skip
    rows = {row[0]: row[1:] for part in card.parts for row in part.rows}
    assert rows["users"] == ("3,000",)
    assert rows["SHA-256 of the clicks"] == (model.clicks_.fingerprint(),)
    assert rows["SHA-256 of the file"] == ("ab" * 32,)
    assert rows["bmcd"] == (bmcd.__version__,)
    for name in model.members_:
        assert rows[name][2].endswith("%")
    windows = parts["Calibration and back-test"].rows[1:]
    assert [row[2] for row in windows] == [f"{p:.1%}" for p in model.windows_["predicted"]]
    assert [row[3] for row in windows] == [f"{p:.1%}" for p in model.windows_["observed"]]
    assert "no clock" in " ".join(parts["Limits"].points)
    assert json.loads(json.dumps(card.to_dict()))["title"] == "Model card: Blend"


def test_nothing_in_it_is_markup(model):
    markdown, page = markdown_card(model), html_card(model)
    assert not re.search(r"(?<!\\)<script", markdown)  # a backslash makes it text
    assert r"\<script\>" in markdown
    assert "<script" not in page
    assert "&lt;script&gt;" in page
    table = [line for line in markdown.splitlines() if "script" in line]
    assert all(line.replace(r"\|", "").count("|") == 5 for line in table)  # four cells


def test_other_models_and_files_without_clicks(tmp_path):
    clicks = bmcd.simulate(n_users=60, n_items=12, consensuses=2, seed=1).clicks
    model = bmcd.Tastes(2, chains=2).fit(clicks, draws=2, warmup=2)
    text = markdown_card(model)
    assert "Members and weights" not in text
    assert "had no order" in text
    model.save(tmp_path / "m.bmcd", clicks=False)
    assert "holds no users and no clicks" in markdown_card(bmcd.load(tmp_path / "m.bmcd"))


def test_cards_need_no_matplotlib():
    code = "import sys, bmcd.reporting.card; print('matplotlib' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
