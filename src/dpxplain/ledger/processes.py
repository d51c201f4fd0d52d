"""The server processes that share a ledger, so that each knows how many there are."""

from __future__ import annotations

import secrets
from datetime import UTC, datetime, timedelta

import sqlalchemy as sa

from dpxplain.ledger import audit
from dpxplain.ledger.store import Store
from dpxplain.ledger.tables import PROCESSES

SILENCE = timedelta(seconds=45)
"""A process that was not heard of for so long is gone."""


class Processes:
    """The processes of one ledger."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def enter(self) -> str:
        """A new process's id."""
        id = secrets.token_hex(8)
        with self._store.updating() as connection:
            connection.execute(sa.insert(PROCESSES).values(id=id, heard=audit.now()))
        return id

    def count(self, id: str) -> int:
        """Give a sign of life, forget who gave none for long, and return how many there are."""
        now = datetime.now(UTC)
        earliest, latest = (now - SILENCE).isoformat(), (now + SILENCE).isoformat()
        # A time far ahead is no sign of life either: a clock was wrong, and it would count until then.
        gone = sa.or_(PROCESSES.c.heard < earliest, PROCESSES.c.heard > latest)
        with self._store.updating() as connection:
            heard = sa.update(PROCESSES).where(PROCESSES.c.id == id).values(heard=audit.now())
            if connection.execute(heard).rowcount == 0:  # it was taken for gone, as after a long sleep
                connection.execute(sa.insert(PROCESSES).values(id=id, heard=audit.now()))
            connection.execute(sa.delete(PROCESSES).where(gone))
            return int(connection.execute(sa.select(sa.func.count()).select_from(PROCESSES)).scalar_one())

    def leave(self, id: str) -> None:
        with self._store.updating() as connection:
            connection.execute(sa.delete(PROCESSES).where(PROCESSES.c.id == id))
