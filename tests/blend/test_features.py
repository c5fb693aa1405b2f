"""Sparse features and lists against dense ones: every feature of every item out of full matrices."""

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.reference import blend as reference

import bmcd
from bmcd.baselines.counting import events_of
from bmcd.blend import features
from bmcd.blend.features import Asked, Csr, EventCounts, Near, Settings, Tables, count, near_of, rows_of

SETTINGS = Settings(("Trending",), (1.0,), math.inf, math.inf, True, False, 1.0, 10, 0.1)
# Features are sums of numbers in single precision, some of them small differences under a root.
CLOSE = {"rtol": 2e-5, "atol": 2e-5}


def some_counts(rng, n, known, signs=False):
    """A random sparse table over known items."""
    dense = rng.exponential(5.0, (n, n)) * (rng.random((n, n)) < 0.3)
    dense *= rng.choice([-1, 1], (n, n)) if signs else 1
    dense[~known] = 0
    dense[:, ~known] = 0
    rows, columns = np.nonzero(dense)
    start = np.concatenate(([0], np.cumsum(np.bincount(rows, minlength=n))))
    total = np.abs(dense).sum(axis=1) + rng.exponential(size=n)
    return Csr(
        start.astype(np.int64), columns.astype(np.int32), dense[rows, columns].astype(np.float32),
        total.astype(np.float32),
    )  # fmt: skip


def some_tables(rng, n, n_head):
    """Random counts of n items, some of them not modelled, and a head; other items lie in three cells."""
    known = rng.random(n) < 0.85
    known[0] = True
    head = np.sort(rng.permutation(np.flatnonzero(known))[:n_head]).astype(np.int32)
    cell = np.where(known, rng.integers(0, 3, n), -1).astype(np.int32)
    cell[head] = -1
    counts = [some_counts(rng, n, known, name == "ease") for name in ("a", "b", "c", "d", "e", "ease")]
    counts[2] = counts[2]._replace(
        value=counts[2].value / 100, total=rng.random(n).astype(np.float32)
    )  # of a walk, probabilities
    return Tables(
        rng.normal(size=(n, 2)).astype(np.float32), rng.uniform(0.01, 1, n).astype(np.float32), known, head, cell,
        np.bincount(cell[cell >= 0], minlength=3).astype(np.float32), rng.normal(size=(3, 2)).astype(np.float32),
        *counts, None, -2.0, 2, 10.0,
    )  # fmt: skip


def some_asked(rng, tables, n_users):
    """Random users: clicks, also on unknown items and on items again; similar sessions; and scores of a model."""
    n = len(tables.share)
    lengths = rng.integers(0, 45, n_users)
    ends = np.cumsum(lengths)
    starts = ends - lengths
    running = starts + (rng.random(n_users) * (lengths + 1)).astype(int)
    items = rng.integers(-1, n, int(ends[-1])).astype(np.int32)
    near = rng.exponential(size=(n_users, n)) * (rng.random((n_users, n)) < 0.2) * tables.known
    rows, columns = np.nonzero(near)
    counts = np.concatenate(([0], np.cumsum(np.bincount(rows, minlength=n_users))))
    place_of = np.full(n, -1, np.int64)
    asked_for = rng.random(n) < 0.5
    place_of[asked_for] = np.arange(asked_for.sum())
    extra = rng.normal(size=(n_users, max(asked_for.sum(), 1), 2)).astype(np.float32)
    similar = Near(counts.astype(np.int64), columns.astype(np.int32), near[rows, columns].astype(np.float32))
    return Asked(items, np.stack([starts, running, ends], axis=1), similar, place_of, extra), near


