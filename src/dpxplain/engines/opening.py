"""Chooses the engine of a source: the one place that knows all of them.

Engines are imported when a source needs them, because their drivers are slow to import or not installed.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from dpxplain.engines.engine import Engine, Recognised, Source
from dpxplain.engines.live_table import LiveTable
from dpxplain.engines.private_sources import PrivateSources
from dpxplain.engines.source_files import FileSource
from dpxplain.engines.source_kinds import is_path, is_spark, local_files, source_files
from dpxplain.errors import SchemaError
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
    others: Mapping[str, object] = MappingProxyType({}),
    memory: str | None = None,
    cache: Path | None = None,
    recognised: Recognised = lambda _state: False,
    time_limit: float | None = None,
    lazily: bool = False,
) -> Engine:
    """The engine of a source. `lazily`, a database is not connected to before its data are needed.

    `others` are the sources of private tables. `memory` and `cache`
    are DuckDB's; `time_limit`, in seconds, is that of a database's statements.
    """
    if not _is_elsewhere(source) and schema.joined:
        from dpxplain.engines.duckdb_join import DuckDBJoinEngine

        return DuckDBJoinEngine({schema.table.name: source, **others}, schema, memory=memory)
    if not _is_elsewhere(source):
        from dpxplain.engines.duckdb import DuckDBEngine

        return DuckDBEngine(source, schema, memory=memory, cache=cache, recognised=recognised)
    engine = _database_engine(source, schema, time_limit, others)
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
    source: object,
    schema: Schema,
    time_limit: float | None = None,
    others: Mapping[str, object] = MappingProxyType({}),
) -> PostgresEngine | SparkEngine:
    if is_spark(source):
        from dpxplain.engines.spark import SparkEngine

        return SparkEngine(source, schema, others=others, time_limit=time_limit)
    from dpxplain.engines.postgres_engine import TIME_LIMIT, PostgresEngine

    return PostgresEngine(str(source), schema, time_limit=time_limit or TIME_LIMIT)


def private_sources(
    source: object, schema: Schema, given: Mapping[str, object] = MappingProxyType({})
) -> dict[str, object]:
    """The source of each private table beside the data set's own: as `given`, or else as declared.

    Tables are joined where the data are: in one database, in one Spark session, or here.
    """
    sources = {name: given.get(name, table.source) for name, table in schema.private.items()}
    for name, other in sources.items():
        if _is_elsewhere(source):
            is_same = other is None or (is_spark(source) == is_spark(other) and _is_elsewhere(other))
        else:
            is_same = other is not None and not _is_elsewhere(other)
        if other is None and not is_same:
            raise SchemaError(
                f"tables.{name}.source: is missing.",
                remedy=f'Say where it lies, or pass tables={{"{name}": DataFrame}} to connect.',
            )
        if not is_same:
            raise SchemaError(
                f"tables.{name}: lies elsewhere than the data; private tables are joined where both are.",
                remedy="Put both into one database, or both into files.",
            )
    return {name: lasting(other) for name, other in sources.items()}


def lasting(source: object) -> object:
    """The source; as a table if it could be read only once, or has its rows in another order each time."""
    if _is_elsewhere(source):
        return source
    from dpxplain.engines.duckdb_source import lasting as lasting_table

    return lasting_table(source)


def guarded_source(own: Source, source: object, schema: Schema, others: Mapping[str, object]) -> Source:
    """What tells whether the data have changed: of all private tables, if there are others."""
    if not others:
        return own
    described: dict[str, Source] = {}
    for name, other in others.items():
        if _is_elsewhere(source):
            table = (schema.private[name].source or "").partition("::")[2]
            place = f"{engine_name(source)} {name} {table}"
            described[name] = LiveTable(schema, place, lambda: None)
        else:
            described[name] = _described(name, other)
    return PrivateSources({schema.table.name: own, **described})


def check_joinable(source: object, schema: Schema, others: Mapping[str, object]) -> None:
    """Refuses private tables that cannot be joined; a database's are checked when it is connected to."""
    if others and not _is_elsewhere(source):
        from dpxplain.engines.duckdb_join import check_tables

        check_tables({schema.table.name: source, **others}, schema)


def _described(name: str, source: object) -> Source:
    from dpxplain.engines.duckdb_join import digested_source

    files = local_files(source)
    if files is not None:
        source_files(files)  # refuses what is not there
    return digested_source(source, name)


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
        own: Source = _database_engine(source, schema).source
    else:
        files = FileSource(source)
        if not files.exists:
            return None
        own = files
    others = private_sources(source, schema)
    if not is_database(source) and not all(FileSource(str(other)).exists for other in others.values()):
        return None
    return guarded_source(own, source, schema, others)


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


def database_identities(source: str, parts: Mapping[str, Schema]) -> list[Hashable]:
    """Of the data set's own table and of private ones; equal for two ways to name one table.

    A table of PostgreSQL without a schema is taken for that of `public`, its default.
    """
    if is_spark(source):
        from dpxplain.engines.spark_source import place_of

        first, *others = parts.values()
        named = [(source, first), *((part.table.source or "", part) for part in others)]
        return [(place_of(at, part.table.name), source.partition("::")[0]) for at, part in named]
    from dpxplain.engines.postgres_source import PostgresAddress

    addresses = PostgresAddress.of_all(source, parts)
    full = [a if "." in a.table else replace(a, table=f"public.{a.table}") for a in addresses]
    return [(a.place, a.conninfo.get("host"), a.conninfo.get("port")) for a in full]


def is_listed(source: str, schema: Schema, addresses: Sequence[str]) -> bool:
    """Whether a table is in one of the databases, reached in the same way."""
    if is_spark(source):
        return source.partition("::")[0] in addresses
    from dpxplain.engines.postgres_source import PostgresAddress

    conninfo = PostgresAddress.of(source, schema).conninfo
    return any(PostgresAddress.of(address, schema).conninfo == conninfo for address in addresses)
