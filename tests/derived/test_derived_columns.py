"""Derived columns as a person meets them: declared by the curator, or written in the query."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pytest

import dpxplain as dpx
from dpxplain.errors import QueryRefused, SchemaError

ROWS = 3_000
_RNG = np.random.default_rng(seed=11)
FLIGHTS = pd.DataFrame(
    {
        "origin": _RNG.choice(["EWR", "JFK", "LGA"], ROWS),
        "carrier": _RNG.choice(["AA", "UA", "US", "DL"], ROWS),
        "dep_delay": np.round(_RNG.normal(10, 40, ROWS)).clip(-90, 300),
        "price": np.round(_RNG.uniform(0, 50, ROWS), 2),
        "quantity": _RNG.integers(0, 10, ROWS),
        "vip": _RNG.choice([True, False], ROWS),
        "stars": _RNG.integers(1, 6, ROWS),
    }
)
COLUMNS: dict[str, Any] = {
    "origin": {"values": ["EWR", "JFK", "LGA"]},
    "carrier": {"values": ["AA", "UA", "US", "DL"]},
    "dep_delay": {"bounds": [-90, 300]},
    "price": {"bounds": [0, 50], "step": 0.01},
    "quantity": {"bounds": [0, 10], "step": 1},
    "vip": {"values": [True, False]},
    "stars": {"values": [1, 2, 3, 4, 5]},
}
LATE = "CASE WHEN dep_delay > 15 THEN 1 ELSE 0 END"


def schema(**further: Any) -> dict[str, Any]:
    table = {"name": "flights"}
    return {"table": table, "privacy": {"rho": 1e6}, "columns": {**COLUMNS, **further}}


@pytest.fixture(scope="module")
def curator(tmp_path_factory: pytest.TempPathFactory) -> dpx.Session:
    declared = schema(
        late={"expression": LATE},
        revenue={"expression": "price * quantity", "bounds": [0, 300], "step": 0.01},
        very_late={"expression": "late = 1 AND dep_delay > 60"},
    )
    return dpx.connect(FLIGHTS, declared, workspace=tmp_path_factory.mktemp("ws"), curator=True)


def true_rows(session: dpx.Session, sql: str) -> list[Any]:
    """What DuckDB itself answers on the same data."""
    flights = FLIGHTS.assign(
        late=(FLIGHTS.dep_delay > 15).astype(int),
        revenue=(FLIGHTS.price * FLIGHTS.quantity).clip(0, 300),
        very_late=FLIGHTS.dep_delay > 60,
    )
    connection = duckdb.connect()
    connection.register("flights", flights)
    return connection.execute(sql).fetchall()


def true_values(answer: Any) -> dict[tuple[Any, ...], float]:
    """The true value of every group, as the curator sees it."""
    rows = zip(answer.rows, answer.truth().records(), strict=True)
    return {row.group: record["true"] for row, record in rows}


ANSWERED = [
    "SELECT origin, AVG(late) FROM flights GROUP BY origin",
    "SELECT late, COUNT(*) FROM flights GROUP BY late",
    "SELECT late, origin, SUM(price) FROM flights GROUP BY late, origin",
    "SELECT SUM(revenue) FROM flights",
    "SELECT very_late, COUNT(*) FROM flights GROUP BY very_late",
    f"SELECT origin, AVG({LATE}) FROM flights GROUP BY origin",
    "SELECT SUM(price * quantity) FROM flights",
    "SELECT SUM(-price + 2 * (quantity - 1)) FROM flights",
    "SELECT SUM(price / quantity) FROM flights WHERE quantity > 0",
    "SELECT SUM(CASE WHEN price >= 1 THEN dep_delay / price END) FROM flights",
    "SELECT SUM(CASE WHEN price >= 1 THEN CAST(dep_delay / price AS INTEGER) END) FROM flights",
    "SELECT COUNT(*) FROM flights "
    "WHERE CASE WHEN price >= 10 THEN 0 ELSE CAST(quantity / (20 - price) AS INTEGER) END = 0",
    "SELECT COUNT(*) FROM flights WHERE CASE WHEN dep_delay >= 0 AND dep_delay <= 3 "
    "THEN UPPER(CAST(CAST(dep_delay AS BIGINT) AS VARCHAR)) END LIKE '2%'",
    "SELECT SUM(quantity % 3) FROM flights",
    "SELECT FLOOR(dep_delay / 60) AS hours, COUNT(*) FROM flights GROUP BY hours",
    "SELECT ROUND(price, -1), COUNT(*) FROM flights GROUP BY ROUND(price, -1)",
    "SELECT CASE WHEN dep_delay > 15 THEN 'late' WHEN dep_delay > 0 THEN 'a bit' ELSE 'on time' END AS kind, "
    "AVG(price) FROM flights GROUP BY kind",
    "SELECT CASE origin WHEN 'LGA' THEN 'Queens' WHEN 'JFK' THEN 'Queens' ELSE 'Newark' END AS t, COUNT(*) "
    "FROM flights GROUP BY 1",
    "SELECT origin, COUNT(*) FILTER (WHERE dep_delay > 15 AND carrier <> 'UA') FROM flights GROUP BY origin",
    "SELECT origin, AVG(price) FILTER (WHERE dep_delay > 15) FROM flights GROUP BY origin",
    "SELECT origin, COUNT(*) FROM flights WHERE price * quantity > 100 OR stars = 5 GROUP BY origin",
    "SELECT origin, COUNT(*) FROM flights WHERE NOT (price > dep_delay) GROUP BY origin",
    "SELECT COUNT(*) FROM flights WHERE carrier LIKE 'U%' AND origin NOT LIKE '%A'",
    "SELECT COUNT(*) FROM flights WHERE carrier ILIKE 'u_'",
    "SELECT COUNT(*) FROM flights WHERE LOWER(carrier) = 'ua'",
    "SELECT CAST(stars AS VARCHAR) AS stars_text, COUNT(*) FROM flights GROUP BY stars_text",
    "SELECT SUM(vip::INT) FROM flights",
    "SELECT SUM(stars) FROM flights",
    "SELECT vip, COUNT(*) FROM flights WHERE vip GROUP BY vip",
    "SELECT SUM(COALESCE(NULLIF(stars, 3), 0)) FROM flights",
    "SELECT SUM(GREATEST(price, quantity) - LEAST(price, quantity)) FROM flights",
    "SELECT SUM(ABS(dep_delay)) FROM flights",
    "SELECT SUM(IF(dep_delay BETWEEN 0 AND 10, 2, 3)) FROM flights",
]


@pytest.mark.parametrize("sql", ANSWERED)
def test_an_answer_over_expressions_is_what_duckdb_computes(curator: dpx.Session, sql: str) -> None:
    answer = curator.query(sql, rho=0.1)
    truth = true_values(answer)
    expected: dict[tuple[Any, ...], float] = {tuple(row[:-1]): row[-1] for row in true_rows(curator, sql)}
    assert {group: value for group, value in truth.items() if value} == pytest.approx(
        {group: value for group, value in expected.items() if value}, rel=1e-6
    )


@pytest.mark.parametrize("sql", ["SELECT AVG(vip) FROM flights", "SELECT AVG(dep_delay > 15) FROM flights"])
def test_booleans_are_also_the_numbers_0_and_1(curator: dpx.Session, sql: str) -> None:
    column = "vip" if "vip" in sql else "dep_delay > 15"
    truth = FLIGHTS.eval(column).mean()
    assert list(true_values(curator.query(sql, rho=0.1)).values()) == [pytest.approx(truth)]


def test_what_follows_from_an_expression_is_declared() -> None:
    declared = dpx.Schema.load(
        schema(
            late={"expression": LATE},
            revenue={"expression": "price * quantity"},
            speed={"expression": "dep_delay / (quantity + 1)"},
            town={"expression": "CASE WHEN origin = 'EWR' THEN 'Newark' ELSE 'New York' END"},
        )
    ).columns
    assert (declared["late"].values, declared["late"].bounds) == ((0, 1), (0, 1))
    assert (declared["revenue"].values, declared["revenue"].bounds) == (None, (0, 500))
    assert declared["revenue"].step == 0.01
    assert declared["speed"].bounds == (-90, 300)
    assert declared["town"].values == ("Newark", "New York")


def test_a_declaration_beside_the_expression_counts(curator: dpx.Session) -> None:
    assert curator.schema.columns["revenue"].bounds == (0, 300)


def test_a_schema_with_derived_columns_loads_from_its_own_dump() -> None:
    declared = dpx.Schema.load(schema(late={"expression": LATE}))
    assert dpx.Schema.load(declared.model_dump(mode="json")).fingerprint() == declared.fingerprint()


@pytest.mark.parametrize(
    ("expression", "problem"),
    [
        ("dep_dely + 1", "no column dep_dely in the schema. Did you mean dep_delay?"),
        ("price / dep_delay", "can be close to 0"),
        ("CASE WHEN origin = 'Ewr' THEN 1 END", "not one of the values of origin"),
        ("origin + 1", "origin is not a number"),
        ("NULL", "always NULL"),
        ("late", "no column late"),
        ("MAX(price)", "MAX is not supported"),
        ("price) FROM flights; DROP TABLE x --", "second statement"),
        ("1e99 * 1e99 * price", "larger than 1e+100"),
        ("price, quantity", "list in parentheses"),
    ],
)
def test_a_schema_whose_expression_says_nothing_is_refused_at_its_key(expression: str, problem: str) -> None:
    with pytest.raises(SchemaError) as refusal:
        dpx.Schema.load(schema(late={"expression": expression}))
    assert problem in str(refusal.value)
    assert refusal.value.mistakes[0][0] == "columns.late.expression"


@pytest.mark.parametrize(
    ("sql", "marked", "remedy"),
    [
        ("SELECT AVG(price / dep_delay) FROM flights", "price / dep_delay", "CASE WHEN dep_delay >= 1"),
        ("SELECT price * 2, COUNT(*) FROM flights GROUP BY price * 2", "price * 2", "FLOOR"),
        ("SELECT COUNT(*) FROM flights WHERE LENGTH(origin) > 'a'", "LENGTH(origin) > 'a'", "the same type"),
        ("SELECT AVG(CASE WHEN origin = 'jfk' THEN 1 END) FROM flights", "'jfk'", "'JFK'"),
    ],
)
def test_a_refusal_marks_the_part_at_fault_and_spends_nothing(
    curator: dpx.Session, sql: str, marked: str, remedy: str
) -> None:
    before = curator.budget.spent
    with pytest.raises(QueryRefused) as refusal:
        curator.query(sql, rho=0.1)
    assert refusal.value.start is not None
    assert sql[refusal.value.start : refusal.value.end] in (marked, f"{marked})")
    assert remedy in refusal.value.remedy
    assert curator.budget.spent == before


def test_one_expression_in_two_spellings_is_asked_once(curator: dpx.Session) -> None:
    first = curator.query("SELECT AVG(case when DEP_DELAY>15 then 1 else 0 end) FROM flights", rho=0.2)
    again = curator.query(
        "SELECT AVG((CASE WHEN (dep_delay > 15.0) THEN 1 ELSE 0 END)) FROM flights", rho=0.2
    )
    assert again.free
    assert [row.estimate for row in first] == [row.estimate for row in again]


def test_a_derived_answer_is_explained(curator: dpx.Session) -> None:
    question = curator.query(f"SELECT origin, AVG({LATE}) FROM flights GROUP BY origin", rho=10).why(
        "EWR", "JFK"
    )
    table = question.explain(k=2, rho=10)
    assert len(list(table)) == 2
    question.prepare(rho=1) if hasattr(question, "prepare") else None


def test_a_file_with_derived_columns_opens_from_its_cache(tmp_path: Path) -> None:
    path = tmp_path / "flights.csv"
    FLIGHTS.to_csv(path, index=False)
    declared = schema(late={"expression": LATE}, town={"expression": "COALESCE(origin, 'JFK')"})
    for _ in range(2):
        session = dpx.connect(path, declared, workspace=tmp_path / "ws", curator=True)
        values = true_values(session.query("SELECT town, SUM(late) FROM flights GROUP BY town", rho=1))
        assert sum(values.values()) == (FLIGHTS.dep_delay > 15).sum()
        session.close()


def test_an_answer_says_what_was_inferred_and_what_its_expressions_see(curator: dpx.Session) -> None:
    sql = "SELECT origin, AVG(price * quantity) FROM flights WHERE dep_delay > price GROUP BY origin"
    said = curator.query(sql, rho=0.1).shaped_by
    assert curator.preview(sql, rho=0.1).shaped_by == said
    assert any(sentence.startswith("price * quantity ") and "500" in sentence for sentence in said)
    assert any("dep_delay" in sentence and "300" in sentence for sentence in said)
    grouped = curator.query("SELECT late, COUNT(*) FROM flights GROUP BY late", rho=0.1).shaped_by
    assert any(sentence.startswith("late ") and "0, 1" in sentence for sentence in grouped)
