"""`bmcd fit`: from clicks to a model file; an interrupted fit resumes."""

from __future__ import annotations

import shlex
import sys
import time
import warnings
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from bmcd.cli import options as opt
from bmcd.cli.errors import NOT_CONVERGED, as_options, held_back
from bmcd.cli.fit_checks import (
    CHAIN_OPTIONS,
    MEMBER_OPTIONS,
    MEMBERS,
    ModelName,
    check_fit_cost,
    check_options,
    latest,
    parsed_members,
)
from bmcd.cli.options import in_data, option
from bmcd.cli.output import MODELS, check_output, complain, file_size, print_table, rows_of, say
from bmcd.errors import BmcdError, FitWarning, InputError, Interrupted, StoreError
from bmcd.utils import plain

if TYPE_CHECKING:
    from bmcd.clicks.log import Clicks
    from bmcd.models.choose import ClusterChoice

STARTS = ("kmeans", "popularity", "random")
MEMORY = "choice"  # the kind of the file with the number of clusters that was chosen
of_model, of_run = partial(option, rich_help_panel="Model"), partial(option, rich_help_panel="Run")


def fit(
    clicks: opt.Log,
    output: Annotated[Path, option("The model file to write: .bmcd", "--output", "-o")],
    titles: Annotated[Path | None, in_data("A file with titles: a column of items, a column of titles.")] = None,
    title_column: Annotated[
        str | None, in_data("The column of titles, in --titles or, without it, in the clicks.")
    ] = None,
    title_item_column: Annotated[str | None, in_data("The column of items in --titles.")] = None,
    items: Annotated[
        Path | None, in_data("A file with columns item, groups (such as section, genre), link, image, date.")
    ] = None,
    groups: Annotated[str | None, in_data("The columns of --items with groups, such as section,source.")] = None,
    layout: opt.Layout = opt.USUAL,
    text_ids: opt.TextIds = False,
    last: Annotated[
        str | None, in_data("Fit to the last hours or days of the log, such as 72h, back from its last click.")
    ] = None,
    most_clicked: opt.MostClicked = None,
    at_least: opt.AtLeast = None,
    model: Annotated[
        ModelName,
        of_model("blend: next clicks, calibrated; tastes: several tastes per user; bmcd: one cluster per user."),
    ] = "blend",
    refresh: Annotated[
        str | None,
        of_model(
            "For blend: how long the model will be in use before it is fitted again, such as 15min, 1h or 1d. "
            "Default: the duration of the last fifth of the clicks."
        ),
    ] = None,
    repeats: Annotated[bool, of_model("For blend: clicked items stay candidates.", "--repeats")] = False,
    blend: Annotated[
        str | None, of_model(f"For blend: its members, of {', '.join(MEMBERS)}. Default: what suits the log.")
    ] = None,
    tastes: Annotated[str | None, of_model("The number of tastes of Tastes, or auto. Default: 40.")] = None,
    clusters: Annotated[
        str | None,
        of_model("The number of clusters of BMCD, candidates (4-20), or auto: 2 to 8, and more while better."),
    ] = None,
    distance: Annotated[
        Literal["footrule", "spearman", "kendall", "cayley", "hamming", "ulam"] | None,
        of_model("Distance of the Mallows model. Default: footrule; others need --sampler paper."),
    ] = None,
    rank_scale: Annotated[
        Literal["linear", "sqrt", "log"] | None,
        of_model("Spacing of ranks. Default: linear."),
    ] = None,
    sampler: Annotated[
        Literal["exact", "paper"] | None, of_run("Of BMCD: exact (default), or that of the paper, which is slow.")
    ] = None,
    start: Annotated[
        str | None,
        of_run(
            "An earlier model file to start from: saves time, keeps clusters. For bmcd also " + ", ".join(STARTS)
        ),
    ] = None,
    draws: Annotated[int | None, of_run("Draws to keep per chain. Default: 200; tastes: 10.", min=1)] = None,
    warmup: Annotated[int | None, of_run("Sweeps before the first draw. Default: 200; tastes: 100.", min=0)] = None,
    chains: Annotated[int | None, of_run("Number of chains. Default: 4; tastes: 16.", min=1)] = None,
    thin: Annotated[int | None, of_run("Keep every n-th sweep. Default: 1; tastes: 10.", min=1)] = None,
    max_users: Annotated[
        str | None,
        of_run("Maximum number of users per chain, each with its own random sample, or auto. Default: all."),
    ] = None,
    seed: opt.Seed = 0,
    threads: opt.Threads = None,
    max_time: Annotated[
        float | None, of_run("Seconds after which chains stop (choosing clusters does not count).")
    ] = None,
    checkpoint: Annotated[
        Path | None,
        of_run(
            "Checkpoint file, which is kept and must belong to this run; more --draws can be added later. Default: "
            "beside the model, removed after the fit, and set aside if it is of other clicks or another version."
        ),
    ] = None,
    count_k: Annotated[
        str | None, of_run("For other distances than footrule: the -k to ask for later. Default: 5,10.")
    ] = None,
    no_clicks: Annotated[
        bool,
        option("Store no users, no click sequences, and no count of fewer than five users.", "--no-clicks"),
    ] = False,
    require_converged: Annotated[
        bool,
        option(
            "Write no model and exit with code 3 if chains have not converged, or a blend was not stable.",
            "--require-converged",
        ),
    ] = False,
) -> dict[str, Any]:
    """Fit a model to clicks and write it to a file.

    The default, Blend, takes seconds. BMCD and Tastes can be stopped with Ctrl-C: run the same command again to
    resume.
    """
    began = time.monotonic()
    members = [] if blend is None else parsed_members(blend)
    asked: dict[str, Any] = {
        "tastes": None if tastes is None else _auto_or_number(tastes, "--tastes", "40"),
        "clusters": None if clusters is None else parsed_clusters(clusters),
        "distance": distance, "rank_scale": rank_scale, "sampler": sampler, "draws": draws, "warmup": warmup,
        "chains": chains, "thin": thin, "max_time": max_time, "checkpoint": checkpoint, "blend": blend,
        "max_users": None if max_users is None else _auto_or_number(max_users, "--max-users", "50000"),
        "count_k": None if count_k is None else opt.whole_numbers([count_k], "--count-k"),
        "refresh": refresh, "repeats": repeats or None,
    }  # fmt: skip
    asked = {name: value for name, value in asked.items() if value is not None}
    check_options(model, members, asked, no_clicks)
    before = _earlier_model(start, model, members)
    # A blend may replace the one it started from; a sampled model may have to resume, and needs it.
    inputs = [Path(clicks), titles, items, None if model == "blend" else before]
    target = check_output(output, MODELS, but_not=inputs)
    kept = target.with_name(target.name + ".checkpoint")
    if checkpoint is not None:
        is_folder = model == "blend" and checkpoint.is_dir()
        kept = (
            checkpoint if is_folder else check_output(checkpoint, (checkpoint.suffix.lower(),), [*inputs, output])
        )

    import numpy as np

    import bmcd
    from bmcd.clicks.ids import id_ranks
    from bmcd.models.persistence import sampled_models

    _check_durations(refresh=refresh, last=last)
    about: dict[str, Any] = {
        "title_column" if titles is None else "title": title_column,
        "title_item": title_item_column,
    }
    if items is not None:
        about |= {"items": items, "groups": None if groups is None else [one.strip() for one in groups.split(",")]}
    earlier = None if before is None else _loaded(before, model)
    data = opt.read_log(clicks, layout, titles=titles, text_ids=text_ids, **about)
    if last is not None or isinstance(earlier, bmcd.Blend):
        data = latest(data, clicks, last, earlier, before)
    data = opt.narrowed(data, most_clicked, at_least)
    if no_clicks:  # otherwise the order of items would be that of the clicks of the first user
        data = data.of_items(np.argsort(id_ranks(data.items)))
    say(f"{clicks}:", style="bold")
    say(data.summary())
    if model == "blend" and data.order is None:
        say("no order, so the model cannot see what follows what: name the times with --time-column, or use")
        say("--order rows if the rows are in order")
    say()
    if kept.exists():
        say(f"Resuming from {kept}.")
    run = {name: value for name, value in asked.items() if name in (*CHAIN_OPTIONS, "max_time", "max_users")}
    run |= {"seed": seed, "n_threads": threads, "checkpoint": kept}
    if earlier is not None:
        run["start"] = earlier
    if sampler != "paper":
        check_fit_cost(data, model, members, asked | run)
    choice = None
    try:
        if model == "blend":
            made = _blend(members, asked, run)
        elif model == "tastes":
            made = _sampled("Tastes", asked)
        else:
            first = "kmeans" if before or start is None else start
            made = _sampled("BMCD", asked, sampler=sampler or "exact", start=first)
            run["count_k"] = asked.get("count_k")
        if model == "bmcd" and earlier is None and not isinstance(asked.get("clusters"), int):
            choice = _chosen_clusters(data, asked.get("clusters"), kept, made.rank_scale, run)
            made.set_params(n_clusters=choice.recommended)
            say(f"{choice.reason}\n")
        fitted = _fitted(data, made, run, checkpoint is None)
        if choice is not None:
            fitted.choice_ = choice
            fitted.set_params(n_clusters="auto" if "clusters" not in asked else choice.recommended)
        if require_converged and not fitted.converged_:
            advice = " ".join(map(as_options, (fitted.verdict_.text, *fitted.verdict_.advice)))
            has = f"; {kept} has the draws: a run with other settings sets it aside." if kept.exists() else "."
            complain(f"{advice} No model was written to {output}{has}", "")
            raise typer.Exit(NOT_CONVERGED)
        with held_back() as ctrl_c_came:
            fitted.save(target, clicks=not no_clicks)
            parts = sampled_models(fitted).values()
            is_done = checkpoint is None and all(part.draws_.stopped == "finished" for part in parts)
            if is_done:
                _remove_checkpoint(kept)
            left, seconds = None if is_done else kept, time.monotonic() - began
            _print_fitted(fitted, output, seconds, left, no_clicks)
            facts = _facts(fitted, output, seconds, left)
        if ctrl_c_came():
            complain(f"Ctrl-C came while the model was written: it is complete, in {output}.", "")
        return facts
    except KeyboardInterrupt as stop:
        what = f"{stop.what if isinstance(stop, Interrupted) else 'stopped by Ctrl-C.'} No model was written"
        if not kept.exists():
            raise KeyboardInterrupt(f"{what}.") from stop
        command = shlex.join(["bmcd", *sys.argv[1:]])
        said = f"{what} yet; {kept} has what was done. To resume, run again: {command}"
        raise KeyboardInterrupt(said) from stop


