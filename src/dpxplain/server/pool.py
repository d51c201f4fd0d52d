"""The thread pool in which data is read, bounded in threads, queue and time, and fair between callers; and
jobs, which outlive their request.

How long a task takes may depend on the data. So its end is delayed to one of a public series of times:
multiples of `pad_seconds`, or else a geometric series with the ratio `pad_ratio`. The task keeps its thread
until then; otherwise the waiting time of others would reveal when it finished. Its release is stored at that
time, unless the task was stopped before. Nothing else may decide whether it is stored; otherwise the history,
or a repeated request, would reveal how long the measurement took.
"""

from __future__ import annotations

import asyncio
import logging
import math
import secrets
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import CancelledError, Future
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from dpxplain.errors import BadRequest, LedgerBehind, LedgerUnavailable
from dpxplain.ledger.protocol import LOCAL_OWNER, Job
from dpxplain.model.charge import Ending
from dpxplain.model.process import Stop, Stopped, stoppable
from dpxplain.server.problems import (
    LOG,
    Problem,
    as_problem,
    busy,
    cancelled,
    error_location,
    failed_after_charge,
    interrupted,
    not_found,
    not_shown,
    too_many_at_once,
    too_slow,
)

if TYPE_CHECKING:
    from dpxplain.ledger.jobs import Jobs
    from dpxplain.ledger.single_flight import Failures

# -- Tasks and threads -------------------------------------------------------------------------------------

T = TypeVar("T")
CLOSING_SECONDS = 10.0  # for running tasks to finish, and as long again for them to stop
_SECONDS_BETWEEN_CHECKS = 0.1
_FIRST_END = 0.01  # seconds; the first term of the geometric series of end times


class Task:
    """One piece of work: its stage, its charge and the request to stop it."""

    def __init__(self) -> None:
        self.stop = Stop()
        self.stage = ""
        self.first_stage = ""  # begins before any row is read, so its time reveals nothing
        self.is_cancelled = False
        self.is_server_stopped = False  # whether the server's stop was the first to stop it
        self.deadline = math.inf
        self.charged_rho = 0.0
        self.entry: int | None = None  # the ledger entry of its charge
        self.dataset = ""  # of the entry
        self.person = ""  # who is charged
        self.on_charge: Callable[[], None] = lambda: None
        self.pad: Callable[[], None] = lambda: None  # waits for the padded end time
        self._was_padded = False
        self.is_stored = False  # whether the entry's release is stored
        self.ending: Ending | None = None  # how the entry ended, if without a release

    def settle(self) -> None:
        """Waits for the padded end time, after which the release may be stored. Raises `Stopped` if stopped.

        A stopped task raises even if its measurement had finished. If that was stored, cancelling at a chosen
        moment would reveal whether the measurement had finished by then, which padding must hide.
        """
        self.pad_once()
        self.stop.check()

    def pad_once(self) -> None:
        """Waits for the padded end time, once per charge."""
        if not self._was_padded:
            self.pad()
            self._was_padded = True

    def progress(self, stage: str) -> None:
        """Notes the stage that a phase reports. Raises `Stopped` if the task was asked to stop."""
        self.stop.check()
        self.stage = stage
        self.first_stage = self.first_stage or stage

    def charge(self, entry: int, rho: float, *, dataset: str = "", person: str = "") -> None:
        self.entry, self.charged_rho = entry, rho
        self.dataset, self.person = dataset, person
        self._was_padded = self.is_stored = False
        self.ending = None
        self.on_charge()

    def cancel(self) -> None:
        self.is_cancelled = True
        self.stop.request()


