"""A fitted model in one file, and back: `BMCD.save` and `load`. The container is that of `store.py`; no pickle.

Ids and titles are JSON in an array of bytes. What a file says is checked before compiled code trusts it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from bmcd.clicks.frames import objects
from bmcd.clicks.table import Clicks
from bmcd.errors import InputError, StoreError
from bmcd.mallows.distances import check_distance
from bmcd.mallows.rank_scale import scale_values
from bmcd.models.bmcd import BMCD
from bmcd.sampling import store
from bmcd.sampling.draws import MIXTURE, Draws
from bmcd.sampling.priors import Priors
from bmcd.sampling.run import Plan
from bmcd.sampling.schema import Problem
from bmcd.system.text import shown

LIBRARIES = ("pandas", "polars", "pyarrow")
STOPPED = ("finished", "time", "interrupted")


def save(model: BMCD, path: str | Path, clicks: bool = True) -> None:
    """Write a fitted model; see `BMCD.save`."""
    draws, learned = model.draws_, model.clicks_
    of, plan = draws.problem, draws.plan
    arrays: dict[str, NDArray[Any]] = {f"draws/{name}": getattr(draws, name) for name in MIXTURE.traces}
    arrays["draws/warmup_log_joint"], arrays["draws/n_tallied"] = draws.warmup_log_joint, draws.n_tallied
    arrays["items/ids"] = _packed([_plain(own) for own in learned.items.tolist()])
    if learned.titles is not None and learned.titled is not None:
        texts = zip(learned.titles.tolist(), learned.titled.tolist(), strict=True)
        arrays["items/titles"] = _packed([text if titled else None for text, titled in texts])
    with_clicks = clicks and learned.n_users > 0
    if with_clicks:
        arrays["clicks/users"] = _packed([_plain(own) for own in learned.users.tolist()])
        arrays["clicks/starts"] = learned.matrix.indptr.astype("<i8")
        arrays["clicks/items"] = learned.matrix.indices.astype("<i4")
        if draws.tally is not None:  # counts of single users
            arrays["draws/tally"] = draws.tally
    header = {
        "kind": "model",
        "version": draws.version,
        "seed": draws.seed,
        "data_hash": of.data_hash if with_clicks else "",
        "options": {**of.options, "n_clusters": model.n_clusters, "alpha_update": model.alpha_update,
                    "ranks_move": model.ranks_move},
        "run": {
            "n_users": of.n_users, "n_items": of.n_items, "n_clusters": of.n_clusters,
            "chains": plan.n_chains, "draws": plan.draws, "warmup": plan.warmup, "thin": plan.thin,
            "stopped": draws.stopped, "note": draws.note, "caveat": draws.caveat,
            "history": list(learned.history), "library": learned.library, "n_repeated": learned.n_repeated,
        },
    }  # fmt: skip
    store.write(path, header, arrays)


def load(path: str | Path) -> BMCD:
    """Open a model that `BMCD.save` wrote, or raise `StoreError`.

    >>> import bmcd, tempfile
    >>> model = bmcd.BMCD(2).fit(bmcd.simulate(n_users=50, seed=1).clicks, draws=4, warmup=4, chains=2)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     model.save(f"{folder}/small.bmcd")
    ...     bmcd.load(f"{folder}/small.bmcd").recommend(k=3).equals(model.recommend(k=3))
    True
    """
    stored = store.read(path, "model")
    try:
        return _model(stored.header, stored.arrays)
    except (KeyError, ValueError, TypeError, IndexError, OverflowError, RecursionError) as error:
        detail = f"{type(error).__name__}: {error}" if isinstance(error, KeyError) else str(error)
        raise StoreError(f"{path}: is damaged or was not written by BMCD.save: {detail[:300]}.") from error


def _model(header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> BMCD:
    run, options = dict(header["run"]), dict(header["options"])
    sizes = {name: _whole(run[name], name) for name in ("n_users", "n_items", "n_clusters")}
    plan = Plan(run["chains"], run["draws"], run["warmup"], run["thin"])
    problem = Problem(**sizes, data_hash=header["data_hash"], options=_fit_options(options))
    clicks = _clicks(arrays, run, sizes)
    draws = _draws(header, arrays, problem, plan, run, with_tally=clicks.n_users > 0)
    model = BMCD(
        options["n_clusters"] if options["n_clusters"] == "auto" else problem.n_clusters,
        distance=options["distance"],
        rank_scale=options["rank_scale"],
        priors=Priors(rate=options["rate"], concentration=options["concentration"]),
        sampler=options["sampler"],
        start=options["start"],
        alpha_update=_whole(options["alpha_update"], "alpha_update"),
        ranks_move=str(options["ranks_move"]),
    )
    check_distance(model.distance)
    scale_values(problem.n_items, model.rank_scale)
    model._learn(clicks, draws, None)
    return model


def _fit_options(options: Mapping[str, Any]) -> dict[str, Any]:
    names = {"rate", "concentration", "distance", "rank_scale", "sampler", "start", "count_k"}
    names |= {"n_clusters", "alpha_update", "ranks_move"}
    if options.keys() != names:
        raise ValueError(f"the options must be {', '.join(sorted(names))}, not {', '.join(sorted(options))}")
    if not isinstance(options["count_k"], list):
        raise ValueError("count_k must be a list")
    [_whole(k, "count_k") for k in options["count_k"]]
    of_paper = options["sampler"] == "paper"
    return {
        name: options[name]
        for name in options
        if name != "n_clusters" and (of_paper or name not in ("alpha_update", "ranks_move"))
    }


def _draws(
    header: Mapping[str, Any],
    arrays: Mapping[str, NDArray[Any]],
    problem: Problem,
    plan: Plan,
    run: Mapping[str, Any],
    with_tally: bool,
) -> Draws:
    alpha = arrays["draws/alpha"]
    if alpha.ndim != 3 or not 1 <= alpha.shape[1] <= plan.draws:
        raise ValueError(f"the draws of alpha have shape {alpha.shape}")
    n_probed = arrays["draws/probe"].shape[-1]
    traces = {}
    for name, (dtype, dims) in MIXTURE.traces.items():
        shape = (plan.n_chains, alpha.shape[1], *problem.shape(dims, probed=n_probed))
        traces[name] = _array(arrays, f"draws/{name}", problem.stored_dtype(dtype), shape)
    for name in ("alpha", "tau", "log_joint", "within_distance"):
        if not np.isfinite(traces[name]).all():
            raise ValueError(f"{name} has values that are not finite")
    if (traces["alpha"] < 0).any() or (traces["tau"] < 0).any() or not np.allclose(traces["tau"].sum(axis=2), 1.0):
        raise ValueError("alpha must not be negative, and tau must be weights that sum to 1")
    ranking = np.arange(1, problem.n_items + 1)
    if not (np.sort(traces["rho"], axis=3) == ranking).all():
        raise ValueError(f"each consensus must be a ranking, 1..{problem.n_items}")
    ks = problem.options["count_k"]
    tally = None
    if ks and with_tally:
        shape = (plan.n_chains, len(ks), problem.n_users, problem.n_items)
        tally = _array(arrays, "draws/tally", "<i4", shape)
        if (arrays["draws/n_tallied"] < 1).any():
            raise ValueError("counts must be of at least one draw of each chain")
    elif "draws/tally" in arrays:
        raise ValueError("there are counts, but the options name none, or the users are left out")
    if run["stopped"] not in STOPPED or not (isinstance(run["note"], str) and isinstance(run["caveat"], str)):
        raise ValueError(f"stopped is {shown(run['stopped'])}")
    return Draws(
        **traces,
        warmup_log_joint=_array(arrays, "draws/warmup_log_joint", "<f8", (plan.n_chains, plan.warmup)),
        tally=tally,
        n_tallied=_array(arrays, "draws/n_tallied", "<i8", (plan.n_chains,)),
        problem=problem,
        plan=plan,
        seed=header["seed"],
        version=header["version"],
        stopped=run["stopped"],
        note=run["note"],
        caveat=run["caveat"],
    )


def _clicks(arrays: Mapping[str, NDArray[Any]], run: Mapping[str, Any], sizes: Mapping[str, int]) -> Clicks:
    """What the model knows of users and items; without users if they were left out."""
    expected = {f"draws/{name}" for name in (*MIXTURE.traces, "warmup_log_joint", "n_tallied")} | {"items/ids"}
    of_users = {"clicks/users", "clicks/starts", "clicks/items"}
    there = set(arrays) - {"items/titles", "draws/tally"}
    if there not in (expected, expected | of_users):
        raise ValueError(f"unexpected or missing: {', '.join(sorted((there ^ expected) - of_users)) or 'clicks'}")
    n_items = sizes["n_items"]
    items = _ids(arrays["items/ids"], n_items, "items")
    titles = titled = None
    if "items/titles" in arrays:
        given = _unpacked(arrays["items/titles"], n_items, "titles")
        if not all(text is None or isinstance(text, str) for text in given):
            raise ValueError("titles must be text")
        titled = np.array([text is not None for text in given])
        titles = objects([str(own) if t is None else t for own, t in zip(items.tolist(), given, strict=True)])
    users: NDArray[Any] = np.empty(0, object)
    matrix: sparse.csr_array[Any] = sparse.csr_array((0, n_items), dtype=np.bool_)
    if of_users <= set(arrays):
        users = _ids(arrays["clicks/users"], sizes["n_users"], "users")
        matrix = _matrix(arrays["clicks/starts"], arrays["clicks/items"], sizes["n_users"], n_items)
    if run["library"] not in LIBRARIES or not isinstance(run["history"], list):
        raise ValueError(f"library is {shown(run['library'])}")
    return Clicks(
        users,
        items,
        matrix,
        titles,
        titled,
        _whole(run["n_repeated"], "n_repeated", least=0),
        tuple(map(str, run["history"])),
        run["library"],
    )


def _matrix(starts: NDArray[Any], items: NDArray[Any], n_users: int, n_items: int) -> sparse.csr_array[Any]:
    if starts.dtype != "<i8" or starts.shape != (n_users + 1,) or items.dtype != "<i4" or items.ndim != 1:
        raise ValueError(f"the clicks of {n_users} users have shapes {starts.shape} and {items.shape}")
    if starts[0] != 0 or starts[-1] != items.size or (np.diff(starts) < 0).any():
        raise ValueError("the clicks of the users do not follow each other")
    inside = np.ones(items.size, np.bool_)
    inside[starts[:-1][np.diff(starts) > 0]] = False  # the first of each user has none before it
    if ((items < 0) | (items >= n_items)).any() or (np.diff(items, prepend=-1)[inside] <= 0).any():
        raise ValueError("the items of each user must be different, ascending, and among the items")
    return sparse.csr_array((np.ones(items.size, np.bool_), items, starts), shape=(n_users, n_items))


def _array(arrays: Mapping[str, NDArray[Any]], name: str, dtype: str, shape: tuple[int, ...]) -> NDArray[Any]:
    array = arrays[name]
    if array.dtype != np.dtype(dtype) or array.shape != shape:
        raise ValueError(f"{name} is {array.dtype} {array.shape}, not {np.dtype(dtype)} {shape}")
    return array


def _whole(value: Any, name: str, least: int = 1) -> int:
    if type(value) is not int or not least <= value < 2**48:
        raise ValueError(f"{name} must be a whole number, {least} or more, not {shown(value)}")
    return value


def _plain(own: Any) -> Any:
    """An id as JSON has it: text and numbers as they are, tuples in a list."""
    if isinstance(own, tuple):
        return [_plain(part) for part in own]
    if isinstance(own, str | bool) or (isinstance(own, int | float) and math.isfinite(own)):
        return own
    raise InputError(
        f"the id {shown(own)} is a {type(own).__name__}, which cannot be stored: use text, numbers or tuples."
    )


def _id(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(_id(part) for part in value)
    if isinstance(value, str | bool | int | float):
        return value
    raise ValueError(f"{shown(value)} is not an id")


def _ids(packed: NDArray[Any], number: int, what: str) -> NDArray[Any]:
    own = [_id(value) for value in _unpacked(packed, number, what)]
    if len(set(own)) != number:
        raise ValueError(f"the ids of the {what} are not all different")
    whole = all(type(value) is int and -(2**63) <= value < 2**63 for value in own)
    return np.array(own, np.int64) if whole else objects(own)


def _packed(values: list[Any]) -> NDArray[np.uint8]:
    return np.frombuffer(json.dumps(values, allow_nan=False, separators=(",", ":")).encode(), np.uint8)


def _unpacked(packed: NDArray[Any], number: int, what: str) -> list[Any]:
    if packed.dtype != np.uint8 or packed.ndim != 1:
        raise ValueError(f"the {what} must be bytes")
    values = json.loads(packed.tobytes().decode())
    if not isinstance(values, list) or len(values) != number:
        raise ValueError(f"there must be {number} {what}")
    "".join(value for value in values if isinstance(value, str)).encode()  # frames cannot hold lone surrogates
    return values
