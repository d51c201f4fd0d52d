"""Predicates print as SQL that says exactly what they mean."""

from __future__ import annotations

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpxplain.model.column import Bin
from dpxplain.model.expression import sql_literal, sql_name
from dpxplain.model.query import Condition, Predicate

few = settings(max_examples=60, deadline=None, derandomize=True, database=None)
words = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), min_size=1, max_size=8)


@pytest.mark.parametrize(
    ("condition", "sql", "label"),
    [
        (Condition("sex", "F"), "sex = 'F'", "sex = F"),
        (Condition("sex", "it's"), "sex = 'it''s'", "sex = it's"),
        (Condition("sex", None), "sex IS NULL", "sex = NULL"),
        (Condition("kids", 3), "kids = 3", "kids = 3"),
        (Condition("kids", -3), "kids = -3", "kids = -3"),
        (Condition("member", True), "member = TRUE", "member = True"),
        (Condition("age", Bin(40, 50.5)), "age > 40 AND age <= 50.5", "age in (40, 50.5]"),
        (Condition("hours per week", 1), '"hours per week" = 1', "hours per week = 1"),
        (Condition('q"', 1), '"q""" = 1', 'q" = 1'),
        (Condition("Age", 1), '"Age" = 1', "Age = 1"),
        (Condition("1st", 1), '"1st" = 1', "1st = 1"),
    ],
)
def test_a_condition_prints_as_sql_and_for_people(condition: Condition, sql: str, label: str) -> None:
    assert str(condition) == sql
    assert condition.label == label


def test_a_conjunction_joins_its_conditions() -> None:
    both = Predicate((Condition("a", "x"), Condition("b", Bin(0, 1))))
    assert str(both) == "a = 'x' AND b > 0 AND b <= 1"
    assert both.label == "a = x and b in (0, 1]"


@few
@given(name=words, value=words)
def test_any_name_and_text_survive_a_real_sql_engine(name: str, value: str) -> None:
    column = sql_name("c" + name)
    same, other = sql_literal(value), sql_literal("x" + value)
    with duckdb.connect() as connection:
        sql = f"SELECT {column} = {same}, {column} = {other} FROM (SELECT ? AS {column})"
        row = connection.execute(sql, [value]).fetchone()
    assert row == (True, False)
