"""Opens the data of a schema with the right engine, and reads public tables and the catalogs of databases."""

from __future__ import annotations

import math
import re
import threading
from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import date, datetime
from decimal import Decimal
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from dpxplain.engines.engine import DataSource, Engine, Recognised
from dpxplain.engines.source_kinds import is_path, is_spark, local_files, source_files
from dpxplain.engines.source_state import FileSource, LiveTable, PrivateSources, quiet
from dpxplain.errors import BadRequest, SchemaError, SourceError
from dpxplain.model.column import read_dates
from dpxplain.model.schema import PublicRows, Schema, holds_password, is_database
from dpxplain.model.schema_fit import SourceFigures

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from dpxplain.engines.duckdb import DuckDBEngine
    from dpxplain.engines.postgres_engine import PostgresEngine
    from dpxplain.engines.spark import SparkEngine


@dataclass(frozen=True)
class EngineOptions:
    """How an engine is opened; each engine uses the options that concern it."""

    memory: str | None = None  # DuckDB's limit, such as "4GB"
    cache: Path | None = None  # where DuckDB keeps encoded rows
    recognised: Recognised = lambda _state: False  # whether files in this state need not be digested
    time_limit: float | None = None  # for a database's statements, in seconds
    lazily: bool = False  # connect to a database only when its data are needed


def open_engine(
    source: object,
    schema: Schema,
    options: EngineOptions,
    others: Mapping[str, object] = MappingProxyType({}),
    *,
    rehearsed: bool = False,
) -> Engine:
    """The engine of a source, joined with `others`, the sources of private tables.

    A rehearsed engine of joined tables reads no row.
    """
    if not _is_elsewhere(source):
        from dpxplain.engines.duckdb import DuckDBEngine, DuckDBJoinEngine

        if schema.joined:
            tables = {schema.table.name: source, **others}
            return DuckDBJoinEngine(tables, schema, memory=options.memory, rehearsed=rehearsed)
        return DuckDBEngine(
            source, schema, memory=options.memory, cache=options.cache, recognised=options.recognised
        )
    engine = _database_engine(source, schema, options.time_limit, others)
    if not options.lazily:
        try:
            engine.open()
        except BaseException:
            engine.close()
            raise
    return engine


@lru_cache
def bundled_engine(source: Path, declared: Path, process: int) -> DuckDBEngine:
    """The engine of a bundled table, which never changes: encoded once per process, for `shared` engines.

    `process` is the current process: a connection must not be used after a fork.
    """
    from dpxplain.engines.duckdb import DuckDBEngine

    return DuckDBEngine(source, Schema.load(declared))


def _is_elsewhere(source: object) -> bool:
    """Whether the rows stay where they are, in PostgreSQL or Spark."""
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
    from dpxplain.engines.postgres_engine import PostgresEngine

    return PostgresEngine(str(source), schema, time_limit=time_limit)


def private_sources(
    source: object, schema: Schema, replacements: Mapping[str, object] = MappingProxyType({})
) -> dict[str, object]:
    """The source of each private table besides the data set's own: from `replacements`, or else as declared.

    Tables are joined where the data are: in one database, in one Spark session, or in this process.
    """
    sources = {name: replacements.get(name, table.source) for name, table in schema.private.items()}
    for name, other in sources.items():
        if other is None and not _is_elsewhere(source):
            raise _missing_source(name)
        is_same = is_spark(source) == is_spark(other) and _is_elsewhere(source) == _is_elsewhere(other)
        if other is not None and not is_same:
            raise SchemaError(
                f"tables.{name}: is not in the same place as the data, so the two cannot be joined.",
                remedy="Put both into one database, or both into files.",
            )
    return {name: _lasting(other) for name, other in sources.items()}


def _missing_source(table: str) -> SchemaError:
    return SchemaError(
        f"tables.{table}.source is missing.",
        remedy=f'Set it to the table\'s file or address, or pass tables={{"{table}": DataFrame}} to connect.',
    )


