"""Blend as people use it: the contract, promises that come true, nothing from the future, files, refusals."""

import warnings
from dataclasses import replace
from functools import lru_cache

import numpy as np
import pandas as pd
import pytest

import bmcd
from bmcd import container, testing
from bmcd.baselines import EASE, ItemKNN, Popularity
from bmcd.blend import blend as module
from bmcd.errors import BlendError, InputError, StoreError
from bmcd.models.persistence import pack

START = pd.Timestamp("2026-03-01")
DAY = pd.Timedelta(days=1)
N_ITEMS = 40


def visits(seed, n_users, n_days=8, *, drift=0.15, sudden=None, least=4, most=30):
    """Rows of users who visit once: what follows what is fixed, and popularity drifts (or is drawn anew, suddenly).

    A next click is drawn in proportion to what follows the last click times popularity, without clicked items.
    """
    rng = np.random.default_rng(seed)
    world = np.random.default_rng(5)
    follows = 0.02 + world.dirichlet(np.full(N_ITEMS, 0.05), N_ITEMS)
    base, change = world.normal(size=N_ITEMS), world.normal(size=(1000, N_ITEMS))
    rows = []
    for user in range(n_users):
        day = rng.random() * n_days
        if sudden is None:
            popularity = np.exp(base + drift * day * change[0])
        else:
            popularity = np.exp(3 * change[1 + int(day / sudden)])
        clicked, last = np.zeros(N_ITEMS, bool), None
        for click in range(int(rng.integers(least, most))):
            rates = popularity * (1.0 if last is None else follows[last]) * ~clicked
            last = int(rng.choice(N_ITEMS, p=rates / rates.sum()))
            clicked[last] = True
            time = START + day * DAY + pd.Timedelta(seconds=20 * click)
            rows.append((f"u{seed}-{user}", f"i{last:02}", time.round("s")))
    return pd.DataFrame(rows, columns=["user", "item", "time"])


@lru_cache
def timed():
    return bmcd.Clicks.from_frame(visits(1, 500, most=14))


@lru_cache
def by_rows():
    return bmcd.Clicks.from_frame(
        visits(1, 500, most=14).sort_values("time", kind="stable")[["user", "item"]], order="rows"
    )


@lru_cache
def unordered():
    return bmcd.Clicks.from_frame(visits(1, 200, most=14)[["user", "item"]])


LOGS = {"timed": timed, "by rows": by_rows, "unordered": unordered}


@lru_cache
def fitted(name):
    """The default blend; of the log without order one of two quick models."""
    models = None if name != "unordered" else {"EASE": EASE(50.0), "ItemKNN": ItemKNN(8)}
    return bmcd.Blend(models).fit(LOGS[name](), seed=1)


names = pytest.mark.parametrize("name", LOGS)


# ---- the contract ----


def longer(ordered):
    return testing.example_clicks(n_users=200, n_items=14, ordered=ordered)


@pytest.mark.parametrize(
    ("models", "ordered"),
    [(None, True), (EASE(5.0), True), (EASE(5.0), False), ({"P": Popularity(), "K": ItemKNN(5)}, False)],
    ids=["counts", "one, ordered", "one", "two"],
)
def test_it_keeps_the_contract(models, ordered):
    testing.check_recommender(lambda: bmcd.Blend(models), clicks=longer(ordered))


@names
@pytest.mark.parametrize("k", [1, 3, 12, 39])
def test_probabilities_sum_to_k(name, k):
    model, clicks = fitted(name), LOGS[name]()
    probability, outside = model.probabilities(k), model.outside(k)
    left = N_ITEMS - np.asarray((clicks.matrix > 0).sum(axis=1)).ravel()
    wanted = np.where(outside > 0, k, np.minimum(k, left))
    np.testing.assert_allclose(probability.sum(axis=1) + outside, wanted, atol=1e-6)
    assert ((probability >= 0) & (probability <= 1)).all()
    assert not probability[clicks.matrix.toarray() > 0].any()


def test_one_recommender_keeps_its_order():
    clicks = unordered()
    blend, alone = bmcd.Blend(ItemKNN(8)).fit(clicks), ItemKNN(8).fit(clicks)
    assert blend.recommend(5)[["user", "item"]].equals(alone.recommend(5)[["user", "item"]])


# ---- promises ----


