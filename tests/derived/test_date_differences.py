"""DATE_DIFF over generated moments: DuckDB's own number, within the inferred bounds, and nothing raises."""

from __future__ import annotations

from datetime import date, datetime
from typing import Any

import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import dpxplain as dpx
from dpxplain.engines.duckdb import DuckDBEngine
from dpxplain.engines.duckdb_dialect import DuckDBDialect
from dpxplain.engines.expression_sql import ExpressionSQL
from dpxplain.model.derivation import infer
from dpxplain.model.expression import read_expression, sql_of
from dpxplain.model.schema import Schema

UNITS = ["day", "hour", "minute", "second"]
COLUMNS: dict[str, Any] = {
    "old": {"bounds": ["1890-03-01", "1975-06-30 12:30:15.5"]},
    "left": {"bounds": ["2024-12-30 07:00", "2025-06-01"]},
    "came": {"edges": ["2024-12-30", "2025-02-01", "2025-07-01"]},
    "day": {"values": ["1969-12-31", "2025-01-02"]},
}
MOMENTS = st.one_of(
    st.datetimes(datetime(1880, 1, 1), datetime(2030, 1, 1)).map(str),
    st.sampled_from([*(None, "", "no date", "infinity", "0001-01-01", "9999-12-31 23:59:59.999999")]),
    st.sampled_from(["1969-12-31", "2025-01-02", "1970-01-01", "2024-12-30 07:00:00", "2025-06-01"]),
)
ROWS = st.lists(st.tuples(*[MOMENTS] * len(COLUMNS)), min_size=1, max_size=12)
MOMENT = st.sampled_from([*COLUMNS, "DATE '2025-03-01'", "DATE_TRUNC('month', left)"])


def schema_of(expression: str) -> Schema:
    columns = {**COLUMNS, "derived": {"expression": expression}}
    return Schema.load({"table": {"name": "t"}, "privacy": {"rho": 1}, "columns": columns})


def values(engine: DuckDBEngine, expressions: list[str]) -> list[tuple[Any, ...]]:
    sql = ExpressionSQL(engine.schema, DuckDBDialect())
    texts = [sql.render(read_expression(text, engine.schema.columns)) for text in expressions]
    rows = engine._connection.execute(f"SELECT {', '.join(texts)} FROM encoded", sql.parameters.values)
    return rows.fetchall()


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.sampled_from(UNITS), MOMENT, MOMENT, ROWS, st.tuples(*[MOMENTS] * len(COLUMNS)))
def test_a_difference_lies_in_the_inferred_domain_and_a_row_changes_only_itself(
    unit: str, start: str, end: str, rows: list[tuple[Any, ...]], row: tuple[Any, ...]
) -> None:
    expression = f"DATE_DIFF('{unit}', {start}, {end})"
    schema = schema_of(expression)
    domain = infer(read_expression(expression, schema.columns), schema.columns)
    low, high = domain.ends
    frames = (pd.DataFrame(r, columns=list(COLUMNS), dtype=object) for r in (rows, [*rows, row]))
    engine, neighbour = (DuckDBEngine(frame, schema) for frame in frames)
    try:
        found = values(engine, [expression, start, end])
        assert values(neighbour, [expression, start, end])[: len(found)] == found
        for difference, first, last in found:
            assert (difference is None) == (first is None or last is None)
            if difference is not None:
                assert difference == own_difference(engine, unit, first, last)
                assert low <= difference <= high
    finally:
        engine.close()
        neighbour.close()


def own_difference(engine: DuckDBEngine, unit: str, first: Any, last: Any) -> int:
    first, last = (moment if isinstance(moment, datetime) else datetime.combine(moment, datetime.min.time())
                   for moment in (first, last))  # fmt: skip
    sql = "SELECT date_diff(?, date_trunc(?, ?::TIMESTAMP), date_trunc(?, ?::TIMESTAMP))"
    [(number,)] = engine._connection.execute(sql, [unit, unit, first, unit, last]).fetchall()
    return int(number)


def test_its_bounds_are_inferred_from_those_of_the_dates() -> None:
    columns = schema_of("DATE_DIFF('day', left, came)").columns
    assert columns["derived"].bounds == (-153, 183)
    assert infer(read_expression("DATEDIFF(hour, left, came)", columns), columns).ends == (-3672, 4385)


@pytest.mark.parametrize("text", ["date_diff('day', left, came)", "DATEDIFF(day, left, '2025-02-01')"])
def test_its_text_reads_as_the_same_expression(text: str) -> None:
    columns = schema_of("DATE_DIFF('day', left, came)").columns
    tree = read_expression(text, columns)
    assert read_expression(sql_of(tree), columns) == tree


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> dpx.Session:
    frame = pd.DataFrame(
        {"a": [date(2025, 1, 1), date(2025, 3, 1)], "b": [date(2025, 1, 5), None], "n": [1, 2]}
    )
    bounds = {"bounds": ["2025-01-01", "2025-12-31"]}
    columns = {"a": bounds, "b": bounds, "n": {"bounds": [0, 9]}}
    schema = {"table": {"name": "t"}, "privacy": {"rho": 1e6}, "columns": columns}
    return dpx.connect(frame, schema, workspace=tmp_path_factory.mktemp("ws"), curator=True)


def test_an_average_of_days_is_answered_and_says_its_bounds(session: dpx.Session) -> None:
    answer = session.query("SELECT AVG(DATE_DIFF('day', a, b)) FROM t", rho=1e5)
    assert answer.truth().records()[0]["true"] == 4
    assert any("-364" in sentence for sentence in answer.shaped_by)
    counted = session.query("SELECT COUNT(*) FROM t WHERE DATE_DIFF('day', a, b) > 3", rho=1e5)
    assert counted.truth().records()[0]["true"] == 1


@pytest.mark.parametrize(
    ("sql", "words"),
    [
        ("SELECT AVG(b - a) FROM t", r"span of time.*DATE_DIFF\('day', a, b\)"),
        ("SELECT COUNT(*) FROM t WHERE a + INTERVAL '1 day' > b", r"INTERVAL.*DATE_DIFF\('day', a, b\)"),
        ("SELECT AVG(DATE_DIFF('month', a, b)) FROM t", "month is not answered.*day, hour, minute, second"),
        ("SELECT AVG(DATE_DIFF('day', a, n)) FROM t", "n is not a date"),
        ("SELECT AVG(DATEDIFF(a, b)) FROM t", "cannot be read"),
    ],
)
def test_other_spans_are_refused_with_a_remedy(session: dpx.Session, sql: str, words: str) -> None:
    with pytest.raises(dpx.QueryRefused, match=words):
        session.preview(sql, rho=0.1)
