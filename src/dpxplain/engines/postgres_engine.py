"""PostgreSQL as an engine: the table stays where it is, and only counts and sums of cells leave it."""

from __future__ import annotations

import math
import os
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import numpy as np

from dpxplain.engines.dialect import Dialect, Kind
from dpxplain.engines.encoding import (
    Encoding,
    Rows,
    check_columns,
    check_unit,
    checked_rows,
    fit_figures,
    members_of,
    read_columns,
)
from dpxplain.engines.source_state import LiveTable, quiet
from dpxplain.engines.statements import (
    CHARGED,
    TIME_LIMIT,
    Fetch,
    all_rows,
    check_units,
    fit_counts,
    grouped_of,
    grouped_statement,
    merged_cells,
    statement_parts,
    value_counts,
)
from dpxplain.errors import SchemaError, SourceError, SourceLost
from dpxplain.model.column import ValueCounts
from dpxplain.model.confidential import Confidential, sealed
from dpxplain.model.expression import quoted_name
from dpxplain.model.groups import AnyGrouped, Grouped
from dpxplain.model.process import check_stop, interruptible
from dpxplain.model.query import ENCODED, Parameters, Query, Subsets
from dpxplain.model.schema import Schema, all_parts, holds_password, is_database, parts
from dpxplain.model.schema_fit import FitCounts, FitQuestion, SourceFigures

try:
    import psycopg
    from psycopg.conninfo import conninfo_to_dict
    from psycopg.types.json import Jsonb
except ImportError as error:
    raise SourceError(
        "A table in PostgreSQL needs the package psycopg.", remedy="pip install 'dpxplain[postgres]'"
    ) from error

# -- The engine --------------------------------------------------------------------------------------------
#
# Every pass is one READ ONLY, REPEATABLE READ transaction with a time limit. It is cancelled if its caller
# leaves. The encoding is an expression in every statement, or a temporary table if the schema's `storage`
# asks for one.

Fetched = tuple[list[str], Sequence[tuple[Any, ...]]]
Run = Callable[[str, list[Any]], Fetched]
"""Runs a statement in the transaction of a pass."""

T = TypeVar("T")

_SHUT_DOWN = ("57P01", "57P02", "57P03", "55P03")
"""SQLSTATEs for: an operator stopped the database, another session crashed, the database is starting, or
another session has locked the table for longer than `lock_timeout`, so that no row was read.
"""
_IDLE = 2  # connections kept open between passes
_SETTINGS = {
    "TimeZone": "UTC",
    "DateStyle": "ISO, YMD",
    "extra_float_digits": "1",
    "client_min_messages": "error",
    "jit": "off",  # compiling the many expressions of wide tables takes a hundred times the scan
    # Each of the GROUPING SETS needs a hash table. Beyond this memory PostgreSQL sorts all rows per set.
    "hash_mem_multiplier": "64",
    "lock_timeout": "10s",
    "idle_in_transaction_session_timeout": "60s",
}


