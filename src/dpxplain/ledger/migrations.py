"""Creates the tables of a ledger, and upgrades an older ledger, in SQLite and in PostgreSQL.

The version is stored in the database. All missing steps run in one transaction that holds the writers' lock,
and each writes a record to the audit log. A ledger of a newer version is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.schema import CreateIndex, CreateTable, ExecutableDDLElement

from dpxplain.errors import SourceError
from dpxplain.ledger import FORMAT, audit
from dpxplain.ledger.account_totals import create_accounts, fill_accounts
from dpxplain.ledger.protocol import damaged
from dpxplain.ledger.store import LOG, Store
from dpxplain.ledger.tables import (
    ENTRIES,
    FLIGHTS,
    LIMITS,
    METADATA,
    RELEASES,
    create_lookups,
    create_refusal,
    create_replacement_triggers,
    create_sessions,
    create_triggers,
    create_versions,
    fill_unreleased,
    set_index_conditions,
)


class Step(NamedTuple):
    """A step from one version to a later one; `run` returns the details for its record in the audit log."""

    start: int
    end: int
    run: Callable[[sa.Connection], dict[str, Any]]


def check_version(name: str, version: int | None) -> int:
    """The ledger's version. Raises unless this program can read or migrate it."""
    if version is not None and version > FORMAT:
        raise SourceError(
            f"{name} has format {version}, from a newer version of DPXPlain. This version reads formats up "
            f"to {FORMAT}.",
            remedy="Upgrade DPXPlain.",
        )
    if version != FORMAT and version not in _STEPS:
        raise damaged(name)
    return version


def migrate(store: Store) -> None:
    """Runs the steps that the ledger lacks. Either all are committed, or nothing changes."""
    with store.reading() as connection:
        if check_version(store.name, store.version(connection)) == FORMAT:
            return
    with store.writing() as connection:
        # Read again under the lock: another process may have migrated the ledger meanwhile.
        first = version = check_version(store.name, store.version(connection))
        while version < FORMAT:
            step = _STEPS[version]
            details = step.run(connection)
            versions = {"from_version": step.start, "to_version": step.end}
            audit.append(connection, "", audit.UPGRADED, None, versions | details)
            version = step.end
        store.set_version(connection, version)
    if first != FORMAT:
        store.is_upgraded = True
        LOG.warning(
            "%s was upgraded from format %d to format %d, which older versions of DPXPlain cannot read. The "
            "audit log records the upgrade.",
            *(store.name, first, FORMAT),
        )


def create_all(connection: sa.Connection) -> None:
    """Create the tables and their triggers, within the caller's transaction."""
    set_index_conditions(connection)
    for statement in _create_statements(connection.dialect):
        connection.exec_driver_sql(statement)
    create_refusal(connection)
    create_triggers(connection)


_CREATE_STATEMENTS: dict[tuple[object, ...], tuple[str, ...]] = {}


def _create_statements(dialect: sa.Dialect) -> tuple[str, ...]:
    """The SQL of all tables and indexes. SQLAlchemy needs longer to write it than a database to run it."""
    database = (dialect.name, dialect.server_version_info)
    if database not in _CREATE_STATEMENTS:
        creations: list[ExecutableDDLElement] = []
        for table in METADATA.sorted_tables:
            creations += [CreateTable(table), *map(CreateIndex, table.indexes)]
        _CREATE_STATEMENTS[database] = tuple(str(creation.compile(dialect=dialect)) for creation in creations)
    return _CREATE_STATEMENTS[database]


def _rebuild(connection: sa.Connection) -> dict[str, Any]:
    """Version 1 knew no analysts and no audit log, and was kept in SQLite only.

    Its rows move into the present tables as rows of the local owner, and the log records each of them.
    """
    old = ("datasets", "entries", "releases")
    for index in ("entries_by_key", "entries_by_charge"):
        connection.exec_driver_sql(f"DROP INDEX {index}")
    for table in old:
        connection.exec_driver_sql(f"ALTER TABLE {table} RENAME TO old_{table}")
    create_all(connection)
    rows = {
        table: connection.exec_driver_sql(f"SELECT count(*) FROM old_{table}").scalar_one() for table in old
    }
    _move_limits(connection)
    _move_entries(connection)
    fill_unreleased(connection)
    fill_accounts(connection)
    for table in reversed(old):
        connection.exec_driver_sql(f"DROP TABLE old_{table}")
    return {"found": rows}


