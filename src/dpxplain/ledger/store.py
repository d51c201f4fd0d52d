"""Transactions on the ledger's database, its errors as sentences, the upgrade of ledgers of an earlier
release, and the store in SQLite (the one in PostgreSQL is in postgres.py).

A writing transaction holds an exclusive lock from its first statement on, so what it checks is still true
when it commits, and the audit log has one order.
"""

from __future__ import annotations

import errno
import logging
import os
import sqlite3
import threading
import time
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from datetime import timedelta
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Protocol

import sqlalchemy as sa
from sqlalchemy.pool import StaticPool
from sqlalchemy.schema import CreateIndex, CreateTable, ExecutableDDLElement

from dpxplain.errors import BadRequest, InternalError, LedgerUnavailable, SourceError
from dpxplain.ledger import FORMAT, LEDGER_FILE, audit
from dpxplain.ledger.address import journal_of, missing_ledger
from dpxplain.ledger.anchor_guard import AnchorGuard, Mark, sync_folder
from dpxplain.ledger.protocol import damaged
from dpxplain.ledger.tables import ENTRIES, METADATA, create_refusal, create_triggers, set_index_conditions

# -- Transactions ------------------------------------------------------------------------------------------

BUSY_SECONDS = 60.0
"""How long a command waits for other writers before it gives up; a server's requests wait less."""

LARGEST_SKEW, NOTABLE_SKEW = timedelta(seconds=30), timedelta(seconds=5)
"""Differences between this machine's clock and the database's that block charges, or cause a warning."""
LOGGER = logging.getLogger("dpxplain.ledger")


def _in_sentence(name: str) -> str:
    return name[0].lower() + name[1:]


def full_disk(name: str) -> LedgerUnavailable:
    """The error for a ledger whose disk is full."""
    return LedgerUnavailable(
        f"The disk of {_in_sentence(name)} is full.",
        remedy="Free some space on that disk. New queries are blocked until then.",
        kind="disk",
    )


class Observer(Protocol):
    """Notified how each transaction ended, in the thread that ran it."""

    def failed(self, error: LedgerUnavailable, *, writing: bool) -> None: ...

    def succeeded(self, *, writing: bool) -> None: ...


