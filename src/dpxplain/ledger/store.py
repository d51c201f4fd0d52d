"""Transactions on the ledger's database, SQLite or PostgreSQL, its errors as sentences, and the upgrade of
ledgers of an earlier release.

A writing transaction holds an exclusive lock from its first statement on, so what it checks is still true
when it commits, and the audit log has one order.
"""

from __future__ import annotations

import logging
import os
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Protocol

import sqlalchemy as sa
from sqlalchemy.schema import CreateIndex, CreateTable, ExecutableDDLElement

from dpxplain.errors import BadRequest, InternalError, LedgerUnavailable, SourceError
from dpxplain.ledger import FORMAT, audit
from dpxplain.ledger.anchor_guard import AnchorGuard, Mark
from dpxplain.ledger.protocol import damaged
from dpxplain.ledger.tables import METADATA, create_refusal, create_triggers, set_index_conditions

# -- Transactions ------------------------------------------------------------------------------------------

BUSY_SECONDS = 60.0
"""How long a command waits for other writers before it gives up; a server's requests wait less."""


LARGEST_SKEW, NOTABLE_SKEW = timedelta(seconds=30), timedelta(seconds=5)
"""Differences between this machine's clock and the database's that block charges, or cause a warning."""
LOG = logging.getLogger("dpxplain.ledger")


def utc_now() -> datetime:
    return datetime.now(UTC)


def _in_sentence(name: str) -> str:
    return name[0].lower() + name[1:]


def full_disk(name: str) -> LedgerUnavailable:
    """The error for a ledger whose disk is full."""
    return LedgerUnavailable(
        f"The disk of {_in_sentence(name)} is full.",
        remedy="Free some space on that disk. New queries are blocked until then.",
        kind="disk",
    )


def seconds_or_default(busy_seconds: float | None) -> float:
    return BUSY_SECONDS if busy_seconds is None else busy_seconds


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
        self._engine = engines[0]
        self._engines = engines
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
            LOG.warning("%s Synchronise both clocks with the same source.", self._skew_sentence)

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
            with engine.connect() as connection:
                yield connection

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


def guard(store: Store, anchor: Path, *, is_recovery: bool) -> None:
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
        LOG.warning(
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
