"""The draws for ArviZ: clusters matched between chains, and what the draws predict for the clicks."""

from __future__ import annotations

import warnings
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields, replace
from importlib.metadata import PackageNotFoundError, version
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from bmcd.clicks.log import Clicks
from bmcd.errors import InputError
from bmcd.inference.bmcd.next_items import marginals_of_draw, replicated_counts
from bmcd.inference.draws import ChainDraws, ClusterMatching, Draws, MaxDraws, draws_per_chain
from bmcd.inference.mixture import make_data
from bmcd.inference.tastes.draws import TasteDraws
from bmcd.mallows.latent.scan import shared_tables
from bmcd.progress import counting
from bmcd.rng import stream_key
from bmcd.utils import import_optional, thread_count

AnyDraws = TypeVar("AnyDraws", bound=ChainDraws)
PER_CLUSTER = ("alpha", "tau", "rho", "label_counts", "alpha_accepted")
PER_TASTE = ("alpha", "rho", "visits_per_taste")


def mixture_tree(
    draws: Draws,
    names: ClusterMatching,
    clicks: Clicks,
    users: bool,
    max_draws: int | None,
    n_threads: int | None = None,
    progress: bool | None = False,
) -> Any:
    """Return the draws of a mixture in ArviZ's container; see `BMCD.to_arviz`."""
    chosen = _spaced(draws, max_draws)
    names = replace(names, name=names.name[:, chosen])
    draws = _at(draws, chosen)
    matched: Any = {name: names.sort(getattr(draws, name)) for name in PER_CLUSTER}
    draws = replace(draws, **matched)
    posterior = {name: getattr(draws, name) for name in ("alpha", "tau", "rho")}
    stats = ["within_distance", "label_counts", "alpha_accepted", "rho_accepted", "ranks_accepted"]
    more: dict[str, Any] = {}
    if users and clicks.n_users and draws.problem.options["distance"] == "footrule":
        log_p, posterior["membership"], counts = _of_users(draws, clicks, n_threads, progress)
        more = {"log_likelihood": {"clicks": log_p}, "posterior_predictive": {"clicks_per_item": counts}}
    return _tree(draws, "cluster", posterior, [*stats, "probe"], more, clicks, users)


def taste_tree(
    draws: TasteDraws, order: NDArray[np.int64], clicks: Clicks, users: bool, max_draws: int | None
) -> Any:
    """Return the draws of tastes in ArviZ's container; see `Tastes.to_arviz`."""
    matched = _matched_tastes(draws, order)
    draws = _at(draws, _spaced(draws, max_draws))
    sorted_: Any = {}
    for name in PER_TASTE:
        values = getattr(draws, name)
        sorted_[name] = np.stack([values[chain][:, own] for chain, own in enumerate(matched)])
    draws = replace(draws, **sorted_)
    posterior = {"alpha": draws.alpha, "rho": draws.rho, "a": draws.a[:, :, 0], "b": draws.b[:, :, 0]}
    more: dict[str, Any] = {}
    if users and clicks.n_users:
        more = {"posterior_predictive": {"clicks_per_item": _new_people(draws, clicks.n_users)}}
    stats = ["n_visits", "visits_per_taste", "swaps_accepted", "log_probability"]
    return _tree(draws, "taste", posterior, stats, more, clicks, users)


def _tree(
    draws: ChainDraws, one: str, posterior: dict[str, Any], stats: list[str], more: dict[str, Any], clicks: Clicks,
    users: bool,
) -> Any:  # fmt: skip
    """Return ArviZ's own container, an xarray DataTree; ``one`` is what a cluster is called.

    Of ``stats``, which are fields of the draws, the last is left out where nothing was probed.
    """
    build = import_optional("arviz_base", needed_by="to_arviz", extra="arviz").from_dict
    kept = {name: getattr(draws, name) for name in (stats if draws.probe.shape[2] else stats[:-1])}
    groups = {"posterior": posterior, "sample_stats": {"lp": draws.log_joint, **kept}, **more}
    if draws.warmup_log_joint.shape[1]:
        groups["warmup_sample_stats"] = {"lp": draws.warmup_log_joint}
    if users and clicks.n_users:
        groups["constant_data"] = {"n_clicked": clicks.per_user}
    dims = {name: [one] for name in (*PER_CLUSTER, *PER_TASTE)} | {"rho": [one, "item"], "probe": ["probed"]}
    dims |= {"membership": ["user", one], "clicks": ["user"], "clicks_per_item": ["item"], "n_clicked": ["user"]}
    coords = {"user": clicks.users.tolist(), "item": clicks.items.tolist()}
    coords[one] = list(range(1, draws.problem.n_clusters + 1))  # as in `clusters_`
    about = {"version": draws.version, "seed": str(draws.seed), "data_hash": draws.problem.data_hash}
    attributes = {"posterior": {**about, "stopped": draws.stopped}}
    tree = build(groups, save_warmup=True, dims=dims, coords=coords, attrs=attributes)
    if users and clicks.n_users:
        seen = {"clicks": clicks.matrix.toarray().astype(np.int8), "clicks_per_item": clicks.per_item}
        dims["clicks"] = ["user", "item"]
        tree["observed_data"] = build({"observed_data": seen}, dims=dims, coords=coords)["observed_data"]
    return _for_this_arviz(tree)


