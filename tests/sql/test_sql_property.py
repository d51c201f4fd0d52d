"""Random queries come back as they were; random text is refused or means what DuckDB says it means."""

from __future__ import annotations

import random
from decimal import Decimal

import duckdb
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sql_printer import SCHEMA, reprint
from sql_printer import sql as print_sql

from dpxplain.errors import QueryRefused
from dpxplain.model.query import (
    Aggregate,
    And,
    Comparison,
    Filter,
    IsNull,
    Membership,
    Not,
    Or,
    OrderKey,
    Output,
    Presentation,
    Query,
    Statement,
    filter_columns,
)
from dpxplain.sql.parse import parse

RELAXED = settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
DISCRETE = list(SCHEMA.discrete())

numbers = st.integers(-(2**40), 2**40) | st.floats(-1e6, 1e6).filter(lambda x: not x.is_integer())


@st.composite
def leaves(draw: st.DrawFn) -> Filter:
    column = draw(st.sampled_from(list(SCHEMA.columns)))
    values = SCHEMA.columns[column].values
    numeric = values is None
    literals = numbers if numeric else st.sampled_from([v for v in values if v is not None])
    shape = draw(st.sampled_from(["null", "in", "compare"]))
    if shape == "null":
        return IsNull(column)
    if shape == "in":
        chosen = draw(st.sets(literals, min_size=2, max_size=4)) if numeric else set(values) - {None}
        if len(chosen) > 1:
            return Membership(column, tuple(sorted(chosen)))
    ordered = numeric or column == "kids"
    operator = draw(st.sampled_from(["=", "<>", "<", "<=", ">", ">="] if ordered else ["=", "<>"]))
    return Comparison(column, operator, draw(literals))


def branches(parts: st.SearchStrategy[Filter]) -> st.SearchStrategy[Filter]:
    """Only trees in canonical form: no AND directly in AND, no OR in OR, no NOT in NOT."""

    def several(kind: type[And] | type[Or]) -> st.SearchStrategy[Filter]:
        apart = parts.filter(lambda p: not isinstance(p, kind))
        return st.lists(apart, min_size=2, max_size=4).map(lambda p: kind(tuple(p)))

    return several(And) | several(Or) | parts.filter(lambda p: not isinstance(p, Not)).map(Not)


filters = st.recursive(leaves(), branches, max_leaves=8)


@st.composite
def aggregates(draw: st.DrawFn) -> Aggregate:
    kind = draw(st.sampled_from(["count", "sum", "avg"]))
    return Aggregate(
        kind, draw(st.sampled_from([None, *SCHEMA.columns] if kind == "count" else ["age", "pay"]))
    )


@st.composite
def statements(draw: st.DrawFn) -> tuple[Query, Presentation, tuple[Aggregate, ...]]:
    group_by = tuple(draw(st.lists(st.sampled_from(DISCRETE), unique=True, max_size=3)))
    aggregate, *more = draw(st.lists(aggregates(), min_size=1, max_size=3, unique=True))
    outputs = draw(st.permutations([*group_by, *[None] * (1 + len(more))]))
    named = tuple(
        Output(f"out {i}" if draw(st.booleans()) else f"o{i}", c, outputs[:i].count(None) if c is None else 0)
        for i, c in enumerate(outputs)
    )
    keys = st.builds(OrderKey, st.integers(0, len(named) - 1), st.booleans())
    order = tuple(draw(st.lists(keys, max_size=2)))
    limit = draw(st.none() | st.integers(1, 1000))
    query = Query("people", group_by, aggregate, draw(st.none() | filters))
    return query, Presentation(named, order, limit), tuple(more)


@RELAXED
@given(statements(), st.randoms(use_true_random=False))
def test_a_printed_query_parses_back_to_itself(
    parts: tuple[Query, Presentation, tuple[Aggregate, ...]], rng: random.Random
) -> None:
    query, presentation, more = parts
    text = print_sql(query, presentation, more, coin=lambda: rng.random() < 0.5)
    statement = parse(text, SCHEMA)
    assert statement == Statement(text, query, presentation, more)


SOUP = """
SELECT FROM WHERE AND OR NOT IN IS NULL BETWEEN AS ASC DESC LIMIT HAVING JOIN ON UNION ALL DISTINCT CASE
WHEN THEN END LIKE EXISTS OVER FILTER WITH OFFSET FETCH NULLS FIRST LAST TRUE FALSE USING SAMPLE INTERVAL
DATE CAST COLLATE ONLY VALUES INTO FOR UPDATE PIVOT LATERAL UNNEST WINDOW QUALIFY COUNT SUM AVG MAX people
p sex kids active age pay nosuch people.pay p.sex count ( ) , ; . * + - / % = == != <> < <= > >= :: || ->
? $1 :x @y #1 [ ] { } ` 1 2 0.5 .5 1e999 0x1F 1_000 'Male' 'Female' 'a''b' "sex" "Sex" E'x' $$x$$ --
"""
PHRASES = [
    "ROUND",
    "NULLIF",
    "COALESCE",
    "LN",
    "EXP",
    "DOUBLE",
    "GROUP BY",
    "ORDER BY",
    "/* c */",
    "\n",
    "COUNT(*)",
    "SUM(pay)",
    "é",
    "\x00",
    "\u2028",
    "\ud800",
]
WORDS = [*SOUP.split(), *PHRASES]
# Words that often fit in each other's place, so that enough mutated queries are admitted to say something.
KINDS = [
    ["=", "==", "<>", "!=", "<", "<=", ">", ">="],
    ["AND", "OR", "AND NOT", "OR NOT", "AND NOT NOT"],
    ["age", "kids", "pay", "people.pay", "Kids", '"age"', "( pay )"],
    ["1", "2", "3", "2.0", "20", "- 1", ".5", "1e1", "( 2 )"],
    ["COUNT(*)", "SUM(pay)", "AVG(pay)", "COUNT(sex)", "count ( 1 )", "AVG(age)"],
    ["NOT", "( NOT", "NOT NOT"],
]