def _lasting(source: object) -> object:
    """The source; as a table, if it is read here and could be read only once."""
    if _is_elsewhere(source):
        return source
    from dpxplain.engines.duckdb_source import lasting

    return lasting(source)


def combined_source(
    own: DataSource, source: object, schema: Schema, others: Mapping[str, object]
) -> DataSource:
    """The source to watch for changes: the data set's own, or all private tables together."""
    if not others:
        return own
    described: dict[str, DataSource] = {}
    for name, other in others.items():
        if _is_elsewhere(source):
            table = (schema.private[name].source or "").partition("::")[2]
            place = f"{engine_name(source)} {name} {table}"
            described[name] = LiveTable(schema, place, lambda: None)
        else:
            from dpxplain.engines.duckdb import digested_source

            files = local_files(other)
            if files is not None:
                source_files(files)  # raises if a file is missing
            described[name] = digested_source(other, name)
    return PrivateSources({schema.table.name: own, **described})


def source_figures(source: object, schema: Schema, *, memory: str | None = None) -> SourceFigures:
    """Exact figures of how a source's rows fit the declarations: for the curator, NOT private."""
    if not _is_elsewhere(source):
        from dpxplain.engines.duckdb_profile import duckdb_figures

        return duckdb_figures(source, schema, memory=memory)
    with closing(_database_engine(source, schema)) as engine:
        return engine.figures()


def source_state(source: str | Path | Sequence[str | Path], schema: Schema) -> DataSource | None:
    """The state of a source, which tells without opening it whether it changed; None if it is gone."""
    if is_database(source):
        own: DataSource = _database_engine(source, schema).source
    else:
        files = FileSource(source)
        if not files.exists:
            return None
        own = files
    others = private_sources(source, schema)
    if not is_database(source) and not all(FileSource(str(other)).exists for other in others.values()):
        return None
    return combined_source(own, source, schema, others)


def engine_name(source: object) -> str:
    """What holds the data, as a word for people; never a host or a path.

    >>> engine_name("postgresql://reader@host/db"), engine_name("sc://host"), engine_name("adult.parquet")
    ('PostgreSQL', 'Spark', 'files')
    """
    if is_spark(source):
        return "Spark"
    if is_database(source):
        return "PostgreSQL"
    return "files" if is_path(source) else "memory"


def database_identities(source: str, parts: Mapping[str, Schema]) -> list[Hashable]:
    """Identities of the data set's own table and of private ones; equal for two ways to name one table.

    A PostgreSQL table named without a schema is assumed to be in `public`, the default.
    """
    if is_spark(source):
        from dpxplain.engines.spark import place_of

        first, *others = parts.values()
        named = [(source, first), *((part.table.source or "", part) for part in others)]
        return [(place_of(at, part.table.name), source.partition("::")[0]) for at, part in named]
    from dpxplain.engines.postgres_engine import PostgresAddress

    addresses = PostgresAddress.of_all(source, parts)
    full = [a if "." in a.table else replace(a, table=f"public.{a.table}") for a in addresses]
    return [(a.place, a.conninfo.get("host"), a.conninfo.get("port")) for a in full]


def is_listed(source: str, schema: Schema, addresses: Sequence[str]) -> bool:
    """Whether a table is in one of the listed databases, reached by the same address."""
    if is_spark(source):
        return source.partition("::")[0] in addresses
    from dpxplain.engines.postgres_engine import PostgresAddress

    conninfo = PostgresAddress.of(source, schema).conninfo
    return any(PostgresAddress.of(address, schema).conninfo == conninfo for address in addresses)


SchemaSource = Schema | Mapping[str, Any] | str | Path


