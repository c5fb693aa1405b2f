"""From clicks to draws of the tastes: `sample_tastes`, and `TasteDraws`, what it returns.

Unless that is switched off, some clicks are set aside: one of each of a few users. The chains do not see them, and
their log probability, recorded with every draw, shows whether longer chains would still help. They count again when
next items are asked for.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from bmcd.clicks.log import Clicks
from bmcd.inference.arrivals import log_probabilities
from bmcd.inference.diagnostics import assess_quantity
from bmcd.inference.draws import ChainDraws, FitSpec, Previous, Schema, check_not_negative
from bmcd.inference.loop import run_chains
from bmcd.inference.mixture import check_priors
from bmcd.inference.record import Probe, Recording
from bmcd.inference.run import LEAST_CLICKS, Run, check_max_users, users_of_chain
from bmcd.inference.tastes.priors import GammaPrior, TastePriors
from bmcd.inference.tastes.rank_laws import RankLaws, rank_laws
from bmcd.inference.tastes.sampler import TasteSampler, first_items_of
from bmcd.inference.tastes.start import TasteState, make_taste_data
from bmcd.utils import check_count

if TYPE_CHECKING:
    import pandas as pd


# One click of at most this number and this share of all users is set aside.
SET_ASIDE, SHARE_ASIDE = 200, 0.1
ROUNDS_AFTER = 10  # of mean field, from the tastes of a fit before


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class TasteDraws(ChainDraws):
    """The draws of the model with several tastes. Every chain has different tastes: their modes differ."""

    alpha: NDArray[np.float64]  # [chain, draw, taste]
    rho: NDArray[np.signedinteger[Any]]  # [chain, draw, taste, item], ranks 1..n
    a: NDArray[np.float64]  # [chain, draw, 1]: shape of the law of the rates
    b: NDArray[np.float64]  # [chain, draw, 1]: its rate
    visits_per_taste: NDArray[np.float64]  # [chain, draw, taste]
    n_visits: NDArray[np.int64]  # [chain, draw]
    swaps_accepted: NDArray[np.float64]  # [chain, draw]
    a_accepted: NDArray[np.float64]  # [chain, draw]
    _called: ClassVar[str] = "tastes"

    @property
    def n_tastes(self) -> int:
        """How many tastes there are."""
        return int(self.alpha.shape[2])

    @property
    def log_probability(self) -> NDArray[np.float64]:
        """Mean log probability of the clicks set aside, [chain, draw]; nan if there are none."""
        with np.errstate(invalid="ignore"):
            total: NDArray[np.float64] = self.probe.sum(axis=2) / np.float64(self.probe.shape[2])
        return total

    @property
    def best_chain(self) -> int:
        """The chain whose tastes are shown: that with the highest log joint density."""
        return int(self.log_joint.mean(axis=1).argmax())

    def laws(self) -> RankLaws:
        """Return the laws of the first item that these draws are of."""
        options = self.problem.options
        return rank_laws(self.problem.n_items, options["distance"], options["rank_scale"])

    def first_items(self, chain: int, draw: int) -> NDArray[np.float64]:
        """Return q[item, taste] of one draw: the probability that a visit to the taste clicks the item."""
        laws, rho = self.laws(), self.rho[chain, draw].astype(np.int64)
        q = np.empty((self.problem.n_items, self.n_tastes))
        for c, alpha in enumerate(self.alpha[chain, draw].tolist()):
            q[:, c] = np.exp(laws.log_law_at(alpha))[rho[c] - 1]
        return q

    def cosines(self) -> list[NDArray[np.float64]]:
        """Return, by chain, the cosine between the item probabilities of tastes of the best chain and of that one.

        Each is [taste of the best chain, taste of the chain], at the last draw.
        """
        laws = [self.first_items(chain, self.n_draws - 1) for chain in range(self.n_chains)]
        unit = [law / np.linalg.norm(law, axis=0) for law in laws]
        return [unit[self.best_chain].T @ own for own in unit]


def check_taste_state(state: TasteState, problem: FitSpec) -> None:
    """Raise ValueError unless every number and index of a state is one that compiled code can take."""
    for name in ("rates", "a", "b", "a_step"):
        check_not_negative(getattr(state, name), f"{name} of the state")
    if not (np.sort(state.item_at, axis=1) == np.arange(problem.n_items)).all():
        raise ValueError(f"each row of item_at of the state must hold each of 0..{problem.n_items - 1} once")
    if not ((state.scale_index >= 0) & (state.scale_index < problem.options["n_alphas"])).all():
        raise ValueError(f"scale_index of the state must lie in 0..{problem.options['n_alphas'] - 1}")


TASTES = Schema(
    state_type=TasteState,
    state={
        "rates": ("<f8", ("user", "cluster")),
        "item_at": ("rank", ("cluster", "item")),
        "scale_index": ("<i8", ("cluster",)),
        "a": ("<f8", ("one",)),
        "b": ("<f8", ("one",)),
        "a_step": ("<f8", ("one",)),
    },
    draws_type=TasteDraws,
    traces={
        "alpha": ("<f8", ("cluster",)),
        "rho": ("rank", ("cluster", "item")),
        "a": ("<f8", ("one",)),
        "b": ("<f8", ("one",)),
        "visits_per_taste": ("<f8", ("cluster",)),
        "n_visits": ("<i8", ()),
        "log_joint": ("<f8", ()),
        "swaps_accepted": ("<f8", ()),
        "a_accepted": ("<f8", ()),
        "probe": ("<f8", ("probed",)),
    },
    shares=("swaps_accepted", "a_accepted"),
    check=check_taste_state,
)


def sample_tastes(
    clicks: Clicks,
    n_tastes: int,
    run: Run | None = None,
    *,
    priors: TastePriors | None = None,
    distance: str = "footrule",
    rank_scale: str | ArrayLike = "linear",
    aside: bool = True,
    previous: Previous | None = None,
    max_users: int | None = None,
) -> TasteDraws:
    """Draw from the posterior of the model with several tastes per user; ``aside``: see `Tastes.fit`.

    With ``previous``, a fit to other clicks, the chains start at its tastes. A new item starts as likely in every
    taste as an average item, and the mean-field rounds place it by its clicks. With ``max_users`` every chain sees
    a random sample of that many users.

    Examples
    --------
    >>> import bmcd
    >>> clicks = bmcd.simulate(n_users=200, seed=1).clicks
    >>> sample_tastes(clicks, 3, Run(draws=5, warmup=10, chains=2))
    TasteDraws(2 chains x 5 draws, 3 tastes, 50 items)
    """
    run, size = run or Run(), check_max_users(max_users, clicks.n_users)
    priors = TastePriors() if priors is None else priors
    check_priors(priors, TastePriors)
    n_tastes = check_count("n_tastes", n_tastes)
    laws = rank_laws(clicks.n_items, distance, rank_scale)
    kept, pairs = set_aside(clicks, run.seed) if aside else (clicks.matrix, np.empty((0, 2), np.int64))
    options = {
        "model": "tastes",
        "distance": distance,
        "rank_scale": rank_scale if isinstance(rank_scale, str) else np.asarray(rank_scale, float).tolist(),
        "n_alphas": int(laws.alphas.size),
        **describe_priors(priors),
    }
    if size is not None:
        options["max_users"] = size
    if previous is not None:
        options["start"] = previous.describe()
    made: dict[int, TasteSampler] = {}

    def sampler_for_chain(chain: int) -> TasteSampler:
        place = 0 if size is None else chain  # chains that see the same users share one
        if place not in made:
            own = kept if size is None else kept[users_of_chain(run.seed, chain, clicks.n_users, size)]
            model: Any = {"distance": distance, "rank_scale": rank_scale}
            made[place] = TasteSampler(make_taste_data(own), n_tastes, priors, seed=run.seed, **model)
        return made[place]

    def start_of_chain(chain: int) -> TasteState:
        sampler = sampler_for_chain(chain)
        if previous is None:
            return sampler.start(chain)
        return sampler.start(chain, ROUNDS_AFTER, _laws_before(previous, chain))

    spec = FitSpec(clicks.n_users, clicks.n_items, n_tastes, clicks.fingerprint(), options)
    recording = Recording(spec, TASTES, _probe(laws, kept, pairs) if pairs.size else None)
    draws: TasteDraws = run_chains(sampler_for_chain, start_of_chain, recording, run)
    return draws


def _laws_before(previous: Previous, chain: int) -> NDArray[np.float64]:
    """Return the probabilities [item, taste] of a draw of the fit before, for the items of these clicks."""
    before = previous.draws.first_items(*previous.place(chain))
    laws = np.where(previous.columns[:, None] >= 0, before[previous.columns], before.mean(axis=0))
    return np.asarray(np.maximum(laws, 1e-12))


def set_aside(clicks: Clicks, seed: int) -> tuple[sparse.csr_array[Any], NDArray[np.int64]]:
    """Return the clicks without one of each of a few users, and the (user, item) pairs taken out, [pair, 2]."""
    rng = np.random.default_rng(seed)
    enough = np.flatnonzero(clicks.per_user >= LEAST_CLICKS)
    number = min(SET_ASIDE, int(SHARE_ASIDE * clicks.n_users), enough.size)
    users = np.sort(rng.permutation(enough)[:number])
    starts, matrix = clicks.matrix.indptr, clicks.matrix
    taken = starts[users] + rng.integers(0, clicks.per_user[users])
    keep = np.ones(clicks.n_clicks, np.bool_)
    keep[taken] = False
    new_starts = np.concatenate(([0], np.cumsum(keep)))[starts]
    left = sparse.csr_array((matrix.data[keep], matrix.indices[keep], new_starts), shape=matrix.shape)
    return left, np.stack([users, matrix.indices[taken]], axis=1).astype(np.int64)


def _probe(laws: RankLaws, kept: sparse.csr_array[Any], pairs: NDArray[np.int64]) -> Probe:
    """Return the log probabilities of the clicks set aside, given the state of a chain."""
    starts, items = kept.indptr.astype(np.int64), kept.indices.astype(np.int64)

    def probe(state: TasteState) -> NDArray[np.float64]:
        q = first_items_of(state, laws).astype(np.float32)
        out = np.empty(len(pairs))
        log_probabilities(starts, items, pairs, q, np.float32(state.a[0]), np.float32(state.b[0]), out)
        return out

    return probe


def describe_priors(priors: TastePriors) -> dict[str, Any]:
    """Return the priors as JSON holds them; see `read_priors`."""
    described: dict[str, Any] = {"scale_rate": priors.scale_rate}
    for name in ("a", "b"):
        value = getattr(priors, name)
        described[name] = [value.shape, value.rate] if isinstance(value, GammaPrior) else value
    return described


def read_priors(described: Any) -> TastePriors:
    """Return the priors that `describe_priors` described."""
    values = {name: described[name] for name in ("scale_rate", "a", "b")}
    parsed: Any = {name: GammaPrior(*v) if isinstance(v, list) else v for name, v in values.items()}
    return TastePriors(**parsed)


def diagnostics_table(draws: TasteDraws) -> pd.DataFrame:
    """Return R-hat, effective sample sizes and Monte Carlo errors, by quantity."""
    import pandas as pd

    quantities = {
        "log joint": draws.log_joint,
        "log probability of clicks set aside": draws.log_probability,
        "visits": draws.n_visits.astype(np.float64),
        "a": draws.a[:, :, 0],
        "b": draws.b[:, :, 0],
        "largest share of visits": draws.visits_per_taste.max(axis=2) / draws.n_visits,
        "median alpha": np.median(draws.alpha, axis=2),
    }
    known = {name: values for name, values in quantities.items() if np.isfinite(values).all()}
    return pd.DataFrame([assess_quantity(name, values) for name, values in known.items()]).set_index("quantity")
