"""Models in files: back as they were, private where they should be, or a clean error."""

import os
import stat
import struct

import numpy as np
import pandas as pd
import pytest

import bmcd
from bmcd import container
from bmcd.baselines import ALS, EASE, ItemKNN, Popularity, RecentCooccurrence, SessionKNN, Transitions, UserKNN
from bmcd.errors import InputError, StoreError
from bmcd.models import persistence
from bmcd.models.persistence import FEWEST_USERS, load, pack, pack_clicks, save, unpack_clicks, without_users
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


def timed(times, **columns):
    rows = {"user": [1, 1, 2, 1, 2, 2], "item": list("abcbaa"), "time": times, **columns}
    return bmcd.Clicks.from_frame(pd.DataFrame(rows), session_column="session" if "session" in columns else None)


DAYS = ["2026-05-01", "2026-05-02", "2026-05-01", "2026-05-03", "2026-05-03", "2026-05-09"]
FRAME = pd.DataFrame({"user": list("xxyyy"), "item": list("abcab")})
LOGS = {
    "unordered": lambda: example_clicks().with_titles({"i05": "Five"}),
    "rows": lambda: bmcd.Clicks.from_frame(FRAME, order="rows", session_gap="1h"),
    "dates": lambda: timed(DAYS),
    "numbers": lambda: timed([1, 2, 1, 3, 3, 9]),
    "fractions": lambda: timed([0.5, 2, 1, 3, 3.25, 9]),
    "sessions": lambda: timed(DAYS, session=[4, 4, 5, 4, 5, 6]),
    "test clicks": lambda: timed(DAYS).split_at("2026-05-02 12:00", k=2)[1],
    "outside": lambda: timed(DAYS).of_items([0], keep_outside=True),
    "polars": lambda: bmcd.Clicks.from_frame(FRAME).with_titles({"a": "Ä 水"}),
    "no clicks": lambda: without_users(timed(DAYS)),
    "nobody": lambda: bmcd.Clicks.from_matrix(np.eye(4, 3) + np.eye(4, 3, -2)),
}


@pytest.mark.parametrize("name", LOGS)
def test_a_log_comes_back_exactly(name, tmp_path):
    log = LOGS[name]()
    header, arrays = pack_clicks(log)
    container.write(tmp_path / "c", "clicks", header, arrays)
    _, header, arrays = container.read(tmp_path / "c", "clicks")
    other = unpack_clicks(header, arrays)
    assert other == log
    assert other.fingerprint() == log.fingerprint()
    assert (other.matrix != log.matrix).nnz == 0
    assert other.sessions.tolist() == log.sessions.tolist()
    for field in ("order", "session_gap", "n_repeated", "history", "library", "n_dropped", "split", "n_new_users"):
        assert getattr(other, field) == getattr(log, field)
    for field in ("users", "items", "starts", "sequence", "times", "session_ids", "titles", "titled"):
        own, found = getattr(log, field), getattr(other, field)
        assert (own is None) == (found is None)
        if own is not None:
            assert (own.dtype, own.tolist()) == (found.dtype, found.tolist())


@pytest.mark.parametrize(
    "ids",
    [
        [3, -1, 2**62],
        ["a", "b", """ "' \\ \n é 水"""],
        [(1, "x"), (2, ("y",)), 2.5],
        [True, "t", 2**70],
        ["7", 7, 0],
    ],
)
def test_ids_of_many_kinds(ids):
    clicks = bmcd.Clicks.from_matrix(np.tril(np.ones((4, 3))) + np.eye(4, 3), items=ids)
    back = unpack_clicks(*pack_clicks(clicks)).items
    assert back.tolist() == ids
    assert [type(own) for own in back.tolist()] == [type(own) for own in ids]


@pytest.mark.parametrize(
    ("ids", "named"),
    [
        ([frozenset([1]), frozenset([2])], "frozenset, which cannot be stored"),
        (["\ud800", "b"], "not valid Unicode"),
        ([(1, "\ud800"), 2], "not valid Unicode"),
        ([float("inf"), 2], "inf is a float"),
    ],
)
def test_ids_that_cannot_be_stored_lose_nothing(ids, named, model, tmp_path):
    items = np.empty(2, object)
    items[:] = ids
    clicks = bmcd.Clicks.from_matrix(np.eye(2))
    path = tmp_path / "m"
    path.write_text("precious")
    fitted = EASE().fit(clicks)
    fitted.clicks_ = bmcd.Clicks(clicks.users, items, clicks.starts, clicks.sequence)
    with pytest.raises(InputError, match=named):
        save(fitted, path)
    assert path.read_text() == "precious"


