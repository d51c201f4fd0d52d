"""The tables that passes read: all encoded rows and, where many agree in every code, the distinct ones."""

from __future__ import annotations

import contextlib
from typing import Any

import duckdb

from dpxplain.engines.encoded_file import STORE, EncodedFile
from dpxplain.engines.storage import Place
from dpxplain.errors import SourceError
from dpxplain.model.schema import Schema
from dpxplain.sql.encoded_names import CONDENSED, ENCODED
from dpxplain.sql.render import condensed_columns

_MEMORY = "memory"
_REPEATED = 3  # rows per combination of codes from which on a table of the combinations pays


def load_tables(connection: duckdb.DuckDBPyConnection, file: EncodedFile, place: Place) -> bool:
    """Takes the tables from the file that an earlier session kept, if there is one that fits."""
    if not file.attach(connection):
        return False
    _take_over(connection, place)
    return True


def create_tables(
    connection: duckdb.DuckDBPyConnection,
    schema: Schema,
    rows: tuple[str, list[Any]],
    file: EncodedFile | None,
    place: Place,
) -> None:
    """Creates the tables from the encoded rows, SQL with its parameters; and the file that keeps them."""
    if place == "file":
        assert file is not None
        # Otherwise DuckDB would hold back rows in memory to keep their order, which means nothing.
        connection.execute("SET preserve_insertion_order = false")
        with file.written(connection):
            _encode(connection, schema, rows, STORE)
        _take_over(connection, place)
        return
    _encode(connection, schema, rows, _MEMORY)
    if file is not None and file.identity() is not None:
        # Without a kept file the next session only opens more slowly.
        with contextlib.suppress(OSError, SourceError, duckdb.Error):
            with file.written(connection):
                for name in _tables(connection, _MEMORY):
                    connection.execute(f"CREATE TABLE {STORE}.{name} AS FROM {_MEMORY}.{name}")
            connection.execute(f"DETACH {STORE}")


def is_condensed(connection: duckdb.DuckDBPyConnection) -> bool:
    """Whether there is a table of the distinct combinations of codes."""
    return any(CONDENSED in _tables(connection, database) for database in (_MEMORY, STORE))


def _take_over(connection: duckdb.DuckDBPyConnection, place: Place) -> None:
    """Makes the tables of the attached file known by their names: in place, or as copies in memory."""
    kind = "VIEW" if place == "file" else "TABLE"
    for name in _tables(connection, STORE):
        connection.execute(f"CREATE {kind} {_MEMORY}.{name} AS FROM {STORE}.{name}")
    if place == "memory":
        connection.execute(f"DETACH {STORE}")


def _tables(connection: duckdb.DuckDBPyConnection, database: str) -> list[str]:
    found = connection.execute(
        "SELECT table_name FROM duckdb_tables() WHERE database_name = ?", [database]
    ).fetchall()
    return [str(name) for (name,) in found if name in (ENCODED, CONDENSED)]


def _encode(
    connection: duckdb.DuckDBPyConnection, schema: Schema, rows: tuple[str, list[Any]], database: str
) -> None:
    sql, parameters = rows
    connection.execute(f"CREATE TABLE {database}.{ENCODED} AS {sql}", parameters)
    codes, counts = condensed_columns(schema)
    if not codes:
        return
    keys = ", ".join(codes)
    number, distinct = connection.execute(
        f"SELECT COUNT(*), approx_count_distinct(hash({keys})) FROM {database}.{ENCODED}"
    ).fetchall()[0]
    if distinct * _REPEATED > number:
        return
    further = ", ".join(f"{expression} AS {name}" for name, expression in counts.items())
    connection.execute(
        f"CREATE TABLE {database}.{CONDENSED} AS SELECT {keys}, {further} FROM {database}.{ENCODED} "
        f"GROUP BY {keys}"
    )
