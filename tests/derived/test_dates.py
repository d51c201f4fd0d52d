"""Dates and timestamps as edges, bounds, values and parts, with time zones."""

from __future__ import annotations

import json
from datetime import date, datetime
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pytest

import dpxplain as dpx
from dpxplain.errors import QueryRefused, SchemaError
from dpxplain.model.column import Bin
from dpxplain.server.records import columns as catalog_columns
from dpxplain.sql.parse import parse_condition

ROWS = 2_000
_RNG = np.random.default_rng(seed=6)
MOMENTS = pd.Series(
    pd.Timestamp("2024-11-01") + pd.to_timedelta(_RNG.integers(1, 200 * 24 * 3600, ROWS), unit="s")
)
TRIPS = pd.DataFrame(
    {
        "left": MOMENTS,
        "aware": MOMENTS.dt.tz_localize("UTC"),
        "text": MOMENTS.dt.strftime("%Y-%m-%dT%H:%M:%S+00:00").where(MOMENTS.index > 2, "no date"),
        "day": MOMENTS.dt.date,
        "miles": _RNG.uniform(0, 10, ROWS).round(1),
    }
)
SCHEMA: dict[str, Any] = {
    "table": {"name": "trips"},
    "privacy": {"rho": 1e6},
    "columns": {
        "left": {"edges": ["2024-11-01", "2025-01-01", "2025-03-01", "2025-06-01"]},
        "aware": {"bounds": ["2024-11-01", "2025-06-01 12:00"], "time_zone": "Europe/Berlin"},
        "text": {"bounds": [date(2024, 11, 1), date(2025, 6, 1)]},
        "day": {"values": ["2025-01-01", "2025-01-02"], "null": True},
        "miles": {"bounds": [0, 10]},
        "month": {"expression": "DATE_TRUNC('month', text)"},
    },
}


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> dpx.Session:
    return dpx.connect(TRIPS, SCHEMA, workspace=tmp_path_factory.mktemp("ws"), curator=True)


def true_values(answer: Any) -> dict[tuple[Any, ...], float]:
    rows = zip(answer.rows, answer.truth().records(), strict=True)
    return {row.group: record["true"] for row, record in rows if record["true"]}


def duckdb_rows(sql: str) -> dict[tuple[Any, ...], float]:
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    connection.register("source", TRIPS)
    connection.execute(
        "CREATE VIEW trips AS SELECT \"left\", timezone('Europe/Berlin', aware) AS aware, "
        "TRY_CAST(text AS TIMESTAMP) AS text, CAST(day AS DATE) AS day, miles FROM source"
    )
    return {tuple(row[:-1]): row[-1] for row in connection.execute(sql).fetchall() if row[-1]}


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT EXTRACT(hour FROM aware) AS h, COUNT(*) FROM trips GROUP BY h",
        'SELECT YEAR("left") AS y, COUNT(*) FROM trips GROUP BY y',
        'SELECT EXTRACT(isodow FROM "left") AS d, COUNT(*) FROM trips WHERE HOUR(aware) >= 12 GROUP BY d',
        "SELECT EXTRACT(dow FROM aware), QUARTER(aware), COUNT(*) FROM trips GROUP BY 1, 2",
        "SELECT CAST(DATE_TRUNC('week', aware) AS DATE) AS w, COUNT(*) FROM trips GROUP BY w",
        "SELECT COUNT(*) FROM trips WHERE \"left\" > DATE '2025-01-15' AND text <= '2025-02-01 10:00:00'",
        "SELECT COUNT(*) FROM trips WHERE aware BETWEEN TIMESTAMP '2025-01-01 06:00:00' AND '2025-02-01'",
        "SELECT COUNT(*) FROM trips WHERE day = '2025-01-02'",
        "SELECT CASE WHEN aware < '2025-01-01' THEN 'old' ELSE 'new' END, COUNT(*) FROM trips GROUP BY 1",
        "SELECT COUNT(text) FROM trips",
        "SELECT COUNT(*) FROM trips WHERE text IS NULL",
        "SELECT COUNT(*) FILTER (WHERE DATE_PART('month', aware) = 12) FROM trips",
    ],
)
def test_parts_and_comparisons_of_dates_are_what_duckdb_computes(session: dpx.Session, sql: str) -> None:
    assert true_values(session.query(sql, rho=0.1)) == duckdb_rows(sql)


def test_bins_are_declared_by_dates_and_named_by_them(session: dpx.Session) -> None:
    answer = session.query('SELECT "left", COUNT(*) FROM trips GROUP BY "left"', rho=1)
    first = Bin(date(2024, 11, 1), date(2025, 1, 1))
    assert true_values(answer)[(first,)] == (MOMENTS <= "2025-01-01").sum()
    question = answer.why("(2024-11-01, 2025-01-01]", first.__class__(date(2025, 1, 1), date(2025, 3, 1)))
    assert "2025-03-01" in str(question)


