"""The ledger in one SQLite file, or in memory.

A charge is checked and written in one BEGIN IMMEDIATE transaction: SQLite lets one writer in at a time,
across threads and processes.
"""

from __future__ import annotations

import errno
import os
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import sqlalchemy as sa
from sqlalchemy.pool import StaticPool

from dpxplain.errors import LedgerUnavailable, SourceError
from dpxplain.ledger import FORMAT, LEDGER_FILE
from dpxplain.ledger.address import journal_of, missing_ledger
from dpxplain.ledger.anchor_guard import sync_folder
from dpxplain.ledger.protocol import damaged
from dpxplain.ledger.store import Store, check_version, create_all, full_disk, migrate, seconds_or_default
from dpxplain.ledger.tables import ENTRIES

_MOST_CHECKED = 1_000  # entries
_SECONDS_BETWEEN_TRIES = 0.005

APPLICATION_ID = int.from_bytes(b"DPXP")  # tells our files from other people's SQLite files


class SQLiteStore(Store):
    """Transactions on the file at `path`; None keeps the ledger in this process's memory."""

    def __init__(self, path: Path | None, *, create: bool = True, busy_seconds: float | None = None) -> None:
        self._path = None if path is None else path.absolute()
        self._file = None if path is None else f"{path.absolute().as_uri()}?mode=rw"
        self.name = "The ledger in memory" if path is None else f"The ledger {str(path)!r}"
        self.busy_seconds = seconds_or_default(busy_seconds)
        is_new = path is None
        with self.errors_explained():
            if path is None or self._file is None:
                engine = _engine("file::memory:", self.busy_seconds)
                _create(engine)
            else:
                is_new = _find_or_create(path.absolute(), self.name, create)
                engine = _engine(self._file, self.busy_seconds)
        self._writer = _Queue(engine)
        # A second connection, so that reads do not wait while a charge is synced to disk; not in memory.
        self._reader = self._writer if self._file is None else _Queue(_engine(self._file, self.busy_seconds))
        super().__init__(self.name, self._writer.engine, self._reader.engine, busy_seconds=self.busy_seconds)
        self._opened_file = None if path is None else _identity(path)
        self.is_new = is_new
        if path is not None:
            try:
                self._connect_queues()
                self._verify(path.absolute())
            except BaseException:
                self.close()
                raise

    def _connect_queues(self) -> None:
        """Opens both connections now: one opened later might reach another file with the same name."""
        for queue in (self._writer, self._reader):
            with self._connection(queue.engine) as connection:
                self._check_file()
                if queue is not self._writer:
                    connection.exec_driver_sql("PRAGMA query_only = ON")

    @contextmanager
    def transaction(self, begin: str) -> Iterator[sa.Connection]:
        """A transaction that commits at the end of the block, and rolls back if the block raises."""
        self._check_process()
        deadline = time.monotonic() + self.busy_seconds
        is_reading = begin == "BEGIN"
        queue = self._reader if is_reading else self._writer
        with self._observed(writing=not is_reading):
            while True:
                with self._turn(queue, deadline), self._connection(queue.engine) as connection:
                    self._check_file()
                    if self._has_begun(connection, begin):
                        yield connection
                        connection.commit()
                        return
                # Another process writes. Wait for it without the queue's lock, which close() needs.
                if time.monotonic() > deadline:
                    raise self.busy()
                time.sleep(_SECONDS_BETWEEN_TRIES)

    @contextmanager
    def _turn(self, queue: _Queue, deadline: float) -> Iterator[None]:
        """Holds the queue's lock. Raises if other threads keep it beyond the deadline."""
        if not queue.lock.acquire(timeout=max(0.0, deadline - time.monotonic())):
            raise self.busy()
        try:
            yield
        finally:
            queue.lock.release()

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
            for queue in dict.fromkeys((self._writer, self._reader)):
                locks.enter_context(queue.lock)
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


class _Queue:
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
