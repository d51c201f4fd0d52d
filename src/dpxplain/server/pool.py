"""The few threads in which data is read: bounded in number, queue and time, before anything is charged.

With `pad_seconds`, each piece of work takes a whole number of such steps, so that its time says little about
the data; the thread is held that long too, or the waiting time of others would tell. What was measured is
stored only when its step ends: the history, or asking again, would tell the time otherwise.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import TypeVar

from dpxplain.model.cancellation import Stop, Stopped, stoppable
from dpxplain.server.problems import LOG, Problem, busy, failed_after_charge, place, too_many_at_once
from dpxplain.server.threads import Workers

T = TypeVar("T")
RETRY_SECONDS = 5
CLOSING_SECONDS = 10.0  # in which what runs may finish, and once more in which it may stop
_BETWEEN_LOOKS = 0.1


class Task:
    """One piece of work: what it does now, and the wish to stop it."""

    def __init__(self) -> None:
        self.stop = Stop()
        self.stage = ""
        self.cancelled = False
        self.deadline = math.inf
        self.charged = 0.0
        self.entry: int | None = None  # what it reserved in the ledger; from then on the charge stays
        self.on_charge: Callable[[], None] = lambda: None
        self.pad: Callable[[], None] = lambda: None  # waits for the end of the step
        self.padded = False

    def settle(self) -> None:
        """What was measured may be told from here on, so from here on time tells nothing about the data."""
        self.pad()
        self.padded = True

    def progress(self, stage: str) -> None:
        """For the phases; the place where a wish to stop is noticed between two passes."""
        self.stop.check()
        self.stage = stage

    def charge(self, entry: int, rho: float) -> None:
        self.entry, self.charged, self.padded = entry, rho, False
        self.on_charge()

    def cancel(self) -> None:
        self.cancelled = True
        self.stop.ask()


class Pool:
    """Runs tasks; refuses more than it may hold. Each caller has half of it at most, unless it is theirs."""

    def __init__(
        self,
        *,
        running: int,
        waiting: int,
        seconds: float,
        pad_seconds: float = 0.0,
        shared: bool = True,
        name: str = "dpxplain-work",
    ) -> None:
        self._most = running + waiting
        self._each = max(1, self._most // 2) if shared else self._most
        self._seconds = seconds
        self.pad_seconds = pad_seconds
        self._inside: Counter[str] = Counter()
        self._tasks: set[Task] = set()
        self.failed: set[int] = set()  # entries that were charged and not released
        self._lock = threading.Lock()
        self._threads = Workers(running, max(1, running // 2) if shared else running, name)
        self._closed = threading.Event()
        threading.Thread(target=self._watch, name="dpxplain-watch", daemon=True).start()

    @contextmanager
    def admission(self, who: str) -> Iterator[Callable[[Task, Callable[[], T]], Future[T]]]:
        """A place, or `busy` at once. What is submitted keeps it until it ends; otherwise the block does."""
        with self._lock:
            if self.inside >= self._most or self._closed.is_set():
                raise busy(RETRY_SECONDS)
            if self._inside[who] >= self._each:
                raise too_many_at_once(RETRY_SECONDS)
            self._inside[who] += 1
        taken = False

        def submit(task: Task, work: Callable[[], T]) -> Future[T]:
            nonlocal taken
            try:
                future = self._threads.submit(who, lambda: self._run(task, work))
            except RuntimeError:  # shut down in between
                raise busy(RETRY_SECONDS) from None
            taken = True
            future.add_done_callback(lambda _future: self._leave(who))
            return future

        try:
            yield submit
        finally:
            if not taken:
                self._leave(who)

    def submit(self, who: str, task: Task, work: Callable[[], T]) -> Future[T]:
        """Start soon, or raise `busy` at once."""
        with self.admission(who) as submit:
            return submit(task, work)

    @property
    def inside(self) -> int:
        """How many run or wait."""
        return self._inside.total()

    @property
    def entries(self) -> set[int]:
        """What runs was charged for."""
        with self._lock:
            return {task.entry for task in self._tasks if task.entry is not None}

    @property
    def still_runs(self) -> bool:
        return bool(self._tasks)

    def close(self) -> None:
        """Let what runs finish for a while, then stop it."""
        self._closed.set()
        seconds = CLOSING_SECONDS
        until = time.monotonic() + seconds
        self._threads.close()
        while self._tasks and time.monotonic() < until:
            time.sleep(_BETWEEN_LOOKS / 2)
        while self._tasks and time.monotonic() < until + seconds:
            for task in list(self._tasks):
                task.stop.ask()
            time.sleep(_BETWEEN_LOOKS / 2)

    def _leave(self, who: str) -> None:
        with self._lock:
            self._inside[who] -= 1
            self._inside += Counter()  # drops those at zero

    def _run(self, task: Task, work: Callable[[], T]) -> T:
        started = time.monotonic()
        task.deadline = started + self._seconds

        def pad() -> None:
            self._pad(started)
            task.deadline = time.monotonic() + self._seconds  # what follows has its own time

        task.pad = pad
        with self._lock:
            self._tasks.add(task)
        try:
            return _bare(task, work)
        finally:
            with self._lock:
                self._tasks.discard(task)
            if not task.padded:
                self._pad(started)
                if task.entry is not None:
                    self.failed.add(task.entry)

    def _pad(self, started: float) -> None:
        if self.pad_seconds > 0:
            past = time.monotonic() - started
            time.sleep(math.ceil(past / self.pad_seconds) * self.pad_seconds - past)

    def _watch(self) -> None:
        """Ask again and again: a pass may have been just about to begin when it was asked to stop."""
        while not (self._closed.wait(_BETWEEN_LOOKS) and not self._tasks):
            now = time.monotonic()
            with self._lock:
                late = [task for task in self._tasks if task.stop.asked or now > task.deadline]
            for task in late:
                task.stop.ask()


def _bare(task: Task, work: Callable[[], T]) -> T:
    """A failure after the reservation says only that it failed: why could depend on the data."""
    failure: Exception
    try:
        task.stop.check()
        with stoppable(task.stop):
            return work()
    except Exception as error:
        if task.entry is not None:
            LOG.log(
                logging.INFO if task.stop.asked else logging.ERROR,
                "failed after the charge of entry %d: %s",
                task.entry,
                place(error),
            )
            failure = failed_after_charge()
        elif task.stop.asked or isinstance(error, Stopped):
            failure = too_slow()
        else:
            failure = error
    raise failure


def too_slow() -> Problem:
    return Problem(
        503,
        "too_slow",
        "The request took longer than the server allows. Nothing was charged.",
        "Ask for fewer predicates, attributes or groups.",
        headers={"Retry-After": str(RETRY_SECONDS)},
    )
