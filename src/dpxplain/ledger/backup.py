"""Backups of a ledger: a consistent copy as one SQLite file, whichever database it is in, and the way back.

Every row of the append-only tables is copied as it is, so the copy has the same chain and can be verified and
read like any ledger. Temporary rows (jobs, flights, browser sessions) are not copied.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import sqlalchemy as sa

from dpxplain.errors import BadRequest, SourceError
from dpxplain.ledger import audit
from dpxplain.ledger.account_totals import fill_accounts
from dpxplain.ledger.address import journal_of
from dpxplain.ledger.file_sync import sync_file, sync_folder
from dpxplain.ledger.protocol import AuditReport, damaged
from dpxplain.ledger.sqlite import SQLiteStore
from dpxplain.ledger.store import Store
from dpxplain.ledger.tables import (
    APPEND_ONLY,
    LOG,
    METADATA,
    PROCESSES,
    TOKENS,
    create_triggers,
    drop_triggers,
    fill_unreleased,
    primary_key,
)

_ROWS_AT_ONCE = 500
_SECONDS_BETWEEN_TRIES = 0.05
_LOCK_NOT_AVAILABLE = "55P03"

_COPIED = tuple(table for table in METADATA.sorted_tables if table in APPEND_ONLY)
_LAST = sa.select(LOG.c.id, LOG.c.hash).order_by(LOG.c.id.desc()).limit(1)
_RAISE_SEQUENCE = sa.text(
    "SELECT setval(pg_get_serial_sequence(:table, 'id'), greatest(1, :last, "
    "coalesce(pg_sequence_last_value(pg_get_serial_sequence(:table, 'id')::regclass), 0)))"
)


def write_backup(store: Store, file: Path) -> AuditReport:
    """Copies one snapshot of the ledger to a new file, verifies the copy and returns the report.

    Other processes can read and write meanwhile. The file appears complete and readable by its owner only, or
    not at all. A broken ledger is copied too, and the report says so.
    """
    exists = BadRequest(f"{str(file)!r} already exists.", remedy="Choose another name, or a folder.")
    if file.exists():
        raise exists
    try:
        with TemporaryDirectory(prefix=".new-backup-", dir=file.absolute().parent) as folder:
            draft = Path(folder, file.name)
            report = _copy_to(store, draft)
            sync_file(draft)
            os.link(draft, file)
            sync_folder(file.absolute().parent)
    except FileExistsError:
        raise exists from None
    except OSError as error:
        raise SourceError(
            f"The backup {str(file)!r} cannot be written: {error.strerror}.",
            remedy="Check the folder, its permissions and its free space.",
        ) from None
    return report


@dataclass(frozen=True)
class Backup:
    """A backup that is open, verified and fit to be restored."""

    connection: sa.Connection
    report: AuditReport


@contextmanager
def verified_backup(file: Path) -> Iterator[Backup]:
    """Opens a backup to be restored. Raises if it cannot be read, or is broken or empty."""
    with _opened_copy(file) as copy, copy.snapshot() as source:
        report = audit.verify(source, None)
        _check_usable(report, file)
        yield Backup(source, report)


def restore_backup(store: Store, backup: Backup, by: str) -> AuditReport:
    """Replaces the ledger's rows with those of a backup, in one transaction. Returns the backup's report.

    Processes that have the ledger open continue with the restored one.
    """
    with store.writing() as connection:
        _lock_tables(connection, store)
        drop_triggers(connection)
        for table in reversed(METADATA.sorted_tables):
            if table is not PROCESSES:  # the running processes stay
                connection.execute(sa.delete(table))
        _copy_rows(backup.connection, connection)
        raise_sequences(connection)
        create_triggers(connection)
        details = {"records": backup.report.records, "head": backup.report.head}
        audit.append(connection, by, audit.RESTORED, None, details)
    return backup.report


def _copy_to(store: Store, draft: Path) -> AuditReport:
    copy = SQLiteStore(draft)
    try:
        with store.snapshot() as source, copy.writing() as target:
            head = source.execute(_LAST).one_or_none()
            _copy_rows(source, target)
        with copy.snapshot() as connection:
            report = audit.verify(connection, None)
    except UnicodeEncodeError:  # text that is not UTF-8, which the ledger never writes
        raise damaged(store.name) from None
    finally:
        copy.close()
    expected = (0, audit.GENESIS) if head is None else (head.id, head.hash)
    if (report.records, report.head) != expected:
        problem = "The copy is incomplete: the ledger's last records are missing."
        return replace(report, problems=[problem, *report.problems])
    return report


def _copy_rows(source: sa.Connection, target: sa.Connection) -> None:
    for table in _COPIED:
        # A token's maker is older than the token, and must be inserted first.
        order = table.c.created if table is TOKENS else primary_key(table)
        rows = source.execution_options(yield_per=_ROWS_AT_ONCE).execute(sa.select(table).order_by(order))
        for batch in rows.mappings().partitions():
            target.execute(sa.insert(table), [dict(row) for row in batch])
    fill_unreleased(target)
    fill_accounts(target)


def _check_usable(report: AuditReport, file: Path) -> None:
    if not report.records:
        raise BadRequest(
            f"The backup {str(file)!r} is empty: it has no data set, no charge and no token.",
            remedy="Use a file written by dpxplain ledger backup. A plain copy of an open ledger lacks its "
            "journal.",
        )
    if not report.intact:
        raise BadRequest(
            f"The backup {str(file)!r} is broken: {report.problems[0]}",
            remedy=f"Use another backup. To see every problem: dpxplain audit verify --ledger {file}",
        )


@contextmanager
def _opened_copy(file: Path) -> Iterator[SQLiteStore]:
    """Opens a temporary copy of the backup, because opening may upgrade it and leaves a journal beside it."""
    with TemporaryDirectory(prefix="dpxplain-restore-") as folder:
        draft = Path(folder, "ledger.sqlite")
        try:
            shutil.copyfile(file, draft)
            journal = journal_of(file)
            if journal.exists():  # the file is a plain copy of a running ledger, with its journal
                shutil.copyfile(journal, journal_of(draft))
            copy = SQLiteStore(draft)
        except OSError:
            raise BadRequest(
                f"The backup {str(file)!r} cannot be read.",
                remedy="Name a file written by dpxplain ledger backup.",
            ) from None
        except SourceError:
            raise BadRequest(
                f"{str(file)!r} is not a backup of a ledger, is damaged, or comes from a newer or an "
                "unreleased version of DPXPlain.",
                remedy="Name a file written by dpxplain ledger backup.",
            ) from None
        try:
            yield copy
        finally:
            copy.close()


def _lock_tables(connection: sa.Connection, store: Store) -> None:
    """Locks readers out in PostgreSQL. Never waits while it holds a lock, so it cannot deadlock with them."""
    if connection.dialect.name == "sqlite":
        return
    tables = ", ".join(table.name for table in METADATA.sorted_tables)
    deadline = time.monotonic() + store.busy_seconds
    while True:
        try:
            with connection.begin_nested():
                connection.exec_driver_sql(f"LOCK TABLE {tables} IN ACCESS EXCLUSIVE MODE NOWAIT")
            return
        except sa.exc.OperationalError as error:
            if getattr(error.orig, "sqlstate", None) != _LOCK_NOT_AVAILABLE:
                raise
            if time.monotonic() > deadline:
                raise store.busy() from None
            time.sleep(_SECONDS_BETWEEN_TRIES)


def raise_sequences(connection: sa.Connection) -> None:
    """Makes PostgreSQL number new rows after the restored rows and after all lost rows.

    The number of a lost entry is never reused: a process that still measures the lost entry would store its
    release with the new one.
    """
    if connection.dialect.name == "sqlite":
        return
    for table in _COPIED:
        column: sa.Column[Any] = primary_key(table)
        if column.autoincrement is not False and isinstance(column.type, sa.BigInteger):
            last = connection.execute(sa.select(sa.func.coalesce(sa.func.max(column), 0))).scalar_one()
            connection.execute(_RAISE_SEQUENCE, {"table": f"dpxplain.{table.name}", "last": last})
