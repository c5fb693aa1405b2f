"""Links and pictures in the report: where they are given, as addresses and nothing else."""

import re

import bmcd


def test_links_and_pictures(reported, read_page, tmp_path):
    items = reported.train.items.tolist()
    rows = {item: f"https://shop.example/?a=1&item={item}" for item in items[:-1]} | {
        items[-1]: "javascript:alert(1)"
    }
    path = tmp_path / "items.csv"
    path.write_text(
        "id,link,image\n" + "".join(f"{item},{link},pictures/{item}.png\n" for item, link in rows.items())
    )
    page = read_page(bmcd.report(reported.model, path=tmp_path / "r.html", k=2, items=path).read_text("utf-8"))
    links = [own for name, own in page.elements if name == "a" and not own["href"].startswith("#")]
    assert links
    assert {own["href"] for own in links} <= set(rows.values()) - {"javascript:alert(1)"}
    assert all("noopener" in own["rel"] and own["target"] == "_blank" for own in links)
    pictures = [own for name, own in page.elements if name == "img"]
    assert pictures
    assert all(re.fullmatch(r"pictures/\w+\.png", own["src"]) and own["loading"] == "lazy" for own in pictures)
    assert "javascript:alert" not in page.text
    assert "addresses left out: not http, https or relative" in page.texts["data"]


def test_without_pictures_nothing_may_be_fetched(reported, tmp_path):
    items = reported.train.items.tolist()
    path = tmp_path / "items.csv"
    path.write_text("item,url\n" + "".join(f"{item},pages/{item}.html\n" for item in items))
    text = bmcd.report(reported.model, path=tmp_path / "r.html", k=2, items=path).read_text("utf-8")
    assert 'img-src data:"' in text
    assert "<img" not in text
    assert "pages/" in text
