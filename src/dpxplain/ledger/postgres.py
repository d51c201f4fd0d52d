"""The ledger in a PostgreSQL database, for several server processes or machines.

Its tables are in a schema of their own, "dpxplain". A writing transaction first locks the one row of
`turnstile`, so writers take turns and every limit check sees all earlier charges.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import sqlalchemy as sa

from dpxplain.errors import LedgerUnavailable, SourceError
from dpxplain.ledger import FORMAT
from dpxplain.ledger.address import missing_ledger
from dpxplain.ledger.store import BUSY_SECONDS, Store, create_all, full_disk, migrate
from dpxplain.ledger.tables import APPEND_ONLY

try:
    import psycopg
    from psycopg.conninfo import conninfo_to_dict
except ImportError as error:
    raise SourceError(
        "A ledger in PostgreSQL needs the package psycopg.", remedy="pip install 'dpxplain[postgres]'"
    ) from error

CONNECTIONS = 10
"""Connections per process; further threads wait for one."""

_CREATION_LOCK = int.from_bytes(b"DPXP")  # an advisory lock: one process at a time creates the tables
_SETTINGS = {
    "search_path": "dpxplain",
    "synchronous_commit": "on",  # a charge must outlive a crash that follows its answer
    "default_transaction_isolation": r"read\ committed",
}

# These notice within seconds that a machine has vanished, instead of when TCP gives up.
_TIMEOUTS = {
    "connect_timeout": 10,
    "tcp_user_timeout": 15_000,  # in milliseconds
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
}

_APPEND_ONLY_NAMES = ", ".join(f"'{table.name}'" for table in APPEND_ONLY)
_MISSING_RIGHTS = f"""
SELECT 'the schema dpxplain' WHERE NOT has_schema_privilege('dpxplain', 'USAGE')
UNION ALL SELECT * FROM (
    SELECT relname::text FROM pg_catalog.pg_class
    WHERE relnamespace = (SELECT oid FROM pg_catalog.pg_namespace WHERE nspname = 'dpxplain')
    AND CASE relkind
        WHEN 'r' THEN NOT has_table_privilege(oid, 'SELECT')
            OR relname <> 'turnstile' AND NOT has_table_privilege(oid, 'INSERT')
            OR relname NOT IN ({_APPEND_ONLY_NAMES}) AND NOT has_table_privilege(oid, 'UPDATE')
            OR relname NOT IN ({_APPEND_ONLY_NAMES}, 'turnstile') AND NOT has_table_privilege(oid, 'DELETE')
        WHEN 'S' THEN NOT has_sequence_privilege(oid, 'USAGE')
        ELSE false END
    ORDER BY relname) AS relations
