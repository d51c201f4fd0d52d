"""How releases come about where the data are: reserve, measure, store; and where only stored ones are read.

The third implementation, `remote.client.RemoteReleaser`, asks a server.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from dpxplain.errors import DPXPlainError, InternalError
from dpxplain.ledger.protocol import Ledger
from dpxplain.model.charge import Charge, Entry, Request
from dpxplain.model.release import R, Released
from dpxplain.phases.concurrency import KeyedLocks
from dpxplain.phases.dataset import OpenDataset, ReleasePlan


class LocalReleaser:
    """Measures at most once: identical requests wait for each other, so that together they pay once."""

    def __init__(self, ledger: Ledger, locks: KeyedLocks | None = None) -> None:
        self.ledger = ledger
        self._locks = locks or KeyedLocks()

    def find_or_measure(self, plan: ReleasePlan[R], request: Request, dataset: OpenDataset) -> Released[R]:
        charge = plan.charge(dataset, request)
        with self._locks.hold(charge.key):
            if stored := dataset.find(plan, charge.key):
                return stored
            dataset.check_declarations(plan)
            charge = replace(charge, declarations=dataset.declarations_hash)
            if dataset.guard is not None:
                charge = replace(charge, data=dataset.guard.measured_data())
            entry = self.reserve(dataset.name, charge)
            value = plan.measure(dataset)
            self.store(entry, value.to_json())
            return Released(value, replace(entry, state="released"), free=False)

    def reserve(self, dataset: str, charge: Charge) -> Entry:
        """Charges, and returns the entry in the ledger."""
        return self.ledger.reserve(dataset, charge)

    def store(self, entry: Entry, text: str) -> None:
        """Stores the release with its entry, before anybody sees it. A server drops it if it was to stop."""
        self.ledger.release(entry.id, text)


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