class PostgresEngine:
    """One data set in a PostgreSQL database. Connects when data are first needed, or in `open`."""

    is_live = True

    def __init__(self, source: str, schema: Schema, *, time_limit: float | None = None) -> None:
        self._tables: tuple[PostgresTable, ...] = ()  # the data set's own, and those joined to it
        self._idle: list[Connection] = []
        self._is_closed = False
        self._lock = threading.Lock()  # guards the three above
        self._turn = threading.Lock()  # serialises passes over stored rows, which only one connection can see
        self.schema = schema
        self._parts = parts(schema)
        self._checked = all_parts(schema)
        self._addresses = PostgresAddress.of_all(source, self._checked)
        self._address = self._addresses[0]
        self.source = LiveTable(schema, self._address.place, self.open)
        self._time_limit = time_limit or TIME_LIMIT

    def __repr__(self) -> str:
        return f"<PostgresEngine {self.schema.table.name}>"

    def open(self) -> None:
        """Connects and checks the declarations against the catalog. Reads no rows, unless it stores them."""
        with self._lock:
            if self._tables:
                return
            connection = self._address.connect()
            try:
                self._tables = self._checked_tables(connection)
                if self._materialises:
                    self._store_rows(connection)
            except BaseException:
                self._tables = ()
                disconnect(connection)
                raise
            self._idle.append(connection)

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
            connections, self._idle = self._idle, []
        for connection in connections:
            disconnect(connection)

    def __del__(self) -> None:
        self.close()  # a server drops the engine of an edited schema while passes may still run on it

    def check_unchanged(self) -> None:
        self.open()
        self._measured(lambda _run: None, rehearsed=True)

    def grouped(self, query: Query, subsets: Subsets, *, rehearsed: bool = False) -> Confidential[AnyGrouped]:
        self.open()
        return Confidential(self._measured(lambda run: self._scan(run, query, subsets), rehearsed))

    def fit(self, asked: FitQuestion, *, rehearsed: bool = False) -> Confidential[FitCounts]:
        return self._counted(lambda encoding, fetch: fit_counts(encoding, asked, fetch), rehearsed)

    def value_counts(
        self, column: str, longest: int, *, rehearsed: bool = False
    ) -> Confidential[ValueCounts]:
        return self._counted(
            lambda encoding, fetch: value_counts(encoding, column, longest, fetch), rehearsed
        )

    def _counted(self, count: Callable[[Encoding, Fetch], T], rehearsed: bool) -> Confidential[T]:
        """Counts in the table itself, because encoded rows have neither undeclared nor unclamped values."""
        self.open()

        def work(run: Run) -> T:
            return count(self._encoding(), lambda sql, values: run(sql, values)[1])

        return Confidential(self._measured(work, rehearsed))

    def figures(self) -> SourceFigures:
        """Exact figures of how the rows fit the declarations: for the curator, NOT private."""
        self.open()
        encoding = self._encoding()
        rows = f"WITH checked AS NOT MATERIALIZED ({checked_rows(encoding).sql}) "
        values = encoding.parameters.values
        return self._measured(lambda run: fit_figures(encoding, lambda select: run(rows + select, values)[1]))

    def _checked_tables(self, connection: Connection) -> tuple[PostgresTable, ...]:
        """The tables that this engine reads. Also checks all tables that may be joined later."""
        unreadable = SourceError(
            f"The database catalog for {self.schema.table.name} cannot be read.",
            remedy="Try again, or look into the database server's log.",
        )
        tables = []
        for address, part in zip(self._addresses, self._checked.values(), strict=True):
            with quiet(unreadable, psycopg.Error):
                tables.append(table := address.find(connection, part))
                zones = {column.time_zone for column in part.columns.values()} - {None}
                for zone in zones:
                    execute(connection, "SELECT now() AT TIME ZONE $1", [zone])
            check_kinds(part, table.kinds)
            check_columns(part, table.kinds)
        check_units(self._checked, {name: t.kinds for name, t in zip(self._checked, tables, strict=True)})
        return tuple(tables[: len(self._parts)])

    def _encoding(self) -> Encoding:
        """The encoding of the data set's own table."""
        return self._encodings(Parameters())[0]

    def _encodings(self, parameters: Parameters) -> list[Encoding]:
        assert self._tables
        tables = zip(self._parts.values(), self._tables, strict=True)
        dialect = PostgresDialect()
        return [Encoding(part, table.kinds, dialect, table.name, parameters) for part, table in tables]

    # -- One pass ------------------------------------------------------------------------------------------

    def _scan(self, run: Run, query: Query, subsets: Subsets) -> AnyGrouped:
        parts = statement_parts(subsets)
        return merged_cells(parts, [self._cells(run, query, part) for part in parts])

    def _cells(self, run: Run, query: Query, subsets: Subsets) -> Grouped:
        parameters = Parameters()
        sql = grouped_statement(
            *(query, subsets, self.schema, self._encodings(parameters)),
            stored=self._stored_rows if self._materialises else None,
            few_texts=self._tables[0].few_texts,
        )
        names, rows = run(sql, parameters.values)
        columns = {
            name: np.array([row[place] or 0 for row in rows], dtype=np.int64)
            for place, name in enumerate(names)
        }
        return grouped_of(columns, query, self.schema, subsets)

    @property
    def _materialises(self) -> bool:
        return self.schema.table.storage in ("memory", "file")

    @property
    def _stored_rows(self) -> Rows:
        columns = all_rows(self.schema, self._encodings(Parameters())).columns
        return Rows(f"SELECT * FROM {ENCODED}", columns)

    def _store_rows(self, connection: Connection) -> None:
        """Encodes the rows into a temporary table, which only this connection sees."""
        parameters = Parameters()
        rows = all_rows(self.schema, self._encodings(parameters))
        sql = f"CREATE TEMPORARY TABLE {ENCODED} AS {rows.sql}"
        refused = SourceError(
            f"DPXPlain cannot store its copy of {self.schema.table.name} in the database.",
            remedy="GRANT TEMPORARY ON DATABASE to the role, or remove table.storage from the schema.",
        )
        with quiet(refused, psycopg.Error), interruptible(partial(_cancel, connection)):
            with self._transaction(connection, "READ WRITE"):
                execute(connection, sql, parameters.values)
                connection.execute("COMMIT")
            connection.execute(f"ANALYZE {ENCODED}")

    def _measured(self, work: Callable[[Run], T], rehearsed: bool = False) -> T:
        """The result of a pass. If it fails, the error says nothing about the data or the server."""
        outcome = self._attempt(work, rehearsed)
        if isinstance(outcome, SourceError):
            raise outcome
        return outcome

    @sealed
    def _attempt(self, work: Callable[[Run], T], rehearsed: bool) -> T | SourceError:
        run = _run_without_rows if rehearsed else _run
        try:
            with (
                self._connection() as connection,
                interruptible(partial(_cancel, connection)),
                self._transaction(connection),
            ):
                if rehearsed and self._is_altered(connection):
                    return SourceError(
                        "The table's columns changed after the data set was opened.", remedy="Open it again."
                    )
                return work(partial(run, connection))
        except psycopg.Error as error:
            state, took_too_long = error.sqlstate, isinstance(error, psycopg.errors.QueryCanceled)
            broke_off = state in _SHUT_DOWN or (state is None and isinstance(error, psycopg.OperationalError))
        check_stop()
        if broke_off:
            return SourceLost(
                f"The connection to the database broke, or another session has locked the table. {CHARGED}",
                remedy="Repeat the request later. You will not be charged again.",
                is_shut_down=state in _SHUT_DOWN,
            )
        if took_too_long:
            problem = (
                f"The database took longer than {self._time_limit:g} s, or its operator stopped the query."
            )
            return SourceError(
                f"{problem} {CHARGED}",
                remedy="Ask the curator. An index or a longer time limit may help.",
            )
        return SourceError(
            f"The database could not answer. {CHARGED}",
            remedy="Ask the curator. The database's log may have the reason.",
        )

    def _is_altered(self, connection: Connection) -> bool:
        """Whether the type of a column that is read has changed since the table was opened."""
        return any(
            column_types(connection, table.name, [name for name, *_ in table.types]) != table.types
            for table in self._tables
        )

    @contextmanager
    def _transaction(self, connection: Connection, access: str = "READ ONLY") -> Iterator[None]:
        """A block that sees one snapshot of the table. After a failure the connection is not reused."""
        connection.execute(f"BEGIN ISOLATION LEVEL REPEATABLE READ {access}")
        settings = _SETTINGS | {"statement_timeout": f"{int(self._time_limit * 1000)}"}
        changed = ", ".join(f"set_config('{name}', '{value}', true)" for name, value in settings.items())
        connection.execute(f"SELECT {changed}")
        yield
        connection.execute("ROLLBACK")

    @contextmanager
    def _connection(self) -> Iterator[Connection]:
        """An idle connection or a new one; if rows are stored, the connection that has them.

        It is closed after a failure.
        """
        with self._turn if self._materialises else nullcontext():
            self.open()  # opens again if a failed pass lost the stored rows
            connection, is_usable = self._idle_or_new(), False
            try:
                yield connection
                check_stop()  # a cancellation may still be on its way to this connection
                is_usable = True
            finally:
                with self._lock:
                    is_kept = is_usable and not self._is_closed and len(self._idle) < _IDLE
                    if is_kept:
                        self._idle.append(connection)
                    elif self._materialises:
                        self._tables = ()  # the stored rows are gone with the connection
                if not is_kept:
                    disconnect(connection)

    def _idle_or_new(self) -> Connection:
        with self._lock:
            if self._idle:
                return self._idle.pop()
        try:
            return self._address.connect()
        except SourceError as error:  # no row was read, so the failure does not depend on the data
            raise SourceLost(error.problem, remedy=error.remedy, is_shut_down=True) from None


