"""The results of all tasks of the simulation study, sorted by run and by method."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from bmcd.models.choose import end_of_fall
from experiments.simulation.plan import PSEUDO, TASTES, Size, TasteFit, task_name
from experiments.tasks import Result

BY_LEAST, BY_BEND, BY_LIKELIHOOD = "smallest MWCD (paper)", "where MWCD stops falling", "held-out likelihood"
"""The rules by which the number of clusters is chosen."""
LIMIT = "limit (true parameters)"


class Method(NamedTuple):
    """A method that recommends, and its results."""

    name: str
    paper_name: str | None
    """Its row in the paper's tables; None if it has none."""
    runs: list[Result]
    """For each run, by k as text: the measures."""

    def values(self, k: int, measure: str) -> list[float]:
        """Return a measure in all runs."""
        return [result[str(k)][measure] for result in self.runs]

    def has_probabilities(self, k: int) -> bool:
        """Return whether it says how probable its recommendations are."""
        return "mean_probability" in self.runs[0][str(k)]


class SimulationResults:
    """The results of all tasks; ``results[7, "als-5"]`` is that of the task "als-5" in run 7."""

    def __init__(self, size: Size, results: Mapping[str, Result]) -> None:
        self.size, self.by_task = size, results
        self.runs = range(1, size.runs + 1)

    def __getitem__(self, run_and_part: tuple[int, str]) -> Result:
        return self.by_task[task_name(*run_and_part)]

    @property
    def spark_runs(self) -> list[int]:
        """The runs with results of Spark."""
        return [run for run in self.runs if task_name(run, "spark") in self.by_task]

    def mwcd(self, run: int) -> dict[int, float]:
        """Return the posterior mean of the within-cluster distance by number of clusters."""
        return {c: self[run, f"bmcd-{c}"]["mwcd"] for c in self.size.candidates}

    def chosen(self, run: int) -> dict[str, int]:
        """Return the number of clusters that each rule chooses."""
        mwcd = self.mwcd(run)
        return {
            BY_LEAST: min(mwcd, key=lambda c: mwcd[c]),
            BY_BEND: end_of_fall(mwcd),
            BY_LIKELIHOOD: self[run, "held-out"]["recommended"],
        }

    def bmcd(self, rule: str) -> Method:
        """Return BMCD with the number of clusters that a rule chooses in each run."""
        runs = [self[run, f"bmcd-{self.chosen(run)[rule]}"] for run in self.runs]
        return Method(f"BMCD, C by {rule}", "BMCD", runs)

    def tastes(self, fit: TasteFit) -> Method:
        """Return a form of Tastes."""
        return Method(fit.name, None, [self[run, fit.part] for run in self.runs])

    def pseudo_mallows(self) -> list[Method]:
        """Return both forms of Pseudo-Mallows."""
        return [Method(name, None, [self[run, part] for run in self.runs]) for part, name in PSEUDO.items()]

    def als(self, k: int) -> Method:
        """Return ALS, tuned for lists of k."""
        return Method("CF (ALS)", "CF", [self[run, f"als-{k}"] for run in self.runs])

    def penalised_mf(self, k: int) -> Method:
        """Return PenalisedMF, tuned for lists of k."""
        runs = [self[run, f"penalised-{k}"] for run in self.runs]
        return Method("CF with a penalty on popular items (PenalisedMF)", None, runs)

    def limit(self) -> Method:
        """Return what the true parameters recommend."""
        return Method(LIMIT, None, [self[run, "limit"] for run in self.runs])

    def methods(self, k: int) -> list[Method]:
        """Return every method, the limit last. Spark has fewer runs, so it is not among them."""
        bmcd = map(self.bmcd, (BY_LEAST, BY_BEND, BY_LIKELIHOOD))
        popularity = Method("popularity", None, [self[run, "popularity"] for run in self.runs])
        ours = [*bmcd, *map(self.tastes, TASTES), *self.pseudo_mallows()]
        return [*ours, self.als(k), self.penalised_mf(k), popularity, self.limit()]
