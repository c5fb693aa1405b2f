"""The section "How this was made": model, sampler, diagnostics, and how to cite. The last thing an editor needs."""

from __future__ import annotations

from typing import Any

from bmcd import __version__, plots
from bmcd.blend.blend import Blend
from bmcd.inference.diagnostics import MIN_DRAWS
from bmcd.inference.draws import ChainDraws, Draws, match_clusters
from bmcd.inference.tastes.draws import TasteDraws
from bmcd.markup import Html, paragraphs, table, tag
from bmcd.models.bmcd import BMCD
from bmcd.models.estimator import clone
from bmcd.models.persistence import sampled_models
from bmcd.models.tastes import Tastes
from bmcd.reporting.page import Section, captioned
from bmcd.reporting.results import Results

MOST_TRACES, MOST_QUANTITIES = 8, 15
ENDED = {"finished": "as planned", "time": "by its time budget", "interrupted": "by hand"}
MODEL_IN_WORDS = (
    "Every user has a hidden ranking of all items, in which the clicked ones come first. Users fall into groups, "
    "each with a ranking of its own (its consensus) and a scale, alpha, that says how closely its users follow "
    "it. The model finds all of these at once, with their uncertainty; a probability is the share of the possible "
    "worlds, given all clicks, in which the item is among the user's next k. It knows nothing of what was shown "
    "to whom: an item that was hardly shown looks like one that is not liked."
)
TASTES_IN_WORDS = (
    "Every user has several tastes, each a ranking of all items with a scale, alpha, that says how closely it is "
    "followed. A user visits the tastes again and again, some more often than others; on every visit a fresh "
    "ranking is drawn near that of the taste, and its first item is clicked. The model finds tastes and visits at "
    "once, in several independent runs, whose probabilities are averaged. It knows nothing of what was shown to "
    "whom: an item that was hardly shown looks like one that is not liked."
)
BLEND_IN_WORDS = (
    "Members say how much speaks for an item: how popular it is now, what follows the user's last clicks, what "
    "goes together with them. Their scores become rates, exponentials of weighted sums; a probability is that of "
    "being among the first k items to arrive. The weights were learnt from {moments}."
)
ORDERED, UNORDERED = "what users clicked next, at past moments", "clicks that were held out at random"
MEASURES_IN_WORDS = (
    "A hit is a recommendation among the test clicks. Intervals of measures are percentile intervals over "
    "2,000 resamples of the users; differences are taken user by user, over the same resamples. Intervals of "
    "single bins and cut-offs are Wilson's. Coverage has no interval. docs/evaluation.md of the package defines "
    "every measure, docs/probabilities.md says what the probability means and when not to trust it."
)
CITATION = (
    "Liu, Reiner, Frigessi and Scheel: Diverse personalized recommendations with uncertainty from implicit "
    f"preference data with the Bayesian Mallows Model. The software: bmcd, version {__version__}."
)


def section(results: Results) -> Section:
    """Return how the model works, its settings, its diagnostics and how to cite it."""
    model, sampled = results.model, sampled_models(results.model)
    words = []
    if isinstance(model, Blend):
        words.append(BLEND_IN_WORDS.format(moments=ORDERED if model.clicks_.order else UNORDERED))
    for name, part in sampled.items():
        text = TASTES_IN_WORDS if isinstance(part, Tastes) else MODEL_IN_WORDS
        words.append(f"{name}: {text}" if isinstance(model, Blend) else text)
    details = []
    for number, (name, part) in enumerate(sampled.items()):
        of = f" of {name}" if isinstance(model, Blend) else ""
        heading = tag("summary", f"Diagnostics{of}: R-hat and effective sample sizes")
        traces = None if isinstance(part, Tastes) else _traces(number, part.draws_)
        details.append(tag("details", heading, _diagnostics(part), traces))
    body = [
        *paragraphs(*words, MEASURES_IN_WORDS),
        table(("", ""), _settings(results), cls="facts"),
        *details,
        tag("h3", "How to cite"),
        tag("p", CITATION),
    ]
    return Section("method", "How this was made", body)


