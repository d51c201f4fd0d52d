"""PostgreSQL: values that its casts fail on, roles, collations, time limits, cancellation, secrets."""

from __future__ import annotations

import logging
import sys
import threading
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pytest
from engine_openers import address_of, fits, versioned, write_table

import dpxplain as dpx
from dpxplain.engines.duckdb import DuckDBEngine
from dpxplain.engines.engine import Engine
from dpxplain.engines.opening import postgres_catalog, source_figures
from dpxplain.engines.postgres_engine import PostgresEngine
from dpxplain.errors import BadRequest, SchemaError, SourceError
from dpxplain.model.process import Stop, Stopped, stoppable
from dpxplain.model.query import ENCODED, Aggregate, Query
from dpxplain.model.schema import Schema
from postgres_server import PostgresServer

CANARY = "31337.125"
Database = psycopg.Connection[Any]


def declare(columns: dict[str, Any], table: str = "t", **privacy: Any) -> Schema:
    return Schema.load(
        {
            "table": {"name": table, "version": "1"},
            "privacy": {"rho": 1.0, **privacy},
            "columns": columns,
        }
    )


@pytest.fixture
def database(postgres_server: PostgresServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[Database]:
    """A superuser's connection; the tables that a test makes are gone after it."""
    monkeypatch.setenv("PGPASSWORD", postgres_server.password)
    with psycopg.connect(postgres_server.address(), autocommit=True) as connection:
        yield connection
        connection.execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
        connection.execute("GRANT USAGE ON SCHEMA public TO PUBLIC")


def opened(server: PostgresServer, schema: Schema, **options: Any) -> PostgresEngine:
    engine = PostgresEngine(address_of(server, schema.table.name, **options), schema)
    engine.open()
    return engine


def codes(engine: Engine, name: str) -> dict[int, int]:
    grouped = engine.grouped(Query("t", (), Aggregate("count")), ((name,),)).reveal()
    return dict(zip(grouped.codes[name].tolist(), grouped.count.tolist(), strict=True))


def total(engine: Engine, name: str) -> tuple[int, int]:
    grouped = engine.grouped(Query("t", (), Aggregate("sum", name)), ((),)).reveal()
    return int(grouped.count.sum()), int(grouped.total.sum())


def test_no_number_that_a_column_can_hold_stops_a_pass(
    database: Database, postgres_server: PostgresServer
) -> None:
    """Beyond a double, below it, and what arithmetic would call an underflow."""
    database.execute(
        """CREATE TABLE t (n numeric, f float8, r real, x int8, g float8 DEFAULT 1e-91);
        INSERT INTO t VALUES ('1e400', '5e-324', '1e-45', 9223372036854775807),
            ('-1e400', '-5e-324', 'Infinity', -9223372036854775808), ('1e-400', '1.7e308', '-0', 0),
            ('NaN', 'NaN', 'NaN', NULL), ('Infinity', 'Infinity', '-Infinity', 1),
            ('-Infinity', '-Infinity', '3.4e38', 2), (NULL, NULL, NULL, NULL)"""
    )
    schema = declare(
        {
            "n": {"bounds": [0, 1e100]},
            "f": {"bounds": [0, 1e100]},
            "r": {"edges": [-1, 0, 1]},
            "x": {"bounds": [-5, 5], "step": 1},
            "g": {"bounds": [0, 1e-90]},
            "w": {"expression": "g * g * g * g"},
        }
    )
    engine = opened(postgres_server, schema)
    reach = schema.columns["n"].grid.high
    assert total(engine, "n") == (5, 2 * reach)
    assert total(engine, "f") == (5, 2 * reach)
    assert codes(engine, "r") == {0: 5, 1: 1, 2: 1}
    assert total(engine, "x") == (5, 3)
    assert total(engine, "w") == (7, 0)
    engine.close()


def test_no_date_that_a_column_can_hold_stops_a_pass(
    database: Database, postgres_server: PostgresServer
) -> None:
    database.execute(
        """CREATE TABLE t (d date, s timestamp, z timestamptz);
        INSERT INTO t VALUES ('infinity', 'infinity', 'infinity'), ('-infinity', '-infinity', '-infinity'),
            ('4713-01-01 BC', '4713-01-01 BC', '4714-11-24 00:00:00+00 BC'), (NULL, NULL, NULL),
            ('5874897-12-31', '294276-12-31 23:59:59.999999', '294276-12-31 23:59:59.999999+00'),
            ('2025-03-01', '2025-03-01 00:00:00.000001', '2025-03-01 04:59:59.999999+00')"""
    )
    edges = ["2025-01-01", "2025-03-01", "2026-01-01"]
    zoned = {"edges": edges, "time_zone": "America/New_York"}
    schema = declare(
        {
            "d": {"edges": edges},
            "s": {"edges": edges},
            "z": zoned,
            "y": {"expression": "EXTRACT(year FROM z)"},
        }
    )
    engine = opened(postgres_server, schema)
    assert codes(engine, "d") == {0: 5, 1: 1}
    assert codes(engine, "s") == {0: 5, 2: 1}
    assert codes(engine, "z") == {0: 5, 1: 1}
    assert codes(engine, "y") == {0: 5, 1: 1}
    engine.close()


def test_padding_and_collations_do_not_make_different_texts_equal(
    database: Database, postgres_server: PostgresServer
) -> None:
    database.execute(
        """CREATE COLLATION blind (provider = icu, locale = 'und-u-ks-level1', deterministic = false);
        CREATE DOMAIN short AS char(4);
        CREATE TYPE mood AS ENUM ('ok', 'sad');
        CREATE TABLE t (c char(5), v text COLLATE blind, d short, m mood, person text COLLATE blind);
        INSERT INTO t VALUES ('a', 'a', 'x', 'ok', 'ann'), ('A', 'A', 'X', 'sad', 'ANN'),
            ('a  ', 'ä', 'x ', NULL, 'änn')"""
    )
    columns = {name: {"values": ["a", "x", "ok"]} for name in ("c", "v", "d", "m")}
    engine = opened(postgres_server, declare(columns, unit="person", max_rows=1))
    assert codes(engine, "c") == {0: 1, 1: 2}
    assert codes(engine, "v") == {0: 2, 1: 1}
    assert codes(engine, "d") == {0: 1, 2: 2}
    assert codes(engine, "m") == {0: 2, 3: 1}
    persons = engine.grouped(Query("t", (), Aggregate("persons")), ((),)).reveal()
    assert persons.count.tolist() == [3]
    engine.close()
    database.execute("DROP TABLE t; DROP COLLATION blind")


def test_a_role_that_may_only_read_the_declared_columns_suffices(
    database: Database, postgres_server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    database.execute(
        """CREATE TABLE t (sex text, pay float8, secret text);
        INSERT INTO t VALUES ('F', 1, 'x'), ('M', 2, 'y');
        DROP ROLE IF EXISTS reader; CREATE ROLE reader LOGIN PASSWORD 'reads';
        GRANT SELECT (sex, pay) ON t TO reader; REVOKE TEMPORARY ON DATABASE postgres FROM PUBLIC"""
    )
    monkeypatch.setenv("PGPASSWORD", "reads")
    columns: dict[str, Any] = {"sex": {"values": ["F", "M"]}, "pay": {"bounds": [0, 9], "step": 1}}
    engine = opened(postgres_server, declare(columns), user="reader")
    assert codes(engine, "sex") == {1: 1, 2: 1}
    assert fits(engine)[0] == [2, 0, 0, 2, 0, 0, 0]
    engine.close()
    with pytest.raises(SourceError, match="no permission to read secret") as refused:
        opened(postgres_server, declare(columns | {"secret": {"values": ["x"]}}), user="reader")
    assert "GRANT SELECT" in refused.value.remedy
    with pytest.raises(SourceError, match="cannot store its copy of t"):
        opened(postgres_server, versioned(declare(columns), storage="memory"), user="reader")
    database.execute("DROP TABLE t; DROP ROLE reader; GRANT TEMPORARY ON DATABASE postgres TO PUBLIC")


def test_a_failing_pass_says_nothing_of_the_data_or_of_the_server(
    database: Database,
    postgres_server: PostgresServer,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """A view whose cast fails on a value: PostgreSQL's message quotes it."""
    database.execute(
        f"""CREATE TABLE texts (x text); INSERT INTO texts VALUES ('{CANARY} is no number');
        CREATE VIEW t AS SELECT x::float8 AS pay FROM texts;
        CREATE FUNCTION noisy() RETURNS float8 LANGUAGE plpgsql AS
            $$ BEGIN RAISE WARNING '{CANARY}'; RETURN 1; END $$;
        CREATE VIEW loud AS SELECT noisy() AS pay"""
    )
    with caplog.at_level(logging.DEBUG):
        engine = opened(postgres_server, declare({"pay": {"bounds": [0, 1]}}))
        for measure in (lambda: total(engine, "pay"), lambda: fits(engine), engine.figures):
            with pytest.raises(SourceError, match="could not answer") as failed:
                measure()
            printed = "".join(traceback.format_exception(failed.value))
            assert CANARY not in printed + repr(failed.value.args)
            assert failed.value.__context__ is None
            assert failed.value.__cause__ is None
            frames = [frame.f_locals for frame, _ in traceback.walk_tb(failed.value.__traceback__)]
            assert CANARY not in repr([list(map(repr, frame.values())) for frame in frames[1:]])
        loud = opened(postgres_server, declare({"pay": {"bounds": [0, 1]}}, "loud"))
        assert total(loud, "pay")[0] == 1
    assert CANARY not in caplog.text + "".join(capfd.readouterr())
    engine.close()
    loud.close()


def slow_table(database: Database) -> Schema:
    database.execute("CREATE VIEW t AS SELECT 1 AS x FROM pg_sleep(60)")
    return declare({"x": {"values": [1]}})


@pytest.mark.parametrize("view", ["tables", "columns"])
def test_a_catalog_that_cannot_be_read_is_refused_without_the_servers_words(
    database: Database, postgres_server: PostgresServer, monkeypatch: pytest.MonkeyPatch, view: str
) -> None:
    database.execute(
        """CREATE TABLE t (x int);
        DROP ROLE IF EXISTS reader; CREATE ROLE reader LOGIN PASSWORD 'reads';
        GRANT SELECT ON t TO reader"""
    )
    monkeypatch.setenv("PGPASSWORD", "reads")
    address = address_of(postgres_server, "t", "reader")
    assert [column.name for column in postgres_catalog(address).columns] == ["x"]
    database.execute(f"REVOKE SELECT ON information_schema.{view} FROM PUBLIC")
    try:
        with pytest.raises(SourceError) as refused:
            postgres_catalog(address)
    finally:
        database.execute(f"GRANT SELECT ON information_schema.{view} TO PUBLIC")
    assert refused.value.problem == "The database's catalog cannot be read."
    assert "permission denied" not in "".join(traceback.format_exception(refused.value))
    assert refused.value.__context__ is None
    database.execute("DROP TABLE t; DROP ROLE reader")


def test_a_catalog_cannot_be_read_without_psycopg(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    monkeypatch.delitem(sys.modules, "dpxplain.engines.postgres_engine")
    with pytest.raises(SourceError, match="needs the package psycopg"):
        postgres_catalog("postgresql://reader@host/db")


def test_a_statement_ends_at_its_time_limit(database: Database, postgres_server: PostgresServer) -> None:
    schema = slow_table(database)
    engine = PostgresEngine(address_of(postgres_server, "t"), schema, time_limit=0.2)
    with pytest.raises(SourceError, match=r"longer than 0\.2 s"):
        codes(engine, "x")
    running = database.execute("SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%pg_sleep%(60)'")
    assert running.fetchone() == (0,)
    engine.close()


def test_a_pass_is_cancelled_when_its_caller_goes(
    database: Database, postgres_server: PostgresServer
) -> None:
    engine, stop = opened(postgres_server, slow_table(database)), Stop()
    is_running = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'"

    def ask() -> None:
        with psycopg.connect(postgres_server.address(), autocommit=True) as other:
            while other.execute(is_running).fetchone() == (0,):
                pass
        stop.request()

    asking = threading.Thread(target=ask)
    asking.start()
    with stoppable(stop), pytest.raises(Stopped):
        codes(engine, "x")
    asking.join()
    assert database.execute(is_running).fetchone() == (0,)
    database.execute("CREATE OR REPLACE VIEW t AS SELECT 1 AS x")
    assert codes(engine, "x") == {1: 1}
    engine.close()


def test_rows_that_were_stored_are_stored_again_after_a_pass_was_stopped(
    database: Database, postgres_server: PostgresServer
) -> None:
    database.execute("CREATE TABLE t AS SELECT 1 AS x FROM generate_series(1, 3)")
    engine = opened(postgres_server, versioned(declare({"x": {"values": [1]}}), storage="memory"))
    stop = Stop()
    stop.request()
    with stoppable(stop), pytest.raises(Stopped):
        codes(engine, "x")
    with engine._connection() as connection:  # of a request that had been waiting for its turn
        assert connection.execute(f"SELECT count(*) FROM {ENCODED}").fetchone() == (3,)
    assert codes(engine, "x") == {1: 3}
    engine.close()


def test_a_pass_sees_one_snapshot_and_writes_nothing(
    database: Database, postgres_server: PostgresServer
) -> None:
    database.execute(
        """CREATE TABLE log (n int);
        CREATE FUNCTION traced() RETURNS int LANGUAGE plpgsql VOLATILE AS
            $$ BEGIN INSERT INTO log VALUES (1); RETURN 1; END $$;
        CREATE VIEW t AS SELECT traced() AS x"""
    )
    engine = opened(postgres_server, declare({"x": {"values": [1]}}))
    with pytest.raises(SourceError, match="could not answer"):
        codes(engine, "x")
    assert database.execute("SELECT count(*) FROM log").fetchone() == (0,)
    engine.close()


@pytest.mark.parametrize(
    "source",
    [
        "postgresql://ann:hunter2@host/db",
        "postgresql://ann@host/db?password=hunter2",
        "postgresql://ann@host/db?pass%77ord=hunter2",
        "postgres://:hunter2@host/db",
        "postgresql://ann@host/db?sslpassword=hunter2",
    ],
)
def test_a_password_in_a_source_is_refused_unrepeated(source: str, tmp_path: Path) -> None:
    declared = {"privacy": {"rho": 1.0}, "columns": {"x": {"values": ["a"]}}}
    with pytest.raises(SchemaError, match="password") as refused:
        Schema.load({"table": {"name": "t", "version": "1", "source": source}, **declared})
    with pytest.raises(SourceError) as unopened:
        dpx.connect(source, {"table": {"name": "t", "version": "1"}, **declared}, workspace=tmp_path / "w")
    for error in (refused.value, unopened.value):
        assert "hunter2" not in "".join(traceback.format_exception(error))


def test_a_table_without_a_declared_version_is_refused(postgres_server: PostgresServer) -> None:
    schema = Schema.load(
        {"table": {"name": "t"}, "privacy": {"rho": 1.0}, "columns": {"x": {"values": ["a"]}}}
    )
    with pytest.raises(SchemaError, match=r"table\.version") as refused:
        PostgresEngine(address_of(postgres_server, "t"), schema)
    assert "change it whenever the rows change" in refused.value.remedy


def test_what_cannot_be_read_is_refused_before_anything_is_charged(
    database: Database, postgres_server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    database.execute(
        "CREATE TABLE t (day text, f float8, x int); CREATE SCHEMA other; CREATE TABLE other.t (x int)"
    )
    whole: dict[str, Any] = {"x": {"bounds": [0, 1], "step": 1}}
    refused: list[tuple[Schema, str, str]] = [
        (declare(whole, "nowhere"), "nowhere", "no tables called nowhere"),
        (declare(whole | {"y": {"values": ["a"]}}), "t", "no such column"),
        (declare({"x": {"values": ["a"]}}), "t", "contains numbers"),
        (declare({"day": {"edges": ["2025-01-01", "2026-01-01"]}}), "t", "is a text column in PostgreSQL"),
        (declare(whole, unit="f", max_rows=1), "t", "privacy.unit"),
    ]
    for schema, table, words in refused:
        engine = PostgresEngine(address_of(postgres_server, table), schema)
        with pytest.raises(BadRequest) as error:
            engine.open()
        assert words in error.value.problem
        with pytest.raises(SourceError) as told:
            engine.source.check_readable()  # for an analyst, who is not told which columns there are
        assert "The source has" not in str(told.value)
        engine.close()
    opened(postgres_server, declare(whole, "other.t")).close()
    monkeypatch.setenv("PGPASSWORD", "wrong")
    with pytest.raises(SourceError, match="cannot be reached") as unreachable:
        opened(postgres_server, declare(whole))
    assert "wrong" not in "".join(traceback.format_exception(unreachable.value))
    database.execute("DROP SCHEMA other CASCADE")


FLIGHTS = pa.table(
    {
        "carrier": ["AA", "UA", "AA", None, "DL", "aa"] * 20,
        "origin": ["JFK", "EWR", "LGA", "jfk", None] * 24,
        "delay": pa.array([1.5, -3.0, 700.0, None, 22.25, 0.0] * 20),
        "plane": [f"N{i % 17}" for i in range(120)],
    }
)
FLIGHTS_SCHEMA: dict[str, Any] = {
    "table": {"name": "flights", "version": "2026-11"},
    "privacy": {"rho": 50.0, "unit": "plane", "max_rows": 3},
    "columns": {
        "carrier": {"values": ["AA", "UA", "DL"]},
        "origin": {"values": ["JFK", "EWR", "LGA"], "null": True},
        "delay": {"bounds": [-10, 60], "step": 0.25},
        "late": {"expression": "CASE WHEN delay > 15 THEN 1 ELSE 0 END"},
    },
}


@pytest.mark.parametrize("storage", ["auto", "memory"])
def test_the_three_phases_give_the_same_true_values_as_duckdb(
    storage: str, database: Database, postgres_server: PostgresServer, tmp_path: Path
) -> None:
    write_table(database, "flights", FLIGHTS)
    schema = FLIGHTS_SCHEMA | {"table": FLIGHTS_SCHEMA["table"] | {"storage": storage}}
    truths = []
    for place, source in enumerate((address_of(postgres_server, "flights"), FLIGHTS)):
        seeded = {"workspace": tmp_path / str(place), "insecure_seed": 7, "curator": True}
        with dpx.connect(source, schema, **seeded) as session:
            answers = [
                session.query(f"SELECT carrier, {what} FROM flights GROUP BY carrier", rho=1.0)
                for what in ("AVG(delay)", "SUM(late)", "VAR_SAMP(delay)", "COUNT(DISTINCT plane)")
            ]
            question = answers[0].why("AA", "UA")
            table = question.explain(k=2, rho=1.0)
            session.quality(rho=1.0)
            assert len(list(table)) == 2
            truths.append(
                ([str(answer.truth()) for answer in answers], str(question.truth().to_pandas().to_csv()))
            )
    assert truths[0] == truths[1]


def test_a_schema_check_tells_the_same_of_both(database: Database, postgres_server: PostgresServer) -> None:
    write_table(database, "flights", FLIGHTS)
    schema = Schema.load(FLIGHTS_SCHEMA)
    assert source_figures(address_of(postgres_server, "flights"), schema) == source_figures(FLIGHTS, schema)


def test_fit_counts_are_those_of_duckdb(database: Database, postgres_server: PostgresServer) -> None:
    write_table(database, "flights", FLIGHTS)
    schema = Schema.load(FLIGHTS_SCHEMA)
    ours, theirs = opened(postgres_server, schema), DuckDBEngine(FLIGHTS, schema)
    assert fits(ours) == fits(theirs)
    ours.close()
    theirs.close()