def test_a_derived_month_is_grouped_by_and_explained(session: dpx.Session) -> None:
    answer = session.query("SELECT month, COUNT(*) FROM trips GROUP BY month", rho=10)
    assert [row.group[0] for row in answer][:2] == [date(2024, 11, 1), date(2024, 12, 1)]
    table = answer.why("2024-12-01", "2025-05-01").explain(k=2, rho=10)
    for row in table:
        text = str(row.predicate)
        assert "DATE '" in text
        assert parse_condition(text, session.schema)


def test_predicates_on_dates_print_and_parse_back(session: dpx.Session) -> None:
    question = session.query("SELECT month, COUNT(*) FROM trips GROUP BY month", rho=10).why(
        date(2024, 12, 1), "2025-01-01"
    )
    table = question.explain(k=3, rho=10, predicates=["\"left\" > '2025-01-01'", dpx.ranges("left")])
    printed = [str(row.predicate) for row in table]
    assert all(str(dpx.Schema.load(SCHEMA).columns) and "DATE '2025-0" in text for text in printed)


@pytest.mark.parametrize(
    ("sql", "remedy"),
    [
        ("SELECT AVG(aware) FROM trips", "EXTRACT(hour FROM aware)"),
        ("SELECT COUNT(*) FROM trips WHERE aware > 5", "TIMESTAMP '2024-11-01 00:00:00'"),
        ("SELECT COUNT(*) FROM trips WHERE day = '2025-01-03'", "2025-01-01"),
        ("SELECT COUNT(*) FROM trips WHERE day = DATE '2025-13-01'", "DATE '2025-01-01'"),
        ("SELECT DATE_TRUNC('minute', aware), COUNT(*) FROM trips GROUP BY 1", "longer unit"),
        ("SELECT EXTRACT(hour FROM miles), COUNT(*) FROM trips GROUP BY 1", "dates"),
        ("SELECT EXTRACT(century FROM aware), COUNT(*) FROM trips GROUP BY 1", "year, quarter"),
    ],
)
def test_what_cannot_be_said_of_dates_is_refused_with_a_remedy(
    session: dpx.Session, sql: str, remedy: str
) -> None:
    with pytest.raises(QueryRefused) as refusal:
        session.query(sql, rho=0.1)
    assert remedy in refusal.value.remedy


def test_a_toml_file_has_dates_as_text_or_as_its_own(tmp_path: Path) -> None:
    text = """
[table]
name = "trips"
[privacy]
rho = 1.0
[columns.a]
edges = [2025-01-01, 2025-07-01]
[columns.b]
edges = ["2025-01-01", "2025-07-01"]
[columns.c]
bounds = [2025-01-01T06:00:00, "2025-07-01"]
"""
    (tmp_path / "trips.toml").write_text(text)
    columns = dpx.Schema.load(tmp_path / "trips.toml").columns
    assert columns["a"].edges == columns["b"].edges == (date(2025, 1, 1), date(2025, 7, 1))
    assert columns["c"].bounds == (datetime(2025, 1, 1, 6), datetime(2025, 7, 1))


def test_a_schema_with_dates_survives_json() -> None:
    schema = dpx.Schema.load(SCHEMA)
    again = dpx.Schema.load(json.loads(json.dumps(schema.model_dump(mode="json"))))
    assert again.fingerprint() == schema.fingerprint()
    assert json.dumps(catalog_columns(again))


@pytest.mark.parametrize(
    ("column", "problem"),
    [
        ({"edges": ["2025-07-01", "2025-01-01"]}, "increasing order"),
        ({"edges": ["2025-07-01", 5]}, "numbers, or dates"),
        ({"bounds": ["2025-01-01", "2025-07-01"], "step": 1}, "delete the line with step"),
        ({"bounds": [0, 1], "time_zone": "UTC"}, "needs dates"),
        ({"bounds": ["2025-01-01", "2025-07-01"], "time_zone": "Mars"}, "name of a time zone"),
        ({"edges": ["2025-01-01", "2025-07-01"], "bounds": [0, 1]}, "both be numbers"),
    ],
)
def test_a_wrong_declaration_of_dates_is_refused_in_words(column: dict[str, Any], problem: str) -> None:
    with pytest.raises(SchemaError, match=problem):
        dpx.Schema.load({**SCHEMA, "columns": {"a": column}})


def test_odd_dates_are_undeclared_and_raise_nothing(tmp_path: Path) -> None:
    odd = ["infinity", "-infinity", "99999-01-01", "2025-02-30", "", None, "2025-01-01T25:00:00Z", "NaT"]
    frame = pd.DataFrame({"at": [*odd, "2025-01-05T10:00:00+14:00"]}, dtype=object)
    columns = {
        "at": {"edges": ["2025-01-01", "2025-01-05", "2025-01-06"], "time_zone": "Asia/Tokyo"},
        "hour": {"expression": "EXTRACT(hour FROM at)"},
    }
    session = dpx.connect(frame, {**SCHEMA, "columns": columns}, workspace=tmp_path, curator=True)
    answer = session.query("SELECT hour, COUNT(*) FROM trips GROUP BY hour", rho=1)
    assert true_values(answer) == {(5,): 1}


def test_quality_speaks_of_dates(session: dpx.Session) -> None:
    assert "2025-06-01" in str(session.quality(rho=1000).records())
