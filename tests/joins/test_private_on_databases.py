"""Private tables joined where they live: PostgreSQL and Spark give the cells that DuckDB gives."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pandas as pd
import psycopg
import pytest

import dpxplain as dpx
from dpxplain.errors import SchemaError, SourceError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Persons with more rows than are kept, in one table only, without an id, and with ids that differ in case.
PATIENTS = [(f"p{n % 40}" if n % 11 else None, "F" if n % 3 else "M", float(n % 7)) for n in range(300)] + [
    ("P1", "F", 3.5),
    ("", "M", 1.0),
]
VISITS = [(f"p{n % 45}" if n % 13 else None, "ABC"[n % 3], n * 7 % 50) for n in range(500)] + [("P1", "A", 3)]
SQL = [
    "SELECT sex, ward, COUNT(*) FROM patients JOIN visits USING (patient) GROUP BY sex, ward",
    "SELECT ward, SUM(cost), AVG(score) FROM patients p JOIN visits v ON p.patient = v.patient "
    "WHERE sex = 'F' GROUP BY ward",
    "SELECT sex, COUNT(DISTINCT patient), SUM(cost + score) FROM patients JOIN visits USING (patient) "
    "GROUP BY sex",
]


def declared(**table: Any) -> dict[str, Any]:
    return {
        "table": {"name": "patients", "version": "1", **table},
        "privacy": {"rho": 1e6, "unit": "patient", "max_rows": 2},
        "columns": {
            "sex": {"values": ["F", "M"]},
            "score": {"bounds": [0, 10], "step": 0.5},
            "high": {"expression": "CASE WHEN score > 3 THEN 'high' ELSE 'low' END"},
        },
        "tables": {
            "visits": {
                "unit": "patient",
                "max_rows": 3,
                "columns": {"ward": {"values": ["A", "B"]}, "cost": {"bounds": [5, 40], "step": 1}},
            }
        },
    }


def frames() -> tuple[pd.DataFrame, pd.DataFrame]:
    patients = pd.DataFrame(PATIENTS, columns=["patient", "sex", "score"])
    return patients, pd.DataFrame(VISITS, columns=["patient", "ward", "cost"])


def truths(session: dpx.Session) -> list[Any]:
    """The true cells of all statements, and of an explanation over columns of both tables."""
    answers = [session.query(sql, rho=1) for sql in SQL]
    found = [record["true"] for answer in answers for record in answer.truth().records()]
    counted = session.query(
        "SELECT sex, COUNT(*) FROM patients JOIN visits USING (patient) GROUP BY sex", rho=1
    )
    table = counted.why("F", "M").truth(attributes=["ward", "high"], conjuncts=2)
    return [*found, sorted((str(r["predicate"]), r["influence"]) for r in table.records())]


@pytest.fixture
def expected(tmp_path: Path) -> list[Any]:
    patients, visits = frames()
    with dpx.connect(
        patients, declared(), tables={"visits": visits}, workspace=tmp_path / "duckdb", curator=True
    ) as session:
        return truths(session)


@pytest.fixture
def database(postgres_address: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """The address of the tables without the password, which is in the environment."""
    with psycopg.connect(postgres_address, autocommit=True) as connection:
        connection.execute("CREATE SCHEMA dpxplain")  # what the fixture removes
        connection.execute("CREATE TABLE dpxplain.patients (patient varchar, sex char(3), score float8)")
        connection.execute("CREATE TABLE dpxplain.stays (patient text, ward text, cost int)")
        for name, rows in (("patients", PATIENTS), ("stays", VISITS)):
            with connection.cursor().copy(f"COPY dpxplain.{name} FROM STDIN") as copy:
                for row in rows:
                    copy.write_row(row)
    secret = str(psycopg.conninfo.conninfo_to_dict(postgres_address)["password"])
    monkeypatch.setenv("PGPASSWORD", secret)
    return postgres_address.replace(f":{quote(secret)}@", "@")


@pytest.mark.parametrize("storage", ["auto", "memory"])
def test_postgresql_joins_as_duckdb_does(
    database: str, tmp_path: Path, expected: list[Any], storage: str
) -> None:
    schema = declared(storage=storage)
    schema["tables"]["visits"]["source"] = f"{database}::dpxplain.stays"
    address = f"{database}::dpxplain.patients"
    with dpx.connect(address, schema, workspace=tmp_path / "postgres", curator=True) as session:
        assert truths(session) == expected


def test_tables_of_two_databases_are_not_joined(database: str, tmp_path: Path) -> None:
    schema = declared()
    schema["tables"]["visits"]["source"] = "postgresql://elsewhere/db::visits"
    with pytest.raises(SchemaError, match="is in another database"):
        dpx.connect(f"{database}::dpxplain.patients", schema, workspace=tmp_path)
    schema["tables"]["visits"]["source"] = None
    with pytest.raises(SourceError, match="no tables called"):
        dpx.connect(f"{database}::dpxplain.patients", schema, workspace=tmp_path)
    with pytest.raises(SchemaError, match="not in the same place as the data"):
        dpx.connect(
            f"{database}::dpxplain.patients", schema, tables={"visits": frames()[1]}, workspace=tmp_path
        )


@pytest.fixture
def spark_tables(spark_session: SparkSession) -> Iterator[tuple[Any, Any]]:
    patients = spark_session.createDataFrame(PATIENTS, "patient string, sex string, score double")
    visits = spark_session.createDataFrame(VISITS, "patient string, ward string, cost int")
    visits.createOrReplaceTempView("visits")
    yield patients, visits
    spark_session.catalog.dropTempView("visits")


@pytest.mark.slow
def test_spark_joins_as_duckdb_does(
    spark_tables: tuple[Any, Any], tmp_path: Path, expected: list[Any]
) -> None:
    patients, visits = spark_tables
    with closing(
        dpx.connect(patients, declared(), tables={"visits": visits}, workspace=tmp_path / "a", curator=True)
    ) as session:
        assert truths(session) == expected
    with closing(dpx.connect(patients, declared(), workspace=tmp_path / "b", curator=True)) as session:
        counted = session.query(SQL[0], rho=1).truth().records()  # the table of that name in the catalog
        assert [r["true"] for r in counted] == expected[: len(counted)]
