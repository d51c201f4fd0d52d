"""Passes that compare and count texts as they are: when they do, and that the cells stay the same."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pyarrow as pa
import pytest
from engine_openers import address_of, versioned, write_table

from dpxplain.engines import postgres_engine
from dpxplain.engines.duckdb import DuckDBEngine
from dpxplain.engines.engine import Engine
from dpxplain.engines.postgres_engine import PostgresEngine
from dpxplain.model.query import Aggregate, And, Comparison, Filter, Not, Query
from dpxplain.model.schema import Schema
from dpxplain.sql.render import suits_row_cells
from postgres_server import PostgresServer

SCHEMA = Schema.load(
    {
        "table": {"name": "t", "version": "1"},
        "privacy": {"rho": 1.0},
        "columns": {
            "city": {"values": ["North", "South"]},
            "zone": {"groups": {"near": ["a", "b"], "far": ["c"]}, "null": True},
            "name": {"values": ["Ann"]},
            "age": {"edges": [-1, 0.5, 10, 20], "null": True},
            "pay": {"bounds": [0, 10], "step": 0.5},
        },
    }
)
NUMBER = 400
ROWS = pa.table(
    {
        "city": pa.array([["North", "South", "north", None][i % 4] for i in range(NUMBER)]),
        "zone": pa.array([["a", "b", "c", None, "d"][i % 5] for i in range(NUMBER)]),
        "name": pa.array(["Ann" if i % 2 else f"somebody {i}" for i in range(NUMBER)]),
        "age": pa.array([[-1, 0, 1, 10, 11, 2**63 - 1, None][i % 7] for i in range(NUMBER)], pa.int64()),
        "pay": pa.array([[0.25, 3.0, float("nan"), -7.0, 70.0, None][i % 6] for i in range(NUMBER)]),
    }
)
FILTERS: list[Filter | None] = [
    None,
    Comparison("city", "=", "North"),
    Comparison("zone", "=", "near"),
    And((Comparison("city", "=", "North"), Comparison("pay", ">", 2), Comparison("zone", "=", "far"))),
    And((Comparison("city", "=", "North"), Comparison("city", "=", "South"))),
    Not(Comparison("city", "=", "North")),
]


@pytest.fixture(scope="module")
def engine(postgres_server: PostgresServer) -> Iterator[PostgresEngine]:
    """Over an analysed table, in which only `name` has many texts."""
    with (
        pytest.MonkeyPatch.context() as patch,
        psycopg.connect(postgres_server.address(), autocommit=True) as connection,
    ):
        patch.setenv("PGPASSWORD", postgres_server.password)
        write_table(connection, "passes", ROWS)
        connection.execute("ANALYZE passes")
        opened = PostgresEngine(address_of(postgres_server, "passes"), SCHEMA)
        yield opened
        opened.close()
        connection.execute("DROP TABLE passes")


def statement(engine: PostgresEngine, query: Query, monkeypatch: pytest.MonkeyPatch) -> str:
    run, statements = postgres_engine._run, []

    def noted(connection: Any, sql: str, values: list[Any]) -> Any:
        statements.append(sql)
        return run(connection, sql, values)

    monkeypatch.setattr(postgres_engine, "_run", noted)
    engine.grouped(query, ((),))
    return str(statements[-1])


def cells(engine: Engine, query: Query, subsets: Any) -> set[tuple[int, ...]]:
    grouped = engine.grouped(query, subsets).reveal()
    columns = [*grouped.codes.values(), grouped.subset, grouped.count, grouped.total]
    return set(zip(*(column.tolist() for column in columns), strict=True))


@pytest.mark.process
@pytest.mark.parametrize("where", FILTERS)
@pytest.mark.parametrize(
    "aggregate", [Aggregate("count"), Aggregate("avg", "pay"), Aggregate("count", "age")]
)
def test_cells_equal_those_of_duckdb(engine: PostgresEngine, where: Filter | None, aggregate: Any) -> None:
    query = Query("t", ("city",), aggregate, where)
    subsets = ((), ("zone",), ("zone", "age"), ("name",))
    other = DuckDBEngine(ROWS, versioned(SCHEMA))
    assert cells(engine, query, subsets) == cells(other, query, subsets)


def test_cells_are_numbered_only_if_they_are_many_and_the_numbers_fit_into_32_bits() -> None:
    columns = {f"c{number}": {"values": [*range(100)]} for number in range(40)}
    declared = {"table": {"name": "t"}, "privacy": {"rho": 1.0}, "columns": columns}
    schema, names = Schema.load(declared), list(columns)
    count = Query("t", (), Aggregate("count"))
    assert suits_row_cells(count, schema, [(name,) for name in names])
    assert not suits_row_cells(count, schema, [(name,) for name in names[:32]])
    assert not suits_row_cells(count, schema, [tuple(names[place : place + 5]) for place in range(33)])
    assert not suits_row_cells(Query("t", (), Aggregate("persons")), schema, [(name,) for name in names])


@pytest.mark.process
def test_texts_are_counted_as_they_are_only_where_they_are_few(
    engine: PostgresEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    by_city = statement(engine, Query("t", ("city",), Aggregate("count")), monkeypatch)
    by_name = statement(engine, Query("t", ("name",), Aggregate("count")), monkeypatch)
    assert "named_cells" in by_city
    assert "named_cells" not in by_name


@pytest.mark.process
def test_an_equality_is_asked_of_the_source_and_its_negation_is_not(
    engine: PostgresEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A text that is undeclared fulfils neither; of the source, it would fulfil the negation."""
    equal, other = (
        statement(engine, Query("t", ("zone",), Aggregate("count"), where), monkeypatch)
        for where in (FILTERS[1], FILTERS[5])
    )
    assert '"city"::text COLLATE "C") IN' in equal
    assert '"city"::text COLLATE "C") IN' not in other


