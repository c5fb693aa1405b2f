"""What `bmcd fit` leaves and says: a few lines about a model, or facts as JSON, and no checkpoint any more."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import typer

from bmcd.cli.errors import NOT_CONVERGED, as_options
from bmcd.cli.output import complain, console, file_size, plain, rows_of, say
from bmcd.errors import StoreError

if TYPE_CHECKING:
    from rich.table import Table

    from bmcd.blend.blend import Blend
    from bmcd.models.persistence import Model
    from bmcd.models.subsample import UserSample


def is_finished(model: Model) -> bool:
    """Return whether no chain of the model was stopped before its end."""
    from bmcd.models.persistence import sampled_models

    return all(part.draws_.stopped == "finished" for part in sampled_models(model).values())


def remove_checkpoint(checkpoint: Path) -> None:
    """Remove what a finished run has left: a file with its companions, or the folder of a blend."""
    from bmcd.inference import checkpoint as chains

    if checkpoint.is_dir():
        for path in sorted(checkpoint.glob("*.checkpoint*")):
            path.unlink()
        if not any(checkpoint.iterdir()):  # else it holds what is not ours
            checkpoint.rmdir()
        return
    chains.remove_checkpoint(checkpoint)
    checkpoint.with_name(checkpoint.name + ".choice").unlink(missing_ok=True)


def is_about_checkpoint(error: BaseException, checkpoint: Path) -> bool:
    """Return whether an error is that a checkpoint, or a file in its folder, is damaged or of another run."""
    if isinstance(error, StoreError) or str(error).startswith(str(checkpoint)):
        return True
    return error.__cause__ is not None and is_about_checkpoint(error.__cause__, checkpoint)


def set_aside(checkpoint: Path) -> Path:
    """Rename a checkpoint with its companions; one that was set aside before is replaced. Return its new name."""
    from bmcd.inference.checkpoint import previous

    moved = checkpoint.with_name(checkpoint.name + ".set-aside")
    remove_checkpoint(moved)
    for old, new in ((previous(checkpoint), previous(moved)), (checkpoint, moved)):
        if old.exists():
            old.replace(new)
    return moved


def refuse(model: Model, output: Path, checkpoint: Path) -> NoReturn:
    """Say why no model was written and what to do, and end."""
    verdict = model.verdict_
    advice = " ".join(map(as_options, (verdict.text, *verdict.advice)))
    kept = f"; {checkpoint} has the draws: a run with other settings sets it aside." if checkpoint.exists() else "."
    complain(f"{advice} No model was written to {output}{kept}", "")
    raise typer.Exit(NOT_CONVERGED)


def facts(
    model: Model, choice: dict[str, Any] | None, output: Path, seconds: float, checkpoint: Path | None
) -> dict[str, Any]:
    """Return what `--json` prints; n_clusters, chains and draws are those of the first sampled model."""
    from bmcd.blend.blend import Blend
    from bmcd.models.persistence import sampled_models

    sampled, verdict, data = list(sampled_models(model).values()), model.verdict_, model.clicks_.summary()
    first = sampled[0] if sampled else None
    stopped = [part.draws_ for part in sampled if part.draws_.stopped != "finished"]
    return {
        "model": output,
        "bytes": output.stat().st_size,
        "data": {name: getattr(data, name) for name in data.__dataclass_fields__},
        **(_told_blend(model) if isinstance(model, Blend) else {}),
        "n_clusters": None if first is None else first.n_clusters_,
        "choice": choice,
        "user_sample": None if first is None or first.sample_ is None else _told_sample(first.sample_),
        "chains": None if first is None else first.draws_.n_chains,
        "draws": None if first is None else first.draws_.n_draws,
        "stopped": stopped[0].stopped if stopped else "finished",
        "note": stopped[0].note if stopped else "",
        "converged": verdict.converged,
        "verdict": verdict.text,
        "advice": list(verdict.advice),
        "seconds": round(seconds, 3),
        "checkpoint": checkpoint,
    }


def tell_fitted(model: Model, output: Path, seconds: float, checkpoint: Path | None, no_clicks: bool) -> None:
    """Say what was fitted, whether it can be trusted, where it is, and what to do next."""
    from bmcd.blend.blend import Blend
    from bmcd.models.persistence import sampled_models

    sampled, verdict = sampled_models(model), model.verdict_
    say(f"Fitted {_what(model)}, {seconds:.1f} s.")
    for part in sampled.values():
        if part.sample_ is not None:
            say(f"Users: {part.sample_}")
    if isinstance(model, Blend):
        if model.as_of_ is not None:
            say(f"As of {model.as_of_}, the time of the last click.")
        if len(model.windows_):
            console().print(_windows(model))
    say(as_options(verdict.text), style="green" if verdict.converged else "yellow")
    for advice in verdict.advice:
        say(f"- {as_options(advice)}")
    say()
    say(f"Model: {output} ({file_size(output)})")
    if checkpoint is not None:
        say(f"Checkpoint: {checkpoint} (run the same command with more time or draws to resume from it)")
    named = shlex.quote(str(output))
    say(f"Next: bmcd recommend {named}{' --histories new.csv' if no_clicks else ''}")
    if sampled:
        say(f"      bmcd clusters {named}")


def _told_blend(model: Blend) -> dict[str, Any]:
    as_of = None if model.as_of_ is None else str(model.as_of_)
    tables = {"gains": rows_of(model.gains_), "windows": rows_of(model.windows_)}
    return {"members": list(model.members_), "as_of": as_of, **tables}


def _windows(model: Blend) -> Table:
    """Return the table of what was predicted for past windows, and what was observed."""
    from rich.table import Table

    table = Table(title="The next click, lists of ten", title_justify="left")
    for heading in ("past window", "moments", "predicted", "observed"):
        table.add_column(heading, justify="left" if heading == "past window" else "right")
    for row in rows_of(model.windows_):
        table.add_row(plain(row["label"]), f"{row['n']:,}", f"{row['predicted']:.1%}", f"{row['observed']:.1%}")
    return table


def _told_sample(sample: UserSample) -> dict[str, Any]:
    return {"max_users": sample.max_users, "reason": sample.reason, "table": rows_of(sample.table)}


def _what(model: Model) -> str:
    from bmcd.blend.blend import Blend
    from bmcd.models.persistence import sampled_models
    from bmcd.models.tastes import Tastes

    chains = {
        name: f"{part.n_clusters_} {'tastes' if isinstance(part, Tastes) else 'clusters'}: "
        f"{part.draws_.n_chains} chains x {part.draws_.n_draws} draws"
        for name, part in sampled_models(model).items()
    }
    if not isinstance(model, Blend):
        return next(iter(chains.values()))
    members = [f"{name} ({chains[name]})" if name in chains else name for name in model.members_]
    return f"a blend of {', '.join(members)}"
