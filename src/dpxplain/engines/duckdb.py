"""The embedded engine: DuckDB over files, its own databases, DataFrames or Arrow tables.

Opening encodes the declared columns once, so that every later pass groups small integers. A source that is
larger than memory may instead be encoded in every pass, while it is read (engines/encoded_tables.py).
DuckDB's errors can quote values, so none of their text is passed on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from copy import copy
from pathlib import Path
from typing import Any, TypeVar

import duckdb

from dpxplain.engines.duckdb_dialect import DuckDBDialect
from dpxplain.engines.duckdb_passes import DuckDBPasses
from dpxplain.engines.duckdb_source import (
    OpenedSource,
    lasting,
    open_connection,
    open_source,
    quiet,
    trust_statistics,
)
from dpxplain.engines.encoded_tables import (
    EncodedFile,
    create_tables,
    discard,
    load_tables,
    spill_folder,
    storage_place,
    temporary_folder,
    too_large,
)
from dpxplain.engines.encoding import Encoding, Rows, check_columns
from dpxplain.engines.engine import Recognised
from dpxplain.engines.fit_sql import fit_counts, value_counts
from dpxplain.engines.memory_table import TableSource, table_digest
from dpxplain.engines.source_kinds import local_files
from dpxplain.engines.source_state import FileSource
from dpxplain.errors import DataChanged, SourceError
from dpxplain.model.cancellation import interruptible
from dpxplain.model.confidential import Confidential, ContentDigest, sealed
from dpxplain.model.grouped_pass import AnyGrouped
from dpxplain.model.query import Query
from dpxplain.model.schema import Schema
from dpxplain.model.schema_fit import FitCounts, FitQuestion
from dpxplain.model.unknown_column import ValueCounts
from dpxplain.sql.encoded_names import CONDENSED

T = TypeVar("T")


class DuckDBEngine(DuckDBPasses):
    """One data set, encoded in memory, in a file, or in every pass.

    >>> import pyarrow as pa
    >>> schema = Schema.load({"table": {"name": "t"}, "privacy": {"rho": 1},
    ...                       "columns": {"sex": {"values": ["F", "M"]}}})
    >>> DuckDBEngine(pa.table({"sex": ["F", "M", "?"]}), schema)
    <DuckDBEngine t>
    """

    def __init__(
        self,
        source: object,
        schema: Schema,
        *,
        memory: str | None = None,
        cache: Path | None = None,
        recognised: Recognised = lambda _state: False,
    ) -> None:
        """`memory`, such as "2GB", limits the encoded table and all passes together.

        `cache` is the folder for the encoded rows of files, if the schema allows writing them.
        Files that are `recognised` by their state are not digested.
        """
        super().__init__()
        source = lasting(source)
        self.schema = schema
        self._source, self._memory = Confidential(source), memory
        files = local_files(source)
        self.source: FileSource | TableSource = TableSource(source) if files is None else FileSource(files)
        self._folder = cache or temporary_folder()
        self._place = storage_place(schema, self.source, memory)
        self._closing = ExitStack()
        try:
            self._connection = self._closing.enter_context(self._connect())
            self._open(source, cache, recognised)
        except BaseException:
            self._closing.close()
            raise

    def __repr__(self) -> str:
        return f"<DuckDBEngine {self.schema.table.name}>"

    def close(self) -> None:
        self._closing.close()

    def shared(self) -> DuckDBEngine:
        """Another engine over the same encoded rows. Closing it leaves them open for the others."""
        engine = copy(self)
        engine._closing = ExitStack()
        return engine

    def grouped(
        self, query: Query, subsets: tuple[tuple[str, ...], ...], *, rehearsed: bool = False
    ) -> Confidential[AnyGrouped]:
        if rehearsed:
            return Confidential(self._rehearse(query, subsets))
        if self._streamed is None or not isinstance(self.source, FileSource):
            return Confidential(self._scan(query, subsets))
        # Files may change between two passes or during one. Their states before and after the pass show it.
        before = self.source.verified()
        cells = failure = None
        if before is not None:
            try:
                cells = Confidential(self._scan(query, subsets))
            except Exception as error:  # from a sealed function, so it says nothing about the data
                failure = error
        if before is None or self.source.verified() != before:
            raise DataChanged.of(self.schema.table.name, charged=True)
        if cells is None:
            assert failure is not None
            raise failure
        return cells

    def fit(self, asked: FitQuestion, *, rehearsed: bool = False) -> Confidential[FitCounts]:
        return self._read_again(lambda source: self._fit(source, asked, rehearsed), rehearsed)

    def value_counts(
        self, column: str, longest: int, *, rehearsed: bool = False
    ) -> Confidential[ValueCounts]:
        return self._read_again(
            lambda source: self._value_counts(source, column, longest, rehearsed), rehearsed
        )

    def _read_again(self, count: Callable[[object], T], rehearsed: bool) -> Confidential[T]:
        """Counts in the source, not the encoded rows. Raises if the source changed since it was encoded."""
        if rehearsed:
            return self._source.map(count)
        is_same = False

        def count_and_compare(source: object) -> T:
            nonlocal is_same
            counts = count(source)
            is_same = self.source.holds_same(source, self._digest)
            return counts

        counts = self._source.map(count_and_compare)
        if not is_same:
            raise DataChanged.of(self.schema.table.name, charged=True)
        return counts

    def _digest(self, table: object) -> ContentDigest:
        with closing(open_connection(self._memory)) as connection:
            opened = open_source(connection, table, self.schema.table.name)
            return table_digest(opened.relation.to_arrow_reader())

    def _fit(self, source: object, asked: FitQuestion, rehearsed: bool) -> FitCounts:
        """Reads the source again: in encoded rows, a clamped value looks like one at its bound."""
        with self._connect() as connection, interruptible(connection.interrupt):
            encoding = self._source_encoding(connection, source, rehearsed)
            return fit_counts(
                encoding, asked, lambda sql, values: connection.execute(sql, values).fetchall()[0]
            )

    @sealed
    def _value_counts(self, source: object, column: str, longest: int, rehearsed: bool) -> ValueCounts:
        with self._connect() as connection, interruptible(connection.interrupt):
            encoding = self._source_encoding(connection, source, rehearsed)
            return value_counts(
                encoding, column, longest, lambda sql, values: connection.execute(sql, values).fetchall()
            )

    def _source_encoding(
        self, connection: duckdb.DuckDBPyConnection, source: object, rehearsed: bool
    ) -> Encoding:
        """The encoding of the source. Creates the view `source`, without rows if rehearsed."""
        opened = open_source(connection, source, self.schema.table.name)
        if not rehearsed:
            opened.check_rows()
        (opened.relation.limit(0) if rehearsed else opened.relation).create_view("source")
        return Encoding(self.schema, opened.kinds, DuckDBDialect(connection))

    @contextmanager
    def _connect(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """A new database in memory. It writes rows that do not fit to disk only if their place is "file"."""
        with ExitStack() as stack:
            spill = None
            if self._place == "file":
                spill = stack.enter_context(spill_folder(self._folder, self.schema))
            yield stack.enter_context(closing(open_connection(self._memory, spill)))

    def _open(self, source: object, cache: Path | None, recognised: Recognised) -> None:
        opened = open_source(self._connection, source, self.schema.table.name)
        check_columns(self.schema, opened.kinds, opened.untyped)
        dialect = DuckDBDialect(self._connection)
        encoding = Encoding(self.schema, opened.kinds, dialect, undeclared_is_null=self._place == "stream")
        rows = encoding.all_rows()
        self._columns, values = rows.columns, encoding.parameters.values
        unreadable = SourceError(
            f"The source of {self.schema.table.name} could not be read completely.",
            remedy="Is the file damaged, or does a line have too few or too many values?",
        )
        with quiet(unreadable), self._reading(opened.relation, recognised), self._within_memory():
            if self._place == "stream":
                self._stream(opened, rows, values)
            else:
                file = self._file(source, f"{rows.sql} {values}", cache)
                self._encode(opened, (rows.sql, values), file)
            self._connection.execute("SET enable_external_access = false")

    def _reading(
        self, relation: duckdb.DuckDBPyRelation, recognised: Recognised
    ) -> AbstractContextManager[None]:
        """Digests the source while the block reads it."""
        if isinstance(self.source, FileSource):
            return self.source.reading(recognised)
        return self.source.reading(lambda: table_digest(relation.to_arrow_reader()))

    def _within_memory(self) -> AbstractContextManager[None]:
        return quiet(too_large(self.schema), duckdb.OutOfMemoryException)

    def _stream(self, opened: OpenedSource, rows: Rows, values: list[Any]) -> None:
        """Leaves the rows in the source. Reads them once, to refuse unreadable rows before any charge."""
        opened.check_rows()
        opened.relation.create_view("source")
        self._given, self._streamed, self._values = opened.given, rows.sql, values
        counted = ", ".join(f"COUNT({name})" for name in rows.columns)
        self._connection.execute(f"SELECT {counted} FROM ({rows.sql})", values).fetchall()
        self._read_unknown()
        self._connection.execute("SET allowed_paths = ?", [list(opened.files)])

    def _encode(self, opened: OpenedSource, rows: tuple[str, list[Any]], file: EncodedFile | None) -> None:
        """Encodes the rows once, or takes them from the file that an earlier session kept."""
        tables = [] if file is None else load_tables(self._connection, file, self._place)
        if not tables:
            opened.check_rows()
            opened.relation.create_view("source")
            tables = create_tables(self._connection, self.schema, rows, file, self._place)
            self._read_unknown()
            self._connection.execute("DROP VIEW source")
        trust_statistics(self._connection)
        self._condensed = CONDENSED in tables
        opened.release()

    def _read_unknown(self) -> None:
        """Reads the columns that may be discovered, so that unreadable text is refused before any charge."""
        quote = DuckDBDialect().quote
        texts = [f"COUNT(length(CAST({quote(name)} AS VARCHAR)))" for name in self.schema.unknown]
        if texts:
            self._connection.execute(f"SELECT {', '.join(texts)} FROM source").fetchall()

    def _file(self, source: object, encoding: str, cache: Path | None) -> EncodedFile | None:
        """The file for the encoded rows, if the schema allows one.

        Deletes an earlier file that the schema no longer allows.
        """
        if cache is not None and not self.schema.table.cache:
            discard(cache, self.schema)
        is_kept = self.schema.table.cache and cache is not None and isinstance(source, str | Path)
        if not is_kept and self._place != "file":
            return None
        return EncodedFile(self._folder, self.schema, encoding, str(source) if is_kept else None)
