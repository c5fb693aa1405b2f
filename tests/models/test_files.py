"""Models in files: back as they were, or a clean error."""

import json
import struct

import numpy as np
import pandas as pd
import pytest

import bmcd
from bmcd.errors import InputError, StoreError
from bmcd.models import files
from bmcd.sampling import store
from bmcd.testing import example_clicks

SHORT = {"draws": 6, "warmup": 4, "chains": 2, "seed": 1}


@pytest.fixture(scope="module")
def model():
    clicks = example_clicks().with_titles({"i05": "Five", "i36": "<b>bold</b>"})
    return bmcd.BMCD(2, rank_scale="sqrt", priors=bmcd.Priors(rate=0.1)).fit(clicks, **SHORT)


@pytest.fixture
def saved(model, tmp_path):
    path = tmp_path / "model.bmcd"
    model.save(path)
    return path


def test_a_model_comes_back_as_it_was(model, saved):
    other = bmcd.load(saved)
    pd.testing.assert_frame_equal(other.recommend(k=3), model.recommend(k=3), check_exact=True)
    assert repr(other) == repr(model)
    assert other.clicks_ == model.clicks_
    assert (other.clicks_.titled == model.clicks_.titled).all()
    assert other.get_params() == model.get_params()
    assert str(other.verdict_) == str(model.verdict_)
    assert str(other.clusters_) == str(model.clusters_)
    assert other.draws_.problem == model.draws_.problem
    assert other.draws_.seed == 1
    again = saved.with_name("again.bmcd")
    other.save(again)
    assert again.read_bytes() == saved.read_bytes()


def test_a_model_without_clicks_serves_new_people_only(model, saved, tmp_path):
    private = tmp_path / "private.bmcd"
    model.save(private, clicks=False)
    other = bmcd.load(private)
    history = [["i05", "i36"], []]
    pd.testing.assert_frame_equal(other.recommend_for(history, k=3), model.recommend_for(history, k=3))
    assert str(other.clusters_) == str(model.clusters_)
    for question in (
        lambda: other.recommend(),
        lambda: other.probabilities(),
        lambda: other.explain("u000", "i05"),
    ):
        with pytest.raises(ValueError, match="saved without the clicks"):
            question()
    content = private.read_bytes()
    assert not any(user.encode() in content for user in model.clicks_.users.tolist())
    assert (
        model.draws_.problem.data_hash.encode() not in content
    )  # who has the clicks could tell that these were they
    assert b"u000" in saved.read_bytes()


@pytest.mark.parametrize(
    "ids", [[3, -1, 2**62], ["a", "b", """ "' \\ \n é 水"""], [(1, "x"), (2, "y"), 2.5], [True, "t", 2**70]]
)
def test_ids_of_many_kinds(ids, tmp_path):
    clicks = bmcd.Clicks.from_matrix(np.tril(np.ones((4, 3))) + np.eye(4, 3), items=ids)
    model = bmcd.BMCD(1).fit(clicks, draws=2, warmup=1, chains=1)
    model.save(tmp_path / "m")
    back = bmcd.load(tmp_path / "m").clicks_.items
    assert back.tolist() == ids
    assert [type(own) for own in back.tolist()] == [type(own) for own in ids]


def test_ids_that_cannot_be_stored_lose_nothing(tmp_path):
    clicks = bmcd.Clicks.from_matrix(np.eye(2), items=[frozenset([1]), frozenset([2])])
    model = bmcd.BMCD(1).fit(clicks, draws=2, warmup=1, chains=1)
    path = tmp_path / "m"
    path.write_text("precious")
    with pytest.raises(ValueError, match="frozenset, which cannot be stored"):
        model.save(path)
    assert path.read_text() == "precious"


def test_counts_of_other_distances_are_stored(tmp_path):
    model = bmcd.BMCD(2, distance="kendall", sampler="paper").fit(example_clicks(), **SHORT)
    model.save(tmp_path / "m")
    other = bmcd.load(tmp_path / "m")
    pd.testing.assert_frame_equal(other.recommend(k=5), model.recommend(k=5))
    model.save(tmp_path / "private", clicks=False)
    assert bmcd.load(tmp_path / "private").draws_.tally is None


