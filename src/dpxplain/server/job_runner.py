"""Jobs: work that outlives its request, and can be awaited and cancelled through any server process.

The ledger has each job's state, and the release of its entry is its result. If a job finished in another
process, its result is rebuilt from the stored release, which is free.
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

from dpxplain.errors import BadRequest, LedgerUnavailable
from dpxplain.ledger.protocol import Job
from dpxplain.server.pool import Pool, Task
from dpxplain.server.problems import LOG, Problem, as_problem, error_location, not_found

if TYPE_CHECKING:
    from dpxplain.ledger.failed_charges import Failures
    from dpxplain.ledger.jobs import Jobs

Payload = dict[str, Any]
FINISHED = ("done", "failed", "cancelled", "lost")
# In seconds:
_BETWEEN_CHECKS = 0.5  # until another process's request to cancel is noticed
_BETWEEN_HEARTBEATS = 10.0  # after a minute without, the ledger considers a job lost
_BETWEEN_PRUNINGS = 3600.0
_BETWEEN_POLLS = 0.25  # of a job that runs in another process
_MOST_RESULTS, _MOST_ROWS = 64, 50_000
_WORKING = "Working"  # the stage until a phase reports one; in the ledger, always if times are padded


@dataclass
class LocalJob:
    """A job that this process runs or ran."""

    id: str
    task: Task
    work: Future[Payload] | None = None
    ended: Future[None] = field(default_factory=Future)
    result: Payload | None = None
    problem: Problem | None = None
    stored_state: str = ""
    unstored: dict[str, Any] | None = None
    """The job's last state, if the ledger could not be reached to store it."""

    def cancel(self) -> None:
        """Ends the job at once if it is queued, otherwise as soon as it can stop."""
        self.task.cancel()
        work = self.work
        if work is not None:
            work.cancel()


