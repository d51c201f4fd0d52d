"""The engines that `benchmarks.engines` measures: how each opens a Parquet file, and its bare query."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import duckdb

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


CONTESTANTS: dict[str, Callable[[Path], AbstractContextManager[Contestant]]] = {"duckdb": duckdb_over}
