"""Work that outlives a request: it can be watched, waited for and cancelled, through any server process.

The ledger knows each job's state, and the release of its entry is its result. A process that finds a finished
job of another, or of its own past, asks the same again from what is stored, which is free.
"""

from __future__ import annotations

import asyncio
import secrets
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from dpxplain.errors import BadRequest
from dpxplain.ledger.protocol import Job
from dpxplain.server.pool import Pool, Task
from dpxplain.server.problems import LOG, Problem, as_problem, not_found, place

if TYPE_CHECKING:
    from dpxplain.ledger.jobs import Jobs

Payload = dict[str, Any]
FINISHED = ("done", "failed", "cancelled", "lost")
_BETWEEN_LOOKS = 0.5  # seconds until another process's wish to cancel is noticed
_BETWEEN_SIGNS = 10.0  # of life; the ledger takes a job for lost after a minute without
_BETWEEN_PRUNINGS = 3600.0
_BETWEEN_POLLS = 0.25  # of a job that another process works on
_MOST_REMEMBERED, _MOST_ROWS = 64, 50_000
_MEASURING = "Working"  # all that is told when times are padded: stages would tell how long each takes


@dataclass
class Here:
    """A job of this process."""

    id: str
    task: Task
    ended: Future[None] = field(default_factory=Future)
    result: Payload | None = None
    problem: Problem | None = None
    told: str = ""


class JobRunner:
    def __init__(self, pool: Pool, jobs: Jobs) -> None:
        self._pool = pool
        self._jobs = jobs
        self._here: dict[str, Here] = {}  # oldest first
        self._lock = threading.Lock()
        self._closed = threading.Event()
        threading.Thread(target=self._watch, name="dpxplain-jobs", daemon=True).start()

    def start(
        self, dataset: str, owner: str, kind: str, request: Mapping[str, Any], work: Callable[[Task], Payload]
    ) -> str:
        """Begin soon and return the job's id, or raise `busy` and leave no trace."""
        one = Here(secrets.token_urlsafe(18), Task())
        with self._pool.admission(owner) as submit:
            self._jobs.create(one.id, dataset, owner, kind, request)
            one.task.on_charge = lambda: self._tell(one, "running", entry=one.task.entry)
            with self._lock:
                self._here[one.id] = one
                self._forget()
            future = submit(one.task, lambda: self._work(one, work))
        future.add_done_callback(lambda ended: self._finish(one, ended))
        return one.id

    def get(self, id: str) -> Job:
        try:
            return self._jobs.get(id)
        except BadRequest:
            raise not_found("job") from None

    def here(self, id: str) -> Here | None:
        return self._here.get(id)

    def stage(self, job: Job) -> str:
        """The latest, which the ledger is told only now and then."""
        one = self._here.get(job.id)
        if one is None or job.state != "running" or self._pool.pad_seconds > 0:
            return job.stage
        return one.task.stage

    def cancel(self, id: str) -> None:
        """Ask it to stop, wherever it runs. What was charged stays charged."""
        self._jobs.ask_cancel(id)
        one = self._here.get(id)
        if one is not None:
            one.task.cancel()

    async def wait(self, id: str, seconds: float) -> None:
        """Until the job ends, or as long as that."""
        one = self._here.get(id)
        if one is not None:
            await asyncio.wait([asyncio.wrap_future(one.ended)], timeout=seconds)
            return
        until = time.monotonic() + seconds
        while (await asyncio.to_thread(self.get, id)).state not in FINISHED:
            left = until - time.monotonic()
            if left <= 0:
                return
            await asyncio.sleep(min(_BETWEEN_POLLS, left))

    @property
    def unfinished(self) -> dict[str, int]:
        """How many run and wait in this process."""
        open_ = [one for one in list(self._here.values()) if not one.ended.done()]
        running = sum(one.told == "running" for one in open_)
        return {"running": running, "queued": len(open_) - running}

    def close(self) -> None:
        self._closed.set()

    def _work(self, one: Here, work: Callable[[Task], Payload]) -> Payload:
        one.task.stage = _MEASURING
        self._tell(one, "running")
        return work(one.task)

    def _finish(self, one: Here, ended: Future[Payload]) -> None:
        """In the worker's thread, after its time was padded."""
        state, error = "done", None
        if ended.cancelled():
            one.task.cancelled = True
            state, one.problem = "cancelled", cancelled(one.task)
        elif (failure := ended.exception()) is not None:
            state = "cancelled" if one.task.cancelled else "failed"
            one.problem = cancelled(one.task) if one.task.cancelled else as_problem(failure)
        else:
            one.result = ended.result()
        if one.problem is not None:
            error = one.problem.shape
        self._tell(one, state, error=error, entry=one.task.entry)
        one.ended.set_result(None)

    def _tell(
        self, one: Here, state: str, *, error: Mapping[str, Any] | None = None, entry: int | None = None
    ) -> None:
        one.told = state
        stage = _MEASURING if self._pool.pad_seconds > 0 and state == "running" else one.task.stage
        try:
            self._jobs.update(one.id, state, stage if state == "running" else "", error=error, entry=entry)
        except Exception as failure:  # what was measured is not lost because its state could not be told
            LOG.error("a job's state could not be stored: %s", place(failure))

    def _watch(self) -> None:
        """Signs of life, stages, and wishes of other processes to cancel."""
        last, pruned = time.monotonic(), -_BETWEEN_PRUNINGS
        while not self._closed.wait(_BETWEEN_LOOKS):
            signs = time.monotonic() - last > _BETWEEN_SIGNS
            last = time.monotonic() if signs else last
            if time.monotonic() - pruned > _BETWEEN_PRUNINGS:
                pruned = time.monotonic()
                with suppress(Exception):
                    self._jobs.prune()
            for one in [one for one in list(self._here.values()) if not one.ended.done()]:
                with suppress(Exception):  # the database may be away for a moment
                    if signs:
                        self._jobs.heartbeat(one.id)
                    if self._jobs.get(one.id).cancel_asked:
                        one.task.cancel()

    def _forget(self) -> None:
        """Old results: what is asked for again comes from the ledger."""
        jobs = rows = 0
        for one in [one for one in reversed(self._here.values()) if one.ended.done()]:
            jobs, rows = jobs + 1, rows + len((one.result or {}).get("rows", ()))
            if jobs > _MOST_REMEMBERED or (rows > _MOST_ROWS and jobs > 1):
                del self._here[one.id]


def cancelled(task: Task) -> Problem:
    if task.entry is None:
        return Problem(409, "cancelled", "The request was cancelled. Nothing was charged.", "Ask again.")
    return Problem(
        409,
        "cancelled",
        "The request was cancelled after its budget was reserved; the charge stays.",
        "The history shows it.",
    )


def lost() -> Problem:
    return Problem(
        500,
        "lost",
        "The server process that worked on it is gone; what was reserved stays charged.",
        "The history shows what was charged. Ask again.",
    )
