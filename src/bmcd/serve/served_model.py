"""A model and its answers as JSON; and how a new model replaces it: load, warm up, swap."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import inspect
import logging
import os
import stat
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from bmcd import __version__
from bmcd.blend.blend import Blend
from bmcd.clicks.histories import clicks_of_histories
from bmcd.clicks.ids import objects, texts_of
from bmcd.errors import BmcdError, InputError, StoreError, UnknownIdError
from bmcd.files import json_ready
from bmcd.models.list_rules import ListRules, RulesReport, joined
from bmcd.models.persistence import Model, load_model, sampled_models
from bmcd.models.top_k import Lists
from bmcd.reporting.card import html_card, make_card
from bmcd.serve.messages import Id, Person, Problem, Recommend, Wanted
from bmcd.serve.metrics import Metrics
from bmcd.serve.settings import Settings
from bmcd.serve.slots import stop_if_unwanted
from bmcd.utils import listed, shown

log = logging.getLogger("bmcd.serve")

# The number of recommendations in the requests that a model answers before it is ready.
WARM_K = 10
# People between two checks that the caller still waits for the answer.
BLOCK = 32
# Items that are shown as trending, and the latest clicks of a user that are returned.
TRENDING, MOST_CLICKED = 10, 1_000
PREDICTED = ("predicted", "observed")
# With --watch: seconds between two checks of the file. It is loaded when two in a row find the same change.
LOOK_SECONDS = 1.0


class ServedModel:
    """A loaded model and its answers. It is never changed: a reload makes a new one."""

    def __init__(self, model: Model, hash_of_file: str) -> None:
        self.model, self.hash = model, hash_of_file
        self.loaded = datetime.now(UTC)
        self.calibration: dict[str, Any] | None = None
        self.file_state: tuple[int, ...] | None = None
        """What `state_of` found before the file was read."""
        clicks = model.clicks_
        self._items, self._users = Matcher(clicks.items), Matcher(clicks.users)
        self._clicks_per_item = np.asarray(clicks.matrix.sum(axis=0)).ravel().astype(int).tolist()
        self._ids = [_json_id(value) for value in clicks.items.tolist()]
        self._titles = None if clicks.titles is None else [str(title) for title in clicks.titles.tolist()]
        shown_titles = [str(clicks.title_of(column)) for column in range(clicks.n_items)]
        self._search_texts = [
            (str(one).casefold(), title.casefold()) for one, title in zip(self._ids, shown_titles, strict=True)
        ]
        self._shown_titles = shown_titles

    @classmethod
    def from_file(cls, path: Path) -> ServedModel:
        """Load a model file; `StoreError` if it cannot be read, is damaged, or keeps changing."""
        for _ in range(3):
            state, before = state_of(path), hash_of(path)
            model = load_model(path)
            if hash_of(path) == before:
                served = cls(model, before)
                served.file_state = state
                return served
        raise StoreError(f"{path}: the file is being written. Write it elsewhere, then move it to this name.")

    @property
    def holds_clicks(self) -> bool:
        """Whether it was saved with the clicks it was fitted to."""
        return self.model.clicks_.n_users > 0

    def recommend(self, asked: Recommend, outside: list[float] | None = None) -> dict[str, Any]:
        """Return recommendations for people with an id and clicks, as `recommend_for` gives them.

        The expected numbers of clicks outside a blend are appended to ``outside``, if it is given. In a slot it
        stops after a block of people if the caller no longer waits.
        """
        model, k = self.model, asked.k
        allowed = model.allowed(self._allowed(asked.items, asked.exclude), asked.only, asked.never)
        rules = None if asked.rules is None else ListRules(**asked.rules.model_dump())
        answers, reports = list[dict[str, Any]](), list[RulesReport]()
        more = {"n_threads": 1} | _horizon(model.lists_for, asked.horizon)
        for first in range(0, len(asked.people), BLOCK):
            stop_if_unwanted()
            block = asked.people[first : first + BLOCK]
            people = clicks_of_histories([self._items.known(one.clicked) for one in block], model.clicks_)
            if outside is not None and isinstance(model, Blend):
                lists, expected = model.lists_at(people, k, allowed, **more)
                outside += expected.tolist()
            elif rules is None:
                lists = model.lists_for(people, k, allowed, **more)
            if rules is not None:
                lists, report = model.ruled_lists_for(people, k, rules, allowed, n_threads=1, horizon=asked.horizon)
                reports.append(report)
            answers += (
                {"id": one.id, "recommendations": rows, "unknown_items": self._items.unknown(one.clicked)}
                for one, rows in zip(block, self._rows(lists, asked), strict=True)
            )
        answer = {"model": self.hash, "k": k, "horizon": asked.horizon or k, "people": answers}
        return answer | ({"rules": joined(reports).to_dict()} if reports else {})

    def recommend_to_user(self, own: Any, wanted: Wanted) -> dict[str, Any]:
        """Return recommendations for a user of the model, by the model's own id."""
        allowed = self.model.allowed(None, wanted.only, wanted.never)
        more = _horizon(self.model.lists, wanted.horizon)
        (rows,) = self._rows(self.model.lists(wanted.k, [own], allowed, n_threads=1, **more), wanted)
        return self._answer(_json_id(own), wanted, rows, [], self._clicked_by(own))

    def recommend_live(
        self, user: str, recent: Sequence[tuple[int, str]], now: int, wanted: Wanted, *, hidden: bool = False
    ) -> tuple[dict[str, Any], list[Id], int, float]:
        """Return recommendations for a user by the clicks of the model and recent ones, time and item.

        Also what the user has clicked, when last, and the expected number of next clicks outside. ``user`` and the
        items are texts, which the model need not know; ``hidden`` leaves out the clicks of the model.
        """
        assert isinstance(self.model, Blend)
        known = self.model.clicks_
        row = None if hidden else self._row_of.get(user)
        place = slice(0, 0) if row is None else slice(int(known.starts[row]), int(known.starts[row + 1]))
        assert known.times is not None
        columns = np.array([self.columns.get(item, -1) for _, item in recent], np.int32)
        times = np.concatenate([known.times.view(np.int64)[place], np.array([t for t, _ in recent], np.int64)])
        sequence = np.concatenate([known.sequence[place], columns])
        order = np.argsort(times, kind="stable")
        person = replace(
            known, users=objects([user]), starts=np.array([0, len(order)]), sequence=sequence[order],
            times=times[order].view("datetime64[us]"), n_repeated=0, history=(), n_dropped=0,
        )  # fmt: skip
        allowed = self.model.allowed(None, wanted.only, wanted.never)
        lists, outside = self.model.lists_at(
            person, wanted.k, allowed, horizon=wanted.horizon, now=now, n_threads=1
        )
        (rows,) = self._rows(lists, wanted)
        clicked = [self._ids[column] for column in dict.fromkeys(person.sequence.tolist()) if column >= 0]
        unknown = list(dict.fromkeys(item for _, item in recent if item not in self.columns))
        answer = self._answer(user, wanted, rows, unknown, clicked[-MOST_CLICKED:])
        return answer, [*clicked, *unknown], int(times.max(initial=0)), float(outside[0])

    def _answer(self, user: Id, wanted: Wanted, rows: Any, unknown: Any, clicked: list[Id]) -> dict[str, Any]:
        asked = {"model": self.hash, "k": wanted.k, "horizon": wanted.horizon or wanted.k, "id": user}
        return {**asked, "recommendations": rows, "unknown_items": unknown, "clicked": clicked}

    @cached_property
    def columns(self) -> dict[str, int]:
        """The column of each item, by the text of its id."""
        return {str(one): column for column, one in enumerate(self._ids)}

    @cached_property
    def _row_of(self) -> dict[str, int]:
        return {str(user): row for row, user in enumerate(self.model.clicks_.users.tolist())}

    @cached_property
    def trending(self) -> list[dict[str, Any]]:
        """The items clicked most of late, with their shares of the clicks, at the shortest half-life of a blend."""
        if not isinstance(self.model, Blend) or not self.model.fitted_.settings.half_lives:
            return []
        lately = self.model.fitted_.tables.popularity[:, 0]
        best = np.argsort(-lately, kind="stable")[:TRENDING]
        return [
            {"item": self._ids[i], "title": self._shown_titles[i], "share": float(np.exp(lately[i]))} for i in best
        ]

    def own_user(self, user: Id) -> Any:
        """Return the model's own id for a user; `InputError` if it holds no clicks or does not know the user."""
        self.model.clicks_with_users()
        if not (found := self._users.known([user])):
            raise UnknownIdError(
                f"the model has no user {shown(user)}. Ask by what the person has clicked: POST /v1/recommend."
            )
        return found[0]

    def explain(
        self, item: Id, k: int, *, clicked: Sequence[Id] | None = None, own_user: Any = None,
        horizon: int | None = None,
    ) -> dict[str, Any]:  # fmt: skip
        """Return why an item has the probability it has, for a person with clicks or a user of the model.

        A blend gives reasons in words, the first of them as "short", and the factor of each member; its members
        with clusters or tastes explain their own probabilities.
        """
        own = self._own_item(item)
        history = None if clicked is None else self._items.known(clicked)

        def explained(model: Any) -> dict[str, Any]:
            found = model.explain(own_user, own, k, history=history, **_horizon(model.explain, horizon))
            as_json: dict[str, Any] = json_ready(found)
            short = {"short": found.short} if isinstance(model, Blend) else {}
            return as_json | short | {"item": _json_id(own), "text": str(found)}

        answer = explained(self.model) | {"unknown_items": self._items.unknown(clicked or ())}
        if isinstance(self.model, Blend):
            parts = sampled_models(self.model).items()
            answer["parts"] = {name: explained(part) for name, part in parts if own in part.clicks_.items}
        return {"model": self.hash, **answer}

    def similar(self, item: Id, k: int, only: Any, never: Any) -> dict[str, Any]:
        """Return the items whose probability a click on this one raises most."""
        own = self._own_item(item)
        found = nw.from_native(self.model.similar(own, k, only=only, never=never, n_threads=1)).rows(named=True)
        rows = [{**json_ready(row), "item": _json_id(row["item"])} for row in found]
        return {"model": self.hash, "item": _json_id(own), "k": k, "similar": rows}

    def _own_item(self, item: Id) -> Any:
        """Return the model's own id for an item; `UnknownIdError` if it does not know it."""
        if not (found := self._items.known([item])):
            raise UnknownIdError(f"the model does not know item {shown(item)}. Search for items: GET /v1/items.")
        return found[0]

    def items(self, wanted: str, limit: int) -> dict[str, Any]:
        """Return items whose title or id has this text: first those that start with it, the most clicked first."""
        text = wanted.casefold().strip()
        found = [column for column, texts in enumerate(self._search_texts) if any(text in one for one in texts)]
        starts = [any(one.startswith(text) for one in self._search_texts[column]) for column in found]
        order = sorted(range(len(found)), key=lambda i: (not starts[i], -self._clicks_per_item[found[i]], i))
        items = [self._item(found[i]) for i in order[:limit]]
        return {"model": self.hash, "total": len(found), "items": items}

    def items_of(self, ids: Iterable[Id]) -> list[dict[str, Any]]:
        """Return what is known of these items, without those that the model does not know."""
        place = {value: column for column, value in enumerate(self.model.clicks_.items.tolist())}
        return [self._item(place[own]) for own in dict.fromkeys(self._items.known(ids))]

    @cached_property
    def clusters(self) -> dict[str, Any] | None:
        """What each cluster or taste is like; None for a blend of models that have none."""
        try:
            summaries = self.model.clusters_
        except InputError:
            return None
        return {"model": self.hash, "clusters": [json_ready(one) | {"title": one.title} for one in summaries]}

    @cached_property
    def card(self) -> dict[str, Any]:
        """The model card."""
        return {"model": self.hash, **make_card(self.model, self.hash).to_dict()}

    @cached_property
    def card_page(self) -> str:
        """The model card, as a page in the style of the service."""
        return html_card(self.model, self.hash, "../page/page.css")

    @cached_property
    def about(self) -> dict[str, Any]:
        """The answer of `GET /v1/model`, without the limits of the service."""
        clicks, verdict = self.model.clicks_, self.model.verdict_
        table = clicks.items_table
        return {
            "hash": self.hash,
            "kind": type(self.model).__name__,
            "description": str(self.model),
            "version": __version__,
            "loaded": self.loaded.isoformat(timespec="seconds"),
            "data": {
                "users": clicks.n_users,
                "items": clicks.n_items,
                "clicks": int(clicks.matrix.nnz),
                "holds_clicks": self.holds_clicks,
            },
            "groups": {name: list(one.names) for name, one in (table.groups if table else {}).items()},
            "numbers": [] if table is None else list(table.numbers),
            "verdict": {"state": verdict.state, "text": verdict.text, "advice": list(map(str, verdict.advice))},
            "calibration": self.calibration or self._own_calibration(),
        } | self._about_blend()

    def warm(self) -> None:
        """Answer one request of each kind, so that the first caller does not wait; raise an error if one fails."""
        first = self._ids[:1]
        people = [Person.model_construct(clicked=first), Person.model_construct(clicked=[])]
        answer = self.recommend(Recommend.model_construct(people=people, k=WARM_K))
        for person in answer["people"]:
            values = [value for one in person["recommendations"] for value in (one["probability"], one["mcse"])]
            if not np.isfinite(values).all():
                raise BmcdError("the model gives probabilities that are not numbers.")
        if answer["people"][0]["recommendations"]:
            item = answer["people"][0]["recommendations"][0]["item"]
            self.explain(item, WARM_K, clicked=first)
        if self.holds_clicks:
            self.recommend_to_user(self.model.clicks_.users[0], Wanted.model_construct(k=WARM_K))
        _ = self.about, self.clusters, self.card

    def example_items(self) -> list[Id]:
        """Return ids of the items most clicked, for examples that work."""
        return [one["item"] for one in self.items("", 3)["items"]]

    def example_user(self) -> Id | None:
        """Return a user of the model, if it holds any."""
        return _json_id(self.model.clicks_.users.tolist()[0]) if self.holds_clicks else None

    def _allowed(self, items: Iterable[Id] | None, exclude: Iterable[Id]) -> list[Any] | None:
        """Return the model's own ids of what may be recommended, or None for everything."""
        exclude = list(exclude)
        if items is None and not exclude:
            return None
        items = None if items is None else list(items)
        if items is not None and (unknown := self._items.unknown(items)):
            raise UnknownIdError(
                f"items: {len(unknown)} of {len(items)} are not known: {listed([shown(one) for one in unknown])}. "
                "Leave them out: the model can recommend only items it was fitted to."
            )
        own = self.model.clicks_.items.tolist() if items is None else self._items.known(items)
        left_out = set(self._items.known(exclude))
        return [item for item in own if item not in left_out]

    def _clicked_by(self, own: Any) -> list[Id]:
        clicks = self.model.clicks_
        (row,) = clicks.rows_of([own])
        if clicks.order is None:
            return [self._ids[column] for column in sorted(clicks.matrix[[row]].indices.tolist())]
        latest_first = clicks.sequence[clicks.starts[row] : clicks.starts[row + 1]][::-1].tolist()
        return [self._ids[column] for column in dict.fromkeys(latest_first)][::-1]

    def _rows(self, lists: Lists, wanted: Wanted) -> list[list[dict[str, Any]]]:
        probability, mcse = lists.values["probability"].tolist(), lists.values["mcse"].tolist()
        least = wanted.min_probability
        return [
            [
                {
                    "item": self._ids[column],
                    "title": None if self._titles is None else self._titles[column],
                    "rank": place + 1,
                    "probability": probability[row][place],
                    "mcse": mcse[row][place],
                    **({"groups": self._groups_of(column)} if wanted.groups else {}),
                }
                for place, column in enumerate(columns)
                if column >= 0 and (least is None or probability[row][place] >= least)
            ]
            for row, columns in enumerate(lists.items.tolist())
        ]

    def _groups_of(self, column: int) -> dict[str, list[str]]:
        table = self.model.clicks_.items_table
        of = {} if table is None else table.groups
        return {name: list(one.of_item(column)) for name, one in of.items()}

    def _item(self, column: int) -> dict[str, Any]:
        clicks = self._clicks_per_item[column] if self.holds_clicks else None
        return {"item": self._ids[column], "title": self._shown_titles[column], "clicks": clicks}

    def _own_calibration(self) -> dict[str, Any] | None:
        """Return the calibration that a blend measured while it was fitted; None for other models."""
        if not isinstance(self.model, Blend):
            return None
        if not len(windows := self.model.windows_):
            return None
        total = windows["n"].sum()
        predicted, observed = (float((windows[name] * windows["n"]).sum() / total) for name in PREDICTED)
        return {
            "measured_on": "past windows, each predicted by members and weights from before it",
            "windows": len(windows),
            "predicted": predicted,
            "observed": observed,
            "largest_error": float((windows["predicted"] - windows["observed"]).abs().max()),
        }

    def _about_blend(self) -> dict[str, Any]:
        """Return the time that a blend's answers refer to, its members with their gains, and its past windows."""
        if not isinstance(self.model, Blend):
            return {}
        as_of, gains = self.model.as_of_, self.model.gains_.to_dict("records")
        known = {row["member"] for row in gains}
        given = [{"member": name, "kept": True} for name in self.model.members_ if name not in known]
        return {
            "as_of": None if as_of is None else str(as_of),
            "members": [*given, *json_ready(gains)],
            "windows": json_ready(self.model.windows_.to_dict("records")),
        }


