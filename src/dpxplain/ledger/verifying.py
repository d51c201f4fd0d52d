"""Verifies the audit log: its own chain first, then every table against what the log says of it.

Found are altered, deleted, added and reordered records, and altered, deleted and added rows. A cut tail,
rows and records alike, leaves an intact shorter ledger: only a head noted down elsewhere tells.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import sqlalchemy as sa

from dpxplain.ledger.audit import CHANGES, GENESIS, NAMES, canonical, chained, image, parsed, sha256
from dpxplain.ledger.base import AuditReport
from dpxplain.ledger.tables import ENTRIES, LOG, STATE

_ROWS_AT_ONCE = 500

_Sealed = dict[tuple[str, Any], str]
"""A digest for each row the log tells of, by the row's kind and key."""


def verify(connection: sa.Connection, head: str | None) -> AuditReport:
    """Everything that does not fit, as sentences; the connection's transaction must see one moment."""
    problems: list[str] = []
    sealed: _Sealed = {}
    previous, records = GENESIS, 0
    head_seen = head is None or head == GENESIS
    for row in _stream(connection, sa.select(LOG).order_by(LOG.c.id)):
        records += 1
        problems += _broken_link(row, previous)
        previous = row.hash
        head_seen = head_seen or row.hash == head
        if row.action in CHANGES:
            problems += _seal(row, sealed)
    if not head_seen:
        problems.append("The noted head is not in the log: its end was cut off, or it was rewritten.")
    problems += _rows_against(connection, sealed)
    problems += _wrong_totals(connection)
    return AuditReport(records, previous, problems)


def _broken_link(row: sa.Row[Any], previous: str) -> list[str]:
    record = {name: getattr(row, name) for name in ("id", "time", "actor", "action", "dataset")}
    altered = row.hash != chained(row.previous, record | {"details": parsed(row.details)})
    if altered:
        return [f"Log record {row.id} was altered."]
    if row.previous != previous:
        return [f"Log record {row.id} does not follow the one before it: records were removed or put in."]
    return []


def _seal(row: sa.Row[Any], sealed: _Sealed) -> list[str]:
    """Remember what the record says of the tables."""
    details = parsed(row.details)
    if not isinstance(details, dict):
        return []  # altered, and said so already
    problems = []
    for kind, shown in details.items():
        place = (kind, next(iter(_keyed(kind, shown)), None))
        if place in sealed:
            problems.append(f"Log record {row.id} tells of {kind} {place[1]} a second time.")
        sealed[place] = sha256(canonical(shown))
    return problems


def _keyed(kind: str, shown: Any) -> Iterator[Any]:
    """The primary key of a row as a record shows it."""
    for table in STATE:
        if NAMES[table.name] == kind and isinstance(shown, dict):
            yield shown.get(next(iter(table.primary_key.columns)).name)


def _rows_against(connection: sa.Connection, sealed: _Sealed) -> list[str]:
    problems = []
    for table in STATE:
        kind, key = NAMES[table.name], next(iter(table.primary_key.columns))
        for row in _stream(connection, sa.select(table).order_by(key)):
            shown = image(row._asdict())
            digest = sealed.pop((kind, shown[key.name]), None)
            if digest is None:
                problems.append(f"The log knows no {kind} {shown[key.name]}: it was put in.")
            elif digest != sha256(canonical(shown)):
                problems.append(f"The {kind} {shown[key.name]} is not what the log says: it was altered.")
    problems += [f"The {kind} {key} is gone, but the log tells of it." for kind, key in sealed]
    return problems


def _wrong_totals(connection: sa.Connection) -> list[str]:
    """Entries whose running totals are not the sums of the charges up to them."""
    problems, sums = [], Counter[tuple[str, ...]]()
    columns = ("id", "dataset", "analyst", "charge_units", "total_units", "own_units")
    for row in _stream(connection, sa.select(*(ENTRIES.c[name] for name in columns)).order_by(ENTRIES.c.id)):
        everyones, own = (row.dataset,), (row.dataset, row.analyst)
        sums[everyones] += row.charge_units
        sums[own] += row.charge_units
        if (row.total_units, row.own_units) != (sums[everyones], sums[own]):
            problems.append(f"The entry {row.id} does not add up with those before it.")
            sums[everyones], sums[own] = row.total_units, row.own_units
    return problems


def _stream(connection: sa.Connection, rows: sa.Select[Any]) -> Iterator[sa.Row[Any]]:
    """Rows without holding them all: releases may be large."""
    yield from connection.execution_options(yield_per=_ROWS_AT_ONCE).execute(rows)
