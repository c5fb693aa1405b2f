"""What the files of all models share: clicks and draws as arrays, and back. The container is that of `store.py`.

Ids and titles are JSON in an array of bytes. What a file says is checked before compiled code trusts it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from bmcd.clicks.ids import objects
from bmcd.clicks.log import Clicks
from bmcd.clusters.naming import checked_names
from bmcd.errors import InputError
from bmcd.sampling.draws import ChainDraws
from bmcd.sampling.run import Plan
from bmcd.sampling.schema import Problem, Schema, check_rankings
from bmcd.system.text import shown

LIBRARIES = ("pandas", "polars", "pyarrow")
OF_USERS = frozenset({"clicks/users", "clicks/starts", "clicks/items"})
STOPPED = ("finished", "time", "interrupted")
Arrays = Mapping[str, NDArray[Any]]


def pack_clicks(clicks: Clicks, with_users: bool) -> dict[str, NDArray[Any]]:
    """Return items and titles and, unless users are left out, who clicked what."""
    arrays: dict[str, NDArray[Any]] = {"items/ids": _packed([_json_id(value) for value in clicks.items.tolist()])}
    if clicks.titles is not None and clicks.titled is not None:
        texts = zip(clicks.titles.tolist(), clicks.titled.tolist(), strict=True)
        arrays["items/titles"] = _packed([text if titled else None for text, titled in texts])
    if with_users:
        arrays["clicks/users"] = _packed([_json_id(value) for value in clicks.users.tolist()])
        arrays["clicks/starts"] = clicks.matrix.indptr.astype("<i8")
        arrays["clicks/items"] = clicks.matrix.indices.astype("<i4")
    return arrays


def describe_clicks(clicks: Clicks) -> dict[str, Any]:
    """Return what the header of a file says of the clicks."""
    counts = {"n_repeated": clicks.n_repeated} | ({"n_dropped": clicks.n_dropped} if clicks.n_dropped else {})
    return {"history": list(clicks.history), "library": clicks.library, **counts}


def unpack_clicks(arrays: Arrays, run: Mapping[str, Any], n_users: int, n_items: int) -> Clicks:
    """Return what the model knows of users and items; without users if they were left out."""
    items = _ids(arrays["items/ids"], n_items, "items")
    titles = titled = None
    if "items/titles" in arrays:
        texts = _unpacked(arrays["items/titles"], n_items, "titles")
        if not all(text is None or isinstance(text, str) for text in texts):
            raise ValueError("titles must be text")
        titled = np.array([text is not None for text in texts])
        names = [str(value) if text is None else text for value, text in zip(items.tolist(), texts, strict=True)]
        titles = objects(names)
    users: NDArray[Any] = np.empty(0, object)
    starts, sequence = np.zeros(1, np.int64), np.empty(0, np.int32)
    if set(arrays) >= OF_USERS:
        users = _ids(arrays["clicks/users"], n_users, "users")
        matrix = _matrix(arrays["clicks/starts"], arrays["clicks/items"], n_users, n_items)
        starts, sequence = matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32)
    if run["library"] not in LIBRARIES or not isinstance(run["history"], list):
        raise ValueError(f"library is {shown(run['library'])}")
    n_repeated = read_whole_number(run["n_repeated"], "n_repeated", least=0)
    history = tuple(map(str, run["history"]))
    n_dropped = read_whole_number(run.get("n_dropped", 0), "n_dropped", least=0)  # older files have none
    library = run["library"]
    own = {"titles": titles, "titled": titled, "n_repeated": n_repeated, "history": history, "library": library}
    return Clicks(users, items, starts, sequence, n_dropped=n_dropped, **own)


def pack_draws(draws: ChainDraws, schema: Schema) -> dict[str, NDArray[Any]]:
    """Return the arrays of the draws."""
    arrays: dict[str, NDArray[Any]] = {f"draws/{name}": getattr(draws, name) for name in schema.traces}
    return arrays | {"draws/warmup_log_joint": draws.warmup_log_joint, "draws/n_tallied": draws.n_tallied}


def make_header(draws: ChainDraws, clicks: Clicks, options: Mapping[str, Any], with_users: bool) -> dict[str, Any]:
    """Return the header of the file; ``options`` are those of the model that the draws do not know."""
    problem, plan = draws.problem, draws.plan
    return {
        "kind": "model",
        "version": draws.version,
        "seed": draws.seed,
        "data_hash": problem.data_hash if with_users else "",
        "options": {**problem.options, **options},
        "run": {
            "n_users": problem.n_users, "n_items": problem.n_items, "n_clusters": problem.n_clusters,
            "chains": plan.n_chains, "draws": plan.draws, "warmup": plan.warmup, "thin": plan.thin,
            "stopped": draws.stopped, "note": draws.note, "caveat": draws.caveat, **describe_clicks(clicks),
        },
    }  # fmt: skip


def with_cluster_names(header: dict[str, Any], names: Mapping[int, str]) -> dict[str, Any]:
    """Return the header of a file with what people call the clusters, if they have names."""
    if not names:
        return header
    return {**header, "run": {**header["run"], "cluster_names": {str(c): name for c, name in names.items()}}}


def read_cluster_names(header: Mapping[str, Any], n_clusters: int) -> dict[int, str]:
    """Return what people call the clusters; files made before clusters could be named have none."""
    names = header["run"].get("cluster_names", {})
    if not isinstance(names, dict):
        raise ValueError(f"cluster_names must be names by number, not {shown(names)}")
    return checked_names({int(c): name for c, name in names.items()}, n_clusters)


def read_sizes(run: Mapping[str, Any]) -> tuple[dict[str, int], Plan]:
    """Return the sizes of the problem, by name, and the plan of the run."""
    sizes = {name: read_whole_number(run[name], name) for name in ("n_users", "n_items", "n_clusters")}
    return sizes, Plan(run["chains"], run["draws"], run["warmup"], run["thin"])


def check_max_users(options: Mapping[str, Any]) -> None:
    """Raise ValueError unless the users of a chain, if there are fewer than all, are a whole number."""
    if "max_users" in options:
        read_whole_number(options["max_users"], "max_users")


def read_draws(
    header: Mapping[str, Any], arrays: Arrays, schema: Schema, problem: Problem, plan: Plan
) -> dict[str, Any]:
    """Return all fields of the draws but the tally, or raise ValueError."""
    log_joint, run = arrays["draws/log_joint"], header["run"]
    if log_joint.ndim != 2 or not 1 <= log_joint.shape[1] <= plan.draws:
        raise ValueError(f"the draws of log_joint have shape {log_joint.shape}")
    n_probed = arrays["draws/probe"].shape[-1]
    fields: dict[str, Any] = {}
    for name, (dtype, dims) in schema.traces.items():
        shape = (plan.n_chains, log_joint.shape[1], *problem.shape(dims, probed=n_probed))
        fields[name] = read_array(arrays, f"draws/{name}", problem.stored_dtype(dtype), shape)
    if run["stopped"] not in STOPPED or not (isinstance(run["note"], str) and isinstance(run["caveat"], str)):
        raise ValueError(f"stopped is {shown(run['stopped'])}")
    if header["seed"] < 0:
        raise ValueError("the seed is negative")
    check_rankings(fields["rho"], problem.n_items, "rho")
    return fields | {
        "warmup_log_joint": read_array(arrays, "draws/warmup_log_joint", "<f8", (plan.n_chains, plan.warmup)),
        "n_tallied": read_array(arrays, "draws/n_tallied", "<i8", (plan.n_chains,)),
        "problem": problem,
        "plan": plan,
        "seed": header["seed"],
        "version": header["version"],
        "stopped": run["stopped"],
        "note": run["note"],
        "caveat": run["caveat"],
    }


def check_finite(fields: Mapping[str, Any], names: Iterable[str]) -> None:
    """Raise ValueError unless these draws are finite."""
    for name in names:
        if not np.isfinite(fields[name]).all():
            raise ValueError(f"{name} has values that are not finite")


def check_names(arrays: Arrays, schema: Schema, optional: Iterable[str] = ()) -> None:
    """Raise ValueError unless the arrays are those of the schema, with or without users and what is optional."""
    there = set(arrays) - set(optional) - {"items/titles"}
    needed = {f"draws/{name}" for name in (*schema.traces, "warmup_log_joint", "n_tallied")} | {"items/ids"}
    if there not in (needed, needed | OF_USERS):
        differs = ", ".join(sorted((there ^ needed) - OF_USERS)) or "clicks"
        raise ValueError(f"unexpected or missing: {differs}")


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


def read_array(arrays: Arrays, name: str, dtype: str, shape: tuple[int, ...]) -> NDArray[Any]:
    """Return an array of the file, or raise ValueError if its dtype or shape is another."""
    array = arrays[name]
    if array.dtype != np.dtype(dtype) or array.shape != shape:
        raise ValueError(f"{name} is {array.dtype} {array.shape}, not {np.dtype(dtype)} {shape}")
    return array


def read_whole_number(value: Any, name: str, least: int = 1) -> int:
    """Return a whole number of the file, or raise ValueError if it is none or too small."""
    if type(value) is not int or not least <= value < 2**48:
        raise ValueError(f"{name} must be a whole number, {least} or more, not {shown(value)}")
    return value


def _json_id(value: Any) -> Any:
    """Return an id as JSON has it: text and numbers as they are, tuples as a list."""
    if isinstance(value, tuple):
        return [_json_id(part) for part in value]
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            raise InputError(f"the id {shown(value)} is not valid Unicode, so that it cannot be stored.") from None
        return value
    if isinstance(value, bool) or (isinstance(value, int | float) and math.isfinite(value)):
        return value
    raise InputError(
        f"the id {shown(value)} is a {type(value).__name__}, which cannot be stored: use text, numbers or tuples."
    )


def _id(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(_id(part) for part in value)
    if isinstance(value, str | bool | int | float):
        return value
    raise ValueError(f"{shown(value)} is not an id")


def _ids(packed: NDArray[Any], number: int, what: str) -> NDArray[Any]:
    ids = [_id(value) for value in _unpacked(packed, number, what)]
    if len(set(ids)) != number:
        raise ValueError(f"the ids of the {what} are not all different")
    are_integers = all(type(value) is int and -(2**63) <= value < 2**63 for value in ids)
    return np.array(ids, np.int64) if are_integers else objects(ids)


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