def _spaced(draws: ChainDraws, max_draws: MaxDraws) -> NDArray[np.int64]:
    """Return which draws of each chain to take: about ``max_draws`` over all chains, evenly spaced."""
    if isinstance(max_draws, int) and max_draws < draws.n_chains:
        raise InputError(f"max_draws must be at least one of each of {draws.n_chains} chains, or None for all.")
    number = draws_per_chain(max_draws, draws.n_draws * draws.n_chains, draws.n_chains, draws.n_draws)
    return np.linspace(0, draws.n_draws - 1, number).round().astype(np.int64)


def _at(draws: AnyDraws, chosen: NDArray[np.int64]) -> AnyDraws:
    """Return some of the draws of each chain."""
    traces: Any = {
        field.name: getattr(draws, field.name)[:, chosen]
        for field in fields(draws)
        if field.name not in ("warmup_log_joint", "tally", "n_tallied")
        and isinstance(getattr(draws, field.name), np.ndarray)
    }
    return replace(draws, **traces)


def _of_users(
    draws: Draws, clicks: Clicks, n_threads: int | None, progress: bool | None
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Return log-likelihoods [chain, draw, user], memberships [.., user, cluster], replicated counts [.., item]."""
    data = make_data(clicks.matrix, draws.problem.options["rank_scale"])
    shared, key = shared_tables(np.diff(data.scale)), stream_key(draws.seed)
    shape = draws.alpha.shape[:2]
    log_p = np.empty((*shape, clicks.n_users))
    membership = np.empty((*shape, clicks.n_users, draws.alpha.shape[2]), np.float32)
    counts = np.zeros((*shape, clicks.n_items), np.int64)
    rho = draws.rho.astype(np.int64)

    def work(place: tuple[int, int]) -> None:
        weight = np.empty(membership.shape[2:])
        alpha, tau = draws.alpha[place], draws.tau[place]
        marginals_of_draw(data, rho[place], alpha, tau, shared, log_p[place], weight)
        membership[place] = weight
        replicated_counts(clicks.per_user, rho[place], alpha, shared, weight, key, *place, counts[place])

    places = [(chain, draw) for chain in range(shape[0]) for draw in range(shape[1])]
    pool = ThreadPoolExecutor(thread_count(n_threads))
    with pool, counting(progress, "draws", len(places)) as show:
        for number, _ in enumerate(pool.map(work, places)):
            show(number + 1)
    return log_p, membership, counts


def _matched_tastes(draws: TasteDraws, order: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    """Return the tastes of each chain in the order of those of the best chain that they are matched with.

    Each match has the largest sum of cosines between the probabilities of the items, at the last draw. Tastes that
    only one chain has are matched with the remaining ones, so that single tastes agree only where the agreement in
    `clusters_` is high.
    """
    matched = [np.asarray(linear_sum_assignment(-cosine[order])[1], np.int64) for cosine in draws.cosines()]
    matched[draws.best_chain] = order
    return matched


def _new_people(draws: TasteDraws, n_users: int) -> NDArray[np.int64]:
    """Return the clicks of as many new users on each item, [chain, draw, item]; their rates are from the prior."""
    rng = np.random.default_rng(np.random.SeedSequence(draws.seed, spawn_key=(9,)))
    counts = np.empty((draws.n_chains, draws.n_draws, draws.problem.n_items), np.int64)
    for place in np.ndindex(counts.shape[:2]):
        rates = rng.gamma(draws.a[place][0], 1.0 / draws.b[place][0], (n_users, draws.n_tastes))
        arrivals = rates @ draws.first_items(*place).T
        counts[place] = (rng.random(arrivals.shape) < -np.expm1(-arrivals)).sum(axis=0)
    return counts


def _for_this_arviz(tree: Any) -> Any:
    """Return what the installed ArviZ takes: its DataTree, or the InferenceData of versions before 1."""
    try:
        before_one = version("arviz").startswith("0.")
    except PackageNotFoundError:
        return tree
    if not before_one:
        return tree
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", FutureWarning
        )  # it announces the change in version 1, which is handled here
        return import_optional("arviz", needed_by="to_arviz", extra="arviz").InferenceData.from_datatree(tree)
