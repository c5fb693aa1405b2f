"""`bmcd recommend`: the items each user is most likely to want next, with their probabilities."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bmcd.cli.ids import ids_in, ids_of_file, own_ids
from bmcd.cli.log_files import (
    USUAL,
    IgnoreUnknown,
    Layout,
    with_layout,
)
from bmcd.cli.options import (
    AtLeastGroups,
    AtMost,
    Group,
    Horizon,
    Never,
    Only,
    Shares,
    Worth,
    filters,
    list_rules,
)
from bmcd.cli.output import TABLES, RawCells, check_output, console, open_table, plain, print_json, rows_of, say
from bmcd.cli.parts import fingerprint, write_in_parts
from bmcd.errors import InputError

if TYPE_CHECKING:
    from rich.table import Table

    from bmcd.clicks.log import Clicks
    from bmcd.models.persistence import Model

# Users whose recommendations are in memory at a time, when they go to a file.
CHUNK = 5_000


@with_layout
def recommend(
    model: Annotated[Path, typer.Argument(help="A model file, written by bmcd fit.")],
    k: Annotated[int, typer.Option("-k", min=1, help="How many items for each user.")] = 10,
    horizon: Horizon = None,
    users: Annotated[
        str | None,
        typer.Option(help="Only these, such as ann,bob; an id with a comma in double quotes: '\"a,b\"'."),
    ] = None,
    users_file: Annotated[Path | None, typer.Option(help="Only those in this file, one on each line.")] = None,
    histories: Annotated[
        Path | None,
        typer.Option(
            help="Clicks of people the model has not seen (csv, tsv, parquet): recommend to them instead."
        ),
    ] = None,
    items_file: Annotated[
        Path | None, typer.Option(help="Recommend only items in this file, one on each line.")
    ] = None,
    min_probability: Annotated[
        float | None, typer.Option(min=0.0, max=1.0, help="Leave out what is less probable.")
    ] = None,
    only: Only = None,
    never: Never = None,
    group: Group = None,
    at_most: AtMost = None,
    at_least_groups: AtLeastGroups = None,
    share: Shares = None,
    worth: Worth = 0.0,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write a .csv, .parquet or .json file instead.")
    ] = None,
    raw: RawCells = False,
    show: Annotated[int, typer.Option(min=1, help="How many users to print, if nothing is said about users.")] = 5,
    max_draws: Annotated[
        int | None,
        typer.Option(
            min=0,
            help="Draws to average over, all chains together: fewer are faster. By default 20 of BMCD and 40 of "
            "Tastes; 0: all.",
        ),
    ] = None,
    threads: Annotated[int | None, typer.Option(min=1, help="By default one for each core.")] = None,
    layout: Layout = USUAL,
    ignore_unknown: IgnoreUnknown = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object, with all users.")] = False,
) -> None:
    """Recommend items, each with the probability that it is among the user's next clicks.

    Without --output or --json, the first few users are printed. The options of the data are for --histories, and
    for the files of ids.
    """
    if sum(given is not None for given in (users, users_file, histories)) > 1:
        raise typer.BadParameter("give one of --users, --users-file and --histories.")
    if users is not None and not ids_in(users):
        raise typer.BadParameter("--users has no ids in it.")
    but_not = [model, users_file, histories, items_file]
    target = None if output is None else check_output(output, TABLES, but_not)
    import bmcd
    from bmcd.clicks.histories import clicks_of_histories
    from bmcd.models.persistence import load_model

    fitted = load_model(model)
    known = fitted.clicks_
    hint = "The model can recommend only items it was fitted to."
    wanted = None if items_file is None else ids_of_file(items_file, "item", layout)
    items = None if wanted is None else own_ids(wanted, known.items, "item", hint)
    options: dict[str, Any] = {"items": items, "min_probability": min_probability, "n_threads": threads}
    rules = list_rules(group, at_most, at_least_groups, share, worth)
    for name, given in (("only", only), ("never", never)):
        options |= {} if given is None else {name: filters(given, f"--{name}", known.items_table)}
    options |= {} if rules is None else {"rules": rules}
    reports: list[dict[str, Any]] = []
    options |= {} if horizon is None else {"horizon": horizon}
    options |= {} if max_draws is None else {"max_draws": max_draws or None}
    printed = target is None and not as_json
    if histories is not None:
        people = _histories(fitted, layout.ordered(histories).read_aloud(histories))
        n_more = max(len(people) - show, 0) if printed else 0
        people = dict(list(people.items())[: len(people) - n_more])
        strangers = clicks_of_histories(people, known, "ignore" if ignore_unknown else "error")
        asked = list(people)

        def some(first: int, last: int, **more: Any) -> Any:
            return _noted(
                fitted.recommend_for(strangers.of_users(range(first, last)), k, **options, **more), reports
            )

    else:
        texts = ids_of_file(users_file, "user", layout) if users_file else None if users is None else ids_in(users)
        asked, every = wanted_users(fitted, texts), texts is None
        n_more = max(len(asked) - show, 0) if every and printed else 0
        asked = asked[: len(asked) - n_more]

        def some(first: int, last: int, **more: Any) -> Any:
            return _noted(fitted.recommend(k, asked[first:last], **options, **more), reports)

    if target is not None:
        told = {name: value for name, value in options.items() if name not in ("n_threads", "rules")}
        told |= {} if rules is None else {"rules": rules.to_dict()}
        of = {"version": bmcd.__version__, "k": k, "users": asked, "chunk": CHUNK, **told}
        of |= {} if histories is None else {"histories": strangers.fingerprint()}
        n_rows, n_found = _write_chunks(target, some, asked, known, lambda: fingerprint(model, of), raw)
        if as_json:
            facts = {"model": model, "k": k, "n_users": len(asked), "n_rows": n_rows, "file": output}
            print_json({**facts, "n_users_of_earlier_run": n_found, **_price(reports)})
        else:
            earlier = f" ({n_found:,} of them by the run before)" if n_found else ""
            say(f"{n_rows:,} recommendations for {len(asked):,} users{earlier}: {output}")
            _say_price(reports)
        return
    found = some(0, len(asked))
    rows_found = rows_of(found)
    if as_json:
        facts = {"model": model, "k": k, "n_users": len(asked), "n_rows": len(found), "file": None}
        print_json({**facts, **_price(reports), "recommendations": rows_found})
    else:
        sampled = any(row["mcse"] for row in rows_found)
        error = " (± standard error, in points)" if sampled else ""
        say(f"Probability of being among the user's next {horizon or k} clicks{error}:")
        console().print(recommendation_table(rows_found))
        _say_price(reports)
        if empty := len(asked) - sum(1 for _ in groupby(rows_found, key=lambda row: row["user"])):
            say(f"For {empty:,} users there is nothing to recommend that is probable enough and not yet clicked.")
        if n_more:
            say(f"... and {n_more:,} more users: see them with --users, --show or -o recommendations.csv")


def _noted(frame: Any, reports: list[dict[str, Any]]) -> Any:
    """Return the frame, and keep what rules did to its lists."""
    if found := getattr(frame, "attrs", {}).pop("rules", None):
        reports.append(found)
    return frame


def _price(reports: list[dict[str, Any]]) -> dict[str, Any]:
    """Return what rules did to all lists of this run, for JSON."""
    if not reports:
        return {}
    from bmcd.models.list_rules import RulesReport, joined

    parts = [RulesReport(**{name: one[name] for name in RulesReport._fields}) for one in reports]
    return {"rules": joined(parts).to_dict()}


def _say_price(reports: list[dict[str, Any]]) -> None:
    if not (found := _price(reports).get("rules")):
        return
    share = f" ({found['price'] / found['plain']:.2%})" if found["plain"] else ""
    say(
        f"Rules: {found['n_groups']:.2f} groups in a list; price {found['price']:,.2f} of {found['plain']:,.2f} "
        f"expected hits{share}, {found['n_changed']:,} of {found['n_users']:,} lists changed."
    )
    if found["n_unkept"]:
        say(f"{found['n_unkept']:,} users have too few items left to keep the rules: kept as far as possible.")


def _write_chunks(
    target: Path,
    some: Callable[..., Any],
    asked: Sequence[Any],
    known: Clicks,
    of: Callable[[], str],
    raw: bool,
) -> tuple[int, int]:
    """Write the recommendations of those asked for, a chunk of people at a time, in parts if there are several.

    Return how many there are, and how many people an earlier run had done that was stopped.
    """
    text = [] if all(type(user) is int for user in asked) else ["user"]
    text += ["item"] if known.items.dtype == object else []
    if len(asked) > CHUNK:
        return write_in_parts(target, some, asked, CHUNK, of(), text, raw=raw)
    with open_table(target, text, raw=raw) as write:
        found = some(0, len(asked))
        write(found)
    return len(found), 0


def wanted_users(fitted: Model, texts: list[str] | None) -> list[Any]:
    """The model's own ids of those asked for; all without."""
    known = fitted.clicks_.users
    if len(known) == 0:
        raise InputError("this model was saved without users (--no-clicks): give their clicks with --histories.")
    if texts is None:
        return list(known.tolist())
    return own_ids(texts, known, "user", "For people it was not fitted to, give their clicks with --histories.")


def _histories(fitted: Model, clicks: Clicks) -> dict[Any, list[Any]]:
    """Return each user's clicks in order, in the item ids of the model where they read the same."""
    from bmcd.clicks.ids import texts_of

    by_text = texts_of(fitted.clicks_.items)
    items = [by_text.get(str(own), own) for own in clicks.items.tolist()]
    starts, places = clicks.starts.tolist(), clicks.sequence.tolist()
    return {
        own: [items[place] for place in places[starts[row] : starts[row + 1]]]
        for row, own in enumerate(clicks.users.tolist())
    }


def recommendation_table(rows: list[dict[str, Any]]) -> Table:
    """Users one after the other, best item first."""
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
    """A probability and its Monte Carlo standard error, if it has one; that of a Blend is 0.

    >>> probability_text(0.4321, 0.004), probability_text(0.4321, 0.0)
    ('43.2% ± 0.4', '43.2%')
    """
    return f"{probability:.1%}" + (f" ± {100 * mcse:.1f}" if mcse else "")
