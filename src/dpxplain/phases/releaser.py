"""Makes releases next to the data (rehearse, reserve, measure, store), or reads stored ones elsewhere.

The third implementation, `remote.client.RemoteReleaser`, asks a server.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Hashable
from dataclasses import replace
from datetime import UTC, datetime

from dpxplain.errors import (
    BadRequest,
    ChargeTakenOver,
    DPXPlainError,
    InternalError,
    LedgerBehind,
    LedgerUnavailable,
    SourceError,
    SourceLost,
)
from dpxplain.ledger.protocol import Ledger
from dpxplain.model.cancellation import Stopped, check_stop
from dpxplain.model.charge import Charge, Ending, Entry, Request
from dpxplain.model.release import R, Released
from dpxplain.phases.concurrency import KeyedLocks
from dpxplain.phases.dataset import OpenDataset, ReleasePlan, Show, T

_FIRST_POLL, _LONGEST_POLL = 0.02, 0.5  # seconds


class LocalReleaser:
    """Measures at most once: identical requests wait for each other, so that together they pay once.

    Within a process they wait for a lock; across processes that share a ledger, for the entry in it.
    """

    def __init__(self, ledger: Ledger, locks: KeyedLocks | None = None) -> None:
        self.ledger = ledger
        self._locks = locks or KeyedLocks()

    def find_or_measure(
        self,
        plan: ReleasePlan[R],
        request: Request,
        dataset: OpenDataset,
        show: Show[R, T],
        look: Hashable,
        found: Released[R] | None = None,
    ) -> T:
        if found is not None:
            dataset.check_data()
            return show(found)
        return show(self._find_or_measure(plan, request, dataset, show, look))

    def _find_or_measure(
        self, plan: ReleasePlan[R], request: Request, dataset: OpenDataset, show: Show[R, T], look: Hashable
    ) -> Released[R]:
        charge = plan.charge(dataset, request)
        with self._locks.hold(charge.key):
            while (stored := dataset.find(plan, charge.key)) is None:
                dataset.check_declarations(plan)
                charge = replace(charge, declarations=dataset.declarations_hash)
                if dataset.version_check is not None:
                    charge = replace(charge, data=dataset.version_check.measured_data())
                rehearse(plan, charge, dataset, show, look)
                entry = self.reserve(dataset.name, charge)
                if entry is not None and (released := self._measure(plan, entry, dataset)) is not None:
                    return released
                self._wait_for_other_process(dataset.name, charge.key)
            return stored

    def reserve(self, dataset: str, charge: Charge) -> Entry | None:
        """Charges, and returns the entry in the ledger; None if another process measures the same."""
        return self.ledger.reserve_once(dataset, charge)

    def store(self, entry: Entry, text: str) -> None:
        """Stores the release with its entry, before anybody sees it."""
        self.ledger.release(entry.row, text)

    def abandon(self, entry: Entry, ending: Ending) -> None:
        """Records that no release will follow and why, so that other processes stop waiting for it."""
        self.ledger.abandon(entry.row, ending)

    def ending(self, error: BaseException) -> Ending:
        """Why a measurement ended with this error. If in doubt, FAILED: the data may have caused it."""
        if isinstance(error, LedgerBehind) or (isinstance(error, LedgerUnavailable) and error.may_pass):
            return Ending.LEDGER_LOST
        if isinstance(error, SourceLost):
            return Ending.DATABASE_LOST if error.is_shut_down else Ending.CUT_OFF
        return Ending.FAILED

    def _measure(self, plan: ReleasePlan[R], entry: Entry, dataset: OpenDataset) -> Released[R] | None:
        """Measures and stores the release; None if another process took over the charge and measures it."""
        try:
            value = plan.measure(dataset)
            self.store(entry, value.to_json())
        except ChargeTakenOver:
            return None
        except BaseException as error:
            self.abandon(entry, self.ending(error))
            raise
        return Released(value, replace(entry, state="released"), free=False)

    def _wait_for_other_process(self, dataset: str, key: str) -> None:
        """Waits until the identical request of another process has ended, or that process is gone."""
        seconds = _FIRST_POLL
        while self.ledger.is_measured(dataset, key):
            check_stop()
            time.sleep(seconds)
            seconds = min(2 * seconds, _LONGEST_POLL)


def rehearse(
    plan: ReleasePlan[R], charge: Charge, dataset: OpenDataset, show: Show[R, T], look: Hashable
) -> None:
    """Runs a plan on a table without rows, up to the result, so that a failure costs nothing.

    After the charge, only the data or something that breaks meanwhile can make it fail. Each kind of request
    is rehearsed once. Later requests only check that a live table has kept its columns and permissions.
    """
    parts = repr((type(plan), tuple(dataset.schema.joined), plan.shape, look))
    kind = hashlib.sha256(parts.encode()).hexdigest()  # many are kept, and some are large
    rehearsal = dataset.rehearsal(StoredReleaser())
    try:
        if dataset.is_rehearsed(kind):
            rehearsal.check_unchanged()
            return
        text = plan.measure(rehearsal).to_json()
        show(Released(plan.read(text), _rehearsed_entry(charge), free=False))
    except SourceError as error:
        if isinstance(error, LedgerUnavailable):
            raise
        raise SourceError(
            "This request cannot read the data that it needs. Nothing was charged.",
            remedy="Ask the curator. The table, or the permission to read it, may have changed.",
        ) from None
    except (BadRequest, MemoryError, Stopped):
        raise
    except Exception as error:  # tells nothing about data: there are no rows
        raise InternalError(
            "This request would fail on any data. Nothing was charged.",
            remedy="Please report this, together with the request.",
        ) from error
    dataset.note_rehearsed(kind)


def _rehearsed_entry(charge: Charge) -> Entry:
    """The entry that the charge would get, outside any ledger."""
    return Entry(
        id=0,
        time=datetime.now(UTC),
        kind=charge.kind,
        description=charge.request.words,
        rho=charge.rho,
        spends=charge.spends,
        state="rehearsed",
        key=charge.key,
        request=charge.request.body,
    )


def may_not_spend() -> DPXPlainError:
    return InternalError("A request tried to spend budget, but may not.")


class StoredReleaser:
    """Finds stored releases and measures nothing, so no request can spend.

    `refusal` makes a new exception for each request: one raised twice would keep the frames of both.
    """

    def __init__(self, refusal: Callable[[], DPXPlainError] = may_not_spend) -> None:
        self._refusal = refusal

    def find_or_measure(
        self,
        plan: ReleasePlan[R],
        request: Request,
        dataset: OpenDataset,
        show: Show[R, T],
        look: Hashable,
        found: Released[R] | None = None,
    ) -> T:
        if found is not None:
            dataset.check_data()
        stored = found or dataset.find(plan)
        if stored is None:
            raise self._refusal()
        return show(stored)
