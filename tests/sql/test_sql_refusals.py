"""What is refused: the clause is named, the position is right, and the remedy says what to write."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from sql_printer import SCHEMA

from dpxplain.errors import QueryRefused
from dpxplain.model.query import Comparison
from dpxplain.model.schema import Schema
from dpxplain.sql.parse import parse


def refusal(sql: str) -> QueryRefused:
    with pytest.raises(QueryRefused) as caught:
        parse(sql, SCHEMA)
    return caught.value


# The offending characters stand between » and «; then a word of the problem and one of the remedy.
REFUSED = [
    # clauses
    ("SELECT sex, COUNT(*) FROM people GROUP BY sex HAVING »sex« = 'Male'", "not an aggregate", "WHERE"),
    ("SELECT sex, COUNT(*) FROM people GROUP BY sex HAVING »COUNT(*)«", "comparison", "COUNT(*) > 100"),
    ("SELECT sex, COUNT(*) FROM people GROUP BY sex HAVING »1« > 0", "two plain numbers", "COUNT(*) > 100"),
    ("SELECT sex, COUNT(*) FROM people GROUP BY sex HAVING »COUNT(*) IN (1, 2«)", "comparison", "aggregate"),
    ("SELECT sex, COUNT(*) FROM people GROUP BY sex HAVING COUNT(*) > »'x'«", "from aggregates", "numbers"),
    ("SELECT sex, COUNT(*) FROM people GROUP BY sex HAVING »MAX«(pay) > 3", "MAX", "QUANTILE_CONT"),
    (
        "SELECT sex, COUNT(*) FROM people ORDER BY 1 »HAVING« COUNT(*) > 1",
        "HAVING is repeated or in the wrong place",
        "HAVING",
    ),
    ("SELECT COUNT(*) + »pay« FROM people", "pay is a column", "AVG(pay)"),
    ("SELECT COUNT(*) / »0« FROM people", "divides by 0", "another number"),
    ("SELECT »COUNT(*) % 2« FROM people", "from aggregates", "numbers and aggregates"),
    ("SELECT 1 + »ROUND(AVG(pay), 1«) FROM people", "ROUND inside", "whole expression"),
    ("SELECT ROUND(AVG(pay), »99«) FROM people", "digits", "0 to 12"),
    ("SELECT »NULLIF(COUNT(*), 0«) FROM people", "from aggregates", "numbers and aggregates"),
    ("SELECT COUNT(*) * »1e200« FROM people", "too large", "1e100"),
    (
        "SELECT sex, COUNT(*) / 2 AS n, »SUM(pay) / 2 AS n« FROM people GROUP BY sex",
        "are called n",
        "AS",
    ),
    ("SELECT COUNT(*) FROM people »QUALIFY« 1 = 1", "QUALIFY", "filter the answer"),
    ("SELECT sex, »DISTINCT« kids, COUNT(*) FROM people GROUP BY sex", "DISTINCT", "Leave it out"),
    ("SELECT DISTINCT »ON« (sex) sex, COUNT(*) FROM people GROUP BY sex", "DISTINCT ON", "without ON"),
    ("SELECT COUNT(DISTINCT »sex«) FROM people", "DISTINCT in an aggregate", "COUNT(column)"),
    ("SELECT COUNT(*) FROM people »JOIN« x ON a = b", "JOIN", "one table"),
    ("SELECT COUNT(*) FROM people LEFT »JOIN« x USING (a)", "JOIN", "one table"),
    ("SELECT COUNT(*) FROM people »CROSS« JOIN x", "JOIN", "one table"),
    ("SELECT COUNT(*) FROM people, »y«", "second table", "one table"),
    ("SELECT COUNT(*) FROM people, (»SELECT« * FROM people)", "subquery", "FROM"),
    ("SELECT (»SELECT« 1), COUNT(*) FROM people", "subquery", "FROM"),
    ("SELECT COUNT(*) FROM people WHERE pay IN (»SELECT« 1)", "subquery", "WHERE"),
    ("SELECT COUNT(*) FROM people WHERE »EXISTS« (SELECT 1)", "subquery", "WHERE"),
    ("WITH a AS (SELECT »1«) SELECT COUNT(*) FROM a", "FROM is missing", "FROM people"),
    ("WITH »RECURSIVE« a AS (SELECT * FROM people) SELECT COUNT(*) FROM a", "RECURSIVE", "Leave RECURSIVE"),
    ("WITH a AS »MATERIALIZED« (SELECT * FROM people) SELECT COUNT(*) FROM a", "MATERIALIZED", "Leave it"),
    ("SELECT COUNT(*) FROM people »WITH« a", "WITH here", "Begin"),
    ("WITH a AS (SELECT sex FROM »peple«) SELECT COUNT(*) FROM people", "no table peple", "people"),
    ("WITH a AS (SELECT »sx« FROM people) SELECT COUNT(*) FROM a", "no column sx here", "sex?"),
    ("WITH a AS (SELECT sex FROM people) SELECT AVG(»pay«) FROM a", "no column pay here", "sex"),
    ("WITH a AS (SELECT pay FROM people) SELECT AVG(»b«.pay) FROM a", "called b", "a.pay"),
    (
        "WITH a AS (SELECT sex, »pay AS sex« FROM people) SELECT COUNT(*) FROM a",
        "are called sex",
        "AS",
    ),
    (
        "WITH a AS (SELECT »COUNT(*)« AS n FROM people) SELECT SUM(n) FROM a",
        "aggregate in a subquery",
        "outer",
    ),
    ("WITH a AS (SELECT sex FROM people GROUP BY »sex«) SELECT COUNT(*) FROM a", "GROUP BY in", "outer"),
    ("SELECT COUNT(*) FROM (SELECT * FROM people LIMIT »5«)", "LIMIT in a subquery", "outer"),
    ("SELECT COUNT(*) FROM (SELECT DISTINCT »sex« FROM people)", "DISTINCT in a subquery", "outer"),
    (
        "WITH a AS (SELECT * FROM people), »a« AS (SELECT * FROM people) SELECT COUNT(*) FROM a",
        "twice",
        "name",
    ),
    ("WITH »a(x«) AS (SELECT sex, pay FROM people) SELECT COUNT(*) FROM a", "1 names", "every column"),
    (
        "WITH a AS (SELECT pay AS p FROM people) SELECT p, COUNT(*) FROM a GROUP BY »p«",
        "cannot group by pay",
        "edges",
    ),
    (
        "WITH a AS (SELECT * FROM people WHERE pay > »'x'«) SELECT COUNT(*) FROM a",
        "compared with numbers",
        "number",
    ),
    (
        "WITH a AS (SELECT * FROM people GROUP BY sex »WHERE« pay > 1) SELECT COUNT(*) FROM a",
        "wrong place",
        "",
    ),
    ("SELECT COUNT(*) FROM people »UNION« ALL SELECT COUNT(*) FROM people", "UNION", "combine the answers"),
    ("SELECT COUNT(*) FROM people »EXCEPT« SELECT 1", "EXCEPT", "combine the answers"),
    ("SELECT COUNT(*) »OVER« () FROM people", "window", "GROUP BY"),
    ("SELECT sex, SUM(pay) »OVER« () FROM people GROUP BY sex", "window function", 'answer.why_ratio("A")'),
    ("SELECT COUNT(*) * 100.0 / SUM(COUNT(*)) »OVER« () FROM people", "window function", "why A --share"),
    ("SELECT sex, COUNT(*) / (»SELECT« COUNT(*) FROM people) FROM people", "subquery", "why A --share"),
    ("SELECT »ROW_NUMBER«() OVER (ORDER BY pay) FROM people", "ROW_NUMBER", "rows are private"),
    ("SELECT sex, »FOO«(pay) FROM people GROUP BY sex", "There is no function FOO here.", "AVG, MEDIAN"),
    ("SELECT AVG(»FOO«(pay)) FROM people", "There is no function FOO here.", "FLOOR, GREATEST"),
    ("SELECT COUNT(*) FILTER (WHERE »sex«) FROM people", "sex is not a condition", "comparison"),
    ("SELECT sex, COUNT(*) FROM people GROUP BY »ROLLUP« (sex)", "ROLLUP", "plain columns"),
    ("SELECT sex, COUNT(*) FROM people GROUP BY »CUBE«(sex)", "CUBE", "plain columns"),
    (
        "SELECT sex, COUNT(*) FROM people GROUP BY »GROUPING SETS« ((sex), ())",
        "GROUPING SETS",
        "plain columns",
    ),
    ("SELECT sex, COUNT(*) FROM people GROUP BY »ALL«", "ALL", "name the columns"),
    ("SELECT sex, kids, COUNT(*) FROM people GROUP BY (»sex, kids«)", "list in parentheses", "plain columns"),
    ("SELECT COUNT(*) FROM people LIMIT 5 »OFFSET« 2", "OFFSET", "LIMIT"),
    ("SELECT COUNT(*) FROM people LIMIT »5«, 2", "OFFSET", "LIMIT"),
    ("SELECT COUNT(*) FROM people »FETCH« FIRST 5 ROWS ONLY", "FETCH", "LIMIT"),
    ("SELECT COUNT(*) FROM people LIMIT »2.5«", "LIMIT", "whole number"),
    ("SELECT COUNT(*) FROM people LIMIT »0«", "LIMIT", "whole number"),
    ("SELECT COUNT(*) FROM people LIMIT »-1«", "LIMIT", "whole number"),
    ("SELECT COUNT(*) FROM people LIMIT »'5'«", "LIMIT", "whole number"),
    ("SELECT COUNT(*) FROM people LIMIT 10»%«", "%", ""),
    ("SELECT sex, COUNT(*) FROM people GROUP BY sex ORDER BY sex »NULLS« LAST", "NULLS", "sort the answer"),
    ("SELECT COUNT(*) FROM people »TABLESAMPLE« 10%", "Sampling", "whole table"),
    ("SELECT COUNT(*) FROM people »USING« SAMPLE 10%", "Sampling", "whole table"),
    ("SELECT COUNT(*) »INTO« x FROM people", "SELECT INTO", "export the answer"),
    ("SELECT COUNT(*) FROM people »FOR« UPDATE", "FOR", "only read"),
    ("SELECT »TOP« 5 COUNT(*) FROM people", "TOP", "LIMIT"),
    (
        "SELECT COUNT(*) FROM people LIMIT 3 »WHERE« pay = 1",
        "WHERE is repeated or in the wrong place",
        "WHERE conditions",
    ),
    ("SELECT COUNT(*) FROM people WHERE pay = 1 »WHERE« pay = 2", "WHERE", "WHERE conditions"),
    ("SELECT COUNT(*)»,« FROM people", "comma", "Remove"),
    # statements
    ("»DROP« TABLE people", "DROP", "only read"),
    ("»INSERT« INTO people VALUES (1)", "INSERT", "only read"),
    ("»PRAGMA« database_list", "PRAGMA", "only read"),
    ("»SET« x = 1", "SET", "only read"),
    ("»FROM« people SELECT COUNT(*)", "FROM", "SELECT first"),
    ("»(«SELECT COUNT(*) FROM people)", "(", "parentheses"),
    ("»EXPLAIN« SELECT COUNT(*) FROM people", "EXPLAIN", "preview"),
    ("SELECT COUNT(*) FROM people; »DROP« TABLE people", "second statement", "one statement"),
    # the table
    ("SELECT COUNT(*) FROM »peple«", "no table peple", "FROM people"),
    ('SELECT COUNT(*) FROM »"People"«', "no table People", "FROM people"),
    ("SELECT COUNT(*) FROM »main.people«", "database", "table.column"),
    ("SELECT COUNT(*) FROM »read_csv«('x')", "READ_CSV", "Aggregate with COUNT"),
    ("SELECT COUNT(*) FROM »'people.parquet'«", "no table", "FROM people"),
    ("SELECT COUNT(*»)«", "FROM is missing", "FROM people"),
    ("SELECT COUNT(*) FROM people AS p WHERE »q«.pay = 1", "called q", "p.pay"),
    # SELECT
    ("SELECT »*« FROM people", "SELECT *", "Name the GROUP BY columns"),
    ("SELECT »people.*«, COUNT(*) FROM people", "SELECT *", "Name the GROUP BY columns"),
    ("»SELECT« sex FROM people GROUP BY sex", "no aggregate", "COUNT(*)"),
    ("SELECT AVG(pay), COUNT(*), »AVG(PAY)« AS again FROM people", "AVG(pay) is selected twice", "once"),
    ("SELECT COUNT(*) AS n, »COUNT(1)« AS m FROM people", "COUNT(*) is selected twice", "once"),
    ("SELECT COUNT(*) AS n, »AVG(pay) AS n« FROM people", "are called n", "AS"),
    (
        "SELECT COUNT(*), SUM(»sex«) FROM people",
        "needs a column with bounds",
        "Choose a column with bounds: age, pay",
    ),
    ("SELECT »sex«, COUNT(*) FROM people", "in SELECT but not in GROUP BY", "GROUP BY sex"),
    ("SELECT sex, »sex«, COUNT(*) FROM people GROUP BY sex", "are called sex", "AS"),
    ("SELECT »1«, COUNT(*) FROM people", "same value in every row", "column of the schema"),
    ("SELECT »pay + 1«, COUNT(*) FROM people", "in SELECT but not in GROUP BY", "GROUP BY pay + 1"),
    ("SELECT »pay« + COUNT(*) FROM people", "pay is a column", "AVG(pay)"),
    ("SELECT »MAX«(pay) FROM people", "MAX", "QUANTILE_CONT"),
    (
        "SELECT PERCENTILE_CONT(0.9) WITHIN GROUP (ORDER BY »pay« DESC) FROM people",
        "quantile with DESC",
        "Leave out DESC",
    ),
    (
        "SELECT »SUM(pay)« WITHIN GROUP (ORDER BY pay) FROM people",
        "one quantile of one column",
        "PERCENTILE_CONT(0.9) WITHIN GROUP (ORDER BY column)",
    ),
    ("SELECT PERCENTILE_CONT(»0.9«) FROM people", "one column or expression", "QUANTILE_CONT(column, 0.9)"),
    ("SELECT »COLUMNS«(*) FROM people", "COLUMNS", "Aggregate with COUNT"),
    ("SELECT »#«1 FROM people", "position", "Name the column"),
    (
        "SELECT AVG(CASE WHEN »pay > 1 THEN 1 ELSE 'a'« END) FROM people",
        "mixes number and text",
        "one type",
    ),
    (
        "SELECT SUM(»education«) FROM people",
        "needs a column with bounds",
        "bounds = [low, high] for education",
    ),
    (
        "SELECT AVG(»height«) FROM people",
        "needs a column with bounds",
        "Choose a column with bounds: age, pay",
    ),
    ("SELECT SUM(»sex« * 2) FROM people", "sex is not a number", "numbers"),
    ("SELECT SUM(»age / pay«) FROM people", "can be close to 0", "CASE WHEN pay >= 1 THEN age / pay END"),
    ("SELECT SUM(»COUNT(*)«) FROM people", "aggregate cannot", ""),
    ("SELECT SUM(»*«) FROM people", "one column or expression", "SUM(column)"),
    ("SELECT SUM(»1«) FROM people", "one column or expression", "SUM(column)"),
    ("SELECT COUNT(pay, »age«) FROM people", "one column", "COUNT(*)"),
    ("SELECT COUNT(»ALL« pay) FROM people", "ALL", "Leave it out"),
    ("SELECT AVG(»pay« ORDER BY age) FROM people", "ORDER BY inside", "Leave it out"),
    # GROUP BY and ORDER BY
    ("SELECT COUNT(*) FROM people GROUP BY »sex«", "not in SELECT", "Add sex to SELECT"),
    (
        "SELECT pay, COUNT(*) FROM people GROUP BY »pay«",
        "no values or edges",
        "edges = [...] for pay",
    ),
    ("SELECT sex, COUNT(*) FROM people GROUP BY sex, »SEX«", "twice", "once"),
    ("SELECT sex, COUNT(*) FROM people GROUP BY »3«", "no column number", "1 to 2"),
    ("SELECT sex, COUNT(*) FROM people GROUP BY »2«", "GROUP BY cannot use an aggregate", "columns"),
    ("SELECT sex, COUNT(*) AS n FROM people GROUP BY »n«", "GROUP BY cannot use an aggregate", "columns"),
    (
        "SELECT COUNT(*), sex, AVG(pay) FROM people GROUP BY 2, »3«",
        "GROUP BY cannot use an aggregate",
        "columns",
    ),
    ("SELECT sex AS kids, COUNT(*) FROM people GROUP BY »kids«", "not in SELECT", "Add kids"),
    ("SELECT sex, COUNT(*) FROM people GROUP BY sex ORDER BY »education«", "not in SELECT", "sex, COUNT(*)"),
    (
        "SELECT sex, COUNT(*) FROM people GROUP BY sex ORDER BY COUNT(*) / »pay«",
        "pay is a column",
        "AVG(pay)",
    ),
    ("SELECT sex, COUNT(*) FROM people GROUP BY sex ORDER BY »0«", "no column number", "1 to 2"),
    # columns and literals in WHERE
    (
        "SELECT »educaton«, COUNT(*) FROM people GROUP BY education",
        "educaton",
        "education?",
    ),
    ("SELECT COUNT(*) FROM people WHERE sex = »Male«", "no column Male", "write 'Male'"),
    ('SELECT COUNT(*) FROM people WHERE sex = »"Male"«', "no column Male", "write 'Male'"),
    ("SELECT COUNT(*) FROM people WHERE sex = »'male'«", "not one of the values of sex", "Male"),
    ("SELECT COUNT(*) FROM people WHERE education = »'PhD'«", "not one of the values", "'it''s'"),
    ("SELECT COUNT(*) FROM people WHERE education IN ('Masters', »3«)", "not one of the values", "'Masters'"),
    ("SELECT COUNT(*) FROM people WHERE kids = »1.5«", "not one of the values", "0, 1, 2, 3"),
    ("SELECT COUNT(*) FROM people WHERE kids = »-1«", "not one of the values", "0, 1, 2, 3"),
    ("SELECT COUNT(*) FROM people WHERE kids = »TRUE«", "not one of the values", "0, 1, 2, 3"),
    ("SELECT COUNT(*) FROM people WHERE active = »1«", "not one of the values", "TRUE, FALSE"),
    ("SELECT COUNT(*) FROM people WHERE education > »'Masters'«", "no order", "education IN"),
    ("SELECT COUNT(*) FROM people WHERE pay > »'x'«", "compared with numbers", "plain number"),
    ("SELECT COUNT(*) FROM people WHERE pay > »TRUE«", "compared with numbers", "plain number"),
    ("SELECT COUNT(*) FROM people WHERE pay > »1e999«", "too large", "1e300"),
    ("SELECT COUNT(*) FROM people WHERE pay > - »-1«", "value here", "number"),
    ("SELECT COUNT(*) FROM people WHERE pay = »NULL«", "NULL", "IS NULL"),
    ("SELECT COUNT(*) FROM people WHERE »NULL« <> pay AND age = 1", "NULL", "IS NULL"),
    ("SELECT COUNT(*) FROM people WHERE pay IN (1, »NULL«)", "NULL", "IS NULL"),
    ("SELECT COUNT(*) FROM people WHERE »pay« IN ()", "empty", "at least one"),
    ("SELECT COUNT(*) FROM people WHERE pay IN »age«", "list of values", "IN (1, 2, 3)"),
    ("SELECT COUNT(*) FROM people WHERE »pay > sex«", "compares number with text", "the same type"),
    ("SELECT COUNT(*) FROM people WHERE »1 = 1«", "two constants", "a column"),
    ("SELECT COUNT(*) FROM people WHERE »TRUE«", "not a condition", "a column"),
    ("SELECT COUNT(*) FROM people WHERE »sex«", "not a condition", "a column"),
    ("SELECT COUNT(*) FROM people WHERE »1 < pay < 3«", "compares boolean with number", "the same type"),
    ("SELECT COUNT(*) FROM people WHERE active IS »TRUE«", "IS", "= TRUE"),
    ("SELECT COUNT(*) FROM people WHERE sex IS »DISTINCT« FROM 'Male'", "DISTINCT FROM", "IS NULL"),
    ("SELECT COUNT(*) FROM people WHERE pay »ISNULL«", "ISNULL", "IS NULL"),
    ("SELECT COUNT(*) FROM people WHERE sex LIKE »'X%'«", "No declared value", "'Female'"),
    ("SELECT COUNT(*) FROM people WHERE sex »GLOB« 'M*'", "GLOB", "IN ("),
    ("SELECT COUNT(*) FROM people WHERE »REVERSE«(sex) = 'elaM'", "REVERSE", "COALESCE"),
    ("SELECT COUNT(*) FROM people WHERE pay »//« 2 > 3", "Arithmetic", "FLOOR"),
    ("SELECT COUNT(*) FROM people WHERE CAST(pay AS »UUID«) = 3", "UUID", ""),
    ("SELECT COUNT(*) FROM people WHERE DATE »'2020-01-01'« = pay", "value here", "number"),
    ("SELECT COUNT(*) FROM people WHERE (»pay, age«) = (1, 2)", "list in parentheses", "one column"),
    ("SELECT COUNT(*) FROM people WHERE pay = »?«", "parameter", "value itself"),
    ("SELECT COUNT(*) FROM people WHERE pay = »$«1", "parameter", "value itself"),
    ("SELECT COUNT(*) FROM people WHERE pay = »:«x", "parameter", "value itself"),
    ("SELECT COUNT(*) FROM people WHERE pay BETWEEN »SYMMETRIC« 2 AND 1", "SYMMETRIC", "smaller"),
    ("SELECT COUNT(*) FROM people WHERE »COUNT(*)« > 3", "aggregate cannot", ""),
    ("SELECT COUNT(*) FROM people WHERE sex »&&« active", "&&", "WHERE conditions"),
    # what fuzzing has found (make fuzz)
    ("SELECT SUM(FLOOR(»pay, 1«)) FROM people", "FLOOR does not take 2 arguments", "FLOOR(a)"),
    ("SELECT AVG(CEIL(»pay, 1«)) FROM people", "CEIL does not take 2 arguments", "CEIL(a)"),
    ("SELECT COUNT(TRIM(»sex, 'M'«)) FROM people", "TRIM does not take 2 arguments", "TRIM(a)"),
    ("SELECT COUNT(*) FROM people WHERE (»sex = 'Male') BETWEEN 1 AND 2«", "compares boolean", ""),
    ("SELECT COUNT(*) FILTER (WHERE (»active = TRUE) BETWEEN 0 AND 3«) FROM people", "compares boolean", ""),
    ("SELECT sex, kids, COUNT(*) FROM people GROUP BY 1, »2.0«", "no column number", "number from 1 to 3"),
    ('SELECT »"«', "never closed", "Close"),
    ("»-- nothing but a comment«", "empty", "SELECT columns"),
    # text that is no SQL
    ("SELECT COUNT(*) FROM people WHERE sex = »'«Male", "never closed", "Close"),
    ("SELECT COUNT(*) FROM people\nWHERE sex = »'«Male", "never closed", "Close"),
    ("SELECT COUNT(*) FROM people »/«* WHERE", "never closed", "Close"),
    ("SELECT COUNT(*) FROM people »WHERE«", "WHERE", "WHERE conditions"),
    ("SELECT COUNT(* »FROM« people", "FROM", "FROM the table"),
    ("SELECT COUNT(*) FROM people»)«", ")", "FROM the table"),
    ("SELECT COUNT(*) FROM »`«people`", "backtick", "double quotes"),
    ("»hello« world", "HELLO", "SELECT columns"),
]


@pytest.mark.parametrize(("marked", "problem", "remedy"), REFUSED)
def test_refusal_names_the_clause_its_place_and_the_remedy(marked: str, problem: str, remedy: str) -> None:
    before, _, rest = marked.partition("»")
    offending = rest.partition("«")[0]
    sql = marked.replace("»", "").replace("«", "")
    error = refusal(sql)
    assert (error.start, error.end) == (len(before), len(before) + len(offending)), str(error)
    assert error.line == before.count("\n") + 1
    assert error.column == len(before) - (before.rfind("\n") + 1) + 1
    assert problem in error.problem
    assert remedy in error.remedy
    assert error.remedy.endswith((".", "?"))


@pytest.mark.parametrize(
    ("name", "sql"),
    [
        ("case", "SELECT {}, COUNT(*) FROM t GROUP BY {}"),
        ("Limit", "SELECT sex, COUNT(*) FROM t GROUP BY {}"),
        ("from", "SELECT AVG({}) FROM t"),
        ("when", "SELECT COUNT(*) FROM t WHERE {} = 'a'"),
        ("offset", "SELECT {}, COUNT(*) FROM t GROUP BY {}"),
        ("all", "SELECT {}, COUNT(*) FROM t GROUP BY {}"),
        ("like", "SELECT COUNT(*) FROM t WHERE sex = 'a' AND {} = 'a'"),
        ("any", "SELECT COUNT(*) FROM t WHERE NOT {} = 'a'"),
    ],
)
def test_a_column_named_by_a_reserved_word_is_to_be_quoted(name: str, sql: str) -> None:
    columns = {name: {"values": ["a"]}, "sex": {"values": ["a"]}}
    schema = Schema.load({"table": {"name": "t"}, "privacy": {"rho": 1}, "columns": columns})
    word = name.upper()
    with pytest.raises(QueryRefused) as caught:
        parse(sql.format(word, word), schema)
    error = caught.value
    assert error.reason == f"{word} is a reserved word of SQL."
    assert error.remedy == f'Write the column in double quotes: "{name}".'
    assert error.sql[error.start : error.end] == word
    assert parse(f'SELECT "{name}", COUNT(*) FROM t WHERE "{name}" = \'a\' GROUP BY "{name}"', schema)


def test_a_reserved_word_in_its_own_place_is_not_taken_for_a_column() -> None:
    columns = {"limit": {"values": ["a"]}, "case": {"values": ["a"]}}
    schema = Schema.load({"table": {"name": "t"}, "privacy": {"rho": 1}, "columns": columns})
    with pytest.raises(QueryRefused, match="FOO"):
        parse("SELECT FOO(*) FROM t LIMIT 3", schema)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT »person«, COUNT(*) FROM t GROUP BY person",
        "SELECT COUNT(*) FROM t WHERE »Person« = 3",
        "SELECT AVG(»person«) FROM t",
    ],
)
def test_the_privacy_unit_is_refused_as_what_it_is(sql: str) -> None:
    privacy = {"rho": 1, "unit": "person", "max_rows": 2}
    schema = Schema.load({"table": {"name": "t"}, "privacy": privacy, "columns": {"sex": {"values": ["F"]}}})
    with pytest.raises(QueryRefused) as caught:
        parse(sql.replace("»", "").replace("«", ""), schema)
    assert caught.value.reason == (
        "person identifies the people being protected, so a query cannot group by it or read it."
    )
    assert caught.value.remedy == "To count them, write COUNT(DISTINCT person)."
    assert caught.value.start == sql.index("»")


def test_a_value_label_stands_for_its_value_where_that_is_clear() -> None:
    race = {
        "values": [1, 2, 3, 4],
        "value_labels": {"1": "White", "2": "Other", "3": "Other", "NULL": "None"},
    }
    text = {"values": ["w", "b", "White"], "value_labels": {"w": "White", "b": "Black"}}
    columns = {"race": race | {"null": True}, "text": text}
    schema = Schema.load({"table": {"name": "t"}, "privacy": {"rho": 1}, "columns": columns})

    def where(condition: str) -> Any:
        return parse(f"SELECT COUNT(*) FROM t WHERE {condition}", schema).query.where

    assert where("race = 'White'") == where("race = 1")
    assert where("race <> 'White'") == where("race <> 1")
    assert where("race IN ('White', 4)") == where("race IN (1, 4)")
    assert where("text = 'Black'") == where("text = 'b'")
    assert where("text = 'White'") == Comparison("text", "=", "White")  # a value goes before a label
    for condition, problem, remedy in (
        ("race = 'Other'", "This is the label of several values of race.", "Write race IN (2, 3)."),
        ("race = 'None'", "This is the label of NULL in race.", "Write race IS NULL."),
        ("race <> 'None'", "This is the label of NULL in race.", "Write race IS NOT NULL."),
        ("race > 'White'", "'White' is not one of the values", "Its values are 1, 2, 3, 4."),
    ):
        with pytest.raises(QueryRefused) as caught:
            where(condition)
        assert caught.value.reason.startswith(problem)
        assert caught.value.remedy == remedy


def test_position_counts_lines_and_skips_comments() -> None:
    error = refusal("SELECT sex, -- ünïcode 😀\n       COUNT(*)\nFROM people /* QUALIFY */\n  QUALIFY 1")
    assert (error.line, error.column) == (4, 3)
    assert error.sql[error.start : error.end] == "QUALIFY"


@pytest.mark.parametrize("sql", ["", "  \n ", ";", ";;", "-- only a comment", "/* so is this */"])
def test_empty_text_is_refused(sql: str) -> None:
    assert "empty" in refusal(sql).problem


def test_long_text_is_refused() -> None:
    error = refusal("SELECT COUNT(*) FROM people WHERE pay IN (" + "1, " * 10_000 + "1)")
    assert "30,044 characters" in error.problem
    assert error.line is None


@pytest.mark.parametrize(
    "inner",
    [
        "(" * 3000 + "active" + ")" * 3000,
        "NOT " * 3000 + "active",
        "pay = " + "- " * 3000 + "1",
        "[" * 200 + "]" * 200,
        "CASE " * 2000,
        "COUNT(" * 200 + "*" + ")" * 200,
        "pay " + "IS NULL " * 2000,
        "1 " + "< pay " * 2000,
        "INTERVAL " * 2000,
    ],
)
def test_deep_nesting_is_refused_not_a_crash(inner: str) -> None:
    assert refusal(f"SELECT COUNT(*) FROM people WHERE {inner}").remedy


class TooManyCalls(BaseException):
    """Not an Exception, so that nothing on the way catches it."""


@contextmanager
def at_most_calls(limit: int) -> Iterator[None]:
    """Bounds the work of a block by its Python calls, which are the same on any machine."""
    calls = 0

    def count(_frame: Any, event: str, _argument: Any) -> None:
        nonlocal calls
        calls += event == "call"
        if calls > limit:
            raise TooManyCalls(calls)

    sys.setprofile(count)
    try:
        yield
    finally:
        sys.setprofile(None)


@pytest.mark.parametrize(
    "unit",
    [
        *("JOIN x ", "DATE (", "STRUCT(", "ROW(", "(", "x(", "COUNT(", "(a, ", "CASE WHEN (", "{'a': "),
        *("FROM (SELECT ", "FROM (SELECT * ", "(SELECT * FROM ", "FROM x AS (SELECT ", "FROM ("),
    ],
)
def test_no_text_takes_the_parser_exponential_time(unit: str) -> None:
    for prefix in ("SELECT ", "SELECT COUNT(*) FROM people WHERE ", "SELECT COUNT(*) FROM people "):
        with at_most_calls(50_000):  # trying each of 24 levels twice would take 16 million
            refusal(prefix + unit * 24)
            refusal(prefix + unit * 24 + "x" + ")" * 24)


def test_commands_are_refused_without_a_word_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        for word in (
            "ALTER TABLE people ADD x int",
            "CALL f()",
            "VACUUM",
            "COPY people TO 'x'",
            "GRANT x TO y",
            "WITH f AS (SELECT * FROM people) SET x = 1",
        ):
            refusal(word)
    assert not caplog.records