def refuse_swapped(source: object, schema: object) -> None:
    """Raises if the caller passed a schema in place of the data."""
    is_file = isinstance(source, str | Path) and Path(source).suffix.lower() == ".toml"
    if is_file or isinstance(source, Schema | Mapping):
        named = repr(str(source)) if is_file else "..."
        data = repr(str(schema)) if isinstance(schema, str | Path) else "DATA"
        raise BadRequest(
            "You passed a schema in place of the data. The data come first.",
            remedy=f"Write dpx.connect({data}, schema={named}). If you leave out the data, connect opens "
            "table.source from the schema.",
        )


def declared_source(schema: Schema, schema_source: SchemaSource) -> str | Path | list[Path]:
    """table.source, relative to the schema file."""
    source = schema.table.paths(folder_of(schema_source))
    if source is None:
        raise SchemaError(
            "You gave no data.", remedy="Pass a path or DataFrame, or set table.source in the schema."
        )
    return source


def folder_of(schema_source: SchemaSource) -> Path:
    """The folder that paths in a schema are relative to."""
    return Path(schema_source).parent if isinstance(schema_source, str | Path) else Path()


class OpenedTables:
    """The engine of a data set's own table and the engine of the last join, shared by all callers."""

    def __init__(
        self,
        source: object,
        schema: Schema,
        options: EngineOptions,
        tables: Mapping[str, object] = MappingProxyType({}),
        engine: Engine | None = None,
    ) -> None:
        """`tables` replace declared sources. `engine` is the data set's own, if it is open already."""
        others = private_sources(source, schema, tables)
        own = _lasting(source) if others else source  # it will be read again for each join

        def open_joined(joined: Schema, rehearsed: bool = False) -> Engine:
            # A query needs it now, so not lazily; joined rows are not cached.
            shared = EngineOptions(memory=options.memory, time_limit=options.time_limit)
            return open_engine(own, joined, shared, others, rehearsed=rehearsed)

        # A function, because `tables` may be data frames: no attribute of a result may lead to their rows.
        self._open_joined = open_joined if others else None
        self._is_elsewhere = _is_elsewhere(source)
        self._joined: Engine | None = None
        self._lock = threading.Lock()
        self.engine = engine or open_engine(own, schema, options, others)
        try:
            self.source: DataSource = combined_source(self.engine.source, source, schema, others)
            if others and not self._is_elsewhere:  # a database's tables are checked on connecting
                from dpxplain.engines.duckdb import check_tables

                check_tables({schema.table.name: own, **others}, schema)
        except BaseException:
            self.engine.close()
            raise

    def joined(self, schema: Schema, *, rehearsed: bool = False) -> Engine:
        """The engine of the joined rows that the schema declares, kept until other tables are joined.

        The previous engine is dropped, not closed: passes may still run on it, and it closes when the last of
        them ends. If the rows are joined in this process, a rehearsal has an engine of its own.
        """
        if rehearsed and not self._is_elsewhere:
            assert self._open_joined is not None
            return self._open_joined(schema, True)
        with self._lock:
            if self._joined is None or self._joined.schema.joined != schema.joined:
                self._joined = None  # frees its memory for the next one
                self._joined = self._open(schema)
            return self._joined

    def close(self) -> None:
        """Closes the engine of joined tables; the data set's own engine is closed by its holder."""
        with self._lock:
            engine, self._joined = self._joined, None
        if engine is not None:
            engine.close()

    def _open(self, schema: Schema) -> Engine:
        assert self._open_joined is not None, "joins are planned of declared private tables only"
        engine = self._open_joined(schema)
        try:
            if isinstance(self.source, PrivateSources):
                self.source.check_same(engine, schema.table.name)
        except BaseException:
            engine.close()
            raise
        return engine


# -- Catalogs ----------------------------------------------------------------------------------------------
#
# Reads the columns of a table from a database's catalog: names and types, never a value of a row.

