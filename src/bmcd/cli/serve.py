"""`bmcd serve`: a model as an HTTP service, for machines and, on its page, for editors."""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bmcd.cli.errors import held_back
from bmcd.cli.options import USUAL, AsJson, IgnoreUnknown, Layout, ModelFile, as_known, logged, option
from bmcd.cli.output import print_json, say
from bmcd.progress import QUIET
from bmcd.utils import import_optional

if TYPE_CHECKING:
    from bmcd.serve.served_model import ServedModel

KEY = "BMCD_SERVE_KEY"
KeyFile = Annotated[
    Path | None, option(f"A file with the key of the service. Default: the variable {KEY}, if it is set.")
]
of_live = partial(option, rich_help_panel="Live use")
limit = partial(option, rich_help_panel="Limits", min=1)


def serve(
    model: ModelFile,
    host: Annotated[str, option("Listen on this address; 0.0.0.0 is for all.")] = "127.0.0.1",
    port: Annotated[int, option("0 takes a free one.", min=0, max=65535)] = 8000,
    watch: Annotated[
        bool, option("Load the file again when it changes; if that fails, the previous model stays.", "--watch")
    ] = False,
    key_file: KeyFile = None,
    no_key: Annotated[
        bool, option("Serve without a key although --host lets other machines reach it.", "--no-key")
    ] = False,
    allow_host: Annotated[
        list[str] | None, option("A host name of this service, such as a proxy's; may be repeated.")
    ] = None,
    test: Annotated[
        Path | None, option("Test clicks, which were not fitted to: /v1/model then has calibration on them.")
    ] = None,
    live: Annotated[
        Path | None,
        of_live(
            "Record clicks (POST /v1/clicks) in this folder, and count them: docs/live.md.", "--live", metavar="DIR"
        ),
    ] = None,
    refresh: Annotated[
        str | None,
        of_live("Time within which a click counts for all users: seconds, or such as 5min. Default: 60."),
    ] = None,
    keep: Annotated[
        str | None, of_live("How long clicks count, such as 72h. Default: as long as they influence the counts.")
    ] = None,
    slots: Annotated[int | None, limit("Requests answered at the same time. Default: one per core.")] = None,
    queue: Annotated[int, limit("Requests that may wait; others get status 429.")] = 128,
    max_body: Annotated[int, limit("Bytes of a request.")] = 2**20,
    max_people: Annotated[int, limit("People in a request.")] = 500,
    max_clicks: Annotated[int, limit("Clicks of a person.")] = 5_000,
    max_k: Annotated[int, limit("Recommendations for a person.")] = 200,
    max_recommendations: Annotated[int, limit("Recommendations in an answer: people x k.")] = 20_000,
    max_seconds: Annotated[float, limit("Seconds for an answer, waiting included.", min=0.01)] = 30.0,
    max_arrival: Annotated[
        float,
        limit("Seconds until the head of a request has arrived, then its body; also to read the answer.", min=0.01),
    ] = 10.0,
    max_connections: Annotated[int, limit("Open connections; 32 more are kept for /health.")] = 1_000,
    grace: Annotated[int, limit("Seconds until it ends after SIGTERM.")] = 20,
    layout: Layout = USUAL,
    ignore_unknown: IgnoreUnknown = False,
    as_json: AsJson = False,
) -> None:
    """Serve a model over HTTP: POST /v1/recommend for machines, a page for editors at /, the addresses at /docs.

    SIGHUP, POST /v1/reload or, with --watch, a change of the file loads it again; if that fails, the previous model
    stays in use. docs/serving.md has more.
    """
    # A SIGHUP that comes before the service can act on it would otherwise end the process.
    with held_back(signal.SIGHUP) if hasattr(signal, "SIGHUP") else nullcontext(lambda: False) as reload_wanted:
        for package in ("fastapi", "prometheus_client", "uvicorn", "httptools"):
            import_optional(package, needed_by="bmcd serve", extra="serve")
        from bmcd.serve.server import serve as run
        from bmcd.serve.settings import Limits, LiveSettings, Settings

        options: dict[str, Any] = {} if slots is None else {"slots": slots}
        if live is not None:
            if test is not None:
                raise typer.BadParameter(
                    "--test is for a model that stays the same: with --live lists are compared with later clicks."
                )
            if watch:
                raise typer.BadParameter(
                    "--watch is for a file that others write: with --live the service writes it."
                )
            options["live"] = LiveSettings(live, 60.0 if refresh is None else _seconds(refresh), keep)
        elif refresh is not None or keep is not None:
            raise typer.BadParameter("--refresh and --keep need --live.")
        limits = Limits(
            max_body, max_people, max_clicks, max_k, max_recommendations, seconds=max_seconds,
            arrival_seconds=max_arrival,
        )  # fmt: skip
        settings = Settings(
            model, host=host, port=port, watch=watch, key=read_key(key_file), no_key=no_key,
            connections=max_connections, queue=queue, grace=grace, hosts=tuple(allow_host or ()), limits=limits,
            calibration=None if test is None else _calibration(test, layout, ignore_unknown), **options,
        )  # fmt: skip

        def started(address: str, served: ServedModel) -> None:
            if as_json:
                print_json({"address": address, "model": model, "hash": served.hash})
            else:
                say(f"{address} serves {model} ({served.hash[:12]}): Ctrl-C stops it.")

        level = logging.WARNING if os.environ.get(QUIET) else logging.INFO
        logging.getLogger("bmcd.serve").setLevel(level)
        # The access log has a JSON object per request.
        with logged(logging.getLogger("bmcd.access"), "%(message)s", level, alone=True):
            run(settings, started, reload_wanted)


def read_key(path: Path | None) -> str | None:
    """Return the key from a file or the environment, without the end of the line."""
    if path is None:
        return os.environ.get(KEY) or None
    try:
        return path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise typer.BadParameter(f"{path}: the key cannot be read: {error}.", param_hint="--key-file") from error


def _seconds(refresh: str) -> float:
    """Return seconds, given as a number or a duration.

    >>> _seconds("15"), _seconds("5min")
    (15.0, 300.0)
    """
    from bmcd.clicks.times import read_duration

    return float(refresh) if refresh.replace(".", "", 1).isdigit() else read_duration(refresh, "refresh") / 1e6


def _calibration(test: Path, layout: Layout, ignore_unknown: bool) -> Callable[[Any], dict[str, Any]]:
    """Return a function that measures the calibration of a model on these test clicks."""
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
