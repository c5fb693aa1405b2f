"""From draws of the tastes to probabilities: clicks folded in under every draw, then the race for the next k.

R-hat of single parameters means nothing here, since chains in different modes are expected. The verdict assesses
the probabilities averaged over chains, which are what is used:

* how much would they change with other chains? The standard error between chains of the probabilities that are
  recommended, of a sample of users;
* do longer chains still improve? The log probability of the clicks that were set aside, in the first half of the
  draws and in the second.
"""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import math
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from bmcd.clicks.log import Clicks
from bmcd.errors import InputError, Message, Option
from bmcd.inference.arrivals import arrival_rates_by_taste, expected_visits, race_corrected
from bmcd.inference.diagnostics import MIN_DRAWS, State, Verdict
from bmcd.inference.draws import MaxDraws, draws_per_chain
from bmcd.inference.tastes.draws import TasteDraws
from bmcd.mallows.latent.scan import REORDER
from bmcd.models.clusters import ClusterSummaries, summarise
from bmcd.models.predictor import SHOWN, ExplainedProbability, Options, Predictions, Predictor, in_brackets
from bmcd.utils import Floats, thread_count


@dataclass(frozen=True)
class TasteContribution:
    """One taste's part in a probability."""

    taste: int
    """As in `Tastes.clusters_`: 1 has the most visits."""
    share: float
    """Of the user's visits that go to it."""
    rank: float
    """Where its consensus has the item (1 is best), mean over draws."""
    click_probability: float
    """That a visit to it clicks the item."""
    contribution: float
    """Its part of the probability: its share in the rate at which the item arrives, times the probability."""
    name: str | None = None
    """Its name, if it has one."""


@dataclass(frozen=True)
class TasteExplanation(ExplainedProbability):
    """An explanation of `probability`; `print` it. The contributions add up to it.

    The probability is that of all chains; tastes and their shares are those of the chain in `Tastes.clusters_`.
    """

    tastes: tuple[TasteContribution, ...]
    """The largest contribution first."""

    HEADS = ("taste", "share of visits", "rank there", "clicked in a visit", "adds")

    def parts(self) -> list[tuple[str, tuple[Any, ...]]]:
        """Return each part of the probability that is not tiny, as a sentence and as a row of a table."""
        return [
            (
                f"{t.share:.0%} of the visits go to taste {t.taste}{in_brackets(t.name)}, which has it at rank "
                f"{t.rank:.0f} and clicks it in {t.click_probability:.1%} of its visits: adds {t.contribution:.1%}",
                (t.taste, f"{t.share:.1%}", f"{t.rank:.0f}", f"{t.click_probability:.1%}", f"{t.contribution:.1%}"),
            )
            for t in self.tastes
            if t.contribution >= SHOWN
        ]


# Batches of draws of a chain, from which Monte Carlo standard errors are taken where there is one chain only.
BATCHES = 4
# Draws used, over all chains, by default.
ENOUGH = 40
# Users in one block, and numbers in the arrays of a block.
BLOCK, BLOCK_SIZE = 512, 2**20
# Users that a thread takes at a time.
PIECE = 32


@numba.njit(cache=True, nogil=True)
def predict_users(first, last, offset, user_start, user_items, q, laws, a, b, batch_of, k, probability, mcse, law):
    """Write probabilities, standard errors and next-click distributions of users first..last - 1.

    Into ``probability[user - offset, item]``, and so on. All of them are folded in under one draw after the other,
    so that its ``q[item, taste]`` and ``laws[taste, item]``, the same numbers, stay at hand. A clicked item has the
    rate 0 in the race, and so the probability 0.
    """
    n_draws, n_items, n_tastes = q.shape
    shares, visits = np.empty((n_items, n_tastes), np.float32), np.empty(n_tastes, np.float32)
    rates, running, out = np.empty(n_items, np.float32), np.empty(n_items), np.empty(n_items)
    of_batch, squares = np.zeros((last - first, n_items)), np.zeros((last - first, n_items))
    mean, times = np.zeros((last - first, n_items)), np.full(last - first, float(k))
    n_batches, n_in_batch = 0, 0
    for draw in range(n_draws):
        n_in_batch += 1
        ends = draw + 1 == n_draws or batch_of[draw + 1] != batch_of[draw]
        n_batches += ends
        for user in range(first, last):
            items, row, person = user_items[user_start[user] : user_start[user + 1]], user - offset, user - first
            expected_visits(items, q[draw], a[draw], b[draw], shares, visits)
            arrival_rates_by_taste(visits, a[draw], laws[draw], rates)
            for i in items:
                rates[i] = 0.0
            as_shares(rates, running, law[row], n_draws)
            if n_items - items.size <= k:
                out[:] = 1.0  # all that is left is among the next k
                for i in items:
                    out[i] = 0.0
            elif k == 1:
                out[:] = running  # exact
            else:
                times[person] = race_corrected(running, k, times[person], out)
            of_batch[person] += out
            if ends:
                probability[row] += of_batch[person] / n_draws
                add_batch(of_batch[person], n_in_batch, n_batches, mean[person], squares[person])
        if ends:
            n_in_batch = 0
    for user in range(first, last):
        for i in range(n_items):
            variance = squares[user - first, i] / (n_batches - 1) if n_batches > 1 else math.nan
            mcse[user - offset, i] = math.sqrt(variance / n_batches)