@given(st.integers(0, 2**32 - 1), st.integers(1, 40), st.integers(0, 12), st.booleans())
@settings(max_examples=25)
def test_sparse_features_are_the_dense_ones(seed, n, n_head, repeats):
    rng = np.random.default_rng(seed)
    tables = some_tables(rng, n, n_head)
    asked, near = some_asked(rng, tables, 5)
    columns = np.arange(2 + features.N_TOUCHED + 2)
    rows = rows_of(asked, tables, SETTINGS._replace(repeats=repeats), columns, 1)
    for user, (seen, running, end) in enumerate(asked.histories.tolist()):
        extra = np.where(asked.place_of[:, None] >= 0, asked.extra[user][asked.place_of], 0.0)
        clicked = {int(j) for j in asked.items[seen:end] if j >= 0}
        slow = reference.features(
            tables, asked.items[seen:end], asked.items[running:end], near[user], extra, repeats
        )
        part = slice(rows.start[user], rows.start[user + 1])
        found = rows.item[part].tolist()
        assert len(set(found)) == len(found)
        assert tables.known[found].all()
        np.testing.assert_allclose(rows.x[part], slow[found], **CLOSE)
        # Whatever is no candidate is clicked or not modelled, or nothing but popularity speaks for it.
        assert repeats or not clicked & {*found}
        left = set(np.flatnonzero(tables.known).tolist()) - {*found} - (set() if repeats else clicked)
        assert not left & {*tables.head.tolist()}
        for item in left:
            assert not slow[item, 2 : 2 + features.N_TOUCHED].any()
        in_cells = np.bincount(tables.cell[sorted(left)], minlength=3) if left else np.zeros(3)
        assert rows.mult[user].tolist() == in_cells.tolist()


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=5)
def test_threads_change_nothing(seed):
    rng = np.random.default_rng(seed)
    tables = some_tables(rng, 20, 3)
    asked, _ = some_asked(rng, tables, 150)
    one, other = (rows_of(asked, tables, SETTINGS, np.arange(20), n) for n in (1, 3))
    for a, b in zip(one, other, strict=True):
        assert a.tobytes() == b.tobytes()


def test_behind_unknown_clicks_there_is_room():
    """The latest clicks are all unknown; what follows an earlier one is far more than the head."""
    n, many = 400, 350
    rng = np.random.default_rng(1)
    tables = some_tables(rng, n, 1)
    known = np.ones(n, bool)
    row = np.arange(1, many + 1, dtype=np.int32)
    start = np.concatenate(([0], np.full(n, many))).astype(np.int64)
    all_follow = Csr(start, row, np.ones(many, np.float32), np.ones(n, np.float32))
    none = Csr(np.zeros(n + 1, np.int64), row[:0], np.zeros(0, np.float32), np.zeros(n, np.float32))
    counts = {name: none for name in ("follows_recent", "two_steps", "later", "goes_with", "ease")}
    tables = tables._replace(known=known, follows=all_follow, **counts)
    items = np.array([0] + [-1] * 30, np.int32)
    near = near_of(tables, items, np.array([[0, 0, 31]]))
    asked = Asked(items, np.array([[0, 0, 31]]), near, np.full(1, -1), np.zeros((1, 1, 0), np.float32))
    assert features.most_candidates(items, asked.histories, 0, 1, features.counted_only(tables), 1) >= many
    found = rows_of(asked, tables, SETTINGS, np.arange(18), 1)
    assert set(found.item.tolist()) >= set(range(1, many + 1))


# ---- lists ----


