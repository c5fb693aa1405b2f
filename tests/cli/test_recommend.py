import importlib
import json

import numpy as np
import pandas as pd
import pytest

import bmcd


def test_formats_agree_with_python(run, number_model, tmp_path):
    want = bmcd.load(number_model).recommend(4)
    for suffix in ("csv", "parquet", "json"):
        found = run("recommend", number_model, "-k", 4, "-o", tmp_path / f"recs.{suffix}")
        assert found.code == 0, found.err
        assert f"{len(want)} recommendations for 60 users" in found.out
    pd.testing.assert_frame_equal(pd.read_csv(tmp_path / "recs.csv"), want)
    pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / "recs.parquet"), want)
    assert json.loads((tmp_path / "recs.json").read_text()) == want.to_dict("records")
    found = run("recommend", number_model, "-k", 4, "--json").json()
    assert found["recommendations"] == want.to_dict("records")
    assert (found["n_users"], found["n_rows"]) == (60, len(want))


def test_a_table_of_the_first_users(run, number_model):
    found = run("recommend", number_model, "-k", 2, "--show", 3)
    assert found.code == 0
    assert "and 57 more users" in found.out
    assert found.out.count("%") == 6
    assert run("recommend", number_model, "--show", 100, "-k", 1).out.count("%") == 60


def test_numbers_are_matched_by_their_text(run, number_model, tmp_path):
    (tmp_path / "users.txt").write_text("7\n3\n")
    (tmp_path / "items.csv").write_text("item\n0\n1\n2\n3\n4\n")
    by_file = run("recommend", number_model, "--users-file", tmp_path / "users.txt", "--json").json()
    assert list(dict.fromkeys(row["user"] for row in by_file["recommendations"])) == [7, 3]
    assert run("recommend", number_model, "--users", "7, 3", "--json").json() == by_file
    few = run("recommend", number_model, "--items-file", tmp_path / "items.csv", "--json").json()
    assert {row["item"] for row in few["recommendations"]} <= {0, 1, 2, 3, 4}


def test_min_probability(run, number_model):
    rows = run("recommend", number_model, "-k", 3, "--min-probability", 0.5, "--json").json()["recommendations"]
    assert min(row["probability"] for row in rows) >= 0.5
    found = run("recommend", number_model, "-k", 1, "--min-probability", 1, "--users", "1")
    assert found.code == 0
    assert "For 1 users there is nothing to recommend" in found.out


def test_people_it_has_not_seen(run, number_model, text_model, tmp_path):
    (tmp_path / "new.csv").write_text("user,item\nzoe,3\nzoe,4\nyan,0\n")
    found = run("recommend", number_model, "--histories", tmp_path / "new.csv", "-k", 2, "--json").json()
    want = bmcd.load(number_model).recommend_for({"zoe": [3, 4], "yan": [0]}, k=2)
    assert found["recommendations"] == want.to_dict("records")
    (tmp_path / "text.csv").write_text("who,what\n1,art-3\n1,unknown\n")
    columns = ("--user-column", "who", "--item-column", "what")
    arguments = ("recommend", text_model, "--histories", tmp_path / "text.csv", *columns)
    assert run(*arguments, "--ignore-unknown", "--json").json()["n_users"] == 1
    refused = run(*arguments)
    assert refused.code == 1
    assert "'unknown'" in refused.err


def test_ids_that_are_not_known(refused, text_model, tmp_path):
    said = refused("recommend", text_model, "--users", "nobody,user 03")
    assert "1 of 2 users are not known: 'nobody'" in said
    assert "--histories" in said
    (tmp_path / "items.txt").write_text("art-1\nart-99\n")
    assert "art-99" in refused("recommend", text_model, "--items-file", tmp_path / "items.txt")
    assert "no-such" in refused("recommend", text_model, "--users-file", tmp_path / "no-such.txt")
    assert "nobody" in refused("explain", text_model, "nobody", "art-1")
    assert "art-99" in refused("explain", text_model, "user 03", "art-99")


def test_files_that_are_no_models(refused, tmp_path):
    (tmp_path / "m.bmcd").write_text("user,item\nann,7\n" * 10)
    for command in (("recommend",), ("clusters",)):
        assert "was not written by bmcd" in refused(*command, tmp_path / "m.bmcd")
        assert "cannot be read" in refused(*command, tmp_path / "none.bmcd")


