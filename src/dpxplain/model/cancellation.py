"""Cooperative cancellation of one request while other requests go on.

The server runs a request inside `stoppable`; long computations call `check_stop` between steps, and engines
wrap each pass in `interruptible`. Outside `stoppable`, as in a notebook, a check does nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

T = TypeVar("T")


class Stopped(Exception):
    """The request was cancelled or has run for too long."""


class Stop:
    """A request's stop flag, set from any thread and never cleared, so the request's next step raises.

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
        """Sets the flag and interrupts running passes; repeat it for a pass that was about to begin."""
        with self._lock:
            self.asked = True
            for interrupt in self._interrupts:
                interrupt()

    def check(self) -> None:
        if self.asked:
            raise Stopped

    @contextmanager
    def interrupting(self, interrupt: Callable[[], None]) -> Iterator[None]:
        """While the block runs, `ask` also calls `interrupt`; for code that cannot call `check` itself."""
        with self._lock:
            self.check()
            self._interrupts.append(interrupt)
        try:
            yield
        finally:
            with self._lock:  # once removed, the interrupted cursor may serve another request
                self._interrupts.remove(interrupt)


_CURRENT: ContextVar[Stop | None] = ContextVar("dpxplain_stop", default=None)


@contextmanager
def stoppable(stop: Stop) -> Iterator[None]:
    """Makes `stop` the current stop of this thread (and its context) for the length of the block."""
    token = _CURRENT.set(stop)
    try:
        yield
    finally:
        _CURRENT.reset(token)


def current_stop() -> Stop | None:
    """The stop of the current request; None outside `stoppable`."""
    return _CURRENT.get()


def check_stop() -> None:
    """Raises `Stopped` if the current request is to stop."""
    stop = _CURRENT.get()
    if stop is not None:
        stop.check()


@contextmanager
def interruptible(interrupt: Callable[[], None]) -> Iterator[None]:
    """Wraps one pass over the data; a stop of the current request calls `interrupt` from its own thread."""
    stop = current_stop()
    if stop is None:
        yield
    else:
        with stop.interrupting(interrupt):
            yield


def checking(items: Iterable[T]) -> Iterator[T]:
    """The items, with a `check_stop` before each.

    >>> stop = Stop()
    >>> with stoppable(stop):
    ...     for item in checking("abc"):
    ...         print(item)
    ...         stop.ask()
    Traceback (most recent call last):
    dpxplain.model.cancellation.Stopped
    """
    for item in items:
        check_stop()
        yield item