@pytest.fixture(scope="module")
def drifting():
    """A blend fitted to the first seven days, and the visits of the eighth."""
    rows = visits(11, 2500)
    earlier = rows[rows["user"].isin(rows.loc[rows["time"] < START + 7 * DAY, "user"])]
    earlier = earlier[earlier["time"] < START + 7 * DAY]
    later = rows[~rows["user"].isin(earlier["user"])]
    model = bmcd.Blend(refresh="1d").fit(bmcd.Clicks.from_frame(earlier), seed=1)
    return model, bmcd.Clicks.from_frame(later), bmcd.Clicks.from_frame(earlier)


def asked_and_followed(later, k, seed):
    """Clicks up to a random point of each visit, by user, and the set of the k that followed."""
    rng = np.random.default_rng(seed)
    histories, followed = {}, {}
    for row, user in enumerate(later.users.tolist()):
        items = later.items[later.sequence[later.starts[row] : later.starts[row + 1]]].tolist()
        if len(items) >= k:
            at = int(rng.integers(0, len(items) - k + 1))
            histories[user], followed[user] = items[:at], {*items[at : at + k]}
    return histories, followed


def hits_of(found, followed):
    """Predicted and observed hits of each user's list."""
    hit = [item in followed[user] for user, item in zip(found["user"], found["item"], strict=True)]
    per_user = found.assign(hit=hit).groupby("user", sort=False)[["probability", "hit"]].sum()
    return per_user["probability"].to_numpy(), per_user["hit"].to_numpy(float)


