"""`bmcd evaluate`: how good a model's recommendations are on clicks it has not seen, and which cut-off to use."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from bmcd.cli.ids import as_known
from bmcd.cli.log_files import (
    USUAL,
    IgnoreUnknown,
    Layout,
    with_layout,
)
from bmcd.cli.options import Horizon
from bmcd.cli.output import TABLES, check_output, console, print_json, say, write_frame
from bmcd.errors import InputError


@with_layout
def evaluate(
    model: Annotated[Path, typer.Argument(help="A model file, written by bmcd fit.")],
    test: Annotated[Path, typer.Argument(help="Clicks it has not seen (csv, tsv, parquet), of the same users.")],
    k: Annotated[int, typer.Option("-k", min=1, help="How many items for each user.")] = 10,
    horizon: Horizon = None,
    popular: Annotated[
        int | None, typer.Option(min=0, help="How many items are popular, not rare; by default a fifth.")
    ] = None,
    hit_rate: Annotated[
        float | None,
        typer.Option(min=0.0, max=1.0, help="Find the cut-off with which at least this share are hits."),
    ] = None,
    confidence: Annotated[
        float,
        typer.Option(min=0.0, max=0.9999, help="How sure that must be for other users; 0: only for these."),
    ] = 0.95,
    finite_sample: Annotated[
        bool, typer.Option("--finite-sample", help="Of --hit-rate: use a bound that holds for any number of users.")
    ] = False,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write the measures to a .csv, .parquet or .json file.")
    ] = None,
    threads: Annotated[int | None, typer.Option(min=1, help="By default one for each core.")] = None,
    layout: Layout = USUAL,
    ignore_unknown: IgnoreUnknown = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Measure accuracy, diversity and calibration on held-out clicks, with 95 % intervals over users.

    docs/evaluation.md defines every measure.
    """
    target = None if output is None else check_output(output, TABLES, [model, test])
    import bmcd
    from bmcd.models.persistence import load_model

    fitted = load_model(model)
    if fitted.clicks_.n_users == 0:
        raise InputError("this model was saved without users (--no-clicks), so there is nobody to evaluate.")
    truth = as_known(layout.read_aloud(test), fitted.clicks_, ignore_unknown)
    recommended = fitted.recommend(k, horizon=horizon, n_threads=threads)
    found = bmcd.evaluate(recommended, fitted.clicks_, truth, horizon=horizon, k=k, n_popular=popular)
    cutoff = None
    if hit_rate is not None:
        how: dict[str, Any] = {"confidence": confidence or None, "n_threads": threads}
        how["finite_sample"] = finite_sample
        cutoff = fitted.choose_cutoff(truth, hit_rate, k, horizon=horizon, **how)
    table = found.to_frame(level=0.95)
    if target is not None:
        write_frame(table, target)
    if as_json:
        asked = {"hit_rate": hit_rate, "confidence": confidence, "min_probability": cutoff}
        chosen = {} if hit_rate is None else asked
        print_json({"model": model, "test": test, "file": output, **found.to_dict(), **chosen})
        return
    if target is not None:
        say(f"{len(table)} measures: {output}")
    else:
        _print(found, table)
    if cutoff is not None:
        sure = f" ({confidence:.0%} sure)" if confidence else " (on these clicks)"
        option = "" if horizon is None else f" --horizon {horizon}"
        command = f"bmcd recommend {model} -k {k}{option} --min-probability {cutoff:.4f}"
        say(f"To be right {hit_rate:.0%} of the time{sure}: {command}")


def _print(found: Any, table: Any) -> None:
    from rich.table import Table

    say(
        f"{found.n_hits:,} hits in {found.n_recommendations:,} recommendations to {found.n_users_with_list:,} "
        f"users (k = {found.k}): {found.accuracy:.1%}. The mean probability given was "
        f"{found.calibration.mean_probability:.1%}; docs/probabilities.md says why the two may differ."
    )
    for text in found.about_the_test():
        say(f"{text[:1].upper()}{text[1:]}.")
    measures = Table()
    for name in ("measure", "value", "95 % interval"):
        measures.add_column(name, justify="left" if name == "measure" else "right")
    for name, value, low, high in table.itertuples(index=False):
        measures.add_row(
            name.replace("_", " "), f"{value:.4f}", "" if low != low or low is None else f"{low:.4f} to {high:.4f}"
        )
    console().print(measures)
    cutoffs = Table(title="What a cut-off would do", title_justify="left")
    for name in ("min. probability", "recommendations", "share kept", "hits"):
        cutoffs.add_column(name, justify="right")
    for row in found.calibration.cutoff_table().itertuples(index=False):
        cutoffs.add_row(f"{row.cutoff:.2f}", f"{row.n:,}", f"{row.share:.1%}", f"{row.accuracy:.1%}")
    console().print(cutoffs)
