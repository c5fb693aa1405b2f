"""Options that several commands share, each declared once; files of clicks and ids that they name."""

from __future__ import annotations

import csv
import functools
import inspect
import io
import logging
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, get_type_hints

import typer

from bmcd.cli.output import complain, print_json
from bmcd.errors import ClicksError
from bmcd.progress import LOG, QUIET

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from bmcd.clicks.item_table import ItemTable
    from bmcd.clicks.log import Clicks
    from bmcd.models.list_rules import ListRules

Order = Literal["time", "rows", "none"]


def option(text: str, *names: str, **more: Any) -> Any:
    """Declare an option by its help text; by default it has the name of the parameter."""
    return typer.Option(*names, help=text, **more)


in_data = functools.partial(option, rich_help_panel="Data")
in_groups = functools.partial(option, rich_help_panel="Groups of items")

ModelFile = Annotated[Path, typer.Argument(help="A model file, written by bmcd fit.")]
Log = Annotated[
    str,
    typer.Argument(
        metavar="CLICKS", help="A csv, tsv or parquet file, also .gz; or bundled data: eshop, msweb, msweb-all."
    ),
]
K = Annotated[int, option("The number of items per list.", "-k", min=1)]
Horizon = Annotated[
    int | None, option("The number of next clicks that a probability refers to. Default: k.", "--horizon", min=1)
]
Seed = Annotated[int, option("Random seed; the same seed gives the same result.", "--seed", min=0)]
Threads = Annotated[
    int | None, option("The number of threads. Default: one per core. Results do not depend on it.", min=1)
]
Output = Annotated[Path | None, option("Write a .csv, .parquet or .json file instead.", "--output", "-o")]
TableFile = Annotated[Path | None, option("Write the table to a .csv, .parquet or .json file.", "--output", "-o")]
Popular = Annotated[int | None, option("The number of items that count as popular. Default: a fifth.", min=1)]
RawCells = Annotated[
    bool, option("Do not escape csv cells that a spreadsheet would run as a formula (by an apostrophe).", "--raw")
]
AsJson = Annotated[bool, option("Print one JSON object.", "--json")]
Quiet = Annotated[bool, option("No progress and no notes; warnings and errors are still shown.", "--quiet")]

TextIds = Annotated[bool, in_data("Keep ids such as 12 as text.", "--text-ids")]
MostClicked = Annotated[int | None, in_data("Keep this number of the most clicked items.", "--most-clicked", min=1)]
AtLeast = Annotated[
    int | None, in_data("Then keep users with at least this number of clicks.", "--at-least", min=1)
]
IgnoreUnknown = Annotated[
    bool, in_data("Leave out clicks on items, and users, that are not in the model.", "--ignore-unknown")
]
Only = Annotated[
    list[str] | None,
    in_groups("Only items of these groups: section=sports,news or price=10..20; may be repeated.", "--only"),
]
Never = Annotated[list[str] | None, in_groups("No items of these groups.", "--never")]