_TYPE_KINDS = {
    "numbers": r"(small|big|tiny)?int(eger)?\b|short|long|byte|numeric|decimal|real|double|float",
    "text": r"text|string|character|varchar|char|citext|uuid|bpchar|name\b|USER-DEFINED",
    "true or false": r"bool",
    "dates": r"date|timestamp",
}
_WHOLE_TYPES = re.compile(r"(small|big|tiny)?int(eger)?\b|short|long|byte", re.IGNORECASE)
_SYSTEM = ("pg_catalog", "information_schema")
_LISTED = 20  # tables of a database in a refusal


@dataclass(frozen=True)
class CatalogColumn:
    """One column: the kind of values that its type holds, or the type's name if it cannot be declared."""

    name: str
    type_name: str
    nullable: bool = True

    @property
    def kind(self) -> str:
        name = self.type_name.strip()
        kinds = (kind for kind, types in _TYPE_KINDS.items() if re.match(types, name, re.IGNORECASE))
        return next(kinds, self.type_name)

    @property
    def is_whole(self) -> bool:
        return _WHOLE_TYPES.match(self.type_name.strip()) is not None


@dataclass(frozen=True)
class CatalogTable:
    """A table and where it is, without secrets."""

    name: str
    source: str
    columns: tuple[CatalogColumn, ...]


def read_catalog(source: str) -> tuple[CatalogTable, str]:
    """The table at an address, and the catalog that describes it, in words."""
    if is_spark(source):
        return spark_table(source), "the catalog of Spark"
    return postgres_catalog(source), "the catalog of a PostgreSQL database"


def spark_table(source: str) -> CatalogTable:
    """The table of `sc://host:15002::database.table` or `spark://host:7077::table`. Reads no row."""
    from dpxplain.engines.spark import open_spark

    if holds_password(source):
        raise SourceError(
            "The address must not contain a token.",
            remedy="Remove the token: the address will be stored in the schema, which is public.",
        )
    _, _, table = source.partition("::")
    if not table:
        raise SourceError("The address names no table.", remedy=f"Write {source}::database.table.")
    with closing(open_spark(source, table)) as opened:
        return spark_catalog(opened.fields, table.rpartition(".")[2], source)


def postgres_catalog(source: str) -> CatalogTable:
    """The table of `postgresql://user@host/database::schema.table`, from information_schema alone."""
    from dpxplain.engines.postgres_engine import address_and_table, catalog_connection

    if holds_password(source):
        raise SourceError(
            "The address must not contain a password.",
            remedy="Remove it, and set PGPASSWORD or PGPASSFILE, or use a service file.",
        )
    address, table_name = address_and_table(source.removesuffix("::"))
    with catalog_connection(address) as connection:
        tables = connection.execute(
            "SELECT table_schema, table_name FROM information_schema.tables "
            "WHERE table_schema <> ALL(%s) ORDER BY 1, 2",
            [list(_SYSTEM)],
        ).fetchall()
        schema, table = _chosen_table([(str(a), str(b)) for a, b in tables], table_name)
        rows = connection.execute(
            "SELECT column_name, data_type, is_nullable FROM information_schema.columns "
            "WHERE table_schema = %s AND table_name = %s ORDER BY ordinal_position",
            [schema, table],
        ).fetchall()
    columns = tuple(CatalogColumn(str(name), str(kind), nullable == "YES") for name, kind, nullable in rows)
    return CatalogTable(table, f"{address}::{schema}.{table}", columns)


def spark_catalog(fields: Iterable[Any], name: str, source: str = "") -> CatalogTable:
    """The table of a Spark DataFrame's `.schema.fields`; uses only names, types and nullability."""
    columns = tuple(
        CatalogColumn(str(part.name), str(part.dataType.simpleString()), bool(part.nullable))
        for part in fields
    )
    return CatalogTable(name, source, columns)


def _chosen_table(tables: list[tuple[str, str]], table_name: str) -> tuple[str, str]:
    matching = [pair for pair in tables if table_name in (pair[1], ".".join(pair))] if table_name else tables
    if len(matching) == 1:
        return matching[0]
    problem = (
        f"There is no single table {table_name}." if table_name else f"The database has {len(tables)} tables."
    )
    names = ", ".join(map(".".join, tables[:_LISTED])) + (" and more" if len(tables) > _LISTED else "")
    raise SourceError(
        problem, remedy=f"Name one as address::schema.table. The tables are: {names or 'none'}."
    )