class JobRunner:
    """Starts, awaits and cancels jobs, and keeps their states in the ledger."""

    def __init__(self, pool: Pool, jobs: Jobs, failures: Failures) -> None:
        self._pool = pool
        self._jobs = jobs
        self._failures = failures
        self._local: dict[str, LocalJob] = {}  # oldest first
        self._lock = threading.Lock()
        self._closed = threading.Event()
        threading.Thread(target=self._watch, name="dpxplain-jobs", daemon=True).start()

    def start(
        self, dataset: str, owner: str, kind: str, request: Mapping[str, Any], work: Callable[[Task], Payload]
    ) -> str:
        """Queues the job and returns its id, or raises `busy` and leaves no trace."""
        job = LocalJob(secrets.token_urlsafe(18), Task())
        with self._pool.admission(owner) as submit:
            self._jobs.create(job.id, dataset, owner, kind, request)
            job.task.on_charge = lambda: self._store_state(job, "running", entry=job.task.entry)
            with self._lock:
                self._local[job.id] = job
                self._drop_old_results()
            job.work = future = submit(job.task, lambda: self._work(job, work))
        future.add_done_callback(lambda future: self._finish(job, future))
        return job.id

    def get(self, id: str) -> Job:
        try:
            return self._jobs.get(id)
        except LedgerUnavailable:
            raise
        except BadRequest:
            raise not_found("job") from None

    def local(self, id: str) -> LocalJob | None:
        return self._local.get(id)

    def stage(self, job: Job) -> str:
        """The current stage; for a job of another process, the stage of its last stored state."""
        local = self._local.get(job.id)
        if local is None or job.state != "running":
            return job.stage
        if self._pool.is_padded:  # later stages would reveal how long each takes
            return local.task.first_stage or _WORKING
        return local.task.stage

    def cancel(self, id: str) -> None:
        """Ask a job to stop, in whichever process it runs. A charge stays, and counts as a failure."""
        job, local = self.get(id), self._local.get(id)
        if job.state in FINISHED or job.cancel_asked:
            return
        self._jobs.ask_cancel(id)
        entry = job.entry if local is None else local.task.entry
        if entry is not None:
            self._failures.record_cancellation(job.dataset, job.owner, entry)
        if local is not None:
            local.cancel()

    async def wait(self, id: str, seconds: float) -> None:
        """Wait until the job ends, at most for these seconds."""
        job = self._local.get(id)
        if job is not None:
            await asyncio.wait([asyncio.wrap_future(job.ended)], timeout=seconds)
            return
        deadline = time.monotonic() + seconds
        while (await asyncio.to_thread(self.get, id)).state not in FINISHED:
            left = deadline - time.monotonic()
            if left <= 0:
                return
            await asyncio.sleep(min(_BETWEEN_POLLS, left))

    @property
    def unfinished(self) -> dict[str, int]:
        """How many jobs run and wait in this process."""
        jobs = [job for job in list(self._local.values()) if not job.ended.done()]
        running = sum(job.stored_state == "running" for job in jobs)
        return {"running": running, "queued": len(jobs) - running}

    def close(self) -> None:
        self._closed.set()

    def _work(self, job: LocalJob, work: Callable[[Task], Payload]) -> Payload:
        job.task.stage = _WORKING
        self._store_state(job, "running")
        return work(job.task)

    def _finish(self, job: LocalJob, future: Future[Payload]) -> None:
        """Records how a job ended. Called in the worker's thread, at the padded time."""
        state, error = "done", None
        if future.cancelled():
            job.task.cancelled = True
            state, job.problem = "cancelled", cancelled(job.task)
        elif (failure := future.exception()) is not None:
            state = "cancelled" if job.task.cancelled else "failed"
            job.problem = cancelled(job.task) if job.task.cancelled else as_problem(failure)
        else:
            job.result = future.result()
        if job.problem is not None:
            error = job.problem.shape
        self._store_state(job, state, error=error, entry=job.task.entry)
        job.work = None  # drops the plan, which may be many times larger than the result
        job.ended.set_result(None)

    def _store_state(
        self, job: LocalJob, state: str, *, error: Mapping[str, Any] | None = None, entry: int | None = None
    ) -> None:
        job.stored_state = state
        stage = _WORKING if self._pool.is_padded and state == "running" else job.task.stage
        update: dict[str, Any] = {
            "state": state,
            "stage": stage if state == "running" else "",
            "error": error,
            "entry": entry,
        }
        try:
            self._jobs.update(job.id, **update)
        except LedgerUnavailable:  # logged by LedgerHealth; `_watch` tries again
            job.unstored = update
        except Exception as failure:  # the release is stored nevertheless
            LOG.error("the state of a job could not be stored: %s", error_location(failure))
        else:
            job.unstored = None

    def _watch(self) -> None:
        """Sends heartbeats, stores states that are not stored yet, and cancels if another process asks."""
        last_heartbeat, last_pruning = time.monotonic(), -_BETWEEN_PRUNINGS
        while not self._closed.wait(_BETWEEN_CHECKS):
            is_heartbeat_due = time.monotonic() - last_heartbeat > _BETWEEN_HEARTBEATS
            if is_heartbeat_due:
                last_heartbeat = time.monotonic()
            if time.monotonic() - last_pruning > _BETWEEN_PRUNINGS:
                last_pruning = time.monotonic()
                with suppress(Exception):
                    self._jobs.prune()
            for job in [job for job in list(self._local.values()) if not job.ended.done() or job.unstored]:
                with suppress(Exception):  # the database may be away for a moment
                    if (update := job.unstored) is not None:
                        self._jobs.update(job.id, **update)
                        if job.unstored is update:  # no later state has come meanwhile
                            job.unstored = None
                    if is_heartbeat_due:
                        self._jobs.heartbeat(job.id)
                    if self._jobs.get(job.id).cancel_asked:
                        job.cancel()

    def _drop_old_results(self) -> None:
        """Forget old results, which can still be read from the ledger."""
        jobs = rows = 0
        for job in [job for job in reversed(self._local.values()) if job.ended.done()]:
            jobs, rows = jobs + 1, rows + len((job.result or {}).get("rows", ()))
            if jobs > _MOST_RESULTS or (rows > _MOST_ROWS and jobs > 1):
                del self._local[job.id]


def cancelled(task: Task) -> Problem:
    if task.entry is None:
        return Problem(409, "cancelled", "The request was cancelled. Nothing was charged.", "Ask again.")
    return Problem(
        409,
        "cancelled",
        "The request was cancelled after it was charged. The charge stays.",
        "You can see it in the history.",
    )


def lost() -> Problem:
    return Problem(
        500,
        "lost",
        "The server process that worked on this request has stopped. If the request was charged, the charge "
        "stays, and the history shows it.",
        "Repeat the request. You will not be charged again.",
    )
