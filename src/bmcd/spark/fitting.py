"""fit: one chain of `Tastes` a task, each on its own random sample of the users of a Spark frame."""

from __future__ import annotations

from typing import Any

import numpy as np

from bmcd import __version__
from bmcd.clicks.ids import objects
from bmcd.clicks.log import Clicks
from bmcd.errors import ClicksError, InputError, InputTypeError
from bmcd.models.choose_tastes import choose_tastes
from bmcd.models.remarks import warn_about_fit
from bmcd.models.tastes import Tastes
from bmcd.models.user_sample import CHOOSING, given_sample
from bmcd.sampling.run import Run
from bmcd.sampling.schema import Problem
from bmcd.sampling.tastes.draws import (
    LEAST_CLICKS,
    SET_ASIDE,
    SHARE_ASIDE,
    TasteDraws,
    describe_priors,
    taste_options,
)
from bmcd.sampling.tastes.priors import TastePriors
from bmcd.sampling.user_samples import check_max_users
from bmcd.spark.chains import ChainTask, click_matrix_of, from_bytes
from bmcd.spark.frames import check_frame, one_row_a_user, without_pandas_warning
from bmcd.spark.shipping import on_worker
from bmcd.system.estimator import clone
from bmcd.system.text import shown

# Chains count from 0; these stand for other random choices of users.
_ASIDE, _CHOOSING = -1, -2


def fit(
    frame: Any,
    model: Tastes,
    *,
    chains: int | None = None,
    max_users: int | None = 50_000,
    user: str = "user",
    item: str = "item",
    titles: Any = None,
    draws: int = 10,
    warmup: int = 100,
    thin: int = 10,
    seed: int = 0,
    set_aside: bool = True,
) -> Tastes:
    """Fit a model to the clicks of a Spark frame, one chain a task, and return it, in the memory of the driver.

    Every chain sees a random sample of users, its own, which follows from the seed and the users' ids: a task that
    is lost is tried again, with the same users and the same draws. The model knows items, but no users: it serves
    `bmcd.spark.recommend` and `recommend_for`, and `save` writes it to one file.

    Parameters
    ----------
    frame
        One row a click; further columns are ignored, and a repeated click counts once.
    model
        A `bmcd.Tastes`; it is not changed.
    chains
        As many tasks; by default as many as the model says.
    max_users
        Users of each chain; None for all.
    user, item
        The columns of ``frame``: text or whole numbers.
    titles
        Titles of the items, a dict or a frame; see `Clicks.with_titles`.
    draws, warmup, thin, seed, set_aside
        As in `Tastes.fit`.

    Examples
    --------
    ::

        clicks = spark.read.parquet("clicks.parquet")
        bmcd.spark.fit(clicks, bmcd.Tastes(40), chains=64).save("model.bmcd")
    """
    check_frame(frame, user, item, "bmcd.spark.fit")
    if not isinstance(model, Tastes):
        raise InputTypeError(
            f"bmcd.spark.fit fits bmcd.Tastes, not {shown(model)}: others can be fitted to a sample on one machine "
            "with fit(max_users=...)."
        )
    run = Run(draws, warmup, model.chains if chains is None else chains, thin, seed)
    rows = one_row_a_user(frame, user, item, None).persist()
    try:
        return _fitted(rows, model, run, max_users, titles, set_aside)
    finally:
        rows.unpersist()


def _fitted(rows: Any, model: Tastes, run: Run, max_users: int | None, titles: Any, set_aside: bool) -> Tastes:
    from pyspark.sql import functions as f

    n_users, items = rows.count(), _items_of(rows)
    if not items:
        raise ClicksError("there are no rows, so there are no clicks to fit.")
    size = check_max_users(max_users, n_users)
    options: dict[str, Any] = {"distance": model.distance, "rank_scale": model.rank_scale}
    priors, n_tastes, choice = TastePriors() if model.priors is None else model.priors, model.n_tastes, None
    known = _known(items, titles)
    empty = ChainTask(items, n_users, size or n_users, 1, [], {}, options, {})
    if isinstance(n_tastes, str):
        if n_tastes != "auto":
            raise InputError(f"n_tastes must be a whole number or 'auto', but it is {n_tastes!r}.")
        some = rows.orderBy(f.xxhash64(f.lit(run.seed), f.lit(_CHOOSING), "user"), "user").limit(CHOOSING).collect()
        matrix = click_matrix_of([row["user"] for row in some], [row["items"] for row in some], empty)
        choice = choose_tastes(Clicks.from_matrix(matrix), run, priors=priors, **options)
        n_tastes, priors = choice.n_tastes, choice.priors
    aside = _set_aside(rows, run.seed, n_users) if set_aside else []
    own = {name: getattr(run, name) for name in ("draws", "warmup", "thin", "seed")}
    task = empty._replace(n_tastes=n_tastes, aside=aside, run=own, priors=describe_priors(priors))
    drawn = _draws(rows, task, run, taste_options(len(items), priors, sampled=size, **options))
    fitted: Tastes = clone(model)
    sample = None if size is None else given_sample(size, n_users)
    fitted.with_draws(known, drawn, choice, sample)
    warn_about_fit(fitted.verdict_, drawn)
    return fitted