def _run(connection: Connection, sql: str, values: list[Any]) -> Fetched:
    cursor = execute(connection, sql, values)
    return [column.name for column in cursor.description or ()], cursor.fetchall()


def _run_without_rows(connection: Connection, sql: str, values: list[Any]) -> Fetched:
    """Plans the statement and checks the rights that it needs. With LIMIT 0, PostgreSQL reads no rows."""
    return _run(connection, f"SELECT * FROM ({sql}) AS rehearsed LIMIT 0", values)


def _cancel(connection: Connection) -> None:
    with suppress(psycopg.Error):
        connection.cancel_safe(timeout=10)


# -- Connections and tables --------------------------------------------------------------------------------
#
# Connects to a PostgreSQL database and finds a table in it. The server's errors can quote values and secrets,
# so none of their text is passed on.
#
# libpq finds the secrets: in PGPASSWORD, PGPASSFILE, a service file or a client certificate.

Connection = psycopg.Connection[tuple[Any, ...]]

_OLDEST = 140000  # in earlier servers, extract() returns floats
_TABLE = re.compile(r"(?P<address>.*)::(?P<table>[^/@\]]+)\Z", re.DOTALL)
_TIMEOUTS = {
    "connect_timeout": 10,
    "tcp_user_timeout": 15_000,  # in milliseconds
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
}
_COLUMNS = """
WITH RECURSIVE relation AS (
    SELECT c.oid, n.nspname, c.relname FROM pg_catalog.pg_class c
    JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND (
        (c.relname = $1 AND pg_catalog.pg_table_is_visible(c.oid)) OR n.nspname || '.' || c.relname = $1)
), typed AS (
    SELECT r.oid, r.nspname, r.relname, a.attnum, a.attname, t.typname, t.typtype, t.typbasetype,
        CASE WHEN t.typtype = 'd' THEN t.typtypmod ELSE a.atttypmod END AS typmod,
        pg_catalog.has_column_privilege(r.oid, a.attnum, 'SELECT') AS readable
    FROM relation r JOIN pg_catalog.pg_attribute a ON a.attrelid = r.oid
    JOIN pg_catalog.pg_type t ON t.oid = a.atttypid
    WHERE a.attnum > 0 AND NOT a.attisdropped
    UNION ALL
    SELECT p.oid, p.nspname, p.relname, p.attnum, p.attname, t.typname, t.typtype, t.typbasetype,
        CASE WHEN t.typtype = 'd' THEN t.typtypmod ELSE p.typmod END, p.readable
    FROM typed p JOIN pg_catalog.pg_type t ON t.oid = p.typbasetype WHERE p.typtype = 'd'
)
SELECT nspname, relname, attname::text, typname::text, typtype::text, typmod, readable
FROM typed WHERE typtype <> 'd' ORDER BY oid, attnum
"""

