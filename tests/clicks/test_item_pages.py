"""Links and pictures of items: found in frames and files, and never more than an address."""

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bmcd.clicks.item_pages import is_safe, read_item_pages
from bmcd.clicks.log import Clicks
from bmcd.errors import ClicksError

ROWS = {
    "item": [1, 2, 2, 3, 9],
    "title": ["One", "Two", "Two", "Three", "Nine"],
    "URL": ["https://shop.example/1", "pages/2.html", "pages/other.html", "javascript:alert(1)", "pages/9.html"],
    "image": ["img/1.png", None, "http://shop.example/2.png", "data:image/png;base64,AA", "img/9.png"],
}


@pytest.fixture
def clicks():
    return Clicks.from_matrix([[1, 1, 1]], items=[1, 2, 3])


@pytest.mark.parametrize("kind", ["pandas", "polars", "arrow", "csv", "tsv", "parquet"])
def test_every_kind_of_source(clicks, kind, tmp_path):
    frame, path = pd.DataFrame(ROWS), tmp_path / f"items.{kind}"
    source = {"pandas": frame, "polars": pl.DataFrame(ROWS), "arrow": pa.table(ROWS)}.get(kind, path)
    if kind in ("csv", "tsv"):
        frame.to_csv(path, index=False, sep="," if kind == "csv" else "\t")
    elif kind == "parquet":
        pq.write_table(pa.table(ROWS), path)
    pages = read_item_pages(source, clicks)
    assert pages.links == {0: "https://shop.example/1", 1: "pages/2.html"}
    assert pages.pictures == {0: "img/1.png", 1: "http://shop.example/2.png"}
    assert pages.n_refused == 2


@pytest.mark.parametrize(
    "address",
    [
        "javascript:alert(1)", "JaVaScRiPt:alert(1)", "java\nscript:alert(1)", " javascript:alert(1)",
        "\x01javascript:x", "data:text/html,x", "vbscript:x", "file:///etc/passwd", "mailto:a@b.example", "1:2",
        "http:", "https:///x",
        "//evil.example/x", "\\\\evil.example\\x", "/\\evil.example", 'x" onerror="y', "a b", "", "x" * 2001,
        "http://[",
    ],
)  # fmt: skip
def test_what_is_no_safe_address(address):
    assert not is_safe(address)


@pytest.mark.parametrize(
    "address",
    ["http://a.example", "HTTPS://a.example/x?y=1&z=2#f", "a.png", "../a/b.png", "/a", "#x", "?q=a:b", "a/b:c"],
)
def test_what_is_a_safe_address(address):
    assert is_safe(address)


def test_what_is_wrong_is_told(clicks, tmp_path):
    with pytest.raises(ClicksError, match=r"no column of links .* but item, title"):
        read_item_pages(pd.DataFrame(ROWS)[["item", "title"]], clicks)
    path = tmp_path / "items.csv"
    path.write_text("item,link\n77,a.html\n")
    with pytest.raises(ClicksError, match=r"items\.csv.*Check the ids"):
        read_item_pages(path, clicks)
