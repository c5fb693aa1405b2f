"""`bmcd serve`: a model as an HTTP service, for machines and, on its page, for editors."""

from __future__ import annotations

import logging
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bmcd.cli.errors import held_back
from bmcd.cli.options import USUAL, IgnoreUnknown, Layout, ModelFile, as_known
from bmcd.cli.output import print_json, say
from bmcd.progress import QUIET
from bmcd.utils import import_optional

if TYPE_CHECKING:
    from bmcd.serve.served_model import ServedModel

KEY = "BMCD_SERVE_KEY"
LIMITS, LIVE = "Limits", "Live use"


def serve(
    model: ModelFile,
    host: Annotated[str, typer.Option(help="Listen on this address; 0.0.0.0 is for all.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes a free one.")] = 8000,
    watch: Annotated[
        bool,
        typer.Option("--watch", help="Load the file again whenever it changes; a bad file keeps the old model."),
    ] = False,
    key_file: Annotated[
        Path | None,
        typer.Option(help=f"A file with the key that callers must send; by default the variable {KEY}, if set."),
    ] = None,
    no_key: Annotated[
        bool, typer.Option("--no-key", help="Serve without a key although --host lets other machines reach it.")
    ] = False,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(help="A name by which callers know this service, such as a proxy's; may be repeated."),
    ] = None,
    test: Annotated[
        Path | None, typer.Option(help="Clicks it has not seen: /v1/model then tells how the promises came true.")
    ] = None,
    live: Annotated[
        Path | None,
        typer.Option(
            "--live",
            rich_help_panel=LIVE,
            metavar="DIR",
            help="Record clicks (POST /v1/clicks) in this folder, and count them: docs/live.md.",
        ),
    ] = None,
    refresh: Annotated[
        str | None,
        typer.Option(
            rich_help_panel=LIVE,
            help="Within which a click counts for everybody: seconds, or a duration such as 5min. By default 60.",
        ),
    ] = None,
    keep: Annotated[
        str | None,
        typer.Option(
            rich_help_panel=LIVE,
            help="How long clicks count, such as 72h; by default as long as they make a difference to the counts.",
        ),
    ] = None,
    slots: Annotated[
        int | None, typer.Option(min=1, rich_help_panel=LIMITS, help="Questions at a time; by default one a core.")
    ] = None,
    queue: Annotated[
        int, typer.Option(min=1, rich_help_panel=LIMITS, help="Questions that may wait; others get status 429.")
    ] = 128,
    max_body: Annotated[int, typer.Option(min=1, rich_help_panel=LIMITS, help="Bytes of a request.")] = 2**20,
    max_people: Annotated[int, typer.Option(min=1, rich_help_panel=LIMITS, help="People in a request.")] = 500,
    max_clicks: Annotated[int, typer.Option(min=1, rich_help_panel=LIMITS, help="Clicks of a person.")] = 5_000,
    max_k: Annotated[int, typer.Option(min=1, rich_help_panel=LIMITS, help="Recommendations for a person.")] = 200,
    max_recommendations: Annotated[
        int, typer.Option(min=1, rich_help_panel=LIMITS, help="Recommendations in an answer: people x k.")
    ] = 20_000,
    max_seconds: Annotated[
        float, typer.Option(min=0.01, rich_help_panel=LIMITS, help="For an answer, waiting included.")
    ] = 30.0,
    max_arrival: Annotated[
        float,
        typer.Option(
            min=0.01,
            rich_help_panel=LIMITS,
            help="Seconds until the head of a request must have arrived, then its body; also to read the answer.",
        ),
    ] = 10.0,
    max_connections: Annotated[
        int, typer.Option(min=1, rich_help_panel=LIMITS, help="Open connections; 32 more are kept for /health.")
    ] = 1_000,
    grace: Annotated[
        int, typer.Option(min=1, rich_help_panel=LIMITS, help="Seconds in which it ends after SIGTERM.")
    ] = 20,
    layout: Layout = USUAL,
    ignore_unknown: IgnoreUnknown = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print address and model as one JSON object.")] = False,
) -> None:
    """Serve a model over HTTP: POST /v1/recommend for machines, a page for editors at /, the addresses at /docs.

    SIGHUP, POST /v1/reload or, with --watch, a change of the file loads it again; the old model stays if that
    fails.
    docs/serving.md has more.
    """
    with _hangup_noted() as reload_wanted:
        import_optional("fastapi", needed_by="bmcd serve", extra="serve")
        import_optional("prometheus_client", needed_by="bmcd serve", extra="serve")
        import_optional("uvicorn", needed_by="bmcd serve", extra="serve")
        import_optional("httptools", needed_by="bmcd serve", extra="serve")
        from bmcd.serve.server import serve as run
        from bmcd.serve.settings import Limits, LiveSettings, Settings

        options: dict[str, Any] = {} if slots is None else {"slots": slots}
        if live is not None:
            if test is not None:
                raise typer.BadParameter(
                    "--test is for a model that stays: with --live the lists given are compared."
                )
            if watch:
                raise typer.BadParameter(
                    "--watch is for a file that others write: with --live the service writes it."
                )
            options["live"] = LiveSettings(live, 60.0 if refresh is None else _seconds(refresh), keep)
        elif refresh is not None or keep is not None:
            raise typer.BadParameter("--refresh and --keep need --live.")
        limits = Limits(
            max_body,
            max_people,
            max_clicks,
            max_k,
            max_recommendations,
            seconds=max_seconds,
            arrival_seconds=max_arrival,
        )
        settings = Settings(
            model,
            host=host,
            port=port,
            watch=watch,
            key=_key(key_file),
            no_key=no_key,
            connections=max_connections,
            queue=queue,
            grace=grace,
            hosts=tuple(allow_host or ()),
            limits=limits,
            calibration=None if test is None else _calibration(test, layout, ignore_unknown),
            **options,
        )

        def started(address: str, served: ServedModel) -> None:
            if as_json:
                print_json({"address": address, "model": model, "hash": served.hash})
            else:
                say(f"{address} serves {model} ({served.hash[:12]}): Ctrl-C stops it.")

        with _access_log():
            run(settings, started, reload_wanted)


