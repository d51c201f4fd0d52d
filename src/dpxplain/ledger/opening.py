"""Opens the ledger at a place: a file, this process's memory, or a PostgreSQL database."""

from __future__ import annotations

import re
from pathlib import Path

from dpxplain.ledger.ledger import SQLLedger
from dpxplain.ledger.sqlite import SQLiteLedger

_POSTGRES = re.compile(r"postgres(ql)?(\+psycopg)?://")


def open_ledger(place: str | Path | None) -> SQLLedger:
    """The ledger at a path (SQLite, made if missing), in memory (None), or at a `postgresql://` address."""
    if isinstance(place, str) and _POSTGRES.match(place):
        from dpxplain.ledger.postgres import PostgresLedger

        return PostgresLedger(_POSTGRES.sub("postgresql://", place, count=1))
    return SQLiteLedger(None if place is None else Path(place))
