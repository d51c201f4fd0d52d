"""What routes depend on: the running server, and one caller's access to one data set."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import AbstractContextManager, contextmanager
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Annotated, TypeVar
from weakref import WeakValueDictionary

from anyio import CapacityLimiter, move_on_after
from anyio.to_thread import run_sync
from fastapi import Depends, Request

from dpxplain.curator import CuratorDataset
from dpxplain.errors import LedgerUnavailable
from dpxplain.ledger.protocol import Ledger
from dpxplain.model.charge import Charge, Ending, Entry, failure_number
from dpxplain.phases.concurrency import KeyedLocks
from dpxplain.phases.dataset import LocalReleaser, OpenDataset, StoredReleaser
from dpxplain.render.snippets import CodePlace
from dpxplain.server import metrics
from dpxplain.server.authenticate import AnyCaller, Authenticator, Caller, Issuer
from dpxplain.server.config import Config
from dpxplain.server.limits import FailureLimit, ProcessCount, RateLimits, Sizes
from dpxplain.server.metrics import LedgerHealth, Metrics, Readiness
from dpxplain.server.pool import JobRunner, Pool, Task
from dpxplain.server.problems import busy, failure_count, other_version
from dpxplain.server.records import FailureCount, LostRequest, Summary, lost_request, summary
from dpxplain.server.registry import Registry
from dpxplain.server.requests import DatasetName
from dpxplain.session import Session
from dpxplain.wire import PROTOCOL, PROTOCOL_HEADER

if TYPE_CHECKING:
    from dpxplain.ledger.account import Account
    from dpxplain.ledger.ledger import SQLLedger

# -- Server and data set access ----------------------------------------------------------------------------

T = TypeVar("T")
_PROBE_THREADS = 4


class Server:
    """Everything that lives as long as the process."""

    def __init__(self, config: Config, ledger: SQLLedger) -> None:
        serving, limits = config.server, config.limits
        self.config = config
        self.ledger = ledger
        self.datasets = Registry(
            serving.datasets,
            ledger,
            data_folder=serving.data_folder,
            databases=serving.databases,
            memory=limits.memory,
            time_limit=limits.seconds_per_request,
            editable=not config.single_user,
        )
        self.authenticator = Authenticator(
            None if config.single_user else ledger.tokens,
            Issuer(config.oidc) if config.oidc is not None else None,
            secure=serving.secure,
            sessions=None if config.single_user else ledger.sessions,
        )
        self.ledger_health = LedgerHealth()
        ledger.store.observer = self.ledger_health
        ledger.flights.record_deaths()
        tasks = (ledger.store.check_clock, ledger.recovery.keep_anchor, ledger.flights.record_deaths)
        self._processes = ProcessCount(ledger.processes, *tasks)
        self.readiness = Readiness(self.datasets, self._processes.refresh, ledger.recovery.keep_anchor)
        self.probe_limiter = CapacityLimiter(_PROBE_THREADS)  # probes answer even if all other threads hang
        self.rates = RateLimits(limits, self._processes)
        self.pool = Pool(
            running=limits.running,
            waiting=limits.waiting,
            seconds=limits.seconds_per_request,
            pad_seconds=limits.pad_seconds,
            pad_ratio=limits.pad_ratio,
            shared=not config.single_user,
        )
        # For prices and stored releases, which read no data and need not wait for requests that do.
        self.planning = Pool(
            running=limits.running,
            waiting=limits.waiting,
            seconds=limits.seconds_per_request,
            shared=not config.single_user,
            name="dpxplain-plan",
        )
        self.sizes = Sizes.of(limits)
        self.failures = FailureLimit(ledger.failures, self.pool, limits)
        self.jobs = JobRunner(self.pool, ledger.jobs, ledger.failures)
        self.metrics = Metrics(self.jobs, self.pool, self.datasets, ledger, self.ledger_health)
        self._locks: WeakValueDictionary[str, KeyedLocks] = WeakValueDictionary()
        self._lock = threading.Lock()

    def account(self, caller: Caller) -> Account:
        """The caller's account in the ledger."""
        if self.config.single_user:
            return self.ledger
        return self.ledger.account(
            caller.name, sees_all=caller.is_curator, default_limit=self.config.analysts.default_rho
        )

    def summaries(self, caller: Caller) -> list[Summary]:
        """Every data set by name, with the caller's budget on it."""
        account = self.account(caller)
        summaries = [summary(each.schema, account.budget(each.name)) for each in self.datasets.all]
        for file in self.datasets.unavailable:
            if file.schema is not None:
                summaries.append(summary(file.schema, account.budget(file.name), available=False))
        return sorted(summaries, key=lambda each: each["name"])

    def locks(self, caller: Caller) -> KeyedLocks:
        """The locks that all running requests of one caller share.

        Two callers with the same request do not wait for each other, so they cannot notice each other.
        """
        with self._lock:
            locks = self._locks.get(caller.name)
            if locks is None:
                locks = self._locks[caller.name] = KeyedLocks()
            return locks

    async def is_answering(self) -> bool:
        """Whether a request would soon get a thread, and a place in both pools."""
        if self.pool.is_full or self.planning.is_full:
            return False
        with move_on_after(metrics.SECONDS_PER_CHECK):
            for threads in (self.authenticator.threads, None):  # None: the routes' threads
                await run_sync(lambda: None, limiter=threads)
            return True
        return False

    @property
    def is_running(self) -> bool:
        """Whether some task did not stop in time."""
        return self.pool.is_running or self.planning.is_running

    def close(self) -> None:
        self.pool.close()
        self.planning.close()
        for entry in self.pool.stopped_entries:
            self.ledger.abandon(entry, Ending.STOPPED)
        self.jobs.close()
        self._processes.close()


