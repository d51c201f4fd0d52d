"""The ledger in one SQLite file, or in memory.

Entries and releases are only ever inserted, so nothing can give budget back. A charge is checked and written
in one BEGIN IMMEDIATE transaction: SQLite lets one writer in at a time, across threads and processes.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import sqlalchemy as sa
from sqlalchemy.pool import StaticPool

from dpxplain.errors import BadRequest, InternalError, SourceError
from dpxplain.ledger.amounts import charge_units, exhausted, rho_text, unknown_dataset
from dpxplain.ledger.base import Entry
from dpxplain.model.budget import Budget, Spend, check_rho, limit_units, rho_of_units

APPLICATION_ID = int.from_bytes(b"DPXP")  # tells our files from other people's SQLite files
SCHEMA_VERSION = 1
BUSY_SECONDS = 60.0

_METADATA = sa.MetaData()

_DATASETS = sa.Table(
    "datasets",
    _METADATA,
    sa.Column("name", sa.String, primary_key=True),
    sa.Column("limit_units", sa.BigInteger, nullable=False),
    sa.Column("delta", sa.Float, nullable=False),
)

_ENTRIES = sa.Table(
    "entries",
    _METADATA,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("dataset", sa.ForeignKey("datasets.name"), nullable=False),
    sa.Column("time", sa.String, nullable=False),  # ISO 8601 in UTC: SQLite has no type for it
    sa.Column("kind", sa.String, nullable=False),
    sa.Column("key", sa.String, nullable=False),
    sa.Column("description", sa.String, nullable=False),
    sa.Column("charge_units", sa.BigInteger, sa.CheckConstraint("charge_units >= 0"), nullable=False),
    sa.Column("spends", sa.JSON, nullable=False),  # [[mechanism, rho], ...]: read and written as one
    sa.Index("entries_by_key", "dataset", "key"),
    # Answers the sum of charges without visiting the entries, and repeats every amount, so that a damaged
    # digit in either place shows when the file is opened.
    sa.Index("entries_by_charge", "dataset", "charge_units"),
)

# Apart from the entries, so that releasing is an insert too and history never reads a payload.
_RELEASES = sa.Table(
    "releases",
    _METADATA,
    sa.Column("entry", sa.ForeignKey("entries.id"), primary_key=True),
    sa.Column("payload", sa.Text, nullable=False),
)

_RELEASED = sa.select(_ENTRIES, _RELEASES.c.payload).join(_RELEASES)


class SQLiteLedger:
    """A ledger in the file at `path`, made if missing; None keeps it in this process's memory.

    >>> ledger = SQLiteLedger(None)
    >>> ledger.open_dataset("adult", limit=1.0, delta=1e-6)
    >>> entry = ledger.reserve("adult", "query", "k", "SELECT COUNT(*)", 0.25, [Spend("gaussian", 0.25)])
    >>> ledger.release(entry, '{"count": 48839}')
    >>> ledger.find("adult", "k")[1], ledger.budget("adult").remaining
    ('{"count": 48839}', 0.75)
    >>> ledger.close()
    """

    def __init__(self, path: Path | None) -> None:
        self._name = "The ledger in memory" if path is None else f"The ledger {str(path)!r}"
        self._process = os.getpid()
        # One connection and one lock: threads queue here instead of polling SQLite's file lock, and a ledger
        # in memory is the same code. Every transaction is short, so nobody waits long.
        self._lock = threading.Lock()
        with self._errors_explained():
            if path is None:
                self._engine = _engine("file::memory:")
                _create_tables(self._engine)
            else:
                path = path.absolute()
                _create_file(path)
                self._engine = _engine(f"{path.as_uri()}?mode=rw")
        self._closing = weakref.finalize(self, self._engine.dispose)
        if path is not None:
            try:
                self._verify(path)
            except BaseException:
                self.close()
                raise

    def open_dataset(self, dataset: str, limit: float, delta: float) -> None:
        new_limit = limit_units(check_rho(limit, "limit"))
        if not 0 < delta < 1:
            raise BadRequest(f"delta must lie between 0 and 1, not {delta!r}.", remedy="Try delta=1e-6.")
        with self._transaction("BEGIN IMMEDIATE") as connection:
            old_limit = connection.scalar(sa.select(_DATASETS.c.limit_units).filter_by(name=dataset))
            if old_limit is None:
                connection.execute(
                    sa.insert(_DATASETS).values(name=dataset, limit_units=new_limit, delta=delta)
                )
                return
            connection.execute(
                sa.update(_DATASETS).filter_by(name=dataset).values(limit_units=new_limit, delta=delta)
            )
            if old_limit != new_limit:
                old, new = rho_text(old_limit), rho_text(new_limit)
                entry = _insert_entry(
                    connection, dataset, "limit", "", f"limit changed from rho {old} to rho {new}", 0, []
                )
                payload = f'{{"old_limit": {old}, "new_limit": {new}}}'
                connection.execute(sa.insert(_RELEASES).values(entry=entry, payload=payload))

    def budget(self, dataset: str) -> Budget:
        with self._transaction("BEGIN") as connection:
            account = _account(connection, dataset)
            spent = _spent_units(connection, dataset)
        return Budget(limit=rho_of_units(account.limit_units), spent=rho_of_units(spent), delta=account.delta)

    def reserve(
        self,
        dataset: str,
        kind: str,
        key: str,
        description: str,
        rho: float,
        spends: Sequence[Spend],
        request: Mapping[str, Any] | None = None,
    ) -> int:
        charge = charge_units(rho, spends)
        with self._transaction("BEGIN IMMEDIATE") as connection:
            limit = _account(connection, dataset).limit_units
            spent = _spent_units(connection, dataset)
            if spent + charge > limit:
                raise exhausted(dataset, asked=charge, left=max(0, limit - spent), limit=limit)
            return _insert_entry(connection, dataset, kind, key, description, charge, spends)

    def release(self, entry: int, payload: str) -> None:
        with self._transaction("BEGIN IMMEDIATE") as connection:
            try:
                connection.execute(sa.insert(_RELEASES).values(entry=entry, payload=payload))
            except sa.exc.IntegrityError:
                raise InternalError(
                    f"Entry {entry} cannot be released: it was never reserved, or was released before."
                ) from None

    def find(self, dataset: str, key: str) -> tuple[Entry, str] | None:
        return self._first_release(dataset, _ENTRIES.c.key == key)

    def get(self, dataset: str, entry: int) -> tuple[Entry, str] | None:
        # A typed id may be larger than SQLite can hold; no entry has it.
        return self._first_release(dataset, _ENTRIES.c.id == max(0, min(entry, 2**63 - 1)))

    def history(self, dataset: str) -> list[Entry]:
        released = _RELEASES.c.entry.is_not(None).label("released")
        lines = sa.select(_ENTRIES, released).outerjoin(_RELEASES).where(_ENTRIES.c.dataset == dataset)
        with self._transaction("BEGIN") as connection:
            _account(connection, dataset)
            rows = connection.execute(lines.order_by(_ENTRIES.c.id)).all()
        return [_entry(row, released=row.released) for row in rows]

    def close(self) -> None:
        with self._lock:
            self._closing()

    def _first_release(self, dataset: str, wanted: sa.ColumnElement[bool]) -> tuple[Entry, str] | None:
        release = _RELEASED.where(_ENTRIES.c.dataset == dataset, wanted).order_by(_ENTRIES.c.id).limit(1)
        with self._transaction("BEGIN") as connection:
            _account(connection, dataset)
            row = connection.execute(release).one_or_none()
        return None if row is None else (_entry(row, released=True), row.payload)

    @contextmanager
    def _transaction(self, begin: str) -> Iterator[sa.Connection]:
        """Commit at the end of the block; roll back if it raises."""
        if os.getpid() != self._process:
            # A fork would copy a ledger in memory, budget and all, and SQLite forbids sharing a connection.
            raise InternalError(
                "The ledger was opened before this process was forked.", remedy="Connect in each process."
            )
        with self._lock, self._errors_explained():
            if not self._closing.alive:
                raise InternalError("The ledger is closed.", remedy="Connect again.")
            with self._engine.connect() as connection:
                connection.exec_driver_sql(begin)
                yield connection
                connection.commit()

    def _verify(self, path: Path) -> None:
        """Refuse a file that is not ours, too new, damaged or read-only."""
        with self._transaction("BEGIN") as connection:
            application = connection.exec_driver_sql("PRAGMA application_id").scalar_one()
            version = connection.exec_driver_sql("PRAGMA user_version").scalar_one()
            if application != APPLICATION_ID:
                raise SourceError(
                    f"{self._name} is not a DPXPlain ledger, or was overwritten.",
                    remedy="Restore it from a backup, or choose another workspace.",
                )
            if version > SCHEMA_VERSION:
                raise SourceError(
                    f"{self._name} was made by a newer DPXPlain (version {version}, known {SCHEMA_VERSION}).",
                    remedy="Upgrade DPXPlain.",
                )
            # The entries and their indexes only: they carry the budget, and stay small where payloads grow.
            if connection.exec_driver_sql("PRAGMA integrity_check(entries)").scalars().first() != "ok":
                raise _damaged(self._name)
        # SQLite opens what it cannot write, and says so only when the first charge fails.
        if not (os.access(path, os.W_OK) and os.access(path.parent, os.W_OK)):
            raise _unwritable(self._name)

    @contextmanager
    def _errors_explained(self) -> Iterator[None]:
        try:
            yield
        except sa.exc.DBAPIError as error:
            raise _explained(self._name, error.orig) from error
        except OSError as error:
            raise _unwritable(self._name) from error


def _engine(uri: str) -> sa.Engine:
    return sa.create_engine(
        "sqlite://", creator=partial(_connect, uri), poolclass=StaticPool, hide_parameters=True
    )


def _connect(uri: str) -> sqlite3.Connection:
    # isolation_level=None: the driver begins no transaction of its own, `_transaction` does.
    connection = sqlite3.connect(
        uri, uri=True, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False
    )
    try:
        # In WAL mode SQLite's usual NORMAL survives a killed process but may lose the last commits when power
        # fails, and with them a charge whose answer is already out. FULL syncs the journal at every commit;
        # fullfsync makes macOS mean it.
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA fullfsync = ON")
        connection.execute("PRAGMA foreign_keys = ON")
    except BaseException:
        connection.close()
        raise
    return connection


def _create_tables(engine: sa.Engine) -> None:
    with engine.connect() as connection:
        _METADATA.create_all(connection)
        connection.exec_driver_sql(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.exec_driver_sql(f"PRAGMA user_version = {SCHEMA_VERSION}")
        connection.commit()


def _create_file(path: Path) -> None:
    """Make a new ledger whole and then give it its name, in one step.

    So a crash leaves no half-made ledger, an empty file is never taken for a new one, and of two processes
    that start together one makes the ledger and both use it.
    """
    journal = path.with_name(f"{path.name}-wal")
    # The journal is looked for first: another process may be making both at this moment.
    if journal.exists() and not path.exists():
        raise SourceError(
            f"The ledger {str(path)!r} is gone, but its journal {journal.name!r} is still there.",
            remedy="Restore the ledger from a backup; a new one would forget what was spent.",
        )
    if path.exists():
        return
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with TemporaryDirectory(prefix=".new-ledger-", dir=path.parent) as folder:
        draft = Path(folder, path.name)
        engine = _engine(f"{draft.as_uri()}?mode=rwc")
        try:
            _create_tables(engine)
            with engine.connect() as connection:
                connection.exec_driver_sql("PRAGMA journal_mode = WAL")  # stays with the file
        finally:
            engine.dispose()
        draft.chmod(0o600)  # SQLite gives the journal the same mode
        with suppress(FileExistsError):
            os.link(draft, path)
    for folder_with_news in (path.parent, path.parent.parent):
        _sync_folder(folder_with_news)


def _sync_folder(folder: Path) -> None:
    """Make new names in the folder survive a power failure, where the system can."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _account(connection: sa.Connection, dataset: str) -> sa.Row[Any]:
    account = connection.execute(sa.select(_DATASETS).filter_by(name=dataset)).one_or_none()
    if account is None:
        raise unknown_dataset(dataset)
    return account


