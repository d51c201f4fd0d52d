"""Opening a Parquet file against DuckDB's own CREATE TABLE AS."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pyarrow.parquet as parquet_files

from benchmarks.report import Line, alternate, at_most
from dpxplain.datasets import census
from dpxplain.engines.duckdb import DuckDBEngine
from dpxplain.model.schema import Schema


def write_census(folder: Path, rows: int) -> Path:
    path = folder / "census.parquet"
    parquet_files.write_table(census.generate(rows), path)
    return path


def run(parquet: Path) -> list[Line]:
    schema = Schema.load(census.schema())

    def ours() -> None:
        DuckDBEngine(parquet, schema).close()

    def bare() -> None:
        with duckdb.connect() as connection:
            connection.execute("CREATE TABLE t AS SELECT * FROM read_parquet(?)", [str(parquet)])

    return [at_most("opening from Parquet, against CREATE TABLE AS", *alternate(ours, bare, 5), 3.0)]
