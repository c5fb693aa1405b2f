"""`bmcd fit`: from clicks to a model file; stopped and run again, it goes on."""

from __future__ import annotations

import shlex
import sys
import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bmcd.cli.blends import FOLDS, PARTS, make_blend, parsed_parts
from bmcd.cli.choosing import chosen_clusters, parsed_clusters, parsed_max_users, parsed_tastes, told
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
from bmcd.errors import BmcdError, FitWarning, Interrupted

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
    layout: Layout = USUAL,
    text_ids: TextIds = False,
    most_clicked: MostClicked = None,
    at_least: AtLeast = None,
    model: Annotated[
        ModelName,
        typer.Option(rich_help_panel=MODEL, help="bmcd: one cluster a user; tastes: several; blend: see --blend."),
    ] = ModelName.bmcd,
    tastes: Annotated[
        str, typer.Option(rich_help_panel=MODEL, help="How many tastes (--model tastes, blend): a number, or auto.")
    ] = "40",
    blend: Annotated[
        str | None,
        typer.Option(
            rich_help_panel=MODEL,
            help=f"For --model blend: what to blend, of {', '.join(PartName)}. By default {PARTS}. EASE is tuned.",
        ),
    ] = None,
    folds: Annotated[
        int | None,
        typer.Option(
            rich_help_panel=MODEL,
            min=2,
            help=f"For --model blend: parts into which clicks are dealt to weigh the models. By default {FOLDS}.",
        ),
    ] = None,
    clusters: Annotated[
        str,
        typer.Option(
            rich_help_panel=MODEL,
            help="A number; auto, which tries 2 to 8, and more while that is better; or others, such as 4-20.",
        ),
    ] = "auto",
    distance: Annotated[
        Distance,
        typer.Option(rich_help_panel=MODEL, help="Of the Mallows model; all but footrule need --sampler paper."),
    ] = Distance.footrule,
    rank_scale: Annotated[
        RankScale, typer.Option(rich_help_panel=MODEL, help="Spacing of the ranks.")
    ] = RankScale.linear,
    sampler: Annotated[
        SamplerName,
        typer.Option(rich_help_panel=RUN, help="paper: the paper's own; it needs thousands of draws."),
    ] = SamplerName.exact,
    start: Annotated[
        str,
        typer.Option(
            rich_help_panel=RUN,
            help="Where chains start: kmeans, popularity or random; or a model file of earlier clicks, whose "
            "clusters are kept.",
        ),
    ] = Start.kmeans.value,
    draws: Annotated[
        int | None,
        typer.Option(rich_help_panel=RUN, min=1, help="Draws to keep of each chain. By default 200; tastes: 10."),
    ] = None,
    warmup: Annotated[
        int | None,
        typer.Option(rich_help_panel=RUN, min=0, help="Sweeps before the first draw. By default 200; tastes: 100."),
    ] = None,
    chains: Annotated[
        int | None,
        typer.Option(rich_help_panel=RUN, min=1, help="Chains; they start apart. By default 4; tastes: 16."),
    ] = None,
    thin: Annotated[
        int | None,
        typer.Option(rich_help_panel=RUN, min=1, help="Keep one of so many sweeps. By default 1; tastes: 10."),
    ] = None,
    max_users: Annotated[
        str | None,
        typer.Option(
            rich_help_panel=RUN,
            help="Give each chain a random sample of so many users, its own; auto: as many as still help. "
            "By default all.",
        ),
    ] = None,
    seed: Annotated[int, typer.Option(rich_help_panel=RUN, min=0, help="The same seed gives the same model.")] = 0,
    threads: Annotated[
        int | None,
        typer.Option(
            rich_help_panel=RUN, min=1, help="Chains at a time. By default one for each core; changes no digit."
        ),
    ] = None,
    max_time: Annotated[
        float | None,
        typer.Option(
            rich_help_panel=RUN,
            help="Seconds after which to stop with what there is (choosing clusters does not count).",
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
            help="Unless the chains converged, write no model, keep the checkpoint, and end with exit code 3.",
        ),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Fit a model to clicks and write it to a file.

    Ctrl-C stops it in good order: the same command, run again, goes on from there to the same end.
    """
    began = time.monotonic()
    candidates = parsed_clusters(clusters)
    n_tastes = parsed_tastes(tastes)
    most = None if max_users is None else parsed_max_users(max_users)
    if most is not None and (model is ModelName.blend or distance is not Distance.footrule):
        raise typer.BadParameter("--max-users is for --model bmcd and tastes, with --distance footrule.")
    if model is not ModelName.bmcd and (sampler is SamplerName.paper or count_k is not None):
        raise typer.BadParameter("--sampler paper and --count-k are for --model bmcd.")
    if model is not ModelName.blend and (blend is not None or folds is not None):
        raise typer.BadParameter("--blend and --folds are for --model blend.")
    parts = parsed_parts(PARTS if blend is None else blend, candidates, distance, no_clicks)
    if model is ModelName.bmcd and distance is not Distance.footrule:
        if sampler is SamplerName.exact:
            raise typer.BadParameter(f"--distance {distance.value} needs --sampler paper.")
        if not isinstance(candidates, int):
            raise typer.BadParameter(f"--distance {distance.value} needs a number of --clusters.")
    if max_time is not None and not max_time > 0:
        raise typer.BadParameter(f"--max-time must be more than 0 seconds, not {max_time:g}.")
    counted = None if count_k is None else _whole_numbers(count_k)
    before = Path(start) if start.lower().endswith(".bmcd") else None
    if before is None and start not in list(Start):
        known = ", ".join(Start)
        raise typer.BadParameter(f"--start must be {known} or a model file (.bmcd), not {plain(start)!r}.")
    if before is not None and model is ModelName.blend:
        raise typer.BadParameter("a blend cannot start from an earlier model: leave out --start.")
    inputs = [Path(clicks), titles, before]
    target = check_output(output, MODELS, but_not=inputs)
    kept = target.with_name(target.name + ".checkpoint")
    if checkpoint is not None and model is ModelName.blend and checkpoint.is_dir():
        kept = checkpoint
    elif checkpoint is not None:
        kept = check_output(checkpoint, (checkpoint.suffix.lower(),), [*inputs, output])

    import bmcd
    from bmcd.models.user_sample import some_users

    own = {"title_column": title_column} if titles is None else {"title": title_column}
    data = narrowed(
        _read(clicks, layout, titles, **own, title_item=title_item_column, text_ids=text_ids),
        most_clicked,
        at_least,
    )
    if not as_json:
        say(f"{clicks}:", style="bold")
        say(data.summary())
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
        if before is not None:
            run["start"] = bmcd.load(before)
        options: dict[str, Any] = {"distance": distance.value, "rank_scale": rank_scale.value}
        chosen: dict[str, Any] | None
        if model is ModelName.blend:
            given = {"n_tastes": n_tastes, "n_clusters": candidates, **options}
            made, run, settings = make_blend(data, parts, FOLDS if folds is None else folds, given, run)
            chosen = settings
            if not as_json:
                say(f"{settings['reason']}\n")
            fitted = _fitted(data, made, run, checkpoint is None)
        elif model is ModelName.tastes:
            fitted = _fitted(data, bmcd.Tastes(n_tastes=n_tastes, **options), run, checkpoint is None)
            chosen = None if fitted.choice_ is None else told(fitted.choice_)
        else:
            choice = None
            if not isinstance(candidates, int) and before is None:
                memory = kept.with_name(kept.name + ".choice")
                choosing = {"seed": seed, "n_threads": threads}
                sample = some_users(data, most, seed)
                choice = chosen_clusters(sample, candidates, memory, rank_scale.value, choosing)
                if not as_json:
                    say(f"{choice.reason}\n")
            number = candidates if isinstance(candidates, int) else "auto"
            options |= {"n_clusters": choice.recommended if choice else number}
            options |= {"sampler": sampler.value, "start": Start.kmeans.value if before else start}
            fitted = _fitted(data, bmcd.BMCD(**options), {**run, "count_k": counted}, checkpoint is None)
            fitted.choice_ = choice
            chosen = None if choice is None else told(choice)
            if candidates is None:
                fitted.set_params(n_clusters="auto")  # as if it had chosen itself
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


def _read(clicks: str, layout: Layout, titles: Path | None, **options: Any) -> Clicks:
    data = bundled(clicks)
    if data is None:
        return layout.read(clicks, titles, **options)
    if titles is not None:
        raise typer.BadParameter(f"the bundled {clicks} has titles of its own: leave out --titles.")
    return data


def _fitted(data: Clicks, model: Any, run: dict[str, Any], is_default_checkpoint: bool) -> Any:
    """Return the fitted model; a default checkpoint that cannot be resumed from must not stop every next run."""
    checkpoint = run["checkpoint"]
    is_there = is_default_checkpoint and checkpoint.exists()
    try:
        return _fitted_from(data, model, run)
    except BmcdError as error:
        if not is_there or not is_about_checkpoint(error, checkpoint):
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