def _spent_units(connection: sa.Connection, dataset: str) -> int:
    charges = sa.select(sa.func.sum(_ENTRIES.c.charge_units)).filter_by(dataset=dataset)
    return connection.scalar(charges) or 0


def _insert_entry(
    connection: sa.Connection,
    dataset: str,
    kind: str,
    key: str,
    description: str,
    charge: int,
    spends: Sequence[Spend],
) -> int:
    row = sa.insert(_ENTRIES).values(
        dataset=dataset,
        time=datetime.now(UTC).isoformat(),
        kind=kind,
        key=key,
        description=description,
        charge_units=charge,
        spends=[[spend.mechanism, spend.rho] for spend in spends],
    )
    entry: int = connection.execute(row.returning(_ENTRIES.c.id)).scalar_one()
    return entry


def _entry(row: sa.Row[Any], *, released: bool) -> Entry:
    return Entry(
        id=row.id,
        time=datetime.fromisoformat(row.time),
        kind=row.kind,
        description=row.description,
        rho=rho_of_units(row.charge_units),
        spends=tuple(Spend(mechanism, rho) for mechanism, rho in row.spends),
        state="released" if released else "reserved",
        key=row.key,
    )


def _explained(name: str, error: BaseException | None) -> SourceError:
    """SQLite's error code as a sentence with a remedy."""
    code = getattr(error, "sqlite_errorname", "")
    if code.startswith(("SQLITE_READONLY", "SQLITE_CANTOPEN", "SQLITE_PERM")):
        return _unwritable(name)
    if code.startswith("SQLITE_BUSY"):
        return SourceError(
            f"{name} was kept locked by another process for {BUSY_SECONDS:.0f} seconds.",
            remedy="Try again when that process is done.",
        )
    if code.startswith(("SQLITE_FULL", "SQLITE_IOERR")):
        return SourceError(
            f"{name} could not be written to disk.", remedy="Check the disk and its free space."
        )
    return _damaged(name)


def _damaged(name: str) -> SourceError:
    return SourceError(
        f"{name} is damaged.",
        remedy="Restore it from a backup; a new one would forget what was spent.",
    )


def _unwritable(name: str) -> SourceError:
    return SourceError(
        f"{name} cannot be opened for writing.",
        remedy="Check the permissions of the file and its folder, or choose another workspace.",
    )
