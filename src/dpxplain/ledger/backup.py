"""Backups of a ledger, the way back, and the charge for records that were lost.

A backup is a consistent copy as one SQLite file, whichever database the ledger is in. Every row of the
append-only tables is copied as it is, so the copy has the same chain and can be verified and read like any
ledger. Temporary rows (jobs, flights, browser sessions) are not copied.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import sqlalchemy as sa

from dpxplain.errors import BadRequest, SourceError
from dpxplain.ledger import audit
from dpxplain.ledger.address import journal_of
from dpxplain.ledger.anchor_guard import (
    AnchorContent,
    AnchorGuard,
    Head,
    full_mark,
    is_in_log,
    sync_file,
    sync_folder,
)
from dpxplain.ledger.balances import LOSS, standing, total_spent
from dpxplain.ledger.protocol import AuditReport, check_reason, damaged
from dpxplain.ledger.single_flight import end_all_flights
from dpxplain.ledger.store import SQLiteStore, Store
from dpxplain.ledger.tables import (
    APPEND_ONLY,
    ENTRIES,
    LIMITS,
    LOG,
    METADATA,
    PROCESSES,
    RELEASES,
    TOKENS,
    create_triggers,
    drop_triggers,
    fill_accounts,
    fill_unreleased,
    matching,
    primary_key,
    raise_numbers,
)

# -- Backup and restore ------------------------------------------------------------------------------------

_ROWS_AT_ONCE = 500
_SECONDS_BETWEEN_TRIES = 0.05
_LOCK_NOT_AVAILABLE = "55P03"

_COPIED = tuple(table for table in METADATA.sorted_tables if table in APPEND_ONLY)
_RAISE_SEQUENCE = sa.text(
    "SELECT setval(pg_get_serial_sequence(:table, 'id'), greatest(1, :last, "
    "coalesce(pg_sequence_last_value(pg_get_serial_sequence(:table, 'id')::regclass), 0)))"
)


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


def _copy_to(store: Store, draft: Path) -> AuditReport:
    copy = SQLiteStore(draft)
    try:
        with store.snapshot() as source, copy.writing() as target:
            expected = audit.head(source)
            _copy_rows(source, target)
        with copy.snapshot() as connection:
            report = audit.verify(connection, None)
    except UnicodeEncodeError:  # text that is not UTF-8, which the ledger never writes
        raise damaged(store.name) from None
    finally:
        copy.close()
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


# -- Losses ------------------------------------------------------------------------------------------------
#
# When the ledger has lost records, the curator declares a loss, which charges everything that may have been
# spent. The anchor has the amount for each analyst and data set. Without an anchor, all remaining budgets are
# charged.

_OWN_TOTAL = (
    sa.select(ENTRIES.c.own_units)
    .where(matching(ENTRIES, "dataset", "analyst"), ENTRIES.c.id <= sa.bindparam("entry"))
    .order_by(ENTRIES.c.id.desc())
    .limit(1)
)
_NEWEST_ENTRY = sa.select(sa.func.coalesce(sa.func.max(ENTRIES.c.id), 0))
_CHANGES_SINCE = (
    sa.select(LOG.c.details)
    .where(LOG.c.id > sa.bindparam("id"), LOG.c.action.in_(sorted(audit.CHANGES)))
    .order_by(LOG.c.id)
)
_DECLARATIONS = sa.select(LOG.c.details).where(LOG.c.action == audit.LOSS_DECLARED, LOG.c.dataset.is_(None))


@dataclass(frozen=True)
class Loss:
    """What one analyst may have spent on one data set unknown to the ledger, in the ledger's units."""

    dataset: str
    analyst: str
    units: int


def _lost_charges(connection: sa.Connection, anchor: AnchorContent) -> list[Loss]:
    """What each analyst had spent at the anchor, beyond the last record that it shares with the ledger."""
    if _is_loss_declared(connection, anchor.head):
        return []  # already charged, by a command that could not write the new anchor
    shared = _last_shared_entry(connection, anchor)
    lost = []
    for dataset, totals in sorted(anchor.spent.items()):
        for analyst, units in sorted(totals.items()):
            of_analyst = {"dataset": dataset, "analyst": analyst, "entry": shared}
            before = connection.execute(_OWN_TOTAL, of_analyst).scalar_one_or_none() or 0
            if units > before:
                lost.append(Loss(dataset, analyst, units - before))
    return lost


