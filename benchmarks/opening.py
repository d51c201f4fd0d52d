"""Measures opening a table against DuckDB's own CREATE TABLE AS from the same source."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import duckdb
import pyarrow.parquet as pq

from benchmarks.tables import Shape, plain_strings
from benchmarks.timing import Figure, alternate
from dpxplain.engines.duckdb import DuckDBEngine
from dpxplain.model.schema import Schema

MOST = 1.5


def run(shape: Shape, folder: Path, rows: int, rounds: int) -> list[Figure]:
    """Measures opening from Parquet and from memory, with plain strings and with dictionaries."""
    schema = Schema.load(shape.schema)
    dictionaries = shape.make(rows)
    strings = plain_strings(dictionaries)
    sources: dict[str, object] = {"Arrow table, strings": strings, "Arrow table, dictionaries": dictionaries}
    for name, table, encoded in (
        ("Parquet, plain strings", strings, False),
        ("Parquet, dictionary strings", dictionaries, True),
    ):
        path = folder / f"{len(sources)}.parquet"
        pq.write_table(table, path, use_dictionary=encoded)
        sources[name] = path
    figures = []
    for name, source in sources.items():
        timings = alternate(
            {
                "ours": partial(partial, _open, source, schema),
                "bare": partial(partial, _create_table, source),
            },
            rounds,
        )
        conditions = f"{shape.name}, rows {shape.rows_kind}"
        figures.append(
            Figure(
                f"opening: {name}", conditions, timings["ours"], timings["bare"], "`CREATE TABLE AS`", MOST
            )
        )
    return figures


def _open(source: object, schema: Schema) -> None:
    DuckDBEngine(source, schema).close()


def _create_table(source: object) -> None:
    with duckdb.connect() as connection:
        if isinstance(source, Path):
            connection.execute("CREATE TABLE t AS SELECT * FROM read_parquet(?)", [str(source)])
        else:
            connection.register("source", source)
            connection.execute("CREATE TABLE t AS SELECT * FROM source")