class Pool:
    """Runs tasks, and refuses tasks that do not fit. A caller gets at most half of a shared pool."""

    def __init__(
        self,
        *,
        running: int,
        waiting: int,
        seconds: float,
        pad_seconds: float = 0.0,
        pad_ratio: float = 1.0,
        shared: bool = True,
        name: str = "dpxplain-work",
    ) -> None:
        self._most = running + waiting
        self._most_per_caller = max(1, self._most // 2) if shared else self._most
        self._seconds = seconds
        self.pad_seconds, self.pad_ratio = pad_seconds, pad_ratio
        self._admitted: Counter[str] = Counter()  # running or waiting, by caller
        self._tasks: set[Task] = set()
        self.failed_entries: set[int] = set()  # also those that the ledger does not know yet
        self._lock = threading.Lock()
        self._threads = Workers(running, max(1, running // 2) if shared else running, name)
        self._closed = threading.Event()
        threading.Thread(target=self._watch, name="dpxplain-watch", daemon=True).start()

    @contextmanager
    def admission(self, caller: str) -> Iterator[Callable[[Task, Callable[[], T]], Future[T]]]:
        """A place in the pool, or `busy` at once. The block may submit one task, which keeps the place."""
        with self._lock:
            if self.admitted >= self._most or self._closed.is_set():
                raise busy()
            if self._admitted[caller] >= self._most_per_caller:
                raise too_many_at_once()
            self._admitted[caller] += 1
        submitted = False

        def submit(task: Task, work: Callable[[], T]) -> Future[T]:
            nonlocal submitted
            try:
                future = self._threads.submit(caller, lambda: self._run(task, work))
            except RuntimeError:  # shut down in between
                raise busy() from None
            submitted = True
            future.add_done_callback(lambda _future: self._leave(caller))
            return future

        try:
            yield submit
        finally:
            if not submitted:
                self._leave(caller)

    def submit(self, caller: str, task: Task, work: Callable[[], T]) -> Future[T]:
        """Queues the task, or raises `busy` at once."""
        with self.admission(caller) as submit:
            return submit(task, work)

    @property
    def admitted(self) -> int:
        """The number of tasks that run or wait."""
        return self._admitted.total()

    @property
    def is_full(self) -> bool:
        """Whether every caller is refused as `busy`."""
        return self.admitted >= self._most

    @property
    def running_entries(self) -> set[int]:
        """The ledger entries of running tasks."""
        with self._lock:
            return {task.entry for task in self._tasks if task.entry is not None}

    @property
    def is_padded(self) -> bool:
        return self.pad_seconds > 0 or self.pad_ratio > 1

    @property
    def is_running(self) -> bool:
        return bool(self._tasks)

    def close(self) -> None:
        """Lets running tasks finish for a while, then stops them."""
        self._closed.set()
        self._threads.close()
        self._wait_for_tasks()
        for task in list(self._tasks):
            task.is_server_stopped = not task.stop.is_requested and time.monotonic() <= task.deadline
            task.stop.request()  # the watching thread asks again
        self._wait_for_tasks()

    @property
    def stopped_entries(self) -> set[int]:
        """The ledger entries of tasks that still run although the server's stop should have ended them."""
        return {
            task.entry
            for task in list(self._tasks)
            if task.entry is not None and task.is_server_stopped and not task.is_stored
        }

    def _wait_for_tasks(self) -> None:
        deadline = time.monotonic() + CLOSING_SECONDS
        while self._tasks and time.monotonic() < deadline:
            time.sleep(_SECONDS_BETWEEN_CHECKS / 2)

    def _leave(self, caller: str) -> None:
        with self._lock:
            self._admitted[caller] -= 1
            self._admitted += Counter()  # drops callers at zero

    def _run(self, task: Task, work: Callable[[], T]) -> T:
        started = time.monotonic()
        # The limit is an end time too: one between two end times would reveal on which side the task ended.
        task.deadline = started + self._end(self._seconds)

        def pad() -> None:
            if time.monotonic() > task.deadline:  # so its end time is after the deadline too
                task.stop.request()
            task.deadline = math.inf
            self._pad(started)
            task.deadline = time.monotonic() + self._seconds  # rendering has a time limit of its own

        task.pad = pad
        with self._lock:
            self._tasks.add(task)
        try:
            return _run_without_details(task, work)
        finally:
            task.pad_once()
            with self._lock:
                self._tasks.discard(task)
                if task.entry is not None and task.ending is not None and task.ending.counts:
                    self.failed_entries.add(task.entry)

    def _pad(self, started: float) -> None:
        elapsed = time.monotonic() - started
        time.sleep(self._end(elapsed) - elapsed)

    def _end(self, seconds: float) -> float:
        return end_time(seconds, self.pad_seconds, self.pad_ratio)

    def _watch(self) -> None:
        """Stops late tasks, repeatedly: a pass over the data that begins just after a request misses it."""
        while self._tasks or not self._closed.is_set():
            time.sleep(_SECONDS_BETWEEN_CHECKS)
            now = time.monotonic()
            with self._lock:
                late = [task for task in self._tasks if task.stop.is_requested or now > task.deadline]
            for task in late:
                task.stop.request()


def _run_without_details(task: Task, work: Callable[[], T]) -> T:
    """Runs the work. After the charge, raises a failure without its reason, which may depend on the data."""
    failure: Exception
    try:
        task.stop.check()
        with stoppable(task.stop):
            return work()
    except Exception as error:
        if isinstance(error, LedgerBehind):  # from the ledger only, and it says what happened to the charge
            failure = error
        elif task.is_stored and isinstance(error, LedgerUnavailable):
            failure = error  # the result is stored, so asking again is free
        elif task.entry is not None:
            LOG.log(
                logging.INFO if task.stop.is_requested else logging.ERROR,
                "request failed after it was charged: entry %d of %s by %s: %s",
                task.entry,
                task.dataset,
                task.person or LOCAL_OWNER,
                error_location(error),
            )
            is_interrupted = task.ending is not None and not task.ending.counts
            if task.is_stored:
                failure = not_shown()
            else:
                failure = interrupted(task.charged_rho) if is_interrupted else failed_after_charge()
        elif task.stop.is_requested or isinstance(error, Stopped):
            failure = too_slow()
        else:
            failure = error
    raise failure


def end_time(seconds: float, step: float, ratio: float) -> float:
    """The time rounded up to a multiple of `step`, or else to a term of the geometric series, or unchanged.

    >>> end_time(0.25, 0.5, 1.25), end_time(1.75, 1.0, 1.25), end_time(0.25, 0.0, 1.0)
    (0.5, 2.0, 0.25)
    >>> end_time(0.001, 0.0, 2.0), end_time(0.01, 0.0, 2.0), end_time(0.03, 0.0, 2.0)
    (0.01, 0.01, 0.04)
    """
    if step > 0:
        return math.ceil(seconds / step) * step
    if ratio <= 1:
        return seconds
    power = max(0, math.floor(math.log(max(seconds, _FIRST_END) / _FIRST_END, ratio)))
    ends = (_FIRST_END * ratio ** (power + offset) for offset in range(3))
    return next(end for end in ends if end >= seconds)


@dataclass(frozen=True)
class _Call:
    caller: str
    function: Callable[[], Any]
    future: Future[Any]


class Workers:
    """Threads that run calls in their order of arrival, at most `most_per_caller` per caller at a time.

    The threads are daemons, so that the process can end while one of them hangs.
    """

    def __init__(self, threads: int, most_per_caller: int, name: str) -> None:
        self._most_per_caller = most_per_caller
        self._waiting: list[_Call] = []
        self._running: Counter[str] = Counter()
        self._changed = threading.Condition()
        self._closed = False
        for index in range(threads):
            threading.Thread(target=self._serve, name=f"{name}-{index}", daemon=True).start()

    def submit(self, caller: str, function: Callable[[], T]) -> Future[T]:
        future: Future[T] = Future()
        with self._changed:
            if self._closed:
                raise RuntimeError("closed")
            call = _Call(caller, function, future)
            self._waiting.append(call)
            self._changed.notify()
        future.add_done_callback(lambda _future: self._forget(call))
        return future

    def close(self) -> None:
        """Cancels waiting calls. Running calls continue."""
        with self._changed:
            self._closed = True
            cancelled, self._waiting = self._waiting, []
            self._changed.notify_all()
        for call in cancelled:
            call.future.cancel()

    def _serve(self) -> None:
        while (call := self._next()) is not None:
            try:
                if call.future.set_running_or_notify_cancel():
                    self._run(call)
            finally:
                with self._changed:
                    self._running[call.caller] -= 1
                    self._running += Counter()  # drops callers at zero
                    self._changed.notify_all()
            del call

    def _run(self, call: _Call) -> None:
        try:
            result = call.function()
        except BaseException as error:  # raised again where the future is awaited
            call.future.set_exception(error)
        else:
            call.future.set_result(result)

    def _forget(self, call: _Call) -> None:
        """Removes a call from the queue if it was cancelled while it waited."""
        with self._changed:
            if call in self._waiting:
                self._waiting.remove(call)

    def _next(self) -> _Call | None:
        with self._changed:
            while True:
                for index, call in enumerate(self._waiting):
                    if self._running[call.caller] < self._most_per_caller:
                        self._running[call.caller] += 1
                        return self._waiting.pop(index)
                if self._closed:
                    return None
                self._changed.wait()


# -- Jobs --------------------------------------------------------------------------------------------------
#
# A job can be awaited and cancelled through any server process.
#
# The ledger has each job's state, and the release of its entry is its result. If a job finished in another
# process, its result is rebuilt from the stored release, which is free.

Payload = dict[str, Any]
FINISHED = ("done", "failed", "cancelled", "lost")
_SECONDS_BETWEEN_JOB_CHECKS = 0.5  # until another process's request to cancel is noticed
_SECONDS_BETWEEN_HEARTBEATS = 10.0  # after a minute without, the ledger considers a job lost
_SECONDS_BETWEEN_PRUNINGS = 3600.0
_SECONDS_BETWEEN_POLLS = 0.25  # of a job that runs in another process
_MOST_RESULTS, _MOST_ROWS = 64, 50_000
_WORKING = "Working"  # the stage until a phase reports one; in the ledger, always if times are padded


@dataclass
class LocalJob:
    """A job that this process runs or ran."""

    id: str
    task: Task
    future: Future[Payload] | None = None
    ended: Future[None] = field(default_factory=Future)
    result: Payload | None = None
    problem: Problem | None = None
    stored_state: str = ""
    unstored: dict[str, Any] | None = None
    """The job's last state, if the ledger could not be reached to store it."""

    def cancel(self) -> None:
        """Ends the job at once if it is queued, otherwise as soon as it can stop."""
        self.task.cancel()
        future = self.future
        if future is not None:
            future.cancel()


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
            job.future = future = submit(job.task, lambda: self._work(job, work))
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
            await asyncio.sleep(min(_SECONDS_BETWEEN_POLLS, left))

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
        failure = CancelledError() if future.cancelled() else future.exception()
        job.task.is_cancelled |= future.cancelled()
        if failure is None:
            state, job.result = "done", future.result()
        elif job.task.is_cancelled:
            state, job.problem = "cancelled", cancelled(is_charged=job.task.entry is not None)
        else:
            state, job.problem = "failed", as_problem(failure)
        error = None if job.problem is None else job.problem.shape
        self._store_state(job, state, error=error, entry=job.task.entry)
        job.future = None  # drops the plan, which may be many times larger than the result
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
        last_heartbeat, last_pruning = time.monotonic(), -_SECONDS_BETWEEN_PRUNINGS
        while not self._closed.wait(_SECONDS_BETWEEN_JOB_CHECKS):
            is_heartbeat_due = time.monotonic() - last_heartbeat > _SECONDS_BETWEEN_HEARTBEATS
            if is_heartbeat_due:
                last_heartbeat = time.monotonic()
            if time.monotonic() - last_pruning > _SECONDS_BETWEEN_PRUNINGS:
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
