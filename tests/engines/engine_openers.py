"""How the contract suite opens each engine on a test's rows. Add an engine to OPENERS to check it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psycopg
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
from psycopg import sql

from dpxplain.engines.duckdb import DuckDBEngine
from dpxplain.engines.engine import Engine
from dpxplain.engines.postgres_engine import PostgresEngine
from dpxplain.model.schema import Schema
from dpxplain.model.schema_fit import FitQuestion
from postgres_server import USER, PostgresServer

Opener = Callable[[pa.Table, Schema], Engine]

_NUMBERS = itertools.count(1)
_KEPT_TABLES = 8
_TYPES = {
    "string": "text", "double": "float8", "float": "real", "bool": "boolean", "int8": "smallint",
    "int64": "bigint", "uint64": "numeric(20)", "date32[day]": "date", "timestamp[us]": "timestamp",
    "timestamp[us, tz=UTC]": "timestamptz", "null": "text",
}  # fmt: skip


def versioned(schema: Schema, **table: Any) -> Schema:
    """The schema with a declared version, without which a table in a database is not opened."""
    declared = schema.model_dump()
    return Schema.load(declared | {"table": declared["table"] | {"version": "1"} | table})


def address_of(server: PostgresServer, table: str, user: str = USER, database: str = "postgres") -> str:
    """Without the password, which the fixture puts into PGPASSWORD."""
    return f"postgresql://{user}@/{database}?host={quote(str(server.folder), safe='')}::{table}"


def write_table(connection: psycopg.Connection[Any], name: str, rows: pa.Table, **types: str) -> None:
    """The rows as a table of PostgreSQL; `types` overrides those that follow from Arrow's."""
    columns = [
        sql.SQL("{} {}").format(sql.Identifier(field.name), sql.SQL(types.get(field.name, _type(field.type))))
        for field in rows.schema
    ]
    table = sql.Identifier(name)
    connection.execute(sql.SQL("CREATE TABLE {} ({})").format(table, sql.SQL(", ").join(columns)))
    with connection.cursor().copy(sql.SQL("COPY {} FROM STDIN").format(table)) as copy:
        for row in zip(*(column.to_pylist() for column in rows.columns), strict=True):
            copy.write_row(row)


def _type(kind: pa.DataType) -> str:
    if pa.types.is_decimal(kind):
        return f"numeric({kind.precision}, {kind.scale})"
    return _TYPES[str(kind)]


@contextmanager
def open_duckdb(_request: pytest.FixtureRequest) -> Iterator[Opener]:
    yield DuckDBEngine


@contextmanager
def open_stored_duckdb(request: pytest.FixtureRequest, storage: str) -> Iterator[Opener]:
    """Over a Parquet file of the rows; streamed, the rows of persons need a file all the same."""
    folder: Path = request.getfixturevalue("tmp_path_factory").mktemp("stored")

    def opened(rows: pa.Table, schema: Schema) -> Engine:
        path = folder / f"{next(_NUMBERS)}.parquet"
        parquet.write_table(rows, path)
        place = storage if schema.privacy.unit == "row" else "file"
        return DuckDBEngine(path, versioned(schema, storage=place), cache=folder / "encoded")

    yield opened


@contextmanager
def open_postgres(request: pytest.FixtureRequest, *, analysed: bool = True, **table: Any) -> Iterator[Opener]:
    """`analysed` tables have statistics, by which cells are counted by texts."""
    server: PostgresServer = request.getfixturevalue("postgres_server")
    names: list[str] = []
    with (
        psycopg.connect(server.address(), autocommit=True) as connection,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setenv("PGPASSWORD", server.password)

        def opened(rows: pa.Table, schema: Schema) -> Engine:
            names.append(f"contract_{next(_NUMBERS)}")
            write_table(connection, names[-1], rows)
            if analysed:
                connection.execute(sql.SQL("ANALYZE {}").format(sql.Identifier(names[-1])))
            if len(names) > _KEPT_TABLES:  # an engine may still be open on a newer one
                connection.execute(sql.SQL("DROP TABLE {}").format(sql.Identifier(names.pop(0))))
            return PostgresEngine(address_of(server, names[-1]), versioned(schema, **table))

        yield opened
        for name in names:
            connection.execute(sql.SQL("DROP TABLE {}").format(sql.Identifier(name)))


@contextmanager
def open_stored_postgres(request: pytest.FixtureRequest) -> Iterator[Opener]:
    with open_postgres(request, storage="memory") as opener:
        yield opener


OPENERS: dict[str, Callable[[pytest.FixtureRequest], AbstractContextManager[Opener]]] = {
    "duckdb": open_duckdb,
    "duckdb streamed": partial(open_stored_duckdb, storage="stream"),
    "duckdb in a file": partial(open_stored_duckdb, storage="file"),
    "postgresql": open_postgres,
    "postgresql never analysed": partial(open_postgres, analysed=False),
    "postgresql stored": open_stored_postgres,
}


_ALWAYS = {"duckdb", "postgresql"}  # the others store or read the same encoded rows in another way


@pytest.fixture(
    scope="module",
    params=[pytest.param(name, marks=() if name in _ALWAYS else pytest.mark.slow) for name in OPENERS],
)
def opener(request: pytest.FixtureRequest) -> Iterator[Opener]:
    """Opens one of the engines on the rows of a test."""
    with OPENERS[request.param](request) as opened:
        yield opened


def fits(engine: Engine) -> list[list[int]]:
    """What only a mechanism may see: how the rows fit, by what quality counts and by what tuning counts."""
    columns = [name for name, column in engine.schema.columns.items() if column.is_summable]
    plain = tuple(name for name in columns if engine.schema.column(name).expression is None)
    asked = (FitQuestion.of_quality(engine.schema), FitQuestion.of_tuning(engine.schema, plain))
    return [part.tolist() for one in asked for part in vars(engine.fit(one).reveal()).values()]
