"""Two models in one report: what changed from one to the other."""

import numpy as np
import pytest

import bmcd
from bmcd.reporting.changes import find_changes
from bmcd.reporting.context import make_context
from bmcd.reporting.page import in_100, percent

RUN = {"draws": 6, "warmup": 6, "chains": 2, "progress": False}


@pytest.fixture(scope="module")
def weeks():
    """A model of last week's users and items, one of this week's, with more of both, and clicks of this week."""
    clicks = bmcd.simulate(140, 14, consensuses=2, alpha=5.0, mean_clicks=6.0, seed=3).clicks.at_least(4)
    clicks = clicks.with_titles({item: f"<{item}>" for item in range(14)})
    train, test = clicks.hold_out(2, seed=3)
    frame = train.to_frame()
    last = bmcd.Clicks.from_frame(frame[(frame["user"] % 3 > 0) & (frame["item"] != 5)])
    old, new = bmcd.BMCD(2).fit(last, seed=1, **RUN), bmcd.BMCD(2).fit(train, seed=2, **RUN)
    return old, new, train, test


def found(weeks, test=True, k=3):
    old, new, _, held_out = weeks
    lists = {k: new.lists(k)}
    return find_changes(("last week", "this week"), old, new, held_out if test else None, lists)


def sets(model, users, k=3):
    return model.recommend(k, users=users).groupby("user", sort=False)["item"].apply(frozenset).loc[users].tolist()


def test_lists_are_compared_for_the_users_that_both_know(weeks):
    old, new, *_ = weeks
    users = [user for user in old.clicks_.users.tolist() if user in set(new.clicks_.users.tolist())]
    before, now = sets(old, users), sets(new, users)
    change = found(weeks).lists[0]
    assert (change.k, change.n_users) == (3, len(users))
    assert change.in_common == pytest.approx(np.mean([len(a & b) for a, b in zip(before, now, strict=True)]))
    assert change.n_same == sum(a == b for a, b in zip(before, now, strict=True))
    gain = {item: sum(item in one for one in now) - sum(item in one for one in before) for item in range(14)}
    assert dict(change.gained) == {item: n for item, n in gain.items() if n > 0}
    assert dict(change.lost) == {item: -n for item, n in gain.items() if n < 0}
    assert [n for _, n in change.gained] == sorted((n for _, n in change.gained), reverse=True)


def test_hits_are_those_of_the_same_users_and_items(weeks):
    old, new, _, test = weeks
    frame = test.to_frame()
    known = frame["user"].isin(old.clicks_.users) & (frame["item"] != 5)
    users = frame[known]["user"].unique().tolist()
    kept = {user: set(rows["item"]) for user, rows in frame[known].groupby("user")}
    rates = [
        sum(len(kept[user] & one) for user, one in zip(users, sets(model, users), strict=True)) / (3 * len(users))
        for model in (old, new)
    ]
    hits = found(weeks).lists[0].hits
    assert (hits.before, hits.now) == pytest.approx(tuple(rates))
    assert hits.low <= hits.now - hits.before <= hits.high
    assert hits.n_users == len(users)
    assert found(weeks, test=False).lists[0].hits is None


def test_a_model_has_not_changed_against_itself(weeks):
    _, new, _, test = weeks
    same = find_changes(("a", "b"), new, new, test, {3: new.lists(3)})
    change = same.lists[0]
    assert (change.in_common, change.n_same) == (3.0, new.clicks_.n_users)
    assert change.gained == change.lost == ()
    assert change.hits.low == change.hits.high == 0
    assert [(group.before, group.n_common) for group in same.groups] == [(1, 10), (2, 10)]


def test_the_report_says_what_changed(weeks, read_page, tmp_path):
    old, new, train, test = weeks
    models = {"last <week>": old, "this week": new}
    path = bmcd.report(models, train, test, tmp_path / "r.html", k=(3, 2), rivals={})
    page = read_page(path.read_text("utf-8"))
    assert page.open == []
    assert page.sections[:2] == ["summary", "changes"]
    text, change = " ".join(page.texts["changes"].split()), found(weeks).lists[0]
    assert "What changed since last <week>" in text
    assert f"{train.n_users:,} users ({old.clicks_.n_users:,} before)" in text
    assert "1 new item, 0 items gone" in text
    assert f"{change.in_common:.1f} are the same on average" in text
    assert f"{in_100(change.hits.now)} with this week, {in_100(change.hits.before)} with last <week>" in text
    assert f"<{change.gained[0][0]}> +{change.gained[0][1]}" in text
    assert f"Group 1 {percent(new.clusters_[0].share)}" in text
    assert make_context(new, k=2).changes is None


def test_models_without_users_or_groups_in_common(weeks, read_page, tmp_path):
    old, _, train, _ = weeks
    frame = train.to_frame()
    new_users = bmcd.Clicks.from_frame(frame.assign(user=frame["user"] + 1000))
    blend = bmcd.Blend(bmcd.baselines.EASE()).fit(new_users)
    page = read_page(bmcd.report({"a": old, "b": blend}, path=tmp_path / "r.html", k=2).read_text("utf-8"))
    assert "Both models have no user in common" in page.texts["changes"]
    assert "most like" not in page.texts["changes"]


def test_what_are_not_two_models_is_refused(weeks, tmp_path):
    old, new, *_ = weeks
    path = tmp_path / "r.html"
    with pytest.raises(ValueError, match="about one model, or about two, the older first, not 3"):
        bmcd.report({"a": old, "b": new, "c": new}, path=path)
    with pytest.raises(TypeError, match="'a' is EASE"):
        bmcd.report({"a": bmcd.baselines.EASE(), "b": new}, path=path)
    new.save(tmp_path / "m.bmcd", clicks=False)
    with pytest.raises(ValueError, match="'a' was saved without the clicks"):
        bmcd.report({"a": bmcd.load(tmp_path / "m.bmcd"), "b": new}, path=path)
    assert not path.exists()