def _remaining(connection: sa.Connection, lost: Sequence[Loss]) -> list[Loss]:
    """What is left of each data set's limit in the ledger, after `lost` is charged."""
    known = sa.select(LIMITS.c.dataset).distinct().order_by(LIMITS.c.dataset)
    datasets = connection.execute(known).scalars().all()
    if not datasets and not lost:
        raise BadRequest(
            "The ledger has no data sets, so there is no budget to charge the loss to.",
            remedy="First restore a backup of any age (dpxplain ledger restore). Without one, create a new "
            "ledger, and lower its limits by everything that may have been spent.",
        )
    charged = Counter[str]()
    for loss in lost:
        charged[loss.dataset] += loss.units
    remaining = [(dataset, standing(connection, dataset).left - charged[dataset]) for dataset in datasets]
    return [Loss(dataset, "", units) for dataset, units in remaining if units > 0]


def _charge(connection: sa.Connection, charges: Sequence[Loss], newest: int, reason: str, by: str) -> None:
    """Writes an entry for each loss. Their ids follow those of the lost entries (see `raise_sequences`)."""
    first = max(newest, connection.execute(_NEWEST_ENTRY).scalar_one()) + 1
    for id, loss in enumerate(charges, first):
        of_analyst = {"dataset": loss.dataset, "analyst": loss.analyst, "entry": id}
        total = total_spent(connection, loss.dataset) or 0
        own = connection.execute(_OWN_TOTAL, of_analyst).scalar_one_or_none() or 0
        row: dict[str, Any] = {
            "id": id,
            "dataset": loss.dataset,
            "analyst": loss.analyst,
            "time": audit.now(),
            "kind": LOSS,
            "key": "",
            "description": f"charged for lost records: {reason}",
            "charge_units": loss.units,
            "total_units": total + loss.units,
            "own_units": own + loss.units,
            "spends": "[]",
        }
        entry = audit.insert(connection, ENTRIES, row)
        raise_numbers(connection, loss.dataset, loss.analyst, id)
        release = audit.insert(connection, RELEASES, {"entry": id, "payload": json.dumps({"reason": reason})})
        rows = {ENTRIES: entry, RELEASES: release}
        audit.append_change(connection, by, audit.LOSS_CHARGED, loss.dataset, rows, row["time"])
    raise_sequences(connection)


def _shared_heads(connection: sa.Connection, anchor: AnchorContent) -> list[Head]:
    """The anchor's heads that the ledger holds: all up to the newest such head, as they form one chain."""
    heads = anchor.heads
    newest = next((index for index in reversed(range(len(heads))) if is_in_log(connection, heads[index])), -1)
    return heads[: newest + 1]


def _last_shared_entry(connection: sa.Connection, anchor: AnchorContent) -> int:
    """The newest entry that the ledger shares with the anchor."""
    shared = _shared_heads(connection, anchor)
    if not shared:
        return 0
    for details in connection.execute(_CHANGES_SINCE, {"id": shared[-1].records}).scalars():
        entry = audit.parsed(details).get(audit.NAMES[ENTRIES.name])
        if entry:
            return int(entry["id"]) - 1
    newest: int = connection.execute(_NEWEST_ENTRY).scalar_one()
    return newest


def _is_loss_declared(connection: sa.Connection, head: Head) -> bool:
    """Whether a loss was declared for the anchor with this head."""
    declarations = map(audit.parsed, connection.execute(_DECLARATIONS).scalars())
    return any(details.get("anchor") == _head_details(head) for details in declarations)


def _head_details(head: Head) -> dict[str, Any]:
    """A head in the form that the record of a declared loss repeats."""
    return {"records": head.records, "head": head.hash}


def _nothing_lost(guard: AnchorGuard | None) -> BadRequest:
    if guard is None:
        return BadRequest(
            "Without an anchor, nobody can know what was lost.",
            remedy="Name the ledger's anchor (--anchor FILE), or charge all remaining budget: --everything",
        )
    return BadRequest(
        "Nothing was lost: the ledger continues from its anchor.",
        remedy="If both the ledger and its anchor are older copies, charge all remaining budget: "
        "--everything",
    )


