"""Makes a ledger long, with the lines, running totals, releases and hash chain that it would have written.

Asking a million queries would take hours. This module inserts the lines in batches and makes the records'
texts from a pattern. `audit.verify` shows that they are what the ledger would have written.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

import sqlalchemy as sa

from dpxplain.ledger import audit
from dpxplain.ledger.ledger import SQLLedger
from dpxplain.ledger.tables import ACCOUNTS, ENTRIES, LOG, RELEASES, fill_accounts

Row = tuple[Any, ...]
"""Values in the order of a table's columns."""

_BATCH = 20_000
_PAYLOAD = "{}"
_CACHE = "PRAGMA cache_size = -500000"  # 500 MB: an index of random keys does not fit into SQLite's 2 MB
_VARYING = ("id", "time", "key", "total_units", "own_units", "number", "subject")


def fill_history(ledger: SQLLedger, dataset: str, lines: int, analyst: str | None = None) -> None:
    """Adds released entries until the data set's history has `lines` lines.

    The entries repeat the last charge, or the analyst's last charge, each with a new key. One in a hundred is
    the preparation of a different query. Nobody else may write meanwhile.
    """
    store = ledger.store
    with store.reading() as connection:
        of_dataset = ENTRIES.c.dataset == dataset
        have = connection.execute(sa.select(sa.func.count(ENTRIES.c.id)).where(of_dataset)).scalar_one()
        repeated = sa.select(ENTRIES).where(of_dataset, ENTRIES.c.charge_units > 0)
        if analyst is not None:
            repeated = repeated.where(ENTRIES.c.analyst == analyst)
        template = connection.execute(repeated.order_by(ENTRIES.c.id.desc()).limit(1)).one()._asdict()
        own = sa.select(ENTRIES.c.own_units).where(of_dataset, ENTRIES.c.analyst == template["analyst"])
        numbers = sa.select(ACCOUNTS.c.last_number).where(
            ACCOUNTS.c.dataset == dataset, ACCOUNTS.c.analyst == template["analyst"]
        )
        template["number"] = connection.execute(numbers).scalar_one()
        template["own_units"] = connection.execute(own.order_by(ENTRIES.c.id.desc()).limit(1)).scalar_one()
        last = connection.execute(sa.select(sa.func.max(ENTRIES.c.id))).scalar_one()
        total = sa.select(ENTRIES.c.total_units).where(of_dataset).order_by(ENTRIES.c.id.desc()).limit(1)
        spent = connection.execute(total).scalar_one()
        head = connection.execute(sa.select(LOG.c.id, LOG.c.hash).order_by(LOG.c.id.desc()).limit(1)).one()
    rows = _lines(template, last, spent, head, lines - have)
    while batch := list(islice(rows, _BATCH)):
        with store.writing() as connection:
            _insert(connection, ENTRIES, [entry for entry, *_ in batch])
            _insert(connection, RELEASES, [release for _, release, *_ in batch])
            _insert(connection, LOG, [record for _, _, *records in batch for record in records])
    with store.writing() as connection:
        if connection.dialect.name == "postgresql":
            raised = "SELECT setval(pg_get_serial_sequence('entries', 'id'), (SELECT max(id) FROM entries))"
            connection.exec_driver_sql(raised)
        fill_accounts(connection)
    _analyze(ledger)


def _lines(
    template: dict[str, Any], last: int, total: int, head: Any, number: int
) -> Iterator[tuple[Row, Row, Row, Row]]:
    """Entries with their releases and the log records of both, each in the order of its table's columns."""
    own, record, previous = template["own_units"], head.id, head.hash
    charge, analyst, dataset = template["charge_units"], template["analyst"], template["dataset"]
    patterns = {kind: _Pattern(template | {"kind": kind}) for kind in ("query", "prepare")}
    released = audit.sha256(_PAYLOAD)
    for id in range(last + 1, last + 1 + number):
        time = audit.now()
        own, total = own + charge, total + charge
        is_preparation = id % 100 == 0
        pattern = patterns["prepare" if is_preparation else "query"]
        entry, entry_text = pattern.entry(
            id=id,
            time=time,
            key=audit.sha256(f"line {id}"),
            total_units=total,
            own_units=own,
            number=template["number"] + id - last,
            subject=audit.sha256(f"query {id}") if is_preparation else None,
        )
        records = []
        for action, details in (
            (audit.RESERVED, entry_text),
            (audit.RELEASED, f'{{"release":{{"entry":{id},"sha256":"{released}"}}}}'),
        ):
            record += 1
            hash = audit.sha256(previous + pattern.record[action] % (details, record, time))
            records.append((record, time, analyst, action, dataset, details, previous, hash))
            previous = hash
        yield entry, (id, _PAYLOAD), records[0], records[1]


class _Pattern:
    """The texts that the ledger writes for an entry, with gaps for the values that differ between lines."""

    def __init__(self, template: dict[str, Any]) -> None:
        self._template = template
        gaps = {name: f"@{name}@" for name in _VARYING if name != "subject" or template["kind"] == "prepare"}
        image = audit.image(template | {"subject": None} | gaps)
        text = audit.canonical({"entry": image}).replace("%", "%%")
        for name in gaps:
            is_text = name in ("time", "key", "subject")
            text = text.replace(f'"@{name}@"', f'"%({name})s"' if is_text else f"%({name})d")
        self._text = text
        self.record = {action: self._record(action) for action in (audit.RESERVED, audit.RELEASED)}

    def entry(self, **values: Any) -> tuple[Row, str]:
        """The entry's row, and the details of its log record."""
        return tuple((self._template | values).values()), self._text % values

    def _record(self, action: str) -> str:
        """A record's text as it is hashed, with gaps for its details, number and time."""
        content = {"actor": self._template["analyst"], "action": action, "dataset": self._template["dataset"]}
        gaps = {"details": "@details@", "id": "@id@", "time": "@time@"}
        text = audit.canonical(content | gaps).replace("%", "%%")
        return text.replace('"@details@"', "%s").replace('"@id@"', "%d").replace("@time@", "%s")


def _insert(connection: sa.Connection, table: sa.Table, rows: list[Row]) -> None:
    driver: Any = connection.connection.driver_connection
    columns = ", ".join(f'"{column.name}"' for column in table.columns)
    if connection.dialect.name == "sqlite":
        driver.execute(_CACHE)
        gaps = ", ".join("?" for _ in table.columns)
        driver.executemany(f"INSERT INTO {table.name} ({columns}) VALUES ({gaps})", rows)
        return
    with driver.cursor() as cursor, cursor.copy(f"COPY {table.name} ({columns}) FROM STDIN") as copy:
        for row in rows:
            copy.write_row(row)


def _analyze(ledger: SQLLedger) -> None:
    """Updates PostgreSQL's statistics, as autovacuum would."""
    with ledger.store.updating() as connection:
        if connection.dialect.name == "postgresql":
            connection.exec_driver_sql("ANALYZE")