@numba.njit(cache=True, nogil=True, fastmath=REORDER)
def as_shares(rates, running, law, n_draws):
    """Write each rate as its share in all of them, and add the n-th part of that to the law."""
    total = 0.0
    for i in range(rates.size):
        total += rates[i]
    scale = 1.0 / total if total > 0.0 else 0.0  # a user who has clicked everything
    part = scale / n_draws
    for i in range(rates.size):
        running[i] = rates[i] * scale
        law[i] += rates[i] * part


@numba.njit(cache=True, nogil=True)
def add_batch(sums, n_in_batch, n_batches, mean, squares):
    """Count the mean of the ``n_batches``-th batch in, and clear its sums.

    ``mean`` is that over batches and ``squares`` the sum of the squared differences to it, by Welford's recursion.
    """
    part, share = 1.0 / n_in_batch, 1.0 / n_batches
    for i in range(sums.size):
        value = sums[i] * part
        before = value - mean[i]
        mean[i] += before * share
        squares[i] += before * (value - mean[i])
        sums[i] = 0.0


@numba.njit(cache=True, nogil=True)
def shares_of_users(user_start, user_items, q, a, b, out):
    """Add to out[user, taste] the share of each taste in a user's expected visits under one draw."""
    n_items, n_tastes = q.shape
    shares, visits = np.empty((n_items, n_tastes), np.float32), np.empty(n_tastes, np.float32)
    for user in range(user_start.size - 1):
        expected_visits(user_items[user_start[user] : user_start[user + 1]], q, a, b, shares, visits)
        total = 0.0
        for c in range(n_tastes):
            total += visits[c] + a
        for c in range(n_tastes):
            out[user, c] += (visits[c] + a) / total


