"""Models in files: `save`, `load`, and the parts that the files of all models share.

A model that can be stored has a method ``packed(*, clicks) -> (header, arrays)``, where the header is JSON, and a
classmethod ``restored(header, arrays)``, and is listed in `MODELS`. `pack_clicks` puts a log of clicks into header
and arrays; `pack_parts` does the same with the models that a model is made of. With ``clicks=False`` a file holds
no user id, no sequence of clicks, and no number that depends on fewer than `FEWEST_USERS` users: `without_users`
and `is_too_few` help with that. A file may be damaged or hostile: ``restored`` checks what it reads, and raises
ValueError, KeyError or TypeError, which `load` turns into a `StoreError`.
"""

from __future__ import annotations

import importlib
import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bmcd import container
from bmcd.clicks.ids import objects
from bmcd.clicks.item_table import ItemGroups, ItemTable, is_safe
from bmcd.clicks.log import Clicks
from bmcd.errors import InputError, StoreError
from bmcd.utils import shown

if TYPE_CHECKING:
    from bmcd.blend.blend import Blend
    from bmcd.models.bmcd import BMCD
    from bmcd.models.tastes import Tastes

Model: TypeAlias = "BMCD | Tastes | Blend"
Header = dict[str, Any]
Arrays = Mapping[str, NDArray[Any]]
Packed = tuple[Header, dict[str, NDArray[Any]]]

MODELS = {"BMCD": "bmcd.models.bmcd", "Tastes": "bmcd.models.tastes", "Blend": "bmcd.blend.blend"}
BASELINES = "bmcd.baselines"
KIND = "model"
LIBRARIES = ("pandas", "polars", "pyarrow")
CLICKS = "clicks/"
TABLE = "clicks/table/"
FEWEST_USERS = 5
"""Without clicks, a file holds no number that depends on fewer users."""
_LONGEST_ID = 1_000


def save(model: Any, path: str | Path, *, clicks: bool = True) -> None:
    """Write a fitted model or baseline to one file, which `load` opens; see `ProbabilityModel.save`."""
    header, arrays = pack(model, clicks=clicks)
    container.write(path, KIND, header, arrays, private=header["clicks"]["n_users"] > 0)


def load(path: str | Path) -> Any:
    """Open a model or baseline that was saved, or raise `StoreError`.

    >>> import bmcd, tempfile
    >>> model = bmcd.BMCD(2).fit(bmcd.simulate(n_users=50, seed=1).clicks, draws=4, warmup=4, chains=2)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     model.save(f"{folder}/small.bmcd")
    ...     bmcd.load(f"{folder}/small.bmcd").recommend(k=3).equals(model.recommend(k=3))
    True
    """
    stored = container.read(path, KIND)
    try:
        return unpack(stored.header, stored.arrays)
    except (ValueError, KeyError, TypeError, IndexError, AttributeError, OverflowError, RecursionError) as error:
        detail = f"{type(error).__name__}: {error}" if isinstance(error, KeyError) else str(error)
        said = detail[:300].removesuffix(".")
        raise StoreError(f"{path}: is damaged or was not written by bmcd: {said}.") from error


def load_model(path: str | Path) -> Model:
    """Open a model that has probabilities, or raise `StoreError`."""
    model = load(path)
    if type(model).__name__ not in MODELS:
        name = type(model).__name__
        raise StoreError(f"{path}: holds a {name}, which has no probabilities: fit bmcd.Blend({name}()) instead.")
    return model  # type: ignore[no-any-return]


def sampled_models(model: Model) -> dict[str, BMCD | Tastes]:
    """Return the models with draws by name: the model itself, or those of a blend, which may have none."""
    parts = getattr(model, "models_", {type(model).__name__: model})
    return {name: part for name, part in parts.items() if hasattr(part, "draws_")}


def pack(model: Any, *, clicks: bool) -> Packed:
    """Return header and arrays of a model or a baseline; `unpack` makes the model again."""
    name = type(model).__name__
    try:
        is_own = _class_named(name) is type(model)
    except ValueError:
        is_own = False
    if not is_own:
        raise InputError(f"{name} is not a model of bmcd, so that it cannot be saved.")
    own = getattr(model, "clicks_", None)
    if not clicks and own is not None and is_too_few(own.n_users):
        raise InputError(
            f"the {name} was fitted to {own.n_users} users, and a file without clicks holds nothing that depends "
            f"on fewer than {FEWEST_USERS}: save it with its clicks, or not at all."
        )
    header, arrays = model.packed(clicks=clicks) if name in MODELS else _pack_baseline(model, clicks)
    return {"model": name, **header}, arrays


