"""The click data that come with the package."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from bmcd.clicks.log import Clicks
from bmcd.clicks.reading import read_clicks
from bmcd.errors import ClicksError

__all__ = ["load_dataset"]

DATA = Path(__file__).parents[1] / "data"
DATASETS = ("eshop", "msweb", "msweb-all")
# The numbers of train users end at 42711, so no shifted test user can be taken for one of them.
TEST_USER_SHIFT = 100_000


def load_dataset(name: str) -> Clicks:
    """Load bundled clicks with titles: "eshop", "msweb" or "msweb-all".

    * "eshop": 24,026 visits to a shop for maternity clothing, 217 products, 148,345 clicks, in click order; with
      an item table: category and colour as groups, prices (`price_usd`) as numbers.
    * "msweb": the 32,711 people of the train file of the Microsoft web data, 285 areas of the site, 98,654
      clicks. This file alone gives the published counts of 4,127 people with at least 6 clicks on the 200
      most clicked areas and 301 with at least 13; with the test file they are 4,777 and 351.
    * "msweb-all": these and the 5,000 people of the test file, who are other people although their file
      numbers them from 10001 as well; here 100,000 is added to their numbers.

    >>> load_dataset("eshop").most_clicked(200).at_least(13)
    Clicks(2,877 users x 200 items, 61,363 clicks)
    """
    if name not in DATASETS:
        raise ClicksError(f"there is no data set {name!r}; there are {', '.join(map(repr, DATASETS))}.")
    if name == "eshop":
        how: Any = {"user": "session", "title": "label", "order": "rows", "groups": ("category", "colour")}
        clicks = read_clicks(DATA / "eshop_clicks.csv.gz", items=DATA / "eshop_items.csv", **how)
        assert clicks.items_table is not None
        # How often an item was clicked is no property of it.
        numbers = {"price_usd": clicks.items_table.numbers["price_usd"]}
        return replace(clicks, items_table=replace(clicks.items_table, numbers=numbers), history=())
    train = _msweb("train")
    if name == "msweb":
        return train
    import pandas as pd

    test = _msweb("test").to_frame()
    both = pd.concat([train.to_frame(), test.assign(user=test["user"] + TEST_USER_SHIFT)])
    clicks = Clicks.from_frame(both, titles=both)
    return replace(clicks, history=(f"added {TEST_USER_SHIFT} to the ids of the users of the test file",))


def _msweb(part: str) -> Clicks:
    clicks = read_clicks(DATA / f"msweb_clicks_{part}.csv.gz", titles=DATA / "msweb_items.csv", order="none")
    return replace(clicks, history=())  # titles of areas that nobody visited are no news to the caller