def visits(rng, n_users, n_items, most=9):
    """Visits of users who walk to near items on a ring."""
    rows = []
    for user in range(n_users):
        item = int(rng.integers(n_items))
        for _ in range(rng.integers(2, most)):
            rows.append((f"u{user:03}", f"i{item:03}"))
            item = (item + int(rng.choice([1, 1, 2, 3, n_items // 2]))) % n_items
    return pd.DataFrame(rows, columns=["user", "item"])


def dense_prediction(model, history, horizon):
    """Probability of every item out of dense features, and what is expected outside."""
    clicks, fit = model.clicks_, model.fitted_
    items = np.array([clicks.items.tolist().index(item) for item in history], np.int32)
    whole = np.array([[0, 0, len(items)]])
    near = near_of(fit.tables, items, whole)
    of_sessions = np.zeros(clicks.n_items)
    of_sessions[near.item] = near.value
    x = reference.features(
        fit.tables, items, items, of_sessions, np.zeros((clicks.n_items, 0)), fit.settings.repeats
    )
    rule = fit.rule
    w = rule.at(float(horizon)) @ rule.layout.z(np.array([fit.tables.known[items].sum()]))[0]
    free = fit.tables.known.copy()
    if not fit.settings.repeats:
        free[items] = False
    outside = w[-2] + w[-1] * (fit.tables.outside + 4.0) if rule.has_outside else -math.inf
    scores = x[:, rule.layout.columns] @ w[:-2]
    probability, elsewhere, _ = reference.race(scores, free.astype(float), outside, horizon)
    return probability, elsewhere, free


@pytest.fixture(scope="module", params=[False, True], ids=["new items", "repeats"])
def model(request):
    log = visits(np.random.default_rng(3), 400, 60)
    return bmcd.Blend(repeats=request.param).fit(bmcd.Clicks.from_frame(log, order="rows"), seed=1)


HISTORIES = [[], ["i003"], ["i059", "i000"], ["i007", "i008", "i010", "i007"], [f"i{n:03}" for n in range(0, 50)]]


@pytest.mark.parametrize("horizon", [1, 2, 10, 59, 2**70])
def test_lists_are_the_best_of_all_items(model, horizon):
    for history in HISTORIES:
        probability, _, free = dense_prediction(model, history, horizon)
        found = model.recommend_for([history], k=8, horizon=horizon)
        numbers = [model.clicks_.items.tolist().index(item) for item in found["item"]]
        assert len(numbers) == min(8, free.sum())
        np.testing.assert_allclose(found["probability"], probability[numbers], atol=2e-6)
        best = np.sort(probability[free])[::-1][: len(numbers)]
        np.testing.assert_allclose(found["probability"], best, atol=2e-6)


def test_lists_of_some_items_and_of_all_that_is_left(model):
    allowed = ["i050", "i051", "i004", "i020", "i008"]
    for history in HISTORIES:
        probability, _, free = dense_prediction(model, history, 3)
        names = model.clicks_.items.tolist()
        left = [item for item in allowed if free[names.index(item)]]
        some = model.recommend_for([history], k=100, items=allowed, horizon=3)
        assert sorted(some["item"]) == sorted(left)
        np.testing.assert_allclose(
            some["probability"], [probability[names.index(i)] for i in some["item"]], atol=2e-6
        )
        every = model.recommend_for([history], k=1000, horizon=3)
        assert sorted(every["item"]) == sorted(np.array(names)[free])
        assert (every["probability"].diff().dropna() <= 1e-12).all()


def test_ties_are_in_the_order_of_ids(model):
    """Items by which nothing but an equal popularity speaks: they are clicked once, in a visit long ago."""
    shuffled = [f"x{n}" for n in np.random.default_rng(0).permutation(8)]
    log = pd.concat([
        pd.DataFrame({"user": [f"old{n}" for n in range(8)], "item": shuffled}),
        visits(np.random.default_rng(4), 60, 12),
    ])  # fmt: skip
    clicks = bmcd.Clicks.from_frame(log, order="rows")
    tables = bmcd.Blend().fit(clicks, seed=1).fitted_.tables
    fitted = bmcd.Blend().fit(clicks, seed=1)
    # Make them truly equal: recent popularity still tells which of them came first.
    numbers = [clicks.items.tolist().index(item) for item in shuffled]
    popularity = tables.popularity.copy()
    popularity[numbers] = popularity[numbers[0]]
    fitted._learn(clicks, fitted.fitted_._replace(tables=tables._replace(popularity=popularity)))
    found = fitted.recommend_for([[]], k=30)
    assert [item for item in found["item"] if item[0] == "x"] == [f"x{n}" for n in range(8)]
    few = fitted.recommend_for([[]], k=3, items=shuffled)
    assert few["item"].tolist() == ["x0", "x1", "x2"]


def test_a_small_head_and_cells_give_the_same_lists(monkeypatch):
    """Cells hold items of exactly the same popularity, so what is counted together is what is counted apart."""
    log = bmcd.Clicks.from_frame(visits(np.random.default_rng(5), 300, 80), order="rows")
    whole = bmcd.Blend().fit(log, seed=1)
    monkeypatch.setattr(features, "ALL", 5)
    monkeypatch.setattr(features, "CELL", 1e-9)
    fit = whole.fitted_
    settings = fit.settings._replace(head=4)
    tables, known = fit.tables, fit.tables.known
    head = features._head(tables.popularity[:, : tables.n_plain], known, 4)
    cell, n_cell, cells = features._cells(tables.popularity, known, head, tables.n_plain)
    assert n_cell.sum() == known.sum() - len(head) > 50
    few = bmcd.Blend()
    few._learn(
        log,
        fit._replace(settings=settings, tables=tables._replace(head=head, cell=cell, n_cell=n_cell, cells=cells)),
    )
    for k, horizon in ((1, 1), (3, 5), (10, 10)):
        one = whole.recommend(k, horizon=horizon, users=log.users[:50])
        other = few.recommend(k, horizon=horizon, users=log.users[:50])
        np.testing.assert_allclose(other["probability"], one["probability"], atol=2e-6)
        np.testing.assert_allclose(few.outside(horizon), whole.outside(horizon), atol=1e-5)


def test_smoothing_grows_with_the_log(model):
    """Weights are learnt with members of four fifths of the users; answers come from members of all."""
    known, n_clicks = model.fitted_.settings, len(model.clicks_.sequence)
    assert 0.6 * n_clicks < known.volume < 0.95 * n_clicks
    assert model.fitted_.tables.smoothing == pytest.approx(10 * math.sqrt(n_clicks / known.volume))
    events = EventCounts(events_of(model.clicks_))
    assert count(events, known._replace(volume=float(n_clicks)), 0.0).smoothing == 10
    assert count(events, known._replace(volume=0.0), 0.0).smoothing == 10