def unpack(header: Mapping[str, Any], arrays: Arrays) -> Any:
    """Return the model that `pack` packed, or raise ValueError, KeyError or TypeError."""
    kind = _class_named(header["model"])
    if header["model"] in MODELS:
        return kind.restored(header, arrays)
    own = {name: array for name, array in arrays.items() if not name.startswith(CLICKS)}
    return kind(**header["settings"]).restore(unpack_clicks(header, arrays), own)


def pack_parts(models: Mapping[str, Any], *, clicks: bool) -> Packed:
    """Return header and arrays of the models that a model is made of, by name; their clicks are left out."""
    headers: list[Header] = []
    arrays: dict[str, NDArray[Any]] = {}
    for number, (name, model) in enumerate(models.items()):
        header, own = pack(model, clicks=clicks)
        headers.append({**header, "name": name, "clicks": None})
        arrays |= {f"parts/{number}/{key}": a for key, a in own.items() if not key.startswith(CLICKS)}
    return {"parts": headers}, arrays


def unpack_parts(header: Mapping[str, Any], arrays: Arrays) -> dict[str, Any]:
    """Return the models that `pack_parts` packed, fitted to the clicks of ``header`` and ``arrays``."""
    shared = {name: array for name, array in arrays.items() if name.startswith(CLICKS)}
    models = {}
    for number, part in enumerate(header["parts"]):
        if part["model"] == "Blend":
            raise ValueError("a blend cannot be made of blends")
        own = {**below(arrays, f"parts/{number}/"), **shared}
        models[str(part["name"])] = unpack({**part, "clicks": header["clicks"]}, own)
    if len(models) != len(header["parts"]):
        raise ValueError("the models must have different names")
    return models


def pack_clicks(clicks: Clicks) -> Packed:
    """Return header and arrays of a log, which `unpack_clicks` brings back exactly."""
    arrays: dict[str, NDArray[Any]] = {"clicks/starts": clicks.starts.astype(np.int64)}
    arrays["clicks/sequence"] = clicks.sequence.astype(np.int32)
    kinds = {}
    for name in ("users", "items"):
        kinds[name], own = _pack_ids(name, getattr(clicks, name))
        arrays |= own
    if clicks.titles is not None and clicks.titled is not None:
        arrays |= pack_texts("clicks/titles", clicks.titles.tolist()) | {"clicks/titled": clicks.titled}
    if clicks.times is not None:
        times = clicks.times.astype("datetime64[us]").view(np.int64) if clicks.has_clock else clicks.times
        arrays["clicks/times"] = times.astype(np.int64 if times.dtype.kind in "iu" else np.float64)
    if clicks.session_ids is not None:
        arrays["clicks/session_ids"] = clicks.session_ids.astype(np.int64)
    table, own = pack_item_table(clicks.items_table)
    arrays |= own
    about = {
        "items_table": table, "n_users": clicks.n_users,
        "n_items": clicks.n_items, "ids": kinds, "order": clicks.order,
        "has_clock": clicks.has_clock, "session_gap": int(clicks.session_gap), "history": list(clicks.history),
        "library": clicks.library, "split": clicks.split,
        **{name: int(getattr(clicks, name)) for name in ("n_repeated", "n_dropped", "n_new_users")},
    }  # fmt: skip
    return {"clicks": about}, arrays


