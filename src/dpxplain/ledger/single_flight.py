"""Requests that are being measured now, so that the identical request at another process waits for the first.

A flight is written with its charge and ends with its release. Its process gives a sign of life now and then;
one that was not heard of for `SILENCE` is gone, and nobody waits for it.
"""

from __future__ import annotations

import logging
import threading
from contextlib import suppress
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


class Flights:
    """The flights of one ledger; those of this process are kept alive by a thread while there are any."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._own: set[int] = set()  # entries that this process measures
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
        connection.execute(sa.insert(FLIGHTS).values(**request, entry=entry, heard=audit.now()))
        with self._changed:
            self._own.add(entry)
            if self._heart is None:
                heart = threading.Thread(target=self._beat, name="dpxplain-single-flight", daemon=True)
                heart.start()  # its first step waits for the lock that is held here
                self._heart = heart

    def land(self, connection: sa.Connection, entry: int) -> None:
        """End the flight in the transaction of its release."""
        connection.execute(sa.delete(FLIGHTS).where(FLIGHTS.c.entry == entry))
        self.let_go(entry)

    def abandon(self, entry: int) -> None:
        """End a flight without a release; if the ledger cannot be reached, its silence will tell."""
        self.let_go(entry)
        with suppress(DPXPlainError), self._store.updating() as connection:
            connection.execute(sa.delete(FLIGHTS).where(FLIGHTS.c.entry == entry))

    def let_go(self, entry: int) -> None:
        """Give no more signs of life for it."""
        with self._changed:
            self._own.discard(entry)
            self._changed.notify()

    def _beat(self) -> None:
        try:
            while own := self._awaited():
                try:
                    with self._store.updating() as connection:
                        heard = sa.update(FLIGHTS).where(FLIGHTS.c.entry.in_(own)).values(heard=audit.now())
                        connection.execute(heard)
                except DPXPlainError:
                    pass  # the ledger is busy or away; the next heartbeat may reach it
                except Exception as error:
                    # Without its text: a driver's message may quote what was sent.
                    LOG.error("A heartbeat has failed: %s", type(error).__name__)
        finally:  # however it ends, the next flight starts another
            with self._changed:
                if self._heart is threading.current_thread():
                    self._heart = None

    def _awaited(self) -> list[int]:
        """The flights that need a heartbeat now, after a pause; none ends the thread."""
        with self._changed:
            self._changed.wait_for(lambda: not self._own, SECONDS_BETWEEN_HEARTBEATS)
            if self._own and self._store.is_open:
                return list(self._own)
            self._heart = None  # under the same lock: a flight that begins from now on starts another
            return []


def _is_alive(heard: str) -> bool:
    """A time far ahead is no sign of life: a clock was wrong, and nobody shall wait until that time."""
    return abs(datetime.now(UTC) - datetime.fromisoformat(heard)) < SILENCE
