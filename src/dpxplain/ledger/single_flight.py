"""Requests that are being measured now ("flights"), and charges that ended without a release. An identical
request in another process waits for the flight.

A flight is written with its charge and ends with its release, or with an `Ending` in the audit log. Its
process sends heartbeats. After `SILENCE` without one the process counts as dead, and the process that notices
records it. If the connection breaks while a charge is committed, no data are read for the charge; once the
ledger is back, its flight is marked as untouched. The next identical request is not charged again if it can
take over an untouched charge, or a charge whose ending keeps it. At most one release is stored for a charge
(docs/adr/0044).
"""

from __future__ import annotations

import logging
import secrets
import threading
from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import sqlalchemy as sa

from dpxplain.errors import ChargeTakenOver, DPXPlainError, LedgerBehind
from dpxplain.ledger import audit
from dpxplain.ledger.balances import known_limit
from dpxplain.ledger.protocol import check_name, check_reason, damage_explained
from dpxplain.ledger.store import Store
from dpxplain.ledger.tables import ENTRIES, FLIGHTS, LOG, RELEASES, UNRELEASED, matching
from dpxplain.model.charge import Ending

# -- Flights -----------------------------------------------------------------------------------------------

LOGGER = logging.getLogger("dpxplain.ledger")
SILENCE = timedelta(seconds=30)
"""A process without a heartbeat for this long counts as dead. Clocks must agree much better than this."""
SECONDS_BETWEEN_HEARTBEATS = 5.0
_UNTOUCHED = "untouched"
"""Stored in place of the last heartbeat's time: the request is charged, and no data were read."""

_REQUEST_COLUMNS = ("dataset", "analyst", "key")
_FLIGHT = sa.select(FLIGHTS).where(matching(FLIGHTS, *_REQUEST_COLUMNS))
_FLIGHT_OF_ENTRY = sa.select(FLIGHTS).where(matching(FLIGHTS, "entry"))
_ALL_FLIGHTS = sa.select(FLIGHTS).order_by(FLIGHTS.c.entry)
_UNRELEASED_OF_REQUEST = (
    sa.select(ENTRIES.c.id)
    .join(UNRELEASED, UNRELEASED.c.entry == ENTRIES.c.id)
    .where(matching(ENTRIES, *_REQUEST_COLUMNS))
    .order_by(ENTRIES.c.id.desc())
)
_UNRELEASED_ENTRY = sa.select(UNRELEASED).where(matching(UNRELEASED, "entry"))
_EVENTS = (
    sa.select(LOG.c.id, LOG.c.actor, LOG.c.action, LOG.c.details)
    .where(
        matching(LOG, "dataset"),
        LOG.c.action.in_((audit.INTERRUPTED, audit.TAKEN_OVER, audit.CANCELLED)),
    )
    .order_by(LOG.c.id)
)
_LAST_RECOVERY = sa.select(sa.func.max(LOG.c.id)).where(
    LOG.c.dataset.is_(None), LOG.c.action.in_((audit.RESTORED, audit.LOSS_DECLARED))
)
_OWN_RELEASE = sa.select(ENTRIES.c.id).join(RELEASES).where(matching(ENTRIES, *_REQUEST_COLUMNS)).limit(1)


@dataclass(frozen=True)
class ChargeEvent:
    """What happened to an entry after its charge, from the audit log: cancelled, ended or taken over."""

    record: int
    action: str
    entry: int
    analyst: str
    ending: Ending | None
    """None for a cancellation or take-over."""
    process: str | None
    """The process that measured; None for a cancellation or take-over."""


def events(connection: sa.Connection, dataset: str) -> Iterator[ChargeEvent]:
    """The events of a data set's entries, oldest first."""
    for row in connection.execute(_EVENTS, {"dataset": dataset}):
        details = audit.parsed(row.details)
        ending = details.get("ending")
        yield ChargeEvent(
            record=row.id,
            action=row.action,
            entry=details["entry"],
            analyst=details.get("analyst", row.actor),
            ending=None if ending is None else Ending(ending),
            process=details.get("process"),
        )


def last_endings(connection: sa.Connection, dataset: str) -> dict[int, ChargeEvent]:
    """The last ending of each entry that has one and was not taken over since, released or not."""
    endings: dict[int, ChargeEvent] = {}
    for event in events(connection, dataset):
        if event.ending is not None:
            endings[event.entry] = event
        elif event.action == audit.TAKEN_OVER:
            endings.pop(event.entry, None)
    return endings


