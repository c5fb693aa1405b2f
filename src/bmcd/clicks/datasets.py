"""The click data that come with the package."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from importlib import resources
from typing import Literal

from bmcd.clicks.log import Clicks
from bmcd.clicks.reading import read_clicks, read_items
from bmcd.errors import ClicksError

__all__ = ["load_dataset"]

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
    if name == "eshop":
        return _read(
            "eshop_clicks.csv.gz",
            "eshop_items.csv",
            user="session",
            title="label",
            order="rows",
            table=("category", "colour"),
        )
    if name not in DATASETS:
        raise ClicksError(f"there is no data set {name!r}; there are {', '.join(map(repr, DATASETS))}.")
    train = _read("msweb_clicks_train.csv.gz", "msweb_items.csv")
    if name == "msweb":
        return train
    import pandas as pd

    test = _read("msweb_clicks_test.csv.gz", "msweb_items.csv").to_frame()
    both = pd.concat([train.to_frame(), test.assign(user=test["user"] + TEST_USER_SHIFT)])
    clicks = Clicks.from_frame(both, titles=both)
    return replace(clicks, history=(f"added {TEST_USER_SHIFT} to the ids of the users of the test file",))


def _read(
    clicks: str,
    titles: str,
    *,
    user: str = "user",
    title: str = "title",
    order: Literal["rows", "none"] = "none",
    table: tuple[str, ...] = (),
) -> Clicks:
    with ExitStack() as stack:
        data = resources.files("bmcd") / "data"
        paths = [stack.enter_context(resources.as_file(data / file)) for file in (clicks, titles)]
        read = read_clicks(paths[0], user=user, titles=paths[1], title=title, order=order)
        read = read_items(read, paths[1], groups=table) if table else read
    if read.items_table is not None:  # how often an item was clicked is no property of it
        own = {name: values for name, values in read.items_table.numbers.items() if name != "sessions"}
        read = replace(read, items_table=replace(read.items_table, numbers=own))
    # All that happened is that some items of the table were never clicked, which is no news to the caller.
    return replace(read, history=())