def unpack_clicks(header: Mapping[str, Any], arrays: Arrays) -> Clicks:
    """Return the log that `pack_clicks` packed, or raise ValueError, KeyError or TypeError."""
    about = header["clicks"]
    n_users, n_items = (read_whole_number(about[name], name, least=0) for name in ("n_users", "n_items"))
    starts, sequence, goes_on = _read_rows(arrays, "clicks/", "sequence", n_users, -1, n_items)
    order = about["order"]
    if order not in ("time", "rows", None):
        raise ValueError(f"order is {shown(order)}")
    if order is None and (sequence >= 0).all() and (np.diff(sequence, prepend=-1)[goes_on] <= 0).any():
        raise ValueError("the items of each user must be different and ascending, as the clicks have no order")
    times = _read_times(arrays, len(sequence), about["has_clock"]) if order == "time" else None
    if times is not None and (times[1:] < times[:-1])[goes_on[1:]].any():
        raise ValueError("the clicks of each user must be in the order of their times")
    session_ids = titles = titled = None
    if "clicks/session_ids" in arrays:
        session_ids = read_array(arrays, "clicks/session_ids", "<i8", (len(sequence),))
        if ((session_ids < 0) | (session_ids >= 2**31)).any():
            raise ValueError("the numbers of the sessions must be 0 or more, and below 2**31")
    if "clicks/titled" in arrays:
        titled = read_array(arrays, "clicks/titled", "|b1", (n_items,))
        titles = objects(unpack_texts(arrays, "clicks/titles", n_items))
    if about["library"] not in LIBRARIES or not _are_texts([*about["history"], about["split"]]):
        raise ValueError("library, history or split of the clicks are not what they can be")
    counts: Any = {
        name: read_whole_number(about[name], name, 0) for name in ("n_repeated", "n_dropped", "n_new_users")
    }
    return Clicks(
        users=_unpack_ids(arrays, "users", n_users, about["ids"]["users"]),
        items=_unpack_ids(arrays, "items", n_items, about["ids"]["items"]),
        starts=starts,
        sequence=sequence,
        times=times,
        session_ids=session_ids,
        order=order,
        session_gap=read_whole_number(about["session_gap"], "session_gap", least=0),
        titles=titles,
        titled=titled,
        history=tuple(about["history"]),
        library=about["library"],
        split=about["split"],
        **counts,
        items_table=unpack_item_table(about["items_table"], arrays, n_items),
    )


def pack_item_table(table: ItemTable | None) -> tuple[Header | None, dict[str, NDArray[Any]]]:
    """Return header and arrays of an item table; None for none."""
    if table is None:
        return None, {}
    arrays: dict[str, NDArray[Any]] = {}
    for number, groups in enumerate(table.groups.values()):
        arrays |= pack_texts(f"{TABLE}groups_{number}/names", list(groups.names))
        arrays[f"{TABLE}groups_{number}/starts"] = groups.starts.astype(np.int64)
        arrays[f"{TABLE}groups_{number}/numbers"] = groups.numbers.astype(np.int32)
    for number, values in enumerate(table.numbers.values()):
        arrays[f"{TABLE}numbers_{number}"] = values.astype(np.float64)
    for name in ("links", "pictures"):
        if (texts := getattr(table, name)) is not None:
            arrays |= pack_texts(f"{TABLE}{name}", texts.tolist())
    if table.dates is not None:
        arrays[f"{TABLE}dates"] = table.dates.astype("datetime64[us]").view(np.int64)
    sizes = [len(groups.names) for groups in table.groups.values()]
    about = {"groups": list(table.groups), "n_groups": sizes, "numbers": list(table.numbers)}
    return {**about, "n_refused": int(table.n_refused)}, arrays


def unpack_item_table(about: Any, arrays: Arrays, n_items: int) -> ItemTable | None:
    """Return the table that `pack_item_table` packed, or raise ValueError, KeyError or TypeError."""
    if about is None:
        return None
    if not _are_texts([*about["groups"], *about["numbers"]]):
        raise ValueError("the columns of the item table must have names")
    groups: dict[str, ItemGroups] = {}
    for number, (name, size) in enumerate(zip(about["groups"], about["n_groups"], strict=True)):
        stem = f"{TABLE}groups_{number}/"
        names = tuple(unpack_texts(arrays, f"{stem}names", read_whole_number(size, "n_groups", 0)))
        starts, numbers, goes_on = _read_rows(arrays, stem, "numbers", n_items, 0, len(names))
        if (np.diff(numbers, prepend=-1)[goes_on] <= 0).any():
            raise ValueError(f"the groups of the column {name} are not ascending")
        if list(names) != sorted(set(names)):
            raise ValueError(f"the names of the groups of the column {name} must be different, and in order")
        groups[name] = ItemGroups(names, starts, numbers)
    values = {
        name: read_array(arrays, f"{TABLE}numbers_{number}", "<f8", (n_items,))
        for number, name in enumerate(about["numbers"])
    }
    if len({*groups, *values}) != len(about["groups"]) + len(about["numbers"]):
        raise ValueError("the columns of the item table must have different names")
    if any(np.isinf(one).any() for one in values.values()):
        raise ValueError("the numbers of the item table must be finite")
    texts: dict[str, Any] = {}
    for name in ("links", "pictures"):
        if f"{TABLE}{name}" in arrays:
            texts[name] = objects(unpack_texts(arrays, f"{TABLE}{name}", n_items))
            if not all(address == "" or is_safe(address) for address in texts[name]):
                raise ValueError(f"the {name} of the item table must be http, https or relative addresses")
    dates = None
    if f"{TABLE}dates" in arrays:
        dates = read_array(arrays, f"{TABLE}dates", "<i8", (n_items,)).view("datetime64[us]")
    n_refused = read_whole_number(about["n_refused"], "n_refused", 0)
    return ItemTable(n_items, groups, values, texts.get("links"), texts.get("pictures"), dates, n_refused)


