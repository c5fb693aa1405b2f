"""Slots: threads that answer requests away from the event loop, with a bounded queue."""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from typing import Any, Generic, TypeVar

from bmcd.serve.messages import Problem

T = TypeVar("T")
_of_thread = threading.local()
# Weight of the latest request in the mean time per request.
NEWEST = 0.1


class Unwanted(Exception):
    """The answer that a slot works on is no longer needed."""


class Question(Future[T], Generic[T]):
    """A request that waits or is being answered."""

    is_unwanted = False


def stop_if_unwanted() -> None:
    """Raise `Unwanted` if the answer of this thread is no longer needed; long work calls it regularly."""
    question = getattr(_of_thread, "question", None)
    if question is not None and question.is_unwanted:
        raise Unwanted


class Slots:
    """Threads that answer requests. They are daemons: a busy one does not keep the process from ending."""

    def __init__(self, n: int, queue: int, *, start: bool = True) -> None:
        self.n, self.queue = n, queue
        self._waiting: dict[Question[Any], Callable[[], Any]] = {}  # in order of arrival
        self._changed = threading.Condition()
        self._working: set[Question[Any]] = set()
        self._is_closing = False
        self._mean_seconds = 0.01
        for number in range(n if start else 0):
            threading.Thread(target=self._work, name=f"bmcd-slot-{number}", daemon=True).start()

    @property
    def waiting(self) -> int:
        """The number of requests that wait."""
        return len(self._waiting)

    @property
    def busy(self) -> int:
        """The number of requests that are being answered."""
        return len(self._working)

    async def run(self, work: Callable[[], T], seconds: float, gone: Awaitable[Any] | None = None) -> T:
        """Return what ``work`` returns, or raise what it raises.

        Raise `Problem` if too many requests wait, if it takes longer than ``seconds``, or if ``gone`` is done
        first, which means that the caller has disconnected. A request that is no longer needed is removed from the
        queue; work on it ends at its next call of `stop_if_unwanted`, which frees the slot.
        """
        question = self.submit(work)
        answer = asyncio.wrap_future(question)
        disconnected = None if gone is None else asyncio.ensure_future(gone)
        try:
            ends = {answer} if disconnected is None else {answer, disconnected}
            await asyncio.wait(ends, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            if answer.done():
                return answer.result()
            if disconnected is not None and disconnected.done():
                raise Problem(499, "The caller has disconnected.")
            said = f"The answer took longer than {seconds:g} s, waiting included. Ask for fewer people at a time."
            raise Problem(504, said, retry=self.seconds_to_wait())
        finally:
            if disconnected is not None:
                disconnected.cancel()
            if not answer.done():
                self._forget(question)
                answer.cancel()

    def submit(self, work: Callable[[], T]) -> Question[T]:
        """Put a request into the queue, or raise `Problem` if it is full."""
        question: Question[T] = Question()
        with self._changed:
            if len(self._waiting) - (self.n - self.busy) >= self.queue:
                wait = self.seconds_to_wait()
                said = f"{len(self._waiting)} requests wait; the limit is {self.queue}. Try again in {wait} s."
                raise Problem(429, said, retry=wait)
            self._waiting[question] = work
            self._changed.notify()
        return question

    def seconds_to_wait(self) -> int:
        """Return the expected seconds until the waiting requests are answered, at least 1."""
        return max(1, math.ceil(len(self._waiting) * self._mean_seconds / self.n))

    def close(self, seconds: float) -> None:
        """Stop the work and wait for it: Python may abort if it ends while a thread computes."""
        with self._changed:
            self._is_closing = True
            self._waiting.clear()
            for question in self._working:
                question.is_unwanted = True
            self._changed.wait_for(lambda: not self._working, seconds)

    def _forget(self, question: Question[Any]) -> None:
        question.is_unwanted = True
        with self._changed:
            self._waiting.pop(question, None)

    def _work(self) -> None:
        while True:
            with self._changed:
                while not self._waiting:
                    self._changed.wait()
                question = next(iter(self._waiting))
                work = self._waiting.pop(question)
                if not question.set_running_or_notify_cancel():
                    continue
                self._working.add(question)
            started, _of_thread.question = time.perf_counter(), question
            try:
                result, error = work(), None
            except BaseException as caught:
                result, error = None, caught
            with self._changed:
                self._working.discard(question)
                if self._is_closing:
                    self._changed.notify_all()
                self._mean_seconds += NEWEST * (time.perf_counter() - started - self._mean_seconds)
            if error is None:
                question.set_result(result)
            else:
                question.set_exception(error)
            _of_thread.question = None
            del work, question, result, error  # a waiting slot keeps no references
