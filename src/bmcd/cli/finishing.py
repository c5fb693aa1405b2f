"""Work that a signal must not cut short: a model is written whole or not at all, a service starts in any case."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def held_back(number: int = signal.SIGINT) -> Iterator[Callable[[], bool]]:
    """Hold Ctrl-C or another signal back until the block is done; the function returned tells whether it came."""
    came = threading.Event()
    if threading.current_thread() is not threading.main_thread():  # which alone hears signals
        yield came.is_set
        return
    before = signal.signal(number, lambda *_: came.set())
    try:
        yield came.is_set
    finally:
        signal.signal(number, before)