def without_users(clicks: Clicks) -> Clicks:
    """Return a log with its items alone: no users, no clicks, and no history, which may name users."""
    nobody = clicks.of_users(np.empty(0, np.int64))
    return replace(nobody, history=(), split="", n_repeated=0, n_dropped=0, n_new_users=0)


def is_too_few(n_users: Any) -> Any:
    """Return where a number depends on some users, but on fewer than `FEWEST_USERS`.

    >>> is_too_few(np.array([0, 1, 4, 5])).tolist()
    [False, True, True, False]
    """
    return (n_users > 0) & (n_users < FEWEST_USERS)


def pack_texts(name: str, texts: list[str]) -> dict[str, NDArray[Any]]:
    """Return texts as two arrays: their UTF-8, and where each begins."""
    try:
        packed = pa.array(texts, pa.large_string())
    except (UnicodeEncodeError, pa.ArrowException) as error:
        raise InputError(f"a text cannot be stored, because it is not valid Unicode: {error}.") from None
    _, starts, text = packed.buffers()
    # pyarrow gives no buffers, or longer ones, where there are no texts.
    return {
        name: np.zeros(0, np.uint8) if not text else np.frombuffer(text, np.uint8),
        f"{name}_starts": np.zeros(1, np.int64) if not texts else np.frombuffer(starts, np.int64)[: len(texts) + 1],
    }


def unpack_texts(arrays: Arrays, name: str, number: int) -> list[str]:
    """Return the texts that `pack_texts` packed, or raise ValueError."""
    text = read_array(arrays, name, "|u1", arrays[name].shape[:1])
    starts = read_array(arrays, f"{name}_starts", "<i8", (number + 1,))
    if starts[0] != 0 or starts[-1] != len(text):
        raise ValueError(f"{name} does not have {number} texts")
    packed = pa.LargeStringArray.from_buffers(number, pa.py_buffer(starts), pa.py_buffer(text))
    packed.validate(full=True)  # also UTF-8; its error is a ValueError
    found: list[str] = packed.to_pylist()
    return found


def below(arrays: Arrays, prefix: str) -> dict[str, NDArray[Any]]:
    """Return the arrays whose names begin with the prefix, without it."""
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


def check_names(arrays: Arrays, needed: Iterable[str], optional: Iterable[str] = ()) -> None:
    """Raise ValueError unless the arrays, clicks aside, are those needed and perhaps those optional."""
    there = {name for name in arrays if not name.startswith(CLICKS)} - set(optional)
    if differs := there ^ set(needed):
        raise ValueError(f"unexpected or missing: {', '.join(sorted(differs))}")


def read_array(arrays: Arrays, name: str, dtype: str, shape: tuple[int, ...]) -> NDArray[Any]:
    """Return an array of the file, or raise ValueError if its dtype or shape is another."""
    array = arrays[name]
    if array.dtype != np.dtype(dtype) or array.shape != shape:
        raise ValueError(f"{name} is {array.dtype} {array.shape}, not {np.dtype(dtype)} {shape}")
    return array


def _read_rows(
    arrays: Arrays, stem: str, name: str, n_rows: int, low: int, high: int
) -> tuple[NDArray[Any], NDArray[Any], NDArray[np.bool_]]:
    """Return where rows begin, their numbers (low to high - 1), and whether each is of the row of that before."""
    starts = read_array(arrays, f"{stem}starts", "<i8", (n_rows + 1,))
    numbers = read_array(arrays, f"{stem}{name}", "<i4", arrays[f"{stem}{name}"].shape[:1])
    if starts[0] != 0 or starts[-1] != len(numbers) or (np.diff(starts) < 0).any():
        raise ValueError(f"the rows of {stem}{name} do not follow each other")
    if ((numbers < low) | (numbers >= high)).any():
        raise ValueError(f"{stem}{name} must have numbers from {low} to {high - 1}")
    goes_on = np.ones(len(numbers), np.bool_)
    goes_on[starts[:-1][np.diff(starts) > 0]] = False
    return starts, numbers, goes_on


