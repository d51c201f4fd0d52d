"""Requests that are being measured now, so that the identical request at another process waits for the first.

A flight is written with its charge and ends with its release. Its process gives signs of life; after
`SILENCE` without one the process counts as gone, and other requests no longer wait for the flight. If the
connection breaks while a charge is committed, no data are read for it: once the ledger is back, its flight is
marked as untouched, and the next identical request takes it over instead of being charged again.
"""

from __future__ import annotations

import logging
import threading
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import sqlalchemy as sa

from dpxplain.errors import DPXPlainError
from dpxplain.ledger import audit
from dpxplain.ledger.store import Store
from dpxplain.ledger.tables import ENTRIES, FLIGHTS, RELEASES

LOG = logging.getLogger("dpxplain.ledger")
SILENCE = timedelta(seconds=30)
"""Clocks of machines that share a ledger must agree much better than this."""
SECONDS_BETWEEN_HEARTBEATS = 5.0
_UNTOUCHED = "untouched"
"""In place of the time of the last sign of life: charged, and no data were read."""

_OF_REQUEST = sa.and_(
    FLIGHTS.c.dataset == sa.bindparam("dataset"),
    FLIGHTS.c.analyst == sa.bindparam("analyst"),
    FLIGHTS.c.key == sa.bindparam("key"),
)
_FLIGHT = sa.select(FLIGHTS.c.entry, FLIGHTS.c.heard).where(_OF_REQUEST)
_OWN_RELEASE = (
    sa.select(ENTRIES.c.id)
    .join(RELEASES)
    .where(
        ENTRIES.c.dataset == sa.bindparam("dataset"),
        ENTRIES.c.key == sa.bindparam("key"),
        ENTRIES.c.analyst == sa.bindparam("analyst"),
    )
    .limit(1)
)


@dataclass(frozen=True)
class _Flight:
    request: dict[str, Any]
    heard: frozenset[str]
    """What the column `heard` of its row may say: its last transaction may be committed or not."""


