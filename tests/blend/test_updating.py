"""A model that counts more clicks: the counts are those of a fit, whatever the order of updates; the rest stays."""

import itertools
from functools import lru_cache

import numpy as np
import pandas as pd
import pytest

import bmcd
from bmcd.baselines import EASE, RecentCooccurrence, SessionKNN, Transitions, Trending
from bmcd.baselines.counting import HOUR, events_of
from bmcd.blend.features import EventCounts, count
from bmcd.blend.moments import Cut, length_of_refresh, share_outside
from bmcd.errors import InputError

START = pd.Timestamp("2026-03-01")
DAYS = 6
MEMBERS = [Trending("2h"), Transitions(), RecentCooccurrence(), SessionKNN()]


@lru_cache
def rows():
    """Visits of users over some days; items come and go, and are clicked in chains."""
    rng = np.random.default_rng(8)
    found = []
    for user in range(700):
        time = START + pd.Timedelta(hours=float(rng.random() * 24 * DAYS))
        item = int(rng.integers(0, 20) + 3 * (time - START) / pd.Timedelta("1D"))
        for _ in range(int(rng.integers(2, 9))):
            found.append((f"u{user}", item, time.round("s")))
            item += int(rng.integers(1, 4))
            time += pd.Timedelta(minutes=float(rng.exponential(8)))
    return pd.DataFrame(found, columns=["user", "item", "time"])


@lru_cache
def earlier():
    """A blend of the first days; every member is in use, so that all of them are tested."""
    clicks = bmcd.Clicks.from_frame(rows()[rows()["time"] < START + pd.Timedelta(days=DAYS - 1)])
    model = bmcd.Blend(refresh="1h").fit(clicks, seed=1)
    if model.members_ != (every := ("Trending", "Transitions", "RecentCooccurrence", "SessionKNN", "EASE")):
        fit = model.fitted_
        settings = fit.settings._replace(members=every)
        model._learn(
            clicks, fit._replace(settings=settings, tables=count(EventCounts(events_of(clicks)), settings, 0.1))
        )
    return model


def fresh():
    """A blend like `earlier` that may be changed."""
    model = bmcd.Blend(refresh="1h")
    model._learn(earlier().clicks_, earlier().fitted_)
    return model


def later(seed, n_parts):
    """Parts of the rows after the first days, shuffled, some of them twice, and a few of the first days again."""
    rng = np.random.default_rng(seed)
    new = rows()[rows()["time"] >= START + pd.Timedelta(days=DAYS - 1)]
    old = rows()[rows()["time"] < START + pd.Timedelta(days=DAYS - 1)]
    mixed = pd.concat([new, new.sample(20, random_state=seed), old.sample(20, random_state=seed)])
    mixed = mixed.sample(frac=1, random_state=seed)
    ends = [0, *np.sort(rng.choice(np.arange(1, len(mixed)), n_parts - 1, replace=False)).tolist(), len(mixed)]
    return [mixed[a:b] for a, b in itertools.pairwise(ends)]


def same(one, two):
    for field, value in zip(one._fields, one, strict=True):
        other = getattr(two, field)
        if hasattr(value, "_fields"):
            same(value, other)
        elif isinstance(value, tuple):
            for a, b in zip(value, other, strict=True):
                np.testing.assert_array_equal(a, b, err_msg=field)
        else:
            np.testing.assert_array_equal(value, other, err_msg=field)


def counts_of_a_fit(model, clicks):
    """The counts that the last step of `fit` makes, with the members and settings of the model."""
    now = Cut(np.ones(len(clicks.sequence), bool), np.zeros(0, bool), 0.0, "")
    hours = (length_of_refresh(clicks) if model.refresh is None else HOUR) / HOUR
    return count(EventCounts(events_of(clicks)), model.fitted_.settings, share_outside(clicks, now, hours))


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("keep", [None, "30h"])
def test_any_order_of_updates_gives_the_counts_of_a_fit(seed, keep):
    model = fresh()
    for part in later(seed, 1 + seed):
        model.update(part, keep=keep)
    every = bmcd.Clicks.from_frame(rows())
    whole = every if keep is None else every.add(every, keep=keep)
    assert model.clicks_ == whole
    assert model.as_of_ == whole.times.max()
    assert model.fitted_.settings.members == earlier().members_
    want, found = counts_of_a_fit(model, whole), model.fitted_.tables
    same(found._replace(ease=want.ease), want)
    assert model.fitted_.rule is earlier().fitted_.rule