# How many values the planner expects in each column; nothing for tables that were never analysed. If it is
# given as a share of the rows, it is unknown (Infinity) for a table without rows of its own, such as a parent
# table that others inherit from.
_DISTINCT = """
SELECT s.attname::text, max(
    CASE WHEN s.n_distinct >= 0 THEN s.n_distinct
    WHEN c.reltuples > 0 THEN -s.n_distinct * c.reltuples ELSE 'Infinity' END)
FROM pg_catalog.pg_stats s
JOIN pg_catalog.pg_namespace n ON n.nspname = s.schemaname
JOIN pg_catalog.pg_class c ON c.relnamespace = n.oid AND c.relname = s.tablename
WHERE s.schemaname = $1 AND s.tablename = $2 GROUP BY 1
"""
_SPARE_TEXTS = 16  # cells are counted by text up to twice the declared texts plus these


@dataclass(frozen=True)
class PostgresTable:
    """A table in the catalog: its quoted name and the kinds of its columns."""

    name: str
    kinds: dict[str, Kind]
    few_texts: frozenset[str]
    """Columns with hardly more values than are declared, according to the planner's statistics."""
    types: ColumnTypes


ColumnTypes = tuple[tuple[str, int, int | None, int | None], ...]
"""Name, type, precision and scale of the columns that are read, as PostgreSQL describes them."""


