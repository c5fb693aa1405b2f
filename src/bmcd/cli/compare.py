"""`bmcd compare`: fit and compare the models of a config file, which is stored beside the result.

An example (docs/baselines.md explains every key):

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

    [models.Blend]
    file = "model.bmcd"
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bmcd.cli.options import Threads, model_classes, narrowed, option
from bmcd.cli.output import console, say
from bmcd.errors import ConfigError, OutputError
from bmcd.files import open_replacement, write_csv, write_file, write_json

if TYPE_CHECKING:
    from bmcd.clicks.log import Clicks
    from bmcd.evaluation.compare import Comparison

COMPARE_KEYS = ("horizon", "against", "level", "resamples", "n_popular")
KEYS = ("k", "seed", *COMPARE_KEYS, "data", "tuning", "models")
# Keys of the config.json beside a result, which can be run again.
RECORDED = ("train", "test", "versions")
# Arguments of `read_clicks`.
READING_KEYS = (
    *("user", "item", "title", "title_item", "title_column", "time_column"),
    *("order", "session_column", "session_gap", "missing", "delimiter", "encoding", "text_ids"),
)
HOLDING_OUT_KEYS = ("by", "keep", "too_few")
DATA_KEYS = (
    *("dataset", "simulate", "file", "titles", *READING_KEYS),
    *("most_clicked", "at_least", "hold_out", *HOLDING_OUT_KEYS, "seed"),
)
MODEL_KEYS = ("class", "options", "grid", "fit", "fitted_before", "file")
TUNING_KEYS = ("folds", "k")


def compare(
    config: Annotated[Path, typer.Argument(help="A .toml or .json file: data, models, k and seed.")],
    output: Annotated[Path | None, option("A folder for tables, plot and config.json.", "--output", "-o")] = None,
    threads: Threads = None,
) -> dict[str, Any]:
    """Fit, tune and compare models on the same data: one table with intervals and paired differences.

    docs/baselines.md explains the config file. The config.json that is written can be run again.
    """
    if output is not None and output.exists() and not output.is_dir():
        raise OutputError(f"{output}: is a file. Give the name of a folder.")
    comparison = run_config(config, output, n_threads=threads)
    console().print(comparison)
    if output is not None:
        say(f"Tables, plot and config.json: {output}")
    return {"config": config, "folder": output, **comparison.to_dict()}


def run_config(
    path: str | Path,
    out: str | Path | None = None,
    *,
    n_threads: int | None = None,
    progress: bool | None = None,
) -> Comparison:
    """Run the comparison that a TOML or JSON file describes; with ``out``, save it there with a copy of the file.

    Models with a grid are tuned on the training clicks first; their tables of scores are saved as
    tuning_<model>.csv. The config.json that is saved has the settings found. It can be run itself: it gives the
    same result, or an error if the data are no longer the same.
    """
    import bmcd
    from bmcd.evaluation.compare import config_of

    path = Path(path)
    config = read_config(path)
    seed, k = int(config.get("seed", 0)), config.get("k", 10)
    train, test = load_data(config["data"], seed, path.parent)
    _check_same(config.get("train", {}), train)
    tuning: dict[str, Any] = {"k": k, **config.get("tuning", {}), "n_threads": n_threads, "progress": progress}
    models, tables = {}, {}
    for name, entry in config["models"].items():
        if "file" in entry:
            from bmcd.models.persistence import load_model

            models[name] = load_model(path.parent / entry["file"])
            continue
        model_class, options = _model_class(name, entry), _options(entry)
        if entry.get("grid"):
            grid = {**{key: [value] for key, value in options.items()}, **entry["grid"]}
            tuned = bmcd.tune(model_class, train, grid, seed=seed, fit=entry.get("fit"), **tuning)
            tables[name], models[name] = tuned.table, tuned.model
        else:
            models[name] = model_class(**options)
    compare_options = {key: config[key] for key in COMPARE_KEYS if key in config}
    fits = {name: entry.get("fit", {}) for name, entry in config["models"].items()}
    comparison = bmcd.compare(models, train, test, k, seed=seed, fit=fits, progress=progress, **compare_options)
    if out is not None:
        folder = comparison.save(out)
        made = compare_options | config_of(comparison) | {"data": _absolute(config["data"], path.parent)}
        made["models"] |= {
            name: _absolute(entry, path.parent) for name, entry in config["models"].items() if "file" in entry
        }
        write_json(folder / "config.json", made, indent=2)
        for name, table in tables.items():
            with open_replacement(folder / f"tuning_{name}.csv") as file:
                write_csv(file, table)
        if path.resolve() != (folder / path.name).resolve():
            write_file(folder / f"compare{path.suffix}", path.read_bytes())
    return comparison


def read_config(path: str | Path) -> dict[str, Any]:
    """Return the content of a config file, after checking its keys."""
    path = Path(path)
    text, kind = path.read_text(encoding="utf-8"), "JSON" if path.suffix == ".json" else "TOML"
    try:
        config = json.loads(text) if kind == "JSON" else tomllib.loads(text)
    except (json.JSONDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"{path} is not valid {kind}: {error}") from error
    _check_keys(config, (*KEYS, *RECORDED), f"{path}")
    for key in ("data", "models"):
        if not isinstance(config.get(key), dict) or not config[key]:
            raise ConfigError(f"{path} has no [{key}].")
    _check_keys(config["data"], DATA_KEYS, f"{path}, [data]")
    _check_keys(config.get("tuning", {}), TUNING_KEYS, f"{path}, [tuning]")
    for name, entry in config["models"].items():
        _check_keys(entry, MODEL_KEYS, f"{path}, [models.{name}]")
        if "file" not in entry:
            _model_class(name, entry)
        elif more := [key for key in entry if key != "file"]:
            raise ConfigError(f"{path}, [models.{name}] has a file, which is fitted already: leave out {more[0]}.")
    return dict(config)


def load_data(data: Mapping[str, Any], seed: int, folder: Path) -> tuple[Clicks, Any]:
    """Return the training clicks, and the test: held-out clicks, or the simulation with its true rankings."""
    sources = [key for key in ("dataset", "simulate", "file") if key in data]
    if len(sources) != 1:
        raise ConfigError(f"[data] must have one of dataset, simulate and file, but it has {sources or 'none'}.")
    import bmcd

    if sources == ["simulate"]:
        simulation = bmcd.simulate(**{"seed": seed, **data["simulate"]})
        if "hold_out" not in data:
            return simulation.clicks, simulation
        clicks = simulation.clicks
    elif sources == ["dataset"]:
        clicks = bmcd.load_dataset(data["dataset"])
    else:
        options = {key: data[key] for key in READING_KEYS if key in data}
        titles = folder / data["titles"] if "titles" in data else None
        clicks = bmcd.read_clicks(folder / data["file"], titles=titles, **options)
    if "hold_out" not in data:
        raise ConfigError("[data] has no hold_out: the number of clicks of each user to test on.")
    clicks = narrowed(clicks, data.get("most_clicked"), data.get("at_least"))
    how = {key: data[key] for key in HOLDING_OUT_KEYS if key in data}
    return clicks.hold_out(data["hold_out"], seed=data.get("seed", seed), **how)


def _model_class(name: str, entry: Mapping[str, Any]) -> Any:
    known = model_classes()
    wanted = entry.get("class", name)
    if wanted not in known:
        raise ConfigError(
            f"[models.{name}] has the class {wanted!r}; there are {', '.join(known)}. (By default the name.)"
        )
    return known[wanted]


def _options(entry: Mapping[str, Any]) -> dict[str, Any]:
    options = dict(entry.get("options", {}))
    if isinstance(options.get("priors"), dict):
        from bmcd import Priors

        options["priors"] = Priors(**options["priors"])
    return options


def _check_same(recorded: Mapping[str, Any], train: Clicks) -> None:
    """Raise an error for other training clicks than those recorded."""
    if recorded.get("fingerprint", train.fingerprint()) != train.fingerprint():
        raise ConfigError(
            "the training clicks are not those that this config was written for. Give it the same data, or take "
            "train, test and versions out of it to run it on these."
        )


def _absolute(data: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Return data or a model with absolute paths: those of a config are relative to it; it is saved elsewhere."""
    return {
        key: str((folder / value).resolve()) if key in ("file", "titles") else value for key, value in data.items()
    }


def _check_keys(config: Any, known: tuple[str, ...], where: str) -> None:
    if not isinstance(config, dict):
        raise ConfigError(f"{where} must be a table of keys and values, not {config!r}.")
    if unknown := [key for key in config if key not in known]:
        raise ConfigError(f"{where} has the unknown key {unknown[0]!r}; there are {', '.join(known)}.")
