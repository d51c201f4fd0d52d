"""Rate limits: token buckets per caller, per address and per person who signs in.

If several processes share a ledger, each takes an equal share of every limit. So together they keep the
limit, and a free request need not access the ledger. A caller who reaches only one process gets only its
share.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from dpxplain.errors import DPXPlainError
from dpxplain.server.config import Limits
from dpxplain.server.problems import too_many

if TYPE_CHECKING:
    from dpxplain.ledger.jobs import Processes

_MOST_KEYS = 20_000
_SECONDS_BETWEEN_COUNTS = 10.0
_LONGEST_HEARTBEAT_SECONDS = 10.0


class Buckets:
    """A token bucket per key. It holds the tokens of a minute, and is refilled steadily.

    >>> now = 0.0
    >>> buckets = Buckets(60, clock=lambda: now)
    >>> [buckets.take("a") for _ in range(61)][-2:]  # the last one has to wait a second
    [0, 1]
    >>> buckets.take("b")
    0
    """

    def __init__(
        self,
        per_minute: int,
        *,
        clock: Callable[[], float] = time.monotonic,
        processes: Callable[[], int] = lambda: 1,
    ) -> None:
        self._per_minute = per_minute
        self._processes = processes
        self._clock = clock
        self._levels: dict[str, tuple[float, float]] = {}
        self._lock = threading.Lock()

    @property
    def _rate(self) -> float:
        """Tokens per second, for this process."""
        return self._per_minute / 60 / self._processes()

    @property
    def _size(self) -> float:
        return max(1.0, self._per_minute / self._processes())

    def take(self, key: str) -> int:
        """Takes a token and returns 0, or returns how many whole seconds to wait."""
        with self._lock:
            level = self._level(key)
            if level < 1:
                return max(1, math.ceil((1 - level) / self._rate))
            if len(self._levels) >= _MOST_KEYS and key not in self._levels:
                self._drop_keys()
            self._levels[key] = (level - 1, self._clock())
            return 0

    def refund(self, key: str) -> None:
        """Undoes one `take`."""
        with self._lock:
            self._levels[key] = (min(self._size, self._level(key) + 1), self._clock())

    def _level(self, key: str) -> float:
        level, time_of_level = self._levels.get(key, (self._size, 0.0))
        return min(self._size, level + (self._clock() - time_of_level) * self._rate)

    def _drop_keys(self) -> None:
        """Drops full buckets, which are like new ones; if that is not enough, drops the oldest too."""
        for key in [key for key in self._levels if self._level(key) >= self._size]:
            del self._levels[key]
        for key in list(self._levels)[: max(0, len(self._levels) - _MOST_KEYS // 2)]:
            del self._levels[key]


class RateLimits:
    """The limits of one server process; `processes` says how many divide them."""

    def __init__(self, limits: Limits, processes: Callable[[], int] = lambda: 1) -> None:
        self.callers = Buckets(limits.requests_per_minute, processes=processes)
        self.anonymous = Buckets(limits.anonymous_per_minute, processes=processes)
        """By address, for requests without a valid credential."""
        self.sign_ins = Buckets(limits.sign_ins_per_minute, processes=processes)
        """By caller, for sign-ins with a valid token: each writes to the ledger."""


class ProcessCount:
    """How many server processes share the ledger: counted every few seconds, in a thread of its own.

    The thread also runs `tasks`, each independently of the others.
    """

    def __init__(self, processes: Processes, *tasks: Callable[[], object]) -> None:
        self._processes = processes
        self._tasks = tasks
        self._id = processes.enter()
        self._number = processes.count(self._id)
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="dpxplain-processes", daemon=True)
        self._thread.start()

    def __call__(self) -> int:
        return self._number

    def close(self) -> None:
        self._closed.set()
        # A heartbeat that still runs could write after `leave`, or hold a connection of a closed ledger.
        self._thread.join(_LONGEST_HEARTBEAT_SECONDS)
        with suppress(DPXPlainError):
            self._processes.leave(self._id)

    def refresh(self) -> None:
        """Sends a heartbeat, which writes to the ledger, and counts again."""
        self._number = max(1, self._processes.count(self._id))

    def _watch(self) -> None:
        while not self._closed.wait(_SECONDS_BETWEEN_COUNTS):
            for task in (self.refresh, *self._tasks):
                with suppress(DPXPlainError):  # the database may be away for a moment
                    task()


def check_rate(buckets: Buckets, key: str) -> None:
    """Takes a token. Raises an error with the time to wait if there is none."""
    if seconds := buckets.take(key):
        raise too_many(seconds)