async def server_of(request: Request) -> Server:
    server: Server = request.app.state.server
    return server


ServerDep = Annotated[Server, Depends(server_of)]


class DatasetAccess:
    """One caller's access to one data set. Most routes use it."""

    def __init__(self, server: Server, dataset: OpenDataset, caller: Caller, home: str) -> None:
        self.server = server
        self.dataset = dataset
        self.place = CodePlace.of_server(f"{home.rstrip('/')}/{dataset.name}")
        self.caller = caller
        self.account = server.account(caller)
        """For budgets and charges; releases are read through `ledger`."""
        self.read_only_dataset = replace(
            dataset,
            ledger=self.account,
            releaser=StoredReleaser(),
            engine=None,
            caller=caller.name,
            quality_readings={},
        )
        """For prices and stored releases. It cannot spend, and has no engine to read data."""
        self.ledger = self.read_only_dataset.ledger
        """The caller's account. It reads releases only while the data are those of the declared version."""

    @property
    def name(self) -> str:
        return self.dataset.name

    def read_only_session(self) -> Session:
        return Session(self.read_only_dataset)

    def measuring_dataset(self, task: Task) -> OpenDataset:
        """The data set as a task of this caller may spend on it."""
        releaser = TaskReleaser(self.account, task, self.server.locks(self.caller), self._charge_guard)
        return replace(self.dataset, ledger=self.account, releaser=releaser, progress=task.progress)

    def curator_session(self) -> Session:
        """A session that also shows true values, and cannot spend."""
        assert self.caller.is_curator
        parts = {part.name: getattr(self.dataset, part.name) for part in fields(self.dataset)}
        return Session(CuratorDataset(**parts | {"ledger": self.account, "releaser": StoredReleaser()}))

    def failure_count(self) -> FailureCount | None:
        """How many of the caller's charged requests failed or were stopped, and the consequence in words."""
        if self.caller.is_curator:
            return None
        limit = self.server.failures
        endings = limit.counted(self.name, self.caller.name)
        return failure_count(failure_number(endings), limit.most, is_blocked=limit.blocks(endings))

    def lost_requests(self) -> list[LostRequest]:
        """The caller's charged requests that broke off, the newest first."""
        present = self.dataset.fingerprint, self.dataset.schema.table.version
        return [
            lost_request(entry, charge.ending, is_free=(charge.declarations, entry.version) == present)
            for charge in self.server.ledger.failures.lost(self.name, self.caller.name)
            if (entry := self.account.at_row(self.name, charge.row)) is not None
        ]

    async def measure(self, work: Callable[[Task], T]) -> T:
        """Awaits work that reads data. Raises at once if the server is busy."""
        return await self._run_in(self.server.pool, work)

    async def plan(self, work: Callable[[], T]) -> T:
        """Awaits work that may take long but reads no data."""
        return await self._run_in(self.server.planning, lambda _task: work())

    @contextmanager
    def _charge_guard(self) -> Iterator[None]:
        """Held while a charge is written. Raises after too many failures, or if the declarations changed."""
        if not self.caller.is_curator:  # a curator may see the data, so failures reveal nothing new
            self.server.failures.check(self.name, self.caller.name)
        with self.server.datasets.unchanged(self.dataset):
            yield

    async def _run_in(self, pool: Pool, work: Callable[[Task], T]) -> T:
        task = Task()
        return await outcome(pool.submit(self.caller.name, task, lambda: work(task)))


