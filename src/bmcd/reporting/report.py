"""report: write everything about a model into one HTML file, for those who decide what is recommended."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from bmcd import __version__
from bmcd.clicks.log import Clicks
from bmcd.errors import InputError
from bmcd.evaluation.diversify import Diversity
from bmcd.files import check_writable, open_replacement
from bmcd.models.bmcd import BMCD
from bmcd.models.persistence import Model
from bmcd.models.tastes import Tastes
from bmcd.progress import counting
from bmcd.reporting import wording
from bmcd.reporting.context import Context, make_context
from bmcd.reporting.figures import draw_figures
from bmcd.reporting.page import environment, file_text

SUFFIXES = (".html", ".htm")


def report(
    model: Model | Mapping[str, Model],
    train: Clicks | None = None,
    test: Clicks | None = None,
    path: str | Path = "report.html",
    *,
    k: int | Iterable[int] | None = None,
    histories: Any = None,
    clusters: BMCD | Tastes | None = None,
    rivals: Mapping[str, Any] | None = None,
    users: Iterable[Any] | None = None,
    title: str = "What is recommended, and how good it is",
    data: str = "",
    date: str | None = None,
    items: Any = None,
    diversity: Diversity | None = None,
    n_popular: int | None = None,
    seed: int = 0,
    n_threads: int | None = None,
    progress: bool | None = None,
) -> Path:
    """Write a report for editors, one self-contained HTML file, and return its path.

    The report starts with a summary in words; the method comes last. It shows predicted and observed hits among the
    next clicks, calibration over time, cut-offs, a comparison with other methods, the contribution of each member,
    the items shown, and example users with the reasons for their recommendations. The same model, clicks and date
    give the same bytes.

    Parameters
    ----------
    model
        A fitted `Blend`, `BMCD` or `Tastes`; the models that a blend is made of are compared with it. Or two
        models by name, the older first, ``{"last week": a, "this week": b}``: the report is about the second and
        shows what changed.
    train
        The clicks it was fitted to; by default those stored in the model.
    test
        Test clicks: of users of ``train`` (`Clicks.split_at`, `Clicks.hold_out`), or of the users of ``histories``.
        Without them the report leaves out the sections that need them, and says so. Every table names the test.
    path
        The file, which must end in .html; it is replaced only when the report is complete.
    k
        The number of recommendations, which is also the number of next clicks the probabilities refer to: one
        number, or several among which the reader can choose; by default 5 and 10, if there are enough items and
        test clicks.
    histories
        What later users had clicked when the recommendations are made, as given to `recommend_for`: the report is
        then about them. ``histories, test = later.moments(k=10)`` gives both.
    clusters
        A `BMCD` or `Tastes` fitted to the same items, whose groups of users are shown. By default those of the
        model itself, or of the first member of a blend that has groups; without any the section is left out.
    rivals
        Baselines by name, fitted to ``train`` or not fitted yet. By default popularity and EASE, with transitions
        and SessionKNN on a log with order, otherwise with ItemKNN and, if `implicit` is installed, ALS; none of
        them tuned. ``{}`` for none.
    users
        Ids of the users to show; by default 12, spread over groups and probabilities.
    title
        The heading of the page.
    data, date
        The name of the data and the date, shown below the title; by default no name, and today.
    items
        Groups, links and pictures of items, if not those of the clicks: a frame or a file as in
        `Clicks.with_items`. Addresses must be http, https or relative. Pictures are fetched when they come into
        view; everything else works offline.
    diversity
        The result of `bmcd.diversify`, shown with its back-test.
    n_popular
        As in `evaluate`.
    seed
        The seed of the intervals, and of baselines with random starts.
    n_threads, progress
        As in `BMCD.recommend`.

    Examples
    --------
    >>> import bmcd
    >>> clicks = bmcd.simulate(60, 15, consensuses=2, mean_clicks=6.0, seed=1).clicks.at_least(4)
    >>> train, test = clicks.hold_out(2, seed=1)
    >>> model = bmcd.BMCD(2).fit(train, draws=10, warmup=10, chains=2)
    >>> bmcd.report(model, train, test, "report.html", k=2, rivals={"EASE": bmcd.baselines.EASE()}).name
    'report.html'
    """
    path = Path(path)
    if path.suffix.lower() not in SUFFIXES:
        raise InputError(f"{path}: a report is an HTML file, so its name must end in .html.")
    target = check_writable(path)
    environment()  # raises an error without Jinja, before anything is computed
    with counting(progress, "report", 100) as show:
        context = make_context(
            model,
            train,
            test,
            k,
            rivals,
            users,
            histories=histories,
            clusters=clusters,
            items=items,
            diversity=diversity,
            n_popular=n_popular,
            seed=seed,
            n_threads=n_threads,
            show_share=lambda share: show(round(65 * share)),
        )
        day = datetime.date.today().isoformat() if date is None else date
        about = ", ".join(part for part in (data, day) if part)
        page = render(context, title, about, lambda share: show(65 + round(35 * share)))
    with open_replacement(target) as file:
        file.write(page)
    return path


def render(
    context: Context, title: str, about: str = "", show_share: Callable[[float], None] = lambda share: None
) -> str:
    """Return the page as one HTML text that needs nothing else; ``about`` names the data and the day."""
    figures = draw_figures(context, show_share)
    files = {kind: file_text(f"report.{kind}") for kind in ("css", "js")}
    page: str = (
        environment()
        .get_template("report.html")
        .render(
            context=context, figures=figures, words=wording, title=title, about=about, version=__version__, **files
        )
    )
    return page