@pytest.fixture
def database(postgres_server: PostgresServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A superuser's connection, whose own tables are in a schema of their own."""
    monkeypatch.setenv("PGPASSWORD", postgres_server.password)
    with psycopg.connect(postgres_server.address(), autocommit=True) as connection:
        connection.execute("DROP ROLE IF EXISTS passer; CREATE SCHEMA odd; SET search_path TO odd, public")
        yield connection
        connection.execute("DROP SCHEMA odd CASCADE; GRANT SELECT ON pg_catalog.pg_stats TO PUBLIC")
        connection.execute("DROP ROLE IF EXISTS passer")


def declared(**columns: list[str]) -> Schema:
    values = {name: {"values": texts} for name, texts in columns.items()}
    return Schema.load({"table": {"name": "t", "version": "1"}, "privacy": {"rho": 1.0}, "columns": values})


def few_texts(engine: PostgresEngine) -> frozenset[str]:
    engine.open()
    return engine._tables[0].few_texts


@pytest.mark.process
def test_texts_are_counted_by_their_bytes_whatever_their_collation_and_padding(
    database: Any, postgres_server: PostgresServer
) -> None:
    database.execute(
        """CREATE COLLATION odd.blind (provider = icu, locale = 'und-u-ks-level1', deterministic = false);
        CREATE TABLE t (v text COLLATE odd.blind, c char(5));
        INSERT INTO t VALUES ('a', 'x'), ('A', 'X'), ('ä', 'x  '), ('a ', NULL), (NULL, 'x'); ANALYZE t"""
    )
    engine = PostgresEngine(address_of(postgres_server, "odd.t"), declared(v=["a", "A"], c=["x"]))
    assert few_texts(engine) == {"v", "c"}
    for where, expected in (
        (None, {(1, 1, 0, 1, 0), (2, 0, 0, 1, 0), (0, 1, 0, 2, 0), (0, 0, 0, 1, 0)}),
        (Comparison("v", "=", "a"), {(1, 1, 0, 1, 0)}),
        (Comparison("c", "=", "x"), {(1, 1, 0, 1, 0), (0, 1, 0, 2, 0)}),
    ):
        assert cells(engine, Query("t", ("v",), Aggregate("count"), where), (("c",),)) == expected
    engine.close()


@pytest.mark.process
def test_a_role_that_may_not_see_statistics_gets_the_same_cells(
    database: Any, postgres_server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    database.execute(
        """CREATE TABLE t (v text); INSERT INTO t VALUES ('a'), ('b'), (NULL); ANALYZE t;
        CREATE ROLE passer LOGIN PASSWORD 'passes'; GRANT USAGE ON SCHEMA odd TO passer;
        GRANT SELECT ON t TO passer; REVOKE SELECT ON pg_catalog.pg_stats FROM PUBLIC"""
    )
    monkeypatch.setenv("PGPASSWORD", "passes")
    engine = PostgresEngine(address_of(postgres_server, "odd.t", user="passer"), declared(v=["a"]))
    assert not few_texts(engine)
    found = cells(engine, Query("t", ("v",), Aggregate("count")), ((),))
    assert found == {(1, 0, 1, 0), (0, 0, 2, 0)}
    engine.close()
    database.execute("DROP OWNED BY passer")


@pytest.mark.process
def test_the_many_texts_of_inherited_rows_are_not_taken_for_few(
    database: Any, postgres_server: PostgresServer
) -> None:
    """They are counted as a share of rows, of which the table that others inherit from has none itself."""
    database.execute(
        """CREATE TABLE t (v text); CREATE TABLE part () INHERITS (t);
        INSERT INTO part SELECT 'name ' || i FROM generate_series(1, 500) AS i; ANALYZE t"""
    )
    engine = PostgresEngine(address_of(postgres_server, "odd.t"), declared(v=["name 1"]))
    assert not few_texts(engine)
    engine.close()
