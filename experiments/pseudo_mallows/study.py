"""The comparison of Pseudo-Mallows with the samplers: its tasks, and what stands on its page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from bmcd import __version__
from experiments.case_study.data import DataSet
from experiments.case_study.plan import DATA_SETS, quick_part
from experiments.document import Contents, Row
from experiments.pseudo_mallows.comparison import NEXT, Form, on_clicks, on_simulation
from experiments.pseudo_mallows.tiny import ORDERS, given_clicks, given_rankings
from experiments.study import Sampling, Stage, Study
from experiments.tasks import Result, Task

Lengths = Sequence[tuple[int, int, int]]


def chains(n: int, warmup: int, draws: int, thin: int = 1) -> Sampling:
    """Return the arguments of `fit` for so many chains."""
    return {"chains": n, "warmup": warmup, "draws": draws, "thin": thin}


def forms(exact: Lengths, pseudo: Lengths, paper: Lengths) -> list[Form]:
    """Return what is compared: each sampler at these lengths (chains, warm-up, draws), and kinds of the baseline.

    Its kinds are compared at its middle length, and counts, which need many draws, at the longest. Of
    the paper's iterations 20 of each chain are kept.
    """
    middle, longest = pseudo[len(pseudo) // 2], pseudo[-1]
    found = [Form(f"exact, {_shown(of)}", "exact", chains(*of), {}) for of in exact]
    found += [Form(f"Pseudo-Mallows, {_shown(of)}", "pseudo", chains(*of), {}) for of in pseudo]
    kinds: list[tuple[str, tuple[int, int, int], dict[str, Any]]] = [
        ("alpha = 3", middle, {"alpha": 3.0}),
        ("V-shaped orders for rankings too", middle, {"rankings_order": "V"}),
        ("by counts", longest, {"by_counts": True}),
    ]
    found += [
        Form(f"Pseudo-Mallows, {what}, {_shown(of)}", "pseudo", chains(*of), kind) for what, of, kind in kinds
    ]
    for n, warmup, kept in paper:
        name = f"paper's MCMC, {_shown((n, warmup, kept))}"
        found.append(Form(name, "paper", chains(n, warmup, 20, kept // 20), {}))
    return found


def _shown(lengths: tuple[int, int, int]) -> str:
    n, warmup, draws = lengths
    return f"{n} x ({warmup:,} + {draws:,})"


@dataclass(frozen=True)
class Size:
    """How large the comparison is."""

    seeds: tuple[int, ...]
    """Of the simulated data sets; those of the simulation study are others."""
    n_users: int
    exact: Lengths
    """Chains, warm-up and draws of the exact sampler."""
    pseudo: Lengths
    paper: Lengths
    reference: tuple[int, int, int]
    """Of the exact sampler whose probabilities stand for the posterior's."""
    predicting_draws: int
    """Draws of all chains that are turned into probabilities."""
    data: DataSet
    n_clusters: int
    """Of the fits to the data set; the simulated ones have three."""
    data_exact: Lengths
    data_pseudo: Lengths
    data_paper: Lengths
    data_reference: tuple[int, int, int]
    data_draws: int
    rankings: tuple[int, ...] = (1, 5, 20, 100)
    """Numbers of rankings."""
    items: int = 6
    """Of each of these rankings."""
    sets: int = 5
    sweeps: int = 20_000


FULL = Size(
    seeds=(101, 102, 103),
    n_users=3000,
    exact=((2, 5, 5), (2, 20, 20)),
    pseudo=((2, 5, 5), (2, 20, 20), (2, 100, 100)),
    paper=((2, 20_000, 20_000),),
    reference=(4, 25, 50),
    predicting_draws=20,
    data=DATA_SETS["eshop-1"],
    n_clusters=10,
    data_exact=((2, 10, 6),),
    data_pseudo=((2, 10, 6), (2, 40, 24), (2, 120, 72)),
    data_paper=((2, 20_000, 20_000),),
    data_reference=(2, 40, 24),
    data_draws=12,
)
QUICK = Size(
    seeds=(101,),
    n_users=200,
    exact=((2, 4, 4),),
    pseudo=((2, 4, 4),),
    paper=((2, 100, 100),),
    reference=(2, 5, 5),
    predicting_draws=20,
    data=quick_part(DATA_SETS["eshop-1"]),
    n_clusters=2,
    data_exact=((2, 3, 3),),
    data_pseudo=((2, 3, 3),),
    data_paper=((2, 100, 100),),
    data_reference=(2, 4, 4),
    data_draws=4,
    rankings=(1, 2),
    items=4,
    sets=1,
    sweeps=200,
)
ALPHAS = (1.0, 3.0, 6.0)
# Users and items of the tiny problems with clicks.
TINY = ((10, 4), (10, 5), (100, 5))


