from collections.abc import Callable, Mapping
from typing import NamedTuple

import pandas as pd
import pytest

from bmcd import Clicks


class Case(NamedTuple):
    recommendations: pd.DataFrame
    train: Clicks
    test: Clicks


def build(items: str, train: Mapping[str, str], test: Mapping[str, str], lists: Mapping[str, str]) -> Case:
    """Clicks and lists written as one letter an item; all users of train are known, clicking or not."""
    users = list(train)
    parts = [
        Clicks.from_matrix([[i in clicks.get(u, "") for i in items] for u in users], users, items)
        for clicks in (train, test)
    ]
    rows = [(user, item, rank) for user, own in lists.items() for rank, item in enumerate(own, start=1)]
    return Case(pd.DataFrame(rows, columns=["user", "item", "rank"]), parts[0], parts[1])


@pytest.fixture
def make_case() -> Callable[..., Case]:
    return build


@pytest.fixture
def full_lists() -> Case:
    """Five users with three recommendations each; the case other libraries were asked about."""
    return build(
        "abcdefghi",
        train={"u1": "abfi", "u2": "acg", "u3": "abd", "u4": "efhi", "u5": "af"},
        test={"u1": "dg", "u2": "bd", "u3": "e", "u4": "abc", "u5": "h"},
        lists={"u1": "cde", "u2": "bfd", "u3": "fcg", "u4": "abc", "u5": "beh"},
    )


@pytest.fixture
def ragged_lists() -> Case:
    """Lists of 2, 1, 1 and 0; cem has no test clicks, dot no recommendations, and nobody clicked c, d or e."""
    return build(
        "abcde",
        train={"ann": "a", "bob": "a", "cem": "b", "dot": "a"},
        test={"ann": "bd", "bob": "c", "dot": "b"},
        lists={"ann": "bc", "bob": "b", "cem": "a"},
    )