# ---- options ----


def parsed_clusters(text: str) -> int | range | None:
    """Return a number of clusters, or those to choose from; None for auto.

    >>> parsed_clusters("4-20")
    range(4, 21)
    """
    if text.strip() == "auto":
        return None
    low, dash, high = text.partition("-")
    such_as = "auto, a number such as 8, or 4-20"
    first = opt.whole_number(low, "--clusters", such_as)
    last = opt.whole_number(high, "--clusters", such_as) if dash else first
    if last < first:
        raise typer.BadParameter(f"--clusters must be {such_as}, not {plain(text)!r}.")
    return range(first, last + 1) if dash else first


def _auto_or_number(text: str, name: str, such_as: str) -> int | Literal["auto"]:
    return "auto" if text == "auto" else opt.whole_number(text, name, f"auto or a number such as {such_as}")


def _check_durations(**given: str | None) -> None:
    from bmcd.clicks.times import read_duration

    for name, duration in given.items():
        try:
            if duration is not None:
                read_duration(duration, "--" + name)
        except InputError as error:
            raise typer.BadParameter(str(error)) from error


def _earlier_model(start: str | None, model: ModelName, members: list[str]) -> Path | None:
    """Return the model file that --start names, if it is one."""
    if start is not None and start.lower().endswith(".bmcd"):
        if members:
            raise typer.BadParameter("--start is for a blend that chooses its members: leave out --blend.")
        return Path(start)
    if start is not None and (model == "blend" or start not in STARTS):
        known = "" if model == "blend" else f"{', '.join(STARTS)} or "
        raise typer.BadParameter(f"--start must be {known}a model file (.bmcd), not {plain(start)!r}.")
    return None


