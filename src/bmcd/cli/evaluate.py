"""`bmcd evaluate`: accuracy, diversity and calibration of a model on test clicks, and which cut-off to use."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from bmcd.cli import options as opt
from bmcd.cli.options import option
from bmcd.cli.output import TABLES, check_output, print_table, say, write_frame
from bmcd.errors import InputError


def evaluate(
    model: opt.ModelFile,
    test: Annotated[Path, typer.Argument(help="Test clicks (csv, tsv, parquet) of the users of the model.")],
    k: opt.K = 10,
    horizon: opt.Horizon = None,
    popular: Annotated[
        int | None, option("The number of items that count as popular. Default: a fifth.", min=0)
    ] = None,
    hit_rate: Annotated[
        float | None, option("Find the cut-off with which at least this share are hits.", min=0.0, max=1.0)
    ] = None,
    confidence: Annotated[
        float, option("Confidence of that cut-off for other users; 0: only for these.", min=0.0, max=0.9999)
    ] = 0.95,
    finite_sample: Annotated[
        bool, option("For --hit-rate: a bound that holds for any number of users.", "--finite-sample")
    ] = False,
    output: opt.TableFile = None,
    threads: opt.Threads = None,
    layout: opt.Layout = opt.USUAL,
    ignore_unknown: opt.IgnoreUnknown = False,
) -> dict[str, Any]:
    """Measure accuracy, diversity and calibration on held-out clicks, with 95 % intervals over users.

    docs/evaluation.md defines every measure.
    """
    target = None if output is None else check_output(output, TABLES, [model, test])
    import bmcd
    from bmcd.models.persistence import load_model

    fitted = load_model(model)
    if fitted.clicks_.n_users == 0:
        raise InputError("this model was saved without users (--no-clicks), so there are no users to evaluate.")
    truth = opt.as_known(layout.read(test, notes=True), fitted.clicks_, ignore_unknown)
    recommended = fitted.recommend(k, horizon=horizon, n_threads=threads)
    found = bmcd.evaluate(recommended, fitted.clicks_, truth, horizon=horizon, k=k, n_popular=popular)
    cutoff = None
    if hit_rate is not None:
        how: dict[str, Any] = {"confidence": confidence or None, "finite_sample": finite_sample}
        cutoff = fitted.choose_cutoff(truth, hit_rate, k, horizon=horizon, n_threads=threads, **how)
    table = found.to_frame(level=0.95)
    if target is not None:
        write_frame(table, target)
    facts = {"model": model, "test": test, "file": output, **found.to_dict()}
    if target is not None:
        say(f"{len(table)} measures: {output}")
    else:
        _print(found, table)
    if cutoff is not None:
        sure = f" ({confidence:.0%} sure)" if confidence else " (on these clicks)"
        command = f"bmcd recommend {model} -k {k}{'' if horizon is None else f' --horizon {horizon}'}"
        say(f"To be right {hit_rate:.0%} of the time{sure}: {command} --min-probability {cutoff:.4f}")
    if hit_rate is not None:
        facts |= {"hit_rate": hit_rate, "confidence": confidence, "min_probability": cutoff}
    return facts


def _print(found: Any, table: Any) -> None:
    say(
        f"{found.n_hits:,} hits in {found.n_recommendations:,} recommendations to {found.n_users_with_list:,} "
        f"users (k = {found.k}): {found.accuracy:.1%}. The mean probability given was "
        f"{found.calibration.mean_probability:.1%}; docs/probabilities.md explains why the two may differ."
    )
    for text in found.about_the_test():
        say(f"{text[:1].upper()}{text[1:]}.")
    rows = [
        (name.replace("_", " "), f"{value:.4f}", "" if low != low or low is None else f"{low:.4f} to {high:.4f}")
        for name, value, low, high in table.itertuples(index=False)
    ]
    print_table(("measure", "value", "95 % interval"), rows, left=("measure",))
    cutoffs = found.calibration.cutoff_table().itertuples(index=False)
    table_rows = [(f"{row.cutoff:.2f}", f"{row.n:,}", f"{row.share:.1%}", f"{row.accuracy:.1%}") for row in cutoffs]
    print_table(
        ("min. probability", "recommendations", "share kept", "hits"), table_rows, title="Effect of a cut-off"
    )
