"""Chooses the engine of a source: the one place that knows all of them.

Engines are imported when a source needs them, because their drivers are slow to import or not installed.
"""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from dpxplain.engines.engine import Engine, Recognised, Source
from dpxplain.engines.source_files import FileSource
from dpxplain.engines.source_kinds import is_path, is_spark
from dpxplain.model.fit import SourceFigures
from dpxplain.model.schema import Schema, is_database

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from dpxplain.engines.postgres_engine import PostgresEngine
    from dpxplain.engines.spark import SparkEngine


def open_engine(
    source: object,
    schema: Schema,
    *,
    memory: str | None = None,
    cache: Path | None = None,
    recognised: Recognised = lambda _state: False,
    time_limit: float | None = None,
    lazily: bool = False,
) -> Engine:
    """The engine of a source. `lazily`, a database is not connected to before its data are needed.

    `memory` and `cache` are DuckDB's; `time_limit`, in seconds, is that of a database's statements.
    """
    if not _is_elsewhere(source):
        from dpxplain.engines.duckdb import DuckDBEngine

        return DuckDBEngine(source, schema, memory=memory, cache=cache, recognised=recognised)
    engine = _database_engine(source, schema, time_limit)
    if not lazily:
        try:
            engine.open()
        except BaseException:
            engine.close()
            raise
    return engine


def _is_elsewhere(source: object) -> bool:
    """Whether the rows stay where they are."""
    return is_database(source) or is_spark(source)


def _database_engine(
    source: object, schema: Schema, time_limit: float | None = None
) -> PostgresEngine | SparkEngine:
    if is_spark(source):
        from dpxplain.engines.spark import SparkEngine

        return SparkEngine(source, schema, time_limit=time_limit)
    from dpxplain.engines.postgres_engine import TIME_LIMIT, PostgresEngine

    return PostgresEngine(str(source), schema, time_limit=time_limit or TIME_LIMIT)


def source_figures(source: object, schema: Schema, *, memory: str | None = None) -> SourceFigures:
    """How the rows of a source fit the declarations, exactly: for the curator, NOT private."""
    if not _is_elsewhere(source):
        from dpxplain.engines.duckdb_check import duckdb_figures

        return duckdb_figures(source, schema, memory=memory)
    with closing(_database_engine(source, schema)) as engine:
        return engine.figures()


def source_state(source: str | Path | Sequence[str | Path], schema: Schema) -> Source | None:
    """What tells whether a source is the one that was answered from, without opening it; None if gone."""
    if is_database(source):
        return _database_engine(source, schema).source
    files = FileSource(source)
    return files if files.exists else None


def engine_name(source: object) -> str:
    """What holds the data, in a word for people; neither a host nor a path.

    >>> engine_name("postgresql://reader@host/db"), engine_name("sc://host"), engine_name("adult.parquet")
    ('PostgreSQL', 'Spark', 'files')
    """
    if is_spark(source):
        return "Spark"
    if is_database(source):
        return "PostgreSQL"
    return "files" if is_path(source) else "memory"


def database_identity(source: str, schema: Schema) -> Hashable:
    """Equal for two ways to name one table: another user or option."""
    if is_spark(source):
        from dpxplain.engines.spark_source import place_of

        return place_of(source, schema.table.name), source.partition("::")[0]
    from dpxplain.engines.postgres_source import PostgresAddress

    address = PostgresAddress.of(source, schema)
    return address.place, address.conninfo.get("host"), address.conninfo.get("port")


def is_listed(source: str, schema: Schema, addresses: Sequence[str]) -> bool:
    """Whether a table is in one of the databases, reached in the same way."""
    if is_spark(source):
        return source.partition("::")[0] in addresses
    from dpxplain.engines.postgres_source import PostgresAddress

    conninfo = PostgresAddress.of(source, schema).conninfo
    return any(PostgresAddress.of(address, schema).conninfo == conninfo for address in addresses)
