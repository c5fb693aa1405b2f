"""`bmcd fit`: from clicks to a model file; stopped and run again, it goes on."""

from __future__ import annotations

import shlex
import sys
import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bmcd.cli.blends import check_options, check_parts, make_blend, parsed_parts
from bmcd.cli.choosing import chosen_clusters, parsed_clusters, parsed_max_users, parsed_tastes, told
from bmcd.cli.costs import check_fit_cost
from bmcd.cli.finishing import held_back
from bmcd.cli.fitted import (
    facts,
    is_about_checkpoint,
    is_finished,
    refuse,
    remove_checkpoint,
    set_aside,
    tell_fitted,
)
from bmcd.cli.log_files import (
    DATA,
    USUAL,
    AtLeast,
    Layout,
    MostClicked,
    TextIds,
    bundled,
    narrowed,
    with_layout,
)
from bmcd.cli.names import Distance, ModelName, PartName, RankScale, SamplerName, Start
from bmcd.cli.output import MODELS, check_output, complain, plain, print_json, say
from bmcd.errors import BmcdError, FitWarning, InputError, Interrupted

if TYPE_CHECKING:
    from bmcd.clicks.log import Clicks

# Where an option stands in --help, beside those of the data.
MODEL, RUN = "Model", "Run"


@with_layout
def fit(
    clicks: Annotated[
        str,
        typer.Argument(
            metavar="CLICKS", help="A csv, tsv or parquet file, also .gz; or bundled data: eshop, msweb, msweb-all."
        ),
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="The model file to write: .bmcd")],
    titles: Annotated[
        Path | None,
        typer.Option(
            rich_help_panel=DATA, help="A file with the titles of the items: a column of items, one of titles."
        ),
    ] = None,
    title_column: Annotated[
        str | None,
        typer.Option(
            rich_help_panel=DATA, help="The column of titles, in that file or, without it, in the clicks."
        ),
    ] = None,
    title_item_column: Annotated[
        str | None, typer.Option(rich_help_panel=DATA, help="The column of items in the file with the titles.")
    ] = None,
    items: Annotated[
        Path | None,
        typer.Option(
            rich_help_panel=DATA,
            help="A file about the items: item, and columns of groups (section, genre), link, image, date.",
        ),
    ] = None,
    groups: Annotated[
        str | None,
        typer.Option(rich_help_panel=DATA, help="The columns of --items with the groups, such as section,source."),
    ] = None,
    layout: Layout = USUAL,
    text_ids: TextIds = False,
    last: Annotated[
        str | None,
        typer.Option(
            rich_help_panel=DATA,
            help="Fit to the last hours or days of the log, such as 72h or 90d, back from its last click.",
        ),
    ] = None,
    most_clicked: MostClicked = None,
    at_least: AtLeast = None,
    model: Annotated[
        ModelName,
        typer.Option(
            rich_help_panel=MODEL,
            help="blend: the next clicks, calibrated; tastes: several groups per user; bmcd: one, as in the paper.",
        ),
    ] = ModelName.blend,
    refresh: Annotated[
        str | None,
        typer.Option(
            rich_help_panel=MODEL,
            help="For blend: how long the model will be in use before it is fitted again, such as 15min, 1h or 1d. "
            "By default the time that the last fifth of the clicks took.",
        ),
    ] = None,
    repeats: Annotated[
        bool,
        typer.Option(
            "--repeats", rich_help_panel=MODEL, help="For blend: clicked items stay candidates; repeats count."
        ),
    ] = False,
    blend: Annotated[
        str | None,
        typer.Option(
            rich_help_panel=MODEL,
            help=f"For blend: blend these models, of {', '.join(PartName)}, instead of those that suit the log.",
        ),
    ] = None,
    tastes: Annotated[
        str | None,
        typer.Option(rich_help_panel=MODEL, help="The number of tastes of Tastes, or auto. By default 40."),
    ] = None,
    clusters: Annotated[
        str | None,
        typer.Option(
            rich_help_panel=MODEL,
            help="The number of clusters of BMCD, candidates such as 4-20, or auto (the default): 2 to 8, and more "
            "while that is better.",
        ),
    ] = None,
    distance: Annotated[
        Distance | None,
        typer.Option(
            rich_help_panel=MODEL, help="Of the Mallows model. By default footrule; others need --sampler paper."
        ),
    ] = None,
    rank_scale: Annotated[
        RankScale | None,
        typer.Option(rich_help_panel=MODEL, help="Spacing of the ranks of BMCD and Tastes. By default linear."),
    ] = None,
    sampler: Annotated[
        SamplerName | None,
        typer.Option(rich_help_panel=RUN, help="Of BMCD: exact (the default), or the paper's, which is slow."),
    ] = None,
    start: Annotated[
        str | None,
        typer.Option(
            rich_help_panel=RUN,
            help="A model file of earlier clicks to begin with, which saves time and keeps clusters. For bmcd also "
            "kmeans (the default), popularity or random.",
        ),
    ] = None,
    draws: Annotated[
        int | None,
        typer.Option(rich_help_panel=RUN, min=1, help="Draws to keep of each chain. By default 200; tastes: 10."),
    ] = None,
    warmup: Annotated[
        int | None,
        typer.Option(rich_help_panel=RUN, min=0, help="Sweeps before the first draw. By default 200; tastes: 100."),
    ] = None,
    chains: Annotated[
        int | None, typer.Option(rich_help_panel=RUN, min=1, help="Number of chains. By default 4; tastes: 16.")
    ] = None,
    thin: Annotated[
        int | None,
        typer.Option(rich_help_panel=RUN, min=1, help="Keep every n-th sweep. By default 1; tastes: 10."),
    ] = None,
    max_users: Annotated[
        str | None,
        typer.Option(
            rich_help_panel=RUN,
            help="Maximum number of users per chain, each with its own random sample; auto: as many as still help. "
            "By default all.",
        ),
    ] = None,
    seed: Annotated[int, typer.Option(rich_help_panel=RUN, min=0, help="The same seed gives the same model.")] = 0,
    threads: Annotated[
        int | None,
        typer.Option(
            rich_help_panel=RUN, min=1, help="Threads. By default one per core; the result does not depend on it."
        ),
    ] = None,
    max_time: Annotated[
        float | None,
        typer.Option(
            rich_help_panel=RUN,
            help="Seconds after which chains stop with what there is (choosing clusters does not count).",
        ),
    ] = None,
    checkpoint: Annotated[
        Path | None,
        typer.Option(
            rich_help_panel=RUN,
            help="Checkpoint file. By default beside the model, removed when the fit is finished, and set aside if "
            "it is of other clicks or another version; one given here stays, must fit, and can be asked for more "
            "--draws later.",
        ),
    ] = None,
    count_k: Annotated[
        str | None,
        typer.Option(
            rich_help_panel=RUN,
            help="For other distances than footrule: the -k that will be asked for. By default 5,10.",
        ),
    ] = None,
    no_clicks: Annotated[
        bool,
        typer.Option(
            "--no-clicks", help="Store no user, no sequence of clicks, and nothing about fewer than five users."
        ),
    ] = False,
    require_converged: Annotated[
        bool,
        typer.Option(
            "--require-converged",
            help="If chains have not converged, or predictions of a blend were not stable, write no model and end "
            "with exit code 3.",
        ),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Fit a model to clicks and write it to a file.

    The default, Blend, takes seconds. BMCD and Tastes can be stopped with Ctrl-C: run the same command again to
    resume.
    """
    began = time.monotonic()
    candidates = parsed_clusters("auto" if clusters is None else clusters)
    n_tastes = parsed_tastes("40" if tastes is None else tastes)
    most = None if max_users is None else parsed_max_users(max_users)
    parts = [] if blend is None else parsed_parts(blend)
    asked = {
        "tastes": tastes, "clusters": clusters, "distance": distance, "rank_scale": rank_scale, "sampler": sampler,
        "draws": draws, "warmup": warmup, "chains": chains, "thin": thin, "max_users": max_users,
        "max_time": max_time, "checkpoint": checkpoint, "count_k": count_k, "blend": blend, "refresh": refresh,
        "repeats": repeats or None,
    }  # fmt: skip
    check_options(model, parts, [name for name, value in asked.items() if value is not None])
    distance, rank_scale = distance or Distance.footrule, rank_scale or RankScale.linear
    check_parts(parts, candidates, distance, no_clicks)
    if model is ModelName.bmcd and distance is not Distance.footrule:
        if sampler is not SamplerName.paper:
            raise typer.BadParameter(f"--distance {distance.value} needs --sampler paper.")
        if not isinstance(candidates, int):
            raise typer.BadParameter(f"--distance {distance.value} needs a number of --clusters.")
    if most is not None and distance is not Distance.footrule:
        raise typer.BadParameter("--max-users needs --distance footrule.")
    if max_time is not None and not max_time > 0:
        raise typer.BadParameter(f"--max-time must be more than 0 seconds, not {max_time:g}.")
    counted = None if count_k is None else _whole_numbers(count_k)
    before = _earlier_model(start, model, parts)
    # A blend takes the place of the one it began with; a sampled model may resume, and needs what it began with.
    inputs = [Path(clicks), titles, items, None if model is ModelName.blend else before]
    target = check_output(output, MODELS, but_not=inputs)
    kept = target.with_name(target.name + ".checkpoint")
    if checkpoint is not None and model is ModelName.blend and checkpoint.is_dir():
        kept = checkpoint
    elif checkpoint is not None:
        kept = check_output(checkpoint, (checkpoint.suffix.lower(),), [*inputs, output])

    import numpy as np

    import bmcd
    from bmcd.clicks.ids import id_ranks
    from bmcd.clicks.times import read_duration

    for duration, name in ((refresh, "refresh"), (last, "last")):
        if duration is not None:
            try:
                read_duration(duration, "--" + name)
            except InputError as error:
                raise typer.BadParameter(str(error)) from error
    own: dict[str, Any] = {"title_column": title_column} if titles is None else {"title": title_column}
    if items is not None:
        own |= {"items": items, "groups": None if groups is None else [one.strip() for one in groups.split(",")]}
    earlier = None if before is None else _loaded(before, model)
    data = _read(clicks, layout, titles, **own, title_item=title_item_column, text_ids=text_ids)
    if last is not None or isinstance(earlier, bmcd.Blend):
        from bmcd.cli.growing import latest

        data = latest(data, clicks, last, earlier, before)
    data = narrowed(data, most_clicked, at_least)
    if no_clicks:  # the order in which items were first clicked begins with the clicks of the first user
        data = data.of_items(np.argsort(id_ranks(data.items)))
    if not as_json:
        say(f"{clicks}:", style="bold")
        say(data.summary())
        if model is ModelName.blend and data.order is None:
            say("no order, so the model cannot see what follows what: name the times with --time-column, or give")
            say("--order rows if the rows are in order")
        say()
        if kept.exists():
            say(f"Resuming from {kept}.")
    try:
        run: dict[str, Any] = {"seed": seed, "n_threads": threads}
        run |= {"draws": draws, "warmup": warmup, "chains": chains, "thin": thin, "max_time": max_time}
        run = {name: value for name, value in run.items() if value is not None}
        run["checkpoint"] = kept
        if most is not None:
            run["max_users"] = most
        if earlier is not None:
            run["start"] = earlier
        chosen: dict[str, Any] | None = None
        given: dict[str, Any] = {"n_tastes": n_tastes, "n_clusters": candidates, "distance": distance.value}
        given |= {"rank_scale": rank_scale.value}
        if sampler is not SamplerName.paper:
            check_fit_cost(data, model, parts, given, run)
        if model is ModelName.blend:
            made, run = make_blend(parts, {"refresh": refresh, "repeats": repeats}, given, run)
            fitted = _fitted(data, made, run, checkpoint is None)
        elif model is ModelName.tastes:
            options = {name: given[name] for name in ("n_tastes", "distance", "rank_scale")}
            fitted = _fitted(data, bmcd.Tastes(**options), run, checkpoint is None)
            chosen = None if fitted.choice_ is None else told(fitted.choice_)
        else:
            options = {"sampler": (sampler or SamplerName.exact).value}
            options["start"] = Start.kmeans.value if before or start is None else start
            options |= {name: given[name] for name in ("distance", "rank_scale")}
            run["count_k"] = counted
            fitted = _fitted_bmcd(data, candidates, options, run, kept, not as_json, checkpoint is None)
            chosen = None if fitted.choice_ is None else told(fitted.choice_)
        if require_converged and not fitted.converged_:
            refuse(fitted, output, kept)
        with held_back() as ctrl_c_came:
            fitted.save(target, clicks=not no_clicks)
            finished = is_finished(fitted)
            if checkpoint is None and finished:
                remove_checkpoint(kept)
            left = None if checkpoint is None and finished else kept
            seconds = time.monotonic() - began
            if as_json:
                print_json(facts(fitted, chosen, output, seconds, left))
            else:
                tell_fitted(fitted, output, seconds, left, no_clicks)
        if ctrl_c_came():
            complain(f"Ctrl-C came while the model was written: it is whole, in {output}.", "")
    except KeyboardInterrupt as stop:
        raise KeyboardInterrupt(_how_to_go_on(stop, kept)) from stop


def _earlier_model(start: str | None, model: ModelName, parts: list[PartName]) -> Path | None:
    """Return the model file that --start names, if it is one."""
    if start is None:
        return None
    if start.lower().endswith(".bmcd"):
        if parts:
            raise typer.BadParameter("--start is for a blend that chooses its members: leave out --blend.")
        return Path(start)
    if model is ModelName.blend or start not in list(Start):
        known = "" if model is ModelName.blend else f"{', '.join(Start)} or "
        raise typer.BadParameter(f"--start must be {known}a model file (.bmcd), not {plain(start)!r}.")
    return None


def _loaded(path: Path, model: ModelName) -> Any:
    """Return the earlier model in a file, which must be of the same kind."""
    import bmcd

    found = bmcd.load(path)
    if (kind := type(found).__name__).lower() != model.value:
        named = f"--model {kind.lower()}" if kind.lower() in list(ModelName) else "another model"
        raise InputError(f"{path}: --start has a {kind}, and this is --model {model.value}. Give {named}.")
    return found


def _fitted_bmcd(
    data: Clicks,
    candidates: int | range | None,
    options: dict[str, Any],
    run: dict[str, Any],
    kept: Path,
    tell: bool,
    is_default_checkpoint: bool,
) -> Any:
    """Return the fitted BMCD, whose number of clusters is chosen first unless it is given."""
    import bmcd
    from bmcd.models.subsample import some_users

    choice = None
    if not isinstance(candidates, int) and "start" not in run:
        memory = kept.with_name(kept.name + ".choice")
        choosing = {name: run.get(name) for name in ("seed", "n_threads")}
        sample = some_users(data, run.get("max_users"), run["seed"])
        choice = chosen_clusters(sample, candidates, memory, options["rank_scale"], choosing)
        if tell:
            say(f"{choice.reason}\n")
    options["n_clusters"] = candidates if isinstance(candidates, int) else choice.recommended if choice else "auto"
    fitted = _fitted(data, bmcd.BMCD(**options), run, is_default_checkpoint)
    fitted.choice_ = choice
    if candidates is None:
        fitted.set_params(n_clusters="auto")  # as if it had chosen itself
    return fitted


def _read(clicks: str, layout: Layout, titles: Path | None, **options: Any) -> Clicks:
    data = bundled(clicks)
    if data is None:
        return layout.read(clicks, titles, **options)
    if titles is not None:
        raise typer.BadParameter(f"the bundled {clicks} has titles of its own: leave out --titles.")
    return data


def _fitted(data: Clicks, model: Any, run: dict[str, Any], is_default_checkpoint: bool) -> Any:
    """Return the fitted model; a default checkpoint that cannot be resumed from must not stop every next run."""
    checkpoint = run.get("checkpoint")
    is_there = is_default_checkpoint and checkpoint is not None and checkpoint.exists()
    try:
        return _fitted_from(data, model, run)
    except BmcdError as error:
        if checkpoint is None or not is_there or not is_about_checkpoint(error, checkpoint):
            raise
        moved = set_aside(checkpoint)
        complain(f"{error} It was set aside as {moved}, and the fit starts from scratch.", "warning: ")
    return _fitted_from(data, model, run)


def _fitted_from(data: Clicks, model: Any, run: dict[str, Any]) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FitWarning)  # it is told below, or by the report
        model.fit(data, **run)
    draws = getattr(model, "draws_", None)  # a blend that is stopped raises by itself
    if draws is not None and draws.stopped == "interrupted":
        raise Interrupted(draws.note)
    return model


def _how_to_go_on(stop: KeyboardInterrupt, checkpoint: Path) -> str:
    """Return what happened, and the command that goes on."""
    what = stop.what if isinstance(stop, Interrupted) else "stopped by Ctrl-C."
    if not checkpoint.exists():
        return f"{what} No model was written."
    command = shlex.join(["bmcd", *sys.argv[1:]])
    return f"{what} No model was written yet; {checkpoint} has what was done. To go on, run again: {command}"


def _whole_numbers(text: str) -> tuple[int, ...]:
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.isdigit() and int(part) > 0 for part in parts):
        raise typer.BadParameter(f"--count-k must be whole numbers such as 5,10, not {plain(text)!r}.")
    return tuple(map(int, parts))