def address_and_table(source: str) -> tuple[str, str]:
    """The database's address, and the table that the source names behind it, or an empty text.

    >>> address_and_table("postgresql://ann@[::1]/db::sales.flights")
    ('postgresql://ann@[::1]/db', 'sales.flights')
    >>> address_and_table("postgresql://ann@[::1]/db")
    ('postgresql://ann@[::1]/db', '')
    """
    named = _TABLE.match(source)
    return (named["address"], named["table"]) if named else (source, "")


@dataclass(frozen=True)
class PostgresAddress:
    """Where a table is, without secrets: postgresql://user@host/database or .../database::schema.table."""

    conninfo: dict[str, Any]
    table: str

    @classmethod
    def of(cls, source: str, schema: Schema) -> PostgresAddress:
        if holds_password(source):
            raise SourceError(
                "The address must not contain a password.",
                remedy="Remove it, and set PGPASSWORD or PGPASSFILE, or use a service file.",
            )
        address, table = address_and_table(source)
        try:
            parameters: dict[str, Any] = dict(conninfo_to_dict(address))
        except psycopg.Error:
            parameters = {"password": "unknown"}  # refused below; psycopg's message would repeat the address
        if parameters.keys() & {"password", "sslpassword"}:
            raise SourceError(
                "The address of the PostgreSQL database cannot be read.",
                remedy="Write postgresql://user@host:5432/database, with special characters as %XX.",
            )
        conninfo = {key: value for key, value in parameters.items() if value is not None}
        return cls(conninfo, table or schema.table.name)

    @classmethod
    def of_all(cls, source: str, parts: Mapping[str, Schema]) -> list[PostgresAddress]:
        """The addresses of the data set's own table and of those joined to it, all in one database."""
        (_, own), *others = parts.items()
        first = cls.of(source, own)
        return [first, *(first.beside(part.table.source, part) for _, part in others)]

    def beside(self, source: object, schema: Schema) -> PostgresAddress:
        """The address of another table in the same database: as declared, or else by the table's name."""
        if source is None:
            return PostgresAddress(self.conninfo, schema.table.name)
        address = PostgresAddress.of(str(source), schema) if is_database(source) else None
        if address is None or address.conninfo != self.conninfo:
            raise SchemaError(
                f"tables.{schema.table.name}.source: is in another database. Joined tables must be in one "
                "database.",
                remedy="Remove this source, or write the address of the data set's own table with another "
                "::table.",
            )
        return address

    @property
    def place(self) -> str:
        """The table's lasting name: its database, or what decides it, and its own name; no host."""
        named = self.conninfo.get("dbname") or self.conninfo.get("service")
        database = named or os.environ.get("PGDATABASE") or self.conninfo.get("user")
        return f"postgresql {database or ''} {self.table}"

    def connect(self) -> Connection:
        """A new connection, in autocommit mode, that prepares no statements."""
        unreachable = SourceError(
            "The PostgreSQL database cannot be reached.",
            remedy="Is the server running? Are host, database and user right? Is the password in "
            "PGPASSWORD, PGPASSFILE or a service file?",
        )
        with quiet(unreachable, psycopg.Error):
            return psycopg.connect(
                **{**_TIMEOUTS, **self.conninfo},
                client_encoding="UTF8",
                application_name="dpxplain",
                prepare_threshold=None,
                cursor_factory=psycopg.RawCursor,
                autocommit=True,
            )

    def find(self, connection: Connection, schema: Schema) -> PostgresTable:
        """The table in the catalog. Raises if it is missing or may not be read. Reads no rows."""
        if connection.info.server_version < _OLDEST:
            raise SourceError(
                "PostgreSQL servers older than version 14 are not supported.", remedy="Upgrade it."
            )
        if connection.info.parameter_status("server_encoding") != "UTF8":
            raise SourceError(
                "The PostgreSQL database does not use UTF-8.",
                remedy="Copy the table into a database that does.",
            )
        columns = execute(connection, _COLUMNS, [self.table]).fetchall()
        relations = list(dict.fromkeys((space, relation) for space, relation, *_ in columns))
        if len(relations) != 1:
            number = "no" if not relations else f"{len(relations)}"
            raise SourceError(
                f"This role can see {number} tables called {self.table} in the database.",
                remedy="Name one by table.name or as postgresql://host/database::schema.table.",
            )
        self._check_rights(schema, {name: readable for *_, name, _, _, _, readable in columns})
        kinds = {
            name: kind_of(kind, category, modifier) for _, _, name, kind, category, modifier, _ in columns
        }
        few_texts = _few_texts(schema, _distinct(connection, *relations[0]))
        table = ".".join(map(quoted_name, relations[0]))
        names = [name for name in read_columns(schema) if name in kinds]
        return PostgresTable(table, kinds, few_texts, column_types(connection, table, names))

    def _check_rights(self, schema: Schema, readable: dict[str, bool]) -> None:
        denied = [name for name in read_columns(schema) if not readable.get(name, True)]
        if denied:
            raise SourceError(
                f"The role has no permission to read {', '.join(denied)} in {self.table}.",
                remedy="GRANT SELECT on the table, or on its declared columns, to the role.",
            )


