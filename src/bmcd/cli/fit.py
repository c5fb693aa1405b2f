"""`bmcd fit`: from clicks to a model file; stopped and run again, it goes on."""

from __future__ import annotations

import shlex
import sys
import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bmcd.cli.choosing import chosen_clusters, parsed_clusters
from bmcd.cli.errors import as_options
from bmcd.cli.names import Distance, ModelName, RankScale, SamplerName, Start
from bmcd.cli.output import MODELS, check_output, file_size, plain, print_json, rows_of, say
from bmcd.errors import FitWarning, Interrupted

if TYPE_CHECKING:
    from bmcd.clicks.table import Clicks
    from bmcd.models.load import Model

# Where an option stands in --help.
DATA, MODEL, RUN = "Data", "Model", "Run"


def fit(
    clicks: Annotated[
        str,
        typer.Argument(
            metavar="CLICKS", help="A csv, tsv or parquet file, also .gz; or bundled data: eshop, msweb, msweb-all."
        ),
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="The model file to write: .bmcd")],
    user_column: Annotated[
        str, typer.Option(rich_help_panel=DATA, help="The column that says who clicked.")
    ] = "user",
    item_column: Annotated[
        str, typer.Option(rich_help_panel=DATA, help="The column that says what was clicked.")
    ] = "item",
    titles: Annotated[
        Path | None,
        typer.Option(
            rich_help_panel=DATA, help="A file with the titles of the items: a column of items, one of titles."
        ),
    ] = None,
    title_column: Annotated[
        str, typer.Option(rich_help_panel=DATA, help="The column of titles in that file.")
    ] = "title",
    delimiter: Annotated[
        str | None, typer.Option(rich_help_panel=DATA, help="What stands between columns, if not , or a tab.")
    ] = None,
    text_ids: Annotated[
        bool, typer.Option("--text-ids", rich_help_panel=DATA, help="Keep ids such as 12 as text.")
    ] = False,
    most_clicked: Annotated[
        int | None, typer.Option(rich_help_panel=DATA, min=1, help="Keep so many of the most clicked items.")
    ] = None,
    at_least: Annotated[
        int | None, typer.Option(rich_help_panel=DATA, min=1, help="Then keep users with so many clicks.")
    ] = None,
    model: Annotated[
        ModelName,
        typer.Option(rich_help_panel=MODEL, help="bmcd: one cluster per user; tastes: several, for real logs."),
    ] = ModelName.bmcd,
    tastes: Annotated[
        str, typer.Option(rich_help_panel=MODEL, help="For --model tastes: how many; a number, or auto.")
    ] = "40",
    clusters: Annotated[
        str,
        typer.Option(
            rich_help_panel=MODEL,
            help="How many clusters: a number; auto, which tries 2 to 8; or others to try, such as 4-20.",
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
            help="Where chains start: kmeans, popularity or random; or a model file of earlier clicks, with which "
            "far less --warmup is needed.",
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
            help="Where to keep what a stopped run needs to go on. By default beside the model, until it is "
            "finished; one given here stays, and more --draws can be asked of it later.",
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
        typer.Option("--no-clicks", help="Leave out of the file all that is about single users (privacy)."),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Fit a model to clicks and write it to a file.

    Ctrl-C stops it in good order: the same command, run again, goes on from there to the same end.
    """
    began = time.monotonic()
    candidates = parsed_clusters(clusters)
    n_tastes = _parsed_tastes(tastes)
    if model is ModelName.tastes:
        if sampler is SamplerName.paper or count_k is not None:
            raise typer.BadParameter("--sampler paper and --count-k are for --model bmcd.")
    elif distance is not Distance.footrule:
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
    inputs = [Path(clicks), titles, before]
    target = check_output(output, MODELS, but_not=inputs)
    kept = target.with_name(target.name + ".checkpoint")
    if checkpoint is not None:
        kept = check_output(checkpoint, (checkpoint.suffix.lower(),), [*inputs, output])

    data = _read(clicks, user_column, item_column, titles, title_column, delimiter, text_ids)
    if most_clicked is not None:
        data = data.most_clicked(most_clicked)
    if at_least is not None:
        data = data.at_least(at_least)
    if not as_json:
        say(f"{clicks}:", style="bold")
        say(data.summary())
        say()
        if kept.exists():
            say(f"Going on from {kept}.")
    try:
        run: dict[str, Any] = {"seed": seed, "n_threads": threads}
        run |= {"draws": draws, "warmup": warmup, "chains": chains, "thin": thin, "max_time": max_time}
        run = {name: value for name, value in run.items() if value is not None}
        run["checkpoint"] = kept
        if before is not None:
            import bmcd

            run["start"] = bmcd.load(before)
        choice = None
        if model is ModelName.bmcd and isinstance(candidates, range) and before is None:
            memory = kept.with_name(kept.name + ".choice")
            choosing = {"seed": seed, "n_threads": threads}
            choice = chosen_clusters(data, candidates, memory, rank_scale.value, choosing)
            if not as_json:
                say(f"{choice['reason']}\n")
        options: dict[str, Any] = {"distance": distance.value, "rank_scale": rank_scale.value}
        if model is ModelName.tastes:
            fitted = _fitted(data, "Tastes", {"n_tastes": n_tastes, **options}, run)
            choice = None if fitted.choice_ is None else _told(fitted.choice_)
        else:
            number = candidates if isinstance(candidates, int) else "auto"
            options |= {"n_clusters": choice["recommended"] if choice else number}
            options |= {"sampler": sampler.value, "start": Start.kmeans.value if before else start}
            fitted = _fitted(data, "BMCD", options, {**run, "count_k": counted})
    except KeyboardInterrupt as stop:
        raise KeyboardInterrupt(_how_to_go_on(stop, kept)) from stop
    fitted.save(target, clicks=not no_clicks)
    finished = fitted.draws_.stopped == "finished"
    if checkpoint is None and finished:
        _remove(kept)
    left = None if checkpoint is None and finished else kept
    if as_json:
        print_json(_facts(fitted, choice, output, time.monotonic() - began, left))
        return
    _report(fitted, output, time.monotonic() - began, left)
    named = shlex.quote(str(output))
    say(f"Next: bmcd recommend {named}{' --histories new.csv' if no_clicks else ''}")
    say(f"      bmcd clusters {named}")


def _read(
    clicks: str,
    user: str,
    item: str,
    titles: Path | None,
    title: str,
    delimiter: str | None,
    text_ids: bool,
) -> Clicks:
    import bmcd
    from bmcd.clicks.datasets import DATASETS

    if clicks in DATASETS and not Path(clicks).exists():
        if titles is not None:
            raise typer.BadParameter(f"the bundled {clicks} has titles of its own: leave out --titles.")
        return bmcd.load_dataset(clicks)
    # So that "\t" can be typed.
    mark = "\t" if delimiter in ("\\t", "tab") else delimiter
    return bmcd.read_clicks(clicks, user, item, titles, title=title, delimiter=mark, text_ids=text_ids)


def _parsed_tastes(text: str) -> int | str:
    if text == "auto":
        return text
    if text.isascii() and text.isdigit() and int(text) > 0:
        return int(text)
    raise typer.BadParameter(f"--tastes must be auto or a number such as 40, not {plain(text)!r}.")


def _told(choice: Any) -> dict[str, Any]:
    return {"recommended": choice.n_tastes, "reason": choice.reason, "table": rows_of(choice.table)}


def _fitted(data: Clicks, name: str, options: dict[str, Any], run: dict[str, Any]) -> Any:
    import bmcd

    model = getattr(bmcd, name)(**options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FitWarning)  # it is told below, or by the report
        model.fit(data, **run)
    if model.draws_.stopped == "interrupted":
        raise Interrupted(model.draws_.note)
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


def _remove(checkpoint: Path) -> None:
    from bmcd.sampling.store import previous, remove_leftovers

    remove_leftovers(checkpoint)
    for path in (checkpoint, previous(checkpoint), checkpoint.with_name(checkpoint.name + ".choice")):
        path.unlink(missing_ok=True)


def _facts(
    model: Model, choice: dict[str, Any] | None, output: Path, seconds: float, checkpoint: Path | None
) -> dict[str, Any]:
    draws, verdict, data = model.draws_, model.verdict_, model.clicks_.summary()
    return {
        "model": output,
        "bytes": output.stat().st_size,
        "data": {name: getattr(data, name) for name in data.__dataclass_fields__},
        "n_clusters": model.n_clusters_,
        "choice": choice,
        "chains": draws.n_chains,
        "draws": draws.n_draws,
        "stopped": draws.stopped,
        "note": draws.note,
        "converged": verdict.converged,
        "verdict": verdict.text,
        "advice": list(verdict.advice),
        "seconds": round(seconds, 3),
        "checkpoint": checkpoint,
    }


def _report(model: Model, output: Path, seconds: float, checkpoint: Path | None) -> None:
    from bmcd.models.tastes import Tastes

    draws, verdict = model.draws_, model.verdict_
    word = "tastes" if isinstance(model, Tastes) else "clusters"
    say(f"Fitted {model.n_clusters_} {word}: {draws.n_chains} chains x {draws.n_draws} draws, {seconds:.1f} s.")
    say(as_options(verdict.text), style="green" if verdict.converged else "yellow")
    for advice in verdict.advice:
        say(f"- {as_options(advice)}")
    say()
    say(f"Model: {output} ({file_size(output)})")
    if checkpoint is not None:
        say(f"Checkpoint: {checkpoint} (run the same command with more time or draws to go on from it)")
