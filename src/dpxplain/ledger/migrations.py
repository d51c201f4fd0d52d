"""Creates the tables of a ledger, and upgrades a ledger of an earlier release, in SQLite and in PostgreSQL.

The format is stored in the database. All missing steps run in one transaction that holds the writers' lock,
and each writes a record to the audit log. A ledger of a newer format is refused, and so is a ledger that is
older than the first release.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import sqlalchemy as sa
from sqlalchemy.schema import CreateIndex, CreateTable, ExecutableDDLElement

from dpxplain.errors import SourceError
from dpxplain.ledger import FORMAT, audit
from dpxplain.ledger.protocol import damaged
from dpxplain.ledger.store import LOG, Store
from dpxplain.ledger.tables import METADATA, create_refusal, create_triggers, set_index_conditions

FIRST_FORMAT = 9
"""The format of the first release. Only unreleased versions wrote the formats below it."""

Step = Callable[[sa.Connection], dict[str, Any]]
"""Changes the tables to the next format. Returns the details for its record in the audit log."""

STEPS: dict[int, Step] = {}
"""The steps by the format that they start from: one for each format from FIRST_FORMAT to FORMAT - 1."""


def check_version(name: str, version: int | None) -> int:
    """The ledger's format. Raises unless this program can read or upgrade it."""
    if version is None or version < 1:
        raise damaged(name)
    if version < FIRST_FORMAT:
        raise SourceError(
            f"{name} was written by an unreleased version of DPXPlain (format {version}). This version reads "
            f"formats from {FIRST_FORMAT} on. Nothing was changed.",
            remedy="Use the version that wrote it, or start a new ledger. A new ledger does not know what "
            "was spent in this one: lower its budgets by that amount.",
        )
    if version > FORMAT:
        raise SourceError(
            f"{name} has format {version}, from a newer version of DPXPlain. This version reads formats up "
            f"to {FORMAT}.",
            remedy="Upgrade DPXPlain.",
        )
    return version


def migrate(store: Store) -> None:
    """Runs the steps that the ledger lacks. Either all are committed, or nothing changes."""
    with store.reading() as connection:
        if check_version(store.name, store.version(connection)) == FORMAT:
            return
    with store.writing() as connection:
        # Read again under the lock: another process may have upgraded the ledger meanwhile.
        first = check_version(store.name, store.version(connection))
        for version in range(first, FORMAT):
            details = STEPS[version](connection)
            versions = {"from_version": version, "to_version": version + 1}
            audit.append(connection, "", audit.UPGRADED, None, versions | details)
        store.set_version(connection, FORMAT)
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