def _traces(number: int, draws: Draws) -> Html:
    alpha = match_clusters(draws).sort(draws.alpha)[:, :, :MOST_TRACES]
    figure = plots.alpha_traces(alpha, clusters=[f"group {c + 1}" for c in range(alpha.shape[2])])
    return captioned(
        figure, f"traces-{number}", "The scale alpha of each group, draw by draw, a line for each chain."
    )


def _model_settings(draws: ChainDraws) -> list[tuple[str, str]]:
    options, n_clusters = draws.problem.options, draws.problem.n_clusters
    scale = options["rank_scale"] if isinstance(options["rank_scale"], str) else "own numbers"
    mallows = f"Mallows models, distance {options['distance']}, rank scale {scale}"
    if isinstance(draws, TasteDraws):
        rates = f"rates of visits Gamma with shape {draws.a.mean():.3g} and rate {draws.b.mean():.3g} (means)"
        return [
            ("model", f"{n_clusters} tastes, several for each user; {mallows}"),
            ("priors", f"{rates}, alpha exponential on a grid, consensus rankings uniform"),
        ]
    weights = f"cluster weights Dirichlet ({options['concentration']:g})"
    return [
        ("model", f"mixture of {n_clusters} {mallows}"),
        ("priors", f"alpha exponential with rate {options['rate']:g}, {weights}, consensus rankings uniform"),
        ("sampler", f"{options['sampler']}, started from {options['start']}"),
    ]


def _settings(results: Results) -> list[tuple[str, str]]:
    model, rows = results.model, []
    for name, part in sampled_models(model).items():
        before = f"{name}: " if isinstance(model, Blend) else ""
        rows += [(before + what, text) for what, text in _chain_settings(part.draws_)]
    if isinstance(model, Blend):
        named = [f"{name}: {_unfitted(part)!r}" for name, part in model.models_.items()]
        members = [name for name in model.members_ if name not in model.models_]
        blend = [
            ("model", repr(_unfitted(model)) if model.models is None else "Blend"),
            ("members", ", ".join(members)),
        ]
        blend += [("models", "; ".join(named)), ("as of", "" if model.as_of_ is None else str(model.as_of_)[:19])]
        rows = [*((what, text) for what, text in blend if text), *rows]
    rows += [
        ("reported with", f"bmcd {__version__}"),
        ("data (hash)", model.clicks_.fingerprint()),
        ("k", ", ".join(str(for_k.k) for for_k in results.by_k)),
    ]
    if results.rivals:
        entries = results.by_k[0].tested.entries
        rivals = [f"{name}: {_unfitted(entries[name].model)!r}" for name in results.rivals]
        rows.append(("other methods", "; ".join(rivals)))
    return rows


def _chain_settings(draws: ChainDraws) -> list[tuple[str, str]]:
    thinned = f", one of every {draws.plan.thin:,} sweeps" if draws.plan.thin > 1 else ""
    sweeps = f"{draws.plan.warmup:,} sweeps of warm-up and {draws.n_draws:,} draws{thinned}"
    return [
        *_model_settings(draws),
        ("chains", f"{draws.n_chains}, each {sweeps}"),
        ("ended", ENDED[draws.stopped]),
        ("seed", f"{draws.seed}"),
        ("fitted with", f"bmcd {draws.version}"),
    ]


def _unfitted(model: Any) -> Any:
    """Return a model with the same settings that was not fitted, so that its repr has nothing but these."""
    return clone(model) if hasattr(model, "get_params") else model


def _diagnostics(model: BMCD | Tastes) -> Html:
    if model.draws_.n_draws < MIN_DRAWS:
        return tag("p", f"Too few draws for diagnostics: {MIN_DRAWS} of each chain are the least.")
    frame = model.diagnostics().sort_values("rhat", ascending=False).head(MOST_QUANTITIES)
    rows = []
    for row in frame.reset_index().to_dict("records"):
        ess = min(row["ess_bulk"], row["ess_tail"])
        judged = ("", "") if row["constant"] else (f"{row['rhat']:.3f}", f"{ess:,.0f}")
        rows.append((row["quantity"], f"{row['mean']:,.4g}", f"{row['mcse']:,.2g}", *judged))
    heads = ("quantity", "mean", "its error", "R-hat", "effective draws")
    return table(heads, rows, cls="numbers", caption=f"The {MOST_QUANTITIES} with the largest R-hat")
