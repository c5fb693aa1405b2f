"""The section on the method: the last thing an editor needs."""

from __future__ import annotations

import bmcd
from bmcd import plots
from bmcd.reporting.facts import Facts
from bmcd.reporting.markup import Html, table, tag
from bmcd.reporting.sections import section, shown

MOST_TRACES = 8
ENDED = {"finished": "as planned", "time": "by its time budget", "interrupted": "by hand"}


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
        ("ended", ENDED[draws.stopped]),
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
            "Every user has a hidden ranking of all items, in which the clicked ones come first. Users fall into "
            "groups, each with a ranking of its own (its consensus) and a scale, alpha, that says how closely its "
            "users follow it. The model finds all of these at once, with their uncertainty; a probability is the "
            "share of the possible worlds, given all clicks, in which the item is among the user's next k. It "
            "knows nothing of what was shown to whom: an item that was hardly shown looks like one that is not "
            "liked.",
        ),
        tag(
            "p",
            "A hit is a recommendation among the clicks kept aside. Intervals of measures are percentile intervals "
            "over 2,000 resamples of the users; differences are taken user by user, over the same resamples. "
            "Intervals of single bins and cut-offs are Wilson's. Coverage has no interval. docs/evaluation.md of "
            "the package defines every measure, docs/probabilities.md says what the probability means and when not "
            "to trust it.",
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
            "" if row["constant"] else f"{row['rhat']:.3f}",
            "" if row["constant"] else f"{min(row['ess_bulk'], row['ess_tail']):,.0f}",
        )
        for name, row in frame.sort_values("rhat", ascending=False).head(15).iterrows()
    ]
    return table(
        ("quantity", "mean", "its error", "R-hat", "effective draws"),
        rows,
        cls="numbers",
        caption="The 15 with the largest R-hat",
    )
