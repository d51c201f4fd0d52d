"""Sessions of one caller: on the caller's own account in the ledger, and the engine and passes of all."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import fields, replace

from dpxplain.curator import CuratorDataset
from dpxplain.errors import LedgerUnavailable
from dpxplain.ledger.protocol import Ledger, LedgerView
from dpxplain.model.charge import Charge, Entry
from dpxplain.phases.concurrency import KeyedLocks
from dpxplain.phases.dataset import OpenDataset
from dpxplain.phases.releaser import LocalReleaser, StoredReleaser
from dpxplain.server.pool import Task
from dpxplain.session import Session

STORING_SECONDS = 20.0
"""How long what was measured is held while the ledger is away; shorter than its flight is believed."""
_BETWEEN_ATTEMPTS = 0.25

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
            self._task.charge(entry.row, charge.rho, dataset=dataset, person=entry.analyst)
        return entry

    def store(self, entry: Entry, text: str) -> None:
        self._task.settle()
        self._store_patiently(entry, text)
        self._task.is_stored = True

    def _store_patiently(self, entry: Entry, text: str) -> None:
        """Tries again while the ledger is away: what was measured cannot be measured again for nothing.

        Where the connection broke while it was stored, it may be stored. That it takes longer tells nothing
        of the data: when to store was decided before.
        """
        until = time.monotonic() + STORING_SECONDS
        first = True
        while True:
            try:
                if first or self.ledger.get(self._task.dataset, entry.id) is None:
                    super().store(entry, text)
                return
            except LedgerUnavailable as error:
                if not error.may_pass or time.monotonic() > until:
                    raise
            first = False
            time.sleep(_BETWEEN_ATTEMPTS)

    def abandon(self, entry: Entry) -> None:
        self._task.end_step()  # or whoever waits for it at another process would learn when it failed
        super().abandon(entry)


def read_only_dataset(dataset: OpenDataset, account: LedgerView, caller: str = "") -> OpenDataset:
    """The data set for prices and for what is stored. It cannot spend, and has no data."""
    return replace(dataset, ledger=account, releaser=StoredReleaser(), engine=None, caller=caller)


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
    """A session that also shows true values, and cannot spend."""
    parts = {part.name: getattr(dataset, part.name) for part in fields(dataset)}
    return Session(CuratorDataset(**parts | {"ledger": account, "releaser": StoredReleaser()}))
