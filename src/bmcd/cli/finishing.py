"""Work that Ctrl-C must not cut in two: a model is written whole or not at all."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def held_back() -> Iterator[Callable[[], bool]]:
    """Hold Ctrl-C back until the block is done; what is given says whether it came."""
    came = threading.Event()
    if threading.current_thread() is not threading.main_thread():  # which alone hears signals
        yield came.is_set
        return
    before = signal.signal(signal.SIGINT, lambda *_: came.set())
    try:
        yield came.is_set
    finally:
        signal.signal(signal.SIGINT, before)
