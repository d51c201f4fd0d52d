"""Results computed once however many threads ask for them, and locks by key."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

T = TypeVar("T")
_MISSING: Any = object()


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
        self._guard = threading.Lock()

    def __len__(self) -> int:
        return len(self._locks)

    @contextmanager
    def hold(self, key: Hashable) -> Iterator[None]:
        with self._guard:
            key_lock = self._locks.setdefault(key, _KeyLock())
            key_lock.holders += 1
        try:
            with key_lock.lock:
                yield
        finally:
            with self._guard:
                key_lock.holders -= 1
                if not key_lock.holders:
                    del self._locks[key]


class Memo:
    """The latest few results, each computed once however many threads ask for it.

    `functools.lru_cache` would compute a result twice when two threads miss at once, and these are scans.

    >>> memo = Memo(size=1)
    >>> memo.get("a", lambda: 1), memo.get("a", lambda: 2), memo.get("b", lambda: 3), memo.get("a", lambda: 4)
    (1, 1, 3, 4)
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._results: dict[Hashable, Any] = {}
        self._locks = KeyedLocks()
        self._guard = threading.Lock()  # of the dictionary; never held while computing

    def get(self, key: Hashable, compute: Callable[[], T]) -> T:
        with self._locks.hold(key):
            cached: T = self._results.get(key, _MISSING)
            if cached is not _MISSING:
                return cached
            result = compute()
            with self._guard:
                self._results[key] = result
                if len(self._results) > self._size:
                    self._results.pop(next(iter(self._results)))
            return result
