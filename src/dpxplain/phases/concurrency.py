"""Helpers for threads: locks by key, a set of recent keys, calls with a time limit, and a cache that computes
each result once.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Hashable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

T = TypeVar("T")


@dataclass
class _KeyLock:
    lock: threading.Lock = field(default_factory=threading.Lock)
    holders: int = 0  # threads that hold it or wait for it; without any it is dropped


class KeyedLocks:
    """A lock per key, which exists only while somebody holds it or waits for it.

    >>> locks = KeyedLocks()
    >>> with locks.hold("a"), locks.hold("b"):
    ...     len(locks)
    2
    >>> len(locks)
    0
    """

    def __init__(self) -> None:
        self._locks: dict[Hashable, _KeyLock] = {}
        self._mutex = threading.Lock()

    def __len__(self) -> int:
        return len(self._locks)

    @contextmanager
    def hold(self, key: Hashable) -> Iterator[None]:
        with self._mutex:
            key_lock = self._locks.setdefault(key, _KeyLock())
            key_lock.holders += 1
        try:
            with key_lock.lock:
                yield
        finally:
            with self._mutex:
                key_lock.holders -= 1
                if not key_lock.holders:
                    del self._locks[key]


class LatestKeys:
    """The newest keys, up to a number. Adding a key again does not make it newer.

    >>> keys = LatestKeys(2)
    >>> for key in "abc":
    ...     keys.add(key)
    >>> "a" in keys, "c" in keys
    (False, True)
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._keys: dict[Hashable, None] = {}  # oldest first
        self._mutex = threading.Lock()

    def __contains__(self, key: Hashable) -> bool:
        return key in self._keys

    def add(self, key: Hashable) -> None:
        with self._mutex:
            self._keys[key] = None
            if len(self._keys) > self._most:
                del self._keys[next(iter(self._keys))]


class TimeLimited(Generic[T]):
    """Calls a function in its own thread, and waits for its result no longer than asked.

    A call during an earlier one waits for the same result, so a function that hangs occupies only one thread.
    """

    def __init__(self, function: Callable[[], T], name: str) -> None:
        self._function = function
        self._name = name
        self._running: Future[T] | None = None
        self._lock = threading.Lock()

    def __call__(self, seconds: float) -> T:
        """Returns the result, or raises the function's exception; TimeoutError if it takes longer."""
        with self._lock:
            if self._running is None or self._running.done():
                self._running = Future()
                arguments = (self._running,)
                threading.Thread(target=self._run, args=arguments, name=self._name, daemon=True).start()
            future = self._running
        return future.result(timeout=seconds)

    @property
    def is_running(self) -> bool:
        return self._running is not None and not self._running.done()

    def _run(self, future: Future[T]) -> None:
        try:
            future.set_result(self._function())
        except BaseException as error:  # raised again where it is waited for
            future.set_exception(error)


@dataclass(frozen=True)
class _Cached:
    value: Any
    bytes: int
    holder: str


class SizedMemo:
    """A cache of the newest results, bounded in bytes for each holder and for all holders together.

    Each result is computed once, however many threads ask for it. `functools.lru_cache` would compute it
    twice if two threads miss at once, and these are scans.

    >>> memo = SizedMemo(together=10, each=4)
    >>> for text, holder in (("aaa", "ann"), ("bb", "ann"), ("cc", "bob")):
    ...     result = memo.get(text, lambda: text, len, holder)
    >>> memo.bytes
    4
    """

    def __init__(self, together: int, each: int) -> None:
        self._together, self._each = together, each
        self._results: dict[Hashable, _Cached] = {}  # oldest first
        self._keys_of: dict[str, dict[Hashable, None]] = {}  # by holder, oldest first
        self._bytes_of: Counter[str] = Counter()
        self._locks = KeyedLocks()
        self._mutex = threading.Lock()
        self.bytes = 0

    def get(self, key: Hashable, compute: Callable[[], T], size: Callable[[T], int], holder: str = "") -> T:
        """The cached or computed result, counted for the holder.

        A result above one of the limits is not cached, and does not displace any other.
        """
        with self._locks.hold(key):
            cached = self._results.get(key)
            if cached is not None:
                value: T = cached.value
                return value
            computed = compute()
            result = _Cached(computed, size(computed), holder)
            if result.bytes <= min(self._each, self._together):
                with self._mutex:
                    self._add(key, result)
                    while self._bytes_of[holder] > self._each:
                        self._drop(next(iter(self._keys_of[holder])))
                    while self.bytes > self._together:
                        self._drop(next(iter(self._results)))
            return computed

    @contextmanager
    def keep_if_accepted(self, holder: str) -> Iterator[None]:
        """Drops what the block added to the holder's results if the block raises."""
        with self._mutex:
            before = set(self._keys_of.get(holder, ()))
        try:
            yield
        except BaseException:
            with self._mutex:
                for key in set(self._keys_of.get(holder, ())) - before:
                    self._drop(key)
            raise

    def _add(self, key: Hashable, result: _Cached) -> None:
        self._results[key] = result
        self._keys_of.setdefault(result.holder, {})[key] = None
        self._bytes_of[result.holder] += result.bytes
        self.bytes += result.bytes

    def _drop(self, key: Hashable) -> None:
        result = self._results.pop(key)
        self.bytes -= result.bytes
        self._bytes_of[result.holder] -= result.bytes
        del self._keys_of[result.holder][key]
        if not self._keys_of[result.holder]:
            del self._keys_of[result.holder], self._bytes_of[result.holder]
