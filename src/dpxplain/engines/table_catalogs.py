"""Reads the columns of a table from a database's catalog: names and types, never a value of a row."""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from dpxplain.engines.source_kinds import is_spark
from dpxplain.errors import SourceError
from dpxplain.model.schema import holds_password, is_database

_KINDS = {
    "numbers": r"(small|big|tiny)?int(eger)?\b|short|long|byte|numeric|decimal|real|double|float",
    "text": r"text|string|character|varchar|char|citext|uuid|bpchar|name\b|USER-DEFINED",
    "true or false": r"bool",
    "dates": r"date|timestamp",
}
_WHOLE = re.compile(r"(small|big|tiny)?int(eger)?\b|short|long|byte", re.IGNORECASE)
_SYSTEM = ("pg_catalog", "information_schema")


@dataclass(frozen=True)
class CatalogColumn:
    """One column: the kind of values that its type holds, or the type's name if it cannot be declared."""

    name: str
    type_name: str
    nullable: bool = True

    @property
    def kind(self) -> str:
        kinds = (
            kind for kind, types in _KINDS.items() if re.match(types, self.type_name.strip(), re.IGNORECASE)
        )
        return next(kinds, self.type_name)

    @property
    def whole(self) -> bool:
        return _WHOLE.match(self.type_name.strip()) is not None


@dataclass(frozen=True)
class CatalogTable:
    """A table and where it is, without secrets."""

    name: str
    source: str
    columns: tuple[CatalogColumn, ...]


def is_catalog(source: str) -> bool:
    """Whether a source is a database whose catalog can be read.

    >>> is_catalog("postgresql://host/db"), is_catalog("sc://host::people"), is_catalog("people.csv")
    (True, True, False)
    """
    return is_database(source)


def read_catalog(source: str) -> tuple[CatalogTable, str]:
    """The table at an address, and the catalog that describes it, in words."""
    if is_spark(source):
        return spark_table(source), "the catalog of Spark"
    return postgres_catalog(source), "the catalog of a PostgreSQL database"


def spark_table(source: str) -> CatalogTable:
    """The table of `sc://host:15002::database.table` or `spark://host:7077::table`. Reads no row."""
    from dpxplain.engines.spark_source import open_spark

    if holds_password(source):
        raise SourceError(
            "The address must not contain a token.",
            remedy="Remove the token: the address will be stored in the schema, which is public.",
        )
    _, _, table = source.partition("::")
    if not table:
        raise SourceError("The address names no table.", remedy=f"Write {source}::database.table.")
    with closing(open_spark(source, table)) as opened:
        return spark_catalog(opened.fields, table.rpartition(".")[2], source)


def postgres_catalog(source: str) -> CatalogTable:
    """The table of `postgresql://user@host/database::schema.table`, from information_schema alone."""
    import psycopg

    if holds_password(source):
        raise SourceError(
            "The address must not contain a password.",
            remedy="Remove it, and set PGPASSWORD or PGPASSFILE, or use a service file.",
        )
    address, mark, table_name = source.rpartition("::")
    address, table_name = (address, table_name) if mark else (source, "")
    failed = SourceError(
        "The database cannot be reached.",
        remedy="Check the address, and set PGPASSWORD if it needs a password.",
    )
    try:
        connection = psycopg.connect(address, connect_timeout=10, options="-c statement_timeout=30000")
    except (psycopg.Error, UnicodeError):
        connection = None
    if connection is None:
        raise failed  # outside the handler, because the driver's text repeats the address
    with closing(connection):
        connection.read_only = True
        tables = connection.execute(
            "SELECT table_schema, table_name FROM information_schema.tables "
            "WHERE table_schema <> ALL(%s) ORDER BY 1, 2",
            [list(_SYSTEM)],
        ).fetchall()
        schema, table = _chosen([(str(a), str(b)) for a, b in tables], table_name)
        rows = connection.execute(
            "SELECT column_name, data_type, is_nullable FROM information_schema.columns "
            "WHERE table_schema = %s AND table_name = %s ORDER BY ordinal_position",
            [schema, table],
        ).fetchall()
    columns = tuple(CatalogColumn(str(name), str(kind), nullable == "YES") for name, kind, nullable in rows)
    return CatalogTable(table, f"{address}::{schema}.{table}", columns)


def spark_catalog(fields: Iterable[Any], name: str, source: str = "") -> CatalogTable:
    """The table of a Spark DataFrame's `.schema.fields`; uses only names, types and nullability."""
    columns = tuple(
        CatalogColumn(str(part.name), str(part.dataType.simpleString()), bool(part.nullable))
        for part in fields
    )
    return CatalogTable(name, source, columns)


def _chosen(tables: list[tuple[str, str]], table_name: str) -> tuple[str, str]:
    matching = [pair for pair in tables if table_name in (pair[1], ".".join(pair))] if table_name else tables
    if len(matching) == 1:
        return matching[0]
    problem = (
        f"There is no single table {table_name}." if table_name else f"The database has {len(tables)} tables."
    )
    raise SourceError(problem, remedy=f"Name one as address::schema.table. The tables are: {_some(tables)}.")


def _some(tables: Iterable[tuple[str, str]], most: int = 20) -> str:
    names = [".".join(pair) for pair in tables]
    return ", ".join(names[:most]) + (" and more" if len(names) > most else "") or "none"