SEEDS = [
    "SELECT sex , COUNT(*) AS n FROM people p WHERE age > 3 AND NOT ( kids IN ( 1 , 2 ) ) "
    "GROUP BY sex ORDER BY n DESC",
    "SELECT kids , sex , AVG(pay) FROM people WHERE pay BETWEEN 1 AND 20 OR sex IS NOT NULL GROUP BY 1 , 2",
    "SELECT SUM(pay) FROM people WHERE active OR 2 <= kids AND sex <> 'Male' "
    "OR sex NOT IN ( 'Male' , 'Female' )",
    "SELECT COUNT(*) , sex , AVG(pay) AS m , SUM(age) FROM people WHERE kids > 1 GROUP BY sex "
    "ORDER BY m , COUNT(*)",
    "SELECT sex , SUM(pay) / COUNT(*) AS rate , 100 * AVG(pay) FROM people GROUP BY sex "
    "HAVING COUNT(*) > 3 AND NOT rate < 1 ORDER BY AVG(age) - 2 * rate DESC",
    "WITH f AS ( SELECT sex , pay AS p , age FROM people AS q WHERE q.kids > 1 ) "
    "SELECT DISTINCT f.sex , SUM( p ) AS s FROM f WHERE age < 20 GROUP BY f.sex ORDER BY s",
    "SELECT kids , COUNT(*) FROM ( SELECT * FROM ( SELECT kids , pay FROM people WHERE active ) AS a ) AS b "
    "WHERE b.pay > 20 GROUP BY kids HAVING COUNT(*) BETWEEN 1 AND 9",
]


@pytest.fixture(scope="module")
def engine() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    connection.execute(
        "CREATE TABLE people AS SELECT CASE i % 3 WHEN 0 THEN 'Female' WHEN 1 THEN 'Male' END AS sex, "
        "'Masters' AS education, (i * 7) % 4 AS kids, CASE WHEN i % 5 < 4 THEN i % 2 = 0 END AS active, "
        "(i * 13) % 30 AS age, 0.5 AS height, CASE WHEN i % 7 > 0 THEN (i * 11) % 100 END AS pay, "
        "'a' AS \"Group\" FROM range(60) AS r(i)"
    )
    return connection


def admitted(text: str) -> Statement | None:
    """Parses text that may be anything; checks a refusal on the way."""
    try:
        return parse(text, SCHEMA)
    except QueryRefused as caught:
        error = caught
    assert error.remedy
    assert error.start is None or 0 <= error.start < (error.end or 0) <= len(text)
    return None


def rows(engine: duckdb.DuckDBPyConnection, text: str) -> list[str] | None:
    try:
        fetched = engine.execute(text).fetchall()
    except duckdb.Error:
        return None
    return sorted(
        repr([f"{float(v):.9g}" if isinstance(v, int | float | Decimal) else v for v in row])
        for row in fetched
    )


@RELAXED
@given(st.lists(st.sampled_from(WORDS), max_size=25), st.booleans())
def test_word_soup_is_refused_or_understood(words: list[str], select: bool) -> None:
    statement = admitted(("SELECT " if select else "") + " ".join(words))
    if statement is not None:
        assert all(SCHEMA.column(name) for name in filter_columns(statement.query.where))


@RELAXED
@given(st.text(max_size=60))
def test_any_text_is_refused_or_understood(text: str) -> None:
    admitted(text)
    admitted("SELECT COUNT(*) FROM people WHERE " + text)


@settings(RELAXED, max_examples=200)
@given(st.data())
def test_a_mutated_query_is_refused_or_means_what_it_says(
    engine: duckdb.DuckDBPyConnection, data: st.DataObject
) -> None:
    """Nothing in an admitted text is ignored: DuckDB gives the same rows for it and for its tree."""
    words = data.draw(st.sampled_from(SEEDS)).split()
    for _ in range(data.draw(st.integers(1, 3))):
        i = data.draw(st.integers(0, len(words) - 1))
        change = data.draw(st.sampled_from(["drop", "insert", "replace", "repeat", "swap", *["alike"] * 5]))
        word = data.draw(st.sampled_from(WORDS))
        match change:
            case "alike":
                places = [(j, kind) for kind in KINDS for j, w in enumerate(words) if w in kind]
                i, kind = data.draw(st.sampled_from(places or [(i, WORDS)]))
                words[i] = data.draw(st.sampled_from(kind))
            case "drop":
                words[i : i + 1] = []
            case "insert":
                words.insert(i, word)
            case "replace":
                words[i] = word
            case "repeat":
                words.insert(i, words[i])
            case "swap":
                words[i], words[i - 1] = words[i - 1], words[i]
    text = " ".join(words)
    statement = admitted(text)
    if statement is None:
        return
    assert all(SCHEMA.column(name) for name in filter_columns(statement.query.where))
    assert all(SCHEMA.domain(name) for name in statement.query.group_by)
    again = parse(reprint(statement), SCHEMA)
    assert (again.queries, again.presentation) == (statement.queries, statement.presentation)
    if statement.presentation.limit is None and (expected := rows(engine, text)) is not None:
        assert rows(engine, again.sql) == expected
