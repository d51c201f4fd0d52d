"""The engines that `benchmarks.engines` measures: how each opens a Parquet file, and its bare query."""

from __future__ import annotations

import multiprocessing
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import duckdb

from benchmarks.document import ROOT
from benchmarks.load_servers import postgres
from dpxplain.engines.duckdb import DuckDBEngine
from dpxplain.engines.engine import Engine
from dpxplain.model.schema import Schema

WARMING_OF_SPARK = 3  # a JVM compiles a new statement's code while it runs it, for ours and for the bare one


@dataclass(frozen=True)
class Way:
    """One way in which our engine holds the rows."""

    storage: str
    open: Callable[[Schema, str], Engine]
    """Takes the schema and the memory limit."""


@dataclass(frozen=True)
class Contestant:
    """One engine over the rows of a file."""

    ways: Mapping[str, Way]
    bare: Callable[[str], object] | None
    """Runs SQL over the same rows in the engine itself. `{table}` stands for their table."""
    cpu_seconds: Callable[[], float]
    """CPU seconds that this process and the engine's processes have used until now."""
    warming: int = 1
    """How many first turns of each question do not count."""


@contextmanager
def duckdb_over(file: Path) -> Iterator[Contestant]:
    """DuckDB streaming from Parquet, against its own query over the same file under the same limit."""
    with closing(duckdb.connect(config={"memory_limit": "4GB"})) as connection:
        connection.execute("SET enable_progress_bar = false")
        table = f"read_parquet('{file}')"
        way = Way("stream", lambda schema, memory: DuckDBEngine(file, schema, memory=memory))
        yield Contestant(
            {"duckdb": way},
            lambda sql: connection.execute(sql.format(table=table)).fetchall(),
            time.process_time,
        )


@contextmanager
def postgres_over(file: Path) -> Iterator[Contestant]:
    """A new PostgreSQL server with the rows in a table, encoded in every pass or once, against that table."""
    import psycopg

    from dpxplain.engines.postgres_engine import PostgresEngine

    with postgres() as address, psycopg.connect(address, autocommit=True) as connection:
        # In a separate process, so that loading does not count in our peak memory.
        loading = multiprocessing.get_context("spawn").Process(target=_copy, args=(file, address))
        loading.start()
        loading.join()
        if loading.exitcode:
            raise SystemExit(f"The rows could not be loaded: exit code {loading.exitcode}.")
        parts = psycopg.conninfo.conninfo_to_dict(address)
        os.environ["PGPASSWORD"] = str(parts.pop("password"))  # only for this process, which ends soon
        source = f"postgresql://{parts['user']}@/{parts['dbname']}?host={quote(str(parts['host']), safe='')}"

        def opened(schema: Schema, _memory: str) -> Engine:
            return _opened(PostgresEngine(source, schema))

        yield Contestant(
            {"postgresql": Way("auto", opened), "postgresql, stored": Way("memory", opened)},
            lambda sql: connection.execute(sql.format(table="t")).fetchall(),
            family_seconds,
        )


def family_seconds() -> float:
    """CPU seconds of this process and of all processes that it started, ended ones included (Linux)."""
    tick = os.sysconf("SC_CLK_TCK")
    parents: dict[int, int] = {}
    used: dict[int, float] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # the process has just ended
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
            parents[int(folder.name)] = int(fields[1])
            used[int(folder.name)] = sum(map(int, fields[11:15])) / tick
    return sum(seconds for process, seconds in used.items() if _is_ours(process, parents))


def _is_ours(process: int, parents: Mapping[int, int]) -> bool:
    while process not in (0, os.getpid()):
        process = parents.get(process, 0)
    return process != 0


def _opened(engine: Any) -> Engine:
    """The engine, connected and with its rows stored, which the first pass would do otherwise."""
    engine.open()
    opened: Engine = engine
    return opened


def _copy(file: Path, address: str) -> None:
    """Copies the rows of a Parquet file into the unlogged table `t`, through a pipe."""
    import psycopg

    kinds = {"VARCHAR": "text", "DOUBLE": "float8", "INTEGER": "int"}
    with (
        tempfile.TemporaryDirectory() as folder,
        closing(duckdb.connect()) as source,
        psycopg.connect(address, autocommit=True) as connection,
    ):
        source.execute("SET enable_progress_bar = false")
        described = source.execute(f"DESCRIBE FROM read_parquet('{file}')").fetchall()
        columns = ", ".join(f"{name} {kinds[kind]}" for name, kind, *_ in described)
        pipe = Path(folder) / "rows"
        os.mkfifo(pipe)
        written = f"COPY (FROM read_parquet('{file}')) TO '{pipe}' (FORMAT csv, HEADER false)"
        writer = threading.Thread(target=source.execute, args=[written], daemon=True)
        writer.start()
        with connection.transaction():  # a table made in this transaction needs no log entry for each row
            connection.execute(f"CREATE UNLOGGED TABLE t ({columns})")
            with (
                pipe.open("rb") as lines,
                connection.cursor().copy("COPY t FROM STDIN (FORMAT csv)") as copy,
            ):
                while block := lines.read(1 << 20):
                    copy.write(block)
        writer.join()
        connection.execute("VACUUM ANALYZE t")


def spark_over(workers: int, *, is_compared: bool) -> Callable[[Path], AbstractContextManager[Contestant]]:
    """A Spark cluster on loopback with `workers` workers of one core each, reached by Spark Connect."""

    @contextmanager
    def over(file: Path) -> Iterator[Contestant]:
        sys.path.insert(0, str(ROOT / "tests"))
        from dpxplain.engines.spark import SparkEngine, silenced
        from spark_server import SparkCluster

        with tempfile.TemporaryDirectory(prefix="dpxplain-spark-") as folder:
            cluster = SparkCluster(Path(folder), workers=workers, cores=1, used=workers, compiles_well=True)
            try:
                cluster.start()
                with silenced():
                    from pyspark.sql.connect.session import SparkSession  # warns about pandas

                    session = SparkSession.builder.remote(cluster.connect).create()

                def opened(schema: Schema, _memory: str) -> Engine:
                    return _opened(SparkEngine(session.read.parquet(str(file)), schema))

                def bare(sql: str) -> object:
                    return session.sql(sql.format(table=f"parquet.`{file}`")).toArrow()

                name = f"spark, {workers} worker{'s' if workers > 1 else ''}"
                ways = {name: Way("auto", opened)}
                yield Contestant(ways, bare if is_compared else None, family_seconds, WARMING_OF_SPARK)
                session.stop()
            finally:
                cluster.stop()

    return over


CONTESTANTS: dict[str, Callable[[Path], AbstractContextManager[Contestant]]] = {
    "duckdb": duckdb_over,
    "postgresql": postgres_over,
    "spark, 2 workers": spark_over(2, is_compared=True),
    "spark, 1 worker": spark_over(1, is_compared=False),
}