def _loaded(path: Path, model: ModelName) -> Any:
    """Return the earlier model in a file, which must be of the same kind."""
    import bmcd

    found = bmcd.load(path)
    if (kind := type(found).__name__).lower() != model:
        named = f"--model {kind.lower()}" if kind in ("Blend", "Tastes", "BMCD") else "another model"
        raise InputError(f"{path}: --start has a {kind}, and this is --model {model}. Give {named}.")
    return found


# ---- models ----


def _sampled(name: str, asked: dict[str, Any], **settings: Any) -> Any:
    """Return a Tastes or BMCD as it was asked for."""
    import bmcd

    settings |= {key: asked[key] for key in ("distance", "rank_scale") if key in asked}
    if name == "Tastes":
        return bmcd.Tastes(asked.get("tastes", 40), **settings)
    number = asked.get("clusters")
    return bmcd.BMCD(number if isinstance(number, int) else "auto", **settings)


def _blend(members: list[str], asked: dict[str, Any], run: dict[str, Any]) -> Any:
    """Return a blend of the members named, and change ``run`` to what its fit takes."""
    import bmcd

    models = {
        name: _sampled(name, asked) if name in MEMBER_OPTIONS else getattr(bmcd.baselines, name)()
        for name in members
    }
    chains = {name: run.pop(name) for name in CHAIN_OPTIONS if name in run}
    if sampled := [name for name in members if name in MEMBER_OPTIONS]:
        run["fit_options"] = dict.fromkeys(sampled, chains)
    else:
        del run["checkpoint"]
    return bmcd.Blend(models or None, refresh=asked.get("refresh"), repeats=asked.get("repeats", False))


