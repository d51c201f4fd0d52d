"""A source is read as what it names: each row once, of the table named, however its neighbours are read."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any

import duckdb
import psycopg
import pyarrow as pa
import pytest
from pyarrow import dataset as arrow
from pyarrow import parquet as pq

import dpxplain as dpx
from dpxplain.engines.duckdb import DuckDBJoinEngine
from dpxplain.engines.postgres_engine import PostgresAddress, PostgresDialect
from dpxplain.errors import DataChanged, SourceError
from dpxplain.model.schema import Schema, joined_schema
from opened import connection_of

SEX = {"values": ["F", "M"]}
COUNT = "SELECT sex, COUNT(*) FROM people GROUP BY sex"


def schema(**table: str) -> dict[str, Any]:
    return {"table": {"name": "people"} | table, "privacy": {"rho": 1e6}, "columns": {"sex": SEX}}


def write(file: Path, *counts: int) -> Path:
    sexes = [sex for sex, n in zip("FM", counts, strict=True) for _ in range(n)]
    pq.write_table(pa.table({"sex": sexes}), file)
    return file


def counted(source: object, folder: Path, name: str) -> list[int]:
    with dpx.connect(source, schema=schema(), workspace=folder / name) as session:
        return [round(row.estimate) for row in session.query(COUNT, rho=1e5)]


@pytest.mark.parametrize("own", ["people.csv", "people.parquet"])
def test_nan_beside_a_csv_table_is_read_as_nan(tmp_path: Path, own: str) -> None:
    """By Parquet's statistics, which leave NaN out, one row of 7 would make all others count as 7."""
    numbers = range(101)
    (tmp_path / "people.csv").write_text("pid,sex\n" + "".join(f"{n},F\n" for n in numbers))
    pq.write_table(
        pa.table({"pid": [str(n) for n in numbers], "sex": ["F"] * 101}), tmp_path / "people.parquet"
    )
    visits = pa.table({"pid": [str(n) for n in numbers], "x": [math.nan] * 100 + [7.0]})
    pq.write_table(visits, tmp_path / "visits.parquet")
    x = {"edges": [0, 10], "bounds": [8, 10]}
    declared = Schema.load(
        schema()
        | {
            "privacy": {"rho": 1, "unit": "pid", "max_rows": 1},
            "tables": {"visits": {"unit": "pid", "max_rows": 1, "source": "v", "columns": {"x": x}}},
        }
    )
    sources = {"people": str(tmp_path / own), "visits": str(tmp_path / "visits.parquet")}
    engine = DuckDBJoinEngine(sources, joined_schema(declared, ["visits"]))
    encoded = "SELECT COUNT(*), COUNT(units_1) FROM encoded"
    assert connection_of(engine).execute(encoded).fetchall() == [(101, 1)]
    engine.close()


def test_a_file_that_is_named_twice_is_refused(tmp_path: Path) -> None:
    file = write(tmp_path / "e1.parquet", 5, 5)
    os.symlink(file, tmp_path / "e2.parquet")
    for source in ([str(file), f"{tmp_path}/./e1.parquet"], f"{tmp_path}/e*.parquet"):
        with pytest.raises(SourceError, match="names the same file twice"):
            counted(source, tmp_path, "ws")


@pytest.mark.parametrize("ending", ["parquet", "csv", "jsonl"])
def test_a_name_is_no_pattern(tmp_path: Path, ending: str) -> None:
    lines = {"csv": "sex\n{0}\n", "jsonl": '{{"sex": "{0}"}}\n'}
    for name, sex in (("e1", "F"), ("e[1]", "M")):
        file = tmp_path / f"{name}.{ending}"
        if ending == "parquet":
            write(file, *((1, 0) if sex == "F" else (0, 1)))
        else:
            file.write_text(lines[ending].format(sex))
    assert counted(f"{tmp_path}/e*.{ending}", tmp_path, "ws") == [1, 1]


def test_tables_of_one_database_are_different_data(tmp_path: Path) -> None:
    with duckdb.connect(str(tmp_path / "d.duckdb")) as connection:
        connection.execute("CREATE TABLE a AS SELECT 'F' AS sex FROM range(100)")
        connection.execute("CREATE TABLE b AS SELECT 'M' AS sex FROM range(50)")
    assert counted(f"{tmp_path}/d.duckdb::a", tmp_path, "ws") == [100, 0]
    with pytest.raises(DataChanged):
        counted(f"{tmp_path}/d.duckdb::b", tmp_path, "ws")
    assert counted(f"{tmp_path}/d.duckdb::b", tmp_path, "other") == [0, 50]


def test_databases_that_only_the_environment_names_are_different_data(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    schema = Schema.load({"table": {"name": "t"}, "privacy": {"rho": 1.0}, "columns": {"x": {"values": [1]}}})

    def place(address: str, database: str) -> str:
        monkeypatch.setenv("PGDATABASE", database)
        return PostgresAddress.of(address, schema).place

    assert place("postgresql://ann@host", "one") != place("postgresql://ann@host", "two")
    assert place("postgresql://ann@host/db", "one") == place("postgresql://ann@host/db", "two")


def test_filters_of_one_dataset_are_different_data(tmp_path: Path) -> None:
    rows = arrow.dataset(write(tmp_path / "people.parquet", 30, 20))
    assert counted(rows, tmp_path, "ws") == [30, 20]
    assert counted(str(tmp_path / "people.parquet"), tmp_path, "ws") == [30, 20]
    with pytest.raises(DataChanged):
        counted(rows.filter(arrow.field("sex") == "M"), tmp_path, "ws")


def test_a_damaged_private_table_is_refused_before_anything_is_charged(tmp_path: Path) -> None:
    (tmp_path / "people.csv").write_text("pid,sex\n1,F\n2,M\n")
    (tmp_path / "visits.csv").write_text("pid,x\n1,5\n2,5,6\n")
    declared = schema() | {
        "privacy": {"rho": 1.0, "unit": "pid", "max_rows": 1},
        "tables": {
            "visits": {
                "unit": "pid",
                "max_rows": 1,
                "source": str(tmp_path / "visits.csv"),
                "columns": {"x": {"bounds": [0, 10]}},
            }
        },
    }
    with pytest.raises(SourceError, match="source of visits could not be read completely"):
        dpx.connect(str(tmp_path / "people.csv"), schema=declared, workspace=tmp_path / "ws")


def test_quality_is_measured_through_a_duckdb_connection(tmp_path: Path) -> None:
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE people AS SELECT 'F' AS sex FROM range(10)")
        with dpx.connect(connection, schema=schema(), workspace=tmp_path) as session:
            assert session.quality(rho=100.0).rho == 100.0


def test_postgresql_divides_by_no_number_too_small_to_matter(postgres_address: str) -> None:
    remainder = PostgresDialect().remainder("7.0::float8", "1e-200::float8", is_whole=False)
    with psycopg.connect(postgres_address) as connection:
        assert connection.execute(f"SELECT {remainder}").fetchone() == (None,)