def _draws(rows: Any, task: ChainTask, run: Run, options: dict[str, Any]) -> TasteDraws:
    """Run the chains, one a task, and put their draws together."""
    sampled = _samples(rows, task, run.chains, run.seed)
    with without_pandas_warning():
        work = on_worker("chains", "draw_chain", task=tuple(task))
        found = sampled.groupBy("task").applyInArrow(work, "chain int, draws binary")
    parts = {row["chain"]: from_bytes(bytes(row["draws"])) for row in found.collect()}
    if missing := sorted(set(range(run.chains)) - parts.keys()):
        raise InputError(f"no user fell into the sample of chain {missing[0]}: give a larger max_users.")
    names = parts[0].keys()
    arrays: dict[str, Any] = {name: np.concatenate([parts[c][name] for c in range(run.chains)]) for name in names}
    problem = Problem(task.n_users, len(task.items), task.n_tastes, "", options)
    return TasteDraws(**arrays, problem=problem, plan=run.plan, seed=run.seed, version=__version__)


def _samples(rows: Any, task: ChainTask, chains: int, seed: int) -> Any:
    """Return a row for every chain and user in its sample: task, chain, place, user and items.

    Whether a user is in the sample of a chain, and at which place, follows from seed, chain and user id alone.
    A few more than wanted are taken, so that there are enough; the chain keeps those with the first places. The
    numbers of the tasks are such that Spark puts each chain into a partition of its own.
    """
    from pyspark.sql import functions as f

    def place(chain: Any) -> Any:
        return f.xxhash64(f.lit(seed), chain, f.col("user"))

    numbers = f.sequence(f.lit(0), f.lit(chains - 1))
    wanted = (task.max_users + 6 * task.max_users**0.5 + 6) / task.n_users
    if wanted < 1:
        limit = f.lit(-(2**63) + int(wanted * 2**64))
        numbers = f.filter(numbers, lambda chain: place(chain) < limit)
    tasks = f.array(*[f.lit(number).cast("bigint") for number in _task_numbers(rows.sparkSession, chains)])
    chosen = rows.select("user", "items", f.explode(numbers).alias("chain"))
    placed = chosen.select(
        f.element_at(tasks, f.col("chain") + 1).alias("task"),
        "chain",
        place(f.col("chain")).alias("place"),
        "user",
        "items",
    )
    return placed.repartition(chains, "task")


def _task_numbers(session: Any, chains: int) -> list[int]:
    """Return numbers that Spark puts into partition 0, 1, ... of as many as there are chains."""
    from pyspark.sql import functions as f

    found: dict[int, int] = {}
    first = 0
    while len(found) < chains:
        numbers = session.range(first, first + 20 * chains, 1, 1)
        for row in numbers.select("id", f.pmod(f.hash("id"), f.lit(chains)).alias("partition")).collect():
            found.setdefault(row["partition"], row["id"])
        first += 20 * chains
    return [found[partition] for partition in range(chains)]


def _items_of(rows: Any) -> list[Any]:
    """Return the ids of all items, sorted."""
    from pyspark.sql import functions as f

    return sorted(row["item"] for row in rows.select(f.explode("items").alias("item")).distinct().collect())


def _known(items: list[Any], titles: Any) -> Clicks:
    """Return the items as clicks of nobody."""
    ids = np.array(items, np.int64) if isinstance(items[0], int) else objects(items)
    nobody = Clicks(np.empty(0, object), ids, np.zeros(1, np.int64), np.empty(0, np.int32))
    return nobody if titles is None else nobody.with_titles(titles)


def _set_aside(rows: Any, seed: int, n_users: int) -> list[tuple[Any, list[Any], Any]]:
    """Return some users, what is left of their clicks, and the click that no chain sees."""
    from pyspark.sql import functions as f

    number = min(SET_ASIDE, int(SHARE_ASIDE * n_users))
    enough = rows.where(f.size("items") >= LEAST_CLICKS)
    chosen = enough.orderBy(f.xxhash64(f.lit(seed), f.lit(_ASIDE), "user"), "user").limit(number).collect()
    rng = np.random.default_rng(seed)
    found = []
    for row in chosen:
        items = sorted(row["items"])
        taken = items.pop(int(rng.integers(len(items))))
        found.append((row["user"], items, taken))
    return found
