"""Brings an older SQLite ledger up to date, within one transaction.

Version 1 knew no analysts and no log: its entries become the local owner's, and the log begins with what was
found. Version 2 had no guards against INSERT OR REPLACE.
"""

from __future__ import annotations

import sqlalchemy as sa

from dpxplain.ledger import audit
from dpxplain.ledger.guards import create_guards, create_replacement_guards
from dpxplain.ledger.tables import ENTRIES, LIMITS, METADATA, RELEASES

_OLD = ("datasets", "entries", "releases")


def upgrade(connection: sa.Connection, version: int) -> None:
    if version == 1:
        _from_version_1(connection)
    else:
        create_replacement_guards(connection)


def _from_version_1(connection: sa.Connection) -> None:
    """Move all rows of version 1 into today's tables and record each of them."""
    for index in ("entries_by_key", "entries_by_charge"):
        connection.exec_driver_sql(f"DROP INDEX {index}")
    for table in _OLD:
        connection.exec_driver_sql(f"ALTER TABLE {table} RENAME TO old_{table}")
    METADATA.create_all(connection, checkfirst=False)
    create_guards(connection)
    found = {
        table: connection.exec_driver_sql(f"SELECT count(*) FROM old_{table}").scalar_one() for table in _OLD
    }
    audit.append(connection, "", audit.UPGRADED, None, {"from_version": 1, "found": found})
    _move_limits(connection)
    _move_entries(connection)
    for table in reversed(_OLD):
        connection.exec_driver_sql(f"DROP TABLE old_{table}")


def _move_limits(connection: sa.Connection) -> None:
    time = audit.now()
    for row in connection.exec_driver_sql("SELECT * FROM old_datasets ORDER BY name").all():
        limit = {
            "dataset": row.name,
            "time": time,
            "declared_units": row.limit_units,
            "top_up_units": 0,
            "delta": row.delta,
            "reason": "found when the ledger was upgraded",
            "by": "",
        }
        rows = {LIMITS: audit.insert(connection, LIMITS, limit)}
        audit.append_change(connection, "", audit.FOUND, row.name, rows)


def _move_entries(connection: sa.Connection) -> None:
    totals: dict[str, int] = {}
    # Without the rest of the transaction in memory: payloads may be large.
    lines = "SELECT * FROM old_entries LEFT JOIN old_releases ON entry = id ORDER BY id"
    for row in connection.execution_options(yield_per=100).exec_driver_sql(lines):
        moved = row._asdict()
        payload = moved.pop("payload")
        released = moved.pop("entry") is not None
        totals[row.dataset] = total = totals.get(row.dataset, 0) + row.charge_units
        owned = {"analyst": "", "total_units": total, "own_units": total}
        rows = {ENTRIES: audit.insert(connection, ENTRIES, moved | owned)}
        if released:
            rows[RELEASES] = audit.insert(connection, RELEASES, {"entry": row.id, "payload": payload})
        audit.append_change(connection, "", audit.FOUND, row.dataset, rows)