class Store(ABC):
    """One database; subclasses begin its transactions and explain its errors."""

    observer: Observer | None = None
    """Set by a server, which counts errors and logs outages."""

    def __init__(self, name: str, *engines: sa.Engine, busy_seconds: float) -> None:
        """The first engine writes; the others only read."""
        self.name = name
        self.busy_seconds = busy_seconds
        self.is_new = False
        self.is_upgraded = False
        self._skew = timedelta(0)
        self.anchor: AnchorGuard | None = None
        """Set if the ledger was opened with an anchor file."""
        self.engines = engines
        self._process = os.getpid()
        self._closing = weakref.finalize(self, _dispose, engines, self._process)

    @abstractmethod
    def reading(self) -> AbstractContextManager[sa.Connection]:
        """A read-only transaction that sees one snapshot."""

    def single_read(self) -> AbstractContextManager[sa.Connection]:
        """A connection for one reading statement, which sees one snapshot without a transaction."""
        return self.reading()

    def snapshot(self) -> AbstractContextManager[sa.Connection]:
        """A read-only transaction that may take long."""
        return self.reading()

    @abstractmethod
    def writing(self) -> AbstractContextManager[sa.Connection]:
        """A transaction that holds the writers' lock; commits at the end of the block unless this raises."""

    @contextmanager
    def charging(self) -> Iterator[sa.Connection]:
        """Like `writing`, for a charge. Raises if the ledger is behind its anchor or the clock is wrong.

        Writes the anchor after the commit.
        """
        if abs(self._skew) > LARGEST_SKEW:
            raise self._wrong_clock()
        with self.writing() as connection:
            if self.anchor is not None:
                self.anchor.check(connection)
            yield connection
            mark = None if self.anchor is None else self.anchor.mark(connection)
        self.keep_mark(mark)

    @contextmanager
    def recording(self) -> Iterator[sa.Connection]:
        """Like `writing`, for changes of rights. The anchor remembers them, so undoing them is noticed.

        If the anchor cannot be written, the changes stay, and nothing is charged until it can be.
        """
        with self.writing() as connection:
            yield connection
            mark = None if self.anchor is None else self.anchor.mark_of_change(connection)
        with suppress(LedgerUnavailable):
            self.keep_mark(mark)

    def keep_mark(self, mark: Mark | None) -> None:
        """Writes the mark to the anchor. Notifies the observer of a failure, as of the database's."""
        try:
            if self.anchor is not None:
                self.anchor.keep(mark)
        except LedgerUnavailable as error:
            if self.observer is not None:
                self.observer.failed(error, writing=True)
            raise

    @abstractmethod
    def updating(self) -> AbstractContextManager[sa.Connection]:
        """A transaction that needs no writers' lock, on tables that the log does not repeat, such as jobs."""

    @abstractmethod
    def version(self, connection: sa.Connection) -> int | None:
        """The version of the tables, as stored in the database."""

    @abstractmethod
    def set_version(self, connection: sa.Connection, version: int) -> None:
        """Stores the version of the tables, within the caller's transaction."""

    @abstractmethod
    def explained(self, error: BaseException | None) -> LedgerUnavailable:
        """The driver's error as a sentence with a remedy."""

    def check_clock(self) -> None:
        """Raises if this machine's clock differs much from the database's: expiry and silence depend on it.

        Nothing is charged until a later check finds the clock right.
        """
        before, self._skew = self._skew, self._clock_skew()
        if abs(self._skew) > LARGEST_SKEW:
            raise self._wrong_clock()
        if abs(self._skew) > NOTABLE_SKEW and not NOTABLE_SKEW < abs(before) <= LARGEST_SKEW:
            LOGGER.warning("%s Synchronise both clocks with the same source.", self._skew_sentence)

    def _clock_skew(self) -> timedelta:
        """How far this machine's clock is ahead of the database's; zero if both use the same clock."""
        return timedelta(0)

    @property
    def _skew_sentence(self) -> str:
        seconds, side = abs(self._skew).total_seconds(), "ahead of" if self._skew > timedelta(0) else "behind"
        return (
            f"The clock of this machine is {seconds:,.0f} seconds {side} that of {_in_sentence(self.name)}."
        )

    def _wrong_clock(self) -> LedgerUnavailable:
        return LedgerUnavailable(
            f"{self._skew_sentence} New queries are blocked.",
            remedy="Synchronise both clocks with the same source (NTP).",
            kind="clock",
        )

    def busy(self) -> LedgerUnavailable:
        """The error for a ledger that others have kept locked for too long."""
        return LedgerUnavailable(
            f"{self.name} was kept locked by another process for {self.busy_seconds:g} seconds.",
            remedy="Try again when that process has finished.",
            kind="busy",
        )

    def close(self) -> None:
        self._closing()

    @property
    def is_open(self) -> bool:
        return self._closing.alive

    @contextmanager
    def errors_explained(self) -> Iterator[None]:
        try:
            yield
        except sa.exc.DataError:
            # The database works; the value that it got is at fault, and is not quoted.
            raise BadRequest(
                "The ledger's database cannot store a text or number in this request.",
                remedy="Remove characters that are not printable.",
            ) from None
        except sa.exc.DBAPIError as error:
            # Not chained: a driver's message may quote what was sent, or how it connected.
            raise self.explained(error.orig) from None
        except sa.exc.TimeoutError:
            raise self.busy() from None

    @contextmanager
    def _connection(self, engine: sa.Engine) -> Iterator[sa.Connection]:
        with self.errors_explained():
            if not self.is_open:
                raise InternalError("The ledger is closed.", remedy="Connect again.")
            pool = engine.pool
            try:
                with engine.connect() as connection:
                    yield connection
            finally:
                if not self.is_open:
                    # The store was closed during the use, which left this connection open. It is back in the
                    # old pool by now, or in the pool that replaced it.
                    pool.dispose()
                    engine.dispose()

    @contextmanager
    def _observed(self, *, writing: bool) -> Iterator[None]:
        try:
            yield
        except LedgerUnavailable as error:
            if self.observer is not None:
                self.observer.failed(error, writing=writing)
            raise
        if self.observer is not None:
            self.observer.succeeded(writing=writing)

    def _check_process(self) -> None:
        if os.getpid() != self._process:
            # A fork would copy a ledger in memory, including its budget, and a connection cannot be shared.
            raise InternalError(
                "The ledger was opened before this process was forked.", remedy="Connect in each process."
            )