class Matcher:
    """Finds a model's own ids by their form in JSON: the same value, or else the same text."""

    def __init__(self, ids: NDArray[Any]) -> None:
        self._values = {value: value for value in ids.tolist()}
        self._texts = texts_of(ids)

    def known(self, wanted: Iterable[Id]) -> list[Any]:
        """Return the model's own ids of those it knows."""
        return [self._own(one) for one in wanted if self._is_known(one)]

    def unknown(self, wanted: Iterable[Id]) -> list[Id]:
        """Return those that it does not know, without repeats."""
        return [one for one in dict.fromkeys(wanted) if not self._is_known(one)]

    def _is_known(self, one: Id) -> bool:
        return one in self._values or str(one) in self._texts

    def _own(self, one: Id) -> Any:
        return self._values[one] if one in self._values else self._texts[str(one)]


def state_of(path: Path) -> tuple[int, ...] | None:
    """Return facts that change when a file is written or replaced, without reading it; None if it is missing."""
    try:
        found = path.stat()
    except OSError:
        return None
    return (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


def hash_of(path: Path) -> str:
    """Return the SHA-256 of a file; `StoreError` if it cannot be read, or is not a regular file."""
    try:
        with open(path, "rb", opener=_without_waiting) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise StoreError(f"{path}: is not a file. Give a model file, written by bmcd fit.")
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise StoreError(f"{path}: cannot be read: {error.strerror or error}.") from error


def _horizon(method: Callable[..., Any], horizon: int | None) -> dict[str, Any]:
    """Return the keyword argument for the horizon; none if no horizon was given."""
    if horizon is None:
        return {}
    if "horizon" not in inspect.signature(method).parameters:
        raise InputError("the probabilities of this model are of the next k clicks: leave out horizon.")
    return {"horizon": horizon}


def _json_id(value: Any) -> Id:
    return value if isinstance(value, int | str) and not isinstance(value, bool) else str(value)


def _without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


class CurrentModel:
    """The model in use. A request keeps the model it began with, whatever is loaded meanwhile."""

    def __init__(self, settings: Settings, metrics: Metrics) -> None:
        self.settings, self.metrics = settings, metrics
        self._model: ServedModel | None = None
        self.ready = asyncio.Event()
        self._loading = asyncio.Lock()
        self._next: asyncio.Task[dict[str, Any]] | None = None

    def get(self) -> ServedModel:
        """Return the model in use; raise `Problem` until the first one is ready."""
        if self._model is None:
            raise Problem(503, "The model is not ready yet. Try again in a moment.", retry=1)
        return self._model

    async def start(self, loaded: ServedModel) -> None:
        """Make the first model ready and put it into use."""
        await _in_thread(self._prepare, loaded)
        self._put(loaded)

    async def reload(self) -> dict[str, Any]:
        """Load the file again, warm it up and use it; if that fails, raise an error and keep the previous model.

        Calls before a load begins share it: at most one load runs and one waits.
        """
        self.get()
        if self._next is None:
            self._next = asyncio.create_task(self._reload())
            # So that an exception counts as seen if no caller waits for it.
            self._next.add_done_callback(lambda done: done.cancelled() or done.exception())
        return await asyncio.shield(self._next)

    async def watch(self) -> None:
        """Reload whenever the file has changed and is no longer changing; never return.

        A file that cannot be loaded is tried once: the next attempt is after its next change.
        """
        await self.ready.wait()
        tried = before = self.get().file_state
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            now = await _in_thread(state_of, self.settings.path)
            if now == before and now not in (tried, self.get().file_state):
                tried = now
                if now is None:
                    log.warning("%s is gone: the model in use stays", self.settings.path)
                    continue
                with contextlib.suppress(Problem):  # the log has it
                    await self.reload()
            before = now

    async def _reload(self) -> dict[str, Any]:
        async with self._loading:
            self._next = None  # later calls may mean a newer file
            old = self.get()
            try:
                new = await _in_thread(self._load, self.settings.path)
            except Exception as error:  # whatever is wrong with the file, the previous model stays in use
                self.metrics.reloads.labels("failed").inc()
                if not isinstance(error, BmcdError):
                    log.exception("the model was not reloaded")
                reason = str(error) or type(error).__name__
                log.error("the model was not reloaded: %s", reason)
                raise Problem(
                    409, f"The file was not loaded: {reason} The model with hash {old.hash[:12]} is still in use."
                ) from error
            self._put(new)
            self.metrics.reloads.labels("done").inc()
            return {"model": new.hash, "before": old.hash, "changed": new.hash != old.hash}

    def _load(self, path: Path) -> ServedModel:
        return self._prepare(ServedModel.from_file(path))

    def _prepare(self, model: ServedModel) -> ServedModel:
        if self.settings.calibration is not None:
            model.calibration = self.settings.calibration(model.model)
        model.warm()
        return model

    def _put(self, model: ServedModel) -> None:
        self._model = model
        self.ready.set()
        self.metrics.show_model(model.hash, type(model.model).__name__)
        log.info("ready: %s, %s", model.hash[:12], model.about["description"])


async def _in_thread(work: Any, *arguments: Any) -> Any:
    """Run work in a new daemon thread, which neither slots nor the end of the process wait for."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[Any] = loop.create_future()

    def settle(result: Any, error: BaseException | None) -> None:
        if not done.done():
            done.set_result(result) if error is None else done.set_exception(error)

    def run() -> None:
        try:
            outcome: tuple[Any, BaseException | None] = (work(*arguments), None)
        except BaseException as error:
            outcome = (None, error)
        if not loop.is_closed():
            loop.call_soon_threadsafe(settle, *outcome)

    threading.Thread(target=run, name="bmcd-loading", daemon=True).start()
    return await done
