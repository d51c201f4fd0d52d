"""Spark against DuckDB on the same rows, bit for bit, and what only Spark can get wrong.

The whole contract is in test_spark_contract.py (slow); here are few passes, each with many hard values. What
is not marked slow runs in `make test`, on local[2].
"""

from __future__ import annotations

import decimal
import itertools
import logging
import math
import threading
import traceback
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from engine_openers import fits, versioned
from engine_oracle import answered, expected
from sqlglot import parse_one
from test_engine_contract import ODD_ROWS, SCHEMA, declare, table_of

import dpxplain as dpx
from dpxplain.engines import spark_dialect
from dpxplain.engines.duckdb import DuckDBEngine
from dpxplain.engines.engine import Engine
from dpxplain.engines.spark import SparkEngine, _Materialised
from dpxplain.errors import SchemaError, SourceError
from dpxplain.model.process import Stop, Stopped, stoppable
from dpxplain.model.query import (
    Aggregate,
    And,
    Comparison,
    Filter,
    Histogram,
    IsNull,
    Membership,
    Not,
    Or,
    Persons,
    Query,
)
from dpxplain.model.schema import Schema
from dpxplain.sql import render
from dpxplain.sql.render import for_spark

AMOUNTS = [
    None if text is None else decimal.Decimal(text)
    for text in ("0.29", "-7.005", "99999999999999999999999999999999.99", None, "0", "1e10")
]
DAYS = [date(2025, 3, 9), date(1, 1, 1), date(9999, 12, 31), None, date(1970, 1, 1), date(1969, 12, 31)]
HARD = pa.table(
    {
        "a": ["x", "y", None, "é", "X", "x "],
        "big": [1, 2, 3, None, 2**63 - 1, -(2**63)],
        "q`u.o\"te": ["it's", "\\", "%_", "a", "'; --", None],
        "amount": pa.array(AMOUNTS, pa.decimal128(38, 3)),
        "day": DAYS,
        # 02:30 does not exist on that day in New York.
        "local": pa.array(
            [datetime(2025, 3, 9, 2, 30), None, datetime(1600, 2, 29), datetime(2025, 3, 9, 2, 30, 0, 1),
             datetime(2025, 11, 2, 1, 30), datetime(9999, 12, 31, 23, 59, 59, 999999)],
            pa.timestamp("us"),
        ),
        "moment": pa.array(
            [datetime(2025, 3, 9, 6, 59, 59, 999999, UTC), datetime(2025, 3, 9, 7, 0, tzinfo=UTC), None,
             datetime(2025, 11, 2, 5, 30, tzinfo=UTC), datetime(2025, 11, 2, 6, 30, tzinfo=UTC),
             datetime(1970, 1, 1, tzinfo=UTC)],
            pa.timestamp("us", tz="UTC"),
        ),
        "recent": pa.array(
            [datetime(2025, 3, 9, 2, 30), datetime(2025, 3, 9, 23, 59, 59, 1), datetime(2025, 3, 10), None,
             datetime(2025, 3, 1, 0, 0, 0, 1), datetime(2024, 2, 29)],
            pa.timestamp("us"),
        ),
        "flag": [True, False, None, True, False, True],
        "rate": [math.nan, -0.0, math.inf, -math.inf, 5e-324, 0.30000000000000004],
        "small": pa.array([0.1, None, math.nan, 1e30, -1e30, 0.5], pa.float32()),
        "person": [1, 1, 2, 2, 2, None],
    }
)  # fmt: skip
DECLARED: dict[str, Any] = {
    "a": {"values": ["x", "é", "z"], "null": True},
    "big": {"values": [1, 2**63 - 1, -(2**63)]},
    'q`u.o"te': {"values": ["it's", "\\", "%_", "'; --"]},
    "amount": {"bounds": [-10, 50], "step": 0.01},
    "day": {"edges": ["0001-01-01", "1970-01-01", "2025-03-09", "9999-12-31"], "null": True},
    "local": {"edges": ["1600-02-29", "2025-03-09 02:30:00", "2025-11-02", "9999-12-31 23:59:59.999999"]},
    "moment": {"edges": ["1970-01-01", "2025-03-09", "2025-11-02 01:30:00"], "time_zone": "America/New_York"},
    "flag": {"values": [True, False]},
    "rate": {"edges": [-1, 0, 0.30000000000000004, 1], "bounds": [-1, 1]},
    "small": {"bounds": [-2, 2]},
    "recent": {"bounds": ["2025-03-01", "2025-03-20 12:00:00"]},
    "hour": {"expression": "EXTRACT(hour FROM local) + EXTRACT(dow FROM day) * 100"},
    "week": {"expression": "DATE_TRUNC('week', recent)"},
    "since": {"expression": "DATE_DIFF('hour', recent, CAST('2025-03-09' AS DATE))"},
    "next": {"expression": "DATE_TRUNC('day', recent + INTERVAL '1' MONTH - INTERVAL '90' MINUTE)"},
    "loud": {"expression": "UPPER(a)"},
    "half": {"expression": "ROUND(rate * 3, 1) + FLOOR(small) % 2"},
}


