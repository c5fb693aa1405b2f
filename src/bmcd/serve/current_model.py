"""The model that answers now, and how another takes its place: load, warm, then swap; or else the old one stays."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from pathlib import Path
from typing import Any

from bmcd.errors import BmcdError
from bmcd.serve.metrics import Metrics
from bmcd.serve.problems import Problem
from bmcd.serve.served_model import ServedModel, state_of
from bmcd.serve.settings import Settings

log = logging.getLogger("bmcd.serve")

# With --watch: seconds between two looks at the file. It is loaded when two looks in a row find the same change.
LOOK_SECONDS = 1.0


class CurrentModel:
    """The model in use. Whoever takes it keeps it to the end of the answer, whatever is loaded meanwhile."""

    def __init__(self, settings: Settings, metrics: Metrics) -> None:
        self.settings, self.metrics = settings, metrics
        self._model: ServedModel | None = None
        self.ready = asyncio.Event()
        self._loading = asyncio.Lock()
        self._next: asyncio.Task[dict[str, Any]] | None = None

    @property
    def is_ready(self) -> bool:
        """Whether a model has been loaded and has answered one full question."""
        return self._model is not None

    def get(self) -> ServedModel:
        """Return the model in use, or raise `Problem` while the first one is made ready."""
        if self._model is None:
            raise Problem(
                503, "The model is being made ready. Try again in a moment.", headers={"Retry-After": "1"}
            )
        return self._model

    async def start(self, loaded: ServedModel) -> None:
        """Make the first model ready and put it into use."""
        await _in_thread(self._prepare, loaded)
        self._put(loaded)

    async def reload(self) -> dict[str, Any]:
        """Load the file again, make it ready, put it into use; if that fails, change nothing and raise.

        All who ask before a load begins share it: however many ask, one load runs and at most one waits.
        """
        self.get()
        if self._next is None:
            self._next = asyncio.create_task(self._reload())
            self._next.add_done_callback(
                lambda done: done.cancelled() or done.exception()
            )  # if nobody waits for it
        return await asyncio.shield(self._next)

    async def watch(self) -> None:
        """Reload whenever the file has changed and is no longer changing; never return.

        A file that cannot be loaded is tried once: the next attempt is after its next change.
        """
        await self.ready.wait()
        tried = before = self.get().file_state
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            now = await _in_thread(state_of, self.settings.path)
            if now == before and now not in (tried, self.get().file_state):
                tried = now
                if now is None:
                    log.warning("%s is gone: the model in use stays", self.settings.path)
                    continue
                with contextlib.suppress(Problem):  # the log has it
                    await self.reload()
            before = now

    async def _reload(self) -> dict[str, Any]:
        async with self._loading:
            self._next = None  # who asks from now on may mean a newer file
            old = self.get()
            try:
                new = await _in_thread(self._load, self.settings.path)
            except Exception as error:  # whatever is wrong with the file, the old model goes on
                self.metrics.reloads.labels("failed").inc()
                if not isinstance(error, BmcdError):
                    log.exception("the model was not reloaded")
                reason = str(error) or type(error).__name__
                log.error("the model was not reloaded: %s", reason)
                raise Problem(
                    409, f"The file was not taken: {reason} The model with hash {old.hash[:12]} goes on answering."
                ) from error
            self._put(new)
            self.metrics.reloads.labels("done").inc()
            return {"model": new.hash, "before": old.hash, "changed": new.hash != old.hash}

    def _load(self, path: Path) -> ServedModel:
        return self._prepare(ServedModel.from_file(path))

    def _prepare(self, model: ServedModel) -> ServedModel:
        if self.settings.calibration is not None:
            model.calibration = self.settings.calibration(model.model)
        model.warm()
        return model

    def _put(self, model: ServedModel) -> None:
        self._model = model
        self.ready.set()
        self.metrics.show_model(model.hash, type(model.model).__name__)
        log.info("ready: %s, %s", model.hash[:12], model.about["description"])


async def _in_thread(work: Any, *arguments: Any) -> Any:
    """Return what the work gives, done in a daemon thread of its own: neither slots nor the end wait for it."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[Any] = loop.create_future()

    def settle(result: Any, error: BaseException | None) -> None:
        if not done.done():
            done.set_result(result) if error is None else done.set_exception(error)

    def run() -> None:
        try:
            outcome: tuple[Any, BaseException | None] = (work(*arguments), None)
        except BaseException as error:
            outcome = (None, error)
        if not loop.is_closed():
            loop.call_soon_threadsafe(settle, *outcome)

    threading.Thread(target=run, name="bmcd-loading", daemon=True).start()
    return await done
