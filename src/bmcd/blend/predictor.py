"""What a fitted blend answers: candidates of each user, their rates, and the race for the next clicks."""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from bmcd.blend.dense import people_of
from bmcd.blend.features import (
    N_TOUCHED,
    Asked,
    candidates,
    counted_only,
    head_of,
    most_candidates,
    near_of,
)
from bmcd.blend.fitting import Fitted, ask
from bmcd.blend.learning import n_running
from bmcd.blend.moments import histories_now
from bmcd.blend.next_k import rates_of, time_of_next_k
from bmcd.blend.weights import N_OUTSIDE
from bmcd.clicks.ids import id_ranks
from bmcd.clicks.log import Clicks
from bmcd.errors import InputError
from bmcd.inference.arrivals import race_corrected
from bmcd.inference.diagnostics import Verdict
from bmcd.models.clusters import ClusterSummaries
from bmcd.models.predictor import Options, Predictions, Predictor
from bmcd.models.top_k import Lists
from bmcd.progress import counting
from bmcd.utils import Floats, thread_count

Ints = NDArray[np.int64]

# Users that a thread takes at a time, and users between two steps of the progress bar.
PIECE, BLOCK = 128, 4_096
# The most numbers that the dense features of a block hold.
DENSE_NUMBERS = 2**24
STABLE_ERROR, STABLE_OUTSIDE, STANDARD_ERRORS = 0.03, 0.05, 3.0
FEWEST_WINDOWS = 3


@numba.njit(cache=True, nogil=True)
def _answer(
    asked, first, last, t, head, smoothing, repeats, columns, w, z, log_outside, has_outside, g, k, allowed,
    rank, room, near, out_item, out_probability, out_outside, dense, corrected,
):  # fmt: skip
    """Write the best k items of some users, their probabilities, and the expected clicks outside.

    ``dense`` gets the probabilities of all items instead, if it has a row for every user.
    """
    width = t.popularity.shape[1] + N_TOUCHED + asked.extra.shape[2]
    n_columns, n_z, n_cells, n_dense = columns.size, z.shape[1], t.n_cell.size, t.popularity.shape[1]
    slot = np.full(t.share.size, -1, np.int32)
    found, x = np.empty(room, np.int32), np.empty((room, width), np.float32)
    scores, m = np.empty(room + n_cells), np.empty(room + n_cells)
    rates, stays = np.empty(room + n_cells), np.empty(room + n_cells)
    mult, of = np.empty(n_cells, np.float32), np.empty(n_columns + N_OUTSIDE)
    full = np.zeros(width)
    keys = np.empty(room)
    for e in range(first, last):
        low, high = near.start[e - first], near.start[e - first + 1]
        own = asked.histories[e]
        n_rows = candidates(
            asked.items, own[0], own[1], own[2], t, head, smoothing, repeats, near.item[low:high],
            near.value[low:high], high - low, asked.place_of, asked.extra[e], slot, found, x, mult,
        )  # fmt: skip
        for f in range(n_columns + N_OUTSIDE):
            value = 0.0
            for q in range(n_z):
                value += w[f, q] * z[e, q]
            of[f] = value
        for f in range(n_columns):
            full[columns[f]] = of[f]
        for r in range(n_rows):
            value = 0.0
            for f in range(n_columns):
                value += of[f] * x[r, columns[f]]
            scores[r], m[r] = value, 1.0
        n = n_rows
        for c in range(n_cells):
            value = 0.0
            for f in range(n_dense):
                value += full[f] * t.cells[c, f]
            scores[n], m[n] = value, max(mult[c], 0.0)
            n += 1
        outside_score = of[n_columns] + of[n_columns + 1] * log_outside if has_outside else -math.inf
        outside, _ = rates_of(scores, n, m, outside_score, rates)
        capacity = 0.0
        for i in range(n):
            capacity += m[i]
        if capacity <= 0.0 and outside <= 0.0:
            out_outside[e] = 0.0
            continue
        time = time_of_next_k(rates, m, n, outside, g, 0.0, stays)
        out_outside[e] = outside * time if outside > 0.0 else 0.0
        if corrected and n_cells == 0 and g > 1.0 and time != math.inf:
            # Clicks held out at random were fewer than those to come, so the short cut's error does not cancel.
            race_corrected(rates[:n], g, time, keys[:n])
            for r in range(n):
                stays[r] = 1.0 - min(max(keys[r], 0.0), 1.0)
        if dense.shape[0]:
            for r in range(n_rows):
                dense[e, found[r]] = 1.0 - stays[r]
            continue
        n_free = 0
        for r in range(n_rows):
            if allowed[found[r]]:
                found[n_free], keys[n_free], stays[n_free] = found[r], -scores[r], stays[r]
                n_free += 1
        order = np.argsort(keys[:n_free], kind="mergesort")
        _break_ties(order, keys, found, rank, k)
        for q in range(min(k, n_free)):
            out_item[e, q] = found[order[q]]
            out_probability[e, q] = 1.0 - stays[order[q]]