def test_a_fit_after_updates_is_a_fit():
    parts = later(3, 3)
    model = fresh()
    for part in parts:
        model.update(part)
    again = bmcd.Blend(refresh="1h").fit(model.clicks_, start=model, seed=1)
    other = fresh()
    for part in parts[::-1]:
        other.update(part)
    same(again.fitted_.tables, bmcd.Blend(refresh="1h").fit(other.clicks_, start=other, seed=1).fitted_.tables)
    pd.testing.assert_frame_equal(again.update(rows()[:5]).recommend(5), again.recommend(5))


def test_ease_keeps_its_weights_item_by_item():
    def weights(model):
        ease, items = model.fitted_.tables.ease, model.clicks_.items
        row = np.repeat(np.arange(len(items)), np.diff(ease.start))
        return dict(
            zip(zip(items[row].tolist(), items[ease.item].tolist(), strict=True), ease.value.tolist(), strict=True)
        )

    before, model = weights(earlier()), fresh()
    for part in later(1, 2):
        model.update(part)
    assert len(before) > 100
    assert weights(model) == before
    model.update(rows()[-3:], keep="12h")
    there = set(model.clicks_.items.tolist())
    assert weights(model) == {pair: value for pair, value in before.items() if there.issuperset(pair)}


@pytest.mark.parametrize("made", MEMBERS, ids=lambda made: type(made).__name__)
def test_baselines_are_updated_as_they_are_fitted(made):
    parts = later(2, 3)
    model = type(made)(**made.get_params()).fit(earlier().clicks_)
    for part in parts:
        model.update(part)
    fit = type(made)(**made.get_params()).fit(bmcd.Clicks.from_frame(rows()))
    for name, value in fit.packed().items():
        np.testing.assert_array_equal(model.packed()[name], value, err_msg=name)
    assert model.recommend(3).equals(fit.recommend(3))


def test_an_updated_model_is_saved_and_answers_for_new_users(tmp_path):
    model = fresh()
    new = pd.DataFrame({"user": "new", "item": [22, 25, 999], "time": START + pd.Timedelta(days=DAYS)})
    model.update(new)
    model.save(tmp_path / "m.bmcd")
    again = bmcd.load(tmp_path / "m.bmcd")
    assert again.recommend(5, ["new"]).equals(model.recommend(5, ["new"]))
    assert again.probabilities(1, ["u1"])[0, again.clicks_.columns_of([999])[0]] > 0


def test_a_log_without_a_clock_is_updated():
    frame = rows().sort_values("time", kind="stable")[["user", "item"]]
    model = bmcd.Blend().fit(bmcd.Clicks.from_frame(frame[:2500], order="rows"), seed=1)
    model.update(frame[2500:])
    assert model.clicks_ == bmcd.Clicks.from_frame(frame, order="rows")
    settings = model.fitted_.settings
    want = count(EventCounts(events_of(model.clicks_)), settings, 1e-4)
    same(model.fitted_.tables._replace(ease=want.ease), want)


def test_what_cannot_be_updated_is_refused(tmp_path):
    clicks = earlier().clicks_
    with pytest.raises(InputError, match="this blend is made of EASE: fit it again"):
        bmcd.Blend(EASE(50.0)).fit(clicks, seed=1).update(rows()[:5])
    earlier().save(tmp_path / "no.bmcd", clicks=False)
    with pytest.raises(InputError, match="saved without the clicks it was fitted to"):
        bmcd.load(tmp_path / "no.bmcd").update(rows()[:5])
    with pytest.raises(InputError, match="has no order"):
        fresh().update(rows()[["user", "item"]])
