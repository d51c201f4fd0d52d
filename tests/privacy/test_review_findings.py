"""What reviewers of the mechanisms found once stays mended."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import dpxplain as dpx
from dpxplain.model.query import units_column
from dpxplain.model.schema import Schema


def _open(source: object, folder: Path, columns: dict[str, Any], **privacy: Any) -> dpx.Session:
    schema = {"table": {"name": "t"}, "privacy": {"rho": 1000.0} | privacy, "columns": columns}
    return dpx.connect(source, schema, workspace=folder, curator=True)


BITS = {"n": {"values": [0, 1]}}


@pytest.mark.parametrize(
    ("table", "privacy"),
    [
        (pa.table({"n": pa.array([], pa.int64())}), {}),
        (pa.table({"n": [0, 1], "id": [None, ""]}), {"unit": "id", "max_rows": 2}),
    ],
    ids=["an empty table", "nobody has an id"],
)
def test_quality_is_answered_where_no_row_is_kept(
    table: pa.Table, privacy: dict[str, Any], tmp_path: Path
) -> None:
    with _open(table, tmp_path, BITS, **privacy) as session:
        assert "Data quality: t" in str(session.quality(rho=1.0))


def test_one_person_is_the_same_for_the_row_limit_and_for_the_count(tmp_path: Path) -> None:
    file = tmp_path / "people.duckdb"
    with duckdb.connect(str(file)) as database:
        database.execute("CREATE TABLE t (n INTEGER, id VARCHAR COLLATE NOCASE)")
        database.execute("INSERT INTO t VALUES (0, 'Alice'), (0, 'ALICE'), (0, 'alice'), (1, 'Bob')")
    with _open(str(file), tmp_path / "w", BITS, unit="id", max_rows=1) as session:
        counted = session.query("SELECT COUNT(DISTINCT id), COUNT(*) FROM t", rho=10.0).truth().records()
    assert [row["true"] for row in counted] == [4.0, 4.0]  # however they are spelt, as many rows as persons


def test_two_expressions_never_share_the_name_of_their_encoded_column() -> None:
    schema = Schema.load({"table": {"name": "t"}, "privacy": {"rho": 1}, "columns": BITS})
    name = units_column(schema, "n + 1")
    # A whole SHA-256 in base 32: an analyst cannot find two of one name. PostgreSQL keeps 63 bytes.
    assert 52 + len("units_x") == len(name) <= 63


def test_a_count_beside_a_median_of_bins_is_answered(tmp_path: Path) -> None:
    ages = {"age": {"edges": [0, 20, 40]}}
    with _open(pa.table({"age": list(range(1, 40))}), tmp_path, ages) as session:
        assert len(session.query("SELECT COUNT(age), MEDIAN(age) FROM t", rho=10.0).answers) == 2


def test_quality_reads_a_relation_whose_rows_have_no_order(tmp_path: Path) -> None:
    rows = duckdb.sql("SELECT (i % 2)::INT AS n, i % 5000 AS id FROM range(20000) AS r(i) GROUP BY ALL")
    with _open(rows, tmp_path, BITS) as session:
        assert "Data quality: t" in str(session.quality(rho=1.0))


@pytest.mark.process
def test_a_database_with_changes_beside_its_file_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "people.duckdb"
    with duckdb.connect(str(file)) as database:
        database.execute("CREATE TABLE t AS SELECT 0 AS n FROM range(10)")
    crash = (
        "import duckdb, os, sys; database = duckdb.connect(sys.argv[1]);"
        "database.execute('INSERT INTO t SELECT 1 FROM range(5)'); os._exit(0)"
    )
    subprocess.run([sys.executable, "-c", crash, str(file)], check=True)
    assert os.path.exists(f"{file}.wal"), "the writer was expected to leave its changes beside the file"
    with pytest.raises(dpx.SourceError, match="not written to the file yet"):
        _open(str(file), tmp_path / "w", BITS)