class Layout(NamedTuple):
    """How a file of clicks is read; a command with a parameter of this type has all its fields as options."""

    user_column: Annotated[str, in_data("The column of users.")] = "user"
    item_column: Annotated[str, in_data("The column of items.")] = "item"
    time_column: Annotated[str | None, in_data("The column of times. Default: time, if there is one.")] = None
    order: Annotated[
        Order | None, in_data("time, rows (rows are in click order) or none. Default: time, if there are times.")
    ] = None
    session_column: Annotated[str | None, in_data("The column of sessions. Default: cut at --session-gap.")] = None
    session_gap: Annotated[str, in_data("A new session begins after this time without clicks.")] = "30min"
    delimiter: Annotated[
        str | None, in_data("The character between columns (tab for a tab). Default: from extension and header.")
    ] = None
    encoding: Annotated[
        str | None, in_data("Such as latin-1. Default: by the byte-order mark, otherwise utf-8.")
    ] = None
    missing: Annotated[
        Literal["error", "drop"], in_data("drop: leave out and count rows without a user, an item or a time.")
    ] = "error"

    @property
    def mark(self) -> str | None:
        r"""The delimiter; a tab is hard to type.

        >>> Layout(delimiter="tab").mark, Layout(delimiter="\\t").mark, Layout().mark
        ('\t', '\t', None)
        """
        return "\t" if self.delimiter in ("\\t", "tab") else self.delimiter

    def read(self, file: Path | str, titles: Path | None = None, *, notes: bool = False, **options: Any) -> Clicks:
        """Read a file of clicks; with ``notes``, print on standard error what was done to it."""
        import bmcd

        own = self._asdict() | {"delimiter": self.mark}
        clicks = bmcd.read_clicks(file, own.pop("user_column"), own.pop("item_column"), titles, **own | options)
        for step in clicks.history if notes else ():
            complain(f"{file}: {step}.", "note: ")
        return clicks

    def ordered(self, file: Path | str) -> Layout:
        """Return a layout that takes the order of the rows if the file has no times and no other order is given."""
        return self if self.order is not None or self.read(file).order else self._replace(order="rows")

    def words(self) -> list[str]:
        """Return the options with which a file that this package writes is read in the same way.

        >>> Layout(user_column="who", order="rows", delimiter=";").words()
        ['--user-column', 'who', '--order', 'rows']
        """
        given = self._replace(delimiter=None, encoding=None, missing="error")._asdict()
        changed = {name: value for name, value in given.items() if value != self._field_defaults[name]}
        return [word for name, value in changed.items() for word in ("--" + name.replace("_", "-"), str(value))]


USUAL = Layout()


class GroupRules(NamedTuple):
    """Rules for the groups of items in every list, as options."""

    group: Annotated[str | None, in_groups("The column that the rules refer to. Default: the first one.")] = None
    at_most: Annotated[int | None, in_groups("Maximum number of items of a group in a list.", min=1)] = None
    at_least_groups: Annotated[int | None, in_groups("Minimum number of groups in a list.", min=1)] = None
    share: Annotated[list[str] | None, in_groups("Minimum share of a group in a list: local=0.2.")] = None
    worth: Annotated[
        float, in_groups("Expected hits that one more group in a list is worth, such as 0.02.", min=0.0)
    ] = 0.0

    def rules(self) -> ListRules | None:
        """Return the rules that are asked for, or None if there are none."""
        from bmcd.models.list_rules import ListRules

        shares = {}
        for text in self.share or ():
            name, mark, value = text.rpartition("=")
            if not mark or (share := _number(value, "--share")) is None:
                raise typer.BadParameter(f"--share must be a group and a share, such as local=0.2, not {text!r}.")
            shares[name.strip()] = share
        if not (shares or self.at_most or self.at_least_groups or self.worth):
            if self.group is not None:
                raise typer.BadParameter("--group goes with --at-most, --at-least-groups, --share or --worth.")
            return None
        return ListRules(self.group, self.at_most, self.at_least_groups, shares or None, self.worth)


NO_RULES = GroupRules()


def as_command(function: Callable[..., dict[str, Any] | None]) -> Callable[..., None]:
    """Return a command: parameters that are groups of options are spread, and --json and --quiet are added.

    With --json what the function prints is dropped, and what it returns is printed instead; a function that takes
    ``as_json`` does this by itself. The log of the package goes to standard error while the command runs.
    """
    groups: dict[str, Any] = {}
    parameters: list[inspect.Parameter] = []

    def add(name: str, kind: Any, default: Any) -> None:
        only = inspect.Parameter.KEYWORD_ONLY
        parameters.append(inspect.Parameter(name, only, default=default, annotation=kind))

    for one in inspect.signature(function, eval_str=True).parameters.values():
        if isinstance(one.annotation, type) and issubclass(one.annotation, tuple):
            groups[one.name] = one.annotation
            for name, kind in get_type_hints(one.annotation, include_extras=True).items():
                add(name, kind, groups[one.name]._field_defaults[name])
        else:
            add(one.name, one.annotation, one.default)
    is_own = any(one.name == "as_json" for one in parameters)
    if not is_own:
        add("as_json", AsJson, False)
    add("quiet", Quiet, False)

    @functools.wraps(function)
    def run(*, quiet: bool, **given: Any) -> None:
        as_json = not is_own and given.pop("as_json")
        for name, kind in groups.items():
            given[name] = kind(**{field: given.pop(field) for field in kind._fields})
        with _quiet(quiet), logged(LOG, "bmcd: %(message)s"):
            with redirect_stdout(io.StringIO()) if as_json else nullcontext():
                facts = function(**given)
            if as_json:
                print_json(facts)

    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {one.name: one.annotation for one in parameters}
    return run