class PreparedTasteDraws:
    """Draws of the tastes, prepared to make predictions from any user's clicks.

    Of the draws of every chain an equal number is used, evenly spaced, about ``max_draws`` in all ("auto": ENOUGH,
    None: all), at least one of each chain. The Monte Carlo standard error is that between the means of the chains,
    which sit in different modes; with one chain it is that between batches of its draws.

    The predictions for a user depend on no other user's clicks, and the number of threads changes no digit.
    """

    def __init__(self, draws: TasteDraws, max_draws: MaxDraws) -> None:
        self.n_chains, self.n_items = draws.n_chains, draws.problem.n_items
        per_chain = draws_per_chain(max_draws, ENOUGH, self.n_chains, draws.n_draws)
        # The last draw is always among them.
        chosen = draws.n_draws - 1 - np.linspace(0, draws.n_draws - 1, per_chain).round().astype(int)[::-1]
        pairs = [(chain, int(draw)) for chain in range(self.n_chains) for draw in chosen]
        self.q = np.stack([draws.first_items(*pair) for pair in pairs]).astype(np.float32)
        self.laws = np.ascontiguousarray(self.q.transpose(0, 2, 1))
        self.a, self.b = (
            np.array([values[pair][0] for pair in pairs], np.float32) for values in (draws.a, draws.b)
        )
        self.n_batches = 1 if self.n_chains > 1 else min(BATCHES, per_chain)
        of_chain = np.arange(per_chain) * self.n_batches // per_chain
        self.batch_of = np.concatenate([chain * self.n_batches + of_chain for chain in range(self.n_chains)])
        best = draws.best_chain
        self.best = slice(best * per_chain, (best + 1) * per_chain)

    def blocks(
        self, clicks: sparse.csr_array[Any], k: int, n_threads: int | None = None
    ) -> Iterator[tuple[NDArray[np.int64], Predictions]]:
        """Yield predictions block by block: the rows of the block and what is predicted for them."""
        starts, items = self._laid_out(clicks)
        n_users, k = clicks.shape[0], min(k, self.n_items)
        size = max(1, min(BLOCK, BLOCK_SIZE // self.n_items))
        # Starting a thread takes longer than a few users do.
        with nullcontext() if n_users <= PIECE else ThreadPoolExecutor(thread_count(n_threads)) as pool:
            for first in range(0, n_users, size):
                last = min(first + size, n_users)
                found = np.zeros((3, last - first, self.n_items))

                def predict(start: int, first=first, last=last, found=found) -> None:
                    predict_users(
                        start, min(start + PIECE, last), first, starts, items, self.q, self.laws, self.a, self.b,
                        self.batch_of, k, *found,
                    )  # fmt: skip

                list((map if pool is None else pool.map)(predict, range(first, last, PIECE)))
                probability, mcse, law = found
                yield np.arange(first, last), Predictions(probability.clip(0.0, 1.0), mcse, -law)

    def memberships(self, clicks: sparse.csr_array[Any]) -> Floats:
        """Return the share of each taste of the best chain in the users' expected visits, [user, taste]."""
        starts, items = self._laid_out(clicks)
        out = np.zeros((clicks.shape[0], self.q.shape[2]))
        for q, a, b in zip(self.q[self.best], self.a[self.best], self.b[self.best], strict=True):
            shares_of_users(starts, items, q, a, b, out)
        return np.asarray(out / len(self.q[self.best]))

    def _laid_out(self, clicks: sparse.csr_array[Any]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        if clicks.shape[1] != self.n_items:
            raise InputError(f"the draws are of {self.n_items} items, but the clicks are on {clicks.shape[1]}.")
        return clicks.indptr.astype(np.int64), clicks.indices.astype(np.int64)


# Users whose recommendations are looked at, and how many each.
USERS, K = 200, 10
# The standard error of a recommended probability, mean over these, that is small enough to act on.
MAX_MCSE = 0.02
# A gain in the mean log probability of a click that is worth more sweeps, if it is also three standard errors.
MIN_GAIN = 0.01


def taste_verdict(draws: TasteDraws, predictor: PreparedTasteDraws, clicks: Clicks) -> Verdict:
    """Return the verdict; for a model saved without its users, on users with one click each."""
    facts, advice = list[str](), list[str]()
    state: State = "converged"
    if draws.n_draws >= MIN_DRAWS and draws.probe.shape[2]:
        half = draws.n_draws // 2
        by_click = draws.probe[:, half:].mean(axis=(0, 1)) - draws.probe[:, :half].mean(axis=(0, 1))
        gain, error = float(by_click.mean()), float(by_click.std() / np.sqrt(by_click.size))
        level = float(draws.log_probability[:, half:].mean())
        facts.append(
            f"the mean log probability of {by_click.size} clicks set aside is {level:.3f} in the second half of "
            f"the draws, {gain:+.3f} (+- {error:.3f}) against the first"
        )
        if gain > max(MIN_GAIN, 3 * error):
            state = "not converged"
            longer = 2 * (draws.plan.warmup + draws.plan.draws * draws.plan.thin)
            said = "The chains still improve: give more warm-up, such as "
            advice.append(Message(said, Option("warmup", longer), "."))
    elif draws.n_draws < MIN_DRAWS:
        state = "too short"
        facts.append(f"{draws.n_draws} draws of each chain are too few to see whether they still improve")
        advice.append(Message("Ask for at least ", Option("draws", 2 * MIN_DRAWS), "."))
    else:
        facts.append("no clicks were set aside to show whether the chains still improve")
    if draws.n_chains > 1:
        probability, mcse = _recommended(predictor, _some_people(clicks))
        whose = "" if clicks.n_users else " for users with one click"
        facts.append(
            f"a recommended probability{whose}, {probability:.3f} on average, has a standard error of {mcse:.4f} "
            f"between {draws.n_chains} chains (at most {MAX_MCSE:g} is wanted)"
        )
        if mcse > MAX_MCSE:
            state = "not converged" if state == "converged" else state
            wanted = int(np.ceil(1.2 * draws.n_chains * (mcse / MAX_MCSE) ** 2 / 8) * 8)
            said = "Other chains would change the probabilities: average over more, such as "
            advice.append(Message(said, Option("chains", wanted), "."))
    else:
        state = "too short" if state == "converged" else state
        facts.append("one chain cannot show whether others would differ")
        advice.append("Run several chains: every chain finds different tastes, and their average is used.")
    if draws.stopped != "finished" and state != "converged":
        state = "stopped"
    said = "Stopped early" if state == "stopped" else state.capitalize()
    text = f"{said}: {'; '.join(facts)}."
    if draws.note:
        text += f" The run was {draws.note}"
    return Verdict(state, text, tuple(advice))


def _some_people(clicks: Clicks) -> sparse.csr_array[Any]:
    """Return the clicks of some users; without users, of users who have clicked one item each."""
    people = clicks.matrix if clicks.n_users else sparse.eye_array(clicks.n_items, dtype=np.bool_, format="csr")
    n_people = people.shape[0]
    return people[np.linspace(0, n_people - 1, min(USERS, n_people)).round().astype(np.int64)]


def _recommended(predictor: PreparedTasteDraws, people: sparse.csr_array[Any]) -> tuple[float, float]:
    """Return mean probability and mean standard error of the K most probable items of each."""
    probability, mcse = [], []
    for _, predicted in predictor.blocks(people, min(K, people.shape[1])):
        best = np.argsort(-predicted.probability, axis=1, kind="stable")[:, :K]
        probability.append(np.take_along_axis(predicted.probability, best, axis=1))
        mcse.append(np.take_along_axis(predicted.mcse, best, axis=1))
    return float(np.concatenate(probability).mean()), float(np.concatenate(mcse).mean())


class TastePredictor(Predictor):
    """Predictions from the draws of one fit. Tastes are those of the best chain, the most visited first."""

    def __init__(self, clicks: Clicks, draws: TasteDraws) -> None:
        super().__init__(clicks)
        self.draws = draws

    def verdict(self) -> Verdict:
        """Return whether other or longer chains would change the probabilities, in words."""
        return self.once("verdict", lambda: taste_verdict(self.draws, self.predictor("auto"), self.clicks))

    def predictor(self, max_draws: MaxDraws) -> PreparedTasteDraws:
        """Return the prepared draws."""
        return self.once(("predictor", max_draws), lambda: PreparedTasteDraws(self.draws, max_draws))

    def order(self) -> NDArray[np.int64]:
        """Return the tastes of the best chain in the order of their numbers: the most visited first."""
        visits = self.draws.visits_per_taste[self.draws.best_chain].mean(axis=0)
        return np.argsort(-visits, kind="stable")

    def summaries(self) -> ClusterSummaries:
        """Return a summary of each taste of the best chain, without names."""
        return self.once("clusters", self._summaries)

    def memberships(self, people: Clicks, options: Options) -> Floats:
        """Return the share of each taste in the users' visits, [user, taste], tastes numbered as in `clusters`."""
        return self.predictor(options.max_draws).memberships(people.matrix)[:, self.order()]

    def explain(
        self, people: Clicks, column: int, k: int, max_draws: MaxDraws, about: tuple[Any, Any, str]
    ) -> TasteExplanation:
        """Explain one probability for the one user of ``people``; ``about`` is the user, the item and its title."""
        (_, predicted), *_ = self.predictions(people, None, k, Options(max_draws, 1, False))
        probability, mcse = float(predicted.probability[0, column]), float(predicted.mcse[0, column])
        predictor, order = self.predictor(max_draws), self.order()
        share = predictor.memberships(people.matrix)[0, order]
        click = predictor.q[predictor.best][:, column].mean(axis=0)[order].astype(np.float64)
        rank = self.draws.rho[self.draws.best_chain][:, order, column].mean(axis=0)
        part = share * click / max(float(share @ click), 1e-300)
        numbers = np.column_stack([share, rank, click, part * probability])
        order_of_parts = np.argsort(-part, kind="stable").tolist()
        rows = [(c + 1, *numbers[c].tolist(), self.cluster_names.get(c + 1)) for c in order_of_parts]
        tastes = tuple(TasteContribution(*row) for row in rows)
        return TasteExplanation(*about, k, int(people.matrix.nnz), probability, mcse, tastes)

    def _summaries(self) -> ClusterSummaries:
        draws, order = self.draws, self.order()
        best = draws.best_chain
        visits = draws.visits_per_taste[best][:, order]
        users = np.zeros(draws.n_tastes)
        if self.clicks.n_users:
            users = self.predictor("auto").memberships(self.clicks.matrix).sum(axis=0)[order]
        return summarise(
            self.clicks,
            "taste",
            alpha=draws.alpha[best][None, :, order],
            rho=draws.rho[best][None][:, :, order],
            sizes=np.broadcast_to(users, (1, draws.n_draws, draws.n_tastes)),
            share=visits.sum(axis=0) / max(visits.sum(), 1.0),
            agreement=self._agreement()[order],
        )

    def _agreement(self) -> Floats:
        """Return how near the nearest taste of another chain is to each taste of the best chain, on average.

        Nearness is the cosine between the probabilities of their items.
        """
        draws = self.draws
        nearest = [cosine.max(axis=1) for c, cosine in enumerate(draws.cosines()) if c != draws.best_chain]
        return np.asarray(np.mean(nearest, axis=0)) if nearest else np.ones(draws.n_tastes)
