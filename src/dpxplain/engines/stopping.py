"""Stopping one request's pass over the data while the passes of others go on.

Whoever runs a request opens `stoppable`; an engine wraps each pass in `interruptible`. Without a request
around it, as in a notebook, a pass cannot be stopped and nothing here costs anything.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar


class Stopped(Exception):
    """The request was cancelled or has run for too long."""


class Stop:
    """A wish to stop, asked from any thread. It stays: later passes of the request do not begin.

    >>> stop = Stop()
    >>> stop.ask()
    >>> stop.asked
    True
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._interrupts: list[Callable[[], None]] = []
        self.asked = False

    def ask(self) -> None:
        """Interrupt what runs. Asking again is harmless, and needed where a pass was just about to begin."""
        with self._lock:
            self.asked = True
            for interrupt in self._interrupts:
                interrupt()

    def check(self) -> None:
        if self.asked:
            raise Stopped

    @contextmanager
    def _while_running(self, interrupt: Callable[[], None]) -> Iterator[None]:
        with self._lock:
            self.check()
            self._interrupts.append(interrupt)
        try:
            yield
        finally:
            with self._lock:  # from here on the connection may serve another request
                self._interrupts.remove(interrupt)


_CURRENT: ContextVar[Stop | None] = ContextVar("dpxplain_stop", default=None)


@contextmanager
def stoppable(stop: Stop) -> Iterator[None]:
    """Passes begun in this thread inside the block end when `stop` is asked."""
    token = _CURRENT.set(stop)
    try:
        yield
    finally:
        _CURRENT.reset(token)


@contextmanager
def interruptible(interrupt: Callable[[], None]) -> Iterator[None]:
    """One pass; `interrupt` ends it from another thread."""
    stop = _CURRENT.get()
    if stop is None:
        yield
    else:
        with stop._while_running(interrupt):
            yield