def column_types(connection: Connection, table: str, names: Sequence[str]) -> ColumnTypes:
    """The present types of some columns. Reads no rows."""
    described = execute(connection, f"SELECT {', '.join(map(quoted_name, names))} FROM {table} LIMIT 0", [])
    columns = described.description or ()
    return tuple((column.name, column.type_code, column.precision, column.scale) for column in columns)


def _distinct(connection: Connection, space: str, relation: str) -> dict[str, float]:
    """The planner's statistics; empty if the role may not see them, since they only save time."""
    with suppress(psycopg.errors.InsufficientPrivilege):
        return dict(execute(connection, _DISTINCT, [space, relation]).fetchall())
    return {}


def _few_texts(schema: Schema, distinct: dict[str, float]) -> frozenset[str]:
    declared = {name: len(members_of(column)) for name, column in schema.columns.items()}
    return frozenset(
        name for name, number in declared.items() if distinct.get(name, math.inf) <= 2 * number + _SPARE_TEXTS
    )


def check_kinds(schema: Schema, kinds: dict[str, Kind]) -> None:
    """Raises if PostgreSQL could fail on some value of a column, or would convert it unlike other engines."""
    for name, column in schema.columns.items():
        if column.expression is None and column.is_temporal and kinds.get(name) == "text":
            raise SchemaError(
                f"columns.{name} is declared with dates, but is a text column in PostgreSQL. One text that "
                "is not a date would stop every query.",
                remedy="Convert the column to date, timestamp or timestamp with time zone, in the table or "
                "in a view.",
            )
    check_unit(schema, kinds, "Use a column of whole numbers, text, numeric, uuid or dates.")


def execute(connection: Connection, sql: str, values: list[Any]) -> psycopg.Cursor[tuple[Any, ...]]:
    """Runs one statement. Its values are sent separately from its text."""
    sent = [Jsonb(value) if isinstance(value, dict) else value for value in values]
    return connection.execute(sql, sent)


@contextmanager
def catalog_connection(address: str) -> Iterator[Connection]:
    """A connection that reads only the catalog, to draft a schema before any table is declared."""
    unreachable = SourceError(
        "The database cannot be reached.",
        remedy="Check the address, and set PGPASSWORD if it needs a password.",
    )
    unreadable = SourceError(
        "The database's catalog cannot be read.",
        remedy="Try again, or look into the database server's log.",
    )
    with quiet(unreachable, (psycopg.Error, UnicodeError)):
        connection = psycopg.connect(address, connect_timeout=10, options="-c statement_timeout=30000")
    with closing(connection), quiet(unreadable, psycopg.Error):
        connection.read_only = True
        yield connection


def disconnect(connection: Connection) -> None:
    with suppress(psycopg.Error):
        connection.close()


# -- The dialect -------------------------------------------------------------------------------------------
#
# A cast or an arithmetic operation can fail on a value there, so each one is guarded.
#
# A number may be too large or too small for a double, a timestamp may exceed 64 bits of microseconds, and
# texts may have a collation that treats different texts as equal.

