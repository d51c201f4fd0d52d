"""Sessions of one caller: on the caller's own account in the ledger, and the engine and passes of all."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import fields, replace

from dpxplain.curator import CuratorDataset
from dpxplain.errors import InternalError
from dpxplain.ledger.protocol import Entry, Ledger
from dpxplain.model.budget import Budget
from dpxplain.model.charge import Charge
from dpxplain.phases.concurrency import Turns
from dpxplain.phases.dataset import OpenDataset
from dpxplain.server.pool import Task
from dpxplain.session import Session

Admitted = Callable[[], AbstractContextManager[None]]


class NotStored(InternalError):
    """What was asked is not stored, and this session may not measure it."""


class WatchedLedger:
    """An account as one request uses it: the task knows what is reserved; without a task nothing can be."""

    def __init__(self, ledger: Ledger, task: Task | None, admitted: Admitted = nullcontext) -> None:
        self._ledger = ledger
        self._task = task
        self._admitted = admitted

    def reserve(self, dataset: str, charge: Charge) -> int:
        if self._task is None:
            raise NotStored("A request that may not spend was about to.")
        self._task.stop.check()  # the last moment at which a cancelled request costs nothing
        with self._admitted():
            entry = self._ledger.reserve(dataset, charge)
        self._task.charge(entry, charge.rho)
        return entry

    def open_dataset(self, dataset: str, limit: float, delta: float) -> None:
        self._ledger.open_dataset(dataset, limit, delta)

    def budget(self, dataset: str) -> Budget:
        return self._ledger.budget(dataset)

    def release(self, entry: int, payload: str) -> None:
        if self._task is not None:
            self._task.settle()
        self._ledger.release(entry, payload)

    def find(self, dataset: str, key: str) -> tuple[Entry, str] | None:
        return self._ledger.find(dataset, key)

    def get(self, dataset: str, entry: int) -> tuple[Entry, str] | None:
        return self._ledger.get(dataset, entry)

    def history(self, dataset: str) -> list[Entry]:
        return self._ledger.history(dataset)

    def entry(self, dataset: str, id: int) -> Entry | None:
        return self._ledger.entry(dataset, id)

    def latest(self, dataset: str, kind: str) -> Entry | None:
        return self._ledger.latest(dataset, kind)

    def preparations(self, dataset: str, subject: str) -> list[Entry]:
        return self._ledger.preparations(dataset, subject)

    def close(self) -> None:
        """An account is not closed; its ledger is."""


def read_only_session(dataset: OpenDataset, account: Ledger) -> Session:
    """For prices and for what is stored. It cannot spend, so it has locks of its own and waits for nobody."""
    return Session(replace(dataset, ledger=WatchedLedger(account, None), _turns=Turns()))


def measuring_session(
    dataset: OpenDataset, account: Ledger, task: Task, turns: Turns, admitted: Admitted
) -> Session:
    """A session that may spend.

    `turns` are the caller's own locks: two callers who ask the same do not wait for, and so do not notice,
    each other. `admitted` is held while a charge is written, or refuses it.
    """
    ledger = WatchedLedger(account, task, admitted)
    return Session(replace(dataset, ledger=ledger, progress=task.progress, _turns=turns))


def curator_session(dataset: OpenDataset, account: Ledger) -> Session:
    """Also shows true values. Cannot spend."""
    parts = {part.name: getattr(dataset, part.name) for part in fields(dataset)}
    return Session(CuratorDataset(**parts | {"ledger": WatchedLedger(account, None)}))
