"""Verifies the audit log: its own chain first, then every table against what the log says of it.

Found are altered, deleted, added and reordered records, and altered, deleted and added rows. A cut tail,
rows and records alike, leaves an intact shorter ledger, and who can write everything can also compute a new
chain: only a head noted down elsewhere tells.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import sqlalchemy as sa

from dpxplain.ledger.audit import CHANGES, GENESIS, NAMES, RESERVED, canonical, chained, image, parsed, sha256
from dpxplain.ledger.guards import unguarded
from dpxplain.ledger.protocol import AuditReport
from dpxplain.ledger.tables import ENTRIES, GRANTS, LIMITS, LOG, STATE

_ROWS_AT_ONCE = 500
_STRANGE = (ValueError, TypeError, AttributeError, KeyError, RecursionError)
"""What a row raises that holds what the ledger never writes, such as NaN, or bytes in place of text."""

_Sealed = dict[tuple[str, Any], str]
"""A digest for each row the log tells of, by the row's kind and key."""


def verify(connection: sa.Connection, head: str | None) -> AuditReport:
    """Everything that does not fit, as sentences; the connection's transaction must see one moment."""
    problems = [
        f"The table {table} is not guarded: its triggers are missing, changed or switched off."
        for table in unguarded(connection)
    ]
    sealed: _Sealed = {}
    allowed = _Allowed()
    previous, records = GENESIS, 0
    head_seen = head is None or head == GENESIS
    for row in _stream(connection, sa.select(LOG).order_by(LOG.c.id)):
        records += 1
        problems += _broken_link(row, previous)
        previous = str(row.hash)
        head_seen = head_seen or row.hash == head
        if row.action in CHANGES:
            problems += _told(row, sealed, allowed)
    if not head_seen:
        problems.append("The noted head is not in the log: its end was cut off, or it was rewritten.")
    problems += _rows_against(connection, sealed)
    problems += _wrong_totals(connection)
    return AuditReport(records, previous, problems)


def _broken_link(row: sa.Row[Any], previous: str) -> list[str]:
    record = {name: getattr(row, name) for name in ("id", "time", "actor", "action", "dataset")}
    try:
        altered = row.hash != chained(row.previous, record | {"details": parsed(row.details)})
    except _STRANGE:
        altered = True
    if altered:
        return [f"Log record {row.id} was altered."]
    if row.previous != previous:
        return [f"Log record {row.id} does not follow the one before it: records were removed or put in."]
    return []


def _told(row: sa.Row[Any], sealed: _Sealed, allowed: _Allowed) -> list[str]:
    """Remember what the record says of the tables."""
    problems = []
    try:
        details = parsed(row.details)
        for kind, shown in details.items():
            place = (kind, next(iter(_keyed(kind, shown)), None))
            if place in sealed:
                problems.append(f"Log record {row.id} tells of {kind} {place[1]} a second time.")
            sealed[place] = sha256(canonical(shown))
        problems += allowed.exceeded_by(row.action, details)
    except _STRANGE:
        problems.append(f"Log record {row.id} cannot be read.")
    return problems


def _keyed(kind: str, shown: Any) -> Iterator[Any]:
    """The primary key of a row as a record shows it."""
    for table in STATE:
        if NAMES[table.name] == kind and isinstance(shown, dict):
            yield shown.get(next(iter(table.primary_key.columns)).name)


class _Allowed:
    """What might be spent at each moment of the log, by data set and by analyst, in units."""

    def __init__(self) -> None:
        self._limits: dict[str, int] = {}
        self._grants: dict[tuple[str, str], int] = {}

    def exceeded_by(self, action: str, details: Mapping[str, Any]) -> list[str]:
        """Take in what a record says; of a charge, say whether there was no room for it.

        Entries found by an upgrade are not held against a limit: which one they were charged under is not
        known. Nor is the allowance of who was granted none.
        """
        if limit := details.get(NAMES[LIMITS.name]):
            self._limits[limit["dataset"]] = limit["declared_units"] + limit["top_up_units"]
        if grant := details.get(NAMES[GRANTS.name]):
            self._grants[grant["dataset"], grant["analyst"]] = grant["limit_units"]
        entry = details.get(NAMES[ENTRIES.name])
        if action != RESERVED or not entry or entry["charge_units"] == 0:
            return []
        dataset, analyst = entry["dataset"], entry["analyst"]
        own = self._grants.get((dataset, analyst), entry["own_units"])
        problems = []
        if entry["total_units"] > self._limits.get(dataset, 0):
            problems.append(f"The entry {entry['id']} exceeds the limit that {dataset!r} had then.")
        if entry["own_units"] > own:
            problems.append(f"The entry {entry['id']} exceeds the allowance that {analyst!r} had then.")
        return problems


def _rows_against(connection: sa.Connection, sealed: _Sealed) -> list[str]:
    problems = []
    for table in STATE:
        kind, key = NAMES[table.name], next(iter(table.primary_key.columns))
        for row in _stream(connection, sa.select(table).order_by(key)):
            number = row._mapping[key.name]
            told = sealed.pop((kind, number), None)
            if told is None:
                problems.append(f"The log knows no {kind} {number}: it was put in.")
            elif told != _digest(row):
                problems.append(f"The {kind} {number} is not what the log says: it was altered.")
    problems += [f"The {kind} {key} is gone, but the log tells of it." for kind, key in sealed]
    return problems


def _digest(row: sa.Row[Any]) -> str | None:
    """Of a row as the log shows it; None for a row that the ledger cannot have written."""
    try:
        return sha256(canonical(image(row._asdict())))
    except _STRANGE:
        return None


def _wrong_totals(connection: sa.Connection) -> list[str]:
    """Entries whose running totals are not the sums of the charges up to them."""
    problems, sums = [], Counter[tuple[str, ...]]()
    columns = ("id", "dataset", "analyst", "charge_units", "total_units", "own_units")
    for row in _stream(connection, sa.select(*(ENTRIES.c[name] for name in columns)).order_by(ENTRIES.c.id)):
        everyones, own = (row.dataset,), (row.dataset, row.analyst)
        if not all(isinstance(row._mapping[name], int) for name in columns[3:]):
            problems.append(f"The entry {row.id} does not add up with those before it.")
            continue
        sums[everyones] += row.charge_units
        sums[own] += row.charge_units
        if (row.total_units, row.own_units) != (sums[everyones], sums[own]):
            problems.append(f"The entry {row.id} does not add up with those before it.")
            sums[everyones], sums[own] = row.total_units, row.own_units
    return problems


def _stream(connection: sa.Connection, rows: sa.Select[Any]) -> Iterator[sa.Row[Any]]:
    """Rows without holding them all: releases may be large."""
    yield from connection.execution_options(yield_per=_ROWS_AT_ONCE).execute(rows)
