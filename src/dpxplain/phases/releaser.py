"""How releases come about where the data are: reserve, measure, store; and where only stored ones are read.

The third implementation, `remote.client.RemoteReleaser`, asks a server.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from dpxplain.errors import DPXPlainError, InternalError
from dpxplain.ledger.protocol import Ledger
from dpxplain.model.cancellation import check_stop
from dpxplain.model.charge import Charge, Entry, Request
from dpxplain.model.release import R, Released
from dpxplain.phases.concurrency import KeyedLocks
from dpxplain.phases.dataset import OpenDataset, ReleasePlan

_FIRST_POLL, _LONGEST_POLL = 0.02, 0.5  # seconds


class LocalReleaser:
    """Measures at most once: identical requests wait for each other, so that together they pay once.

    Within a process they wait at a lock, and across processes that share a ledger for its entry.
    """

    def __init__(self, ledger: Ledger, locks: KeyedLocks | None = None) -> None:
        self.ledger = ledger
        self._locks = locks or KeyedLocks()

    def find_or_measure(self, plan: ReleasePlan[R], request: Request, dataset: OpenDataset) -> Released[R]:
        charge = plan.charge(dataset, request)
        with self._locks.hold(charge.key):
            while (stored := dataset.find(plan, charge.key)) is None:
                dataset.check_declarations(plan)
                charge = replace(charge, declarations=dataset.declarations_hash)
                if dataset.version_check is not None:
                    charge = replace(charge, data=dataset.version_check.measured_data())
                entry = self.reserve(dataset.name, charge)
                if entry is not None:
                    return self._measure(plan, entry, dataset)
                self._wait_for_other_process(dataset.name, charge.key)
            return stored

    def reserve(self, dataset: str, charge: Charge) -> Entry | None:
        """Charges, and returns the entry in the ledger; None if another process measures the same."""
        return self.ledger.reserve_once(dataset, charge)

    def store(self, entry: Entry, text: str) -> None:
        """Stores the release with its entry, before anybody sees it."""
        self.ledger.release(entry.row, text)

    def abandon(self, entry: Entry) -> None:
        """Records that no release will follow, so that other processes stop waiting for it."""
        self.ledger.abandon(entry.row)

    def _measure(self, plan: ReleasePlan[R], entry: Entry, dataset: OpenDataset) -> Released[R]:
        try:
            value = plan.measure(dataset)
            self.store(entry, value.to_json())
        except BaseException:
            self.abandon(entry)
            raise
        return Released(value, replace(entry, state="released"), free=False)

    def _wait_for_other_process(self, dataset: str, key: str) -> None:
        """Until the identical request at another process has ended, or that process is gone."""
        seconds = _FIRST_POLL
        while self.ledger.is_measured(dataset, key):
            check_stop()
            time.sleep(seconds)
            seconds = min(2 * seconds, _LONGEST_POLL)


def may_not_spend() -> DPXPlainError:
    return InternalError("A request that may not spend was about to.")


class StoredReleaser:
    """Finds what is stored and measures nothing, so nothing asked of it can spend.

    `refusal` makes a new exception for each request: one raised twice would keep the frames of both.
    """

    def __init__(self, refusal: Callable[[], DPXPlainError] = may_not_spend) -> None:
        self._refusal = refusal

    def find_or_measure(self, plan: ReleasePlan[R], request: Request, dataset: OpenDataset) -> Released[R]:
        stored = dataset.find(plan)
        if stored is None:
            raise self._refusal()
        return stored