def _chosen_clusters(
    data: Clicks, candidates: range | None, kept: Path, rank_scale: str, run: dict[str, Any]
) -> ClusterChoice:
    """Choose the number of clusters, or return what an interrupted run of the same fit has chosen.

    Choosing takes minutes, so the choice is stored beside the checkpoint.
    """
    from bmcd import __version__, choose_n_clusters, container
    from bmcd.models.shared_fit import some_users
    from bmcd.models.stored_draws import pack_cluster_choice, read_cluster_choice

    clicks, memory = some_users(data, run.get("max_users"), run["seed"]), kept.with_name(kept.name + ".choice")
    of = {
        "version": __version__, "data_hash": clicks.fingerprint(), "rank_scale": rank_scale, "seed": run["seed"],
        "candidates": "auto" if candidates is None else list(candidates),
    }  # fmt: skip
    try:
        stored = container.read(memory, MEMORY)
        if stored.header["of"] == of and (known := read_cluster_choice(stored.header, stored.arrays, clicks)):
            return known
    except (StoreError, ValueError, KeyError, TypeError, AttributeError, IndexError, OverflowError, RecursionError):
        pass  # a file that is missing or damaged
    how = {name: run[name] for name in ("seed", "n_threads")}
    found = choose_n_clusters(clicks, candidates, rank_scale=rank_scale, **how)
    header, arrays = pack_cluster_choice(found, clicks, with_users=True)
    container.write(memory, MEMORY, {"of": of, **header}, arrays, private=True)
    return found


def _fitted(data: Clicks, model: Any, run: dict[str, Any], is_default_checkpoint: bool) -> Any:
    """Return the fitted model; a default checkpoint of another run is set aside."""
    checkpoint: Path | None = run.get("checkpoint")
    was_there = checkpoint is not None and checkpoint.exists()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FitWarning)  # the verdict is printed below
        try:
            model.fit(data, **run)
        except BmcdError as error:
            if not (checkpoint and was_there and is_default_checkpoint and _is_about_checkpoint(error, checkpoint)):
                raise
            moved = _set_aside(checkpoint)
            complain(f"{error} It was set aside as {moved}, and the fit starts from scratch.", "warning: ")
            model.fit(data, **run)
    draws = getattr(model, "draws_", None)  # a blend that is stopped raises by itself
    if draws is not None and draws.stopped == "interrupted":
        raise Interrupted(draws.note)
    return model


# ---- checkpoints ----


def _remove_checkpoint(checkpoint: Path) -> None:
    """Remove what a finished run has left: a file with its companions, or the folder of a blend."""
    from bmcd.inference.checkpoint import remove_checkpoint

    if not checkpoint.is_dir():
        remove_checkpoint(checkpoint)
        checkpoint.with_name(checkpoint.name + ".choice").unlink(missing_ok=True)
        return
    for path in checkpoint.glob("*.checkpoint*"):
        path.unlink()
    with suppress(OSError):  # it has files of others
        checkpoint.rmdir()


def _is_about_checkpoint(error: BaseException | None, checkpoint: Path) -> bool:
    """Return whether an error is that a checkpoint, or a file in its folder, is damaged or of another run."""
    if isinstance(error, StoreError) or str(error).startswith(str(checkpoint)):
        return True
    return error is not None and _is_about_checkpoint(error.__cause__, checkpoint)