def guard_with_anchor(store: Store, anchor: Path, *, is_recovery: bool) -> None:
    """Makes the store check each charge against an anchor file and record it there."""
    store.anchor = AnchorGuard(anchor, store.name)
    if is_recovery:
        return
    try:
        with store.reading() as connection:
            store.anchor.check_not_empty(connection)
    except BaseException:
        store.close()
        raise


def _dispose(engines: Iterable[sa.Engine], process: int) -> None:
    # A forked child only drops its copies of the connections: closing them would close the parent's as well.
    for engine in engines:
        engine.dispose(close=os.getpid() == process)


# -- Creation and upgrades ---------------------------------------------------------------------------------
#
# The format is stored in the database. All missing steps run in one transaction that holds the writers' lock,
# and each writes a record to the audit log. A ledger of a newer format is refused, and so is a ledger that is
# older than the first release.

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
        LOGGER.warning(
            "%s was upgraded from format %d to format %d, which older versions of DPXPlain cannot read. The "
            "audit log records the upgrade.",
            *(store.name, first, FORMAT),
        )


def create_all(connection: sa.Connection) -> None:
    """Creates the tables and their triggers, within the caller's transaction."""
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


# -- SQLite ------------------------------------------------------------------------------------------------
#
# The ledger in one file, or in memory. A charge is checked and written in one BEGIN IMMEDIATE transaction:
# SQLite lets one writer in at a time, across threads and processes.

_MOST_CHECKED = 1_000  # entries
_SECONDS_BETWEEN_TRIES = 0.005

APPLICATION_ID = int.from_bytes(b"DPXP")  # tells our files from other people's SQLite files