def cells(engine: Engine, query: Query, subsets: tuple[tuple[str, ...], ...]) -> list[Any]:
    """The answer in an order of its own."""
    grouped = engine.grouped(query, subsets).reveal()
    arrays = [*(grouped.codes[name] for name in sorted(grouped.codes)), grouped.subset]
    rows = zip(*(a.tolist() for a in (*arrays, grouped.count, grouped.total)), strict=True)
    return sorted(row for row in rows if row[-2])


@contextmanager
def spark_engine(session: Any, table: pa.Table, schema: Schema, **declared: Any) -> Iterator[SparkEngine]:
    with closing(SparkEngine(session.createDataFrame(table), versioned(schema, **declared))) as engine:
        yield engine


@contextmanager
def settings(session: Any, **values: str) -> Iterator[None]:
    names = {name.replace("_", "."): value for name, value in values.items()}
    before = {name: session.conf.get(name) for name in names}
    for name, value in names.items():
        session.conf.set(name, value)
    yield
    for name, value in before.items():
        session.conf.set(name, value)


def queries() -> Iterator[tuple[Query, tuple[tuple[str, ...], ...]]]:
    """Few passes over everything that is declared in DECLARED."""
    schema = declare(DECLARED)
    yield Query("t", (), Aggregate("count")), tuple((name,) for name in schema.discrete())
    asked = And((Not(Comparison("a", "=", "x")), Or((IsNull("a"), Comparison("amount", "<", 0.3)))))
    yield Query("t", ("flag",), Aggregate("sum", "amount"), asked), (("day", "local"), ("moment",), ())
    yield Query("t", (), Aggregate("var_pop", "rate"), Membership("big", (1, 2**63 - 1))), (("a",),)
    yield Query("t", ("a",), Histogram("quantile", "small", 2**20)), ((),)
    yield (
        Query("t", ("DATE_TRUNC('hour', recent) > day",), Aggregate("sum", "rate * small + half")),
        ((), ("a",)),
    )


@pytest.mark.parametrize(
    ("ansi", "zone"),
    [
        pytest.param("true", "UTC", id="ansi"),
        pytest.param("false", "America/New_York", id="legacy", marks=pytest.mark.slow),
    ],
)
def test_hard_values_are_counted_as_by_duckdb_whatever_the_session_is_set_to(
    spark_session: Any, tmp_path: Path, ansi: str, zone: str
) -> None:
    file, schema = tmp_path / "hard.parquet", declare(DECLARED)
    pq.write_table(HARD, file)
    with (
        settings(spark_session, spark_sql_ansi_enabled=ansi, spark_sql_session_timeZone=zone),
        closing(DuckDBEngine(HARD, schema)) as duckdb,
        closing(SparkEngine(spark_session.read.parquet(str(file)), versioned(schema))) as spark,
    ):
        for query, subsets in queries():
            assert cells(spark, query, subsets) == cells(duckdb, query, subsets), query
        assert fits(spark) == fits(duckdb)


