"""The command line: `bmcd`."""

from __future__ import annotations

import typer

app = typer.Typer(
    help="Diverse recommendations from click logs, each with a probability you can trust.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


@app.callback()
def main() -> None:
    """Keep `demo` a command of its own while it is the only one."""


@app.command(epilog="Example: bmcd demo --seed 1")
def demo(
    users: int = typer.Option(3000, min=3, help="How many users to simulate."),
    seed: int = typer.Option(0, min=0, help="The same seed gives the same numbers."),
) -> None:
    """Simulate the paper's click data and show how well it can be predicted at best.

    Nothing is fitted: the probabilities come from the true consensus rankings, so they are the limit that any
    method can reach on average.
    """
    import numpy as np
    from rich.console import Console
    from rich.table import Table

    import bmcd

    console = Console()
    simulation = bmcd.simulate(n_users=users, seed=seed)
    console.print("[bold]Simulated clicks[/bold], as in the paper: three clusters of users, alpha = 3")
    console.print(f"{simulation.clicks.summary()}\n", highlight=False)

    table = Table(title="The limit: recommendations with the true parameters", title_justify="left")
    for column in ("recommended", "hits among them", "mean probability given"):
        table.add_column(column, justify="right")
    for k in (5, 10):
        probability = simulation.true_probabilities(k)
        best = np.argsort(-probability, axis=1, kind="stable")[:, :k]
        hits = np.take_along_axis(simulation.next_items(k).matrix.toarray(), best, axis=1).mean()
        given = np.take_along_axis(probability, best, axis=1).mean()
        table.add_row(f"next {k}", f"{hits:.1%}", f"{given:.1%}")
    console.print(table)
