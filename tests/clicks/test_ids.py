"""Ids are exact in every library and format, whatever is missing."""

import unicodedata

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bmcd.clicks.ids import encode, encode_text, whole_texts
from bmcd.clicks.log import Clicks
from bmcd.clicks.reading import read_clicks
from bmcd.errors import ClicksError

LARGE = [2**53 + 1, None, 2**53, 2**53 + 2, -(2**63), 2**63 - 1, 2**53 + 1]
ITEMS = [1, 2, 3, 4, 5, 6, 7]


def frames(tmp_path, require):
    pl = require("polars")
    table = pa.table({"user": pa.array(LARGE, pa.int64()), "item": ITEMS})
    pq.write_table(table, tmp_path / "log.parquet")
    nullable = pd.DataFrame({"user": pd.array(LARGE, dtype="Int64"), "item": ITEMS})
    nullable.to_csv(tmp_path / "log.csv", index=False)
    return {
        "Int64": nullable,
        "objects": pd.DataFrame({"user": pd.Series(LARGE, dtype=object), "item": ITEMS}),
        "objects with NaN": pd.DataFrame(
            {"user": pd.Series([np.nan if v is None else v for v in LARGE], dtype=object), "item": ITEMS}
        ),
        "arrow in pandas": nullable.astype({"user": pd.ArrowDtype(pa.int64())}),
        "categories": nullable.astype({"user": "category"}),
        "polars": pl.DataFrame({"user": LARGE, "item": ITEMS}),
        "lazy": pl.LazyFrame({"user": LARGE, "item": ITEMS}),
        "arrow": table,
        "arrow in pieces": pa.concat_tables([table[:3], table[3:]]),
        "arrow codes": table.set_column(0, "user", table["user"].dictionary_encode()),
        "batch": table.combine_chunks().to_batches()[0],
        "csv": tmp_path / "log.csv",
        "parquet": tmp_path / "log.parquet",
    }


@pytest.mark.parametrize("order", ["none", "rows"])
def test_large_ids_with_missing_ones_are_exact(tmp_path, require, order):
    want = [2**53 + 1, 2**53, 2**53 + 2, -(2**63), 2**63 - 1]
    for name, source in frames(tmp_path, require).items():
        read = read_clicks if name in ("csv", "parquet") else Clicks.from_frame
        clicks = read(source, missing="drop", order=order)
        assert clicks.users.dtype == np.int64, name
        assert clicks.users.tolist() == want, name
        assert clicks.n_dropped == 1, name
        assert clicks.per_user.tolist() == [2, 1, 1, 1, 1], name


def test_floats_of_whole_numbers_become_integers(require, tmp_path):
    pl = require("polars")
    values = [177.0, np.nan, 5.0, 2.0**53 - 1, -3.0]
    frame = pd.DataFrame({"user": values, "item": "a"})
    pq.write_table(pa.Table.from_pandas(frame), tmp_path / "log.parquet")
    for read, source in (
        (Clicks.from_frame, frame),
        (Clicks.from_frame, pl.DataFrame({"user": values, "item": "a"})),
        (Clicks.from_frame, pa.Table.from_pandas(frame)),
        (Clicks.from_frame, frame.astype({"user": object})),
        (read_clicks, tmp_path / "log.parquet"),
    ):
        clicks = read(source, missing="drop")
        assert clicks.users.tolist() == [177, 5, 2**53 - 1, -3]
        assert clicks.users.dtype == np.int64
    for large in (2.0**53, -(2.0**60)):
        for source in (frame.assign(user=large), pa.table({"user": [large, 1.0], "item": ["a", "b"]})):
            with pytest.raises(ClicksError, match=r"floating-point numbers such as .*dtype 'Int64'") as caught:
                Clicks.from_frame(source)
            assert caught.value.column == "user"
    fractions = Clicks.from_frame(frame.assign(user=[1.5, 2.0, 1.5, 3.0, 1e300]))
    assert fractions.users.tolist() == [1.5, 2.0, 3.0, 1e300]


