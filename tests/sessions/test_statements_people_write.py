"""SELECT statements as people write them: each answered as DuckDB answers it on the same rows, or refused.

The truth of an answer is compared, so that noise plays no part: what is measured, computed, filtered and
ordered must be what the statement says.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pytest

import dpxplain as dpx
from dpxplain.errors import QueryRefused
from dpxplain.results.answer import Answer
from dpxplain.results.answers import Answers
from dpxplain.session import Session

CARRIERS = ["AA", "B6", "DL", "UA"]
SCHEMA: dict[str, Any] = {
    "table": {"name": "flights"},
    "privacy": {"rho": 1e6},
    "columns": {
        "carrier": {"values": CARRIERS},
        "origin": {"values": ["EWR", "JFK", "LGA"]},
        "month": {"values": list(range(1, 13))},
        "dep_delay": {"bounds": [-100, 1000], "step": 1},
        "arr_delay": {"bounds": [-100, 1000], "step": 1},
        "distance": {"bounds": [0, 5000], "edges": [0, 500, 1000, 5000], "step": 1},
    },
}
RHO = 1e4  # noise far below the differences between groups, so that HAVING and ORDER BY decide as they would


def frame() -> pd.DataFrame:
    rng = np.random.default_rng(11)
    rows = 4000
    carrier = rng.choice(CARRIERS, rows, p=[0.4, 0.3, 0.2, 0.1])
    late = np.where(carrier == "AA", 5, np.where(carrier == "DL", 40, 15))
    delay = np.rint(rng.normal(late, 20, rows).clip(-90, 900))
    arrival = np.rint(delay + rng.normal(-3, 10, rows)).clip(-90, 900)
    arrival[::25] = np.nan
    return pd.DataFrame(
        {
            "carrier": carrier,
            "origin": rng.choice(["EWR", "JFK", "LGA"], rows, p=[0.5, 0.3, 0.2]),
            "month": rng.integers(1, 13, rows),
            "dep_delay": delay,
            "arr_delay": arrival,
            "distance": rng.integers(1, 3000, rows),
        }
    )


FLIGHTS = frame()


@pytest.fixture(scope="module")
def owner(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    folder = tmp_path_factory.mktemp("ledger")
    # Seeded, so that HAVING and ORDER BY never decide otherwise by chance.
    with dpx.connect(FLIGHTS, SCHEMA, workspace=folder, curator=True, insecure_seed=5) as session:
        yield session


@pytest.fixture(scope="module")
def engine() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    connection.register("frame", FLIGHTS)
    connection.execute(
        "CREATE TABLE flights AS SELECT * REPLACE ("
        "CASE WHEN isnan(arr_delay) THEN NULL ELSE arr_delay END AS arr_delay) FROM frame"
    )
    return connection


# Each gives the same rows in DuckDB: in this order where ORDER BY says so, else as a set.
ANSWERED = [
    # one aggregate, several spellings
    "SELECT COUNT(*) FROM flights",
    "select count(*) as n from flights",
    "SELECT COUNT(1) FROM flights",
    "SELECT COUNT(arr_delay) FROM flights",
    "SELECT carrier, COUNT(*) FROM flights GROUP BY carrier",
    "SELECT carrier, COUNT(*) FROM flights GROUP BY 1 ORDER BY 2 DESC",
    "SELECT f.carrier, COUNT(*) FROM flights f GROUP BY f.carrier",
    "SELECT flights.carrier, AVG(flights.arr_delay) FROM flights GROUP BY flights.carrier",
    "SELECT carrier AS airline, AVG(arr_delay) AS mean FROM flights GROUP BY airline ORDER BY mean DESC",
    "SELECT DISTINCT carrier, COUNT(*) FROM flights GROUP BY carrier",
    "SELECT carrier, origin, SUM(dep_delay) FROM flights GROUP BY carrier, origin",
    "SELECT carrier, AVG(arr_delay) FROM flights WHERE origin = 'JFK' AND month IN (1, 2) GROUP BY carrier",
    "SELECT carrier, COUNT(*) FROM flights WHERE month BETWEEN 6 AND 8 OR origin <> 'JFK' GROUP BY carrier",
    "SELECT carrier, COUNT(*) FROM flights GROUP BY carrier ORDER BY carrier DESC LIMIT 2",
    "SELECT carrier, ROUND(AVG(arr_delay), 1) AS mean FROM flights GROUP BY carrier ORDER BY mean",
    "SELECT carrier, ROUND(AVG(arr_delay)) FROM flights GROUP BY carrier",
    # several
    "SELECT carrier, COUNT(*), AVG(arr_delay), SUM(distance) FROM flights GROUP BY carrier",
    "SELECT carrier, COUNT(*) AS n, COUNT(arr_delay) AS known FROM flights GROUP BY carrier ORDER BY n DESC",
    # arithmetic between aggregates
    "SELECT carrier, SUM(arr_delay) / COUNT(*) AS rate FROM flights GROUP BY carrier",
    "SELECT carrier, SUM(arr_delay) / COUNT(arr_delay) FROM flights GROUP BY carrier",
    "SELECT carrier, 100 * AVG(arr_delay) FROM flights GROUP BY carrier",
    "SELECT carrier, 100.0 * COUNT(arr_delay) / COUNT(*) AS percent FROM flights GROUP BY carrier",
    "SELECT carrier, AVG(arr_delay) - AVG(dep_delay) AS gap FROM flights GROUP BY carrier ORDER BY gap",
    "SELECT carrier, (AVG(arr_delay) + AVG(dep_delay)) / 2 AS mean FROM flights GROUP BY carrier",
    "SELECT carrier, COUNT(*) - COUNT(arr_delay) AS missing FROM flights GROUP BY carrier",
    "SELECT carrier, 1 - COUNT(arr_delay) / COUNT(*) AS share FROM flights GROUP BY carrier",
    "SELECT carrier, SUM(arr_delay) / NULLIF(COUNT(*), 0) AS rate FROM flights GROUP BY carrier",
    "SELECT carrier, SUM(arr_delay)::FLOAT / COUNT(*) AS rate FROM flights GROUP BY carrier",
    "SELECT carrier, CAST(SUM(arr_delay) AS DOUBLE) / COUNT(*) AS rate FROM flights GROUP BY carrier",
    "SELECT carrier, COALESCE(SUM(arr_delay), 0) / 60 AS hours FROM flights GROUP BY carrier",
    "SELECT carrier, ROUND(100.0 * SUM(arr_delay) / COUNT(*), 1) AS rate FROM flights GROUP BY carrier",
    "SELECT carrier, LN(COUNT(*)) AS size FROM flights GROUP BY carrier",
    "SELECT carrier, -AVG(arr_delay) AS early FROM flights GROUP BY carrier ORDER BY early DESC",
    "SELECT SUM(distance) / COUNT(*) AS miles FROM flights",
    "SELECT carrier, COUNT(*), SUM(arr_delay), SUM(arr_delay) / COUNT(*) AS r FROM flights GROUP BY carrier",
    # HAVING, and ORDER BY of what is not selected
    "SELECT carrier, COUNT(*) FROM flights GROUP BY carrier HAVING COUNT(*) > 1000",
    "SELECT carrier, COUNT(*) AS n FROM flights GROUP BY carrier HAVING n > 1000 ORDER BY n",
    "SELECT carrier, AVG(arr_delay) FROM flights GROUP BY carrier HAVING COUNT(*) > 1000",
    "SELECT origin, AVG(arr_delay) AS m FROM flights GROUP BY origin HAVING COUNT(*) > 900 AND m < 30",
    "SELECT carrier, COUNT(*) FROM flights GROUP BY carrier HAVING COUNT(*) BETWEEN 500 AND 1500",
    "SELECT carrier, COUNT(*) FROM flights GROUP BY carrier HAVING NOT (COUNT(*) < 999 OR SUM(distance) < 1)",
    "SELECT carrier, COUNT(*) FROM flights GROUP BY carrier HAVING SUM(arr_delay) / COUNT(*) > 10",
    "SELECT carrier, COUNT(*) FROM flights GROUP BY carrier HAVING AVG(arr_delay) > AVG(dep_delay) - 4",
    "SELECT carrier, COUNT(*) FROM flights GROUP BY carrier HAVING 1000 < COUNT(*)",
    "SELECT carrier, AVG(arr_delay) FROM flights GROUP BY carrier ORDER BY COUNT(*) DESC",
    "SELECT carrier, AVG(arr_delay) FROM flights GROUP BY carrier ORDER BY SUM(distance) / COUNT(*) LIMIT 2",
    "SELECT carrier, COUNT(*) AS n FROM flights GROUP BY carrier HAVING n > 500 ORDER BY 2 DESC LIMIT 1",
    # common table expressions and subqueries
    "WITH f AS (SELECT * FROM flights WHERE origin = 'JFK') "
    "SELECT carrier, AVG(arr_delay) FROM f GROUP BY carrier",
    "WITH f AS (SELECT carrier AS airline, arr_delay AS delay FROM flights WHERE month = 1) "
    "SELECT airline, AVG(delay) AS mean FROM f GROUP BY airline ORDER BY mean DESC",
    "WITH jfk AS (SELECT * FROM flights WHERE origin = 'JFK'), winter AS (SELECT * FROM jfk WHERE month < 3) "
    "SELECT carrier, COUNT(*) FROM winter GROUP BY carrier",
    "WITH a(x, y) AS (SELECT carrier, arr_delay FROM flights) SELECT x, SUM(y) FROM a GROUP BY x",
    "SELECT carrier, COUNT(*) FROM (SELECT * FROM flights WHERE dep_delay > 15) AS late GROUP BY carrier",
    "SELECT s.carrier, COUNT(*) FROM (SELECT carrier FROM (SELECT * FROM flights WHERE month > 6) AS i) AS s "
    "GROUP BY s.carrier",
    "WITH f AS (SELECT carrier, dep_delay - arr_delay AS gained FROM flights) "
    "SELECT carrier, AVG(gained) FROM f GROUP BY carrier",
    "WITH f AS (SELECT *, CASE WHEN dep_delay > 15 THEN 1 ELSE 0 END AS late FROM flights) "
    "SELECT carrier, AVG(late) AS share FROM f GROUP BY carrier HAVING COUNT(*) > 500 ORDER BY share",
    "WITH f AS (SELECT * FROM flights WHERE dep_delay > 0) "
    "SELECT origin, COUNT(*) AS n, SUM(dep_delay) / COUNT(*) AS mean FROM f GROUP BY origin HAVING mean > 3",
    # expressions inside aggregates, beside arithmetic between them
    "SELECT origin, 100 * AVG(CASE WHEN dep_delay > 15 THEN 1 ELSE 0 END) FROM flights GROUP BY origin",
    "SELECT carrier, COUNT(*) FILTER (WHERE dep_delay > 15) / COUNT(*) AS late FROM flights GROUP BY carrier",
    "SELECT carrier, SUM(CASE WHEN origin = 'JFK' THEN 1 ELSE 0 END) / COUNT(*) AS jfk FROM flights "
    "GROUP BY carrier ORDER BY jfk DESC",
]


def truths(answer: Answer | Answers) -> list[tuple[object, ...]]:
    """The true values of the rows shown, in the order of the SELECT list."""
    outputs = answer.statement.presentation.outputs
    rows = answer.truth().records()
    if isinstance(answer, Answers):
        named = {(_group(row, outputs), row["aggregate"]): row["true"] for row in rows}
        groups = list(dict.fromkeys(_group(row, outputs) for row in rows))
        values = [{o.name: named[group, o.name] for o in outputs if o.column is None} for group in groups]
    else:
        groups = [_group(row, outputs) for row in rows]
        values = [{o.name: row["true"] for o in outputs if o.column is None} for row in rows]
    return [
        tuple(
            dict(zip([o.name for o in outputs if o.column], group, strict=True)).get(o.name)
            if o.column
            else _rounded(value[o.name], o.digits)
            for o in outputs
        )
        for group, value in zip(groups, values, strict=True)
    ]


def _group(row: dict[str, Any], outputs: Any) -> tuple[object, ...]:
    return tuple(row[o.name] for o in outputs if o.column)


def _rounded(value: float | None, digits: int | None) -> float | None:
    return value if value is None or digits is None else round(value, digits)


def same(row: tuple[object, ...], expected: tuple[object, ...]) -> bool:
    return len(row) == len(expected) and all(
        math.isclose(float(a), float(b), rel_tol=1e-9, abs_tol=1e-6) if not isinstance(b, str) else a == b
        for a, b in zip(row, expected, strict=True)
    )


@pytest.mark.parametrize("sql", ANSWERED)
def test_the_truth_of_an_answer_is_what_duckdb_says(
    sql: str, owner: Session, engine: duckdb.DuckDBPyConnection
) -> None:
    expected = engine.execute(sql).fetchall()
    rows = truths(owner.query(sql, rho=RHO))
    # Groups whose true values are nearly equal may stand in another order: it is that of the released values.
    rows, expected = sorted(rows, key=str), sorted(expected, key=str)
    assert len(rows) == len(expected)
    assert all(same(row, other) for row, other in zip(rows, expected, strict=True)), (rows, expected)


@pytest.mark.parametrize("sql", ANSWERED)
def test_every_interval_holds_its_estimate_and_the_terminal_shows_it(sql: str, owner: Session) -> None:
    answer = owner.query(sql, rho=RHO)
    assert owner.query(sql, rho=RHO).free
    for part in answer.answers if isinstance(answer, Answers) else [answer]:
        for row in part:
            assert row.interval[0] <= row.estimate <= row.interval[1]
    assert "interval" in str(answer)


# The offending characters stand between » and «; then a word of the remedy.
REFUSED = [
    ("SELECT carrier, »MIN«(arr_delay) FROM flights GROUP BY carrier", "QUANTILE_CONT"),
    ("SELECT carrier, »MAX«(arr_delay) - MIN(arr_delay) FROM flights GROUP BY carrier", "QUANTILE_CONT"),
    ("SELECT carrier, COUNT(*) »OVER« (PARTITION BY carrier) FROM flights", "GROUP BY"),
    (
        "SELECT carrier, »RANK«() OVER (ORDER BY AVG(arr_delay)) FROM flights GROUP BY carrier",
        "a value for each row",
    ),
    ("SELECT COUNT(*) FROM flights f »JOIN« airlines a ON f.carrier = a.carrier", "one table"),
    ("SELECT COUNT(*) FROM flights LEFT »JOIN« flights AS g USING (carrier)", "one table"),
    ("SELECT COUNT(*) FROM flights »UNION« ALL SELECT COUNT(*) FROM flights", "combine the answers"),
    ("SELECT »*« FROM flights", "Name the GROUP BY columns"),
    ("SELECT »*« FROM flights LIMIT 5", "Name the GROUP BY columns"),
    ("»SELECT« DISTINCT carrier FROM flights", "COUNT(*)"),
    ("»SELECT« carrier FROM flights GROUP BY carrier HAVING COUNT(*) > 100", "COUNT(*)"),
    ("SELECT carrier, COUNT(*) FROM flights GROUP BY carrier HAVING »carrier« = 'AA'", "WHERE"),
    ("SELECT AVG(n) FROM (SELECT carrier, COUNT(*) AS n FROM flights GROUP BY »carrier«)", "outer query"),
    ("SELECT COUNT(*) FROM (SELECT * FROM flights ORDER BY dep_delay LIMIT »10«) AS top", "outer query"),
    ("SELECT COUNT(*) FROM flights WHERE dep_delay > (»SELECT« AVG(dep_delay) FROM flights)", "WHERE"),
    ("SELECT carrier, COUNT(*) / (»SELECT« COUNT(*) FROM flights) FROM flights GROUP BY carrier", "FROM"),
    ("WITH »RECURSIVE« f AS (SELECT * FROM flights) SELECT COUNT(*) FROM f", "RECURSIVE"),
    ("SELECT carrier, COUNT(*) FROM flights GROUP BY »ROLLUP«(carrier)", "plain columns"),
    ("SELECT carrier, COUNT(*) FROM flights GROUP BY carrier LIMIT 5 »OFFSET« 2", "LIMIT"),
    ("SELECT carrier, COUNT(*) + »arr_delay« FROM flights GROUP BY carrier", "AVG(arr_delay)"),
    ("SELECT carrier, SUM(»COUNT(*)«) FROM flights GROUP BY carrier", "COUNT"),
    ("SELECT carrier, COUNT(*) FROM flights GROUP BY carrier »QUALIFY« COUNT(*) > 3", "filter the answer"),
]


@pytest.mark.parametrize(("marked", "remedy"), REFUSED)
def test_what_stays_refused_says_where_and_what_to_write_instead(
    marked: str, remedy: str, owner: Session
) -> None:
    sql = marked.replace("»", "").replace("«", "")
    before = owner.budget.spent
    with pytest.raises(QueryRefused) as caught:
        owner.query(sql, rho=1.0)
    assert caught.value.start == marked.index("»")
    assert caught.value.line == 1
    assert remedy in caught.value.remedy
    assert "\n" not in caught.value.problem + caught.value.remedy
    assert owner.budget.spent == before


def test_whoever_writes_this_list_has_enough_statements() -> None:
    assert len(ANSWERED) + len(REFUSED) > 80


PLAIN = "SELECT carrier, SUM(arr_delay), COUNT(*) FROM flights GROUP BY carrier"


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT carrier, SUM(arr_delay) / COUNT(*) AS rate FROM flights GROUP BY carrier",
        "SELECT carrier, SUM(arr_delay) FROM flights GROUP BY carrier HAVING COUNT(*) > 100",
        "SELECT carrier, SUM(arr_delay) s, COUNT(*) n FROM flights GROUP BY carrier HAVING n > 10 ORDER BY s",
        "SELECT carrier, COUNT(*) FROM flights GROUP BY carrier ORDER BY SUM(arr_delay) DESC LIMIT 1",
        "WITH f AS (SELECT carrier c, arr_delay d FROM flights) SELECT c, COUNT(*), SUM(d) FROM f GROUP BY c",
        "SELECT DISTINCT x.carrier, COUNT(*) - SUM(arr_delay) FROM (SELECT * FROM flights) x GROUP BY 1",
    ],
)
def test_other_words_for_what_was_measured_are_free(sql: str, tmp_path: Path) -> None:
    with dpx.connect(FLIGHTS, SCHEMA, workspace=tmp_path, insecure_seed=1) as session:
        first = session.query(PLAIN, rho=1.0)
        again = session.query(sql, rho=1.0)
        assert session.preview(sql, rho=1.0).price.free
        assert (again.free, again.id, session.budget.spent) == (True, first.id, 1.0)