class PseudoStudy(Study):
    """Pseudo-Mallows beside the exact sampler and the paper's MCMC.

    Parameters
    ----------
    quick
        A few users and sweeps: shows that everything runs.
    """

    package = __package__

    def __init__(self, *, quick: bool = False) -> None:
        self.quick, self.size = quick, QUICK if quick else FULL

    def stages(self, results: Mapping[str, Result]) -> Iterator[Stage]:
        """Yield all tasks; they need nothing of each other."""
        size = self.size
        compared = [list(form) for form in forms(size.exact, size.pseudo, size.paper)]
        tasks = []
        for seed in size.seeds:
            arguments = {"seed": seed, "n_users": size.n_users, "n_clusters": 3, "forms": compared}
            arguments |= {"reference": chains(*size.reference), "max_draws": size.predicting_draws}
            tasks.append(Task(f"simulation/{seed}", on_simulation, arguments, 150))
        compared = [list(form) for form in forms(size.data_exact, size.data_pseudo, size.data_paper)]
        arguments = {"data": asdict(size.data), "n_clusters": size.n_clusters, "forms": compared}
        arguments |= {"reference": chains(*size.data_reference), "max_draws": size.data_draws}
        tasks.append(Task(f"clicks/{size.data.name}", on_clicks, arguments, 400))
        for n in size.rankings:
            for alpha in ALPHAS:
                arguments = {"alpha": alpha, "n_users": n, "n_items": size.items, "seed": 0}
                arguments["n_sets"] = 1 if n == 1 else size.sets
                tasks.append(Task(f"tiny/{n}-{alpha:g}", given_rankings, arguments, 5 + n))
        for n_users, n_items in TINY:
            for order in ("any", "V"):
                arguments = {"alpha": 3.0, "n_users": n_users, "n_items": n_items, "n_sweeps": size.sweeps}
                arguments |= {"seed": 0, "rankings_order": order}
                tasks.append(Task(f"tiny/clicks-{n_users}-{n_items}-{order}", given_clicks, arguments, 2))
        yield Stage("comparison", tasks)

    def contents(self, results: Mapping[str, Result]) -> Contents:
        """Return the words and tables of page.md."""
        size, name = self.size, self.size.data.name
        words = {
            "form": ", in its quick form" if self.quick else "",
            "version": __version__,
            "size": size,
            "seeds": ", ".join(map(str, size.seeds)),
            "reference": _shown(size.reference),
            "data": name,
            "data_reference": _shown(size.data_reference),
            "k": size.data.remove,
        }
        simulated = [results[f"simulation/{seed}"] for seed in size.seeds]
        rows = {
            "simulation": table(simulated, NEXT),
            "clicks": table([results[f"clicks/{name}"]], (size.data.remove,)),
            "rankings": [
                {"rankings": n, "alpha": alpha, **_by_order(results[f"tiny/{n}-{alpha:g}"])}
                for n in size.rankings
                for alpha in ALPHAS
            ],
            "tiny": [
                {
                    "users": n_users,
                    "items": n_items,
                    "order of a ranking's items": order,
                    "total variation": round(measured["tv"], 4),
                    "between halves of the chain": round(measured["tv_between_halves"], 4),
                }
                for n_users, n_items in TINY
                for order in ("any", "V")
                if (measured := results[f"tiny/clicks-{n_users}-{n_items}-{order}"])
            ],
        }
        return Contents(words, rows, {})


def table(runs: Sequence[Result], list_lengths: Sequence[int]) -> Iterator[Row]:
    """Yield the measures of every form, means over the runs."""
    for name in runs[0]:
        of_form = [run[name] for run in runs]
        row: Row = {"method": name, "CPU s of the fit": f"{np.mean([run['fit_seconds'] for run in of_form]):.1f}"}
        for k in list_lengths:
            means = {
                measure: float(np.mean([run[str(k)][measure] for run in of_form]))
                for measure in ("accuracy", "ece", "distance", "seconds")
            }
            row[f"next {k}: accuracy %"] = f"{100 * means['accuracy']:.2f}"
            row[f"next {k}: ECE"] = f"{means['ece']:.4f}"
            row[f"next {k}: distance"] = "" if name == "reference" else f"{means['distance']:.4f}"
            row[f"next {k}: CPU s"] = f"{means['seconds']:.1f}"
        yield row


def _by_order(measured: Result) -> Row:
    return {
        f"{order}: {shown}": round(max(measured[order][name], 0.0), 4)  # not -0 by rounding
        for order in ORDERS
        for name, shown in (("kl", "KL"), ("tv", "total variation"))
    }