@contextmanager
def _quiet(wanted: bool) -> Iterator[None]:
    before = os.environ.get(QUIET)
    if wanted:
        os.environ[QUIET] = "1"
    try:
        yield
    finally:
        if wanted:
            del os.environ[QUIET]
            os.environ |= {} if before is None else {QUIET: before}


@contextmanager
def logged(log: logging.Logger, form: str, level: int = logging.INFO, *, alone: bool = False) -> Iterator[None]:
    """Write a log to standard error; ``alone``: its lines do not go to the log above it as well."""
    handler, before = logging.StreamHandler(sys.stderr), log.level
    handler.setFormatter(logging.Formatter(form))
    log.addHandler(handler)
    log.setLevel(level)
    log.propagate = not alone
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.setLevel(before)
        log.propagate = True


def read_log(
    name: str, layout: Layout, most_clicked: int | None = None, at_least: int | None = None, **options: Any
) -> Clicks:
    """Read a file of clicks, or bundled data if there is no file of that name, and keep a part of it."""
    import bmcd
    from bmcd.clicks.datasets import DATASETS

    if name not in DATASETS or Path(name).exists():
        clicks = layout.read(name, **options)
    elif options.get("titles") is not None:
        raise typer.BadParameter(f"the bundled {name} has titles: leave out --titles.")
    else:
        clicks = bmcd.load_dataset(name)
    return narrowed(clicks, most_clicked, at_least)


def narrowed(clicks: Clicks, most_clicked: int | None, at_least: int | None) -> Clicks:
    """Keep the most clicked items, then the users with enough clicks."""
    clicks = clicks if most_clicked is None else clicks.most_clicked(most_clicked)
    return clicks if at_least is None else clicks.at_least(at_least)


def filters(given: list[str] | None, name: str, table: ItemTable | None) -> dict[str, Any] | None:
    """Return groups by column, of options such as section=sports,news and price=10..20."""
    found: dict[str, Any] = {}
    for text in given or ():
        column, mark, values = (part.strip() for part in text.partition("="))
        if not mark or not values:
            raise typer.BadParameter(f"{name} must be a column and groups, such as section=sports, not {text!r}.")
        low, dots, high = values.partition("..")
        if dots and table is not None and column in table.numbers:
            found[column] = [_number(low, name), _number(high, name)]
        else:
            found.setdefault(column, []).extend(ids_in(values))
    return found or None


def model_classes() -> dict[str, Any]:
    """Return all models and baselines by name."""
    import bmcd
    from bmcd import baselines

    classes = {name: getattr(bmcd, name) for name in ("Blend", "Tastes", "BMCD")}
    return classes | {name: getattr(baselines, name) for name in baselines.__all__ if name != "Baseline"}


def whole_number(text: str, name: str, such_as: str) -> int:
    """Return a number from 1 on, or refuse the option.

    >>> whole_number("50_000", "--max-users", "50000")
    50000
    """
    digits = text.strip().replace("_", "")
    if not (digits.isascii() and digits.isdigit() and int(digits) > 0):
        raise typer.BadParameter(f"{name} must be {such_as}, not {text!r}.")
    return int(digits)


def whole_numbers(texts: list[str] | None, name: str) -> list[int] | None:
    """Return numbers from 1 on of options such as 5,10.

    >>> whole_numbers(["5, 10", "5"], "-k")
    [5, 10]
    """
    parts = [part for text in texts or () for part in text.split(",")]
    found = [whole_number(part, name, "whole numbers from 1 on, such as 5 or 5,10") for part in parts]
    return list(dict.fromkeys(found)) or None


