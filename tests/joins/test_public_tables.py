"""Joins with public dimension tables: ordinary SQL, compared with a database that joins."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pytest

import dpxplain as dpx
from dpxplain.engines.opening import with_public_tables
from dpxplain.errors import BadRequest, QueryRefused, SchemaError
from dpxplain.model.schema import Schema
from dpxplain.server import records
from dpxplain.sql.parse import parse
from dpxplain.words.declarations import shaped_by
from dpxplain.words.prices import discovered_delta

RNG = random.Random(15)
FLIGHTS = pd.DataFrame(
    {
        "carrier": RNG.choices(["AA", "B6", "DL", "ZZ", "it's", None, "??"], k=600),
        "origin": RNG.choices(["EWR", "JFK"], k=600),
        "dest": RNG.choices(["EWR", "JFK", "LGA", "XXX"], k=600),
        "delay": RNG.choices(range(100), k=600),
    }
)
AIRLINES = """carrier,name,alliance,fleet,founded,low_cost
AA,American,oneworld,900.5,1926-04-15,false
B6,JetBlue,,280,1998-08-01,true
DL,Delta,SkyTeam,950,1925-03-02,false
UA,United,Star,1000,1926-04-06,false
it's,Quote,oneworld,1,2000-01-01,true
"""
AIRPORTS = pd.DataFrame({"faa": ["EWR", "JFK", "LGA"], "city": ["Newark", "New York", "New York"]})


def declared(**changes: Any) -> dict[str, Any]:
    return {
        "table": {"name": "flights"},
        "privacy": {"rho": 1e6},
        "columns": {
            "carrier": {"values": ["AA", "B6", "DL", "ZZ", "it's"]},
            "origin": {"values": ["EWR", "JFK"]},
            "dest": {"values": ["EWR", "JFK", "LGA", "XXX"]},
            "delay": {"bounds": [0, 100], "step": 1},
        },
        "tables": {
            "airlines": {"source": "airlines.csv", "key": "carrier", "public": True},
            "airports": {"key": "faa", "public": True, "joins": ["origin", "dest"]},
        },
        **changes,
    }


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "airlines.csv").write_text(AIRLINES)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def session(folder: Path) -> Iterator[dpx.Session]:
    with dpx.connect(
        FLIGHTS, declared(), tables={"airports": AIRPORTS}, workspace=folder / "ledger", curator=True
    ) as opened:
        yield opened


@pytest.fixture(scope="module")
def shared_session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dpx.Session]:
    """The same for statements that are independent of each other."""
    folder = tmp_path_factory.mktemp("shared")
    (folder / "airlines.csv").write_text(AIRLINES)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)  # where the schema's source is looked for
        opened = dpx.connect(
            FLIGHTS, declared(), tables={"airports": AIRPORTS}, workspace=folder / "ledger", curator=True
        )
    with opened:
        yield opened


def truths(answer: Any) -> dict[tuple[Any, ...], float]:
    return {
        row.group: record["true"] for row, record in zip(answer.rows, answer.truth().records(), strict=True)
    }


def joined(sql: str) -> dict[tuple[Any, ...], float]:
    """What a database answers that really joins; unknown carriers of the data have no declared value."""
    database = duckdb.connect()
    known = FLIGHTS.assign(carrier=FLIGHTS.carrier.where(FLIGHTS.carrier != "??", None))
    database.register("flights", known)
    database.register("airports", AIRPORTS)
    database.sql("CREATE TABLE airlines AS FROM read_csv('airlines.csv', header = true)")
    rows = database.sql(sql).fetchall()
    return {tuple(map(str, row[:-1])): row[-1] for row in rows if None not in row}


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT alliance, COUNT(*) FROM flights JOIN airlines USING (carrier) GROUP BY alliance",
        "SELECT alliance, COUNT(*) FROM flights LEFT JOIN airlines USING (carrier) GROUP BY alliance",
        "SELECT a.alliance, AVG(f.delay) FROM flights f INNER JOIN airlines AS a ON f.carrier = a.carrier "
        "WHERE a.name <> 'Delta' GROUP BY a.alliance",
        "SELECT origin, COUNT(*) FROM flights JOIN airlines ON airlines.carrier = flights.carrier "
        "GROUP BY origin",
        "SELECT origin, COUNT(*) FROM flights LEFT OUTER JOIN airlines a USING (carrier) GROUP BY origin",
        "SELECT origin, AVG(fleet) FROM flights JOIN airlines USING (carrier) GROUP BY origin",
        "SELECT origin, SUM(a.fleet) FROM flights LEFT JOIN airlines a USING (carrier) GROUP BY origin",
        "SELECT o.city, d.city, COUNT(*) FROM flights JOIN airports o ON flights.origin = o.faa "
        "JOIN airports d ON d.faa = dest GROUP BY o.city, d.city",
        "SELECT city, COUNT(*) FROM flights JOIN airlines USING (carrier) "
        "LEFT JOIN airports ON dest = faa WHERE low_cost = FALSE AND fleet > 100 GROUP BY city",
        "SELECT low_cost, COUNT(*) FROM flights JOIN airlines USING (carrier) GROUP BY low_cost",
        "SELECT name, COUNT(*) FROM flights JOIN airlines USING (carrier) "
        "WHERE founded >= DATE '1926-01-01' GROUP BY name",
        "SELECT name, COUNT(*) FROM flights JOIN airlines USING (carrier) "
        "WHERE founded < TIMESTAMP '1926-04-15 12:00:00' GROUP BY name",
        "SELECT EXTRACT(year FROM founded) AS y, COUNT(*) FROM flights JOIN airlines USING (carrier) "
        "GROUP BY y",
        "SELECT origin, SUM(CASE WHEN alliance = 'oneworld' THEN delay ELSE 0 END) FROM flights "
        "LEFT JOIN airlines USING (carrier) GROUP BY origin",
        "WITH j AS (SELECT a.alliance AS club, delay FROM flights JOIN airlines a USING (carrier)) "
        "SELECT club, AVG(delay) FROM j GROUP BY club",
        "SELECT c, COUNT(*) FROM (SELECT city AS c FROM flights JOIN airports ON origin = faa) AS s "
        "GROUP BY c",
    ],
)
@pytest.mark.usefixtures("folder")
def test_a_join_answers_what_a_database_that_joins_answers(shared_session: dpx.Session, sql: str) -> None:
    answer = shared_session.query(sql, rho=1)
    expected = joined(sql)
    got = {
        tuple(g.lower() if g in ("True", "False") else g for g in map(str, group)): v
        for group, v in truths(answer).items()
        if v
    }
    expected = {
        tuple(g.lower() if g in ("True", "False") else g for g in group): v
        for group, v in expected.items()
        if v
    }
    assert got == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(
    ("sql", "problem", "remedy"),
    [
        ("SELECT origin, COUNT(*) FROM flights JOIN planes USING (tail) GROUP BY origin",
         "no table planes to join with", "JOIN airlines"),
        ("SELECT origin, COUNT(*) FROM flights JOIN flights f USING (carrier) GROUP BY origin",
         "cannot be joined with itself", ""),
        ("SELECT origin, COUNT(*) FROM flights f JOIN airlines a ON f.carrier = a.name GROUP BY origin",
         "name is not the key", "carrier"),
        ("SELECT origin, COUNT(*) FROM flights f JOIN airlines a ON f.origin = a.carrier GROUP BY origin",
         "does not say that origin holds a key", "Join it on carrier"),
        ("SELECT origin, COUNT(*) FROM flights RIGHT JOIN airlines USING (carrier) GROUP BY origin",
         "RIGHT JOIN is not supported", ""),
        ("SELECT origin, COUNT(*) FROM flights CROSS JOIN airlines GROUP BY origin", "CROSS JOIN", ""),
        ("SELECT origin, COUNT(*) FROM flights NATURAL JOIN airlines GROUP BY origin", "NATURAL JOIN", ""),
        ("SELECT origin, COUNT(*) FROM flights, airlines GROUP BY origin", "list of tables", "USING"),
        ("SELECT origin, COUNT(*) FROM flights JOIN airlines GROUP BY origin", "Expected USING or ON", ""),
        ("SELECT origin, COUNT(*) FROM flights JOIN airlines ON TRUE GROUP BY origin", "Expected", ""),
        ("SELECT origin, COUNT(*) FROM flights JOIN airlines ON flights.carrier > airlines.carrier "
         "GROUP BY origin", "Expected = here", ""),
        ("SELECT origin, COUNT(*) FROM flights JOIN airlines ON flights.carrier = airlines.carrier "
         "AND delay > 3 GROUP BY origin", "one condition", "WHERE"),
        ("SELECT origin, COUNT(*) FROM flights a JOIN airlines a USING (carrier) GROUP BY origin",
         "called a", "AS other"),
        ("SELECT city, COUNT(*) FROM flights JOIN airports o ON origin = o.faa "
         "JOIN airports d ON dest = d.faa GROUP BY city", "could be several", "o.city or d.city"),
        ("SELECT a.carrier, COUNT(*) FROM flights LEFT JOIN airlines a USING (carrier) GROUP BY a.carrier",
         "LEFT JOIN finds no match", "carrier"),
        ("WITH f AS (SELECT * FROM flights) SELECT alliance, COUNT(*) FROM f JOIN airlines USING (carrier) "
         "GROUP BY alliance", "must directly follow FROM flights", "AS"),
    ],
)  # fmt: skip
def test_other_joins_are_refused_with_the_reason(
    shared_session: dpx.Session, sql: str, problem: str, remedy: str
) -> None:
    spent = shared_session.budget.spent
    with pytest.raises(QueryRefused) as refused:
        shared_session.query(sql, rho=1)
    assert problem in refused.value.problem
    assert remedy in (refused.value.remedy or "")
    assert shared_session.budget.spent == spent


def test_without_a_join_a_public_column_is_what_left_join_makes_of_it(session: dpx.Session) -> None:
    plain = "SELECT alliance, COUNT(*) FROM flights WHERE \"dest.city\" = 'Newark' GROUP BY alliance"
    joined = (
        "SELECT alliance, COUNT(*) FROM flights LEFT JOIN airlines USING (carrier) "
        "LEFT JOIN airports d ON dest = d.faa WHERE d.city = 'Newark' GROUP BY alliance"
    )
    first = session.query(plain, rho=1)
    assert session.query(joined, rho=1).free
    assert sum(truths(first).values()) > 0


def test_a_server_sends_what_its_clients_and_page_need(session: dpx.Session) -> None:
    details = records.details(session.schema, session.budget, "analyst")
    assert "source" not in details["schema"]["tables"]["airlines"]
    client = Schema.load(details["schema"])
    assert client.fingerprint() == session.schema.fingerprint()
    sql = "SELECT alliance, COUNT(*) FROM flights JOIN airlines USING (carrier) GROUP BY alliance"
    assert parse(sql, client).query == parse(sql, session.schema).query


def test_public_columns_explain_where_they_are_named(session: dpx.Session) -> None:
    answer = session.query("SELECT origin, AVG(delay) FROM flights GROUP BY origin", rho=1)
    question = answer.why("EWR", "JFK")
    table = question.explain(k=4, rho=1, attributes=["alliance", "dest.city"])
    assert {str(row.predicate) for row in table} == {
        "alliance = 'oneworld'",
        "alliance = 'SkyTeam'",
        "\"dest.city\" = 'Newark'",
        "\"dest.city\" = 'New York'",
    }
    by_default = {record["predicate"] for record in question.truth().records()}
    assert not any("alliance" in predicate for predicate in by_default)  # each attribute costs the others
    named = question.explain(k=1, rho=1, predicates=["alliance = 'oneworld' AND low_cost = FALSE"])
    true = question.truth(predicates=["alliance = 'oneworld' AND low_cost = FALSE"]).records()[0]["influence"]
    by_key = question.truth(predicates=["carrier = 'AA'"]).records()[0]["influence"]
    assert true == pytest.approx(by_key)
    assert len(named) == 1


def test_what_groups_by_a_public_column_is_not_explained_by_its_key(session: dpx.Session) -> None:
    sql = "SELECT alliance, COUNT(*) FROM flights JOIN airlines USING (carrier) GROUP BY alliance"
    question = session.query(sql, rho=1).why("oneworld", "SkyTeam")
    with pytest.raises(BadRequest, match="carrier"):
        question.explain(k=1, rho=1, attributes=["carrier"])


def test_a_join_says_what_it_leaves_out(session: dpx.Session) -> None:
    sql = "SELECT alliance, COUNT(*) FROM flights LEFT JOIN airlines USING (carrier) GROUP BY alliance"
    answer = session.query(sql, rho=1)
    schema = session.schema
    assert answer.shaped_by == shaped_by(answer.statement.queries, schema)
    looked_up, left_out = answer.shaped_by[:2]
    for name in ("alliance", "airlines", "carrier"):
        assert name in looked_up
        assert name in left_out


def test_an_inner_join_is_the_condition_on_its_key_and_costs_once(session: dpx.Session) -> None:
    session.query("SELECT origin, COUNT(*) FROM flights JOIN airlines USING (carrier) GROUP BY origin", rho=1)
    condition = "carrier IN ('AA', 'B6', 'DL', 'it''s')"
    session.query(f"SELECT origin, COUNT(*) FROM flights WHERE {condition} GROUP BY origin", rho=1)
    assert session.budget.spent == 1


def test_stored_answers_belong_to_the_content_of_the_public_table(folder: Path) -> None:
    sql = "SELECT alliance, COUNT(*) FROM flights JOIN airlines USING (carrier) GROUP BY alliance"

    def ask() -> tuple[float, str]:
        with dpx.connect(
            FLIGHTS, declared(), tables={"airports": AIRPORTS}, workspace=folder / "ledger"
        ) as session:
            session.query(sql, rho=1)
            return session.budget.spent, session.schema.fingerprint()

    first = ask()
    assert ask() == first
    (folder / "airlines.csv").write_text(AIRLINES.replace("DL,Delta,SkyTeam", "DL,Delta,Star"))
    changed = ask()
    assert changed[0] == 2
    assert changed[1] != first[1]
    (folder / "airlines.csv").write_text(AIRLINES.replace("UA,United,Star", "UA,United,None"))
    assert ask() == (2, first[1])  # no declared carrier is touched


@pytest.mark.parametrize(
    ("content", "changes", "problem"),
    [
        (AIRLINES + "AA,Again,x,1,2000-01-01,true\n", {}, "'AA' twice"),
        ("carrier,name\nUA,United\n", {}, "none of its keys is in the list of carrier"),
        (AIRLINES, {"key": "code"}, "no column code"),
        (AIRLINES, {"joins": ["delay"]}, "delay has no list of text or whole numbers"),
        (AIRLINES, {"joins": ["tail"]}, "no column tail"),
        (AIRLINES, {"key": "name"}, "no column name"),
        (AIRLINES, {"columns": ["size"]}, "no column size"),
        (AIRLINES, {"public": False}, "must have public = true"),
    ],
)
def test_a_public_table_that_cannot_be_joined_is_refused(
    folder: Path, content: str, changes: dict[str, Any], problem: str
) -> None:
    (folder / "airlines.csv").write_text(content)
    table = {"source": "airlines.csv", "key": "carrier", "public": True} | changes
    with pytest.raises(SchemaError, match=problem):
        with_public_tables(Schema.load(declared(tables={"airlines": table})), folder)


def test_a_public_column_with_too_many_values_is_refused_and_can_be_left_out(folder: Path) -> None:
    codes = [f"c{i}" for i in range(1_001)]
    table = pd.DataFrame({"code": codes, "name": [f"n{i}" for i in range(1_001)], "half": [0, 1] * 500 + [1]})
    given = declared(columns={"code": {"values": codes}}, tables={"codes": {"key": "code", "public": True}})
    with pytest.raises(SchemaError, match="name has 1,001 values"):
        with_public_tables(Schema.load(given), folder, {"codes": table})
    given["tables"]["codes"]["columns"] = ["half"]
    schema = with_public_tables(Schema.load(given), folder, {"codes": table})
    assert schema.columns["half"].domain == (0, 1)


def test_the_schema_survives_json_as_a_server_sends_it(session: dpx.Session) -> None:
    schema = session.schema
    again = Schema.load(schema.model_dump(mode="json", exclude={"tables": {"__all__": {"source"}}}))
    assert again.fingerprint() == schema.fingerprint()
    assert again.columns["founded"].is_temporal
    assert again.columns["fleet"].bounds == (1, 950)


def test_a_table_that_is_not_declared_is_not_taken(folder: Path) -> None:
    with pytest.raises(SchemaError, match="does not declare a table 'planes'"):
        dpx.connect(FLIGHTS, declared(), tables={"planes": AIRPORTS}, workspace=folder / "ledger")
    with pytest.raises(SchemaError, match=r"tables.airports.source is missing"):
        dpx.connect(FLIGHTS, declared(), workspace=folder / "ledger")


def test_a_public_table_of_a_key_that_is_yet_to_be_discovered_is_joined_afterwards(tmp_path: Path) -> None:
    schema = declared(
        columns={"carrier": {"values": "discover"}, "delay": {"bounds": [0, 100]}},
        tables={"airlines": {"key": "carrier", "public": True}},
    )
    airlines = pd.DataFrame({"carrier": ["AA", "B6"], "name": ["American", "JetBlue"]})
    sql = "SELECT name, COUNT(*) FROM flights JOIN airlines USING (carrier) GROUP BY name"
    for number in range(2):  # discovered in one session, known in the next
        with dpx.connect(FLIGHTS, schema, tables={"airlines": airlines}, workspace=tmp_path) as session:
            if number == 0:
                with pytest.raises(QueryRefused, match="Discover the values of carrier first"):
                    session.query(sql, rho=1)
                assert "(ε, " not in str(session.budget)
                session.discover("carrier", rho=10)
            assert discovered_delta(1e-6, 2e-6) in " ".join(str(session.budget).split())
            assert len(session.query(sql, rho=1).rows) == 2
