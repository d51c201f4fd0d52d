"""Stopping one request while those of others go on.

Whoever runs a request opens `stoppable`; whatever may take long calls `check_stop` now and then. Without a
request around it, as in a notebook, nothing is ever stopped and a check costs next to nothing.
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
    """A wish to stop, asked from any thread. It stays: what the request would do next does not begin.

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
    def interrupting(self, interrupt: Callable[[], None]) -> Iterator[None]:
        """While the block runs, asking also calls `interrupt`; for what cannot look for itself."""
        with self._lock:
            self.check()
            self._interrupts.append(interrupt)
        try:
            yield
        finally:
            with self._lock:  # from here on what is interrupted may serve another request
                self._interrupts.remove(interrupt)


_CURRENT: ContextVar[Stop | None] = ContextVar("dpxplain_stop", default=None)


@contextmanager
def stoppable(stop: Stop) -> Iterator[None]:
    """What this thread does inside the block ends soon after `stop` is asked."""
    token = _CURRENT.set(stop)
    try:
        yield
    finally:
        _CURRENT.reset(token)


def current_stop() -> Stop | None:
    """The stop of the request around us, if there is one."""
    return _CURRENT.get()


def check_stop() -> None:
    """Raise `Stopped` if the request around us is to stop."""
    stop = _CURRENT.get()
    if stop is not None:
        stop.check()


def checking(items: Iterable[T]) -> Iterator[T]:
    """The items, each after a look whether to stop.

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
