"""The engines that `benchmarks.engines` measures: how each opens a Parquet file, and its bare query."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

import duckdb

from benchmarks.document import ROOT
from benchmarks.load_servers import postgres
from dpxplain.engines.duckdb import DuckDBEngine
from dpxplain.engines.engine import Engine
from dpxplain.model.schema import Schema


@dataclass(frozen=True)
class Contestant:
    """One engine with the rows of a file."""

    storage: str
    open: Callable[[Schema, str], Engine]
    """With the declarations and the memory limit."""
    bare: Callable[[str], object]
    """Runs SQL over the same rows in the engine itself; `{table}` is their table."""


@contextmanager
def duckdb_over(file: Path) -> Iterator[Contestant]:
    """Streamed from Parquet, against DuckDB's own query over the same file under the same limit."""
    with closing(duckdb.connect(config={"memory_limit": "4GB"})) as connection:
        connection.execute("SET enable_progress_bar = false")
        table = f"read_parquet('{file}')"
        yield Contestant(
            "stream",
            lambda schema, memory: DuckDBEngine(file, schema, memory=memory),
            lambda sql: connection.execute(sql.format(table=table)).fetchall(),
        )


def postgres_over(storage: str) -> Callable[[Path], AbstractContextManager[Contestant]]:
    """A server of its own with the rows in a table, against the same table in a session of its own."""
    return contextmanager(partial(_postgres, storage))


def _postgres(storage: str, file: Path) -> Iterator[Contestant]:
    import psycopg

    from dpxplain.engines.postgres_engine import PostgresEngine

    with postgres() as address, psycopg.connect(address, autocommit=True) as connection:
        _copy(file, connection)
        parts = psycopg.conninfo.conninfo_to_dict(address)
        os.environ["PGPASSWORD"] = str(parts.pop("password"))  # of this process, which ends
        source = f"postgresql://{parts['user']}@/{parts['dbname']}?host={quote(str(parts['host']), safe='')}"
        yield Contestant(
            storage,
            lambda schema, _memory: _opened(PostgresEngine(source, schema)),
            lambda sql: connection.execute(sql.format(table="t")).fetchall(),
        )


def _opened(engine: Any) -> Engine:
    """Connected, with what it stores: otherwise the first pass would do it."""
    engine.open()
    opened: Engine = engine
    return opened


def _copy(file: Path, connection: Any) -> None:
    """Copies the rows of a Parquet file into the table `t`."""
    rows = file.with_suffix(".csv")
    with closing(duckdb.connect()) as source:
        source.execute("SET enable_progress_bar = false")
        described = source.execute(f"DESCRIBE FROM read_parquet('{file}')").fetchall()
        source.execute(f"COPY (FROM read_parquet('{file}')) TO '{rows}' (HEADER false)")
    kinds = {"VARCHAR": "text", "DOUBLE": "float8", "INTEGER": "int"}
    columns = ", ".join(f"{name} {kinds[kind]}" for name, kind, *_ in described)
    connection.execute(f"CREATE TABLE t ({columns})")
    with rows.open("rb") as lines, connection.cursor().copy("COPY t FROM STDIN (FORMAT csv)") as copy:
        while block := lines.read(1 << 20):
            copy.write(block)
    rows.unlink()
    connection.execute("VACUUM ANALYZE t")


def spark_over(workers: int) -> Callable[[Path], AbstractContextManager[Contestant]]:
    """A cluster on loopback with so many workers of one core each, reached by Spark Connect."""

    @contextmanager
    def over(file: Path) -> Iterator[Contestant]:
        sys.path.insert(0, str(ROOT / "tests"))
        from dpxplain.engines.spark import SparkEngine
        from dpxplain.engines.spark_source import silenced
        from spark_server import SparkCluster

        with tempfile.TemporaryDirectory(prefix="dpxplain-spark-") as folder:
            cluster = SparkCluster(Path(folder), workers=workers, cores=1, used=workers)
            try:
                cluster.start()
                with silenced():
                    from pyspark.sql.connect.session import SparkSession  # warns of pandas

                    session = SparkSession.builder.remote(cluster.connect).create()
                yield Contestant(
                    "auto",
                    lambda schema, _memory: _opened(SparkEngine(session.read.parquet(str(file)), schema)),
                    lambda sql: session.sql(sql.format(table=f"parquet.`{file}`")).toArrow(),
                )
                session.stop()
            finally:
                cluster.stop()

    return over


CONTESTANTS: dict[str, Callable[[Path], AbstractContextManager[Contestant]]] = {
    "duckdb": duckdb_over,
    "postgresql": postgres_over("auto"),
    "postgresql, stored": postgres_over("memory"),
    "spark, 1 worker": spark_over(1),
    "spark, 2 workers": spark_over(2),
}