class Recovery:
    """Backups, anchor and losses of one ledger."""

    def __init__(self, store: Store) -> None:
        self._store = store

    @property
    def anchor_file(self) -> Path | None:
        """The anchor file, which remembers the head of the log outside of the ledger."""
        return None if self._store.anchor is None else self._store.anchor.file.path

    @property
    def verification_key(self) -> Path | None:
        """The key file beside the anchor. It signs the place up to which a long log was last found intact."""
        file = self.anchor_file
        return None if file is None else file.with_name(f"{file.name}.key")

    def anchor_problem(self) -> str | None:
        """Why the anchor blocks charges, with numbers, for the curator; None if it does not."""
        if self._store.anchor is None:
            return None
        with self._store.reading() as connection:
            return self._store.anchor.problem(connection, with_totals=True)

    def keep_anchor(self) -> str | None:
        """Writes the log's present position to the anchor. Raises if the anchor cannot be written.

        If the anchor blocks charges, leaves it unchanged and returns the reason; does not compare totals.
        """
        guard = self._store.anchor
        if guard is None:
            return None
        with self._store.reading() as connection:
            problem = guard.problem(connection)
            mark = None if problem else guard.mark(connection)
        guard.check_writable()
        self._store.keep_mark(mark)
        return problem

    def losses(self, *, everything: bool = False) -> list[Loss]:
        """The losses that `declare_loss` would charge now; with `everything`, all remaining budget too."""
        with self._store.snapshot() as connection:
            return self._losses(connection, self._readable_anchor(), everything)

    def declare_loss(self, *, reason: str, by: str, everything: bool = False) -> list[Loss]:
        """Charges the losses, and restarts the anchor at the ledger's last record.

        The ledger can then be used again.
        """
        check_reason(reason)
        with self._store.writing() as connection:
            # Read once and first: lines written to the anchor after this are not part of the declared loss.
            anchor = self._readable_anchor()
            charges = self._losses(connection, anchor, everything)
            last = Head(*audit.head(connection))
            _charge(connection, charges, 0 if anchor is None else anchor.entry, reason, by)
            details = {
                "reason": reason,
                "everything": everything,
                "anchor": None if anchor is None else _head_details(anchor.head),
                "ledger": _head_details(last) if last.records else None,
            }
            end_all_flights(connection)  # before the declaration, so that none of these charges is kept
            audit.append(connection, by, audit.LOSS_DECLARED, None, details)
            mark = full_mark(connection)
            # With these heads, the next loss begins at the last shared record instead of the first.
            earlier = [] if anchor is None else _shared_heads(connection, anchor)
        if self._store.anchor is not None and mark is not None:
            self._store.anchor.renew(mark, earlier, anchor)
        return charges

    def _readable_anchor(self) -> AnchorContent | None:
        return None if self._store.anchor is None else self._store.anchor.readable()

    def _losses(
        self, connection: sa.Connection, anchor: AnchorContent | None, everything: bool
    ) -> list[Loss]:
        """The losses, by comparison with the content of the anchor file.

        All charges in the anchor after the last record that it shares with the ledger count as lost, even if
        the ledger continued from there with other charges.
        """
        guard = self._store.anchor
        problem = None if guard is None else guard.problem(connection, with_totals=True)
        lost = [] if anchor is None or problem is None else _lost_charges(connection, anchor)
        if everything:
            return lost + _remaining(connection, lost)
        if problem is None:
            raise _nothing_lost(guard)
        if anchor is None:
            raise BadRequest(
                f"{problem} So nobody can know what was spent.",
                remedy="Put the file back from a copy, or charge all remaining budget: --everything",
            )
        return lost

    def backup(self, file: Path) -> AuditReport:
        """Copies one snapshot of the ledger to a new SQLite file, verifies the copy and returns the report.

        Other processes can read and write meanwhile. The file appears complete and readable by its owner
        only, or not at all. A broken ledger is copied too, and the report says so.
        """
        exists = BadRequest(f"{str(file)!r} already exists.", remedy="Choose another name, or a folder.")
        if file.exists():
            raise exists
        try:
            with TemporaryDirectory(prefix=".new-backup-", dir=file.absolute().parent) as folder:
                draft = Path(folder, file.name)
                report = _copy_to(self._store, draft)
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

    def restore(self, backup: Backup, *, by: str) -> AuditReport:
        """Replaces the ledger's rows with those of a backup, in one transaction. Returns the backup's report.

        Processes that have the ledger open continue with the restored one.
        """
        with self._store.writing() as connection:
            _lock_tables(connection, self._store)
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