def last_event(connection: sa.Connection, dataset: str, entry: int) -> ChargeEvent | None:
    """The last ending or take-over of an entry since the ledger was last restored or a loss declared."""
    since = last_recovery(connection)
    own = [e for e in events(connection, dataset) if e.entry == entry and e.action != audit.CANCELLED]
    return own[-1] if own and own[-1].record > since else None


def last_recovery(connection: sa.Connection) -> int:
    """The record of the last restore or declared loss; endings before it keep no charge."""
    return connection.execute(_LAST_RECOVERY).scalar_one() or 0


@dataclass(frozen=True)
class _Flight:
    request: dict[str, Any]
    heard: frozenset[str]
    """The possible values of `heard` in its row: it is unknown whether the last transaction was committed."""


class Flights:
    """The flights of one ledger. A thread sends heartbeats for this process's flights while there are any."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.process = secrets.token_hex(8)
        """Identifies the flights of this process."""
        self._own: dict[int, _Flight] = {}  # entries that this process measures
        self._ended: dict[int, Ending] = {}  # entries whose ending the ledger may not know yet
        self._doubtful: dict[int, _Flight] = {}  # entries that may be committed, but were not measured
        self._changed = threading.Condition()
        self._heartbeat_thread: threading.Thread | None = None

    def is_settled(
        self, connection: sa.Connection, request: dict[str, Any], flight: sa.Row[Any] | None
    ) -> bool:
        """Whether the request was released, or a living process measures it. Then it need not be charged.

        `flight` is the request's flight, from `end_silent` in the same transaction.
        """
        if connection.execute(_OWN_RELEASE, request).one_or_none() is not None:
            return True
        if flight is not None and flight.heard == _UNTOUCHED:  # a different charge from the one requested now
            self._end(connection, flight, Ending.LEDGER_LOST)
            return False
        return flight is not None

    def end_silent(self, connection: sa.Connection) -> dict[tuple[str, str, str], sa.Row[Any]]:
        """Records that the processes of silent flights died, and returns the other flights by their requests.

        The transaction must hold the writers' lock.
        """
        flights = {}
        for flight in connection.execute(_ALL_FLIGHTS).all():
            is_silent = not may_follow(flight.heard) and not self._is_own(flight)
            if not is_silent or not self._end(connection, flight, Ending.DIED):
                flights[flight.dataset, flight.analyst, flight.key] = flight
        return flights

    def record_deaths(self) -> None:
        """Records which processes died while they measured, if any did."""
        with self._store.reading() as connection:
            flights = connection.execute(_ALL_FLIGHTS).all()
        if any(not may_follow(flight.heard) and not self._is_own(flight) for flight in flights):
            with self._store.writing() as connection:
                self.end_silent(connection)

    def _is_own(self, flight: sa.Row[Any]) -> bool:
        """Whether the flight is this process's own: then it is alive, even if its heartbeats were lost."""
        with self._changed:
            return flight.process == self.process and flight.entry in (
                self._own.keys() | self._doubtful.keys() | self._ended.keys()
            )

    def _end(self, connection: sa.Connection, flight: sa.Row[Any], ending: Ending) -> bool:
        """Deletes the flight and records its ending. False if another process's heartbeat came meanwhile."""
        unchanged = [FLIGHTS.c.entry == flight.entry]
        if flight.process != self.process:
            unchanged.append(FLIGHTS.c.heard == flight.heard)
        is_ended = connection.execute(sa.delete(FLIGHTS).where(*unchanged)).rowcount > 0
        if is_ended:
            _record_ending(connection, flight.dataset, flight.analyst, flight.entry, ending, flight.process)
        return is_ended

    def find(self, connection: sa.Connection, request: dict[str, Any]) -> sa.Row[Any] | None:
        """The request's flight, if there is one."""
        return connection.execute(_FLIGHT, request).one_or_none()

    def is_measured(self, request: dict[str, Any]) -> bool:
        """Whether a living process measures the request now."""
        with self._store.single_read() as connection:
            flight = self.find(connection, request)
        return flight is not None and (_is_alive(flight.heard) or self._is_own(flight))

    def begin(self, connection: sa.Connection, request: dict[str, Any], entry: int) -> None:
        """Writes the flight, in the transaction of its charge, and starts its heartbeat.

        If no thread can be started, raises before anything is charged. If the transaction fails, the caller
        must call `stop_heartbeat`.
        """
        heard = audit.now()
        flight = request | {"entry": entry, "heard": heard, "process": self.process}
        connection.execute(sa.insert(FLIGHTS).values(**flight))
        with self._changed:
            self._own[entry] = _Flight(request, frozenset({heard}))
            self._start_heartbeats()

    def kept_entry(
        self, connection: sa.Connection, request: dict[str, Any], flight: sa.Row[Any] | None
    ) -> int | None:
        """The request's charged entry, if no process measures it and a repeated request may take it over."""
        if flight is None:
            return self._interrupted_entry(connection, request)
        with self._changed:
            doubtful = self._doubtful.get(flight.entry)
        own = doubtful is not None and doubtful.request == request and flight.heard in doubtful.heard
        return int(flight.entry) if own or flight.heard == _UNTOUCHED else None

    def is_kept(self, connection: sa.Connection, request: dict[str, Any]) -> bool:
        """Whether a repeated request may take over a charge, including one whose process is silent now."""
        flight = self.find(connection, request)
        if flight is not None and not may_follow(flight.heard) and not self._is_own(flight):
            return True
        return self.kept_entry(connection, request, flight) is not None

    def _interrupted_entry(self, connection: sa.Connection, request: dict[str, Any]) -> int | None:
        """The newest entry of the request whose ending keeps the charge.

        After a restore or a declared loss, earlier endings do not keep it: a release may be among the lost
        records.
        """
        entries = connection.execute(_UNRELEASED_OF_REQUEST, request).scalars().all()
        if not entries:  # nearly always
            return None
        endings = last_endings(connection, request["dataset"])
        recovery = last_recovery(connection)
        with self._changed:
            measured = set(self._own)
        for entry in entries:
            event = endings.get(entry)
            if event is None or event.ending is None or entry in measured:
                continue
            if event.ending.keeps_charge and event.record > recovery:
                return int(entry)
        return None

    def take_over(
        self, connection: sa.Connection, request: dict[str, Any], entry: int, flight: sa.Row[Any] | None
    ) -> None:
        """Continues with a kept entry as if it was charged now. Call `mark_doubtful` after a failure.

        The log records it, so that the anchor detects an older copy in which the entry is still kept.
        """
        heard = audit.now()
        values = {"heard": heard, "process": self.process}
        if flight is None:
            connection.execute(sa.insert(FLIGHTS).values(**request, entry=entry, **values))
        else:
            connection.execute(sa.update(FLIGHTS).where(FLIGHTS.c.entry == entry).values(**values))
        audit.append(connection, request["analyst"], audit.TAKEN_OVER, request["dataset"], {"entry": entry})
        with self._changed:
            self._doubtful.pop(entry, None)
            self._ended.pop(entry, None)
            rows = {heard} if flight is None else {heard, flight.heard}
            self._own[entry] = _Flight(request, frozenset(rows))
            self._start_heartbeats()

    def mark_doubtful(self, entry: int) -> None:
        """Notes that the ledger failed while charging: the entry may be committed, and no data were read."""
        with self._changed:
            flight = self._own.pop(entry, None)
            if flight is not None:
                self._doubtful[entry] = flight
                self._start_heartbeats()

    def _start_heartbeats(self) -> None:
        """Starts the thread, if none runs. The caller holds the lock, and the thread first waits for it."""
        if self._heartbeat_thread is None:
            thread = threading.Thread(
                target=self._send_heartbeats, name="dpxplain-single-flight", daemon=True
            )
            thread.start()
            self._heartbeat_thread = thread

    def measures(self, entry: int) -> bool:
        """Whether this process measures the entry: it began and has neither released nor ended it."""
        with self._changed:
            return entry in self._own

    def end_with_release(self, connection: sa.Connection, entry: int) -> None:
        """Ends the flight in the transaction of its release. Call `stop_heartbeat` after the commit."""
        connection.execute(sa.delete(FLIGHTS).where(FLIGHTS.c.entry == entry))

    def abandon(self, entry: int, ending: Ending) -> None:
        """Ends a flight without a release. If the ledger is away, the ending is recorded once it is back."""
        with self._changed:
            self._own.pop(entry, None)
            self._ended[entry] = ending
        try:
            self._report_endings()
        except DPXPlainError:
            with self._changed:
                self._start_heartbeats()

    def _report_endings(self) -> None:
        with self._changed:
            ended = dict(self._ended)
        if ended:
            with self._store.writing() as connection:
                for entry, ending in ended.items():
                    self._end_own(connection, entry, ending)
        with self._changed:
            for entry, ending in ended.items():
                if self._ended.get(entry) is ending:
                    del self._ended[entry]
            self._changed.notify()

    def _end_own(self, connection: sa.Connection, entry: int, ending: Ending) -> None:
        """Ends the flight, or corrects the record if another process took this one for dead."""
        flight = connection.execute(_FLIGHT_OF_ENTRY, {"entry": entry}).one_or_none()
        if flight is not None:
            if flight.process == self.process:
                self._end(connection, flight, ending)
            return
        charge = connection.execute(_UNRELEASED_ENTRY, {"entry": entry}).one_or_none()
        if charge is None:
            return
        last = last_event(connection, charge.dataset, entry)
        if last is not None and (last.ending, last.process) == (Ending.DIED, self.process):
            _record_ending(connection, charge.dataset, charge.analyst, entry, ending, self.process)

    def check_own(self, connection: sa.Connection, dataset: str, entry: int) -> None:
        """Raises if this process may not release an entry whose flight is gone.

        It may if another process only took this one for dead, and no process took over the entry.
        """
        last = last_event(connection, dataset, entry)
        if last is None:
            raise older_copy_restored()
        if (last.ending, last.process) != (Ending.DIED, self.process):
            self.stop_heartbeat(entry)
            raise ChargeTakenOver("Another process took over this charge.", remedy="Ask again.")

    def stop_heartbeat(self, entry: int) -> None:
        """Stops the heartbeat of an entry."""
        with self._changed:
            self._own.pop(entry, None)
            self._changed.notify()

    def _send_heartbeats(self) -> None:
        try:
            while self._has_reports_after_pause():
                try:
                    self._report()
                except DPXPlainError:
                    pass  # the ledger is busy or away; the next heartbeat may reach it
                except Exception as error:
                    # The error's text is left out: a driver's message may quote what was sent.
                    LOGGER.error("A heartbeat failed: %s", type(error).__name__)
        finally:  # however this thread ends, the next flight starts another
            with self._changed:
                if self._heartbeat_thread is threading.current_thread():
                    self._heartbeat_thread = None

    def _report(self) -> None:
        """Sends a heartbeat for the entries being measured, and marks the doubtful ones as untouched."""
        self._report_endings()
        with self._changed:
            own, doubtful = list(self._own), dict(self._doubtful)
        with self._store.updating() as connection:
            measured = (FLIGHTS.c.entry.in_(own), FLIGHTS.c.process == self.process)
            connection.execute(sa.update(FLIGHTS).where(*measured).values(heard=audit.now()))
            for entry, flight in doubtful.items():
                of_request = [FLIGHTS.c[name] == value for name, value in flight.request.items()]
                unchanged = (FLIGHTS.c.entry == entry, FLIGHTS.c.heard.in_(flight.heard))
                connection.execute(sa.update(FLIGHTS).where(*of_request, *unchanged).values(heard=_UNTOUCHED))
        with self._changed:
            for entry, flight in doubtful.items():
                if self._doubtful.get(entry) is flight:
                    del self._doubtful[entry]

    @property
    def _has_reports(self) -> bool:
        return bool(self._own or self._doubtful or self._ended)

    def _has_reports_after_pause(self) -> bool:
        """Pauses, then says whether there is something to report; if not, the thread ends."""
        with self._changed:
            self._changed.wait_for(lambda: not self._has_reports, SECONDS_BETWEEN_HEARTBEATS)
            if self._has_reports and self._store.is_open:
                return True
            self._heartbeat_thread = (
                None  # under the same lock, so that a flight that begins now starts another
            )
            return False


