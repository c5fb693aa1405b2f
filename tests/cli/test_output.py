import csv
import errno
import json
import os
import stat

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from bmcd.cli import output
from bmcd.cli.options import ids_in, ids_of_file
from bmcd.cli.output import check_output, write_frame
from bmcd.clicks.ids import objects, texts_of
from bmcd.errors import ClicksError, OutputError
from bmcd.files import write_json
from bmcd.utils import plain

ROWS = {"user": ["a\x1b", "b,c"], "rank": [1, 2], "mcse": [0.25, float("nan")]}


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table])
def test_all_frames_go_into_all_formats(make, tmp_path):
    for suffix in (".csv", ".parquet", ".json"):
        write_frame(make(ROWS), tmp_path / f"rows{suffix}")
    want = pd.DataFrame(ROWS)
    pd.testing.assert_frame_equal(pd.read_csv(tmp_path / "rows.csv"), want, check_dtype=False)
    pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / "rows.parquet"), want, check_dtype=False)
    assert json.loads((tmp_path / "rows.json").read_text())[1] == {"user": "b,c", "rank": 2, "mcse": None}
    assert len(list(tmp_path.iterdir())) == 3


def test_a_lone_carriage_return_does_not_break_rows(tmp_path):
    """Python before 3.13 does not quote it, and pandas read 240 rows of 120."""
    titles = ["blue\rskirt", 'a "b"\r', "\rx", "plain", "a\nb", "a\r\nb"] * 20
    frame = pd.DataFrame({"item": range(120), "title": titles, "mcse": [0.5, float("nan")] * 60})
    with output.open_table(tmp_path / "rows.csv", raw=True) as write:
        write(frame[:60])
        write(frame[60:])
    pd.testing.assert_frame_equal(pd.read_csv(tmp_path / "rows.csv"), frame, check_dtype=False)
    with (tmp_path / "rows.csv").open(newline="") as file:
        assert [row[1] for row in csv.reader(file)] == ["title", *titles]


FORMULAS = ["=1+1", "+cmd", "-2+3", "@SUM(A1)", " =1", "\t=1", "\uff1d1", "\rx"]


def test_a_spreadsheet_runs_no_cell(tmp_path):
    texts = [*FORMULAS, "-5", "+3.5e3", "a=b", "'=1"]
    frame = pd.DataFrame({"user": texts, "rank": -1, "title": pd.Series(texts, dtype=object)})
    write_frame(frame, tmp_path / "rows.csv")
    with (tmp_path / "rows.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["user"] for row in rows] == [f"'{text}" for text in FORMULAS] + texts[len(FORMULAS) :]
    assert [row["title"] for row in rows] == [row["user"] for row in rows]
    assert {row["rank"] for row in rows} == {"-1"}
    write_frame(frame, tmp_path / "raw.csv", raw=True)
    with (tmp_path / "raw.csv").open(newline="") as file:
        assert [row["user"] for row in csv.DictReader(file)] == texts
    write_frame(frame, tmp_path / "rows.json")
    assert [row["user"] for row in json.loads((tmp_path / "rows.json").read_text())] == texts


def test_ids_of_several_kinds_become_text(tmp_path):
    frame = pd.DataFrame({"user": objects([1, "a", (2, 3)])})
    write_frame(frame, tmp_path / "rows.parquet")
    assert pd.read_parquet(tmp_path / "rows.parquet")["user"].tolist() == ["1", "a", "(2, 3)"]


def test_text_that_utf8_cannot_hold_comes_back_from_json(tmp_path):
    write_json(tmp_path / "rows.json", {"title": "\ud800 x"})
    assert json.loads((tmp_path / "rows.json").read_text()) == {"title": "\ud800 x"}


def test_a_full_disk_leaves_what_was_there(tmp_path, monkeypatch):
    path = tmp_path / "rows.csv"
    path.write_text("before")

    def full(descriptor):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(output.os, "fsync", full)
    with pytest.raises(OutputError, match=r"rows.csv: cannot be written: No space left"):
        write_frame(pd.DataFrame(ROWS), path)
    assert [file.name for file in tmp_path.iterdir()] == ["rows.csv"]
    assert path.read_text() == "before"


def test_files_have_the_permissions_of_any_other(tmp_path):
    write_frame(pd.DataFrame(ROWS), tmp_path / "rows.csv")
    (tmp_path / "other").touch()
    modes = [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("rows.csv", "other")]
    assert modes[0] == modes[1]


@pytest.mark.skipif(os.name != "posix", reason="links and pipes")
def test_where_nothing_can_be_written(tmp_path):
    (tmp_path / "real.csv").write_text("x")
    (tmp_path / "link.csv").symlink_to(tmp_path / "real.csv")
    assert check_output(tmp_path / "link.csv", [".csv"]) == tmp_path / "real.csv"
    (tmp_path / "folder.csv").mkdir()
    os.mkfifo(tmp_path / "pipe.csv")
    for name, why in (("folder.csv", "is a folder"), ("pipe.csv", "not a regular file"), ("no/x.csv", "not exist")):
        with pytest.raises(OutputError, match=why):
            check_output(tmp_path / name, [".csv"])


@pytest.mark.parametrize(
    "text", ["a\x1b[31mb", "a\x9b31mb", "a\x07", "\u202egnp.exe", "a\nb\tc\r", "\ud800", "\x7f"]
)
def test_plain_has_nothing_that_a_terminal_obeys(text):
    assert plain(text).isprintable() or set(plain(text)) <= {" ", "\ufffd", *map(chr, range(32, 127))}
    assert "\n" not in plain(text)


def test_lists_of_ids(tmp_path):
    assert ids_in(' ann,"b,c",, d ') == ["ann", "b,c", "d"]
    assert ids_in("") == []
    assert texts_of(objects([7, "7", 8, "x"])) == {"7": "7", "8": 8, "x": "x"}
    (tmp_path / "a.txt").write_bytes(b"\xef\xbb\xbfann\r\n\r\nb,c\r\nann\r\n")
    assert ids_of_file(tmp_path / "a.txt", "user") == ["ann", "b,c"]
    (tmp_path / "a.csv").write_text('title,item\nx,"1,2"\n\ny,3\n')
    assert ids_of_file(tmp_path / "a.csv", "item") == ["1,2", "3"]
    (tmp_path / "b.csv").write_text("8\n9\n")
    assert ids_of_file(tmp_path / "b.csv", "item") == ["8", "9"]
    (tmp_path / "bad.txt").write_bytes(b"\xff\xfe")
    (tmp_path / "empty.txt").write_text("user\n")
    for name in ("bad.txt", "empty.txt"):
        with pytest.raises(ClicksError, match=name):
            ids_of_file(tmp_path / name, "user")