def test_the_model_is_never_overwritten(run, number_model, tmp_path):
    other = tmp_path / "careless.csv"
    other.write_bytes(number_model.read_bytes())
    assert run("recommend", other, "-o", other).code == 2
    assert run("clusters", other, "-o", other).code == 2
    assert other.read_bytes() == number_model.read_bytes()


@pytest.mark.parametrize("command", ["recommend", "clusters", "explain"])
def test_hostile_titles_are_shown_as_text(run, text_model, command):
    arguments = {"recommend": ("-k", 12, "--show", 60), "clusters": ("--top", 10), "explain": ()}[command]
    if command == "explain":
        clicked = bmcd.load(text_model).clicks_
        column = clicked.items.tolist().index("art-0")
        user = next(u for u, row in zip(clicked.users, clicked.matrix.toarray(), strict=True) if not row[column])
        arguments = (user, "art-0")
    found = run(command, text_model, *arguments)
    assert found.code == 0, found.err
    assert "\x1b" not in found.out
    assert "\x07" not in found.out
    assert "Bell" in found.out
    if command != "explain":
        assert "[red]Not" in found.out
    assert "\x1b" not in run(command, text_model, *arguments, "--json").out


def test_titles_go_into_files_as_they_are(run, text_model, tmp_path):
    assert run("recommend", text_model, "-k", 12, "-o", tmp_path / "recs.csv").code == 0
    titles = set(pd.read_csv(tmp_path / "recs.csv")["title"])
    assert {"[red]Not red[/red]", "\x1b]0;owned\x07Bell", '"quoted", comma', "art-11"} <= titles


def test_clusters(run, text_model, tmp_path):
    want = bmcd.load(text_model).clusters_
    assert run("clusters", text_model, "-o", tmp_path / "clusters.csv", "--raw").code == 0
    pd.testing.assert_frame_equal(pd.read_csv(tmp_path / "clusters.csv"), want.to_frame())
    found = run("clusters", text_model, "--json").json()
    assert [cluster["alpha"] for cluster in found["clusters"]] == [cluster.alpha for cluster in want]
    assert found["clusters"][0]["top"][0]["title"] == want[0].top[0].title


def test_explain(run, number_model):
    model = bmcd.load(number_model)
    best = model.recommend(5, users=[3])["item"].tolist()[0]
    found = run("explain", number_model, "3", str(best), "-k", 5, "--json").json()
    assert found["probability"] == pytest.approx(model.explain(3, best, 5).probability)
    assert sum(cluster["contribution"] for cluster in found["clusters"]) == pytest.approx(found["probability"])
    said = run("explain", number_model, "zoe", "5", "--history", "1,2").out
    assert "user zoe" in said
    assert "has 2 clicks" in said
    assert "has 0 clicks" in run("explain", number_model, "zoe", "5", "--history", "").out
    clicked = run("explain", number_model, "zoe", "5", "--history", "5")
    assert (clicked.code, clicked.err.count("\n")) == (1, 1)


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".json"])
def test_a_file_is_written_in_chunks_and_is_what_one_piece_would_be(run, text_model, tmp_path, suffix, monkeypatch):
    readers = {".csv": pd.read_csv, ".parquet": pd.read_parquet, ".json": pd.read_json}
    file, calls = tmp_path / f"recs{suffix}", []
    recommend = bmcd.BMCD.recommend

    def counted(self, k, users, **options):
        calls.append(len(users))
        return recommend(self, k, users, **options)

    monkeypatch.setattr(importlib.import_module("bmcd.cli.recommend"), "CHUNK", 25)
    monkeypatch.setattr(bmcd.BMCD, "recommend", counted)
    said = run("recommend", text_model, "-k", 3, "-o", file, "--raw")
    assert said.code == 0, said.err
    assert calls == [25, 25, 10]
    want = recommend(bmcd.load(text_model), 3)
    pd.testing.assert_frame_equal(readers[suffix](file), want, check_dtype=False)
    assert f"{len(want):,} recommendations for 60 users" in said.out


