"""A comparison written down in a file: which data, which models with which settings, and how many recommendations.

An example, with every key there is (docs/baselines.md explains them):

    k = 10
    seed = 0
    against = "BMCD"

    [data]
    dataset = "eshop"
    most_clicked = 200
    at_least = 13
    hold_out = 10

    [tuning]
    folds = 10

    [models.BMCD]
    options = {n_clusters = 17}
    fit = {draws = 200, warmup = 200, chains = 4}

    [models.ALS]
    grid = {factors = [16, 32], alpha = [10.0, 20.0], regularization = [60.0, 100.0]}
"""

from __future__ import annotations

import json
import shutil
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bmcd.clicks.table import Clicks
from bmcd.errors import ConfigError
from bmcd.evaluation.compare import compare
from bmcd.evaluation.comparison import Comparison
from bmcd.evaluation.comparison_files import clicks_hash, config_of, write_json

# The last three are written into config.json beside a result, which can be run again.
KEYS = ("k", "seed", "against", "level", "resamples", "n_popular", "data", "tuning", "models")
RECORDED = ("train", "test", "versions")
DATA_KEYS = (
    *("dataset", "simulate", "file", "user", "item", "titles"),
    *("most_clicked", "at_least", "hold_out", "seed"),
)
MODEL_KEYS = ("class", "options", "grid", "fit", "fitted_before")
TUNING_KEYS = ("folds", "k")


def run_config(
    path: str | Path,
    out: str | Path | None = None,
    *,
    n_threads: int | None = None,
    progress: bool | None = None,
) -> Comparison:
    """Run the comparison a TOML or JSON file describes; with ``out``, save it there with the file beside it.

    Models with a grid are tuned on the training clicks first; the tables of scores are saved as tuning_<model>.csv.
    The config.json that is saved has the settings found, and can be run itself: it then gives the same result, or
    an error if the data are no longer the same.
    """
    path = Path(path)
    config = read_config(path)
    seed = int(config.get("seed", 0))
    train, test = load_data(config["data"], seed, path.parent)
    _check_same(config, train)
    tuning = {"k": config.get("k", 10), **config.get("tuning", {})}
    models, tables = {}, {}
    for name, own in config["models"].items():
        make, options = _model_class(name, own), _options(own)
        if own.get("grid"):
            from bmcd.evaluation.tune import tune

            grid = {**{key: [value] for key, value in options.items()}, **own["grid"]}
            found = tune(
                make, train, grid, **tuning, seed=seed, n_threads=n_threads, progress=progress, fit=own.get("fit")
            )
            tables[name], models[name] = found.table, found.model
        else:
            models[name] = make(**options)
    wanted = {key: config[key] for key in ("against", "level", "resamples", "n_popular") if key in config}
    fits = {name: own.get("fit", {}) for name, own in config["models"].items()}
    result = compare(models, train, test, config.get("k", 10), seed=seed, fit=fits, progress=progress, **wanted)
    if out is not None:
        folder = result.save(out)
        again = {**config_of(result), "data": _absolute(config["data"], path.parent)}
        write_json(folder / "config.json", again | {key: wanted[key] for key in ("n_popular",) if key in wanted})
        for name, table in tables.items():
            table.to_csv(folder / f"tuning_{name}.csv", index=False)
        if path.resolve() != (folder / path.name).resolve():
            shutil.copyfile(path, folder / f"compare{path.suffix}")
    return result


def read_config(path: str | Path) -> dict[str, Any]:
    """Read a config file and check its keys."""
    path = Path(path)
    text = path.read_text(encoding="utf-8")
    try:
        config = json.loads(text) if path.suffix == ".json" else tomllib.loads(text)
    except (json.JSONDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"{path} is no {'JSON' if path.suffix == '.json' else 'TOML'}: {error}") from error
    _check_keys(config, (*KEYS, *RECORDED), f"{path}")
    for key in ("data", "models"):
        if not isinstance(config.get(key), dict) or not config[key]:
            raise ConfigError(f"{path} has no [{key}].")
    _check_keys(config["data"], DATA_KEYS, f"{path}, [data]")
    _check_keys(config.get("tuning", {}), TUNING_KEYS, f"{path}, [tuning]")
    for name, own in config["models"].items():
        _check_keys(own, MODEL_KEYS, f"{path}, [models.{name}]")
        _model_class(name, own)
    return dict(config)


def load_data(data: Mapping[str, Any], seed: int, folder: Path) -> tuple[Clicks, Any]:
    """Training clicks, and the test: held-out clicks, or the simulation with its true rankings."""
    sources = [key for key in ("dataset", "simulate", "file") if key in data]
    if len(sources) != 1:
        raise ConfigError(f"[data] must have one of dataset, simulate and file, but it has {sources or 'none'}.")
    if sources == ["simulate"]:
        from bmcd.simulation import simulate

        simulation = simulate(**{"seed": seed, **data["simulate"]})
        if "hold_out" not in data:
            return simulation.clicks, simulation
        clicks = simulation.clicks
    elif sources == ["dataset"]:
        from bmcd.clicks.datasets import load_dataset

        clicks = load_dataset(data["dataset"])
    else:
        from bmcd.clicks.reading import read_clicks

        columns = {key: data[key] for key in ("user", "item") if key in data}
        titles = folder / data["titles"] if "titles" in data else None
        clicks = read_clicks(folder / data["file"], titles=titles, **columns)
    if "hold_out" not in data:
        raise ConfigError("[data] has no hold_out: how many clicks of each user to test on.")
    if "most_clicked" in data:
        clicks = clicks.most_clicked(data["most_clicked"])
    if "at_least" in data:
        clicks = clicks.at_least(data["at_least"])
    return clicks.hold_out(data["hold_out"], seed=data.get("seed", seed))


def _model_class(name: str, own: Mapping[str, Any]) -> Any:
    from bmcd import baselines
    from bmcd.models.bmcd import BMCD

    known: dict[str, Any] = {"BMCD": BMCD}
    for other in baselines.__all__:
        made = getattr(baselines, other)
        if isinstance(made, type) and issubclass(made, baselines.Rival) and made is not baselines.Rival:
            known[other] = made
    wanted = own.get("class", name)
    if wanted not in known:
        raise ConfigError(
            f"[models.{name}] has the class {wanted!r}; there are {', '.join(known)}. (By default the name.)"
        )
    return known[wanted]


def _options(own: Mapping[str, Any]) -> dict[str, Any]:
    options = dict(own.get("options", {}))
    if isinstance(options.get("priors"), dict):
        from bmcd.sampling.priors import Priors

        options["priors"] = Priors(**options["priors"])
    return options


def _check_same(config: Mapping[str, Any], train: Clicks) -> None:
    before = config.get("train", {}).get("sha256")
    if before is not None and before != clicks_hash(train):
        raise ConfigError("the training clicks are not those that this config was written for (sha256 differs).")


def _absolute(data: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Paths in a config are relative to it; the one that is saved stands elsewhere."""
    return {key: str((folder / own).resolve()) if key in ("file", "titles") else own for key, own in data.items()}


def _check_keys(config: Mapping[str, Any], known: tuple[str, ...], where: str) -> None:
    if not isinstance(config, dict):
        raise ConfigError(f"{where} must be a table of keys and values, not {config!r}.")
    if unknown := [key for key in config if key not in known]:
        raise ConfigError(f"{where} has the unknown key {unknown[0]!r}; there are {', '.join(known)}.")