_FEW = 16  # up to this many codes are compared one by one; more are looked up in a jsonb object
_LARGEST_DOUBLE = "'1.7976931348623157e308'::numeric"
_SMALLEST_DOUBLE = "'1e-323'::numeric"
_TINY = "'1e-140'::float8"
_FIRST_MOMENT, _LAST_MOMENT = "4713-02-01 00:00:00+00 BC", "294246-12-31 00:00:00+00"
_SAFE_PRECISION = 290  # numbers of so many digits neither overflow nor underflow a double


class PostgresDialect(Dialect):
    name = "postgres"
    double = "DOUBLE PRECISION"
    text = "TEXT"
    inlined = "AS NOT MATERIALIZED"
    compares_whole = True

    def placeholder(self, number: int) -> str:
        return f"${number}"

    def number_literal(self, value: float) -> str:
        return f"'{float(value)!r}'::float8"

    def code_type(self, size: int) -> str:
        return "SMALLINT" if size < 2**15 else "INTEGER"

    def array(self, values: Sequence[Any], parameters: Parameters) -> str:
        kind = self.type_of(values[0]) if values else self.text
        sent = [float(value) if kind == self.double else _storable(value) for value in values]
        return f"CAST({self.placeholder(parameters.bind(sent))} AS {kind}[])"

    def element(self, array: str, place: str) -> str:
        return f"({array})[{place}]"

    def number(self, source: str, kind: Kind) -> str:
        if kind == "boolean":
            return f"{source}::int::float8"
        if kind != "long decimal":
            return f"{source}::float8"
        return (
            f"CASE WHEN {source} = 'NaN'::numeric THEN 'NaN'::float8 "
            f"WHEN {source} > {_LARGEST_DOUBLE} THEN 'Infinity'::float8 "
            f"WHEN {source} < -{_LARGEST_DOUBLE} THEN '-Infinity'::float8 "
            f"WHEN abs({source}) < {_SMALLEST_DOUBLE} THEN '0'::float8 ELSE {source}::float8 END"
        )

    def whole(self, source: str, kind: Kind) -> str:
        if kind in ("whole", "boolean"):
            return f"{source}::int::bigint" if kind == "boolean" else f"{source}::bigint"
        number = "float8" if kind == "float" else "numeric"
        # NaN fails the test, because PostgreSQL sorts it above every number.
        is_long = (
            f"{source} >= '-9223372036854775808'::{number} AND {source} < '9223372036854775808'::{number}"
        )
        return f"CASE WHEN {is_long} AND {source} = floor({source}) THEN {source}::bigint END"

    def truth(self, source: str, kind: Kind) -> str:
        if kind == "boolean":
            return source
        number = self.number(source, kind)
        return f"CASE WHEN {number} = 1 THEN TRUE WHEN {number} = 0 THEN FALSE END"

    def text_of(self, source: str, kind: Kind) -> str:
        operand = f"trim_scale({source})" if kind in ("decimal", "long decimal") else source
        return f'({operand}::text COLLATE "C")'

    def micros(self, source: str, kind: Kind, zone: str) -> str:
        if kind == "date":
            days = f"({source} - DATE '1970-01-01')::bigint * 86400000000"
            return f"CASE WHEN isfinite({source}) AND {source} <= DATE '294246-12-31' THEN {days} END"
        last = f"TIMESTAMPTZ '{_LAST_MOMENT}'" if kind == "zoned" else f"TIMESTAMP '{_LAST_MOMENT[:-3]}'"
        moment = source
        if kind == "zoned":
            # The zone's name is safe to insert: Python knows it, and it has no quotation mark.
            moment = f"(greatest({source}, TIMESTAMPTZ '{_FIRST_MOMENT}') AT TIME ZONE '{zone}')"
        micros = f"(extract(epoch FROM {moment}) * 1000000)::bigint"
        return f"CASE WHEN isfinite({source}) AND {source} <= {last} THEN {micros} END"

    def is_nan(self, number: str) -> str:
        return f"({number} = 'NaN'::float8)"

    def code(self, key: str, codes: Mapping[Any, int], parameters: Parameters) -> str:
        storable_codes = {value: code for value, code in codes.items() if _storable(value) is not None}
        if len(storable_codes) > _FEW:
            number = parameters.bind({str(value): code for value, code in storable_codes.items()})
            return f"(CAST({self.placeholder(number)} AS jsonb) -> ({key})::text)::int"
        steps = " ".join(
            f"WHEN {self._literal(value, parameters)} THEN {code}" for value, code in storable_codes.items()
        )
        return f"(CASE {key} {steps} END)" if steps else "NULL::int"

    def is_among(self, text: str, values: Sequence[str], parameters: Parameters) -> str:
        literals = [self._literal(value, parameters) for value in values if _storable(value) is not None]
        return f"{text} IN ({', '.join(literals)})" if literals else "FALSE"

    def _literal(self, value: Any, parameters: Parameters) -> str:
        if isinstance(value, int):
            return f"'{value}'::bigint"
        return f'(CAST({self.placeholder(parameters.bind(value))} AS text) COLLATE "C")'

    def md5(self, text: str) -> str:
        return f'(md5({text}) COLLATE "C")'

    def person(self, text: str) -> str:
        return f"md5({text})::uuid"

    def factor(self, number: str) -> str:
        """The number; 0 if too small to matter, so that products and quotients do not underflow."""
        return f"({number} + {_TINY} - {_TINY})"

    def remainder(self, left: str, right: str, is_whole: bool) -> str:
        if is_whole:
            return f"(({left})::bigint % ({right})::bigint)::float8"
        # NULLIF after `factor`, which can turn a tiny number into 0.
        quotient = f"trunc({self.factor(left)} / NULLIF({self.factor(right)}, 0))"
        return f"({left} - {self.factor(right)} * {self.factor(quotient)})"

    def like(self, text: str, pattern: str, ignores_case: bool) -> str:
        return f"({text} {'ILIKE' if ignores_case else 'LIKE'} {pattern} ESCAPE '')"

    def half_even(self, number: str) -> str:
        fits = f"abs({number}) < '9e18'::float8"
        return f"CASE WHEN {fits} THEN ({number})::bigint END"

    def cast(self, value: str, target: str, kind: str) -> str:
        match kind, target:
            case "boolean", "DOUBLE":
                return f"({value})::int::float8"
            case "number", "BOOLEAN":
                return f"({value} <> 0)"
        return f"CAST({value} AS {self.double if target == 'DOUBLE' else target})"

    def timestamp(self, micros: str) -> str:
        return f"(TIMESTAMP '1970-01-01' + {micros} * INTERVAL '1 microsecond')"

    def date_part(self, name: str, moment: str) -> str:
        return f"floor(date_part('{name}', {moment}))"

    def date_trunc(self, unit: str, moment: str) -> str:
        return f"date_trunc('{unit}', CAST({moment} AS TIMESTAMP))"  # a date would give one with a zone

    def span_number(self, moment: str, micros: int) -> str:
        return f"((extract(epoch FROM CAST({moment} AS TIMESTAMP)) * 1000000)::bigint / {micros})"


def kind_of(type_name: str, category: str, modifier: int) -> Kind:
    """The kind of a catalog type, from its name, pg_type.typtype and its modifier (-1 if it has none)."""
    if type_name == "numeric":
        # The modifier is precision * 65536 + scale (11 bits, signed) + 4.
        precision, scale = (modifier - 4) >> 16, (modifier - 4) & 0x7FF
        is_safe = modifier >= 0 and precision <= _SAFE_PRECISION and scale <= _SAFE_PRECISION
        return "decimal" if is_safe else "long decimal"
    kinds: dict[str, Kind] = {
        "int2": "whole", "int4": "whole", "int8": "whole", "float4": "float", "float8": "float",
        "bool": "boolean", "date": "date", "timestamp": "timestamp", "timestamptz": "zoned",
        "text": "text", "varchar": "text", "bpchar": "text", "name": "text", "citext": "text", "uuid": "text",
    }  # fmt: skip
    return "text" if category == "e" else kinds.get(type_name, "other")


def _storable(value: Any) -> Any:
    """The value; None for a text that PostgreSQL cannot hold, so that no row can have it."""
    return None if isinstance(value, str) and "\0" in value else value
