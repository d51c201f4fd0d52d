"""DATE_DIFF and INTERVAL over generated moments: as DuckDB has it, in the inferred bounds; nothing raises."""

from __future__ import annotations

from datetime import date, datetime
from typing import Any

import pandas as pd
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import dpxplain as dpx
from dpxplain.engines.dialect import ExpressionSQL
from dpxplain.engines.duckdb import DuckDBEngine
from dpxplain.engines.duckdb_source import DuckDBDialect
from dpxplain.model.column import midnight
from dpxplain.model.derivation import infer
from dpxplain.model.expression import read_expression, sql_of
from dpxplain.model.schema import Schema
from dpxplain.model.value_domain import ValueDomain, shifted, shifted_domain
from opened import connection_of

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
SPANS = st.tuples(
    st.sampled_from("+-"),
    st.integers(0, 900),
    st.sampled_from(["YEAR", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND"]),
).map(lambda span: f"{span[0]} INTERVAL '{span[1]}' {span[2]}")
LEAVES = st.sampled_from([*COLUMNS, "DATE '2025-03-01'", "DATE_TRUNC('month', left)"])
SHIFTED = st.tuples(LEAVES, st.lists(SPANS, min_size=1, max_size=3)).map(lambda p: " ".join([p[0], *p[1]]))
MOMENT = st.one_of(LEAVES, SHIFTED)


def schema_of(expression: str) -> Schema:
    columns = {**COLUMNS, "derived": {"expression": expression}}
    return Schema.load({"table": {"name": "t"}, "privacy": {"rho": 1}, "columns": columns})


def values(engine: DuckDBEngine, expressions: list[str]) -> list[tuple[Any, ...]]:
    sql = ExpressionSQL(engine.schema, DuckDBDialect())
    texts = [sql.render(read_expression(text, engine.schema.columns)) for text in expressions]
    rows = connection_of(engine).execute(f"SELECT {', '.join(texts)} FROM encoded", sql.parameters.values)
    return rows.fetchall()


@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
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


@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@example("left", "+ INTERVAL '0' YEAR", [(None, "1970-01-01", None, None)], (None,) * 4)
@given(st.sampled_from([*COLUMNS]), SPANS, ROWS, st.tuples(*[MOMENTS] * len(COLUMNS)))
def test_a_shifted_moment_lies_in_the_inferred_domain_and_a_row_changes_only_itself(
    column: str, span: str, rows: list[tuple[Any, ...]], row: tuple[Any, ...]
) -> None:
    expression = f"{column} {span}"
    schema = schema_of(expression)
    domain = infer(read_expression(expression, schema.columns), schema.columns)
    frames = (pd.DataFrame(r, columns=list(COLUMNS), dtype=object) for r in (rows, [*rows, row]))
    engine, neighbour = (DuckDBEngine(frame, schema) for frame in frames)
    try:
        found = values(engine, [expression, column, f"{expression} > {column}"])
        assert values(neighbour, [expression, column, f"{expression} > {column}"])[: len(found)] == found
        for moment, original, is_later in found:
            if original is None:
                assert moment is None
                continue
            own = (
                connection_of(engine).execute(f"SELECT ?::TIMESTAMP {span}", [midnight(original)]).fetchone()
            )
            assert own == (midnight(moment),)
            assert is_later == (midnight(moment) > midnight(original))
            assert type(moment) is (date if domain.kind == "date" else datetime)
            low, high = domain.ends
            assert low <= moment <= high
            assert domain.values is None or moment in domain.values
    finally:
        engine.close()
        neighbour.close()


@settings(max_examples=200, deadline=None)
@given(
    st.datetimes(datetime(2023, 12, 25), datetime(2024, 4, 5)),
    st.datetimes(datetime(2023, 12, 25), datetime(2024, 4, 5)),
    st.datetimes(datetime(2023, 12, 25), datetime(2024, 4, 5)),
    st.integers(-14, 14),
)
def test_the_ends_of_shifted_months_hold_what_is_between_them(
    a: datetime, b: datetime, c: datetime, months: int
) -> None:
    low, moment, high = sorted((a, b, c))
    domain = shifted_domain(ValueDomain("timestamp", None, low, high), months, "month")
    assert domain is not None
    assert domain.low <= shifted(moment, months, "month") <= domain.high


def own_difference(engine: DuckDBEngine, unit: str, first: Any, last: Any) -> int:
    first, last = midnight(first), midnight(last)
    sql = "SELECT date_diff(?, date_trunc(?, ?::TIMESTAMP), date_trunc(?, ?::TIMESTAMP))"
    [(number,)] = connection_of(engine).execute(sql, [unit, unit, first, unit, last]).fetchall()
    return int(number)


def test_its_bounds_are_inferred_from_those_of_the_dates() -> None:
    columns = schema_of("DATE_DIFF('day', left, came)").columns
    assert columns["derived"].bounds == (-153, 183)
    assert infer(read_expression("DATEDIFF(hour, left, came)", columns), columns).ends == (-3672, 4385)


@pytest.mark.parametrize(
    ("expression", "bounds"),
    {
        "came + INTERVAL '7' DAY": ("2025-01-06", "2025-07-08"),
        "left - interval 2 hours": ("2024-12-30 05:00", "2025-05-31 22:00"),
        "INTERVAL '1 month' + left": ("2025-01-30", "2025-07-01"),
        "came - INTERVAL '1' YEAR": ("2023-12-30", "2024-07-01"),
    }.items(),
)
def test_the_bounds_of_a_shift_are_shifted(expression: str, bounds: tuple[str, str]) -> None:
    derived = schema_of(expression).columns["derived"].bounds
    assert derived is not None
    assert [*map(str, derived)] == [str(datetime.fromisoformat(b)) for b in bounds]


def test_listed_dates_stay_dates_under_whole_days_only() -> None:
    assert schema_of("day + INTERVAL '1' WEEK").columns["derived"].values == (
        date(1970, 1, 7),
        date(2025, 1, 9),
    )
    hours = schema_of("day + INTERVAL '6' HOUR").columns["derived"].values
    assert hours == (datetime(1969, 12, 31, 6), datetime(2025, 1, 2, 6))


@pytest.mark.parametrize(
    "text",
    [
        "date_diff('day', left, came)",
        "DATEDIFF(day, left, '2025-02-01')",
        "left + interval '7 days' - INTERVAL 2 hours > '2025-02-01'",
        "'2025-02-01' + INTERVAL '-1' MONTH < came",
    ],
)
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
    ("where", "true"),
    [
        ("a + INTERVAL '3' DAY < b", 1),
        ("a + INTERVAL '4' DAY < b", 0),
        ("a - INTERVAL '1' MONTH < DATE '2024-12-15'", 1),
        ("a >= DATE '2025-01-29' + INTERVAL '1' MONTH", 1),
        ("CASE WHEN n >= 2 THEN CASE WHEN 1 / n > 0.1 THEN a END + INTERVAL '1' DAY END > '2025-03-01'", 1),
        ("a BETWEEN DATE '2025-03-02' - INTERVAL '1' DAY AND b + INTERVAL '1' YEAR OR n = 1", 1),
    ],
)
def test_rows_are_counted_by_dates_and_intervals(session: dpx.Session, where: str, true: int) -> None:
    counted = session.query(f"SELECT COUNT(*) FROM t WHERE {where}", rho=1e3)
    assert counted.truth().records()[0]["true"] == true


def test_groups_may_be_shifted_dates(session: dpx.Session) -> None:
    sql = "SELECT DATE_TRUNC('month', a + INTERVAL '1' MONTH) AS due, COUNT(*) FROM t GROUP BY due"
    truth = {str(record["due"]): record["true"] for record in session.query(sql, rho=1e3).truth().records()}
    assert len(truth) == 12
    assert {due: count for due, count in truth.items() if count} == {"2025-02-01": 1, "2025-04-01": 1}


@pytest.mark.parametrize(
    ("sql", "words"),
    [
        ("SELECT AVG(b - a) FROM t", r"span of time.*DATE_DIFF\('day', a, b\)"),
        ("SELECT AVG(a + 7) FROM t", r"a is not a number.*a \+ INTERVAL '1' DAY"),
        ("SELECT COUNT(*) FROM t WHERE n + INTERVAL '1' DAY > b", "n is not a date"),
        ("SELECT COUNT(*) FROM t WHERE a + INTERVAL '9000' YEAR > b", "can leave the years 1 to 9999"),
        ("SELECT COUNT(*) FROM t WHERE a + 2 * INTERVAL '1' DAY > b", "INTERVAL must follow a date"),
        ("SELECT COUNT(*) FROM t WHERE INTERVAL '1' DAY - a > b", "INTERVAL must follow a date"),
        *(
            (
                f"SELECT COUNT(*) FROM t WHERE a + INTERVAL {span} > b",
                "INTERVAL in this form.*INTERVAL '7' DAY",
            )
            for span in (
                "'1 day 2 hours'",
                "'1 day 99'",
                "'7'",
                "'1.5' HOUR",
                "n DAY",
                "-7 DAY",
                "'1' DECADE",
            )
        ),
        ("SELECT AVG(DATE_DIFF('month', a, b)) FROM t", "month is not supported.*day, hour, minute, second"),
        ("SELECT AVG(DATE_DIFF('day', a, n)) FROM t", "n is not a date"),
        ("SELECT AVG(DATEDIFF(a, b)) FROM t", "syntax error"),
    ],
)
def test_other_spans_are_refused_with_a_remedy(session: dpx.Session, sql: str, words: str) -> None:
    with pytest.raises(dpx.QueryRefused, match=words):
        session.preview(sql, rho=0.1)
