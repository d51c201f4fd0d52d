"""Sessions of one caller: on the caller's own account in the ledger, and the engine and passes of all."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import fields, replace

from dpxplain.curator import CuratorDataset
from dpxplain.ledger.protocol import Ledger, LedgerView
from dpxplain.model.charge import Charge, Entry
from dpxplain.phases.concurrency import KeyedLocks
from dpxplain.phases.dataset import OpenDataset
from dpxplain.phases.releaser import LocalReleaser, StoredReleaser
from dpxplain.server.pool import Task
from dpxplain.session import Session

Admitted = Callable[[], AbstractContextManager[None]]


class TaskReleaser(LocalReleaser):
    """Charges the caller's account; the task knows what was reserved."""

    def __init__(self, account: Ledger, task: Task, locks: KeyedLocks, admitted: Admitted) -> None:
        super().__init__(account, locks)
        self._task = task
        self._admitted = admitted

    def reserve(self, dataset: str, charge: Charge) -> Entry | None:
        self._task.stop.check()  # the last moment at which a cancelled request costs nothing
        with self._admitted():
            entry = super().reserve(dataset, charge)
        if entry is not None:
            self._task.charge(entry.id, charge.rho)
        return entry

    def store(self, entry: Entry, text: str) -> None:
        self._task.settle()
        super().store(entry, text)

    def abandon(self, entry: Entry) -> None:
        self._task.end_step()  # or whoever waits for it at another process would learn when it failed
        super().abandon(entry)


def read_only_session(dataset: OpenDataset, account: LedgerView, caller: str = "") -> Session:
    """For prices and for what is stored. It cannot spend, and has no data."""
    return Session(replace(dataset, ledger=account, releaser=StoredReleaser(), engine=None, caller=caller))


def measuring_dataset(
    dataset: OpenDataset, account: Ledger, task: Task, locks: KeyedLocks, admitted: Admitted
) -> OpenDataset:
    """The data set as a task of this caller may spend on it.

    `locks` are the caller's own: two callers who ask the same do not wait for, and so do not notice,
    each other. `admitted` is held while a charge is written, or refuses it.
    """
    releaser = TaskReleaser(account, task, locks, admitted)
    return replace(dataset, ledger=account, releaser=releaser, progress=task.progress)


def curator_session(dataset: OpenDataset, account: LedgerView) -> Session:
    """Also shows true values. Cannot spend."""
    parts = {part.name: getattr(dataset, part.name) for part in fields(dataset)}
    return Session(CuratorDataset(**parts | {"ledger": account, "releaser": StoredReleaser()}))