def _hangup_noted() -> AbstractContextManager[Callable[[], bool]]:
    """Note a SIGHUP that comes before the service can act on it, which would otherwise end the process."""
    return held_back(signal.SIGHUP) if hasattr(signal, "SIGHUP") else nullcontext(lambda: False)


@contextmanager
def _access_log() -> Iterator[None]:
    """Write a JSON object to standard error for every request, as it is; --quiet leaves these and notes out."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(message)s"))
    log, notes = logging.getLogger("bmcd.access"), logging.getLogger("bmcd.serve")
    log.addHandler(handler)
    log.propagate = False
    for one in (log, notes):
        one.setLevel(logging.WARNING if os.environ.get(QUIET) else logging.INFO)
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.propagate = True


def _key(path: Path | None) -> str | None:
    """The key, out of a file or the environment, without the line's end."""
    if path is None:
        return os.environ.get(KEY) or None
    try:
        return path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise typer.BadParameter(f"{path}: the key cannot be read: {error}.", param_hint="--key-file") from error


def _seconds(refresh: str) -> float:
    """A number of seconds, or a duration.

    >>> _seconds("15"), _seconds("5min")
    (15.0, 300.0)
    """
    from bmcd.clicks.times import read_duration

    return float(refresh) if refresh.replace(".", "", 1).isdigit() else read_duration(refresh, "refresh") / 1e6


def _calibration(test: Path, layout: Layout, ignore_unknown: bool) -> Callable[[Any], dict[str, Any]]:
    """A function that measures on these test clicks how the promises of a model come true."""
    import bmcd

    clicks = layout.read(test)

    def measure(model: Any) -> dict[str, Any]:
        held_out = as_known(clicks, model.clicks_with_users(), ignore_unknown)
        k = int(held_out.per_user.max())
        users = held_out.users[held_out.per_user > 0]
        found = bmcd.evaluate(model.recommend(k, users, progress=False), model.clicks_, held_out, k=k)
        calibration = found.calibration
        assert calibration is not None  # these recommendations have probabilities
        return {
            "measured_on": test.name,
            "k": k,
            "users": found.n_users,
            "promised": float(calibration.probability.mean()),
            "hit_rate": found.accuracy,
            "brier": calibration.brier,
            "expected_calibration_error": calibration.expected_calibration_error,
        }

    return measure