class SQLiteStore(Store):
    """Transactions on the file at `path`; None keeps the ledger in this process's memory."""

    def __init__(self, path: Path | None, *, create: bool = True, busy_seconds: float = BUSY_SECONDS) -> None:
        self._path = None if path is None else path.absolute()
        self._file = None if path is None else f"{path.absolute().as_uri()}?mode=rw"
        self.name = "The ledger in memory" if path is None else f"The ledger {str(path)!r}"
        self.busy_seconds = busy_seconds
        is_new = path is None
        with self.errors_explained():
            if path is None or self._file is None:
                engine = _engine("file::memory:", self.busy_seconds)
                _create(engine)
            else:
                is_new = _find_or_create(path.absolute(), self.name, create)
                engine = _engine(self._file, self.busy_seconds)
        self._writer = _LockedConnection(engine)
        # A second connection, so that reads do not wait while a charge is synced to disk; not in memory.
        self._reader = (
            self._writer if self._file is None else _LockedConnection(_engine(self._file, self.busy_seconds))
        )
        super().__init__(self.name, self._writer.engine, self._reader.engine, busy_seconds=self.busy_seconds)
        self._opened_file = None if path is None else _identity(path)
        self.is_new = is_new
        if path is not None:
            try:
                self._open_connections()
                self._verify(path.absolute())
            except BaseException:
                self.close()
                raise

    def _open_connections(self) -> None:
        """Opens both connections now: one opened later might reach another file with the same name."""
        for shared in (self._writer, self._reader):
            with self._connection(shared.engine) as connection:
                self._check_file()
                if shared is not self._writer:
                    connection.exec_driver_sql("PRAGMA query_only = ON")

    @contextmanager
    def transaction(self, begin: str) -> Iterator[sa.Connection]:
        """A transaction that commits at the end of the block, and rolls back if the block raises."""
        self._check_process()
        deadline = time.monotonic() + self.busy_seconds
        is_reading = begin == "BEGIN"
        shared = self._reader if is_reading else self._writer
        with self._observed(writing=not is_reading):
            while True:
                with self._locked(shared, deadline), self._connection(shared.engine) as connection:
                    self._check_file()
                    if self._has_begun(connection, begin):
                        yield connection
                        connection.commit()
                        return
                # Another process writes. Wait for it without this process's lock, which close() needs.
                if time.monotonic() > deadline:
                    raise self.busy()
                time.sleep(_SECONDS_BETWEEN_TRIES)

    @contextmanager
    def _locked(self, shared: _LockedConnection, deadline: float) -> Iterator[None]:
        """Holds the connection's lock. Raises if other threads keep it beyond the deadline."""
        if not shared.lock.acquire(timeout=max(0.0, deadline - time.monotonic())):
            raise self.busy()
        try:
            yield
        finally:
            shared.lock.release()

    def _has_begun(self, connection: sa.Connection, begin: str) -> bool:
        """Begins the transaction. Returns False if another process holds the writers' lock."""
        if begin == "BEGIN":
            connection.exec_driver_sql(begin)
            return True
        driver: Any = connection.connection.driver_connection
        driver.execute("PRAGMA busy_timeout = 0")
        try:
            connection.exec_driver_sql(begin)
        except sa.exc.OperationalError as error:
            if not _is_busy(error.orig):
                raise
            return False
        finally:
            driver.execute(f"PRAGMA busy_timeout = {1000 * self.busy_seconds:.0f}")
        return True

    def _check_file(self) -> None:
        """Raises if the file was removed or replaced, because charges written to it would be lost."""
        if self._path is not None and _identity(self._path) != self._opened_file:
            raise LedgerUnavailable(
                f"{self.name} was removed or replaced while it was open.",
                remedy="Put the same file back, or restart the program to use the new one.",
                kind="gone",
            )

    @contextmanager
    def reading(self) -> Iterator[sa.Connection]:
        with self.transaction("BEGIN") as connection:
            yield connection

    @contextmanager
    def writing(self) -> Iterator[sa.Connection]:
        with self.transaction("BEGIN IMMEDIATE") as connection:
            yield connection

    updating = writing

    @contextmanager
    def snapshot(self) -> Iterator[sa.Connection]:
        """A read-only transaction on its own connection, so that others do not wait for a long read."""
        if self._file is None:
            with self.reading() as connection:
                yield connection
            return
        self._check_process()
        engine = _engine(self._file, self.busy_seconds)
        try:
            with self._observed(writing=False), self._connection(engine) as connection:
                self._check_file()  # after opening, because the name may now belong to another file
                # Text that is not UTF-8 is reported by the verification; the driver would fail on it.
                driver: Any = connection.connection.driver_connection
                driver.text_factory = partial(str, encoding="utf-8", errors="surrogateescape")
                connection.exec_driver_sql("BEGIN")
                yield connection
        finally:
            engine.dispose()

    def close(self) -> None:
        with ExitStack() as locks:
            for shared in dict.fromkeys((self._writer, self._reader)):
                locks.enter_context(shared.lock)
            super().close()

    @contextmanager
    def errors_explained(self) -> Iterator[None]:
        try:
            with super().errors_explained():
                yield
        except OSError as error:
            is_full = error.errno in (errno.ENOSPC, errno.EDQUOT)
            raise full_disk(self.name) if is_full else _unwritable(self.name) from error
        except UnicodeDecodeError:  # in SQLite's own message, which quotes a damaged name or statement
            raise damaged(self.name) from None

    def version(self, connection: sa.Connection) -> int:
        version: int = connection.exec_driver_sql("PRAGMA user_version").scalar_one()
        return version

    def set_version(self, connection: sa.Connection, version: int) -> None:
        connection.exec_driver_sql(f"PRAGMA user_version = {version}")

    def explained(self, error: BaseException | None) -> LedgerUnavailable:
        code = getattr(error, "sqlite_errorname", "")
        if code.startswith(("SQLITE_READONLY", "SQLITE_CANTOPEN", "SQLITE_PERM")):
            return _unwritable(self.name)
        if _is_busy(error):
            return self.busy()
        if code.startswith("SQLITE_FULL"):
            return full_disk(self.name)
        if code.startswith("SQLITE_IOERR"):
            return LedgerUnavailable(
                f"{self.name} could not be written to disk.",
                remedy="Check the disk and its free space.",
                kind="disk",
            )
        return damaged(self.name)

    def _verify(self, path: Path) -> None:
        """Raises if the file is not a ledger, damaged, read-only or of a format that cannot be read.

        Upgrades a ledger of an earlier release.
        """
        with self.reading() as connection:
            application = connection.exec_driver_sql("PRAGMA application_id").scalar_one()
            if application != APPLICATION_ID:
                raise SourceError(
                    f"{self.name} is not a DPXPlain ledger, or another program overwrote it.",
                    remedy="Move it away, with its journal. Restore it from a backup (dpxplain ledger "
                    "restore), or choose another workspace.",
                )
            check_version(self.name, self.version(connection))
            self._check_entries(connection)
        # SQLite opens a file that it cannot write, and reports it only when the first charge fails.
        if not (os.access(path, os.W_OK) and os.access(path.parent, os.W_OK)):
            raise _unwritable(self.name)
        migrate(self)

    def _check_entries(self, connection: sa.Connection) -> None:
        """Raises if entries, which hold the budget, are damaged.

        Checks a short history with its indexes, and only the newest entries of a long one, so that opening
        does not become slower every year. `audit verify` and every backup read all entries.
        """
        newest = connection.exec_driver_sql("SELECT max(id) FROM entries").scalar_one() or 0
        if newest > _MOST_CHECKED:
            recent = sa.select(ENTRIES).where(ENTRIES.c.id > newest - _MOST_CHECKED)
            connection.execute(recent).all()  # damaged pages cannot be read
        elif connection.exec_driver_sql("PRAGMA integrity_check(entries)").scalars().first() != "ok":
            raise damaged(self.name)