@pytest.mark.parametrize("k", [1, 3, 10])
def test_promises_come_true_while_popularity_drifts(drifting, k):
    """Within 4.5 standard errors and a hundredth of the list, for the race and for rates that are log-linear."""
    model, later, _ = drifting
    histories, followed = asked_and_followed(later, k, 3)
    assert {len(history) for history in histories.values()} >= {*range(15)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        predicted, observed = hits_of(model.recommend_for(histories, k=5, horizon=k), followed)
    gap = predicted - observed
    assert abs(gap.mean()) < 4.5 * gap.std() / np.sqrt(len(gap)) + 0.01 * 5
    assert observed.mean() > 0.9 * predicted.mean()


def test_reversed_histories_hit_less(drifting):
    model, later, _ = drifting
    histories, followed = asked_and_followed(later, 1, 4)
    backwards = {user: history[::-1] for user, history in histories.items()}
    one, other = (hits_of(model.recommend_for(h, k=5, horizon=1), followed)[1] for h in (histories, backwards))
    assert one.mean() > other.mean() + 0.1


def test_past_windows_are_calibrated(drifting):
    model, _, _ = drifting
    assert model.verdict_.text.startswith("Calibrated: predicted")
    assert len(model.windows_) >= 3


def test_popularity_that_changes_completely_is_not_stable():
    model = bmcd.Blend(refresh="6h").fit(bmcd.Clicks.from_frame(visits(2, 900, 4, sudden=0.25, most=7)), seed=1)
    assert model.verdict_.text.startswith("Not stable at this refresh: predicted")
    assert any("shorter refresh" in advice for advice in model.verdict_.advice)


def test_too_few_windows_are_not_enough_history():
    model = bmcd.Blend(refresh="5d").fit(timed(), seed=1)
    assert model.verdict_.text.startswith("Not enough history")
    assert len(model.windows_) < 3


def test_without_order_nothing_is_said_of_later_clicks():
    assert "has no order" in fitted("unordered").verdict_.text


# ---- nothing from the future ----


def test_an_item_of_tomorrow_is_outside():
    """On each day a new item gets a fifth of the clicks, and tomorrow's is only known as an item outside."""
    rows = visits(6, 600, most=10)
    rng = np.random.default_rng(0)
    day = ((rows["time"] - START) / DAY).astype(int)
    rows["item"] = np.where(rng.random(len(rows)) < 0.2, "day" + day.astype(str), rows["item"])
    whole = bmcd.Clicks.from_frame(rows)
    before = whole.keep(whole.times < np.datetime64(START + 7 * DAY))  # the catalogue has tomorrow's item
    assert "day7" in before.items.tolist()
    model = bmcd.Blend(refresh="1d").fit(before, seed=1)
    column = before.items.tolist().index("day7")
    users = before.users[:20]
    assert not model.probabilities(5, users)[:, column].any()
    assert "day7" not in set(model.recommend(before.n_items, users=users)["item"])
    outside = model.outside(1, users)
    assert (outside > 0.02).all()
    assert (outside < 0.6).all()
    assert (model.windows_["outside_observed"] > 0.05).all()


def test_clicks_after_a_cut_change_nothing_before_it():
    """What members count at the cuts is the same with other clicks in the last window."""
    from bmcd.blend.fitting import Work, make_settings

    log = timed()
    times = log.times
    last = times >= times.max() - np.timedelta64(1, "D")
    other = np.random.default_rng(0).permutation(log.items.size)[log.sequence]
    changed = bmcd.Clicks.from_frame(
        log.to_frame().assign(item=np.where(last, log.items[other], log.items[log.sequence]))
    )
    assert changed.items.tolist() == log.items.tolist()
    tables = []
    for clicks in (log, changed):
        length = 86_400_000_000
        work = Work(clicks, make_settings(clicks, length, False, module_members()), length, 0, 1, False)
        assert work.cuts[-1].inside.sum() == last.sum()
        work.count_cuts()
        tables.append(work.tables)
    for one, two in zip(*tables, strict=True):
        for name in ("popularity", "known", "outside"):
            assert np.array_equal(getattr(one, name), getattr(two, name))
        for name in ("follows", "goes_with", "ease"):
            assert all(np.array_equal(a, b) for a, b in zip(getattr(one, name), getattr(two, name), strict=True))


def module_members():
    from bmcd.blend.features import MEMBERS

    return MEMBERS


def test_the_order_of_rows_does_not_matter_where_there_are_times():
    rows = visits(1, 300, most=14)
    shuffled = rows.sample(frac=1, random_state=1)
    one, other = (bmcd.Blend().fit(bmcd.Clicks.from_frame(r), seed=1) for r in (rows, shuffled))
    users = sorted(rows["user"].unique())
    a, b = (m.recommend(5, users=users) for m in (one, other))
    pd.testing.assert_frame_equal(a, b, check_exact=False, atol=1e-9)


# ---- the same again ----


@names
def test_threads_change_no_byte(name):
    models = fitted(name).models if name == "unordered" else None
    alone, *others = (bmcd.Blend(models).fit(LOGS[name](), seed=3, n_threads=n) for n in (1, 2, 4))
    for other in others:
        assert np.array_equal(alone.weights_["weight"], other.weights_["weight"])
        assert np.array_equal(alone.probabilities(4, n_threads=1), other.probabilities(4, n_threads=4))


@names
def test_files_bring_everything_back(name, tmp_path):
    model, clicks = fitted(name), LOGS[name]()
    model.save(tmp_path / "a.bmcd")
    again = bmcd.load(tmp_path / "a.bmcd")
    assert again.recommend(5).equals(model.recommend(5))
    assert again.weights_.equals(model.weights_)
    assert again.windows_.equals(model.windows_)
    assert again.gains_.equals(model.gains_)
    assert repr(again) == repr(model)
    assert str(again.verdict_) == str(model.verdict_)
    assert again.as_of_ == model.as_of_
    again.save(tmp_path / "b.bmcd")
    assert (tmp_path / "a.bmcd").read_bytes() == (tmp_path / "b.bmcd").read_bytes()
    model.save(tmp_path / "bare.bmcd", clicks=False)
    bare = bmcd.load(tmp_path / "bare.bmcd")
    found = bare.recommend_for({"x": clicks.items[:2].tolist(), "y": []}, k=3)
    assert found["user"].tolist() == ["x"] * 3 + ["y"] * 3
    assert b"u1-" not in (tmp_path / "bare.bmcd").read_bytes()
    with pytest.raises(InputError, match="saved without the clicks"):
        bare.recommend(3)


def test_a_file_without_clicks_has_no_session():
    model = fitted("timed")
    _, arrays = model.packed(clicks=False)
    assert not [name for name in arrays if name.startswith("tables/sessions")]
    lengths = {model.clicks_.n_users, model.clicks_.n_users + 1, model.clicks_.n_clicks}
    assert not [name for name, array in arrays.items() if lengths & {*array.shape}]


def test_a_file_without_clicks_has_only_transitions_of_five_users():
    model = fitted("timed")
    everything = model.clicks_
    clicks = everything.keep((everything.per_item >= 5)[everything.sequence])  # as if rare items were never clicked
    user = np.repeat(np.arange(clicks.n_users), np.diff(clicks.starts))
    users: dict[tuple[int, int], set[int]] = {}
    for place in range(1, len(clicks.sequence)):
        if clicks.sessions[place] == clicks.sessions[place - 1]:
            pair = int(clicks.sequence[place - 1]), int(clicks.sequence[place])
            users.setdefault(pair, set()).add(int(user[place]))
    header, arrays = model.packed(clicks=False)
    start, item = arrays["tables/follows/start"], arrays["tables/follows/item"]
    a = np.repeat(np.arange(clicks.n_items), np.diff(start))
    pairs = list(zip(a.tolist(), item.tolist(), strict=True))
    assert pairs or "Transitions" not in header["members"]["members"]
    assert min(len(users[pair]) for pair in pairs) >= 5
    assert len(pairs) < len(model.fitted_.tables.follows.item)  # there were others


@pytest.mark.chance(0)
def test_damaged_files_are_refused(tmp_path, rotating_seed):
    model = bmcd.Blend().fit(timed(), seed=1)
    model.save(tmp_path / "a.bmcd")
    whole = (tmp_path / "a.bmcd").read_bytes()
    rng = np.random.default_rng(rotating_seed)
    for place in rng.choice(len(whole), 40, replace=False).tolist():
        flipped = bytearray(whole)
        flipped[place] ^= 1 << int(rng.integers(8))
        for content in (bytes(flipped), whole[:place]):
            (tmp_path / "b.bmcd").write_bytes(content)
            with pytest.raises(StoreError):
                bmcd.load(tmp_path / "b.bmcd")


@pytest.mark.parametrize("name", ["timed", "by rows"])
def test_a_file_without_clicks_is_the_same_whatever_four_users_did(name, monkeypatch):
    """Four users click a rare item, or another rare item, or neither."""
    rows = visits(1, 500, most=14).sort_values("time", kind="stable").reset_index(drop=True)
    few = rows.groupby("user").tail(1).index[:4]
    rows.loc[few, "item"] = "rare1"
    rows.loc[rows.index.difference(few)[-1], "item"] = "rare2"  # so that both are in the catalogue
    kind = {} if name == "timed" else {"order": "rows"}
    columns = ["user", "item", "time"] if name == "timed" else ["user", "item"]
    clicks = bmcd.Clicks.from_frame(rows[columns], **kind)
    other = clicks.sequence.copy()
    one, two = (clicks.items.tolist().index(item) for item in ("rare1", "rare2"))
    other[np.flatnonzero(clicks.sequence == one)[:3]] = two
    model = bmcd.Blend().fit(clicks, seed=1)
    plain = model.packed(clicks=False)
    for changed in (replace(clicks, sequence=other), clicks.keep(clicks.sequence != one)):
        monkeypatch.setattr(model, "clicks_", changed)
        header, arrays = model.packed(clicks=False)
        assert header == plain[0]
        assert {key: array.tobytes() for key, array in arrays.items()} == {
            key: array.tobytes() for key, array in plain[1].items()
        }


@pytest.mark.chance(1e-3)
def test_hostile_files_are_refused_or_harmless(tmp_path, rotating_seed):
    """Files with a right checksum and a wrong number somewhere: an error, or answers that are probabilities."""
    rng = np.random.default_rng(rotating_seed)
    header, arrays = pack(fitted("timed"), clicks=True)
    path, n_refused = tmp_path / "bad.bmcd", 0
    for key, array in arrays.items():
        if not array.size or key.startswith("clicks/"):
            continue
        changed = array.copy()
        place = int(rng.integers(array.size))
        if array.dtype.kind == "f":
            changed.flat[place] = rng.choice([np.nan, np.inf, -1e30, 1e30])
        elif array.dtype.kind == "i":
            changed.flat[place] = rng.choice([-7, 2**31 - 1, array.size + 1])
        for bad in (changed, array[:-1], array.astype(np.int16)):
            container.write(path, "model", header, {**arrays, key: bad})
            try:
                model = bmcd.load(path)
            except StoreError:
                n_refused += 1
                continue
            found = model.recommend_for([["i01", "i02"], []], k=3)["probability"]
            assert ((found >= 0) & (found <= 1)).all(), key
    assert n_refused > 60


@pytest.mark.parametrize(
    ("where", "value"),
    [
        ("members", {}), ("tables", None), ("rule", {"names": []}), ("windows", [[1]]), ("gains", {"EASE": 1}),
        ("until", "soon"), ("refresh", -1), ("refresh", "x"), ("settings", {"refresh": "soon", "repeats": False}),
        ("parts", [{"model": "Blend", "name": "x"}]),
    ],
)  # fmt: skip
def test_wrong_headers_are_refused(where, value, tmp_path):
    header, arrays = pack(fitted("timed"), clicks=True)
    container.write(tmp_path / "bad.bmcd", "model", {**header, where: value}, arrays)
    with pytest.raises(StoreError, match="is damaged or was not written by bmcd"):
        bmcd.load(tmp_path / "bad.bmcd")


# ---- unusual users ----


@names
def test_no_history_one_click_and_everything(name):
    model, clicks = fitted(name), LOGS[name]()
    histories = {"none": [], "one": clicks.items[:1].tolist(), "all": clicks.items.tolist()}
    histories["all but one"] = clicks.items[1:].tolist()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = model.recommend_for(histories, k=1000, horizon=3)
    assert found["user"].value_counts().to_dict() == {"none": 40, "one": 39, "all but one": 1}
    assert found["probability"].between(0, 1).all()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        far = model.recommend_for(histories, k=1000, horizon=2**70)
    assert far["probability"].min() > 0.999


def test_repeats():
    model = bmcd.Blend(repeats=True).fit(by_rows(), seed=1)
    item = by_rows().items[3]
    found = model.recommend_for([[item, by_rows().items[5], item]], k=40, horizon=1)
    assert item in found["item"].tolist()
    assert len(found) == 40
    assert found["probability"].sum() == pytest.approx(1 - 0.0, abs=0.2)


def test_unknown_items_in_a_history():
    model = fitted("timed")
    with pytest.raises(InputError, match="nonsense"):
        model.recommend_for([["nonsense"]])
    plain = model.recommend_for([["i01"]], k=4)
    other = model.recommend_for([["nonsense", "i01"]], k=4, unknown="ignore")
    assert other["item"].tolist() == plain["item"].tolist()


# ---- warm start ----


def test_a_warm_start():
    log = timed()
    cold = fitted("timed")
    warm = bmcd.Blend().fit(log, seed=1, start=cold)
    assert warm.members_ == cold.members_
    one, other = (m.probabilities(5) for m in (cold, warm))
    assert np.abs(one - other).max() < 0.1
    more = pd.concat([visits(1, 500, most=14), visits(77, 60, 9, most=14)])
    later = bmcd.Blend().fit(bmcd.Clicks.from_frame(more), seed=1, start=cold)
    assert later.clicks_.n_users > log.n_users
    assert later.recommend(3)["probability"].between(0, 1).all()
    with pytest.raises(InputError, match="start must be a fitted Blend, but it is EASE"):
        bmcd.Blend().fit(log, start=EASE())
    with pytest.raises(ValueError, match="fit"):
        bmcd.Blend().fit(log, start=bmcd.Blend())


# ---- what it says of itself ----


def test_it_explains(monkeypatch):
    model, clicks = fitted("timed"), timed()
    best = model.recommend(1, users=[clicks.users[3]]).iloc[0]
    found = model.explain(best["user"], best["item"], k=1)
    assert found.probability == pytest.approx(best["probability"])
    assert max(part.factor for part in found.models) > 1
    assert str(found)
    with pytest.raises(InputError, match="has clicked"):
        model.explain(clicks.users[3], clicks.items[clicks.sequence[clicks.starts[3]]])
    assert sum(model.shares(5).values()) == pytest.approx(1)
    monkeypatch.setattr(module, "MOST_BYTES", 1000)
    with pytest.raises(InputError, match=r"would take .* GiB, more than .*Use recommend\(k\)"):
        model.probabilities(3)


def test_bad_input_is_refused_in_plain_words():
    for models, message in (
        ({}, "a blend needs at least one model"),
        (EASE, "is the class EASE, not a model"),
        ({"x": 3}, "x is 3: a blend is made of recommenders"),
        ({1: EASE()}, "have names as keys"),
    ):
        with pytest.raises(InputError, match=message):
            bmcd.Blend(models).fit(unordered())
    with pytest.raises(InputError, match="fit_options are for EAS, but the models are EASE"):
        bmcd.Blend(EASE()).fit(unordered(), fit_options={"EAS": {}})
    with pytest.raises(InputError, match="no member of this blend has clusters"):
        fitted("timed").clusters_  # noqa: B018
    with pytest.raises(InputError, match="needs a log with times, and this one has no clock"):
        bmcd.Blend(refresh="1h").fit(by_rows())
    with pytest.raises(InputError, match="is longer than the log"):
        bmcd.Blend(refresh="30d").fit(timed())
    with pytest.raises(InputError, match="refresh"):
        bmcd.Blend(refresh="soon").fit(timed())
    with pytest.raises(InputError, match="repeats=True needs a log with order"):
        bmcd.Blend(repeats=True).fit(unordered())
    with pytest.raises(InputError, match="repeats must be True or False"):
        bmcd.Blend(repeats=3).fit(by_rows())


def test_a_model_that_fails_fails_by_name():
    class Fails(Popularity):
        def fit(self, clicks, **options):
            raise BlendError("no luck")

    with pytest.raises(BlendError, match="broken: no luck"):
        bmcd.Blend({"broken": Fails()}).fit(unordered())