def _refuse_replacement(connection: sa.Connection) -> dict[str, Any]:
    """SQLite ledgers of version 2 had no triggers against INSERT OR REPLACE.

    PostgreSQL has no such statement; only the number of its version changes.
    """
    if connection.dialect.name == "sqlite":
        create_replacement_triggers(connection)
    return {}


def _add_subject(connection: sa.Connection) -> dict[str, Any]:
    """Version 3 did not store which query a preparation belongs to, and had no index by kind or action."""
    connection.exec_driver_sql("ALTER TABLE entries ADD COLUMN subject TEXT")
    connection.exec_driver_sql("CREATE INDEX entries_by_kind ON entries (dataset, kind, id)")
    connection.exec_driver_sql("CREATE INDEX entries_by_subject ON entries (dataset, kind, subject)")
    connection.exec_driver_sql("CREATE INDEX log_by_action ON log (dataset, action, id)")
    return {}


def _add_versions(connection: sa.Connection) -> dict[str, Any]:
    """Version 4 did not store which data an entry was measured on.

    Which data these were is no longer known, so a data set takes the first data that it is opened with.
    """
    connection.exec_driver_sql("ALTER TABLE entries ADD COLUMN version TEXT")
    create_versions(connection)
    return {}


def _add_makers(connection: sa.Connection) -> dict[str, Any]:
    """Version 5 stored no maker of a token, no declarations of a charge, no flights and no processes.

    It stored browser sessions as tokens, permanently in the log. They end, and people sign in again.
    """
    connection.exec_driver_sql("ALTER TABLE entries ADD COLUMN declarations TEXT")
    connection.exec_driver_sql("ALTER TABLE tokens ADD COLUMN maker TEXT REFERENCES tokens (id)")
    create_sessions(connection)
    return {}


def _add_lookups(connection: sa.Connection) -> dict[str, Any]:
    """Version 6 had no index for some lookups of one analyst, and no table of charges without a release."""
    create_lookups(connection)
    return {}


def _add_accounts(connection: sa.Connection) -> dict[str, Any]:
    """Version 7 numbered the entries of all analysts together, and did not add up the cost of Gaussian noise.

    Its entries keep their numbers. The cost of Gaussian noise is added up from the entries' mechanisms;
    unknown mechanisms do not count as Gaussian.
    """
    create_accounts(connection)
    return {}


def _add_flight_process(connection: sa.Connection) -> dict[str, Any]:
    """Version 8 did not store which process measures a request."""
    columns = {column["name"] for column in sa.inspect(connection).get_columns(FLIGHTS.name)}
    if "process" not in columns:  # for ledgers of version 5, an earlier step has created the whole table
        connection.exec_driver_sql("ALTER TABLE flights ADD COLUMN process TEXT")
    return {}


_STEPS = {
    step.start: step
    for step in (
        Step(1, FORMAT, _rebuild),
        Step(2, 3, _refuse_replacement),
        Step(3, 4, _add_subject),
        Step(4, 5, _add_versions),
        Step(5, 6, _add_makers),
        Step(6, 7, _add_lookups),
        Step(7, 8, _add_accounts),
        Step(8, 9, _add_flight_process),
    )
}


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
    # Streamed, because payloads may be large.
    statement = "SELECT * FROM old_entries LEFT JOIN old_releases ON entry = id ORDER BY id"
    for row in connection.execution_options(yield_per=100).exec_driver_sql(statement):
        entry = row._asdict()
        payload = entry.pop("payload")
        is_released = entry.pop("entry") is not None
        totals[row.dataset] = total = totals.get(row.dataset, 0) + row.charge_units
        entry |= {"analyst": "", "total_units": total, "own_units": total}
        rows = {ENTRIES: audit.insert(connection, ENTRIES, entry)}
        if is_released:
            rows[RELEASES] = audit.insert(connection, RELEASES, {"entry": row.id, "payload": payload})
        audit.append_change(connection, "", audit.FOUND, row.dataset, rows)