"""

_TURNSTILE = sa.Table(
    "turnstile",
    sa.MetaData(),
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("version", sa.Integer),
)
_LOCK_TURNSTILE = sa.select(_TURNSTILE.c.id).with_for_update()


class PostgresStore(Store):
    """Transactions on the database at a `postgresql://user:password@host/database` address."""

    def __init__(self, address: str, *, create: bool = True, busy_seconds: float = BUSY_SECONDS) -> None:
        parameters = _parameters(address, busy_seconds)
        # The name shows host and database only: an address may carry a password in several places.
        host, database = parameters.get("host") or "localhost", parameters.get("dbname") or ""
        engine = sa.create_engine(
            "postgresql+psycopg://",
            creator=partial(psycopg.connect, **parameters),
            pool_size=CONNECTIONS,
            max_overflow=0,
            pool_timeout=busy_seconds,
            pool_pre_ping=True,
            hide_parameters=True,
        )
        super().__init__(
            f"The ledger in the PostgreSQL database {database!r} at {host!r}",
            engine,
            busy_seconds=busy_seconds,
        )
        self._snapshots = engine.execution_options(
            isolation_level="REPEATABLE READ", postgresql_readonly=True
        )
        self._single_reads = engine.execution_options(isolation_level="AUTOCOMMIT")
        try:
            self._prepare(create)
        except BaseException:
            self.close()
            raise

    @contextmanager
    def reading(self) -> Iterator[sa.Connection]:
        self._check_process()
        with self._observed(writing=False), self._connection(self._snapshots) as connection:
            yield connection

    @contextmanager
    def single_read(self) -> Iterator[sa.Connection]:
        """A connection without BEGIN and ROLLBACK, each of which would take a round trip."""
        self._check_process()
        with self._observed(writing=False), self._connection(self._single_reads) as connection:
            yield connection

    @contextmanager
    def writing(self) -> Iterator[sa.Connection]:
        with self.updating() as connection:
            # Without its one row, writers would not wait for each other.
            if len(connection.execute(_LOCK_TURNSTILE).all()) != 1:
                raise _no_turnstile(self.name)
            yield connection

    @contextmanager
    def updating(self) -> Iterator[sa.Connection]:
        self._check_process()
        with self._observed(writing=True), self._connection(self.engines[0]) as connection:
            yield connection
            connection.commit()

    def version(self, connection: sa.Connection) -> int | None:
        versions = connection.execute(sa.select(_TURNSTILE.c.version)).scalars().all()
        if len(versions) != 1:
            raise _no_turnstile(self.name)
        version: int | None = versions[0]
        return version

    def set_version(self, connection: sa.Connection, version: int) -> None:
        connection.execute(sa.update(_TURNSTILE).values(version=version))

    def explained(self, error: BaseException | None) -> LedgerUnavailable:
        state = getattr(error, "sqlstate", None) or ""
        if state == "55P03" or state.startswith("40"):
            return self.busy()
        if state == "53300":
            return LedgerUnavailable(
                f"{self.name} has no free connection.",
                remedy="Raise max_connections on its server, or run fewer processes.",
                kind="busy",
            )
        if state == "53100":
            return full_disk(self.name)
        if state == "53200":
            return LedgerUnavailable(
                f"{self.name} is out of memory.",
                remedy="Give its server more memory, or run fewer processes.",
                kind="busy",
            )
        if state.startswith(("53", "58")):
            return LedgerUnavailable(
                f"{self.name} could not be written.",
                remedy="Check the server's disk and its free space.",
                kind="disk",
            )
        if state.startswith("28") or state in ("42501", "25006"):
            return _no_rights(self.name)
        if state and not state.startswith(("08", "57", "3D")):
            return LedgerUnavailable(
                f"{self.name} is damaged, or another program changed it (SQLSTATE {state}).",
                remedy="Restore it from a backup. A new ledger would forget what was spent.",
                kind="damaged",
            )
        return LedgerUnavailable(
            f"{self.name} cannot be reached, or does not let this user in.",
            remedy="Check the address, the user and the password. Is the server running?",
        )

    def _prepare(self, create: bool) -> None:
        """Creates missing tables if `create`. Raises if the database lacks UTF-8, fsync or needed rights."""
        with self.updating() as connection:
            if connection.exec_driver_sql("SHOW server_encoding").scalar_one() != "UTF8":
                raise SourceError(
                    f"{self.name} is not in UTF-8.", remedy="Create the database with ENCODING 'UTF8'."
                )
            if connection.exec_driver_sql("SHOW fsync").scalar_one() != "on":
                raise SourceError(
                    f"{self.name} could lose charges in a crash: its server runs with fsync off.",
                    remedy="Set fsync = on in postgresql.conf.",
                )
            if not _exists(connection):
                if not create:
                    raise missing_ledger(self.name)
                connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_CREATION_LOCK)))
                if not _exists(connection):  # unless another process was faster
                    self._create(connection)
                    self.is_new = True
            if missing := connection.exec_driver_sql(_MISSING_RIGHTS).scalars().all():
                raise _no_rights(self.name, missing)
        migrate(self)
        self.check_clock()

    def _clock_skew(self) -> timedelta:
        with self.single_read() as connection:
            before = datetime.now(UTC)
            there: datetime = connection.exec_driver_sql("SELECT clock_timestamp()").scalar_one()
            after = datetime.now(UTC)
        return before + (after - before) / 2 - there

    def _create(self, connection: sa.Connection) -> None:
        try:
            connection.exec_driver_sql("CREATE SCHEMA IF NOT EXISTS dpxplain")
            create_all(connection)
            _TURNSTILE.create(connection, checkfirst=False)
            connection.execute(sa.insert(_TURNSTILE).values(id=1, version=FORMAT))
        except sa.exc.DBAPIError as error:
            if getattr(error.orig, "sqlstate", None) == "42501":
                raise LedgerUnavailable(
                    f"{self.name} does not exist, and this user may not create it.",
                    remedy="Ask the database's owner to create it (dpxplain ledger create) and to give "
                    "this user rights on it (deploy/postgresql-rights.sql), or: GRANT CREATE ON DATABASE "
                    "... TO ...",
                    kind="rights",
                ) from None
            raise


def _parameters(address: str, busy_seconds: float) -> dict[str, Any]:
    try:
        parameters = conninfo_to_dict(address)
    except psycopg.Error:
        # The driver's message quotes the part that it could not read, which may be the password.
        raise SourceError(
            "The PostgreSQL address of the ledger cannot be read.",
            remedy="Write it as postgresql://user:password@host:5432/database, with special characters as "
            "%XX.",
        ) from None
    settings = _SETTINGS | {"lock_timeout": f"{1000 * busy_seconds:.0f}ms"}
    options = " ".join(f"-c {name}={value}" for name, value in settings.items())
    return _TIMEOUTS | parameters | {"options": f"{parameters.get('options', '')} {options}".strip()}


def _no_rights(name: str, missing: Sequence[str] = ()) -> LedgerUnavailable:
    lacking = f": rights are missing on {', '.join(missing[:5])}" if missing else ""
    more = f" and {len(missing) - 5} more" if len(missing) > 5 else ""
    return LedgerUnavailable(
        f"{name} does not let this user write{lacking}{more}.",
        remedy="Ask the owner of its tables to run deploy/postgresql-rights.sql for this user. It grants "
        "USAGE on the schema dpxplain and its sequences, SELECT and INSERT on its tables, UPDATE on "
        "turnstile, and UPDATE and DELETE on the tables that are not append-only. If an older "
        "version of DPXPlain made the ledger, the owner of the tables must also open it once.",
        kind="rights",
    )


def _no_turnstile(name: str) -> LedgerUnavailable:
    return LedgerUnavailable(
        f"{name} is damaged: its table turnstile must have exactly one row.",
        remedy="Restore it from a backup. New queries are blocked until then.",
        kind="damaged",
    )


def _exists(connection: sa.Connection) -> bool:
    # Read from the catalogue itself: to_regclass answers from a cache, which misses a table that another
    # process created while this one waited for the advisory lock.
    query = "SELECT 1 FROM pg_catalog.pg_tables WHERE schemaname = 'dpxplain' AND tablename = 'turnstile'"
    return connection.exec_driver_sql(query).one_or_none() is not None
