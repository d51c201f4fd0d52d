"""What a running server holds, and how a route reaches it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, TypeVar
from weakref import WeakValueDictionary

from fastapi import Depends, Request

from dpxplain.ledger.validation import LOCAL_OWNER
from dpxplain.phases.concurrency import Turns
from dpxplain.phases.dataset import OpenDataset
from dpxplain.render.snippets import Place
from dpxplain.server import caller_session as accounts
from dpxplain.server.authenticate import AnyCaller
from dpxplain.server.bodies import DatasetName
from dpxplain.server.config import Config
from dpxplain.server.failing import FailureCount
from dpxplain.server.identity import Caller, Identifier
from dpxplain.server.job_runner import JobRunner
from dpxplain.server.metrics import Metrics
from dpxplain.server.oidc import Issuer
from dpxplain.server.pool import RETRY_SECONDS, Pool, Task
from dpxplain.server.problems import busy
from dpxplain.server.registry import Registry
from dpxplain.server.size_limits import Sizes
from dpxplain.session import Session

if TYPE_CHECKING:
    from dpxplain.ledger.account import Account
    from dpxplain.ledger.ledger import SQLLedger

T = TypeVar("T")


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
            memory=limits.memory,
            editable=not config.single_user,
        )
        self.identifier = Identifier(
            None if config.single_user else ledger.tokens,
            Issuer(config.oidc) if config.oidc is not None else None,
            secure=serving.secure,
        )
        self.pool = Pool(
            running=limits.running,
            waiting=limits.waiting,
            seconds=limits.seconds_per_request,
            pad_seconds=limits.pad_seconds,
            shared=not config.single_user,
        )
        # Prices and what is stored: no data is read, so nothing waits for what reads some.
        self.planning = Pool(
            running=limits.running,
            waiting=limits.waiting,
            seconds=limits.seconds_per_request,
            shared=not config.single_user,
            name="dpxplain-plan",
        )
        self.sizes = Sizes.of(limits)
        self.failures = FailureCount(ledger.failures, self.pool, limits)
        self.jobs = JobRunner(self.pool, ledger.jobs)
        self.metrics = Metrics(self)
        self._turns: WeakValueDictionary[str, Turns] = WeakValueDictionary()
        self._lock = threading.Lock()

    def account(self, caller: Caller) -> Account:
        """What the caller may spend and see."""
        if self.config.single_user:
            return self.ledger
        return self.ledger.account(
            caller.name, sees_all=caller.is_curator, default_limit=self.config.analysts.default_rho
        )

    def turns(self, caller: Caller) -> Turns:
        """Shared by all requests of one caller that are under way."""
        with self._lock:
            turns = self._turns.get(caller.name)
            if turns is None:
                turns = self._turns[caller.name] = Turns()
            return turns

    def actor(self, caller: Caller) -> str:
        """How the audit log names the caller."""
        return caller.name or LOCAL_OWNER

    @property
    def still_works(self) -> bool:
        """Whether some thread did not stop in time."""
        return self.pool.still_runs or self.planning.still_runs

    def close(self) -> None:
        self.pool.close()
        self.planning.close()
        self.jobs.close()


async def server_of(request: Request) -> Server:
    server: Server = request.app.state.server
    return server


Running = Annotated[Server, Depends(server_of)]


class Desk:
    """One caller at one data set: what most routes work with."""

    def __init__(self, server: Server, dataset: OpenDataset, caller: Caller, home: str) -> None:
        self.server = server
        self.dataset = dataset
        self.place = Place.of_server(f"{home.rstrip('/')}/{dataset.name}")
        self.caller = caller
        self.account = server.account(caller)
        self._turns = server.turns(caller)

    @property
    def name(self) -> str:
        return self.dataset.name

    def looking(self) -> Session:
        """For prices and what is stored: cannot spend."""
        return accounts.asking_nothing_new(self.dataset, self.account)

    def measuring(self, task: Task) -> Session:
        return accounts.measuring(self.dataset, self.account, task, self._turns, self._admitted)

    def revealing(self) -> Session:
        """The curator's."""
        assert self.caller.is_curator
        return accounts.revealing(self.dataset, self.account)

    async def in_pool(self, work: Callable[[Task], T]) -> T:
        """Wait for work that reads data; refused at once if the server is busy."""
        return await self._in(self.server.pool, work)

    async def planned(self, work: Callable[[], T]) -> T:
        """Wait for work that may take long but reads no data."""
        return await self._in(self.server.planning, lambda _task: work())

    @contextmanager
    def _admitted(self) -> Iterator[None]:
        if not self.caller.is_curator:  # who may see the data learns nothing from failures
            self.server.failures.check(self.name, self.caller.name)
        with self.server.datasets.holding(self.dataset):
            yield

    async def _in(self, pool: Pool, work: Callable[[Task], T]) -> T:
        task = Task()
        future = pool.submit(self.caller.name, task, lambda: work(task))
        try:
            return await asyncio.wrap_future(future)
        except asyncio.CancelledError:
            if future.cancelled():  # the server is being shut down, and it had not begun
                raise busy(RETRY_SECONDS) from None
            raise


def desk_of(request: Request, server: Running, caller: AnyCaller, dataset: DatasetName) -> Desk:
    home = server.config.server.public_url or str(request.base_url)  # whose host the gate has checked
    return Desk(server, server.datasets.get(dataset), caller, home)


AtDesk = Annotated[Desk, Depends(desk_of)]