class _LockedConnection:
    """A connection and its lock. Threads wait for the lock instead of polling the file's lock.

    Every transaction is short, so the wait is short too.
    """

    def __init__(self, engine: sa.Engine) -> None:
        self.engine = engine
        self.lock = threading.Lock()


def _engine(uri: str, busy_seconds: float) -> sa.Engine:
    connect = partial(_connect, uri, busy_seconds)
    return sa.create_engine("sqlite://", creator=connect, poolclass=StaticPool, hide_parameters=True)


def _connect(uri: str, busy_seconds: float) -> sqlite3.Connection:
    # isolation_level=None: `transaction` begins transactions, not the driver.
    connection = sqlite3.connect(
        uri, uri=True, timeout=busy_seconds, isolation_level=None, check_same_thread=False
    )
    try:
        # In WAL mode SQLite's usual NORMAL survives a killed process, but may lose the last commits when
        # power fails, and with them a charge whose answer was already sent. FULL syncs the journal at every
        # commit; fullfsync makes macOS really sync.
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA fullfsync = ON")
        connection.execute("PRAGMA foreign_keys = ON")
    except BaseException:
        connection.close()
        raise
    return connection


def _create(engine: sa.Engine) -> None:
    with engine.connect() as connection:
        connection.exec_driver_sql("BEGIN")  # otherwise every table would be synced to disk separately
        create_all(connection)
        connection.exec_driver_sql(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.exec_driver_sql(f"PRAGMA user_version = {FORMAT}")
        connection.commit()


def _find_or_create(path: Path, name: str, create: bool) -> bool:
    """Creates the ledger if it is missing and `create`; raises if it is missing otherwise.

    Returns whether it was created.
    """
    journal = journal_of(path)
    # The journal is checked first, because another process may be creating both right now.
    if journal.exists() and not path.exists():
        raise SourceError(
            f"The ledger {str(path)!r} is gone, but its journal {journal.name!r} is still there.",
            remedy="Put the file back, or move the journal away and restore a backup (dpxplain ledger "
            "restore). A new ledger would forget what was spent.",
        )
    if path.is_dir():
        raise SourceError(
            f"{name} is a folder.", remedy=f"Name a file in it, such as {str(path / LEDGER_FILE)!r}."
        )
    if path.exists():
        return False
    if not create:
        raise missing_ledger(name)
    _create_file(path)
    return True


def _create_file(path: Path) -> None:
    """Creates a complete ledger under a temporary name, then gives it its own name in one step.

    So a crash leaves no partial ledger, an empty file is never taken for a new ledger, and if two processes
    start together, one creates the ledger and both use it.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with TemporaryDirectory(prefix=".new-ledger-", dir=path.parent) as folder:
        draft = Path(folder, path.name)
        engine = _engine(f"{draft.as_uri()}?mode=rwc", 0.0)  # no other process locks it
        try:
            _create(engine)
            with engine.connect() as connection:
                connection.exec_driver_sql("PRAGMA journal_mode = WAL")  # the file keeps this setting
        finally:
            engine.dispose()
        draft.chmod(0o600)  # SQLite gives the journal the same mode
        with suppress(FileExistsError):
            os.link(draft, path)
    for changed_folder in (path.parent, path.parent.parent):
        sync_folder(changed_folder)


def _is_busy(error: BaseException | None) -> bool:
    return str(getattr(error, "sqlite_errorname", "")).startswith("SQLITE_BUSY")


def _identity(path: Path) -> tuple[int, int] | None:
    """Device and inode, which a file keeps when it is written; None if the file is missing."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _unwritable(name: str) -> LedgerUnavailable:
    return LedgerUnavailable(
        f"{name} cannot be opened for writing.",
        remedy="Check the permissions of the file and its folder, or choose another workspace.",
        kind="rights",
    )
