"""The whole study: do what is to be done, and write the page."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

from bmcd import __version__
from experiments.document import Document
from experiments.requirements import need, why_no_spark
from experiments.simulation import figures, tables
from experiments.simulation.measure import NEXT
from experiments.simulation.plan import FULL, QUICK, Size, spark_tasks, tasks_of
from experiments.simulation.tables import BY_LEAST, BY_LIKELIHOOD, Study
from experiments.tasks import run_tasks


def reproduce_simulation(
    folder: Path,
    *,
    quick: bool = False,
    n_workers: int | None = None,
    progress: bool | None = None,
    spark: bool | None = None,
) -> Path:
    """Run the paper's simulation study and write its tables and figures; return the page.

    What is done is kept in ``folder``/results, so that a study that was stopped goes on where it was.

    Parameters
    ----------
    folder
        Made if it is not there. README.md, tables, figures and results go there.
    quick
        Three small data sets instead of 20: shows that it runs.
    n_workers
        Tasks at a time; as many as there are cores unless given. It changes no number.
    progress
        Show a bar: by default only if standard error is a terminal.
    spark
        Run SparkALS on some of the data sets; by default if pyspark and Java are installed.
    """
    need("implicit", "baselines")
    size = QUICK if quick else FULL
    results = run_tasks(
        tasks_of(size), folder / "results", n_workers=n_workers, progress=progress, what="simulation study"
    )
    if spark or (spark is None and not why_no_spark()):
        results |= run_tasks(spark_tasks(size), folder / "results", n_workers=1, progress=progress, what="Spark")
    return make_page(Study(size, results), quick=quick).write(folder)


def make_page(study: Study, *, quick: bool) -> Document:
    """All tables and figures."""
    size = study.size
    page = Document("The paper's simulation study" + (", in its quick form" if quick else ""))
    page.text(_what_was_run(size))
    if quick:
        page.text(
            "This is a small form of the study that shows that all parts run. Its numbers are not those of the "
            "study: there are fewer users, runs and sweeps than in the paper, whose numbers stand beside them."
        )
    else:
        _compare_with_paper(page, study)
    page.heading("Number of clusters")
    page.text(
        "The paper takes the number of clusters C with the smallest posterior mean of the within-cluster distance "
        "(MWCD). Here that falls a little beyond the true number, so the column beside it has the C where it stops "
        "falling fast; exact held-out likelihood is what bmcd recommends. docs/clusters.md says more."
    )
    page.table("clusters", "Runs by the number of clusters chosen", tables.clusters_table(study))
    figures.add_within_distance(page, study)
    page.heading("Accuracy")
    page.text(
        "Share of recommended items that are truly among the user's next k. Below each row that the paper has: the "
        "paper's, and the difference in standard errors, both being taken for samples of as many runs from normal "
        "distributions with their own standard deviations. The limit is what exact probabilities with the true "
        "parameters reach on the same data: no method does better on average."
    )
    page.table("accuracy", f"Accuracy, {size.runs} runs", tables.accuracy_table(study))
    figures.add_accuracy_by_clusters(page, study)
    if study.spark_runs:
        page.text(
            "CF is ALS of the package implicit, tuned by cross-validation for each k. The paper used Spark's; on "
            "some runs that is tuned (for the next 10) and evaluated as well:"
        )
        page.table("spark", "ALS of implicit and of Spark on the same data", tables.spark_table(study))
    page.heading("Cut-offs")
    page.text(
        "Recommendations with at least this probability, and how many of them are right: mean ± standard deviation "
        "over the runs (accuracy: over those that keep any). The paper does not say what its ± is. At the first "
        "cut-off, where nothing is cut off, 1.96 standard errors of the mean fit (1.96 x 0.69 % / √20 = 0.3 %) and "
        "the standard deviation of its accuracies, 0.69 %, does not; so it is taken for 1.96 standard errors. If "
        "it were the standard deviation, differences would be up to 2.3 times as many standard errors."
    )
    for k in NEXT:
        page.table(f"cutoffs-{k}", f"Cut-offs, next {k}, C by {BY_LEAST}", tables.cutoff_table(study, k, BY_LEAST))
        name = f"Cut-offs, next {k}, C by {BY_LIKELIHOOD}"
        page.table(f"cutoffs-{k}-likelihood", name, tables.cutoff_table(study, k, BY_LIKELIHOOD))
    figures.add_calibration(page, study)
    page.heading("Diversity")
    page.text(
        "The paper does not say for which k its table was made, so both stand beside it. Its intra-list similarity "
        f"of about 2 can only be that of lists of {tables.DIVERSITY_K}: a list of 10 has 45 pairs instead of 10."
    )
    for k in NEXT:
        page.table(f"diversity-{k}", f"Diversity, next {k}", tables.diversity_table(study, k))
    page.heading("Rare items")
    page.table("rare", "Rare items, mean ± standard deviation over the runs", tables.rare_table(study))
    figures.add_popularity(page, study)
    figures.add_rare_items(page, study)
    page.heading("Convergence")
    verdict = study[1, "traces"]["verdict"]
    page.text(
        f"Run 1 with C = {size.traced}, {size.chains} chains of {size.trace_warmup} + {size.trace_draws} sweeps: "
        f"{verdict}"
    )
    figures.add_traces(page, study)
    return page


def _compare_with_paper(page: Document, study: Study) -> None:
    page.heading("How far from the paper")
    far = tables.far_from_paper(study)
    if far:
        page.text(
            f"{len(far)} means differ from the paper's by more than {tables.FAR:g} standard errors:",
            "\n".join(f"* {line}" for line in far),
        )
    else:
        page.text(f"No mean of a measure differs from the paper's by more than {tables.FAR:g} standard errors.")
    notes = resources.files("experiments.simulation").joinpath("differences.md")
    page.text(notes.read_text(encoding="utf-8").strip())


def _what_was_run(size: Size) -> str:
    return (
        f"bmcd {__version__}: {size.runs} data sets (seeds 1 to {size.runs}) of {size.n_users:,} users, 50 items "
        "and three clusters with alpha = 3, Poisson(5) clicks of at least 1. BMCD: "
        f"{size.chains} chains of {size.warmup} + {size.draws} sweeps of the exact sampler for each C of "
        f"{size.candidates[0]} to {size.candidates[-1]}, probabilities from at most 40 draws. CF: "
        f"{size.folds}-fold cross-validation over clicks. Written by `bmcd reproduce simulation`."
    )