class Flights:
    """The flights of one ledger; those of this process are kept alive by a thread while there are any."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._own: dict[int, _Flight] = {}  # entries that this process measures
        self._doubtful: dict[int, _Flight] = {}  # entries that may have been committed, and were not measured
        self._changed = threading.Condition()
        self._heart: threading.Thread | None = None

    def is_settled(self, connection: sa.Connection, request: dict[str, Any]) -> bool:
        """Whether the request was released, or a living process measures it: then it need not be charged.

        The flight of a process that is gone ends here, and the audit log says so. Its charge stays. The
        transaction must hold the writers' lock.
        """
        if connection.execute(_OWN_RELEASE, request).one_or_none() is not None:
            return True
        flight = connection.execute(_FLIGHT, request).one_or_none()
        if flight is None:
            return False
        if _is_alive(flight.heard):
            return True
        audit.append(connection, "", audit.INTERRUPTED, request["dataset"], {"entry": flight.entry})
        connection.execute(sa.delete(FLIGHTS).where(_OF_REQUEST), request)
        return False

    def is_measured(self, request: dict[str, Any]) -> bool:
        """Whether a living process measures the request now."""
        with self._store.single_read() as connection:
            flight = connection.execute(_FLIGHT, request).one_or_none()
        return flight is not None and _is_alive(flight.heard)

    def begin(self, connection: sa.Connection, request: dict[str, Any], entry: int) -> None:
        """Write the flight, in the transaction of its charge, and keep it alive.

        If no thread can be started, it raises while nothing is charged yet. If the transaction fails,
        `let_go` must follow.
        """
        heard = audit.now()
        connection.execute(sa.insert(FLIGHTS).values(**request, entry=entry, heard=heard))
        with self._changed:
            self._own[entry] = _Flight(request, frozenset({heard}))
            self._start_heart()

    def untouched(self, connection: sa.Connection, request: dict[str, Any]) -> int | None:
        """The request's entry, if it was charged when the connection broke and nothing was read under it."""
        flight = connection.execute(_FLIGHT, request).one_or_none()
        if flight is None:
            return None
        with self._changed:
            doubtful = self._doubtful.get(flight.entry)
        own = doubtful is not None and doubtful.request == request and flight.heard in doubtful.heard
        return int(flight.entry) if own or flight.heard == _UNTOUCHED else None

    def take_over(self, connection: sa.Connection, request: dict[str, Any], entry: int) -> None:
        """Go on with an untouched entry as if it were charged now; after a failure, `doubt` must follow.

        The log records it, so that the anchor notices an older copy where the entry is still untouched.
        """
        flight = connection.execute(_FLIGHT, request).one()
        heard = audit.now()
        connection.execute(sa.update(FLIGHTS).where(FLIGHTS.c.entry == entry).values(heard=heard))
        audit.append(connection, request["analyst"], audit.TAKEN_OVER, request["dataset"], {"entry": entry})
        with self._changed:
            self._doubtful.pop(entry, None)
            self._own[entry] = _Flight(request, frozenset({heard, flight.heard}))
            self._start_heart()

    def doubt(self, entry: int) -> None:
        """The ledger broke off while the entry was charged: it may be committed, and nothing was read."""
        with self._changed:
            flight = self._own.pop(entry, None)
            if flight is not None:
                self._doubtful[entry] = flight
                self._start_heart()

    def _start_heart(self) -> None:
        """Start the thread, if none runs. The caller holds the lock, for which the thread waits first."""
        if self._heart is None:
            heart = threading.Thread(target=self._beat, name="dpxplain-single-flight", daemon=True)
            heart.start()
            self._heart = heart

    def land(self, connection: sa.Connection, entry: int) -> None:
        """End the flight in the transaction of its release."""
        connection.execute(sa.delete(FLIGHTS).where(FLIGHTS.c.entry == entry))
        self.let_go(entry)

    def abandon(self, entry: int) -> None:
        """End a flight without a release; if the ledger cannot be reached, it ends after `SILENCE`."""
        self.let_go(entry)
        with suppress(DPXPlainError), self._store.updating() as connection:
            connection.execute(sa.delete(FLIGHTS).where(FLIGHTS.c.entry == entry))

    def let_go(self, entry: int) -> None:
        """Give no more signs of life for the entry."""
        with self._changed:
            self._own.pop(entry, None)
            self._changed.notify()

    def _beat(self) -> None:
        try:
            while self._has_reports_after_pause():
                try:
                    self._report()
                except DPXPlainError:
                    pass  # the ledger is busy or away; the next heartbeat may reach it
                except Exception as error:
                    # Without its text: a driver's message may quote what was sent.
                    LOG.error("A heartbeat has failed: %s", type(error).__name__)
        finally:  # however this thread ends, the next flight starts another
            with self._changed:
                if self._heart is threading.current_thread():
                    self._heart = None

    def _report(self) -> None:
        """Give a sign of life for the entries in measurement, and mark the doubtful ones as untouched."""
        with self._changed:
            own, doubtful = list(self._own), dict(self._doubtful)
        with self._store.updating() as connection:
            sign_of_life = sa.update(FLIGHTS).where(FLIGHTS.c.entry.in_(own)).values(heard=audit.now())
            connection.execute(sign_of_life)
            for entry, flight in doubtful.items():
                of_request = [FLIGHTS.c[name] == value for name, value in flight.request.items()]
                unchanged = (FLIGHTS.c.entry == entry, FLIGHTS.c.heard.in_(flight.heard))
                connection.execute(sa.update(FLIGHTS).where(*of_request, *unchanged).values(heard=_UNTOUCHED))
        with self._changed:
            for entry, flight in doubtful.items():
                if self._doubtful.get(entry) is flight:
                    del self._doubtful[entry]

    def _has_reports_after_pause(self) -> bool:
        """Pauses, then says whether there is something to report; if not, the thread ends."""
        with self._changed:
            self._changed.wait_for(lambda: not (self._own or self._doubtful), SECONDS_BETWEEN_HEARTBEATS)
            if (self._own or self._doubtful) and self._store.is_open:
                return True
            self._heart = None  # under the same lock: a flight that begins from now on starts another
            return False


def may_follow(heard: str | None) -> bool:
    """Whether a release may still follow a charge; `heard` is its flight's, None if it has none."""
    return heard is not None and (heard == _UNTOUCHED or _is_alive(heard))


def _is_alive(heard: str) -> bool:
    """Whether the sign of life is recent; one far ahead, of a clock that was wrong, does not count."""
    if heard == _UNTOUCHED:
        return False
    return abs(datetime.now(UTC) - datetime.fromisoformat(heard)) < SILENCE
