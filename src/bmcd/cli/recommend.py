"""`bmcd recommend`: the items each user is most likely to click next, with their probabilities."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bmcd.cli import options as opt
from bmcd.cli.options import option
from bmcd.cli.output import (
    TABLES,
    check_output,
    console,
    print_json,
    rows_of,
    say,
    write_in_parts,
)
from bmcd.errors import InputError
from bmcd.utils import plain

if TYPE_CHECKING:
    from rich.table import Table

    from bmcd.models.persistence import Model

# Users whose recommendations are in memory at a time, when they are written to a file.
CHUNK = 5_000


def recommend(
    model: opt.ModelFile,
    k: opt.K = 10,
    horizon: opt.Horizon = None,
    users: Annotated[
        str | None, option("Only these users: ann,bob. An id with a comma in double quotes: '\"a,b\"'.")
    ] = None,
    users_file: Annotated[Path | None, option("Only the users in this file, one per line.")] = None,
    histories: Annotated[
        Path | None, option("Clicks of new users (csv, tsv, parquet): recommend to them instead.")
    ] = None,
    items_file: Annotated[Path | None, option("Recommend only items in this file, one per line.")] = None,
    min_probability: Annotated[float | None, option("Leave out less probable items.", min=0.0, max=1.0)] = None,
    only: opt.Only = None,
    never: opt.Never = None,
    groups: opt.GroupRules = opt.NO_RULES,
    output: opt.Output = None,
    raw: opt.RawCells = False,
    show: Annotated[int, option("The number of users to print if no users are given.", min=1)] = 5,
    max_draws: Annotated[
        int | None,
        option("Draws to average over; fewer are faster. Default: 20 of BMCD, 40 of Tastes; 0: all.", min=0),
    ] = None,
    threads: opt.Threads = None,
    layout: opt.Layout = opt.USUAL,
    ignore_unknown: opt.IgnoreUnknown = False,
    as_json: opt.AsJson = False,
) -> None:
    """Recommend items, each with the probability that it is among the user's next clicks.

    Without --output or --json, the first few users are printed. The options of the data are for --histories, and
    for the files of ids.
    """
    if sum(given is not None for given in (users, users_file, histories)) > 1:
        raise typer.BadParameter("give one of --users, --users-file and --histories.")
    if users is not None and not opt.ids_in(users):
        raise typer.BadParameter("--users has no ids in it.")
    target = None if output is None else check_output(output, TABLES, [model, users_file, histories, items_file])
    import bmcd
    from bmcd.clicks.histories import clicks_of_histories
    from bmcd.clicks.ids import objects
    from bmcd.models.persistence import load_model

    fitted = load_model(model)
    known, rules = fitted.clicks_, groups.rules()
    items = None if items_file is None else opt.ids_of_file(items_file, "item", layout)
    hint = "The model can recommend only items it was fitted to."
    options: dict[str, Any] = {
        "items": None if items is None else opt.own_ids(items, known.items, "item", hint),
        "min_probability": min_probability,
        "only": opt.filters(only, "--only", known.items_table),
        "never": opt.filters(never, "--never", known.items_table),
        "horizon": horizon,
        "max_draws": max_draws,
    }
    options = {name: value for name, value in options.items() if value is not None}
    if max_draws == 0:
        options["max_draws"] = None
    facts = {"version": bmcd.__version__, "k": k, "chunk": CHUNK, **options}
    if rules is not None:
        options["rules"], facts["rules"] = rules, rules.to_dict()
    new_users = None
    if histories is None:
        texts = None if users is None else opt.ids_in(users)
        texts = texts if users_file is None else opt.ids_of_file(users_file, "user", layout)
        asked, is_open = wanted_users(fitted, texts), texts is None
    else:
        own = layout.ordered(histories).read(histories, notes=True)
        same = objects(opt.same_ids(own.items.tolist(), known.items))
        own = replace(own, items=same, times=None, session_ids=None, order="rows")
        new_users = clicks_of_histories(own, known, "ignore" if ignore_unknown else "error")
        asked, is_open = own.users.tolist(), True
    n_more = max(len(asked) - show, 0) if is_open and target is None and not as_json else 0
    asked = asked[: len(asked) - n_more]
    reports: list[dict[str, Any]] = []

    def recommended(first: int, last: int, progress: bool | None = False) -> Any:
        how = {**options, "n_threads": threads, "progress": progress}
        if new_users is None:
            frame = fitted.recommend(k, asked[first:last], **how)
        else:
            frame = fitted.recommend_for(new_users.of_users(range(first, last)), k, **how)
        if (found := getattr(frame, "attrs", {}).pop("rules", None)) is not None:
            reports.append(found)
        return frame

    n_users, about = len(asked), {"model": model, "k": k, "n_users": len(asked)}
    if target is None:
        rows = rows_of(recommended(0, n_users, None))
        if as_json:
            print_json({**about, "n_rows": len(rows), "file": None, **_price(reports), "recommendations": rows})
            return
        error = " (± standard error, in points)" if any(row["mcse"] for row in rows) else ""
        clicks = "click" if (horizon or k) == 1 else f"{horizon or k} clicks"
        say(f"Probability of being among the user's next {clicks}{error}:")
        console().print(recommendation_table(rows))
        _print_price(reports)
        if empty := n_users - len({str(row["user"]) for row in rows}):
            say(f"For {empty:,} users there is nothing to recommend that is probable enough and not yet clicked.")
        if n_more:
            say(f"... and {n_more:,} more users: see them with --users, --show or -o recommendations.csv")
        return
    # Ids of several kinds are text in every part.
    text = [] if all(type(user) is int for user in asked) else ["user"]
    text += ["item"] if known.items.dtype == object else []
    facts |= {"users": asked, "histories": None if new_users is None else new_users.fingerprint()}
    n_rows, n_found = write_in_parts(target, recommended, n_users, CHUNK, _fingerprint(model, facts), text, raw=raw)
    if as_json:
        about |= {"n_rows": n_rows, "file": output, "n_users_of_earlier_run": n_found}
        print_json({**about, **_price(reports)})
    else:
        earlier = f" ({n_found:,} of them by the previous run)" if n_found else ""
        say(f"{n_rows:,} recommendations for {n_users:,} users{earlier}: {output}")
        _print_price(reports)


def _fingerprint(model: Path, facts: dict[str, Any]) -> str:
    """Return a hash of the model file and of everything that the recommendations depend on."""
    with model.open("rb") as file:
        sha = hashlib.file_digest(file, "sha256")
    sha.update(json.dumps(facts, sort_keys=True, default=str).encode(errors="surrogatepass"))
    return sha.hexdigest()


def _price(reports: list[dict[str, Any]]) -> dict[str, Any]:
    """Return what rules changed in all lists of this run, for JSON."""
    if not reports:
        return {}
    from bmcd.models.list_rules import RulesReport, joined

    parts = [RulesReport(**{name: one[name] for name in RulesReport._fields}) for one in reports]
    return {"rules": joined(parts).to_dict()}


def _print_price(reports: list[dict[str, Any]]) -> None:
    if not (found := _price(reports).get("rules")):
        return
    share = f" ({found['price'] / found['plain']:.2%})" if found["plain"] else ""
    say(
        f"Rules: {found['n_groups']:.2f} groups in a list; price {found['price']:,.2f} of {found['plain']:,.2f} "
        f"expected hits{share}, {found['n_changed']:,} of {found['n_users']:,} lists changed."
    )
    if found["n_unkept"]:
        say(f"{found['n_unkept']:,} users have too few items left to keep the rules: kept as far as possible.")


def wanted_users(fitted: Model, texts: list[str] | None) -> list[Any]:
    """Return the ids of the users with these texts, or of all users."""
    known = fitted.clicks_.users
    if len(known) == 0:
        raise InputError("this model was saved without users (--no-clicks): give their clicks with --histories.")
    if texts is None:
        return list(known.tolist())
    return opt.own_ids(texts, known, "user", "For new users, give their clicks with --histories.")


def recommendation_table(rows: list[dict[str, Any]]) -> Table:
    """Return a table of users, each with the best item first."""
    from rich.table import Table
    from rich.text import Text

    titled = any("title" in row for row in rows)
    table = Table()
    table.add_column("user", overflow="fold", max_width=24)
    table.add_column("", justify="right")
    table.add_column("item", overflow="fold", max_width=24)
    if titled:
        table.add_column("title")
    table.add_column("probability", justify="right", no_wrap=True)
    for user, own in groupby(rows, key=lambda row: row["user"]):
        for place, row in enumerate(own):
            cells = [plain(user) if place == 0 else "", str(row["rank"]), plain(row["item"])]
            cells += [plain(row["title"])] if titled else []
            cells.append(probability_text(row["probability"], row["mcse"]))
            table.add_row(*(Text(cell) for cell in cells))
        table.add_section()
    return table


def probability_text(probability: float, mcse: float | None) -> str:
    """Return a probability with its Monte Carlo standard error, if it has one; that of a Blend is 0.

    >>> probability_text(0.4321, 0.004), probability_text(0.4321, 0.0)
    ('43.2% ± 0.4', '43.2%')
    """
    return f"{probability:.1%}" + (f" ± {100 * mcse:.1f}" if mcse else "")
