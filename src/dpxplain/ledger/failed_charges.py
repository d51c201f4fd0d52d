"""Charges of analysts that ended without a release, and the curator's decisions to forgive them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Iterable

import sqlalchemy as sa

from dpxplain.ledger import audit
from dpxplain.ledger.protocol import check_name, check_reason, damage_explained
from dpxplain.ledger.single_flight import (
    ChargeEvent,
    Flights,
    events,
    last_endings,
    last_recovery,
    may_follow,
)
from dpxplain.ledger.standing import known_limit
from dpxplain.ledger.store import Store
from dpxplain.ledger.tables import ENTRIES, FLIGHTS, UNRELEASED
from dpxplain.ledger.tables import LOG as RECORDS
from dpxplain.model.charge import Ending

# Statements are built once: SQLAlchemy takes longer to build one than SQLite to run it.
_UNRELEASED = (
    sa.select(UNRELEASED.c.entry.label("id"), FLIGHTS.c.heard, FLIGHTS.c.process)
    .outerjoin(FLIGHTS, FLIGHTS.c.entry == UNRELEASED.c.entry)
    .where(UNRELEASED.c.dataset == sa.bindparam("dataset"), UNRELEASED.c.analyst == sa.bindparam("analyst"))
    .order_by(UNRELEASED.c.entry)
)
_FORGIVEN = "failures forgiven"
_FORGIVENESS = (
    sa.select(RECORDS.c.id, RECORDS.c.details)
    .where(RECORDS.c.dataset == sa.bindparam("dataset"), RECORDS.c.action == _FORGIVEN)
    .order_by(RECORDS.c.id.desc())
)
_EVERY_CANCELLATION = sa.select(RECORDS.c.details).where(
    RECORDS.c.dataset == sa.bindparam("dataset"), RECORDS.c.action == audit.CANCELLED
)


class Failures:
    """Charges of a ledger that ended without a release, and the curator's decisions to forgive them.

    Whether a charged request fails may depend on the data and, unlike its answer, has no noise. So a server
    limits the number of failures; the curator resets the count with a record in the audit log. A cancellation
    counts as soon as it is requested: if it counted only without a release, analysts could see for free
    whether a release followed. Endings that the data cannot have caused do not count. The death of a process
    counts once per analyst, because its requests together reveal only that it died.
    """

    def __init__(self, store: Store, flights: Flights) -> None:
        self._store = store
        self._flights = flights

    def record_cancellation(self, dataset: str, analyst: str, entry: int) -> None:
        """Record that the analyst asked to cancel a charged request."""
        with self._store.recording() as connection:
            audit.append(connection, analyst, audit.CANCELLED, dataset, {"entry": entry})

    def find_interrupted(self) -> None:
        """Record which processes died while they measured, if any did."""
        self._flights.find_silent()

    @damage_explained()
    def counted(
        self,
        dataset: str,
        analyst: str,
        *,
        running: Collection[int] = (),
        failed: Collection[int] = (),
    ) -> Counter[Ending]:
        """The analyst's failures since they were last forgiven, by how the requests ended.

        `running` and `failed` are entries whose state the ledger does not know yet.
        """
        parameters = {"dataset": dataset, "analyst": analyst}
        with self._store.reading() as connection:
            rows = connection.execute(_UNRELEASED, parameters).all()
            own_events = [event for event in events(connection, dataset) if event.analyst == analyst]
            if not rows and not own_events:  # nearly always
                return Counter()
            forgiven, up_to = _forgiven(connection, dataset, analyst)
        attempts = _Attempts(own_events)
        failures = attempts.failures(since=forgiven)
        for row in rows:
            attempt = attempts.current(row.id)
            if row.id <= up_to or row.id in running or attempt in attempts.endings:
                continue
            if row.id in failed:
                failures.setdefault(attempt, Ending.FAILED)
            elif not may_follow(row.heard):
                is_silent = row.heard is not None
                key = row.process if is_silent else attempt
                failures.setdefault(key, Ending.DIED if is_silent else Ending.FAILED)
        return Counter(failures.values())

    @damage_explained()
    def cancelled(self, dataset: str) -> frozenset[int]:
        """All entries of the data set that somebody asked to cancel."""
        with self._store.reading() as connection:
            details = connection.execute(_EVERY_CANCELLATION, {"dataset": dataset}).scalars().all()
        return frozenset(audit.parsed(text)["entry"] for text in details)

    @damage_explained()
    def kept(self, dataset: str) -> frozenset[int]:
        """All entries of the data set whose last ending keeps the charge for an identical request."""
        with self._store.reading() as connection:
            recovery, endings = last_recovery(connection), last_endings(connection, dataset)
        return frozenset(
            entry
            for entry, event in endings.items()
            if event.ending and event.ending.keeps_charge and event.record > recovery
        )

    @damage_explained()
    def endings(self, dataset: str) -> Counter[Ending]:
        """How often requests on the data set ended without a release, as far as the ledger recorded it."""
        with self._store.reading() as connection:
            return Counter(event.ending for event in events(connection, dataset) if event.ending is not None)

    def forgive(self, dataset: str, analyst: str, *, reason: str, by: str) -> None:
        """Stops counting the analyst's failures so far. The charges stay."""
        check_name(analyst)
        check_reason(reason)
        with self._store.recording() as connection:
            known_limit(connection, dataset)
            self._flights.end_silent(connection)  # otherwise they would count when they are found later
            last = sa.select(sa.func.max(ENTRIES.c.id)).where(ENTRIES.c.dataset == dataset)
            up_to = connection.execute(last).scalar() or 0
            details = {"analyst": analyst, "reason": reason, "up_to": up_to}
            audit.append(connection, by, _FORGIVEN, dataset, details)


Attempt = tuple[int, int]
"""An entry, and how often it was taken over before."""


class _Attempts:
    """One analyst's attempts to measure: how each ended, and which the analyst asked to cancel."""

    def __init__(self, own_events: Iterable[ChargeEvent]) -> None:
        self.endings: dict[Attempt, ChargeEvent] = {}  # the last of each: a death may be corrected
        self._cancelled: dict[Attempt, ChargeEvent] = {}
        self._takeovers: Counter[int] = Counter()
        for event in own_events:
            attempt = self.current(event.entry)
            if event.action == audit.TAKEN_OVER:
                self._takeovers[event.entry] += 1
            elif event.action == audit.CANCELLED:
                self._cancelled[attempt] = event
            elif event.ending is not None:
                self.endings[attempt] = event

    def current(self, entry: int) -> Attempt:
        """The last attempt to measure under this entry."""
        return entry, self._takeovers[entry]

    def failures(self, *, since: int) -> dict[Hashable, Ending]:
        """The failures after this record. Each attempt counts once, and each process that died once."""
        failures: dict[Hashable, Ending] = {}
        for attempt, event in self.endings.items():
            if event.record > since and event.ending is not None and event.ending.counts:
                failures[event.process if event.ending is Ending.DIED else attempt] = event.ending
        for attempt, event in self._cancelled.items():
            if event.record > since:
                failures[attempt] = Ending.CANCELLED
        return failures


def _forgiven(connection: sa.Connection, dataset: str, analyst: str) -> tuple[int, int]:
    """The record that last forgave the analyst, and the newest entry at that time; zeros if there is none."""
    for record in connection.execute(_FORGIVENESS, {"dataset": dataset}):
        details = audit.parsed(record.details)
        if details["analyst"] == analyst:
            return record.id, details["up_to"]
    return 0, 0
