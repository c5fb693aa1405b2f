import csv
import gzip
from importlib import resources

import pytest

from bmcd.clicks.datasets import TEST_USER_SHIFT, load_dataset
from bmcd.errors import ClicksError


def pairs(file: str) -> list[tuple[str, str]]:
    data = (resources.files("bmcd") / "data" / file).read_bytes()
    return [tuple(row) for row in csv.reader(gzip.decompress(data).decode().splitlines())][1:]


def as_pairs(clicks) -> set[tuple[str, str]]:
    frame = clicks.to_frame()
    return set(zip(frame["user"].astype(str), frame["item"].astype(str), strict=True))


def test_eshop_has_the_known_size():
    clicks = load_dataset("eshop")
    assert (clicks.n_users, clicks.n_items, clicks.n_clicks) == (24_026, 217, 148_345)
    top = clicks.most_clicked(200)
    assert top.at_least(13).n_users == 2_877
    assert top.at_least(23).n_users == 852


def test_eshop_holds_the_file_and_its_labels():
    clicks = load_dataset("eshop")
    assert as_pairs(clicks) == set(pairs("eshop_clicks.csv.gz"))
    assert clicks.users.dtype == "int64"
    assert clicks.titles[list(clicks.items).index("A2")] == "blue trousers A2 ($43)"
    assert clicks.summary().n_titles == 217


def test_msweb_is_the_train_file_with_the_known_counts():
    clicks = load_dataset("msweb")
    assert (clicks.n_users, clicks.n_items, clicks.n_clicks) == (32_711, 285, 98_654)
    assert as_pairs(clicks) == set(pairs("msweb_clicks_train.csv.gz"))
    top = clicks.most_clicked(200)
    assert top.at_least(6).n_users == 4_127
    assert top.at_least(13).n_users == 301
    assert clicks.titles[list(clicks.items).index(1001)] == "Support Desktop"
    assert clicks.history == ()


def test_msweb_all_keeps_train_and_test_people_apart():
    clicks = load_dataset("msweb-all")
    assert (clicks.n_users, clicks.n_items, clicks.n_clicks) == (37_711, 286, 113_845)
    shifted = {(str(int(u) + TEST_USER_SHIFT), i) for u, i in pairs("msweb_clicks_test.csv.gz")}
    assert as_pairs(clicks) == set(pairs("msweb_clicks_train.csv.gz")) | shifted
    assert max(load_dataset("msweb").users) < min(int(u) for u, _ in shifted)
    assert clicks.history == ("added 100000 to the ids of the users of the test file",)
    assert clicks.summary().n_titles == 286


def test_an_unknown_name_lists_the_choices():
    with pytest.raises(ClicksError, match="no data set 'movies'; there are 'eshop', 'msweb', 'msweb-all'"):
        load_dataset("movies")
