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
    ("SELECT sex, COUNT(*) FROM people GROUP BY sex HAVING »1« > 0", "Two numbers", "COUNT(*) > 100"),
    ("SELECT sex, COUNT(*) FROM people GROUP BY sex HAVING »COUNT(*) IN (1, 2«)", "comparison", "aggregates"),
    ("SELECT sex, COUNT(*) FROM people GROUP BY sex HAVING COUNT(*) > »'x'«", "released values", "numbers"),
    ("SELECT sex, COUNT(*) FROM people GROUP BY sex HAVING »MAX«(pay) > 3", "MAX", "QUANTILE_CONT"),
    ("SELECT sex, COUNT(*) FROM people ORDER BY 1 »HAVING« COUNT(*) > 1", "HAVING comes", "HAVING"),
    ("SELECT COUNT(*) + »pay« FROM people", "pay is a column", "AVG(pay)"),
    ("SELECT COUNT(*) / »0« FROM people", "divided by 0", "another number"),
    ("SELECT »COUNT(*) % 2« FROM people", "released values", "numbers and aggregates"),
    ("SELECT 1 + »ROUND(AVG(pay), 1«) FROM people", "ROUND inside", "whole expression"),
    ("SELECT ROUND(AVG(pay), »99«) FROM people", "digits", "0 to 12"),
    ("SELECT »NULLIF(COUNT(*), 0«) FROM people", "released values", "numbers and aggregates"),
    ("SELECT COUNT(*) * »1e200« FROM people", "too large", "1e100"),
    (
        "SELECT sex, COUNT(*) / 2 AS n, »SUM(pay) / 2 AS n« FROM people GROUP BY sex",
        "n is selected twice",
        "AS",
    ),
    ("SELECT COUNT(*) FROM people »QUALIFY« 1 = 1", "QUALIFY", "filter the released"),
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
    ("WITH a AS (SELECT sex FROM »peple«) SELECT COUNT(*) FROM people", "no declared table peple", "people"),
    ("WITH a AS (SELECT »sx« FROM people) SELECT COUNT(*) FROM a", "no column sx here", "sex?"),
    ("WITH a AS (SELECT sex FROM people) SELECT AVG(»pay«) FROM a", "no column pay here", "sex"),
    ("WITH a AS (SELECT pay FROM people) SELECT AVG(»b«.pay) FROM a", "called b", "a.pay"),
    (
        "WITH a AS (SELECT sex, »pay AS sex« FROM people) SELECT COUNT(*) FROM a",
        "sex is selected twice",
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
    ("WITH a AS (SELECT pay AS p FROM people) SELECT p, COUNT(*) FROM a GROUP BY »p«", "pay has no", "edges"),
    ("WITH a AS (SELECT * FROM people WHERE pay > »'x'«) SELECT COUNT(*) FROM a", "numbers only", "number"),
    ("WITH a AS (SELECT * FROM people GROUP BY sex »WHERE« pay > 1) SELECT COUNT(*) FROM a", "too late", ""),
    ("SELECT COUNT(*) FROM people »UNION« ALL SELECT COUNT(*) FROM people", "UNION", "combine the released"),
    ("SELECT COUNT(*) FROM people »EXCEPT« SELECT 1", "EXCEPT", "combine the released"),
    ("SELECT COUNT(*) »OVER« () FROM people", "window", "GROUP BY"),
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
    ("SELECT sex, COUNT(*) FROM people GROUP BY sex ORDER BY sex »NULLS« LAST", "NULLS", "released answer"),
    ("SELECT COUNT(*) FROM people »TABLESAMPLE« 10%", "Sampling", "whole table"),
    ("SELECT COUNT(*) FROM people »USING« SAMPLE 10%", "Sampling", "whole table"),
    ("SELECT COUNT(*) »INTO« x FROM people", "SELECT INTO", "exported"),
    ("SELECT COUNT(*) FROM people »FOR« UPDATE", "FOR", "only ever read"),
    ("SELECT »TOP« 5 COUNT(*) FROM people", "TOP", "LIMIT"),
    ("SELECT COUNT(*) FROM people LIMIT 3 »WHERE« pay = 1", "WHERE comes", "WHERE conditions"),
    ("SELECT COUNT(*) FROM people WHERE pay = 1 »WHERE« pay = 2", "WHERE", "WHERE conditions"),
    ("SELECT COUNT(*)»,« FROM people", "comma", "Remove"),
    # statements
    ("»DROP« TABLE people", "DROP", "only ever read"),
    ("»INSERT« INTO people VALUES (1)", "INSERT", "only ever read"),
    ("»PRAGMA« database_list", "PRAGMA", "only ever read"),
    ("»SET« x = 1", "SET", "only ever read"),
    ("»FROM« people SELECT COUNT(*)", "FROM", "SELECT first"),
    ("»(«SELECT COUNT(*) FROM people)", "(", "parentheses"),
    ("»EXPLAIN« SELECT COUNT(*) FROM people", "EXPLAIN", "preview"),
    ("SELECT COUNT(*) FROM people; »DROP« TABLE people", "second statement", "one statement"),
    # the table
    ("SELECT COUNT(*) FROM »peple«", "no declared table peple", "FROM people"),
    ('SELECT COUNT(*) FROM »"People"«', "no declared table People", "FROM people"),
    ("SELECT COUNT(*) FROM »main.people«", "database", "table.column"),
    ("SELECT COUNT(*) FROM »read_csv«('x')", "READ_CSV", "Answered are COUNT"),
    ("SELECT COUNT(*) FROM »'people.parquet'«", "no declared table", "FROM people"),
    ("SELECT COUNT(*»)«", "FROM is missing", "FROM people"),
    ("SELECT COUNT(*) FROM people AS p WHERE »q«.pay = 1", "called q", "p.pay"),
    # SELECT
    ("SELECT »*« FROM people", "SELECT *", "Name the GROUP BY columns"),
    ("SELECT »people.*«, COUNT(*) FROM people", "SELECT *", "Name the GROUP BY columns"),
    ("»SELECT« sex FROM people GROUP BY sex", "No aggregate", "COUNT(*)"),
    ("SELECT AVG(pay), COUNT(*), »AVG(PAY)« AS again FROM people", "AVG(pay) is selected twice", "once"),
    ("SELECT COUNT(*) AS n, »COUNT(1)« AS m FROM people", "COUNT(*) is selected twice", "once"),
    ("SELECT COUNT(*) AS n, »AVG(pay) AS n« FROM people", "name n is selected twice", "AS"),
    (
        "SELECT COUNT(*), SUM(»sex«) FROM people",
        "needs a column with bounds",
        "columns with bounds: age, pay",
    ),
    ("SELECT »sex«, COUNT(*) FROM people", "selected but not grouped", "GROUP BY sex"),
    ("SELECT sex, »sex«, COUNT(*) FROM people GROUP BY sex", "twice", "AS"),
    ("SELECT »1«, COUNT(*) FROM people", "same for all rows", "declared column"),
    ("SELECT »pay + 1«, COUNT(*) FROM people", "selected but not grouped", "GROUP BY pay + 1"),
    ("SELECT »pay« + COUNT(*) FROM people", "pay is a column", "AVG(pay)"),
    ("SELECT »MAX«(pay) FROM people", "MAX", "QUANTILE_CONT"),
    (
        "SELECT PERCENTILE_CONT(0.9) WITHIN GROUP (ORDER BY »pay« DESC) FROM people",
        "quantile from above",
        "Leave DESC out",
    ),
    (
        "SELECT »SUM(pay)« WITHIN GROUP (ORDER BY pay) FROM people",
        "one quantile of one column",
        "PERCENTILE_CONT(0.9) WITHIN GROUP (ORDER BY column)",
    ),
    ("SELECT PERCENTILE_CONT(»0.9«) FROM people", "one column or expression", "QUANTILE_CONT(column, 0.9)"),
    ("SELECT »COLUMNS«(*) FROM people", "COLUMNS", "Answered are COUNT"),
    ("SELECT »#«1 FROM people", "position", "Name the column"),
    ("SELECT AVG(CASE WHEN »pay > 1 THEN 1 ELSE 'a'« END) FROM people", "mixes number and text", "one type"),
    (
        "SELECT SUM(»education«) FROM people",
        "needs a column with bounds",
        "bounds = [low, high] for education",
    ),
    ("SELECT AVG(»height«) FROM people", "needs a column with bounds", "columns with bounds: age, pay"),
    ("SELECT SUM(»sex« * 2) FROM people", "sex is not a number", "numbers"),
    ("SELECT SUM(»age / pay«) FROM people", "arbitrarily near 0", "CASE WHEN pay >= 1 THEN age / pay END"),
    ("SELECT SUM(»COUNT(*)«) FROM people", "aggregate cannot", ""),
    ("SELECT SUM(»*«) FROM people", "one column or expression", "SUM(column)"),
    ("SELECT SUM(»1«) FROM people", "one column or expression", "SUM(column)"),
    ("SELECT COUNT(pay, »age«) FROM people", "one column", "COUNT(*)"),
    ("SELECT COUNT(»ALL« pay) FROM people", "ALL", "Leave it out"),
    ("SELECT AVG(»pay« ORDER BY age) FROM people", "ORDER BY inside", "Leave it out"),
    # GROUP BY and ORDER BY
    ("SELECT COUNT(*) FROM people GROUP BY »sex«", "not selected", "Add sex to SELECT"),
    (
        "SELECT pay, COUNT(*) FROM people GROUP BY »pay«",
        "no declared values or edges",
        "edges = [...] for pay",
    ),
    ("SELECT sex, COUNT(*) FROM people GROUP BY sex, »SEX«", "twice", "once"),
    ("SELECT sex, COUNT(*) FROM people GROUP BY »3«", "not a place", "1 to 2"),
    ("SELECT sex, COUNT(*) FROM people GROUP BY »2«", "aggregate cannot", "columns"),
    ("SELECT sex, COUNT(*) AS n FROM people GROUP BY »n«", "aggregate cannot", "columns"),
    ("SELECT COUNT(*), sex, AVG(pay) FROM people GROUP BY 2, »3«", "aggregate cannot", "columns"),
    ("SELECT sex AS kids, COUNT(*) FROM people GROUP BY »kids«", "not selected", "Add kids"),
    ("SELECT sex, COUNT(*) FROM people GROUP BY sex ORDER BY »education«", "not selected", "sex, COUNT(*)"),
    (
        "SELECT sex, COUNT(*) FROM people GROUP BY sex ORDER BY COUNT(*) / »pay«",
        "pay is a column",
        "AVG(pay)",
    ),
    ("SELECT sex, COUNT(*) FROM people GROUP BY sex ORDER BY »0«", "not a place", "1 to 2"),
    # columns and literals in WHERE
    (
        "SELECT »educaton«, COUNT(*) FROM people GROUP BY education",
        "educaton",
        "education?",
    ),
    ("SELECT COUNT(*) FROM people WHERE sex = »Male«", "no declared column Male", "write 'Male'"),
    ('SELECT COUNT(*) FROM people WHERE sex = »"Male"«', "no declared column Male", "write 'Male'"),
    ("SELECT COUNT(*) FROM people WHERE sex = »'male'«", "not a declared value of sex", "Male"),
    ("SELECT COUNT(*) FROM people WHERE education = »'PhD'«", "not a declared value", "'it''s'"),
    ("SELECT COUNT(*) FROM people WHERE education IN ('Masters', »3«)", "not a declared value", "'Masters'"),
    ("SELECT COUNT(*) FROM people WHERE kids = »1.5«", "not a declared value", "0, 1, 2, 3"),
    ("SELECT COUNT(*) FROM people WHERE kids = »-1«", "not a declared value", "0, 1, 2, 3"),
    ("SELECT COUNT(*) FROM people WHERE kids = »TRUE«", "not a declared value", "0, 1, 2, 3"),
    ("SELECT COUNT(*) FROM people WHERE active = »1«", "not a declared value", "TRUE, FALSE"),
    ("SELECT COUNT(*) FROM people WHERE education > »'Masters'«", "no order", "education IN"),
    ("SELECT COUNT(*) FROM people WHERE pay > »'x'«", "numbers only", "plain number"),
    ("SELECT COUNT(*) FROM people WHERE pay > »TRUE«", "numbers only", "plain number"),
    ("SELECT COUNT(*) FROM people WHERE pay > »1e999«", "too large", "1e300"),
    ("SELECT COUNT(*) FROM people WHERE pay > - »-1«", "literal", "number"),
    ("SELECT COUNT(*) FROM people WHERE pay = »NULL«", "NULL", "IS NULL"),
    ("SELECT COUNT(*) FROM people WHERE »NULL« <> pay AND age = 1", "NULL", "IS NULL"),
    ("SELECT COUNT(*) FROM people WHERE pay IN (1, »NULL«)", "NULL", "IS NULL"),
    ("SELECT COUNT(*) FROM people WHERE »pay« IN ()", "empty", "at least one"),
    ("SELECT COUNT(*) FROM people WHERE pay IN »age«", "list of literals", "IN (1, 2, 3)"),
    ("SELECT COUNT(*) FROM people WHERE »pay > sex«", "compares number with text", "one type"),
    ("SELECT COUNT(*) FROM people WHERE »1 = 1«", "Two literals", "one column"),
    ("SELECT COUNT(*) FROM people WHERE »TRUE«", "condition", "one column"),
    ("SELECT COUNT(*) FROM people WHERE »sex«", "not a condition", "one column"),
    ("SELECT COUNT(*) FROM people WHERE »1 < pay < 3«", "compares boolean with number", "one type"),
    ("SELECT COUNT(*) FROM people WHERE active IS »TRUE«", "IS", "= TRUE"),
    ("SELECT COUNT(*) FROM people WHERE sex IS »DISTINCT« FROM 'Male'", "DISTINCT FROM", "IS NULL"),
    ("SELECT COUNT(*) FROM people WHERE pay »ISNULL«", "ISNULL", "IS NULL"),
    ("SELECT COUNT(*) FROM people WHERE sex LIKE »'X%'«", "No declared value", "'Female'"),
    ("SELECT COUNT(*) FROM people WHERE sex »GLOB« 'M*'", "GLOB", "IN ("),
    ("SELECT COUNT(*) FROM people WHERE »REVERSE«(sex) = 'elaM'", "REVERSE", "COALESCE"),
    ("SELECT COUNT(*) FROM people WHERE pay »//« 2 > 3", "Arithmetic", "FLOOR"),
    ("SELECT COUNT(*) FROM people WHERE CAST(pay AS »UUID«) = 3", "UUID", ""),
    ("SELECT COUNT(*) FROM people WHERE DATE »'2020-01-01'« = pay", "literal", "number"),
    ("SELECT COUNT(*) FROM people WHERE (»pay, age«) = (1, 2)", "list in parentheses", "one column"),
    ("SELECT COUNT(*) FROM people WHERE pay = »?«", "parameter", "value itself"),
    ("SELECT COUNT(*) FROM people WHERE pay = »$«1", "parameter", "value itself"),
    ("SELECT COUNT(*) FROM people WHERE pay = »:«x", "parameter", "value itself"),
    ("SELECT COUNT(*) FROM people WHERE pay BETWEEN »SYMMETRIC« 2 AND 1", "SYMMETRIC", "smaller"),
    ("SELECT COUNT(*) FROM people WHERE »COUNT(*)« > 3", "aggregate cannot", ""),
    ("SELECT COUNT(*) FROM people WHERE sex »&&« active", "&&", "WHERE conditions"),
    # what fuzzing has found (make fuzz)
    ("SELECT SUM(FLOOR(»pay, 1«)) FROM people", "FLOOR with 2 arguments", "FLOOR(a)"),
    ("SELECT AVG(CEIL(»pay, 1«)) FROM people", "CEIL with 2 arguments", "CEIL(a)"),
    ("SELECT COUNT(TRIM(»sex, 'M'«)) FROM people", "TRIM with 2 arguments", "TRIM(a)"),
    ("SELECT COUNT(*) FROM people WHERE (»sex = 'Male') BETWEEN 1 AND 2«", "compares boolean", ""),
    ("SELECT COUNT(*) FILTER (WHERE (»active = TRUE) BETWEEN 0 AND 3«) FROM people", "compares boolean", ""),
    ("SELECT sex, kids, COUNT(*) FROM people GROUP BY 1, »2.0«", "not a place", "place from 1 to 3"),
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
