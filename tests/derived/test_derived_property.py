"""Generated expressions over generated rows: values stay in the inferred domain, and nothing raises.

This is what docs/proofs/derived-columns.md needs of the inference and of the engine.
"""

from __future__ import annotations

import math
from typing import Any

import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dpxplain.engines.dialect import ExpressionSQL
from dpxplain.engines.duckdb import DuckDBEngine
from dpxplain.engines.duckdb_source import DuckDBDialect
from dpxplain.errors import BadRequest
from dpxplain.model.derivation import FUNCTIONS, infer
from dpxplain.model.expression import columns_of, read_expression, sql_of
from dpxplain.model.query import Aggregate, Query
from dpxplain.model.schema import Schema
from opened import connection_of

COLUMNS: dict[str, Any] = {
    "a": {"bounds": [-90, 300]},
    "b": {"bounds": [0, 10], "step": 0.5},
    "c": {"edges": [0, 10, 20.5]},
    "k": {"values": [0, 1, 2, 7]},
    "t": {"values": ["x", "it's", "10", "%"], "null": True},
    "f": {"values": [True, False]},
}
ODD = [
    None,
    math.nan,
    math.inf,
    -math.inf,
    1e308,
    -1e308,
    0.0,
    -0.0,
    5,
    0.25,
    15.0,
    "x",
    "it's",
    "10",
    "",
    "?",
    True,
]


def wrap(template: str, *parts: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.tuples(*parts).map(lambda texts: template.format(*texts))


NUMBER_LEAVES = st.sampled_from(["a", "b", "c", "k", "0", "1", "-2", "0.1", "15", "1e30", "NULL"])
OF_ONE_NUMBER = [name for name, f in FUNCTIONS.items() if 1 in f.arguments and f.of_text is None]
TEXT_LEAVES = st.sampled_from(["t", "'x'", "'it''s'", "'10'"])


def _numbers(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    test = st.one_of(
        wrap("({} > {})", inner, inner),
        wrap("({} IS NULL)", inner),
        wrap("({} IN (0, 1, {}))", inner, inner),
        st.sampled_from(["f", "t = 'x'", "t LIKE '%s'", "t <> 'it''s' OR f", "NOT (k = 2 AND f)"]),
    )
    return st.one_of(
        st.tuples(inner, st.sampled_from("+-*/%"), inner).map(lambda p: f"({p[0]} {p[1]} {p[2]})"),
        wrap("CASE WHEN {} THEN {} ELSE {} END", test, inner, inner),
        wrap("CASE WHEN {} THEN {} END", test, inner),
        wrap("CASE WHEN a >= 1 THEN {} / a END", inner),
        wrap("CASE WHEN a >= 1 THEN CAST({} / a AS BIGINT) ELSE 0 END", inner),
        wrap("COALESCE({}, {})", inner, inner),
        wrap("NULLIF({}, {})", inner, inner),
        wrap("GREATEST({}, {})", inner, inner),
        wrap("LEAST({}, {})", inner, inner),
        st.sampled_from(OF_ONE_NUMBER).flatmap(lambda f: wrap(f + "({})", inner)),
        wrap("ROUND({}, 1)", inner),
        wrap("CAST({} AS BIGINT)", inner),
        wrap("CAST({} AS BIGINT)", test),
        wrap("CAST(CAST(k AS VARCHAR) AS DOUBLE) + {}", inner),
        st.sampled_from(["CAST(t AS DOUBLE)", "LENGTH(t)", "LENGTH(UPPER(t))", "CAST(f AS DOUBLE)"]),
    )


NUMBERS = st.recursive(NUMBER_LEAVES, _numbers, max_leaves=8)
EXPRESSIONS = st.one_of(
    NUMBERS,
    wrap("{} > {}", NUMBERS, NUMBERS),
    wrap("CASE WHEN {} > {} THEN {} ELSE 'other' END", NUMBERS, NUMBERS, TEXT_LEAVES),
    wrap("COALESCE(CAST(CAST({} AS BOOLEAN) AS VARCHAR), t)", st.sampled_from(["k", "t", "f"])),
)
VALUES = st.sampled_from(ODD)
ROWS = st.lists(st.tuples(*[VALUES] * len(COLUMNS)), min_size=1, max_size=12)


def _frame(rows: list[tuple[Any, ...]]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=list(COLUMNS), dtype=object)


def _schema(**further: Any) -> Schema:
    return Schema.load({"table": {"name": "t"}, "privacy": {"rho": 1}, "columns": {**COLUMNS, **further}})


def _column(engine: DuckDBEngine, schema: Schema, expression: str) -> list[Any]:
    """The values of an expression, before they are clamped or listed."""
    sql = ExpressionSQL(schema, DuckDBDialect())
    text = sql.render(read_expression(expression, schema.columns))
    rows = connection_of(engine).execute(f"SELECT {text} FROM encoded", sql.parameters.values).fetchall()
    return [value for (value,) in rows]


@pytest.mark.slow
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(EXPRESSIONS, min_size=4, max_size=4), ROWS, st.tuples(*[VALUES] * len(COLUMNS)))
def test_a_value_lies_in_the_inferred_domain_and_a_row_changes_only_itself(
    expressions: list[str], rows: list[tuple[Any, ...]], row: tuple[Any, ...]
) -> None:
    base = _schema().columns
    derived = {
        f"derived{n}": expression for n, expression in enumerate(expressions) if _is_accepted(expression)
    }
    schema = _schema(**{name: {"expression": expression} for name, expression in derived.items()})
    engine, neighbour = (DuckDBEngine(_frame(r), schema) for r in (rows, [*rows, row]))
    try:
        for name, expression in derived.items():
            domain = infer(read_expression(expression, base), base)
            values = _column(engine, schema, expression)
            for value in values:
                if value is None:
                    continue
                if domain.values is not None:
                    assert value in domain.values
                else:
                    assert domain.low <= value <= domain.high
                    assert math.isfinite(value)
            assert [*map(repr, values)] == [*map(repr, _column(neighbour, schema, expression)[: len(values)])]
            _count_alike(engine, schema, name, expression, values)
    finally:
        engine.close()
        neighbour.close()


def _is_accepted(expression: str) -> bool:
    try:
        _schema(derived={"expression": expression})
    except BadRequest:
        return False
    return True


def _count_alike(
    engine: DuckDBEngine, schema: Schema, column: str, expression: str, values: list[Any]
) -> None:
    """A column that is declared and the same expression in a query count the same rows.

    A column by itself is no expression: there, values outside its declared edges are counted too.
    """
    written = sql_of(read_expression(expression, schema.columns))
    is_computed = written not in COLUMNS and columns_of(read_expression(written, schema.columns))
    for name in (column, written) if is_computed else (column,):
        grouped = engine.grouped(Query("t", (), Aggregate("count", name)), ((),))
        assert grouped.reveal().count.sum() == sum(value is not None for value in values)


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(EXPRESSIONS)
def test_the_canonical_text_of_an_expression_reads_as_the_same_expression(expression: str) -> None:
    columns = _schema().columns
    try:
        tree = read_expression(expression, columns)
    except BadRequest:
        return
    assert read_expression(sql_of(tree), columns) == tree
