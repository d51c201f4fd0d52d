"""Makes a ledger long: copies its last released entry as often as needed, with an audit log that verifies.

A million queries would take hours to ask. The copies differ in key, number and running totals, as a million
different queries of one analyst would; both databases take them in batches.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from dpxplain.ledger import audit
from dpxplain.ledger.ledger import SQLLedger
from dpxplain.ledger.tables import ENTRIES, LOG, RELEASES

_BATCH = 5_000


def grow(ledger: SQLLedger, dataset: str, lines: int) -> None:
    """Adds copies until the data set's history has so many lines."""
    store = ledger._store
    with store.reading() as connection:
        have = connection.execute(
            sa.select(sa.func.count()).select_from(ENTRIES).where(ENTRIES.c.dataset == dataset)
        ).scalar_one()
    while have < lines:
        number = min(_BATCH, lines - have)
        with store.writing() as connection:
            _add(connection, dataset, number)
        have += number
    if store.name.startswith("The ledger in the PostgreSQL"):
        with store.updating() as connection:  # as autovacuum does within a minute of such a change
            connection.exec_driver_sql("ANALYZE")


def _add(connection: sa.Connection, dataset: str, number: int) -> None:
    last_release = (
        sa.select(ENTRIES, RELEASES.c.payload)
        .join(RELEASES, RELEASES.c.entry == ENTRIES.c.id)
        .where(ENTRIES.c.dataset == dataset, ENTRIES.c.kind == "query")
        .order_by(ENTRIES.c.id.desc())
        .limit(1)
    )
    last_entry = sa.select(ENTRIES).order_by(ENTRIES.c.id.desc()).limit(1)
    last_record = sa.select(LOG.c.id, LOG.c.hash).order_by(LOG.c.id.desc()).limit(1)
    template = dict(connection.execute(last_release).mappings().one())
    payload = template.pop("payload")
    newest = connection.execute(last_entry).mappings().one()
    record, previous = connection.execute(last_record).one()
    entries: list[dict[str, Any]] = []
    records: list[dict[str, Any]] = []
    total, own, time = newest["total_units"], newest["own_units"], audit.now()

    def note(action: str, image: dict[str, Any]) -> None:
        nonlocal record, previous
        record += 1
        content = {
            "id": record, "time": time, "actor": template["analyst"], "action": action, "dataset": dataset,
            "details": image,
        }  # fmt: skip
        hashed = audit.chained(previous, content)
        records.append(content | {"details": audit.canonical(image), "previous": previous, "hash": hashed})
        previous = hashed

    for step in range(1, number + 1):
        total, own = total + template["charge_units"], own + template["charge_units"]
        changed = {"id": newest["id"] + step, "time": time, "total_units": total, "own_units": own}
        entry = template | changed | {"key": audit.sha256(f"{previous} {step}")}
        entries.append(entry)
        note(audit.RESERVED, {"entry": audit.image(entry)})
        note(audit.RELEASED, {"release": audit.image({"entry": entry["id"], "payload": payload})})
    connection.execute(sa.insert(ENTRIES), entries)
    connection.execute(sa.insert(RELEASES), [{"entry": e["id"], "payload": payload} for e in entries])
    connection.execute(sa.insert(LOG), records)
    if connection.dialect.name == "postgresql":
        connection.exec_driver_sql(
            "SELECT setval(pg_get_serial_sequence('dpxplain.entries', 'id'), (SELECT max(id) FROM entries))"
        )
