"""What is worth keeping between requests, and doing things once when many ask at the same time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

T = TypeVar("T")
_MISSING: Any = object()


@dataclass
class _Turn:
    lock: threading.Lock = field(default_factory=threading.Lock)
    people: int = 0  # who hold it or wait for it; without them it is forgotten


class Turns:
    """Whoever wants the same thing takes turns; different things do not wait for each other.

    >>> turns = Turns()
    >>> with turns.of("a"), turns.of("b"):
    ...     len(turns)
    2
    >>> len(turns)
    0
    """

    def __init__(self) -> None:
        self._turns: dict[Hashable, _Turn] = {}
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._turns)

    @contextmanager
    def of(self, thing: Hashable) -> Iterator[None]:
        with self._lock:
            turn = self._turns.setdefault(thing, _Turn())
            turn.people += 1
        try:
            with turn.lock:
                yield
        finally:
            with self._lock:
                turn.people -= 1
                if not turn.people:
                    del self._turns[thing]


class Kept:
    """The latest few results, each computed once however many threads ask for it.

    >>> kept = Kept(most=1)
    >>> kept.get("a", lambda: 1), kept.get("a", lambda: 2), kept.get("b", lambda: 3), kept.get("a", lambda: 4)
    (1, 1, 3, 4)
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._results: dict[Hashable, Any] = {}
        self._turns = Turns()
        self._lock = threading.Lock()  # of the results as a whole; never held while computing

    def get(self, key: Hashable, compute: Callable[[], T]) -> T:
        with self._turns.of(key):
            found: T = self._results.get(key, _MISSING)
            if found is not _MISSING:
                return found
            result = compute()
            with self._lock:
                self._results[key] = result
                if len(self._results) > self._most:
                    self._results.pop(next(iter(self._results)))
            return result
