"""Connects to a PostgreSQL database and finds a table in it. The server's errors can quote values and
secrets, so none of their text is passed on.

libpq finds the secrets: in PGPASSWORD, PGPASSFILE, a service file or a client certificate.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from dpxplain.engines.dialect import Kind
from dpxplain.engines.encoding import members_of, read_columns
from dpxplain.engines.postgres_dialect import PostgresDialect, kind_of
from dpxplain.errors import DPXPlainError, SchemaError, SourceError
from dpxplain.model.schema import Schema, holds_password, is_database

try:
    import psycopg
    from psycopg.conninfo import conninfo_to_dict
    from psycopg.types.json import Jsonb
except ImportError as error:
    raise SourceError(
        "A table in PostgreSQL needs the package psycopg.", remedy="pip install 'dpxplain[postgres]'"
    ) from error

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
        table_match = _TABLE.match(source)
        address, table = (
            (table_match["address"], table_match["table"]) if table_match else (source, schema.table.name)
        )
        try:
            parameters: dict[str, Any] = dict(conninfo_to_dict(address))
        except psycopg.Error:
            parameters = {"password": "unknown"}  # refused below; psycopg's message would repeat the address
        if parameters.keys() & {"password", "sslpassword"}:
            raise SourceError(
                "The address of the PostgreSQL database cannot be read.",
                remedy="Write postgresql://user@host:5432/database, with special characters as %XX.",
            )
        return cls({key: value for key, value in parameters.items() if value is not None}, table)

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
        """The table's lasting name: its database (or else service, or user) and its own name; no host."""
        database = (
            self.conninfo.get("dbname") or self.conninfo.get("service") or self.conninfo.get("user") or ""
        )
        return f"postgresql {database} {self.table}"

    def connect(self) -> Connection:
        """A new connection, in autocommit mode, that prepares no statements."""
        unreachable = SourceError(
            "The PostgreSQL database cannot be reached.",
            remedy="Is the server running? Are host, database and user right? Is the password in "
            "PGPASSWORD, PGPASSFILE or a service file?",
        )
        with quietly(unreachable):
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
        quote = PostgresDialect().quote
        kinds = {
            name: kind_of(kind, category, modifier) for _, _, name, kind, category, modifier, _ in columns
        }
        few = _few_texts(schema, _distinct(connection, *relations[0]))
        table = ".".join(map(quote, relations[0]))
        read = [name for name in read_columns(schema) if name in kinds]
        return PostgresTable(table, kinds, few, column_types(connection, table, read))

    def _check_rights(self, schema: Schema, readable: dict[str, bool]) -> None:
        denied = [name for name in read_columns(schema) if not readable.get(name, True)]
        if denied:
            raise SourceError(
                f"The role has no permission to read {', '.join(denied)} in {self.table}.",
                remedy="GRANT SELECT on the table, or on its declared columns, to the role.",
            )


def column_types(connection: Connection, table: str, names: Sequence[str]) -> ColumnTypes:
    """The present types of some columns. Reads no rows."""
    quote = PostgresDialect().quote
    described = execute(connection, f"SELECT {', '.join(map(quote, names))} FROM {table} LIMIT 0", [])
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
    unit = schema.privacy.unit
    if unit != "row" and kinds.get(unit) not in (
        "whole",
        "decimal",
        "long decimal",
        "text",
        "boolean",
        "date",
    ):
        raise SchemaError(
            f"privacy.unit names the column {unit!r}, but different databases write values of its type in "
            "different ways.",
            remedy="Use a column of whole numbers, text, numeric, uuid or dates.",
        )


def execute(connection: Connection, sql: str, values: list[Any]) -> psycopg.Cursor[tuple[Any, ...]]:
    """Runs one statement. Its values are sent separately from its text."""
    sent = [Jsonb(value) if isinstance(value, dict) else value for value in values]
    return connection.execute(sql, sent)


@contextmanager
def quietly(replacement: DPXPlainError) -> Iterator[None]:
    """Replaces an error of the driver, whose text may quote values or secrets, with one that quotes none."""
    failed = False
    try:
        yield
    except psycopg.Error:
        failed = True
    if failed:
        try:
            raise replacement
        finally:
            # Inside a `with`, Python attaches the original error even here, and a traceback would print it.
            replacement.__context__ = None


def disconnect(connection: Connection) -> None:
    with suppress(psycopg.Error):
        connection.close()
