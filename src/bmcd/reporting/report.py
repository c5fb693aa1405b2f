"""report: everything about a model in one HTML file, for people who recommend and need not know how."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from importlib import resources
from pathlib import Path
from typing import Any

from bmcd.clicks.table import Clicks
from bmcd.errors import InputError
from bmcd.models.bmcd import BMCD
from bmcd.reporting import measured, sections
from bmcd.reporting.facts import Facts, gather
from bmcd.reporting.markup import Html, tag
from bmcd.reporting.method import method
from bmcd.reporting.people import choose_people
from bmcd.reporting.user_cards import examples
from bmcd.system.files import check_writable, open_replacement
from bmcd.system.progress import counting

KINDS = (".html", ".htm")


def report(
    model: BMCD,
    train: Clicks | None = None,
    test: Clicks | None = None,
    path: str | Path = "report.html",
    *,
    k: int | Iterable[int] | None = None,
    rivals: Mapping[str, Any] | None = None,
    users: Iterable[Any] | None = None,
    title: str = "What is recommended, and how good it is",
    n_popular: int | None = None,
    seed: int = 0,
    n_threads: int | None = None,
    progress: bool | None = None,
) -> Path:
    """Write a report for editors: one HTML file that needs nothing else, and return its path.

    Plain words first, numbers second, method last: how often the recommendations hit, whether the probabilities can
    be trusted, how much to recommend to be right half the time, other methods beside it, which items are shown,
    what the groups of users like, and some users to look at. The same model and clicks give the same bytes.

    Parameters
    ----------
    model
        A fitted `BMCD`.
    train
        The clicks it was fitted to; by default those it knows.
    test
        Clicks kept aside (`Clicks.hold_out`), with users and items of ``train``. Without them the report leaves out
        what needs them, and says so.
    path
        The file, which is replaced when the report is whole; it must end in .html.
    k
        How many recommendations, one number or several to choose from; by default 5 and 10, if there are so many
        items. Probabilities are best judged with as many as were kept aside.
    rivals
        Methods to compare with, by name, fitted to ``train`` or not fitted yet. By default popularity, neighbours,
        EASE and, if `implicit` is installed, ALS, none of them tuned. ``{}`` for none.
    users
        Ids of the users to show; by default 12, spread over the groups and over how sure the model is of them.
    title
        What stands on top.
    n_popular
        As in `evaluate`.
    seed
        Of the rivals that start at random, and of the intervals.
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
    if path.suffix.lower() not in KINDS:
        raise InputError(f"{path}: a report is an HTML file, so its name must end in .html.")
    target = check_writable(path)
    with counting(progress, "report", 100) as show:
        facts = gather(
            model,
            train,
            test,
            k,
            rivals,
            n_popular=n_popular,
            seed=seed,
            n_threads=n_threads,
            show=lambda share: show(round(60 * share)),
        )
        people = choose_people(facts, users)
        show(65)
        made: list[Html] = []
        makers = [sections.short_version, sections.data, sections.convergence, sections.groups]
        if facts.test is not None:
            makers += [measured.trust, measured.cutoffs, measured.against]
        makers += [measured.exposure]
        for make in makers:
            made.append(make(facts))
            show(65 + round(30 * len(made) / len(makers)))
        made += [examples(facts, people), method(facts)]
        page = _page(facts, title, made)
        show(100)
    with open_replacement(target) as file:
        file.write(page)
    return path


def _page(facts: Facts, title: str, made: list[Html]) -> str:
    clicks, n_groups = facts.clicks, facts.model.n_clusters_
    heads = [re.match(r'<section id="(\w+)"><h2>(.*?)</h2>', part) for part in made]
    links = [tag("li", tag("a", Html(head[2]), href=f"#{head[1]}")) for head in heads if head]
    groups = "1 group of users" if n_groups == 1 else f"{n_groups} groups of users"
    sizes = f"{clicks.n_users:,} users, {clicks.n_items:,} items, {groups}"
    top = tag("header", tag("h1", title), tag("p", sizes), tag("nav", tag("ul", links), aria_label="Contents"))
    body = tag("main", made)
    return fill(title=tag("b", title)[3:-4], body=Html(top + _picker(facts) + body))


def _picker(facts: Facts) -> Html:
    ks = [view.k for view in facts.views]
    if len(ks) == 1:
        return Html("")
    choices = [
        tag("label", tag("input", type="radio", name="k", value=k, checked=at == 0), f" {k}")
        for at, k in enumerate(ks)
    ]
    return tag("fieldset", tag("legend", "Recommendations for each user (k):"), choices, cls="picker control")


def fill(**parts: str) -> str:
    """Put parts into the template, with its style and its script; what they contain is not looked at again."""
    folder = resources.files("bmcd.reporting")
    own = {name: folder.joinpath(f"report.{name}").read_text(encoding="utf-8").strip() for name in ("css", "js")}
    template = folder.joinpath("template.html").read_text(encoding="utf-8")
    return re.sub(r"\{\{(\w+)\}\}", lambda found: {**own, **parts}[found[1]], template)