# -- Public tables -----------------------------------------------------------------------------------------
#
# Reads a schema's public dimension tables. Their values are public, so types may be inferred from them.

LARGEST_PUBLIC_TABLE = 100_000  # rows
_WHOLE_NUMBER = re.compile(r"-?(0|[1-9]\d{0,17})")  # 007 is a code, not a number
_NUMBER = re.compile(r"[+-]?((0|[1-9]\d*)(\.\d*)?|\.\d+)([eE][+-]?\d+)?")


def with_public_tables(
    schema: Schema, folder: Path, replacements: Mapping[str, object] | None = None
) -> Schema:
    """The schema with the columns of its public tables. `replacements` are used in place of declared sources.

    A table whose key column must still be discovered is read after the discovery. The returned schema looks
    for the files of private tables in `folder`.
    """
    unknown = [name for name in replacements or {} if name not in {**schema.tables, **schema.private}]
    if unknown:
        raise SchemaError(
            f"The schema does not declare a table {unknown[0]!r}.",
            remedy=f'Add [tables.{unknown[0]}] with key = "..." and public = true.',
        )
    schema = schema.with_private_in(folder)
    ready = [name for name in schema.unread_tables if not schema.awaited_by(name)]
    if not ready:
        return schema
    return schema.with_public({name: _rows(schema, name, folder, replacements or {}) for name in ready})


def _rows(schema: Schema, name: str, folder: Path, replacements: Mapping[str, object]) -> PublicRows:
    from dpxplain.engines.duckdb_source import open_connection, open_source

    table, source = schema.tables[name], replacements.get(name)
    if source is None:
        if table.source is None:
            raise _missing_source(name)
        source = folder / table.source
    unreadable = SourceError(
        f"The public table {name} could not be read completely.", remedy="Is the file damaged?"
    )
    with closing(open_connection()) as connection, quiet(unreadable):
        opened = open_source(connection, source, name)
        opened.check_rows()
        rows = opened.relation.limit(LARGEST_PUBLIC_TABLE + 1).to_arrow_table()
        if rows.num_rows > LARGEST_PUBLIC_TABLE:
            raise SchemaError(
                f"tables.{name}: has more than {LARGEST_PUBLIC_TABLE:,} rows.",
                remedy="Use a smaller table that has only the declared keys.",
            )
        return {
            column: _typed(rows.column(column).to_pylist(), column in opened.untyped and column != table.key)
            for column in rows.column_names
        }


def _typed(values: list[Any], is_text: bool) -> list[Any]:
    """Values in the types of expressions. Texts that are all numbers, dates or true/false are converted."""
    plain = [_plain(value) for value in values]
    if not is_text:
        return plain
    texts = [value for value in plain if value is not None]
    for parse in (_whole, _number, _boolean, _date):
        if texts and all(parse(text) is not None for text in texts):
            return [None if value is None else parse(value) for value in plain]
    return plain


def _plain(value: Any) -> Any:
    if isinstance(value, Decimal):
        value = float(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, datetime) and value.tzinfo is not None:
        return value.isoformat()
    is_known = value is None or isinstance(value, str | bool | int | date)
    return value if is_known else str(value)


def _whole(text: str) -> int | None:
    return int(text) if _WHOLE_NUMBER.fullmatch(text) else None


def _number(text: str) -> float | None:
    number = float(text) if _NUMBER.fullmatch(text) else math.nan
    return number if math.isfinite(number) else None


def _boolean(text: str) -> bool | None:
    return {"true": True, "false": False}.get(text.lower())


def _date(text: str) -> date | None:
    dates = read_dates([text])
    return None if dates is None else dates[0]