def test_every_kind_of_damage_is_a_store_error(saved, deep, rotating_seed):
    whole = saved.read_bytes()
    rng = np.random.default_rng(rotating_seed)
    path = saved.with_name("damaged")
    places = range(len(whole)) if deep else sorted(rng.choice(len(whole), 60, replace=False).tolist())
    for place in places:
        path.write_bytes(whole[:place])
        with pytest.raises(StoreError):
            bmcd.load(path)
        flipped = bytearray(whole)
        flipped[place] ^= 1 << int(rng.integers(8))
        path.write_bytes(flipped)
        with pytest.raises(StoreError):
            bmcd.load(path)


def rewritten(path, change):
    """The file with a right hash, but another content: what an attacker can write."""
    stored = store.read(path, "model")
    header, arrays = json.loads(json.dumps(stored.header)), {name: a.copy() for name, a in stored.arrays.items()}
    change(header, arrays)
    other = path.with_name("hostile.bmcd")
    store.write(other, header, arrays)
    return other


def _set(where, name, value):
    def change(header, arrays):
        header[where][name] = value

    return change


def _change(name, function):
    def change(header, arrays):
        arrays[name] = function(arrays[name])

    return change


def _first(value):
    def change(array):
        array.flat[0] = value
        return array

    return change


def text(values):
    return np.frombuffer(json.dumps(values).encode(), np.uint8)


@pytest.mark.parametrize(
    "change",
    [
        _set("run", "n_users", 2**40),
        _set("run", "n_items", 2**40),
        _set("run", "n_clusters", 3),
        _set("run", "n_items", True),
        _set("run", "chains", -1),
        _set("run", "draws", 1),
        _set("run", "library", "os"),
        _set("run", "stopped", "maybe"),
        _set("run", "note", 7),
        _set("options", "distance", "__import__"),
        _set("options", "rank_scale", [1, 2]),
        _set("options", "rank_scale", {"a": 1}),
        _set("options", "rate", -1),
        _set("options", "count_k", 5),
        _set("options", "extra", 5),
        _change("draws/rho", _first(0)),
        _change("draws/rho", _first(13)),
        _change("draws/alpha", _first(np.nan)),
        _change("draws/alpha", _first(-1.0)),
        _change("draws/tau", _first(2.0)),
        _change("draws/tau", lambda a: a[:, :, :1]),
        _change("draws/n_tallied", lambda a: a[:1]),
        _change("clicks/items", _first(-1)),
        _change("clicks/items", _first(12)),
        _change("clicks/items", lambda a: a[:-1]),
        _change("clicks/starts", lambda a: a[::-1].copy()),
        _change("clicks/starts", _first(1)),
        _change("items/ids", lambda a: text(["a"] * 12)),
        _change("items/ids", lambda a: text(["a"])),
        _change("items/ids", lambda a: text([{"a": 1}] * 12)),
        _change("items/ids", lambda a: np.frombuffer(b"[" * 100_000, np.uint8)),
        _change("items/ids", lambda a: np.frombuffer(b"\xff\xfe", np.uint8)),
        _change("items/titles", lambda a: text([1] * 12)),
        _change("items/titles", lambda a: text(["\ud800"] * 12)),
        lambda header, arrays: arrays.pop("draws/alpha"),
        lambda header, arrays: arrays.pop("clicks/starts"),
        lambda header, arrays: arrays.update(extra=np.zeros(1)),
        lambda header, arrays: arrays.update({"draws/tally": np.zeros(1)}),
        lambda header, arrays: header["run"].pop("note"),
    ],
)
def test_a_hostile_file_is_a_store_error(saved, change):
    with pytest.raises(StoreError, match="hostile"):
        bmcd.load(rewritten(saved, change))


def test_other_files_are_refused(tmp_path, saved):
    with pytest.raises(StoreError, match="cannot be read"):
        bmcd.load(tmp_path / "nothing.bmcd")
    with pytest.raises(StoreError, match="is not a file"):
        bmcd.load(tmp_path)
    bomb = tmp_path / "bomb"
    bomb.write_bytes(struct.pack("<8sII", store.MAGIC, store.FORMAT, 2**31) + bytes(100))
    with pytest.raises(StoreError, match="does not fit"):
        bmcd.load(bomb)
    with pytest.raises(StoreError, match="cannot be written"):
        bmcd.load(saved).save(tmp_path / "no such folder" / "m.bmcd")


def test_loading_reads_and_nothing_more(saved):
    """Opening a file computes nothing that a question did not ask for."""
    assert not bmcd.load(saved)._answers._kept


def test_an_id_that_no_file_can_hold_is_refused_when_it_is_saved():
    with pytest.raises(InputError, match="not valid Unicode"):
        files._json_id("\ud800")
    assert files._json_id("Müller") == "Müller"