def read_whole_number(value: Any, name: str, least: int = 1) -> int:
    """Return a whole number of the file, or raise ValueError if it is none or too small."""
    if type(value) is not int or not least <= value < 2**48:
        raise ValueError(f"{name} must be a whole number, {least} or more, not {shown(value)}")
    return value


def _class_named(name: Any) -> Any:
    """Return the class of a model or a baseline; a name from a file never imports anything else."""
    if name in MODELS:
        return getattr(importlib.import_module(MODELS[name]), name)
    baselines = importlib.import_module(BASELINES)
    if name not in baselines.__all__ or not hasattr(getattr(baselines, name), "restore"):
        raise ValueError(f"{shown(name)} is not a model of bmcd")
    return getattr(baselines, name)


def _pack_baseline(model: Any, clicks: bool) -> Packed:
    arrays: dict[str, NDArray[Any]] = model.packed()
    log = model.clicks_
    if not clicks and log.n_users:
        arrays, log = model.packed_without_users(FEWEST_USERS), without_users(log)
    settings = json.loads(json.dumps(model.get_params()))
    header, shared = pack_clicks(log)
    return {"settings": settings, **header}, arrays | shared


def _pack_ids(name: str, ids: NDArray[Any]) -> tuple[str, dict[str, NDArray[Any]]]:
    if ids.dtype.kind == "i":
        return "int64", {f"clicks/{name}": ids.astype(np.int64)}
    values = [value.item() if isinstance(value, np.generic) else value for value in ids.tolist()]
    if _are_texts(values):
        return "text", pack_texts(f"clicks/{name}", [_checked_id(value) for value in values])
    return "json", pack_texts(f"clicks/{name}", [json.dumps(_checked_id(value)) for value in values])


def _unpack_ids(arrays: Arrays, name: str, number: int, kind: str) -> NDArray[Any]:
    if kind == "int64":
        ids: NDArray[Any] = read_array(arrays, f"clicks/{name}", "<i8", (number,))
        n_different = len(np.unique(ids))
    elif kind in ("text", "json"):
        texts: list[Any] = unpack_texts(arrays, f"clicks/{name}", number)
        ids = objects([_read_id(text) for text in texts] if kind == "json" else texts)
        n_different = len(set(ids.tolist()))
    else:
        raise ValueError(f"the ids of the {name} are {shown(kind)}")
    if n_different != number:
        raise ValueError(f"the ids of the {name} are not all different")
    return ids


def _checked_id(value: Any) -> Any:
    """Return an id, or `InputError` if a file cannot hold it."""
    if isinstance(value, tuple):
        for part in value:
            _checked_id(part)
    elif isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            raise InputError(f"the id {shown(value)} is not valid Unicode, so that it cannot be stored.") from None
    elif not isinstance(value, bool | int) and not (isinstance(value, float) and math.isfinite(value)):
        raise InputError(
            f"the id {shown(value)} is a {type(value).__name__}, which cannot be stored: use text, numbers or "
            "tuples."
        )
    return value


def _read_id(text: str) -> Any:
    if len(text) > _LONGEST_ID:
        raise ValueError(f"an id has {len(text):,} characters")
    return _tuples(json.loads(text))


def _tuples(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(_tuples(part) for part in value)
    if isinstance(value, str | bool | int) or (isinstance(value, float) and math.isfinite(value)):
        return value
    raise ValueError(f"{shown(value)} is not an id")


def _read_times(arrays: Arrays, number: int, has_clock: bool) -> NDArray[Any]:
    dtype = "<f8" if not has_clock and arrays["clicks/times"].dtype.kind == "f" else "<i8"
    times = read_array(arrays, "clicks/times", dtype, (number,))
    times = times.view("datetime64[us]") if has_clock else times
    if not (np.isfinite(times)).all():
        raise ValueError("a time is missing")
    return times


def _are_texts(values: Iterable[Any]) -> bool:
    return all(isinstance(value, str) for value in values)