def _set_aside(checkpoint: Path) -> Path:
    """Rename a checkpoint with its companions, over one that was set aside before; return its new name."""
    from bmcd.inference.checkpoint import previous

    moved = checkpoint.with_name(checkpoint.name + ".set-aside")
    _remove_checkpoint(moved)
    for old, new in ((previous(checkpoint), previous(moved)), (checkpoint, moved)):
        if old.exists():
            old.replace(new)
    return moved


# ---- results ----


def _facts(model: Any, output: Path, seconds: float, checkpoint: Path | None) -> dict[str, Any]:
    """Return what --json prints; n_clusters, chains and draws are those of the first sampled model."""
    from bmcd.models.persistence import sampled_models

    sampled, verdict = list(sampled_models(model).values()), model.verdict_
    first = sampled[0] if sampled else None
    stopped = next((part.draws_ for part in sampled if part.draws_.stopped != "finished"), None)
    facts: dict[str, Any] = {"model": output, "bytes": output.stat().st_size, "data": model.clicks_.summary()}
    if hasattr(model, "members_"):
        facts |= {"members": list(model.members_), "as_of": None if model.as_of_ is None else str(model.as_of_)}
        facts |= {"gains": rows_of(model.gains_), "windows": rows_of(model.windows_)}
    sample = getattr(first, "sample_", None)
    return facts | {
        "n_clusters": None if first is None else first.n_clusters_,
        "choice": _choice_facts(getattr(model, "choice_", None)),
        "user_sample": sample
        and {"max_users": sample.max_users, "reason": sample.reason, "table": rows_of(sample.table)},
        "chains": None if first is None else first.draws_.n_chains,
        "draws": None if first is None else first.draws_.n_draws,
        "stopped": "finished" if stopped is None else stopped.stopped,
        "note": "" if stopped is None else stopped.note,
        "converged": verdict.converged,
        "verdict": verdict.text,
        "advice": list(verdict.advice),
        "seconds": round(seconds, 3),
        "checkpoint": checkpoint,
    }


def _choice_facts(choice: Any) -> dict[str, Any] | None:
    if choice is None:
        return None
    if hasattr(choice, "n_tastes"):
        return {"recommended": choice.n_tastes, "reason": choice.reason, "table": rows_of(choice.table)}
    found = {name: getattr(choice, name) for name in ("recommended", "reason", "by_mwcd", "elbow")}
    return found | {"table": rows_of(choice.table.reset_index())}


def _print_fitted(model: Any, output: Path, seconds: float, checkpoint: Path | None, no_clicks: bool) -> None:
    """Print what was fitted, whether it can be relied on, where it is, and what to do next."""
    from bmcd.models.persistence import sampled_models

    sampled, verdict = sampled_models(model), model.verdict_
    say(f"Fitted {described(model)}, {seconds:.1f} s.")
    for part in sampled.values():
        if part.sample_ is not None:
            say(f"Users: {part.sample_}")
    if getattr(model, "as_of_", None) is not None:
        say(f"As of {model.as_of_}, the time of the last click.")
    if windows := rows_of(model.windows_) if hasattr(model, "windows_") else []:
        headings = ("past window", "moments", "predicted", "observed")
        rows = [(w["label"], f"{w['n']:,}", f"{w['predicted']:.1%}", f"{w['observed']:.1%}") for w in windows]
        print_table(headings, rows, ["past window"], "The next click, lists of ten")
    say(as_options(verdict.text), style="green" if verdict.converged else "yellow")
    for advice in verdict.advice:
        say(f"- {as_options(advice)}")
    say(f"\nModel: {output} ({file_size(output)})")
    if checkpoint is not None:
        say(f"Checkpoint: {checkpoint} (run the same command with more time or draws to resume from it)")
    named = shlex.quote(str(output))
    say(f"Next: bmcd recommend {named}{' --histories new.csv' if no_clicks else ''}")
    if sampled:
        say(f"      bmcd clusters {named}")


def described(model: Any) -> str:
    """Return the members of a model and the number of its clusters, chains and draws in words."""
    from bmcd.models.persistence import sampled_models
    from bmcd.models.tastes import Tastes

    chains = {
        name: f"{part.n_clusters_} {'tastes' if isinstance(part, Tastes) else 'clusters'}: "
        f"{part.draws_.n_chains} chains x {part.draws_.n_draws} draws"
        for name, part in sampled_models(model).items()
    }
    if not hasattr(model, "members_"):
        return next(iter(chains.values()))
    members = [f"{name} ({chains[name]})" if name in chains else name for name in model.members_]
    return f"a blend of {', '.join(members)}"
