"""Requests that are being measured now, so that the identical request at another process waits for the first.

A flight is written with its charge and ends with its release. Its process gives a sign of life now and then;
one that was not heard of for `SILENCE` is gone, and nobody waits for it.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import sqlalchemy as sa

from dpxplain.errors import DPXPlainError
from dpxplain.ledger import audit
from dpxplain.ledger.store import Store
from dpxplain.ledger.tables import ENTRIES, FLIGHTS, RELEASES

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
        self._beating = False

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
        """Write the flight, in the transaction of its charge; `keep_alive` follows once that is committed."""
        connection.execute(sa.insert(FLIGHTS).values(**request, entry=entry, heard=audit.now()))

    def keep_alive(self, entry: int) -> None:
        with self._changed:
            self._own.add(entry)
            if not self._beating:
                self._beating = True
                threading.Thread(target=self._beat, name="dpxplain-single-flight", daemon=True).start()

    def land(self, connection: sa.Connection, entry: int) -> None:
        """End the flight in the transaction of its release."""
        connection.execute(sa.delete(FLIGHTS).where(FLIGHTS.c.entry == entry))
        self._let_go(entry)

    def abandon(self, entry: int) -> None:
        """End a flight without a release; if the ledger cannot be reached, its silence will tell."""
        self._let_go(entry)
        with suppress(DPXPlainError), self._store.updating() as connection:
            connection.execute(sa.delete(FLIGHTS).where(FLIGHTS.c.entry == entry))

    def _let_go(self, entry: int) -> None:
        with self._changed:
            self._own.discard(entry)
            self._changed.notify()

    def _beat(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: not self._own, SECONDS_BETWEEN_HEARTBEATS)
                if not self._own or not self._store.is_open:
                    self._beating = False
                    return
                own = list(self._own)
            with suppress(DPXPlainError), self._store.updating() as connection:
                heard = sa.update(FLIGHTS).where(FLIGHTS.c.entry.in_(own)).values(heard=audit.now())
                connection.execute(heard)


def _is_alive(heard: str) -> bool:
    return datetime.now(UTC) - datetime.fromisoformat(heard) < SILENCE
