"""`bmcd clusters`: who belongs to which cluster, in a file, and names that stay in the model."""

import importlib
import shutil

import numpy as np
import pandas as pd
import pytest

import bmcd


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_memberships_of_all_users_in_a_file(run, text_model, tmp_path, suffix, monkeypatch):
    monkeypatch.setattr(importlib.import_module("bmcd.cli.clusters"), "CHUNK", 7)
    file = tmp_path / f"segments{suffix}"
    said = run("clusters", text_model, "--users", file, "--raw")
    assert said.code == 0, said.err
    assert "60 users and their clusters" in said.out
    found = pd.read_csv(file) if suffix == ".csv" else pd.read_parquet(file)
    model = bmcd.load(text_model)
    want = model.memberships()
    assert found.columns.tolist() == ["user", "cluster", "name", "probability", "1", "2"]
    pd.testing.assert_frame_equal(found[want.columns], want)
    weight = want[["1", "2"]].to_numpy()
    assert found["cluster"].tolist() == (weight.argmax(axis=1) + 1).tolist()
    np.testing.assert_allclose(found["probability"], weight.max(axis=1))
    by_number = {c.cluster: c.suggested_name for c in model.clusters_}
    assert found["name"].tolist() == [by_number[c] for c in found["cluster"]]


def test_a_name_given_here_stays_in_the_model(run, text_model, tmp_path):
    model = tmp_path / "own.bmcd"
    shutil.copy(text_model, model)
    assert "skirts" in run("clusters", model, "--name", "2=skirts").out
    assert [c.name for c in bmcd.load(model).clusters_] == [None, "skirts"]
    before = bmcd.load(text_model).recommend(k=3)
    pd.testing.assert_frame_equal(bmcd.load(model).recommend(k=3), before, check_exact=True)
    found = run("clusters", model, "--json", "--users", tmp_path / "u.csv").json()
    assert (found["n_users"], found["clusters"][1]["name"]) == (60, "skirts")


def test_what_cannot_be_done_is_refused_and_changes_nothing(run, refused, text_model, tmp_path):
    model = tmp_path / "own.bmcd"
    shutil.copy(text_model, model)
    assert "numbered from 1 to 2" in refused("clusters", model, "--name", "3=x")
    assert run("clusters", model, "--name", "skirts").code == 2
    assert run("clusters", model, "--users", model.with_suffix(".txt")).code == 2
    bmcd.load(model).save(model, clicks=False)
    assert "saved without" in refused("clusters", model, "--users", tmp_path / "users.csv")