@pytest.mark.parametrize(
    ("values", "ids"),
    [
        ([True, False, True], [True, False]),
        ([("a", 1), ("a", 2), ("a", 1)], [("a", 1), ("a", 2)]),
        ([1, "1", 1], [1, "1"]),
        (
            pd.to_datetime(["2026-01-02", "2026-01-01", "2026-01-02"]),
            list(pd.to_datetime(["2026-01-02", "2026-01-01"])),
        ),
        ([2**70, 1, 2**70], [2**70, 1]),
        (np.array([2**64 - 1, 1, 2**64 - 1], np.uint64), [2**64 - 1, 1]),
        (np.array([200, 1, 200], np.uint8), [200, 1]),
        (pd.Categorical(["b", "a", "b"], categories=["c", "a", "b"]), ["b", "a"]),
        (np.array([b"x", b"y", b"x"], dtype=object), [b"x", b"y"]),
        (["", "a", ""], None),
    ],
)
def test_ids_of_every_kind(values, ids):
    frame = pd.DataFrame({"user": pd.Series(values), "item": [1, 2, 3]})
    if ids is None:
        with pytest.raises(ClicksError, match="row 0, column user: the user id is empty"):
            Clicks.from_frame(frame)
        return
    clicks = Clicks.from_frame(frame)
    assert clicks.users.tolist() == ids
    assert list(map(type, clicks.users.tolist())) == list(map(type, ids))
    assert clicks.per_user.tolist() == [2, 1]


def test_arrow_dictionaries_made_by_others():
    codes = pa.DictionaryArray.from_arrays(
        pa.array([3, 1, None, 0, 2, 4], pa.int8()), pa.array(["a", "b", "a", "c ", None, "unused"])
    )
    coded = encode(pa.chunked_array([codes, codes]), "user", "drop")
    assert coded.ids.tolist() == ["c ", "b", "a"]
    assert coded.codes.tolist() == [0, 1, -1, 2, 2, -1] * 2


texts = st.sampled_from(
    ["", " ", "7", "07", "-0", "-7", " 7", "0x1F", "31", "+7", "1_0", "\u0667", "9" * 19, "8" * 25, "a"]
)


@given(st.lists(texts, min_size=1, max_size=8), st.integers(1, 8))
def test_text_ids_are_encoded_like_a_dict(values, at):
    chunks = pa.chunked_array([values[:at], values[at:]], pa.string())
    for whole in (False, True):
        coded = encode_text(chunks, whole)
        coded = whole_texts(coded) if whole else coded
        want = list(dict.fromkeys(text.strip() for text in values if text.strip()))
        plain = whole and want and all(t == str(int(t)) if t.lstrip("-").isdecimal() else False for t in want)
        plain = plain and all(-(2**63) <= int(t) < 2**63 for t in want)
        assert coded.ids.tolist() == (list(map(int, want)) if plain else want)
        back = ["" if code < 0 else str(coded.ids[code]) for code in coded.codes]
        assert back == [text.strip() for text in values]


def test_ids_that_look_the_same_are_kept_apart_with_a_note(tmp_path):
    composed, decomposed = unicodedata.normalize("NFC", "zoé"), unicodedata.normalize("NFD", "zoé")
    rows = [
        (composed, "a"),
        (decomposed, "a"),
        ("ann", "a\u200b"),
        ("\u00adann", "a"),
        ("bob\ufeff", "b"),
        ("\u200eann", "b"),
        ("\u260e", "b"),
        ("\u260e\ufe0f", "b"),
        ("é", "b"),
    ]
    frame = pd.DataFrame(rows, columns=["user", "item"])
    frame.to_csv(tmp_path / "log.csv", index=False)
    for clicks in (Clicks.from_frame(frame), read_clicks(tmp_path / "log.csv")):
        assert clicks.users.tolist() == [user for user, _ in rows]
        assert clicks.items.tolist() == ["a", "a\u200b", "b"]
        end = "(they differ in Unicode normalisation or by invisible characters) and were kept apart"
        assert clicks.history == (
            rf"4 user ids look like another one {end}: 'zo\xe9' and 'zoe\u0301'",
            rf"1 item ids look like another one {end}: 'a' and 'a\u200b'",
        )
