"""The sections about single users, and about the method, as markup."""

from __future__ import annotations

import math
from typing import Any

import bmcd
from bmcd.report import plots
from bmcd.report.facts import Facts, View
from bmcd.report.markup import Html, short, table, tag, titled
from bmcd.report.people import Person
from bmcd.report.sections import by_view, section, shown, titles_of
from bmcd.report.words import listed, percent

CLICKS_SHOWN = 15
# Groups to which a user belongs with less than this are not named.
LEAST_MEMBERSHIP = 0.05
MOST_TRACES = 8


def examples(facts: Facts, people: list[Person]) -> Html:
    """Users to look at one by one."""
    titles = titles_of(facts)
    widest = max(
        (
            float(view.lists.values["probability"][one.row].max(initial=0.0))
            for view in facts.views
            for one in people
        ),
        default=1.0,
    )
    cards = [_card(facts, one, titles, widest or 1.0, at) for at, one in enumerate(people)]
    picker = tag(
        "p",
        tag("label", "Show ", for_="person"),
        tag(
            "select",
            [tag("option", f"user {short(str(one.user))}", value=at) for at, one in enumerate(people)],
            id="person",
        ),
        cls="control",
    )
    said = (
        "What some users clicked, and what is recommended to them. The probability is that of an item being among the "
        "user's next clicks; ± is how far it may be off because the calculation is finite."
    )
    return section("users", "Example users", tag("p", said), picker, tag("div", cards, id="people"))


def _card(facts: Facts, one: Person, titles: list[str], widest: float, at: int) -> Html:
    own = [f"group {c} ({percent(p)})" for c, p in one.memberships if p >= LEAST_MEMBERSHIP]
    belongs = f" Belongs to {listed(own)}." if own and facts.model.n_clusters_ > 1 else ""
    n = len(one.clicked)
    clicked = [tag("li", titled(titles[i])) for i in one.clicked[:CLICKS_SHOWN]]
    if n > CLICKS_SHOWN:
        clicked.append(tag("li", f"and {n - CLICKS_SHOWN:,} more"))
    return tag(
        "article",
        tag("h3", "User ", tag("bdi", short(str(one.user)))),
        tag("p", f"{n:,} click{'' if n == 1 else 's'} to learn from.{belongs}"),
        tag(
            "div",
            tag("div", tag("h4", "Clicked"), tag("ul", clicked) if clicked else tag("p", "Nothing.")),
            tag("div", by_view(facts, lambda view: _recommended(facts, view, one, titles, widest))),
            cls="beside",
        ),
        cls="card person",
        data_user=at,
    )


def _recommended(facts: Facts, view: View, one: Person, titles: list[str], widest: float) -> list[Any]:
    items = view.lists.items[one.row]
    rows = []
    n_hits = 0
    for place, item in enumerate(items.tolist()):
        if item < 0:
            continue
        p, error = (float(view.lists.values[name][one.row, place]) for name in ("probability", "mcse"))
        hit = item in one.kept_aside
        n_hits += hit
        number = percent(p) + (f" ± {100 * error:.1f}" if math.isfinite(error) else "")
        bar = tag(
            "span", tag("span", style=f"width: {100 * p / widest:.1f}%", cls="hit" if hit else None), cls="bar"
        )
        mark = tag("strong", " ✓ hit") if hit else None
        rows.append((titled(titles[item]), [bar, number, mark]))
    if not rows:
        return [tag("h4", "Recommended"), tag("p", "Nothing: everything is clicked already.")]
    said = ""
    if facts.test is not None:
        kept = len(one.kept_aside)
        said = f"{n_hits} of {len(rows)} were among the {kept} click{'' if kept == 1 else 's'} kept aside."
    return [
        tag("h4", f"Recommended (k = {view.k})"),
        table(("item", "probability"), rows, cls="list"),
        tag("p", said),
    ]