def test_a_model_comes_back_as_it_was(model, saved):
    other = bmcd.load(saved)
    pd.testing.assert_frame_equal(other.recommend(k=3), model.recommend(k=3), check_exact=True)
    assert repr(other) == repr(model)
    assert other.clicks_ == model.clicks_
    assert other.get_params() == model.get_params()
    assert str(other.verdict_) == str(model.verdict_)
    assert str(other.clusters_) == str(model.clusters_)
    assert other.draws_.problem == model.draws_.problem
    assert other.draws_.seed == 1
    again = saved.with_name("again.bmcd")
    other.save(again)
    assert again.read_bytes() == saved.read_bytes()


def test_only_the_owner_can_read_clicks(model, tmp_path):
    path = tmp_path / "m.bmcd"
    model.save(path, clicks=False)
    path.chmod(0o644)
    model.save(path, clicks=False)
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    model.save(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    bare = tmp_path / "bare.bmcd"
    model.save(bare, clicks=False)
    os.chmod(bare, 0o640)
    load(bare).save(bare)  # it knows no users
    assert stat.S_IMODE(bare.stat().st_mode) == 0o640


def test_a_model_without_clicks_serves_new_people_only(model, tmp_path):
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


def test_counts_of_other_distances_are_stored(tmp_path):
    model = bmcd.BMCD(2, distance="kendall", sampler="paper").fit(example_clicks(), **SHORT)
    model.save(tmp_path / "m")
    other = bmcd.load(tmp_path / "m")
    pd.testing.assert_frame_equal(other.recommend(k=5), model.recommend(k=5))
    model.save(tmp_path / "private", clicks=False)
    assert bmcd.load(tmp_path / "private").draws_.tally is None


@pytest.mark.parametrize("make", [EASE, ItemKNN, UserKNN, Popularity, lambda: ALS(factors=2)])
def test_baselines_can_be_saved_on_their_own(make, tmp_path):
    clicks = example_clicks()
    fitted = make().fit(clicks)
    fitted.save(tmp_path / "m")
    other = load(tmp_path / "m")
    assert type(other) is type(fitted)
    assert other.recommend(3).equals(fitted.recommend(3))
    assert other.get_params() == fitted.get_params()
    with pytest.raises(StoreError, match="has no probabilities"):
        persistence.load_model(tmp_path / "m")
    if isinstance(fitted, UserKNN):
        with pytest.raises(InputError, match="needs the clicks of all users"):
            save(fitted, tmp_path / "m", clicks=False)
    else:
        save(fitted, tmp_path / "m", clicks=False)
        often = clicks.per_item >= FEWEST_USERS
        found = load(tmp_path / "m").scores_for(clicks)
        if often.all() and not fitted._of_pairs:  # some pairs of items have fewer users
            np.testing.assert_array_equal(found, fitted.scores_for(clicks))


def test_models_of_others_cannot_be_saved(tmp_path):
    class Other(EASE):
        pass

    with pytest.raises(InputError, match="Other is not a model of bmcd"):
        save(Other().fit(example_clicks()), tmp_path / "m")


# What a file without clicks may tell.


def telling_log(secret=False):
    """A log with an item of four users; with ``secret`` these four have other names and other clicks."""
    rng = np.random.default_rng(5)
    matrix = rng.random((150, 12)) < 0.3
    matrix[:, 0], matrix[:, 11] = True, False
    matrix[:4, 11] = True  # an item of four users
    if secret:
        matrix[:4] = rng.random((4, 12)) < 0.5
        matrix[:4, 0] = True
    users = [f"user-{'hidden' if secret and n < 4 else 'known'}-{n}" for n in range(150)]
    clicks = bmcd.Clicks.from_matrix(matrix, users=users, items=[f"item-{n}" for n in range(12)])
    rows = clicks.to_frame()
    if secret:
        rows = pd.concat([rows, rows[:3]])
    ordered = bmcd.Clicks.from_frame(rows, order="rows").with_steps("left out user-known-7")
    return ordered.of_items(np.argsort([int(item[5:]) for item in ordered.items]))


@pytest.fixture(scope="module")
def told():
    """Models fitted to the log, by name."""
    clicks = telling_log()
    mixture = bmcd.BMCD(8).fit(clicks, draws=10, warmup=5, chains=2)
    mixture.choice_ = bmcd.choose_n_clusters(clicks, [1, 2], draws=3, warmup=3, chains=2)
    kendall = bmcd.BMCD(2, distance="kendall", sampler="paper").fit(clicks, **SHORT)
    tastes = bmcd.Tastes(6, chains=2).fit(clicks, draws=4, warmup=10)
    mixture.draws_.label_counts[0, 2, 1], tastes.draws_.visits_per_taste[0, 2, 1] = 3, 3.5
    parts = {"EASE": EASE(), "ItemKNN": ItemKNN(), "ALS": ALS(factors=2)}
    blend = bmcd.Blend({**parts, "Tastes": bmcd.Tastes(3, chains=2)})
    blend.fit(clicks, fit_options={"Tastes": {"draws": 4, "warmup": 5}})
    return {"BMCD": mixture, "kendall": kendall, "Tastes": tastes, "Blend": blend}


NAMES = ("BMCD", "kendall", "Tastes", "Blend")


@pytest.mark.parametrize("name", NAMES)
def test_a_file_without_clicks_names_nobody(told, name, tmp_path):
    told[name].save(tmp_path / "all")
    told[name].save(tmp_path / "bare", clicks=False)
    assert b"user-known-7" in (tmp_path / "all").read_bytes()
    content = (tmp_path / "bare").read_bytes()
    assert b"user-" not in content  # ids, and the history of the log
    assert b"item-7" in content
    for log in (told[name].clicks_, telling_log(secret=True)):
        assert log.fingerprint().encode() not in content  # with which a guess could be checked


@pytest.mark.parametrize("name", NAMES)
def test_a_file_without_clicks_has_no_row_per_user_or_click(told, name):
    clicks = told[name].clicks_
    _, arrays = pack(told[name], clicks=False)
    lengths = {clicks.n_users, clicks.n_users + 1, clicks.n_clicks, len(clicks.sequence)}
    quantiles = "scales/"  # 256 or fewer, of the scores of many users
    long = [key for key, array in arrays.items() if lengths & {*array.shape} and not key.startswith(quantiles)]
    assert not long
    for key, array in arrays.items():
        if key.endswith(("draws/probe", "user_factors_", "clicks/sequence", "clicks/times")):
            assert array.size == 0
        assert "tally" not in key
        assert "held_out" not in key
        assert "log_likelihood" not in key


@pytest.mark.parametrize("name", ["BMCD", "kendall", "Tastes"])
def test_a_file_without_clicks_is_the_same_whatever_four_users_did(told, name, monkeypatch):
    """All that is learned being the same, another log that differs by four users gives the same file."""
    one = pack(told[name], clicks=False)
    monkeypatch.setattr(told[name], "clicks_", telling_log(secret=True))
    other = pack(told[name], clicks=False)
    assert one[0] == other[0]
    assert one[1].keys() == other[1].keys()
    for key, array in one[1].items():
        assert array.tobytes() == other[1][key].tobytes(), key


def test_clusters_of_few_users_leave_no_trace(told):
    for name, counts in (("BMCD", "label_counts"), ("Tastes", "visits_per_taste")):
        members = getattr(told[name].draws_, counts)
        few = (members > 0) & (members < FEWEST_USERS)
        assert few.any()  # otherwise nothing would be shown
        _, arrays = pack(told[name], clicks=False)
        assert not ((arrays[f"draws/{counts}"] > 0) & (arrays[f"draws/{counts}"] < FEWEST_USERS)).any()
        assert (arrays["draws/rho"][few] == np.arange(1, 13)).all()
        assert len(np.unique(arrays["draws/alpha"][few])) == 1
        assert (arrays["draws/rho"][~few] == told[name].draws_.rho[~few]).all()
        assert (
            persistence.unpack(*pack(told[name], clicks=False))
            .recommend_for([["item-1"]], k=2)
            .notna()
            .all(axis=None)
        )


def test_items_of_few_users_leave_no_trace_in_baselines():
    clicks = telling_log()
    for fitted in (EASE().fit(clicks), ItemKNN().fit(clicks)):
        (_, arrays), (_, before) = pack(fitted, clicks=False), pack(fitted, clicks=True)
        name = next(name for name in fitted.packed() if name != "modelled_")
        assert before[name][11].any()
        assert not arrays[name][11].any()
        assert not arrays[name][:, 11].any()
        assert (arrays[name][:11, :11] == before[name][:11, :11]).all()


def test_pairs_of_few_users_leave_no_trace_in_counts():
    """Everybody clicks all items; four users go from b to d, and fifteen from a over b and c to d."""
    ways = ["abcd"] * 15 + ["acbd"] * 4
    rows = [(user, item) for user, way in enumerate(ways) for item in way]
    clicks = bmcd.Clicks.from_frame(pd.DataFrame(rows, columns=["user", "item"]), order="rows")
    models = {"next_": Transitions(gaps=1).fit(clicks), "pairs_": RecentCooccurrence(gaps=1).fit(clicks)}
    wanted = {"next_": {"ab", "bc", "cd"}, "pairs_": {"ab", "bc", "cd", "ba", "cb", "dc"}}
    for name, fitted in models.items():
        bare, before = persistence.unpack(*pack(fitted, clicks=False)), getattr(fitted, name).toarray()
        kept = getattr(bare, name).toarray()
        named = {"".join(clicks.items[list(pair)]) for pair in zip(*kept.nonzero(), strict=True)}
        assert named == wanted[name] < {"".join(clicks.items[list(p)]) for p in zip(*before.nonzero(), strict=True)}
        assert (kept[kept > 0] == before[kept > 0]).all()
        np.testing.assert_allclose(getattr(bare, name[:-1] + "_total_"), kept.sum(axis=1))
    walk = persistence.unpack(*pack(models["next_"], clicks=False)).walk_.toarray()
    assert {"".join(clicks.items[list(pair)]) for pair in zip(*walk.nonzero(), strict=True)} == {"ac", "bd"}


def test_what_is_popular_is_known_without_clicks(tmp_path):
    """Who clicked nothing gets what many clicked, also after the file is written once more."""
    clicks = telling_log()
    for fitted in (EASE().fit(clicks), ItemKNN().fit(clicks), Popularity().fit(clicks)):
        wanted = fitted.recommend_for([[]], k=3)["item"].tolist()
        assert wanted[0] == "item-0"
        for path in (tmp_path / "one", tmp_path / "two"):
            fitted.save(path, clicks=False)
            fitted = load(path)
            assert fitted.recommend_for([[]], k=3)["item"].tolist() == wanted


@pytest.mark.parametrize("make", [UserKNN, SessionKNN])
def test_what_needs_everybodys_clicks_is_not_saved_without(make, tmp_path):
    fitted = make().fit(telling_log())
    with pytest.raises(InputError, match=f"{make.__name__} needs the clicks of all users"):
        fitted.save(tmp_path / "m", clicks=False)
    assert os.listdir(tmp_path) == []


def test_a_model_of_few_users_is_not_saved_without_clicks(tmp_path):
    model = bmcd.BMCD(1).fit(bmcd.Clicks.from_matrix(np.eye(4, 5)), draws=2, warmup=1, chains=1)
    with pytest.raises(InputError, match=r"fitted to 4 users, and .* fewer than 5"):
        model.save(tmp_path / "m", clicks=False)
    assert os.listdir(tmp_path) == []


# Files nobody wants.


@pytest.mark.chance(0)
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
    """The file with a right checksum, but another content: what an attacker can write."""
    _, header, arrays = container.read(path, "model")
    change(header, arrays)
    other = path.with_name("hostile.bmcd")
    container.write(other, "model", header, arrays)
    return other


def _set(*keys):
    *path, name, value = keys

    def change(header, arrays):
        for key in path:
            header = header[key]
        header[name] = value

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


def _add(**changes):
    return lambda header, arrays: arrays.update({key.replace("__", "/"): value for key, value in changes.items()})


def _replaced_ids(kind, texts):
    def change(header, arrays):
        header["clicks"]["ids"]["items"] = kind
        arrays.update(persistence.pack_texts("clicks/items", texts))

    return change


@pytest.mark.parametrize(
    "change",
    [
        _set("model", "os"),
        _set("model", "Rival"),
        _set("model", "SparkALS"),
        _set("model", ["BMCD"]),
        _set("model", "Tastes"),
        _set("model", "Blend"),
        _set("run", "n_users", 2**40),
        _set("run", "n_items", 2**40),
        _set("run", "n_clusters", 3),
        _set("run", "n_items", True),
        _set("run", "chains", -1),
        _set("run", "draws", 1),
        _set("run", "stopped", "maybe"),
        _set("run", "note", 7),
        _set("run", []),
        _set("seed", -1),
        _set("seed", "1"),
        _set("version", 3),
        _set("options", None),
        _set("options", "distance", "__import__"),
        _set("options", "rank_scale", [1, 2]),
        _set("options", "rank_scale", {"a": 1}),
        _set("options", "rate", -1),
        _set("options", "count_k", 5),
        _set("options", "extra", 5),
        _set("cluster_names", {"9": "a"}),
        _set("user_sample", {"max_users": 5}),
        _set("clicks", "library", "os"),
        _set("clicks", "n_users", 2**40),
        _set("clicks", "n_users", -1),
        _set("clicks", "order", "time"),
        _set("clicks", "order", ["rows"]),
        _set("clicks", "history", [1]),
        _set("clicks", "session_gap", -1),
        _set("clicks", "n_dropped", 1.5),
        _set("clicks", "ids", "users", "int64"),
        _set("clicks", "ids", "users", "pickle"),
        _set("clicks", []),
        _change("draws/rho", _first(0)),
        _change("draws/rho", _first(13)),
        _change("draws/rho", lambda a: a.astype(np.int64)),
        _change("draws/alpha", _first(np.nan)),
        _change("draws/alpha", _first(-1.0)),
        _change("draws/tau", _first(2.0)),
        _change("draws/tau", lambda a: a[:, :, :1]),
        _change("draws/n_tallied", lambda a: a[:1]),
        _change("clicks/sequence", _first(-2)),
        _change("clicks/sequence", _first(12)),
        _change("clicks/sequence", _first(11)),
        _change("clicks/sequence", lambda a: a[:-1]),
        _change("clicks/sequence", lambda a: a.astype(np.int64)),
        _change("clicks/sequence", lambda a: a.reshape(1, -1)),
        _change("clicks/starts", lambda a: a[::-1].copy()),
        _change("clicks/starts", _first(1)),
        _change("clicks/starts", _first(-(2**62))),
        _change("clicks/starts", lambda a: a.astype(np.float64)),
        _change("clicks/items_starts", _first(-1)),
        _change("clicks/items_starts", lambda a: a[::-1].copy()),
        _change("clicks/items_starts", lambda a: np.concatenate([a[:-2], [2**62], a[-1:]])),
        _change("clicks/items", lambda a: np.full(a.shape, 255, np.uint8)),
        _replaced_ids("text", ["a"] * 12),
        _replaced_ids("text", ["a"]),
        _replaced_ids("json", ["{}"] * 12),
        _replaced_ids("json", ["[" * 500] * 12),
        _replaced_ids("json", [f"[{n}{',1' * 100_000}]" for n in range(12)]),
        _replaced_ids("json", ["NaN", *map(str, range(11))]),
        _replaced_ids("json", ["1e999", *map(str, range(11))]),
        _change("clicks/titles", lambda a: np.full(a.shape, 0xED, np.uint8)),
        _change("clicks/titled", lambda a: a[:-1]),
        _add(clicks__session_ids=np.zeros(1, np.int64)),
        lambda header, arrays: arrays.update({"clicks/session_ids": -np.ones(arrays["clicks/sequence"].size, int)}),
        lambda header, arrays: arrays.pop("draws/alpha"),
        lambda header, arrays: arrays.pop("clicks/starts"),
        lambda header, arrays: arrays.pop("clicks/titles_starts"),
        lambda header, arrays: header["run"].pop("note"),
        lambda header, arrays: header.pop("clicks"),
        lambda header, arrays: header.pop("model"),
        _add(extra=np.zeros(1)),
        _add(draws__tally=np.zeros(1)),
    ],
)
def test_a_hostile_file_is_a_store_error(saved, change):
    with pytest.raises(StoreError, match="hostile"):
        bmcd.load(rewritten(saved, change))


@pytest.mark.parametrize(
    "function",
    [
        lambda a: a[::-1].copy(),
        lambda a: a[:-1],
        lambda a: a.astype(np.float64),
        _first(-(2**63)),
        lambda a: np.full_like(a, np.iinfo(a.dtype).min),
    ],
)
def test_times_of_a_hostile_file(function):
    header, arrays = pack_clicks(timed(DAYS))
    arrays = {name: array.copy() for name, array in arrays.items()}
    arrays["clicks/times"] = function(arrays["clicks/times"])
    with pytest.raises(ValueError, match="time"):
        unpack_clicks(header, arrays)


def test_other_files_are_refused(tmp_path, saved):
    with pytest.raises(StoreError, match="cannot be read"):
        bmcd.load(tmp_path / "nothing.bmcd")
    with pytest.raises(StoreError, match="is not a file"):
        bmcd.load(tmp_path)
    old = tmp_path / "old"
    old.write_bytes(struct.pack("<8sII", b"BMCD\r\n\x1a\n", 1, 2**31) + bytes(100))
    with pytest.raises(StoreError, match=r"old: was written by bmcd 0.2 or earlier, .*: fit again"):
        bmcd.load(old)
    with pytest.raises(StoreError, match="cannot be written"):
        bmcd.load(saved).save(tmp_path / "no such folder" / "m.bmcd")


def test_loading_reads_and_nothing_more(saved):
    """Opening a file computes nothing that a question did not ask for."""
    assert not bmcd.load(saved)._answers._kept
