"""Fit a blend to an ordered log: cuts, counts at each, moments after it, weights, past windows, counts of all."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bmcd.baselines.counting import events_of
from bmcd.blend import learning
from bmcd.blend.dense import DenseMembers, averaged, fit_members, people_of
from bmcd.blend.features import (
    HEAD,
    MEMBERS,
    N_TOUCHED,
    SMOOTHING,
    TOUCHED,
    Asked,
    Csr,
    EventCounts,
    Settings,
    Tables,
    count,
    dense_names,
    ease_of,
    near_of,
    of_many_users,
    without_counts,
)
from bmcd.blend.learning import (
    BUDGET,
    DECIDING,
    FEWEST,
    LADDER,
    LIST,
    MOST_ROWS,
    ROUGHLY,
    Block,
    Layout,
    PastWindow,
    Rule,
    Scaling,
)
from bmcd.blend.moments import (
    LATEST,
    MICROSECONDS_PER_HOUR,
    MOST_CUTS,
    Cut,
    Moments,
    Turn,
    cuts_between_users,
    cuts_in_time,
    length_of_refresh,
    moments_in,
    n_eligible,
    random_turns,
    share_outside,
    some_of,
)
from bmcd.blend.weights import Examples, learn, prior_of
from bmcd.clicks.adding import joined_ids
from bmcd.clicks.log import Clicks
from bmcd.clicks.sequences import owners
from bmcd.errors import InputError
from bmcd.progress import counting
from bmcd.utils import Floats

Ints = NDArray[np.int64]

# EASE with order: the items it covers, and the regularisations that are tried.
EASE_ITEMS, REGULARIZATIONS = 2_000, (50.0, 200.0, 1000.0)
# Without order: the items EASE covers, and the regularisations that are tried; fewer where fits take seconds.
EASE_ITEMS_UNORDERED, EASE_GRID, SMALL_CATALOGUE = 4_000, (30.0, 100.0, 300.0, 1000.0, 3000.0), 1_000
TRYING_ROWS = 500_000
# Tastes: number and chains, CPU seconds of a click, taste and chain, and how much is affordable for a fit.
N_TASTES, TASTES_CHAINS, TASTES_SECONDS, TASTES_AFFORDABLE = 40, 4, 4e-6, 30.0
# With a warm start: moments of the next click, and how far weights may move from one fit to the next.
WARM_MOMENTS, WARM_ERROR = 2_400, 0.1
# Shortest to longest half-life of popularity, in units of `refresh` (at least an hour): 15 min, 1 h, 4 h, 24 h.
HALF_LIVES = (0.25, 1.0, 4.0, 24.0)
WINDOW, FADING = 72.0, 12.0
# Without a clock, recent popularity: this share of the clicks.
RECENT = 1 / 20
NOTHING_FOLLOWS = (
    "there are no next clicks to learn from: no user clicked a new item after the cut. Use a longer log, or "
    "repeats=True if clicked items count as next clicks."
)
# With models that score densely, which are fitted at every cut.
MODEL_CUTS = 2
# Candidates of a user besides the head, for the number of moments that fit.
TOUCHED_EACH = 250


class Fitted(NamedTuple):
    """Everything a blend has learnt."""

    settings: Settings
    tables: Tables
    rule: Rule
    windows: tuple[PastWindow, ...]
    gains: Mapping[str, tuple[float, float]]
    """By how much each member lowers the loss of the moments, in nats, and the standard error."""
    refresh: int | None
    """In microseconds."""
    until: int
    """The time of the last click in microseconds; 0 without a clock."""
    dense: DenseMembers

    @property
    def as_of(self) -> np.datetime64 | None:
        """The time of the last click; None without a clock."""
        return np.datetime64(self.until, "us") if self.settings.half_lives else None


def make_settings(clicks: Clicks, refresh: int | None, repeats: bool, members: tuple[str, ...]) -> Settings:
    """Return the settings for a log before anything is learnt."""
    if clicks.has_clock:
        hours = max((length_of_refresh(clicks) if refresh is None else refresh) / MICROSECONDS_PER_HOUR, 1.0)
        lives, window, fading = tuple(hours * unit for unit in HALF_LIVES), hours * WINDOW, hours * FADING
    else:
        lives, window, fading = (), math.inf, math.inf
    return Settings(
        members=members, half_lives=lives, window=window, fading=fading, ordered=clicks.order is not None,
        repeats=repeats, regularization=REGULARIZATIONS[1], most_clicked=EASE_ITEMS, recent=RECENT, head=HEAD,
    )  # fmt: skip


def ask(
    tables: Tables, items: NDArray[np.int32], histories: Ints, dense: DenseMembers, people: Clicks | None = None,
    *, with_near: bool = True, n_threads: int | None = None,
) -> Asked:  # fmt: skip
    """Return what is asked about users: their histories, similar sessions, and what dense members say."""
    place_of, extra = dense.features_for(tables.n_items, len(histories), people, n_threads)
    near = near_of(tables if with_near else tables._replace(sessions=None), items, histories)
    return Asked(items, histories, near, place_of, extra)


def layout_of(settings: Settings, dense: tuple[tuple[str, str], ...], n_running: Ints) -> Layout:
    """Return the features in use and the scale of the session's length, from what moments have."""
    named = dense_names(settings)
    columns = list(range(len(named)))
    names = list(named)
    for f, (name, member) in enumerate(TOUCHED):
        if member in settings.members or (member == "repeats" and settings.repeats):
            columns.append(len(named) + f)
            names.append((name, member))
    for f, (name, member) in enumerate(dense):
        columns.append(len(named) + N_TOUCHED + f)
        names.append((name, member))
    lengths = np.log1p(n_running[n_running > 0]) if (n_running > 0).any() else np.zeros(1)
    width = len(named) + N_TOUCHED + len(dense)
    return Layout(
        tuple(names), np.array(columns, np.int64), width, len(named), float(lengths.mean()), float(lengths.min()),
        float(np.quantile(lengths, 0.99)),
    )  # fmt: skip