def _number(text: str, name: str) -> float | None:
    try:
        return float(text) if text.strip() else None
    except ValueError:
        raise typer.BadParameter(f"{name}: {text.strip()!r} is not a number.") from None


def ids_in(text: str) -> list[str]:
    """Return the ids of a list with commas; an id that contains a comma stands in double quotes.

    >>> ids_in('ann, "b,c"')
    ['ann', 'b,c']
    """
    fields = next(csv.reader([text], skipinitialspace=True), [])
    return [field.strip() for field in fields if field.strip()]


def ids_of_file(path: Path, column: str, layout: Layout = USUAL) -> list[str]:
    """Return the ids of a text file, one per line; of csv and tsv files the column of that name, else the first."""
    from bmcd.clicks.decoding import TextFile

    text = b"".join(block for _, block in TextFile(str(path), layout.encoding).blocks()).decode()
    mark = layout.mark or {".csv": ",", ".tsv": "\t"}.get(path.suffix.lower())
    lines = text.splitlines()
    try:
        cells = csv.reader(lines, delimiter=mark) if mark else ([line] for line in lines)
        rows = [row for row in ([cell.strip() for cell in row] for row in cells) if any(row)]
    except csv.Error as error:
        raise ClicksError(f"{error}.", file=str(path)) from error
    at = rows.pop(0).index(column) if rows and column in rows[0] else 0
    found = [row[at] for row in rows if len(row) > at and row[at]]
    if not found:
        raise ClicksError(f"the file has no {column} ids. Write one per line.", file=str(path))
    return list(dict.fromkeys(found))


def same_ids(given: Iterable[Any], known: NDArray[Any]) -> list[Any]:
    """Return ids, each as the id of the model with the same text if there is one."""
    from bmcd.clicks.ids import texts_of

    by_text = texts_of(known)
    return [by_text.get(str(one), one) for one in given]


def own_ids(wanted: list[str], known: NDArray[Any], what: str, hint: str) -> list[Any]:
    """Return the ids of a model that have these texts; `UnknownIdError` lists those it lacks, with ``hint``.

    >>> import numpy as np
    >>> own_ids(["12", "7"], np.array([7, 12]), "user", "")
    [12, 7]
    """
    from bmcd.clicks.ids import positions

    found = same_ids(wanted, known)
    positions(found, known, what, hint)  # refuses unknown ids
    return found


def as_known(test: Clicks, known: Clicks, ignore_unknown: bool) -> Clicks:
    """Return test clicks with the ids of the model that have the same text."""
    from dataclasses import replace

    from bmcd.clicks.ids import objects

    if ignore_unknown:
        test = _only_known(test, known)
    hint = "The model was not fitted to them: leave them out of the test clicks, or say --ignore-unknown."
    users, items = (
        objects(own_ids([str(one) for one in getattr(test, name).tolist()], getattr(known, name), name[:-1], hint))
        for name in ("users", "items")
    )
    return replace(test, users=users, items=items)


def _only_known(test: Clicks, known: Clicks) -> Clicks:
    """Return the test clicks on users and items of the model, and report the number of others."""
    from bmcd.clicks.ids import texts_of

    pairs = ((test.users, texts_of(known.users)), (test.items, texts_of(known.items)))
    users, items = ([str(one) in texts for one in own.tolist()] for own, texts in pairs)
    if all(users) and all(items):
        return test
    by_user = test.of_users(users)
    found = by_user.of_items(items, keep_outside=test.order is not None)
    said = (
        f"{test.n_clicks - found.n_clicks:,} of {test.n_clicks:,} test clicks are of {users.count(False):,} users "
        f"or {items.count(False):,} items that the model does not know"
    )
    if not found.n_clicks:
        raise ClicksError(f"{said}, so there is nothing left to test on.")
    fate = "left out" if test.order is None else "clicks on such items count as misses, such users are left out"
    complain(f"{said}: {fate}.", "note: ")
    n_new = int((test.per_user > 0).sum() - (by_user.per_user > 0).sum())
    return found.as_test(found.split, found.n_new_users + n_new)