def older_copy_restored() -> LedgerBehind:
    """The error for a release into an older copy, which may lack another release of the same charge."""
    return LedgerBehind(
        "An older copy of the ledger was restored while this request ran. The result was dropped. The "
        "charge stays.",
        remedy="Only the curator can fix this: see dpxplain ledger status.",
    )


def end_all_flights(connection: sa.Connection) -> None:
    """Ends all flights, because another process may have taken over and released one in the lost records."""
    for flight in connection.execute(_ALL_FLIGHTS).all():
        _record_ending(
            connection, flight.dataset, flight.analyst, flight.entry, Ending.LEDGER_LOST, flight.process
        )
    connection.execute(sa.delete(FLIGHTS))


def _record_ending(
    connection: sa.Connection, dataset: str, analyst: str, entry: int, ending: Ending, process: str
) -> None:
    """Records in the audit log how an entry ended."""
    details = {"entry": entry, "analyst": analyst, "ending": str(ending), "process": process}
    audit.append(connection, "", audit.INTERRUPTED, dataset, details)


def may_follow(heard: str | None) -> bool:
    """Whether a release may still follow a charge. `heard` is from its flight; None if it has none."""
    return heard is not None and (heard == _UNTOUCHED or _is_alive(heard))


def _is_alive(heard: str) -> bool:
    """Whether the heartbeat is recent. A time far in the future, from a wrong clock, does not count."""
    if heard == _UNTOUCHED:
        return False
    return abs(datetime.now(UTC) - datetime.fromisoformat(heard)) < SILENCE