def prepare(
    blocks: Sequence[Block], settings: Settings, dense: tuple[tuple[str, str], ...], has_outside: bool,
    n_threads: int | None,
) -> tuple[Examples, Layout, Scaling, Floats]:  # fmt: skip
    """Return the moments of blocks, standardised, their features and scales, and where learning begins."""
    running = [learning.n_running(b.asked.items, b.asked.histories, b.tables.known) for b in blocks]
    layout = layout_of(settings, dense, np.concatenate(running))
    examples = learning.examples_of(blocks, layout, settings, has_outside, n_threads)
    scaling = learning.scaling_of(examples, layout.n_dense)
    return learning.standardise(examples, scaling), layout, scaling, learning.start_weights(layout, scaling)


class Work:
    """The fits of a blend to an ordered log."""

    def __init__(
        self, clicks: Clicks, settings: Settings, refresh: int | None, seed: int, n_threads: int | None,
        progress: bool | None, most_cuts: int = MOST_CUTS, models: Models | None = None,
    ) -> None:  # fmt: skip
        self.clicks, self.settings, self.refresh, self.seed = clicks, settings, refresh, seed
        self.n_threads, self.progress = n_threads, progress
        self.events = events_of(clicks)
        self.clock = clicks.has_clock
        if self.clock:
            self.cuts = cuts_in_time(clicks, refresh, most_cuts)
            length = length_of_refresh(clicks) if refresh is None else refresh
            self.hours = length / MICROSECONDS_PER_HOUR
        else:
            self.cuts, self.hours = cuts_between_users(clicks), math.inf
        self.models = models
        self.tables: list[Tables] = []
        self.dense: list[DenseMembers] = []

    @property
    def until(self) -> int:
        """Return the time of the last click in microseconds, or 0 without a clock."""
        times = self.clicks.times
        return int(times.view(np.int64).max()) if self.clock and times is not None else 0

    def volume(self) -> float:
        """Return the number of clicks that members have at the cuts, on average."""
        cuts = self.cuts if self.clock else self.cuts[:1]
        return float(np.mean([self.counts_before(cut).volume(self.settings) for cut in cuts]))

    def count_cuts(self) -> None:
        """Count the members at every cut."""
        self.tables, self.dense = [], []
        for number, cut in enumerate(self.cuts):
            if not self.clock and self.tables:  # all later users have the same past
                self.tables.append(self.tables[0])
                self.dense.append(self.dense[0])
                continue
            dense = self.fit_models(self.clicks.keep(cut.before), f"cut-{number + 1}")
            self.dense.append(dense)
            self.tables.append(self.count_cut(cut, dense.items if dense.models else None))

    def fit_models(self, clicks: Clicks, part: str) -> DenseMembers:
        """Fit the models that were given, if any, to the clicks on the most clicked items."""
        if self.models is None:
            return DenseMembers.none()
        return self.models.fit(most_clicked(clicks, EASE_ITEMS), clicks, part)

    def count_cut(self, cut: Cut, asked_of: Ints | None = None) -> Tables:
        """Count the members at one cut."""
        return count(self.counts_before(cut), self.settings, self.share_outside(cut), asked_of)

    def count_now(self, asked_of: Ints | None = None) -> Tables:
        """Count the members of the whole log."""
        now = Cut(np.ones(0, np.bool_), np.zeros(0, np.bool_), 0.0 if self.clock else None, "")
        return count(self.counts_before(None), self.settings, self.share_outside(now), asked_of)

    def counts_before(self, cut: Cut | None) -> Any:
        """Return what members count of the clicks before a cut, or of all."""
        if cut is None:
            return EventCounts(self.events)
        if self.clock and cut.hours is not None:
            return EventCounts(self.events.before(cut.hours))
        earlier = np.zeros(self.clicks.n_users, np.bool_)
        earlier[owners(self.clicks.starts)[cut.before]] = True
        return EventCounts(self.events.keep(earlier[self.events.user]))

    def share_outside(self, cut: Cut) -> float:
        """Return the share of recent clicks on items that were new then."""
        return share_outside(self.clicks, cut, self.hours)

    def n_eligible(self, c: int, h: int) -> int:
        """Return the number of users with h new clicks or more in the window after a cut."""
        return n_eligible(self.clicks, self.cuts[c], h, self.settings.repeats)

    def choose_members(self) -> Mapping[str, tuple[float, float]]:
        """Choose the regularisation of EASE and leave out members that gain too little, after the last cut."""
        last = len(self.cuts) - 1
        chosen = [last] if self.clock else list(range(last + 1))
        table = self.count_cut(self.cuts[last])
        self.tables = [table] * (last + 1)
        blocks = self.blocks(1, chosen, DECIDING)
        if sum(block.moments.n for block in blocks) < FEWEST and self.clock:  # a quiet window: take all
            self.count_cuts()
            chosen = list(range(last + 1))
            blocks = self.blocks(1, chosen, DECIDING)
        if not blocks:
            raise InputError(NOTHING_FOLLOWS)
        if "EASE" not in self.settings.members:
            return {}
        top, gram = self.counts_before(self.cuts[last]).gram(self.settings)
        best, least = self.settings.regularization, math.inf
        alone, eases = self.settings._replace(members=("Trending", "EASE")), {}
        bare = without_counts(table)
        few = [block._replace(tables=block.tables) for block in blocks if block.tables is table] or blocks[-1:]
        for value in REGULARIZATIONS:
            eases[value] = ease_of(top, gram, value * table.smoothing / SMOOTHING, table.n_items)
            tried = [block._replace(tables=bare._replace(ease=eases[value])) for block in few]
            examples, _, _, centre = self.examples(tried, alone)
            found = learn(examples, centre, centre, most_steps=6, enough=ROUGHLY, n_threads=self.n_threads)
            if found.loss < least:
                best, least = value, found.loss
        self.settings = self.settings._replace(regularization=best)
        blocks = [
            block._replace(tables=block.tables._replace(ease=eases[best])) if block.tables is table else block
            for block in blocks
        ]
        examples, layout, _, centre = self.examples(blocks, self.settings)
        first = learn(examples, centre, centre, most_steps=8, enough=ROUGHLY, n_threads=self.n_threads).w
        others = [name for name in self.settings.members if name != "Trending"]
        kept, gains = learning.worth_keeping(examples, layout, first, centre, others, self.n_threads)
        self.settings = self.settings._replace(members=("Trending", *kept))
        return gains

    def examples(self, blocks: Sequence[Block], settings: Settings) -> tuple[Examples, Layout, Scaling, Floats]:
        """Return what `prepare` returns, with the features of the members in the settings."""
        names = self.dense[0].names if self.dense else ()
        outside = any(_goes_outside(block) for block in blocks)
        return prepare(blocks, settings, names, outside, self.n_threads)

    def learn(self, warm: Fitted | None) -> tuple[Rule, tuple[PastWindow, ...]]:
        """Return the weights for every horizon, and what past windows show."""
        threads = self.n_threads
        blocks = self.blocks(1, budget=None if warm is None else WARM_MOMENTS)
        if not blocks and warm is not None:  # nobody clicked anything new lately
            return warm.rule, warm.windows
        if not blocks:
            raise InputError(NOTHING_FOLLOWS)
        if warm is None:
            examples, layout, scaling, centre = self.examples(blocks, self.settings)
            has_outside = examples.has_outside
            begin = first = learn(examples, centre, centre, most_steps=10, n_threads=threads).w
            labels = [cut.label for cut in self.cuts]
            windows = tuple(learning.past_windows(examples, labels, first, centre, LIST, self.clock, threads))
        else:
            layout, scaling, has_outside = warm.rule.layout, warm.rule.scaling, warm.rule.has_outside
            examples = learning.examples_of(blocks, layout, self.settings, has_outside, threads, scaling)
            windows = (*warm.windows, *self._since(warm, examples))[-MOST_CUTS:]
        found = []
        for rung, h in enumerate(LADDER):
            if h > 1:
                blocks = self.blocks(h, budget=None if warm is None else WARM_MOMENTS // 3)
                if sum(block.moments.n for block in blocks) < FEWEST:
                    break
                examples = learning.examples_of(blocks, layout, self.settings, has_outside, threads, scaling)
            if warm is None:
                precision = prior_of(len(centre), centre.shape[1], h)
            else:
                old = min(rung, len(warm.rule.ks) - 1)
                begin = centre = scaling.from_raw(warm.rule.weights[old] / warm.rule.temper[old])
                precision = np.full(centre.shape, 1.0 / WARM_ERROR**2)
            learnt = learning.learn_rung(examples, begin, centre, self.clock, threads, precision)
            found.append((h, examples.n_moments, *learnt))
            if warm is None:
                begin = learnt[0].w
        n_users = len(np.unique(examples.user))
        return make_rule(found, layout, scaling, has_outside, n_users), windows

    def _since(self, warm: Fitted, examples: Examples) -> list[PastWindow]:
        """Return what the earlier fit predicted for windows after it, and what happened."""
        found = []
        for number, cut in enumerate(self.cuts):
            if cut.hours is None or self.until - cut.hours * MICROSECONDS_PER_HOUR < warm.until:
                continue
            inside = np.flatnonzero(examples.window == number)
            if len(inside):
                w = warm.rule.scaling.from_raw(warm.rule.weights[0])
                found.append(learning.compare_window(examples.of(inside), cut.label, w, LIST))
        return found

    def blocks(self, h: int, cuts: Sequence[int] | None = None, budget: int | None = None) -> list[Block]:
        """Return moments with h next clicks after the cuts."""
        chosen = range(len(self.cuts)) if cuts is None else cuts
        each = self.budget(h) if budget is None else budget
        found = []
        # Busy windows give more moments than quiet ones, as they will have more answers.
        users = np.array([self.n_eligible(c, h) for c in chosen])
        for c, n_users, share in zip(chosen, users.tolist(), users / max(users.sum(), 1), strict=True):
            moments = moments_in(
                self.clicks, self.cuts[c], h, math.ceil(each * share), self.seed, self.settings.repeats,
                n_users=n_users,
            )  # fmt: skip
            if moments.n:
                found.append(self.block(c, moments, float(h)))
        return found

    def budget(self, h: int) -> int:
        """Return the number of moments for h next clicks."""
        each = min(max(len(table.head) for table in self.tables) + TOUCHED_EACH, self.clicks.n_items)
        return max(min(BUDGET[h], MOST_ROWS // each), FEWEST)

    def block(self, c: int, moments: Moments, h: float) -> Block:
        """Return the moments after one cut as a block."""
        tables, items = self.tables[c], self.clicks.sequence
        dense = self.dense[c] if self.dense else DenseMembers.none()
        people = people_of(self.clicks, items, moments.histories) if dense.models else None
        asked = ask(tables, items, moments.histories, dense, people, n_threads=self.n_threads)
        return Block(tables, asked, moments, np.full(moments.n, h), np.ones(moments.n), c)


class Models(NamedTuple):
    """Recommenders to blend, and how they are fitted."""

    by_name: Mapping[str, Any]
    seed: int
    n_threads: int | None
    progress: bool | None
    options: Mapping[str, Mapping[str, Any]]

    def fit(self, items: Ints, clicks: Clicks, part: str) -> DenseMembers:
        """Return the models fitted to the clicks on these items."""
        return fit_members(
            self.by_name, clicks, items, seed=self.seed, n_threads=self.n_threads, progress=self.progress,
            options=self.options, part=part,
        )  # fmt: skip

    def chosen(self, fitted: DenseMembers) -> Models:
        """Return the same with what fits to all clicks have chosen ("auto"), which is not chosen again."""
        plain = {
            name: fitted.models[name].with_choice() if hasattr(fitted.models[name], "with_choice") else model
            for name, model in self.by_name.items()
        }
        return self._replace(by_name=plain)


def most_clicked(clicks: Clicks, n: int) -> Ints:
    """Return the numbers of the n most clicked items, of those that are clicked at all."""
    per_item = clicks.per_item
    return np.sort(np.argsort(-per_item, kind="stable")[: min(n, int((per_item > 0).sum()))]).astype(np.int64)


def fit_ordered(
    clicks: Clicks, models: Models | None, *, refresh: int | None, repeats: bool, seed: int, n_threads: int | None,
    progress: bool | None, start: Fitted | None,
) -> Fitted:  # fmt: skip
    """Fit a blend to an ordered log, by default of counts; ``start`` gives weights and settings to begin with."""
    warm = start if start is not None and models is None and _fits(start, clicks, refresh, repeats) else None
    members = () if models is not None else MEMBERS if warm is None else warm.settings.members
    settings = make_settings(clicks, refresh, repeats, members)
    most = LATEST if warm else MOST_CUTS if models is None else MODEL_CUTS
    return fitted_by(Work(clicks, settings, refresh, seed, n_threads, progress, most, models), warm)


def fitted_by(work: Work, warm: Fitted | None = None) -> Fitted:
    """Return what is learnt by all fits of a blend."""
    with counting(work.progress, "steps of the fit", len(work.cuts) + 4) as show:
        dense, gains = DenseMembers.none(), {} if warm is None else warm.gains
        if work.models is not None:
            dense = work.fit_models(work.clicks, "all")
            work.models = work.models.chosen(dense)
        elif warm is None:
            work.settings = work.settings._replace(volume=work.volume())
            gains = work.choose_members()
        else:
            old = warm.settings
            work.settings = work.settings._replace(regularization=old.regularization, volume=old.volume)
        show(1)
        work.count_cuts()
        show(1 + len(work.cuts))
        rule, windows = work.learn(warm)
        show(3 + len(work.cuts))
        tables = work.count_now(dense.items if dense.models else None)
        show(4 + len(work.cuts))
    return Fitted(work.settings, tables, rule, windows, gains, work.refresh, work.until, dense)


def _fits(start: Fitted, clicks: Clicks, refresh: int | None, repeats: bool) -> bool:
    """Return whether the weights of an earlier fit can be begun with."""
    old, new = start.settings, make_settings(clicks, refresh, repeats, start.settings.members)
    same = ("half_lives", "ordered", "repeats")
    return all(getattr(old, name) == getattr(new, name) for name in same)


def _goes_outside(block: Block) -> bool:
    targets = block.moments.targets
    return bool(((targets < 0) | ~block.tables.known[targets]).any())


def fit_unordered(
    clicks: Clicks, models: Models | None, *, seed: int, n_threads: int | None, progress: bool | None
) -> Fitted:
    """Fit a blend to a log without order: weights come from random clicks held out of users, in two turns."""
    settings = make_settings(clicks, None, False, ("Trending",) if models is None else ())
    turns = random_turns(clicks, seed)
    if not turns:
        raise InputError(
            "there are too few clicks to learn from: no user has three clicks, so none can be held out. Use more "
            "clicks of each user."
        )
    with counting(progress, "steps of the fit", len(turns) + 3) as show:
        items = most_clicked(clicks, EASE_ITEMS if models is not None else items_of_ease(clicks))
        if models is None:
            models = _default_models(clicks, turns[0], settings, items, seed, n_threads, progress)
        show(1)
        dense = models.fit(items, clicks, "all")
        plain = models.chosen(dense)
        show(2)
        pieces = []
        for number, turn in enumerate(turns):
            pieces.append((turn, plain.fit(items, turn.train, f"turn-{number + 1}")))
            show(3 + number)
        blocks = [
            _random_block(*piece, settings, number, len(turns), n_threads) for number, piece in enumerate(pieces)
        ]
        examples, layout, scaling, centre = prepare(blocks, settings, dense.names, False, n_threads)
        ladder = [k for k in LADDER if k == 1 or k <= len(items) // 4]
        found, begin = [], centre
        for k in ladder:
            of_k = _with_race(examples, k)
            learnt = learning.learn_rung(of_k, begin, centre, False, n_threads)
            found.append((k, of_k.n_moments, *learnt))
            begin = learnt[0].w
        rule = make_rule(found, layout, scaling, False, len(np.unique(examples.user)))
        tables = count(EventCounts(events_of(clicks)), settings, 0.0, items)
        show(len(turns) + 3)
    return Fitted(settings, tables, rule, (), {}, None, 0, dense)


def _random_race(target_start: Ints, k: int) -> dict[str, NDArray[np.float64]]:
    """Return g and phi of moments whose targets are a random part of the clicks that come next."""
    held = np.diff(target_start).astype(np.float64)
    return {"g": held + k, "phi": held / (held + k)}


def _with_race(examples: Examples, k: int) -> Examples:
    race = _random_race(examples.target_start, k)
    return examples._replace(g=race["g"], phi=race["phi"])


def _random_block(
    turn: Turn, dense: DenseMembers, settings: Settings, number: int, n_turns: int, n_threads: int | None,
    most_rows: int = MOST_ROWS,
) -> Block:  # fmt: skip
    train = turn.train
    tables = count(EventCounts(events_of(train)), settings, 0.0, dense.items)
    moments = some_of(turn.moments, max(most_rows // n_turns // max(len(tables.head), 1), FEWEST))
    people = people_of(train, train.sequence, moments.histories)
    asked = ask(tables, train.sequence, moments.histories, dense, people, n_threads=n_threads)
    race = _random_race(moments.target_start, 1)
    return Block(tables, asked, moments, race["g"], race["phi"], number)


def items_of_ease(clicks: Clicks) -> int:
    """Return how many items EASE can cover within a minute of CPU and 2 GB, all fits together."""
    return min(clicks.n_items, EASE_ITEMS_UNORDERED)


def _default_models(
    clicks: Clicks, turn: Turn, settings: Settings, items: Ints, seed: int, n_threads: int | None,
    progress: bool | None,
) -> Models:  # fmt: skip
    """Return EASE with the regularisation of the smallest loss on held-out clicks, and Tastes if they are cheap."""
    from bmcd.baselines import EASE
    from bmcd.models.tastes import Tastes

    grid = EASE_GRID if len(items) <= SMALL_CATALOGUE else EASE_GRID[1:4]
    best, least = None, math.inf
    for value in grid:
        models = Models({"EASE": EASE(regularization=value)}, seed, n_threads, progress, {})
        dense = models.fit(items, turn.train, "try")
        block = _random_block(turn, dense, settings, 0, 1, n_threads, TRYING_ROWS)
        examples, _, _, centre = prepare([block], settings, dense.names, False, n_threads)
        of_k = _with_race(examples, min(10, max(1, len(items) // 4)))
        found = learn(of_k, centre, centre, most_steps=8, n_threads=n_threads)
        if found.loss < least:
            best, least = value, found.loss
    chosen: dict[str, Any] = {"EASE": EASE(regularization=float(best or 200.0))}
    seconds = TASTES_SECONDS * int(clicks.per_item[items].sum()) * N_TASTES * TASTES_CHAINS
    if seconds < TASTES_AFFORDABLE:
        chosen = {"Tastes": Tastes(N_TASTES, chains=TASTES_CHAINS), **chosen}
    return Models(chosen, seed, n_threads, progress, {})


def private(clicks: Clicks, fitted: Fitted, fewest: int = 5) -> Fitted:
    """Return the same without any count that depends on fewer than ``fewest`` users.

    Items that fewer users clicked are forgotten, and so are pairs of items that fewer users clicked near each
    other. Single sessions, which SessionKNN compares with, go altogether.
    """
    rare = np.flatnonzero(clicks.per_item < fewest)
    masked = clicks.keep(~np.isin(clicks.sequence, rare))
    settings = fitted.settings
    events = events_of(masked)
    if settings.half_lives:  # ages refer to the last click of all
        assert masked.times is not None
        assert events.age is not None
        shift = (fitted.until - int(masked.times.view(np.int64).max())) / MICROSECONDS_PER_HOUR
        events = events._replace(age=np.asarray(events.age + shift, np.float64))
    asked_of = fitted.dense.items if fitted.dense.models else None
    members = tuple(name for name in settings.members if name != "SessionKNN")
    counted = settings._replace(members=members)
    tables = count(EventCounts(events), counted, math.exp(fitted.tables.outside), asked_of)
    tables = of_many_users(tables, events.within(settings.window), fewest)
    rows = [window for window in fitted.windows if window.n >= fewest]
    scales = tuple(scale and averaged(scale, fewest) for scale in fitted.dense.scales)
    return fitted._replace(
        settings=settings._replace(members=members), tables=tables, windows=tuple(rows),
        dense=fitted.dense._replace(scales=scales),
    )  # fmt: skip


def make_rule(
    found: Sequence[tuple[int, int, Any, float]], layout: Layout, scaling: Any, has_outside: bool, n_users: int
) -> Rule:
    """Return the rule of what was learnt for each horizon, with weights of features as they are."""
    weights = np.stack(
        [learning.rising(scaling.to_raw(learnt.w) * factor, layout) for _, _, learnt, factor in found]
    )
    errors = np.stack([_raw_errors(scaling, learnt, factor) for _, _, learnt, factor in found])
    ks, numbers = (np.array([one[i] for one in found], np.int64) for i in (0, 1))
    temper = np.array([one[3] for one in found])
    return Rule(layout, ks, weights, errors, temper, has_outside, numbers, n_users, scaling)


def _raw_errors(scaling: Any, learnt: Any, factor: float) -> NDArray[np.float64]:
    """Return standard errors of the weights of features as they are."""
    shape = learnt.w.shape
    change = np.zeros((learnt.w.size, learnt.w.size))
    for i in range(learnt.w.size):
        unit = np.zeros(learnt.w.size)
        unit[i] = 1.0
        change[:, i] = scaling.to_raw(unit.reshape(shape)).ravel()
    variance = np.einsum("ij,jk,ik->i", change, learnt.covariance, change)
    errors: NDArray[np.float64] = (np.sqrt(np.maximum(variance, 0.0)) * factor).reshape(shape)
    return errors


def updated(fitted: Fitted, before: Clicks, clicks: Clicks) -> Fitted:
    """Return a blend that was fitted to ``before`` with the counts of a fit to ``clicks``.

    Members, settings, weights and past windows are kept, and EASE of the items it was learnt for: those in both.
    """
    if fitted.dense.models:
        raise InputError(
            f"only counts can be updated, and this blend is made of {', '.join(fitted.dense.models)}: fit it again."
        )
    settings = fitted.settings
    events, until, refresh = events_of(clicks), 0, 0.0
    if settings.half_lives:
        assert clicks.times is not None
        until = int(clicks.times.view(np.int64).max())
        length = length_of_refresh(clicks) if fitted.refresh is None else fitted.refresh
        refresh = length / MICROSECONDS_PER_HOUR
    now = Cut(np.ones(len(clicks.sequence), np.bool_), np.zeros(0, np.bool_), 0.0 if until else None, "")
    counted = settings._replace(members=tuple(name for name in settings.members if name != "EASE"))
    tables = count(EventCounts(events), counted, share_outside(clicks, now, refresh))
    ease = renumbered(fitted.tables.ease, before, clicks)
    return fitted._replace(tables=tables._replace(ease=ease), until=until)


def renumbered(counts: Csr, before: Clicks, clicks: Clicks) -> Csr:
    """Return counts by items of one log as those by items of another; items that are in one of them have none."""
    _, place = joined_ids(clicks.items, before.items)
    new = np.where(place < clicks.n_items, place, -1)
    row = np.repeat(np.arange(before.n_items), np.diff(counts.start))
    kept = (new[row] >= 0) & (new[counts.item] >= 0)
    row, item, value = new[row[kept]], new[counts.item[kept]], counts.value[kept]
    order = np.lexsort((item, row))
    start = np.concatenate(([0], np.cumsum(np.bincount(row, minlength=clicks.n_items)))).astype(np.int64)
    total = np.zeros(clicks.n_items, np.float32)
    total[new[new >= 0]] = counts.total[new >= 0]
    return Csr(start, item[order].astype(np.int32), value[order], total)
