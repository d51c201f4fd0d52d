"""Data sets and sessions of one caller. They use the caller's own account in the ledger, and the engine that
all callers share.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import fields, replace

from dpxplain.curator import CuratorDataset
from dpxplain.errors import LedgerUnavailable
from dpxplain.ledger.protocol import Ledger, LedgerView
from dpxplain.model.charge import Charge, Ending, Entry
from dpxplain.phases.concurrency import KeyedLocks
from dpxplain.phases.dataset import OpenDataset
from dpxplain.phases.releaser import LocalReleaser, StoredReleaser
from dpxplain.server.pool import Task
from dpxplain.session import Session

STORING_SECONDS = 20.0
"""How long to keep trying to store a release while the ledger is unreachable.

Shorter than the time after which other processes think that the measurement is lost.
"""
_BETWEEN_ATTEMPTS = 0.25

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
            time.sleep(_BETWEEN_ATTEMPTS)

    def ending(self, error: BaseException) -> Ending:
        """The ending to record: a requested stop takes precedence over the error it led to."""
        if self._task.cancelled:
            return Ending.CANCELLED
        return Ending.STOPPED if self._task.is_server_stopped else super().ending(error)

    def abandon(self, entry: Entry, ending: Ending) -> None:
        self._task.pad_once()  # another process that waits for this request must not learn when it failed
        self._task.ending = ending
        super().abandon(entry, ending)


def read_only_dataset(dataset: OpenDataset, account: LedgerView, caller: str = "") -> OpenDataset:
    """The data set for prices and stored releases. It cannot spend, and has no engine to read data."""
    return replace(dataset, ledger=account, releaser=StoredReleaser(), engine=None, caller=caller)


def measuring_dataset(
    dataset: OpenDataset, account: Ledger, task: Task, locks: KeyedLocks, charge_guard: ChargeGuard
) -> OpenDataset:
    """The data set as a task of this caller may spend on it.

    `locks` are the caller's own: two callers with the same request do not wait for each other, so they cannot
    notice each other. `charge_guard` is held while a charge is written.
    """
    releaser = TaskReleaser(account, task, locks, charge_guard)
    return replace(dataset, ledger=account, releaser=releaser, progress=task.progress)


def curator_session(dataset: OpenDataset, account: LedgerView) -> Session:
    """A session that also shows true values, and cannot spend."""
    parts = {part.name: getattr(dataset, part.name) for part in fields(dataset)}
    return Session(CuratorDataset(**parts | {"ledger": account, "releaser": StoredReleaser()}))