# -- Failures ----------------------------------------------------------------------------------------------
#
# Failed charges are counted for each analyst, until the curator forgives them.

_UNRELEASED_OF_DATASET = (
    sa.select(UNRELEASED.c.entry.label("id"), FLIGHTS.c.heard, FLIGHTS.c.process)
    .outerjoin(FLIGHTS, FLIGHTS.c.entry == UNRELEASED.c.entry)
    .where(matching(UNRELEASED, "dataset", "analyst"))
    .order_by(UNRELEASED.c.entry)
)
_DECLARATIONS = (
    sa.select(ENTRIES.c.id, ENTRIES.c.declarations)
    .join(UNRELEASED, UNRELEASED.c.entry == ENTRIES.c.id)
    .where(matching(UNRELEASED, "dataset", "analyst"))
)
_FORGIVEN = "failures forgiven"
_FORGIVENESS = (
    sa.select(LOG.c.id, LOG.c.details)
    .where(matching(LOG, "dataset"), LOG.c.action == _FORGIVEN)
    .order_by(LOG.c.id.desc())
)
_EVERY_CANCELLATION = sa.select(LOG.c.details).where(
    matching(LOG, "dataset"), LOG.c.action == audit.CANCELLED
)


@dataclass(frozen=True)
class LostCharge:
    """A charge that ended without a release, and that the identical request takes over."""

    row: int
    ending: Ending
    declarations: str | None
    """The schema's hash: under another schema, no request is identical."""


