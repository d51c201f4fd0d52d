"""Makes a ledger long: lines as it would have written them, with running totals, releases and a valid chain.

A million queries would take hours to ask; both databases take these in batches.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

import sqlalchemy as sa

from dpxplain.ledger import audit
from dpxplain.ledger.account_totals import ACCOUNTS, fill_accounts
from dpxplain.ledger.ledger import SQLLedger
from dpxplain.ledger.tables import ENTRIES, LOG, RELEASES

_BATCH = 20_000
_PAYLOAD = "{}"


def grow(ledger: SQLLedger, dataset: str, lines: int, analyst: str | None = None) -> None:
    """Add released entries until the data set's history has so many lines.

    They repeat the last charge, or the analyst's last, each with a key of its own; one in a hundred is the
    preparation of a query of its own. Nobody else may write meanwhile.
    """
    store = ledger._store
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
        entries, releases, records = ([line[part] for line in batch] for part in range(3))
        with store.writing() as connection:
            _insert(connection, ENTRIES, entries)
            _insert(connection, RELEASES, releases)
            _insert(connection, LOG, [record for pair in records for record in pair])
    with store.writing() as connection:
        if connection.dialect.name == "postgresql":
            raised = "SELECT setval(pg_get_serial_sequence('entries', 'id'), (SELECT max(id) FROM entries))"
            connection.exec_driver_sql(raised)
        fill_accounts(connection)
    _analyze(ledger)


def _lines(
    template: dict[str, Any], last: int, total: int, head: Any, number: int
) -> Iterator[tuple[dict[str, Any], dict[str, Any], tuple[dict[str, Any], dict[str, Any]]]]:
    """Entries with their releases and the records of both."""
    own, record, previous = template["own_units"], head.id, head.hash
    charge = template["charge_units"]
    dataset, analyst = template["dataset"], template["analyst"]
    for id in range(last + 1, last + 1 + number):
        time = audit.now()
        own, total = own + charge, total + charge
        is_preparation = id % 100 == 0
        entry = template | {
            "id": id,
            "time": time,
            "kind": "prepare" if is_preparation else "query",
            "key": audit.sha256(f"line {id}"),
            "total_units": total,
            "own_units": own,
            "number": template["number"] + id - last,
            "subject": audit.sha256(f"query {id}") if is_preparation else None,
        }
        release = {"entry": id, "payload": _PAYLOAD}
        records = []
        for action, rows in ((audit.RESERVED, {"entry": entry}), (audit.RELEASED, {"release": release})):
            record += 1
            details = {name: audit.image(row) for name, row in rows.items()}
            content = {"id": record, "time": time, "actor": analyst, "action": action, "dataset": dataset}
            hash = audit.chained(previous, content | {"details": details})
            records.append(
                content | {"details": audit.canonical(details), "previous": previous, "hash": hash}
            )
            previous = hash
        yield entry, release, (records[0], records[1])


def _insert(connection: sa.Connection, table: sa.Table, rows: list[dict[str, Any]]) -> None:
    names = [column.name for column in table.columns]
    if connection.dialect.name == "sqlite":
        connection.execute(sa.insert(table), rows)
        return
    driver: Any = connection.connection.driver_connection
    columns = ", ".join(f'"{name}"' for name in names)
    with driver.cursor() as cursor, cursor.copy(f"COPY {table.name} ({columns}) FROM STDIN") as copy:
        for row in rows:
            copy.write_row([row[name] for name in names])


def _analyze(ledger: SQLLedger) -> None:
    """Up-to-date statistics, as autovacuum sees to."""
    with ledger._store.updating() as connection:
        if connection.dialect.name == "postgresql":
            connection.exec_driver_sql("ANALYZE")
