"""Verifies only what the audit log has gained since an anchor: as much work as there are new records.

Whoever made the anchor verified everything up to it: its head is the last verified one. Entries, releases and
records older than it that were altered since then are found by a full verification only, as every backup is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from dpxplain.ledger import audit
from dpxplain.ledger.anchor import Anchor, make_key, read_anchor, read_key, write_anchor
from dpxplain.ledger.protocol import AuditReport
from dpxplain.ledger.tables import ENTRIES, LIMITS, LOG, RELEASES, STATE, primary_key, unguarded

LONG_LOG = 20_000
"""Up to so many records a log is verified in full every time; a longer one from its last verified head."""

_LARGE = (ENTRIES, RELEASES)
_SMALL = [table for table in STATE if table not in _LARGE]
_RARE_ACTIONS = sorted(audit.CHANGES - {audit.RESERVED, audit.RELEASED})
_KEYS_AT_ONCE = 500


def last_verified(key: Path, today: Anchor) -> Anchor | None:
    """Where a long log, which now stands at `today`, was last found intact by the owner of this key."""
    file = _verified_file(key, today)
    return read_anchor(file, read_key(key)) if today.records > LONG_LOG and file.exists() else None


def remember_verified(key: Path, verified: Anchor | None) -> None:
    """Note where a long log was just found intact; the key is made if it is missing."""
    if verified is None or verified.records < LONG_LOG:
        return
    make_key(key)
    write_anchor(_verified_file(key, verified), verified, read_key(key))


def _verified_file(key: Path, anchor: Anchor) -> Path:
    """Beside the key, not beside the ledger; named by the first record, which no two ledgers share."""
    return key.with_name(f"{key.name}.verified-{anchor.first[:16]}")


def verify_since(connection: sa.Connection, anchor: Anchor) -> AuditReport:
    """Checks the records after the anchor, the rows they tell of, every row of the small tables, and what was
    spent. The caller compares the anchor itself with the log; `connection` must see one snapshot.
    """
    problems = [
        f"The table {table} is not guarded: its triggers are missing, changed or switched off."
        for table in unguarded(connection)
    ]
    tables = audit.RecordedTables()
    for row in _rare_records(connection, anchor.records):
        problems += tables.add(row)
    known = set(tables.digests)
    previous, records = anchor.head, anchor.records
    for row in audit.stream(connection, sa.select(LOG).where(LOG.c.id > anchor.records).order_by(LOG.c.id)):
        records += 1
        problems += audit.broken_link(row, previous)
        previous = str(row.hash)
        if row.action in audit.CHANGES:
            problems += tables.add(row)
    problems += tables.differences(connection, _SMALL)
    last = _last_entry(connection, anchor.records)
    for table in _LARGE:
        kind = audit.NAMES[table.name]
        new = {
            key: text for (of, key), text in tables.digests.items() if of == kind and (of, key) not in known
        }
        problems += _changed_rows(connection, table, kind, new, last)
    problems += _wrong_totals(connection, anchor, last)
    return AuditReport(records, previous, problems)


def _rare_records(connection: sa.Connection, until: int) -> Iterator[sa.Row[Any]]:
    """Records up to the anchor that tell of small tables, found by the index of the log."""
    datasets = connection.execute(sa.select(LIMITS.c.dataset).distinct()).scalars().all()
    rows: list[sa.Row[Any]] = []
    for dataset in (None, *datasets):
        for action in _RARE_ACTIONS:
            of_action = sa.select(LOG).where(
                LOG.c.dataset == dataset, LOG.c.action == action, LOG.c.id <= until
            )
            rows += connection.execute(of_action).all()
    yield from sorted(rows, key=lambda row: int(row.id))


def _last_entry(connection: sa.Connection, until: int) -> int:
    """The newest entry that a record up to the anchor tells of."""
    while until > 0:
        batch = sa.select(LOG.c.id, LOG.c.details).where(LOG.c.id <= until).order_by(LOG.c.id.desc())
        rows = connection.execute(batch.limit(_KEYS_AT_ONCE)).all()
        for row in rows:
            content = audit.parsed(row.details)
            if isinstance(content, dict) and isinstance(entry := content.get("entry"), dict):
                return int(entry.get("id", 0))
        until = rows[-1].id - 1 if rows else 0
    return 0


def _changed_rows(
    connection: sa.Connection, table: sa.Table, kind: str, recorded: dict[Any, str], last: int
) -> list[str]:
    """New rows that are altered, gone, or not in the log."""
    key, problems, missing = primary_key(table), [], dict(recorded)
    for row in _rows(connection, table, recorded):
        number = row._mapping[key.name]
        if missing.pop(number) != audit.row_digest(row):
            problems.append(f"The {kind} {number} is not what the log says: it was altered.")
    problems += [f"The {kind} {number} is gone, but the log tells of it." for number in missing]
    newer = sa.select(key).where(key > last).order_by(key)
    return problems + [
        f"The log knows no {kind} {row[0]}: it was put in."
        for row in audit.stream(connection, newer)
        if row[0] not in recorded
    ]


def _rows(connection: sa.Connection, table: sa.Table, keys: Iterable[Any]) -> Iterator[sa.Row[Any]]:
    numbers = list(keys)
    for start in range(0, len(numbers), _KEYS_AT_ONCE):
        chosen = primary_key(table).in_(numbers[start : start + _KEYS_AT_ONCE])
        yield from connection.execute(sa.select(table).where(chosen))


def _wrong_totals(connection: sa.Connection, anchor: Anchor, last: int) -> list[str]:
    """Whether what was spent is what the anchor says and what was charged since."""
    spent, problems = dict(anchor.spent), []
    columns = (ENTRIES.c.id, ENTRIES.c.dataset, ENTRIES.c.charge_units, ENTRIES.c.total_units)
    for row in audit.stream(
        connection, sa.select(*columns).where(ENTRIES.c.id > last).order_by(ENTRIES.c.id)
    ):
        spent[row.dataset] = spent.get(row.dataset, 0) + row.charge_units
        if row.total_units != spent[row.dataset]:
            problems.append(f"The entry {row.id} does not add up with those before it.")
            spent[row.dataset] = row.total_units
    for dataset, units in spent.items():
        newest = sa.select(ENTRIES.c.total_units).where(ENTRIES.c.dataset == dataset)
        total = connection.execute(newest.order_by(ENTRIES.c.id.desc()).limit(1)).scalar_one_or_none()
        if (total or 0) != units:
            problems.append(f"What was spent of {dataset!r} is not what the anchor and later charges say.")
    return problems
