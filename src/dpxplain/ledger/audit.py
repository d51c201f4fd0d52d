"""The audit log: every change of the ledger, each record sealed with the hash of the one before it.

A change writes its rows and their record in one transaction. The record repeats the rows (a payload and the
hash of a secret as their own sha256), so that the log and the tables vouch for each other. Nothing in the
ledger is confidential, so everything may be repeated.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from typing import Any

import sqlalchemy as sa

from dpxplain.errors import BadRequest
from dpxplain.ledger.protocol import AuditRecord
from dpxplain.ledger.tables import (
    ENTRIES,
    GRANTS,
    LIMITS,
    LOG,
    RELEASES,
    REVOCATIONS,
    SHARES,
    TOKENS,
)

GENESIS = "0" * 64
"""What stands before the first record."""

OPENED, LIMIT_CHANGED, DELTA_CHANGED = "data set opened", "limit changed", "delta changed"
RESERVED, RELEASED = "reserved", "released"
GRANTED, TOPPED_UP = "allowance granted", "topped up"
SHARED, UNSHARED = "shared", "unshared"
TOKEN_CREATED, SESSION_CREATED, TOKEN_REVOKED = "token created", "session created", "token revoked"
UPGRADED, FOUND = "ledger upgraded", "found"

CHANGES = frozenset(
    {
        *(OPENED, LIMIT_CHANGED, DELTA_CHANGED, RESERVED, RELEASED, GRANTED, TOPPED_UP, SHARED, UNSHARED),
        *(TOKEN_CREATED, SESSION_CREATED, TOKEN_REVOKED, FOUND),
    }
)
"""Actions whose details repeat rows; every other record is a note."""

NAMES = {
    LIMITS.name: "limit",
    GRANTS.name: "grant",
    ENTRIES.name: "entry",
    RELEASES.name: "release",
    SHARES.name: "share",
    TOKENS.name: "token",
    REVOCATIONS.name: "revocation",
}
"""What a row of a table is called in a record's details."""

_LAST = sa.select(LOG.c.id, LOG.c.hash).order_by(LOG.c.id.desc()).limit(1)
_AS_DIGEST = {"payload": "sha256", "secret_hash": "secret_hash_sha256"}
_AS_JSON = frozenset({"spends", "request"})
_ADDED = frozenset({"subject"})
"""Columns that older versions lack: left out where they are NULL, so that older records still fit."""


def now() -> str:
    """This moment as the ledger writes it."""
    return datetime.now(UTC).isoformat()


def canonical(value: object) -> str:
    """The one JSON text of a value."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def chained(previous: str, record: Mapping[str, Any]) -> str:
    """The hash of a record: sha256 of the previous hash followed by the record as canonical JSON."""
    return sha256(previous + canonical(record))


def image(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row as the log repeats it."""
    values: dict[str, Any] = {}
    for name, value in row.items():
        if name in _ADDED and value is None:
            continue
        if name in _AS_DIGEST:
            values[_AS_DIGEST[name]] = sha256(value)
        else:
            values[name] = parsed(value) if name in _AS_JSON and value is not None else value
    return values


def parsed(text: Any) -> Any:
    """JSON that a stranger may have altered: what is none stays what it is."""
    if not isinstance(text, str):
        return text
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def insert(connection: sa.Connection, table: sa.Table, values: Mapping[str, Any]) -> dict[str, Any]:
    """Insert the row and return it whole, with the id the database gave it."""
    check_text(values)
    key = next(iter(table.primary_key.columns))
    row = {column.name: values.get(column.name) for column in table.columns if column is not key}
    if key.name in values:
        row = {key.name: values[key.name]} | row
    return {key.name: connection.execute(_insertion(table), row).scalar_one()} | row


@cache
def _insertion(table: sa.Table) -> sa.Executable:
    """Made once: SQLAlchemy takes longer to build a statement than SQLite to run it."""
    return sa.insert(table).returning(next(iter(table.primary_key.columns)))


def append(
    connection: sa.Connection,
    actor: str,
    action: str,
    dataset: str | None,
    details: Mapping[str, Any],
    time: str | None = None,
) -> None:
    """Add a record to the log. The caller's transaction must be alone with the ledger."""
    text = canonical(details)
    last = connection.execute(_LAST).one_or_none()
    previous = GENESIS if last is None else last.hash
    record = {
        "id": 1 if last is None else last.id + 1,
        "time": time or now(),
        "actor": actor,
        "action": action,
        "dataset": dataset,
        "details": json.loads(text),  # as it will be read back: JSON has no other keys than texts
    }
    row = record | {"details": text, "previous": previous, "hash": chained(previous, record)}
    check_text(row)
    connection.execute(_insertion(LOG), row)


def append_change(
    connection: sa.Connection,
    actor: str,
    action: str,
    dataset: str | None,
    rows: Mapping[sa.Table, Mapping[str, Any]],
    time: str | None = None,
) -> None:
    """Add the record of a change: it repeats the rows that `insert` has just written."""
    images = {NAMES[table.name]: image(row) for table, row in rows.items()}
    append(connection, actor, action, dataset, images, time)


def record_of(row: sa.Row[Any]) -> AuditRecord:
    return AuditRecord(
        id=row.id,
        time=datetime.fromisoformat(row.time),
        actor=row.actor,
        action=row.action,
        dataset=row.dataset,
        details=json.loads(row.details),
        previous=row.previous,
        hash=row.hash,
    )


def check_text(values: Mapping[str, Any]) -> None:
    """Refuse what one of the databases cannot keep, so that both keep the same."""
    for name, value in values.items():
        if isinstance(value, str) and not _can_be_stored(value):
            raise BadRequest(
                f"The {name} holds a character that cannot be stored.",
                remedy="Leave out NUL characters and halves of surrogate pairs.",
            )


def _can_be_stored(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return "\x00" not in text