@numba.njit(cache=True, nogil=True)
def _break_ties(order, keys, found, rank, k):
    """Sort runs of equal keys by the rank of their ids, as far as the first k places reach."""
    a = 0
    while a < min(k, order.size):
        b = a + 1
        while b < order.size and keys[order[b]] == keys[order[a]]:
            b += 1
        if b - a > 1:
            run = order[a:b].copy()
            ranks = np.empty(b - a, np.int64)
            for i in range(b - a):
                ranks[i] = rank[found[run[i]]]
            by_rank = np.argsort(ranks)
            for i in range(b - a):
                order[a + i] = run[by_rank[i]]
        a = b


class BlendPredictor(Predictor):
    """Answers of a fitted blend. ``clicks`` are those it was fitted to, or have no users."""

    def __init__(self, clicks: Clicks, fitted: Fitted) -> None:
        super().__init__(clicks)
        self.fitted = fitted
        self.counted = counted_only(fitted.tables)

    # ---- lists ----

    def lists(
        self,
        people: Clicks,
        rows: NDArray[np.int64] | None,
        k: int,
        items: Iterable[object] | None,
        options: Options,
        horizon: int,
    ) -> Lists:
        """Return the best k items of each user, with their probabilities of being among the next ``horizon``."""
        found, probability, outside = self.answer(people, rows, k, items, options, horizon)
        about: dict[str, Any] = {"horizon": horizon, "outside": float(outside.mean()) if len(outside) else 0.0}
        if (as_of := self.fitted.as_of) is not None:
            about["as_of"] = str(as_of)
        return Lists(found, {"probability": probability, "mcse": np.zeros_like(probability)}, about)

    def outside(self, horizon: float, options: Options) -> Floats:
        """Return the expected number of next clicks outside the model, of each user it was fitted to."""
        return self.answer(self.clicks, self.rows(None), 1, None, options, horizon)[2]

    def answer(
        self,
        people: Clicks,
        rows: NDArray[np.int64] | None,
        k: int,
        items: Iterable[object] | None,
        options: Options,
        horizon: float,
        dense: Floats | None = None,
    ) -> tuple[Ints, Floats, Floats]:
        """Return items, probabilities and the expected clicks outside, of users in rows or of other people."""
        sequence, histories = self.histories(people, rows)
        return self.answer_histories(people, sequence, histories, k, items, options, horizon, dense)

    def histories(self, people: Clicks, rows: NDArray[np.int64] | None) -> tuple[NDArray[np.int32], Ints]:
        """Return clicks, and where the history of each user begins and ends in them."""
        chosen = np.arange(people.n_users) if rows is None else rows
        return people.sequence, histories_now(people, chosen, rows is not None)

    def answer_histories(
        self, people: Clicks, sequence: NDArray[np.int32], histories: Ints, k: int, items: Iterable[object] | None,
        options: Options, horizon: float, dense: Floats | None = None,
    ) -> tuple[Ints, Floats, Floats]:  # fmt: skip
        """Return items, probabilities and expected clicks outside for these histories, parts of ``sequence``."""
        fit, n_items = self.fitted, len(self.fitted.tables.share)
        n, k = len(histories), min(k, n_items)
        allowed = self._allowed(items)
        longest = int((histories[:, 2] - histories[:, 0]).max(initial=0))
        head = fit.tables.head
        if dense is not None:
            head = np.flatnonzero(fit.tables.known).astype(np.int32)
        elif k + longest > len(head) - 10:
            head = head_of(fit.tables, k + longest)
        if items is not None and dense is None:
            head = np.union1d(head, head_of(fit.tables, k + longest, allowed)).astype(np.int32)
        rank = self.once("order", lambda: id_ranks(self.clicks.items))
        out_item, out_probability = np.full((n, k), -1, np.int64), np.zeros((n, k))
        out_outside = np.zeros(n)
        every = np.zeros((0, 0)) if dense is None else dense
        rule = fit.rule
        w, z = rule.at(float(horizon)), rule.layout.z(n_running(sequence, histories, fit.tables.known))
        n_extra = len(fit.dense.names) * len(fit.dense.items)
        block = min(BLOCK, max(1, DENSE_NUMBERS // n_extra)) if n_extra else BLOCK
        with counting(options.progress, "users", n) as show, ExitStack() as stack:
            threads, work = thread_count(options.n_threads), map
            if threads > 1 and n > PIECE:  # a thread takes longer to start than one user to answer
                work = stack.enter_context(ThreadPoolExecutor(threads)).map  # type: ignore[assignment]
            for begin in range(0, n, block):
                end = min(begin + block, n)
                some = people_of(people, sequence, histories[begin:end]) if fit.dense.models else None
                asked = ask(fit.tables, sequence, histories[begin:end], fit.dense, some, with_near=False)

                def piece(first: int, asked: Asked = asked, begin: int = begin, end: int = end) -> None:
                    last = min(first + PIECE, end - begin)
                    near = near_of(fit.tables, sequence, asked.histories[first:last])
                    room = most_candidates(sequence, asked.histories, first, last, self.counted, len(head))
                    room += int(np.diff(near.start).max(initial=0))
                    part = slice(begin, end)
                    _answer(
                        asked, first, last, self.counted, head, fit.tables.smoothing, fit.settings.repeats,
                        rule.layout.columns, w, z[part], fit.tables.outside + 4.0, rule.has_outside, float(horizon),
                        k, allowed, rank, room, near, out_item[part], out_probability[part], out_outside[part],
                        every[part] if len(every) else every, not fit.settings.ordered,
                    )  # fmt: skip

                list(work(piece, range(0, end - begin, PIECE)))
                show(end)
        return out_item, out_probability, out_outside

    # ---- what is dense by definition ----

    def predictions(
        self,
        people: Clicks,
        rows: NDArray[np.int64] | None,
        k: int,
        options: Options,
    ) -> Iterator[tuple[NDArray[np.int64], Predictions]]:
        """Yield probabilities of all items block by block; see `Predictor.predictions`."""
        sequence, histories = self.histories(people, rows)
        size = max(1, min(BLOCK, 2**24 // max(people.n_items, 1)))
        quiet = options._replace(progress=False)
        for begin in range(0, len(histories), size):
            block = np.arange(begin, min(begin + size, len(histories)))
            probability = np.zeros((len(block), people.n_items))
            ends = histories[block]
            self.answer_histories(people, sequence, ends, 1, None, quiet, k, probability)
            yield block, Predictions(probability, np.zeros_like(probability), -probability)

    # ---- verdict and clusters ----

    def verdict(self) -> Verdict:
        """Return whether predicted and observed hits agree in past windows, in words."""
        return verdict_of(self.fitted)

    def summaries(self) -> ClusterSummaries:
        """Return the clusters of the first member that has some, which knows their names."""
        return self.clusters()

    def clusters(self) -> ClusterSummaries:
        """Return the clusters of the first member that has some."""
        found: ClusterSummaries = self._grouping("clusters").clusters_
        return found

    def name_clusters(self, names: Mapping[int, str]) -> None:
        """Name the clusters of the first member that has some."""
        self._grouping("clusters").name_clusters(names)

    def memberships(self, people: Clicks, options: Options) -> Floats:
        """Return those of the first member that has clusters."""
        weight: Floats = self._grouping("memberships").memberships_of(people, max_draws=options.max_draws)
        return weight

    def _grouping(self, what: str) -> Any:
        for model in self.fitted.dense.models.values():
            if hasattr(model, "memberships_of"):
                return model
        names = ", ".join([*self.fitted.settings.members, *self.fitted.dense.models])
        raise InputError(
            f"no member of this blend has {what}: {names}. Fit a bmcd.Tastes or bmcd.BMCD to the same clicks."
        )


def verdict_of(fitted: Fitted) -> Verdict:
    """Return whether the probabilities can be relied on, by what past windows show."""
    windows = fitted.windows
    if fitted.settings.ordered and len(windows) < FEWEST_WINDOWS:
        text = (
            f"Not enough history: {len(windows)} past windows could be compared with what was predicted for them, "
            f"and {FEWEST_WINDOWS} are needed to say whether the probabilities are stable."
        )
        return Verdict("too short", text, ("Fit to a longer log, or use a shorter refresh.",))
    if not windows:
        text = (
            "Calibrated on random clicks that were held out: the log has no order, so nothing is known of later "
            "clicks."
        )
        return Verdict("converged", text)
    n = sum(window.n for window in windows)
    predicted = sum(window.predicted * window.n for window in windows) / n
    observed = sum(window.observed * window.n for window in windows) / n
    largest = max(windows, key=lambda window: abs(window.predicted - window.observed))
    error = abs(largest.predicted - largest.observed)
    unstable = any(
        abs(w.predicted - w.observed) > STABLE_ERROR + STANDARD_ERRORS * w.error
        or abs(w.outside_predicted - w.outside_observed)
        > STABLE_OUTSIDE + STANDARD_ERRORS * math.sqrt(max(w.outside_observed, 1 / w.n) / w.n)
        for w in windows
    )
    said = (
        f"predicted {predicted:.1%}, observed {observed:.1%} hits of the next click in lists of 10 over the last "
        f"{len(windows)} windows; largest error {error * 100:.1f} points ({largest.label})."
    )
    if unstable:
        advice = (
            "Do not rely on the probabilities. Fit again more often (a shorter refresh), and fit to more clicks."
        )
        return Verdict("not converged", f"Not stable at this refresh: {said}", (advice,))
    return Verdict("converged", f"Calibrated: {said}")