def method(facts: Facts) -> Html:
    """How it was made: the last thing an editor needs."""
    model, draws = facts.model, facts.model.draws_
    of, plan = draws.problem, draws.plan
    options = of.options
    names = model._ask().names()
    alpha = names.sort(draws.alpha)[:, :, :MOST_TRACES]
    figure = plots.alpha_traces(alpha, clusters=[f"group {c + 1}" for c in range(alpha.shape[2])])
    scale = options["rank_scale"] if isinstance(options["rank_scale"], str) else "own numbers"
    rows = [
        ("model", f"mixture of {of.n_clusters} Mallows models, distance {options['distance']}, rank scale {scale}"),
        ("priors", f"alpha exponential with rate {options['rate']:g}, cluster weights Dirichlet "
                   f"({options['concentration']:g}), consensus rankings uniform"),
        ("sampler", f"{options['sampler']}, started from {options['start']}"),
        ("chains", f"{draws.n_chains}, each {plan.warmup:,} sweeps of warm-up and {draws.n_draws:,} draws"
                   + (f", one of every {plan.thin:,} sweeps" if plan.thin > 1 else "")),
        ("ended", {"finished": "as planned", "time": "by its time budget", "interrupted": "by hand"}[draws.stopped]),
        ("seed", f"{draws.seed}"),
        ("fitted with", f"bmcd {draws.version}"),
        ("reported with", f"bmcd {bmcd.__version__}"),
        ("data (hash)", of.data_hash or "unknown"),
        ("k", ", ".join(str(view.k) for view in facts.views)),
        *([("other methods", "; ".join(_settings(facts)))] if facts.rivals else []),
    ]  # fmt: skip
    return section(
        "method",
        "How this was made",
        tag(
            "p",
            "Every user has a hidden ranking of all items, in which the clicked ones come first. Users fall into groups, "
            "each with a ranking of its own (its consensus) and a scale, alpha, that says how closely its users follow "
            "it. The model finds all of these at once, with their uncertainty; a probability is the share of the "
            "possible worlds, given all clicks, in which the item is among the user's next k. It knows nothing of what "
            "was shown to whom: an item that was hardly shown looks like one that is not liked.",
        ),
        tag(
            "p",
            "A hit is a recommendation among the clicks kept aside. Intervals of measures are percentile intervals "
            "over 2,000 resamples of the users; differences are taken user by user, over the same resamples. Intervals "
            "of single bins and cut-offs are Wilson's. Coverage has no interval. docs/evaluation.md of the package "
            "defines every measure, docs/probabilities.md says what the probability means and when not to trust it.",
        ),
        table(("", ""), rows, cls="facts"),
        tag(
            "details",
            tag("summary", "Diagnostics: R-hat, effective sample sizes and traces"),
            _diagnostics(facts),
            shown(figure, "traces", "The scale alpha of each group, draw by draw, a line for each chain."),
        ),
        tag("h3", "How to cite"),
        tag(
            "p",
            "Liu, Reiner, Frigessi and Scheel: Diverse personalized recommendations with uncertainty from implicit "
            "preference data with the Bayesian Mallows Model. The software: bmcd, version "
            + bmcd.__version__
            + ".",
        ),
    )


def _settings(facts: Facts) -> list[str]:
    comparison = facts.views[0].comparison
    assert comparison is not None
    return [f"{name}: {repr(comparison.entries[name].model).split(', fitted to')[0]}" for name in facts.rivals]


def _diagnostics(facts: Facts) -> Html:
    if facts.model.draws_.n_draws < 4:
        return tag("p", "Too few draws for diagnostics: 4 of each chain are the least.")
    frame = facts.model.diagnostics()
    rows = [
        (
            name,
            f"{row['mean']:,.4g}",
            f"{row['mcse']:,.2g}",
            "–" if row["constant"] else f"{row['rhat']:.3f}",
            "–" if row["constant"] else f"{min(row['ess_bulk'], row['ess_tail']):,.0f}",
        )
        for name, row in frame.sort_values("rhat", ascending=False).head(15).iterrows()
    ]
    return table(
        ("quantity", "mean", "its error", "R-hat", "effective draws"), rows, caption="The 15 with the largest R-hat"
    )