@pytest.mark.slow
def test_numbered_cells_of_hard_values_are_those_of_duckdb(
    spark_session: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As wide passes count and encode them."""
    monkeypatch.setattr(render, "_FEW_SETS", 1)
    monkeypatch.setattr(spark_dialect, "_MOST_FIELDS", 0)
    schema = declare(DECLARED)
    variance = Query("t", ("flag",), Aggregate("var_pop", "rate"), Membership("big", (1, 2**63 - 1)))
    counted = Query("t", ("flag",), Aggregate("count", "day"))
    subsets = (("moment", "a", "local"), (), ("a",), ("local", "day"))
    with closing(DuckDBEngine(HARD, schema)) as duckdb, spark_engine(spark_session, HARD, schema) as spark:
        for query, parts in (*queries(), (variance, subsets), (counted, subsets)):
            assert cells(spark, query, parts) == cells(duckdb, query, parts), query


@pytest.mark.slow
def test_random_rows_and_filters_follow_the_oracle(spark_session: Any) -> None:
    filters: list[Filter | None] = [
        None,
        And((Comparison("age", ">=", 10.5), Not(IsNull("kids")))),
        Or(
            (Membership("city", ("north", "it's")), Comparison("pay", "<>", 0.29), Comparison("kids", ">", 0))
        ),
    ]
    subsets = tuple(itertools.combinations([name for name in SCHEMA.discrete() if name != "sex"], 1))
    with spark_engine(spark_session, table_of(ODD_ROWS), SCHEMA) as engine:
        for where, aggregate in zip(filters, ("sum", "count", "avg"), strict=True):
            query = Query("t", ("sex",), Aggregate(aggregate, "pay"), where)  # type: ignore[arg-type]
            answer = answered(query, subsets, engine.grouped(query, subsets).reveal())  # type: ignore[arg-type]
            assert answer == expected(query, subsets, ODD_ROWS, SCHEMA)


PEOPLE = declare(
    {"g": {"values": ["a", "b"]}, "x": {"bounds": [0, 1000], "step": 1}, "y": {"edges": [0, 1, 2]}},
    unit="person",
    max_rows=2,
)


@pytest.mark.parametrize(
    "storage",
    ["auto", pytest.param("memory", marks=pytest.mark.slow), pytest.param("file", marks=pytest.mark.slow)],
)
def test_the_same_rows_of_a_person_are_chosen_as_by_duckdb(spark_session: Any, storage: str) -> None:
    rows = [(i % 7 or None, "abz"[i % 3], i * i % 11, (i % 5) / 2 or math.nan) for i in range(60)]
    person, g, x, y = (list(column) for column in zip(*rows, strict=True))
    table = pa.table({"person": person, "g": g, "x": x, "y": y})
    before = spark_session.catalog.listTables()
    with (
        closing(DuckDBEngine(table, PEOPLE)) as duckdb,
        spark_engine(spark_session, table, PEOPLE, storage=storage) as spark,
    ):
        for aggregate in (Aggregate("sum", "x"), Persons("persons", None, "person")):
            query = Query("t", ("g",), aggregate)
            assert cells(spark, query, (("y",), ())) == cells(duckdb, query, (("y",), ()))
        assert fits(spark) == fits(duckdb)
    assert spark_session.catalog.listTables() == before, "a view or table was left behind"


@pytest.mark.slow
@pytest.mark.parametrize("storage", ["memory", "file"])
def test_rows_that_were_stored_until_it_failed_are_dropped(
    spark_session: Any, storage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill = _Materialised.fill

    def fill_and_fail(*arguments: Any) -> None:
        fill(*arguments)
        raise RuntimeError

    monkeypatch.setattr(_Materialised, "fill", fill_and_fail)
    before = spark_session.catalog.listTables()
    rows = pa.table({"person": ["p"], "g": ["a"], "x": [1], "y": [1.0]})
    with spark_engine(spark_session, rows, PEOPLE, storage=storage) as engine, pytest.raises(SourceError):
        engine.open()
    assert spark_session.catalog.listTables() == before


@pytest.mark.slow
def test_names_that_spark_takes_for_one_padded_texts_and_collations_are_told_apart(
    spark_session: Any,
) -> None:
    table = pa.table({"a": ["x", "X"], "A": [1, 2]})
    columns = {"a": {"values": ["x", "X"]}, "A": {"values": [2, 1]}}
    with spark_engine(spark_session, table, declare(columns)) as engine:
        assert cells(engine, Query("t", ("a", "A"), Aggregate("count")), ((),)) == [
            (1, 2, 0, 1, 0),
            (2, 1, 0, 1, 0),
        ]
    spark_session.sql("CREATE TABLE odd (c CHAR(5), k STRING COLLATE UTF8_LCASE) USING parquet")
    try:
        spark_session.sql("INSERT INTO odd VALUES ('ab', 'a'), ('ab ', 'A')")
        schema = versioned(declare({"c": {"values": ["ab"]}, "k": {"values": ["A", "a"]}}), name="odd")
        for source in (spark_session, (spark_session, "spark_catalog.default.odd")):
            with closing(SparkEngine(source, schema)) as engine:
                found = cells(engine, Query("odd", ("c",), Aggregate("count")), (("k",),))
                assert found == [(1, 1, 0, 1, 0), (1, 2, 0, 1, 0)]
    finally:
        spark_session.sql("DROP TABLE odd")


def test_texts_are_found_by_their_bytes_however_many_are_declared(spark_session: Any) -> None:
    """Up to 64 by comparisons, in an order that neither UTF-16 nor a locale has; of more, by checksums."""
    odd = [
        "",
        " ",
        "a",
        "A",
        "a ",
        "aa",
        "é",
        "e\u0301",
        "\uffee",
        "\U0001f600",
        "\x7f",
        "\x80",
        "ß",
        "ss",
        "'",
        "\\",
    ]
    texts = [*odd, *(f"n{i}" for i in range(70))]
    rows = pa.table({"a": [None, *texts, *texts[::3]], "b": [*texts, *texts[::3], None]})
    for number in (7, 16, 40, 80):
        columns = {name: {"values": texts[place:number:2]} for place, name in enumerate("ab")}
        schema = declare(columns)
        with (
            closing(DuckDBEngine(rows, schema)) as duckdb,
            spark_engine(spark_session, rows, schema) as spark,
        ):
            query = Query("t", ("a",), Aggregate("count"))
            assert cells(spark, query, (("b",),)) == cells(duckdb, query, (("b",),)), number
            assert cells(spark, COUNT, ((),)) == [(0, rows.num_rows, 0)]


def test_a_sum_beyond_64_bits_ends_there(spark_session: Any) -> None:
    """Spark's own would turn around, or fail where others do not."""
    text = for_spark(parse_one("CAST(SUM(x) AS BIGINT)")).sql("spark")
    rows = f"(SELECT EXPLODE(ARRAY({2**63 - 1}L, {2**63 - 1}L, 5L)) AS x)"
    found = spark_session.sql(
        f"SELECT {text} AS high, {text.replace('x', '(-x)')} AS low FROM {rows}"
    ).collect()
    assert found[0] == (2**63 - 1, -(2**63))
    assert spark_session.sql(f"SELECT {text} FROM {rows} WHERE x = 0").collect()[0][0] == 0


SECRET = "31337"


def test_an_error_of_spark_says_nothing_of_the_data(
    spark_session: Any, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    broken = spark_session.sql(f"SELECT CAST(CONCAT('x', '{SECRET}', id) AS BIGINT) AS x FROM RANGE(3)")
    with (
        settings(spark_session, spark_sql_ansi_enabled="true"),
        caplog.at_level(logging.DEBUG, "SQLQueryContextLogger"),
        closing(SparkEngine(broken, versioned(declare({"x": {"bounds": [0, 1]}})))) as engine,
        pytest.raises(SourceError, match="Spark could not answer") as caught,
    ):
        engine.grouped(Query("t", (), Aggregate("sum", "x")), ((),))
    shown = "".join(traceback.format_exception(caught.value)) + caplog.text + "".join(capfd.readouterr())
    assert SECRET not in shown
    assert "py4j" not in shown
    assert caught.value.__context__ is None
    assert caught.value.__cause__ is None
    assert SECRET not in f"{engine!r} {vars(engine)}"


@pytest.fixture
def endless(spark_session: Any) -> Iterator[SparkEngine]:
    """Over rows that take longer than any test."""
    frame = spark_session.range(10**12).selectExpr("CAST(id % 2 AS STRING) AS x")
    with closing(SparkEngine(frame, versioned(declare({"x": {"values": ["0"]}})), time_limit=3)) as engine:
        yield engine


COUNT = Query("t", (), Aggregate("count"))


@pytest.mark.slow
def test_a_statement_beyond_its_time_limit_is_ended(endless: SparkEngine, spark_session: Any) -> None:
    with pytest.raises(SourceError, match="longer than 3 s"):
        endless.grouped(COUNT, ((),))
    assert not spark_session.sparkContext.statusTracker().getActiveStageIds()
    assert not spark_session.sparkContext.getJobTags()


def test_a_statement_ends_when_its_caller_goes(endless: SparkEngine, spark_session: Any) -> None:
    endless._time_limit = 60
    stop, started = Stop(), threading.Event()
    tracker = spark_session.sparkContext.statusTracker()

    def ask_when_it_runs() -> None:
        while not tracker.getActiveStageIds() and not started.wait(0.05):
            pass
        stop.request()

    asking = threading.Thread(target=ask_when_it_runs)
    asking.start()
    with stoppable(stop), pytest.raises(Stopped):
        endless.grouped(COUNT, ((),))
    started.set()
    asking.join(60)
    assert not tracker.getActiveStageIds()


def test_what_cannot_be_opened_is_refused_without_spark_s_words(spark_session: Any) -> None:
    numbers = declare({"x": {"bounds": [0, 1]}})
    frame = spark_session.sql("SELECT 'a' AS x, 1.5D AS person")
    refusals = [
        ((spark_session, "no.such.table"), versioned(numbers), SourceError, "no table 'no.such.table'"),
        (frame, versioned(numbers), SchemaError, "declared with numbers, but it contains text"),
        (frame, numbers, SchemaError, "table.version is missing"),
        (
            frame,
            versioned(declare({"x": {"values": ["a"]}}, unit="person")),
            SchemaError,
            "different databases write",
        ),
    ]
    for source, schema, kind, words in refusals:
        with pytest.raises(kind, match=words), closing(SparkEngine(source, schema)) as engine:
            engine.open()


def test_a_session_on_a_spark_dataframe_answers_explains_and_checks_as_on_an_arrow_table(
    spark_session: Any, tmp_path: Path
) -> None:
    rows = pa.table({"g": ["a", "b", "b"] * 40, "h": ["x", "y", "z", "y"] * 30, "v": [1, 4, 2, 8, 5] * 24})
    columns = {
        "g": {"values": ["a", "b"]},
        "h": {"values": ["x", "y", "z"]},
        "v": {"bounds": [0, 5], "step": 1},
    }
    schema = versioned(declare(columns))

    def found(source: object, workspace: str) -> list[Any]:
        with dpx.connect(source, schema, workspace=tmp_path / workspace, curator=True) as session:
            answer = session.query("SELECT g, SUM(v) FROM t GROUP BY g", rho=0.1)
            question = answer.why("b", "a")
            explained = question.explain(k=2, rho=0.1, attributes=["h"]).records()
            assert len({row["predicate"] for row in explained}) == 2
            influences = question.truth(attributes=["h"]).to_pandas()
            return [answer.truth().to_pandas()["true"].tolist(), influences.to_dict()]

    frame = spark_session.createDataFrame(rows)
    assert found(frame, "spark") == found(rows, "arrow")
    assert str(dpx.check_schema(frame, schema)) == str(dpx.check_schema(rows, schema))
    with pytest.raises(SchemaError, match=r"table.source: must not contain a password or token"):
        versioned(schema, source="sc://host:15002/;token=abc")