class Failures:
    """Charges of a ledger that ended without a release, and the curator's decisions to forgive them.

    Whether a charged request fails may depend on the data and, unlike its answer, has no noise. So a server
    limits the number of failures; the curator resets the count with a record in the audit log. A cancellation
    counts as soon as it is requested: if it counted only without a release, analysts could see for free
    whether a release followed. Endings that the data cannot have caused do not count. The death of a process
    counts once per analyst, because its requests together reveal only that it died; a server limits deaths
    apart from failures.
    """

    def __init__(self, store: Store, flights: Flights) -> None:
        self._store = store
        self._flights = flights

    def record_cancellation(self, dataset: str, analyst: str, entry: int) -> None:
        """Records that the analyst asked to cancel a charged request."""
        with self._store.recording() as connection:
            audit.append(connection, analyst, audit.CANCELLED, dataset, {"entry": entry})

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
            rows = connection.execute(_UNRELEASED_OF_DATASET, parameters).all()
            own_events = [event for event in events(connection, dataset) if event.analyst == analyst]
            if not rows and not own_events:  # nearly always
                return Counter()
            forgiven, up_to = _last_forgiveness(connection, dataset, analyst)
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
    def lost(self, dataset: str, analyst: str) -> list[LostCharge]:
        """The analyst's charges that broke off and are kept for the identical request, the newest first."""
        parameters = {"dataset": dataset, "analyst": analyst}
        with self._store.reading() as connection:
            rows = connection.execute(_UNRELEASED_OF_DATASET, parameters).all()
            if not rows:  # nearly always
                return []
            recovery, endings = last_recovery(connection), last_endings(connection, dataset)
            entries = connection.execute(_DECLARATIONS, parameters).all()
        declarations = {entry.id: entry.declarations for entry in entries}
        last = [(row.id, endings[row.id]) for row in rows if row.heard is None and row.id in endings]
        return [
            LostCharge(row, event.ending, declarations.get(row))
            for row, event in reversed(last)
            if event.ending is not None and event.ending.keeps_charge and event.record > recovery
        ]

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


def _last_forgiveness(connection: sa.Connection, dataset: str, analyst: str) -> tuple[int, int]:
    """The record that last forgave the analyst, and the newest entry at that time; zeros if there is none."""
    for record in connection.execute(_FORGIVENESS, {"dataset": dataset}):
        details = audit.parsed(record.details)
        if details["analyst"] == analyst:
            return record.id, details["up_to"]
    return 0, 0
