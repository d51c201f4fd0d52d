"""PostgreSQL as an engine: the table stays where it is, and only counts and sums of cells leave it.

Every pass is one READ ONLY, REPEATABLE READ transaction with a time limit. It is cancelled if its caller
leaves. The encoding is an expression in every statement, or a temporary table if the schema's `storage` asks
for one.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, TypeVar

import numpy as np
import psycopg

from dpxplain.engines.check_sql import checked_rows, fit_figures
from dpxplain.engines.encoding import Encoding, Rows, check_columns
from dpxplain.engines.fit_sql import fit_counts, value_counts
from dpxplain.engines.grouped_rows import grouped_of, joined
from dpxplain.engines.pass_sql import grouped_statement, statement_parts
from dpxplain.engines.postgres_dialect import PostgresDialect
from dpxplain.engines.postgres_source import (
    Connection,
    PostgresAddress,
    PostgresTable,
    check_kinds,
    column_types,
    disconnect,
    execute,
    quietly,
)
from dpxplain.engines.private_join import all_rows, check_units
from dpxplain.engines.source_state import LiveTable
from dpxplain.errors import SourceError, SourceLost
from dpxplain.model.cancellation import check_stop, interruptible
from dpxplain.model.confidential import Confidential, sealed
from dpxplain.model.grouped_pass import AnyGrouped, Grouped
from dpxplain.model.joined_schema import all_parts, parts
from dpxplain.model.query import Query
from dpxplain.model.schema import Schema
from dpxplain.model.schema_fit import FitCounts, FitQuestion, SourceFigures
from dpxplain.model.unknown_column import ValueCounts
from dpxplain.sql.encoded_names import ENCODED, Parameters

TIME_LIMIT = 1800.0
"""Seconds that a statement may take, unless the caller says otherwise."""
Fetched = tuple[list[str], Sequence[tuple[Any, ...]]]
Run = Callable[[str, list[Any]], Fetched]
"""Runs a statement in the transaction of a pass."""

T = TypeVar("T")

_SPENT = "The charge stays."
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

    def __init__(self, source: str, schema: Schema, *, time_limit: float = TIME_LIMIT) -> None:
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
        self._time_limit = time_limit

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

    def grouped(
        self, query: Query, subsets: tuple[tuple[str, ...], ...], *, rehearsed: bool = False
    ) -> Confidential[AnyGrouped]:
        self.open()
        return Confidential(self._measured(lambda run: self._scan(run, query, subsets), rehearsed))

    def fit(self, asked: FitQuestion, *, rehearsed: bool = False) -> Confidential[FitCounts]:
        def only_row(fetched: Fetched) -> Sequence[int]:
            names, rows = fetched
            return [0] * len(names) if rehearsed else rows[0]

        self.open()
        return Confidential(
            self._measured(
                lambda run: fit_counts(
                    self._encoding(), asked, lambda sql, values: only_row(run(sql, values))
                ),
                rehearsed,
            )
        )

    def value_counts(
        self, column: str, longest: int, *, rehearsed: bool = False
    ) -> Confidential[ValueCounts]:
        self.open()
        return Confidential(
            self._measured(
                lambda run: value_counts(
                    self._encoding(), column, longest, lambda sql, values: run(sql, values)[1]
                ),
                rehearsed,
            )
        )

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
            with quietly(unreadable):
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

    def _scan(self, run: Run, query: Query, subsets: tuple[tuple[str, ...], ...]) -> AnyGrouped:
        parts = statement_parts(subsets)
        cells = [self._cells(run, query, part) for part in parts]
        return cells[0] if len(cells) == 1 else joined(cells, [len(part) for part in parts])

    def _cells(self, run: Run, query: Query, subsets: tuple[tuple[str, ...], ...]) -> Grouped:
        parameters = Parameters()
        sql = grouped_statement(
            *(query, subsets, self.schema, self._encodings(parameters)),
            stored=self._stored_rows if self._materialises else None,
            few=self._tables[0].few_texts,
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
        with quietly(refused), interruptible(partial(_cancel, connection)):
            with self._transaction(connection, "READ WRITE"):
                execute(connection, sql, parameters.values)
                connection.execute("COMMIT")
            connection.execute(f"ANALYZE {ENCODED}")

    def _measured(self, work: Callable[[Run], T], rehearsed: bool = False) -> T:
        """The result of a pass. If it fails, the error says nothing about the data or the server."""
        results: list[T] = []
        problem = self._attempt(work, results, rehearsed)
        if problem is not None:
            raise problem
        return results[0]

    @sealed
    def _attempt(self, work: Callable[[Run], T], results: list[T], rehearsed: bool) -> SourceError | None:
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
                results.append(work(partial(run, connection)))
            return None
        except psycopg.Error as error:
            state, took_too_long = error.sqlstate, isinstance(error, psycopg.errors.QueryCanceled)
            broke_off = state in _SHUT_DOWN or (state is None and isinstance(error, psycopg.OperationalError))
        check_stop()
        if broke_off:
            return SourceLost(
                f"The connection to the database broke, or another session has locked the table. {_SPENT}",
                remedy="Repeat the request later. You will not be charged again.",
                is_shut_down=state in _SHUT_DOWN,
            )
        if took_too_long:
            problem = (
                f"The database took longer than {self._time_limit:g} s, or its operator stopped the query."
            )
            return SourceError(
                f"{problem} {_SPENT}", remedy="Ask the curator. An index or a longer time limit may help."
            )
        return SourceError(
            f"The database could not answer. {_SPENT}",
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
        """An idle connection or a new one; if rows are stored, the connection that has them."""
        if self._materialises:
            with self._turn:
                self.open()  # opens again if a failed pass lost the stored rows
                with self._discarded_on_failure(self._take()) as connection:
                    yield connection
        else:
            with self._discarded_on_failure(self._take()) as connection:
                yield connection

    def _take(self) -> Connection:
        with self._lock:
            if self._idle:
                return self._idle.pop()
        try:
            return self._address.connect()
        except SourceError as error:  # no row was read, so the failure does not depend on the data
            raise SourceLost(error.problem, remedy=error.remedy, is_shut_down=True) from None

    @contextmanager
    def _discarded_on_failure(self, connection: Connection) -> Iterator[Connection]:
        is_usable = False
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


def _run(connection: Connection, sql: str, values: list[Any]) -> Fetched:
    cursor = execute(connection, sql, values)
    return [column.name for column in cursor.description or ()], cursor.fetchall()


def _run_without_rows(connection: Connection, sql: str, values: list[Any]) -> Fetched:
    """Plans the statement and checks the rights that it needs. With LIMIT 0, PostgreSQL reads no rows."""
    return _run(connection, f"SELECT * FROM ({sql}) AS rehearsed LIMIT 0", values)


def _cancel(connection: Connection) -> None:
    with suppress(psycopg.Error):
        connection.cancel_safe(timeout=10)
