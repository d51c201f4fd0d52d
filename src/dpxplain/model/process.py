"""What requests that run at once in one process need: cancellation, cached properties, limits of memory."""

from __future__ import annotations

import functools
import os
import re
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, TypeVar

from dpxplain.errors import BadRequest

T = TypeVar("T")

# -- Cancellation ------------------------------------------------------------------------------------------
#
# The server runs a request inside `stoppable`; long computations call `check_stop` between steps, and engines
# wrap each pass in `interruptible`. Outside `stoppable`, as in a notebook, a check does nothing.


class Stopped(Exception):
    """The request was cancelled or has run for too long."""


class Stop:
    """A request's stop flag, set from any thread and never cleared, so the request's next step raises.

    >>> stop = Stop()
    >>> stop.request()
    >>> stop.is_requested
    True
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._interrupts: list[Callable[[], None]] = []
        self.is_requested = False

    def request(self) -> None:
        """Sets the flag and interrupts running passes; repeat it for a pass that was about to begin."""
        with self._lock:
            self.is_requested = True
            for interrupt in self._interrupts:
                interrupt()

    def check(self) -> None:
        if self.is_requested:
            raise Stopped

    @contextmanager
    def interrupting(self, interrupt: Callable[[], None]) -> Iterator[None]:
        """While the block runs, `request` also calls `interrupt`; for code that cannot call `check`."""
        with self._lock:
            self.check()
            self._interrupts.append(interrupt)
        try:
            yield
        finally:
            with self._lock:  # once removed, the interrupted cursor may serve another request
                self._interrupts.remove(interrupt)


_CURRENT_STOP: ContextVar[Stop | None] = ContextVar("dpxplain_stop", default=None)


@contextmanager
def stoppable(stop: Stop) -> Iterator[None]:
    """Makes `stop` the current stop of this thread (and its context) for the length of the block."""
    token = _CURRENT_STOP.set(stop)
    try:
        yield
    finally:
        _CURRENT_STOP.reset(token)


def check_stop() -> None:
    """Raises `Stopped` if the current request is to stop."""
    stop = _CURRENT_STOP.get()
    if stop is not None:
        stop.check()


@contextmanager
def interruptible(interrupt: Callable[[], None]) -> Iterator[None]:
    """Wraps one pass over the data; a stop of the current request calls `interrupt` from its own thread."""
    stop = _CURRENT_STOP.get()
    if stop is None:
        yield
    else:
        with stop.interrupting(interrupt):
            yield


def stoppable_steps(items: Iterable[T]) -> Iterator[T]:
    """The items, with a `check_stop` before each.

    >>> stop = Stop()
    >>> with stoppable(stop):
    ...     for item in stoppable_steps("abc"):
    ...         print(item)
    ...         stop.request()
    Traceback (most recent call last):
    dpxplain.model.process.Stopped
    """
    for item in items:
        check_stop()
        yield item


# -- Cached properties -------------------------------------------------------------------------------------
#
# `functools.cached_property` of Python 3.11 locks the property of all objects of a class while it computes
# one object's value, so one caller's long computation would hold up every other caller.

if TYPE_CHECKING:
    from functools import cached_property as cached_property
else:

    class cached_property(functools.cached_property):  # noqa: N801 - as Python calls it
        """Computes a value once per object. Two threads may both compute it; both then see the first value.

        >>> class Square:
        ...     side = 3
        ...     @cached_property
        ...     def area(self):
        ...         print("computed")
        ...         return self.side**2
        >>> square = Square()
        >>> square.area + square.area
        computed
        18
        """

        def __get__(self, instance: Any, owner: type | None = None) -> Any:
            if instance is None:
                return self
            known = vars(instance)
            if self.attrname not in known:
                known.setdefault(self.attrname, self.func(instance))
            return known[self.attrname]


# -- Sizes of memory ---------------------------------------------------------------------------------------

_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s?([KMGT])(i?)B")
_LOOSE_SIZE = re.compile(r"(\d{1,6}(?:\.\d{1,3})?)\s*([KMGT])?(?:i?B)?", re.IGNORECASE)
_DECIMAL = {"K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_BINARY = {"K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


def check_size(value: object) -> str | None:
    """The size as it was written; raises ValueError, with a suggestion if possible, if it is not a size."""
    if value is None or (isinstance(value, str) and _SIZE.fullmatch(value)):
        return value
    loose = _LOOSE_SIZE.fullmatch(str(value))
    hint = f'; did you mean "{loose[1]}{(loose[2] or "G").upper()}B"?' if loose else ""
    raise ValueError(
        'must be text with a number and a unit, such as "4GB"; units are KB, MB, GB, TB, KiB, MiB, GiB '
        f"and TiB{hint}"
    )


def memory_limit(memory: str | None) -> str | None:
    """The limit that was given, or else the environment's."""
    try:
        return check_size(memory or os.environ.get("DPXPLAIN_MEMORY") or None)
    except ValueError as error:
        raise BadRequest(
            f"A memory limit {error}.", remedy='Pass memory="4GB", or set DPXPLAIN_MEMORY.'
        ) from None


def bytes_of(memory: str | None) -> int:
    """A checked size in bytes; without one, DuckDB's default of four fifths of the machine's memory.

    >>> bytes_of("1.5GB"), bytes_of("2 KiB")
    (1500000000, 2048)
    """
    if memory is None:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") * 4 // 5
    parts = _SIZE.fullmatch(memory)
    assert parts is not None  # it was checked
    return int(float(parts[1]) * (_BINARY if parts[3] else _DECIMAL)[parts[2]])
