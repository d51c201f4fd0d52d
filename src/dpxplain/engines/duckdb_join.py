"""Private tables joined by the person's id in DuckDB: files, DataFrames and Arrow tables in any mixture.

Each table is encoded and cut to its own max_rows in memory, one after the other; then they are joined.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, closing, nullcontext
from typing import Any

import duckdb

from dpxplain.engines.dialect import Kind
from dpxplain.engines.duckdb_dialect import DuckDBDialect
from dpxplain.engines.duckdb_passes import DuckDBPasses
from dpxplain.engines.duckdb_source import OpenedSource, open_connection, open_source, quiet, trust_statistics
from dpxplain.engines.encoded_tables import create_tables
from dpxplain.engines.encoding import Encoding, Rows, check_columns
from dpxplain.engines.memory_table import TableSource, table_digest
from dpxplain.engines.private_join import check_units, joined_rows
from dpxplain.engines.source_kinds import local_files
from dpxplain.engines.source_state import FileSource, PrivateSources
from dpxplain.errors import InternalError, SourceError
from dpxplain.model.cancellation import check_stop, interruptible
from dpxplain.model.confidential import Confidential
from dpxplain.model.grouped_pass import AnyGrouped
from dpxplain.model.joined_schema import all_parts, parts
from dpxplain.model.query import Query
from dpxplain.model.schema import Schema
from dpxplain.model.schema_fit import FitCounts, FitQuestion
from dpxplain.model.unknown_column import ValueCounts
from dpxplain.sql.encoded_names import CONDENSED


class DuckDBJoinEngine(DuckDBPasses):
    """The joined rows of several tables, encoded in memory."""

    def __init__(
        self,
        sources: Mapping[str, object],
        schema: Schema,
        *,
        memory: str | None = None,
        rehearsed: bool = False,
    ) -> None:
        """`sources` maps each table's name to its source, including the data set's own table.

        A rehearsed engine joins the tables without their rows.
        """
        super().__init__()
        self.schema = schema
        self._has_rows = not rehearsed
        self._connection = open_connection(memory)
        self._dialect = DuckDBDialect(self._connection)
        try:
            with interruptible(self._connection.interrupt):
                self._open(sources)
        except BaseException as error:
            self._connection.close()
            if isinstance(error, SourceError):
                check_stop()  # the error may come from a request to stop
            raise

    def __repr__(self) -> str:
        return f"<DuckDBJoinEngine {self.schema.table.name}, {', '.join(self.schema.joined)}>"

    def close(self) -> None:
        self._connection.close()

    def grouped(
        self, query: Query, subsets: tuple[tuple[str, ...], ...], *, rehearsed: bool = False
    ) -> Confidential[AnyGrouped]:
        scan = self._rehearse if rehearsed and self._has_rows else self._scan
        return Confidential(scan(query, subsets))

    def fit(self, asked: FitQuestion, *, rehearsed: bool = False) -> Confidential[FitCounts]:
        raise InternalError("The data quality of joined tables cannot be measured.")

    def value_counts(
        self, column: str, longest: int, *, rehearsed: bool = False
    ) -> Confidential[ValueCounts]:
        raise InternalError("Values cannot be discovered in joined tables.")

    def _open(self, sources: Mapping[str, object]) -> None:
        read: dict[str, FileSource | TableSource] = {}
        kinds: dict[str, Mapping[str, Kind]] = {}
        tables = []
        for number, (name, part) in enumerate(parts(self.schema).items()):
            read[name] = source = source_of(sources[name])
            opened = open_source(self._connection, sources[name], name)
            check_columns(part, opened.kinds, opened.untyped)
            kinds[name] = opened.kinds
            digesting = reading(source, opened) if self._has_rows else nullcontext()
            with quiet(_unreadable(name)), self._within_memory(), digesting:
                tables.append(self._encode(part, opened, f"part_{number}"))
            opened.release()
            if opened.given is not None:
                self._connection.unregister("given")
        check_units(parts(self.schema), kinds)
        self.source = PrivateSources(read)
        failed = SourceError("The tables could not be joined.", remedy="Ask the curator.")
        with quiet(failed), self._within_memory():
            self._join(tables)
        self._connection.execute("SET enable_external_access = false")

    def _encode(self, part: Schema, opened: OpenedSource, table: str) -> Rows:
        """Encodes one table, cut to its max_rows."""
        encoding = Encoding(part, opened.kinds, self._dialect, keeps_unit=True)
        rows = encoding.rows()
        if self._has_rows:
            opened.check_rows()
        (opened.relation if self._has_rows else opened.relation.limit(0)).create_view("source", replace=True)
        self._connection.execute(f"CREATE TABLE {table} AS {rows.sql}", encoding.parameters.values)
        self._connection.execute("DROP VIEW source")
        return Rows(f"SELECT * FROM {table}", rows.columns)

    def _join(self, tables: list[Rows]) -> None:
        encoding = Encoding(self.schema, {}, self._dialect)
        rows = joined_rows(self.schema, tables, encoding)
        self._columns = rows.columns
        encoded = (rows.sql, encoding.parameters.values)
        created = create_tables(self._connection, self.schema, encoded, None, "memory")
        for number in range(len(tables)):
            self._connection.execute(f"DROP TABLE part_{number}")
        trust_statistics(self._connection)
        self._condensed = CONDENSED in created

    def _within_memory(self) -> AbstractContextManager[None]:
        full = SourceError(
            "The joined rows need more memory than allowed.",
            remedy="Raise the memory limit, or lower max_rows of the joined tables.",
        )
        return quiet(full, duckdb.OutOfMemoryException)


def check_tables(sources: Mapping[str, object], schema: Schema) -> None:
    """Refuses tables that cannot be joined, by the names and types of their columns.

    Reads the rows of the other tables once, so that unreadable rows are refused before any charge. The data
    set's own rows were read when it was opened.
    """
    kinds: dict[str, Mapping[str, Kind]] = {}
    for name, part in all_parts(schema).items():
        with closing(open_connection()) as connection:
            opened = open_source(connection, sources[name], name)
            check_columns(part, opened.kinds, opened.untyped)
            kinds[name] = opened.kinds
            if name != schema.table.name:
                with quiet(_unreadable(name)):
                    _read_once(connection, part, opened)
    check_units(all_parts(schema), kinds)


def _read_once(connection: duckdb.DuckDBPyConnection, part: Schema, opened: OpenedSource) -> None:
    encoding = Encoding(part, opened.kinds, DuckDBDialect(connection), keeps_unit=True)
    rows = encoding.rows()
    opened.check_rows()
    opened.relation.create_view("source")
    counted = ", ".join(f"COUNT({name})" for name in rows.columns)
    connection.execute(f"SELECT {counted} FROM ({rows.sql})", encoding.parameters.values).fetchall()


def source_of(source: object) -> FileSource | TableSource:
    """The object that can tell whether a source has changed since it was read."""
    files = local_files(source)
    return TableSource(source) if files is None else FileSource(files)


def reading(source: FileSource | TableSource, opened: OpenedSource) -> AbstractContextManager[None]:
    """Digests the source while the block reads it."""
    if isinstance(source, FileSource):
        return source.reading(lambda _state: False)
    return source.reading(lambda: table_digest(opened.relation.to_arrow_reader()))


def digested_source(source: Any, table: str) -> FileSource | TableSource:
    """The description of a source that was not encoded: its files, or the table with its present digest."""
    described = source_of(source)
    if isinstance(described, TableSource):
        with (
            closing(open_connection()) as connection,
            quiet(_unreadable(table)),
            reading(described, open_source(connection, source, table)),
        ):
            pass
    return described


def _unreadable(name: str) -> SourceError:
    return SourceError(
        f"The source of {name} could not be read completely.",
        remedy="Is the file damaged, or does a line have too few or too many values?",
    )
