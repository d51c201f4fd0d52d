"""Subqueries, common table expressions, aliases and qualified names: other words for the same request."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sql_printer import SCHEMA, condition, name
from test_sql_property import aggregates, filters

from dpxplain.model.query import Aggregate, And, Comparison, Query, identity
from dpxplain.sql.parse import parse
from dpxplain.sql.render import narrowing

AVERAGE = Query("people", ("sex",), Aggregate("avg", "pay"), Comparison("age", ">", 20))


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT sex, AVG(pay) FROM people WHERE age > 20 GROUP BY sex",
        "WITH f AS (SELECT * FROM people WHERE age > 20) SELECT sex, AVG(pay) FROM f GROUP BY sex",
        "WITH f AS (SELECT sex, pay FROM people WHERE age > 20) SELECT sex, AVG(pay) FROM f GROUP BY sex",
        "WITH f AS (SELECT * FROM people) SELECT f.sex, AVG(f.pay) FROM f WHERE f.age > 20 GROUP BY f.sex",
        "WITH people AS (SELECT * FROM people WHERE age > 20) SELECT sex, AVG(pay) FROM people GROUP BY 1",
        "WITH a AS (SELECT sex, pay, age FROM people), b AS (SELECT * FROM a WHERE age > 20) "
        "SELECT sex, AVG(pay) FROM b GROUP BY sex",
        "WITH b AS (WITH a AS (SELECT * FROM people) SELECT * FROM a WHERE age > 20) "
        "SELECT sex, AVG(pay) FROM b GROUP BY sex",
        "SELECT sex, AVG(pay) FROM (SELECT * FROM people WHERE age > 20) GROUP BY sex",
        "SELECT x.sex, AVG(x.pay) FROM (SELECT p.* FROM people AS p WHERE p.age > 20) x GROUP BY x.sex",
        "SELECT sex, AVG(pay) FROM (SELECT * FROM (SELECT * FROM people) WHERE age > 20) AS x GROUP BY sex",
        "SELECT sex, AVG(pay) FROM (SELECT * FROM people ORDER BY age) AS x WHERE age > 20 GROUP BY sex",
        "SELECT DISTINCT sex, AVG(pay) FROM people p WHERE p.age > 20 GROUP BY p.sex",
        "WITH no AS (SELECT kids FROM people) SELECT sex, AVG(pay) FROM people WHERE age > 20 GROUP BY sex",
    ],
)
def test_what_only_selects_and_filters_is_the_query_on_the_table_itself(sql: str) -> None:
    statement = parse(sql, SCHEMA)
    assert statement.query == AVERAGE
    assert [output.name for output in statement.presentation.outputs] == ["sex", "AVG(pay)"]


@pytest.mark.parametrize(
    "sql",
    [
        "WITH f AS (SELECT sex AS s, pay AS p FROM people WHERE age > 20) SELECT s, AVG(p) FROM f GROUP BY s",
        "WITH f(s, p) AS (SELECT sex, pay FROM people WHERE age > 20) SELECT s, AVG(p) FROM f GROUP BY s",
        "WITH f AS (SELECT sex s, pay p, age a FROM people) SELECT f.S, AVG(P) FROM f WHERE a>20 GROUP BY 1",
        "SELECT g.s, AVG(p) FROM (SELECT sex, pay, age FROM people) AS g(s, p, a) WHERE a > 20 GROUP BY g.s",
        "WITH f AS (SELECT age AS sex, sex AS s, pay AS p FROM people) "
        "SELECT s, AVG(p) FROM f WHERE sex > 20 GROUP BY s ORDER BY s",
    ],
)
def test_a_renamed_column_is_shown_by_its_new_name_and_measured_as_the_declared_one(sql: str) -> None:
    statement = parse(sql, SCHEMA)
    assert statement.query == AVERAGE
    assert [(o.name, o.column) for o in statement.presentation.outputs] == [("s", "sex"), ("AVG(pay)", None)]


def test_an_outer_name_means_what_the_subquery_shows() -> None:
    """Columns that exchange their names must not be taken for the declared ones."""
    swapped = "WITH f AS (SELECT age AS pay, pay AS age FROM people) SELECT AVG(pay) FROM f WHERE age > 3"
    assert parse(swapped, SCHEMA).query == Query(
        "people", (), Aggregate("avg", "age"), Comparison("pay", ">", 3)
    )


def test_conditions_of_every_level_hold_together() -> None:
    sql = "WITH f AS (SELECT * FROM people WHERE active OR kids > 1) SELECT COUNT(*) FROM f WHERE pay > 3"
    written = "SELECT COUNT(*) FROM people WHERE (active OR kids > 1) AND pay > 3"
    assert parse(sql, SCHEMA).query == parse(written, SCHEMA).query
    assert isinstance(parse(sql, SCHEMA).query.where, And)


def test_a_drill_down_is_written_on_the_table_itself() -> None:
    """The subquery may not show the column that the further condition is about."""
    sql = "WITH f AS (SELECT sex AS s, pay FROM people WHERE age > 20) SELECT s, AVG(pay) FROM f GROUP BY s"
    query = parse(narrowing(sql, SCHEMA)("kids = 1"), SCHEMA).query
    assert query.where == And((Comparison("age", ">", 20), Comparison("kids", "=", 1)))
    assert query.group_by == ("sex",)


def test_hundreds_of_steps_are_read() -> None:
    steps = [f"f{i + 1} AS (SELECT * FROM f{i})" for i in range(300)]
    sql = (
        f"WITH f0 AS (SELECT sex FROM people), {', '.join(steps)} SELECT sex, COUNT(*) FROM f300 GROUP BY sex"
    )
    assert parse(sql, SCHEMA).query == Query("people", ("sex",), Aggregate("count"))


@st.composite
def spellings(draw: st.DrawFn) -> tuple[str, str]:
    """One query twice: plainly, and through subqueries that rename, filter and qualify."""
    group = draw(st.lists(st.sampled_from(list(SCHEMA.discrete())), unique=True, max_size=2))
    aggregate = draw(aggregates())
    parts = draw(st.lists(filters, max_size=3))
    plain_items = [
        *map(name, group),
        f"{aggregate.kind}({name(aggregate.column) if aggregate.column else '*'})",
    ]
    where = " AND ".join(f"({condition(part)})" for part in parts)
    plain = f"SELECT {', '.join(plain_items)} FROM people"
    plain += f" WHERE {where}" if parts else ""
    plain += f" GROUP BY {', '.join(map(name, group))}" if group else ""
    inner_count = draw(st.integers(0, len(parts)))
    inner, outer = parts[:inner_count], parts[inner_count:]
    shown = draw(st.permutations(list(SCHEMA.columns)))
    renamed = dict(zip(SCHEMA.columns, shown, strict=True)) if draw(st.booleans()) else {}
    qualifier = draw(st.sampled_from(["", "f.", "F."]))
    listed = ", ".join(f"{name(c)} AS {name(renamed[c])}" for c in renamed) or "*"
    body = f"SELECT {listed} FROM people" + (
        f" WHERE {' AND '.join(f'({condition(p)})' for p in inner)}" if inner else ""
    )

    def outside(column: str) -> str:
        return qualifier + name(renamed.get(column, column))

    items = [
        *map(outside, group),
        f"{aggregate.kind}({outside(aggregate.column) if aggregate.column else '*'})",
    ]
    text = f"SELECT {', '.join(items)} FROM " + ("f" if draw(st.booleans()) else f"({body}) AS f")
    prefix = f"WITH f AS ({body}) " if text.endswith("FROM f") else ""
    if outer:
        text += " WHERE " + " AND ".join(f"({_renamed(part, renamed)})" for part in outer)
    text += f" GROUP BY {', '.join(map(outside, group))}" if group else ""
    return plain, prefix + text


def _renamed(part: object, names: dict[str, str]) -> str:
    """The condition on the columns as the subquery shows them."""
    return condition(_rename(part, names))


def _rename(part: object, names: dict[str, str]) -> object:
    if hasattr(part, "column"):
        return replace(part, column=names.get(part.column, part.column))
    if hasattr(part, "part"):
        return replace(part, part=_rename(part.part, names))
    return replace(part, parts=tuple(_rename(p, names) for p in part.parts))


@settings(max_examples=50, deadline=None)
@given(spellings())
def test_rewriting_through_subqueries_does_not_change_the_request(pair: tuple[str, str]) -> None:
    plain, rewritten = (parse(sql, SCHEMA).query for sql in pair)
    assert identity(plain) == identity(rewritten)