def test_histories_are_checked_before_the_first_chunk_and_then_written(
    run, refused, number_model, tmp_path, monkeypatch
):
    monkeypatch.setattr(importlib.import_module("bmcd.cli.recommend"), "CHUNK", 2)
    people = tmp_path / "people.csv"
    people.write_text("user,item\nann,1\nbob,2\ncleo,3\n7,4\n")
    file = tmp_path / "recs.parquet"
    assert run("recommend", number_model, "--histories", people, "-k", 2, "-o", file).code == 0
    found = pd.read_parquet(file)
    want = bmcd.load(number_model).recommend_for({"ann": [1], "bob": [2], "cleo": [3], "7": [4]}, 2)
    assert found["user"].tolist() == want["user"].tolist()
    np.testing.assert_allclose(found["probability"], want["probability"])
    people.write_text("user,item\nann,1\nbob,2\ncleo,3\ndan,99\n")
    monkeypatch.setattr(bmcd.BMCD, "recommend_for", lambda *_, **__: pytest.fail("work was done first"))
    assert "99" in refused("recommend", number_model, "--histories", people, "-o", tmp_path / "none.csv")


@pytest.mark.parametrize("error", [OSError("disk"), KeyboardInterrupt()])
def test_a_file_that_fails_half_way_is_not_there_and_goes_on(run, number_model, tmp_path, monkeypatch, error):
    monkeypatch.setattr(importlib.import_module("bmcd.cli.recommend"), "CHUNK", 20)
    recommend, calls = bmcd.BMCD.recommend, []

    def failing(self, k, users, **options):
        calls.append(1)
        if len(calls) == 2:
            raise error
        return recommend(self, k, users, **options)

    monkeypatch.setattr(bmcd.BMCD, "recommend", failing)
    file, parts = tmp_path / "recs.csv", tmp_path / "recs.csv.parts"
    stopped = run("recommend", number_model, "-o", file)
    assert stopped.code != 0
    if isinstance(error, KeyboardInterrupt):
        assert f"{parts} has what was done; run the same command again to resume." in stopped.err
    assert len(calls) == 2
    assert list(tmp_path.iterdir()) == [parts]
    found = run("recommend", number_model, "-o", file, "--threads", 1)
    assert "for 60 users (20 of them by the previous run)" in found.out
    assert len(calls) == 4
    assert list(tmp_path.iterdir()) == [file]
    whole = tmp_path / "whole.csv"
    monkeypatch.setattr(importlib.import_module("bmcd.cli.recommend"), "CHUNK", 100)
    assert run("recommend", number_model, "-o", whole).code == 0
    assert file.read_bytes() == whole.read_bytes()


def test_parts_of_another_run_are_not_taken_for_ours(run, refused, number_model, tmp_path, monkeypatch):
    monkeypatch.setattr(importlib.import_module("bmcd.cli.recommend"), "CHUNK", 20)
    file = tmp_path / "recs.csv"

    def full(*_, **__):
        raise OSError("disk")

    monkeypatch.setattr(pd, "read_parquet", full)  # when the parts are joined
    run("recommend", number_model, "-k", 2, "-o", file)
    assert len(list((tmp_path / "recs.csv.parts").glob("*.parquet"))) == 3
    monkeypatch.undo()
    monkeypatch.setattr(importlib.import_module("bmcd.cli.recommend"), "CHUNK", 20)
    found = run("recommend", number_model, "-k", 3, "-o", file)
    assert "previous run" not in found.out
    assert len(pd.read_csv(file)) == 180
    (tmp_path / "other.csv.parts").mkdir()
    (tmp_path / "other.csv.parts" / "thesis.txt").write_text("mine")
    assert "is not a folder of bmcd" in refused("recommend", number_model, "-o", tmp_path / "other.csv")


def test_max_draws(run, number_model):
    model = bmcd.load(number_model)
    one, every = (
        run("recommend", number_model, "-k", 3, "--users", "3", "--max-draws", n, "--json").json() for n in (1, 0)
    )
    for found, max_draws in ((one, 1), (every, None)):
        want = model.recommend(3, users=[3], max_draws=max_draws)["probability"]
        assert [row["probability"] for row in found["recommendations"]] == pytest.approx(want.tolist())
    assert one["recommendations"] != every["recommendations"]