async def outcome(future: Future[T]) -> T:
    """The result of a pool's task. Raises `busy` if the server shuts down before the task began."""
    try:
        return await asyncio.wrap_future(future)
    except asyncio.CancelledError:
        if future.cancelled():
            raise busy() from None
        raise


def access_of(request: Request, server: ServerDep, caller: AnyCaller, dataset: DatasetName) -> DatasetAccess:
    """Access to the data set that the path names. Raises for a client of another protocol version."""
    if request.headers.get(PROTOCOL_HEADER, str(PROTOCOL)) != str(PROTOCOL):
        raise other_version()
    open_dataset = server.datasets.get(dataset)
    request.state.dataset = open_dataset.name  # for the access log, which never logs the path itself
    home = server.config.server.public_url or str(request.base_url)  # authenticate.py has checked the host
    return DatasetAccess(server, open_dataset, caller, home)


AccessDep = Annotated[DatasetAccess, Depends(access_of)]


# -- Charging and storing ----------------------------------------------------------------------------------

STORING_SECONDS = 20.0
"""How long to keep trying to store a release while the ledger is unreachable.

Shorter than the time after which other processes think that the measurement is lost.
"""
_SECONDS_BETWEEN_ATTEMPTS = 0.25

ChargeGuard = Callable[[], AbstractContextManager[None]]
"""Entered while a charge is written; raises to refuse it."""


class TaskReleaser(LocalReleaser):
    """Charges the caller's account, and notes on the task what was charged and whether it is stored."""

    def __init__(self, account: Ledger, task: Task, locks: KeyedLocks, charge_guard: ChargeGuard) -> None:
        super().__init__(account, locks)
        self._task = task
        self._charge_guard = charge_guard

    def reserve(self, dataset: str, charge: Charge) -> Entry | None:
        self._task.stop.check()  # the last moment at which a cancelled request costs nothing
        with self._charge_guard():
            entry = super().reserve(dataset, charge)
        if entry is not None:
            self._task.charge(entry.row, charge.rho, dataset=dataset, person=entry.analyst)
        return entry

    def store(self, entry: Entry, text: str) -> None:
        self._task.settle()
        self._store_with_retries(entry, text)
        self._task.is_stored = True

    def _store_with_retries(self, entry: Entry, text: str) -> None:
        """Retries while the ledger is away, since measuring again would cost again.

        A store whose connection broke may have succeeded, so a retry first looks for the release. It may find
        the release of another process that took over the charge; the ledger then says so. Retries reveal
        nothing about the data, because they do not decide whether the release is stored.
        """
        deadline = time.monotonic() + STORING_SECONDS
        first = True
        while True:
            try:
                stored = None if first else self.ledger.get(self._task.dataset, entry.id)
                if stored is None or stored[1] != text:
                    super().store(entry, text)
                return
            except LedgerUnavailable as error:
                if not error.may_pass or time.monotonic() > deadline:
                    raise
            first = False
            time.sleep(_SECONDS_BETWEEN_ATTEMPTS)

    def ending(self, error: BaseException) -> Ending:
        """The ending to record: a requested stop takes precedence over the error it led to."""
        if self._task.is_cancelled:
            return Ending.CANCELLED
        return Ending.STOPPED if self._task.is_server_stopped else super().ending(error)

    def abandon(self, entry: Entry, ending: Ending) -> None:
        self._task.pad_once()  # another process that waits for this request must not learn when it failed
        self._task.ending = ending
        super().abandon(entry, ending)
