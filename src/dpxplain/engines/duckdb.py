"""The embedded engine: DuckDB over files, its own databases, DataFrames or Arrow tables.

Opening encodes the declared columns once, so that every later pass groups small integers; a source that is
larger than memory is encoded while it is read, in every pass (engines/storage.py). Errors of DuckDB can quote
values, so none of their text is passed on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

import duckdb
import pyarrow as pa
from numpy.typing import NDArray

from dpxplain.engines.dense_counts import ROWS_AT_ONCE, DenseCounts, suits_dense
from dpxplain.engines.duckdb_dialect import DuckDBDialect
from dpxplain.engines.duckdb_source import OpenedSource, open_connection, open_source, quiet, trust_statistics
from dpxplain.engines.encoded_file import EncodedFile, discard, spill_folder, temporary_folder
from dpxplain.engines.encoded_tables import create_tables, is_condensed, load_tables
from dpxplain.engines.encoding import Encoding, Rows, check_columns
from dpxplain.engines.engine import Recognised
from dpxplain.engines.fit_sql import fit_counts, value_counts
from dpxplain.engines.grouped_rows import grouped_of
from dpxplain.engines.source_files import FileSource
from dpxplain.engines.source_kinds import local_files
from dpxplain.engines.source_table import TableSource, table_digest
from dpxplain.engines.storage import storage_place
from dpxplain.errors import DataChanged, SourceError
from dpxplain.model.cancellation import checking, interruptible
from dpxplain.model.confidential import Confidential, ContentDigest, sealed
from dpxplain.model.fit import FitCounts
from dpxplain.model.grouped import AnyGrouped, DenseGrouped, Grouped
from dpxplain.model.query import Query
from dpxplain.model.schema import Schema
from dpxplain.model.unknown_column import ValueCounts
from dpxplain.sql.encoded_names import DERIVED, ENCODED, Parameters, code_column
from dpxplain.sql.render import Rendered, expressions, fits_condensed, grouped_select, row_select

T = TypeVar("T")


class DuckDBEngine:
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
        """`memory` bounds what the encoded table and all passes take together, such as "2GB".

        `cache` is the folder for encoded rows of files, where the schema allows that they are written.
        Files that are `recognised` by their state are not digested.
        """
        if isinstance(source, pa.RecordBatchReader):  # could be read only once
            source = source.read_all()
        elif isinstance(source, duckdb.DuckDBPyRelation):  # its rows may come in another order each time
            source = source.to_arrow_table()
        self.schema = schema
        self._source, self._memory = Confidential(source), memory
        files = local_files(source)
        self.source: FileSource | TableSource = TableSource(source) if files is None else FileSource(files)
        self._folder = cache or temporary_folder()
        self._place = storage_place(schema, self.source, memory)
        self._condensed = False
        self._columns: tuple[str, ...] = ()
        self._streamed: str | None = None  # SQL of the rows, for passes over the source itself
        self._values: list[Any] = []  # the parameters of that SQL
        self._given: Any = None
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

    def grouped(self, query: Query, subsets: tuple[tuple[str, ...], ...]) -> Confidential[AnyGrouped]:
        if self._streamed is None or not isinstance(self.source, FileSource):
            return Confidential(self._scan(query, subsets))
        # The files may be changed between two passes and during one. States before and after tell, because
        # before they are those of the content that was digested, and every change shows in them.
        before = self.source.verified()
        cells = failure = None
        if before is not None:
            try:
                cells = Confidential(self._scan(query, subsets))
            except Exception as error:  # sealed: it says nothing about the data
                failure = error
        if before is None or self.source.verified() != before:
            raise DataChanged.of(self.schema.table.name, charged=True)
        if cells is None:
            assert failure is not None
            raise failure
        return cells

    def fit(self) -> Confidential[FitCounts]:
        return self._read_again(self._fit)

    def value_counts(self, column: str, longest: int) -> Confidential[ValueCounts]:
        return self._read_again(lambda source: self._value_counts(source, column, longest))

    def _read_again(self, count: Callable[[object], T]) -> Confidential[T]:
        """What is counted in the source itself, if it still holds what was encoded."""
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
            return table_digest(open_source(connection, table).relation.to_arrow_reader())

    def _fit(self, source: object) -> FitCounts:
        """Reads the source again: encoded rows do not tell a clamped value from one at its bound."""
        with self._connect() as connection, interruptible(connection.interrupt):
            opened = open_source(connection, source, self.schema.table.name)
            opened.check_rows()
            opened.relation.create_view("source")
            encoding = Encoding(self.schema, opened.kinds, DuckDBDialect(connection))
            return fit_counts(encoding, lambda sql, values: connection.execute(sql, values).fetchall()[0])

    @sealed
    def _value_counts(self, source: object, column: str, longest: int) -> ValueCounts:
        with self._connect() as connection, interruptible(connection.interrupt):
            opened = open_source(connection, source, self.schema.table.name)
            opened.check_rows()
            opened.relation.create_view("source")
            encoding = Encoding(self.schema, opened.kinds, DuckDBDialect(connection))
            return value_counts(
                encoding, column, longest, lambda sql, values: connection.execute(sql, values).fetchall()
            )

    @sealed
    def _scan(self, query: Query, subsets: tuple[tuple[str, ...], ...]) -> AnyGrouped:
        names = {*query.group_by, *(name for subset in subsets for name in subset)}
        sizes = {name: len(self.schema.domain(name)) + 1 for name in names}
        scan = self._dense_scan if suits_dense(query.group_by, subsets, sizes) else self._grouping_sets
        return scan(query, subsets, self._condensed and fits_condensed(query, self.schema))

    def _dense_scan(
        self, query: Query, subsets: tuple[tuple[str, ...], ...], condensed: bool
    ) -> DenseGrouped:
        """Reads the rows and counts them here."""
        attributes = list(dict.fromkeys(name for subset in subsets for name in subset))
        parameters = Parameters(list(self._values))
        rendered = row_select(query, self.schema, attributes, condensed=condensed, parameters=parameters)
        names = (*query.group_by, *attributes)
        sizes = {name: len(self.schema.domain(name)) + 1 for name in names}
        counts = DenseCounts(query.group_by, subsets, sizes, has_total=query.aggregate.kind != "count")
        with self._cursor() as cursor:
            sql = self._statement(rendered, query)
            reader = cursor.sql(sql, params=parameters.values).to_arrow_reader(ROWS_AT_ONCE)
            # No row is counted like one: otherwise the time would tell whether a filter admits any.
            nothing = pa.RecordBatch.from_pylist([], schema=reader.schema)
            for batch in checking(chain([next(reader, nothing)], reader)):
                columns = {name: _numbers(batch[name]) for name in batch.schema.names}
                codes = {name: columns[code_column(self.schema, name)] for name in names}
                counts.add(codes, columns["count"], columns.get("total"))
        return counts.grouped()

    def _grouping_sets(self, query: Query, subsets: tuple[tuple[str, ...], ...], condensed: bool) -> Grouped:
        """Lets the database count."""
        parameters = Parameters(list(self._values))
        rendered = grouped_select(query, self.schema, subsets, condensed=condensed, parameters=parameters)
        with self._cursor() as cursor:
            rows = cursor.execute(self._statement(rendered, query), parameters.values).fetchnumpy()
        return grouped_of(rows, query, self.schema, subsets)

    def _statement(self, rendered: Rendered, query: Query) -> str:
        """SQL with the rows that it reads, where those are not in a table."""
        dialect, names = DuckDBDialect(), expressions(query, self.schema)
        tables = [] if self._streamed is None else [f"{ENCODED} AS NOT MATERIALIZED ({self._streamed})"]
        if names:
            encoding = Encoding(self.schema, {}, dialect, parameters=rendered.parameters)
            rows = encoding.with_derived(names, Rows(f"SELECT * FROM {ENCODED}", self._columns))
            tables.append(f"{DERIVED} AS NOT MATERIALIZED ({rows.sql})")
        sql = rendered.sql(dialect.name, dialect.placeholder)
        return f"WITH {', '.join(tables)} {sql}" if tables else sql

    @contextmanager
    def _connect(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """A database of its own; rows that do not fit into memory are written to disk only where allowed."""
        with ExitStack() as stack:
            spill = None
            if self._place == "file":
                spill = stack.enter_context(spill_folder(self._folder, self.schema))
            yield stack.enter_context(closing(open_connection(self._memory, spill)))

    @contextmanager
    def _cursor(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """For one pass: a connection serves one thread at a time."""
        cursor = self._connection.cursor()
        with closing(cursor), interruptible(cursor.interrupt):
            if self._given is not None:
                cursor.register("given", self._given)
            yield cursor

    def _open(self, source: object, cache: Path | None, recognised: Recognised) -> None:
        opened = open_source(self._connection, source, self.schema.table.name)
        check_columns(self.schema, opened.kinds, opened.untyped)
        dialect = DuckDBDialect(self._connection)
        encoding = Encoding(self.schema, opened.kinds, dialect, undeclared_is_null=self._place == "stream")
        rows = encoding.all_rows()
        self._columns, values = rows.columns, encoding.parameters.values
        unreadable = SourceError(
            f"The source of {self.schema.table.name} could not be read to its end.",
            remedy="Is it damaged, or does a line of it have too few or too many values?",
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
        places = '"file"' if self.schema.privacy.unit != "row" else '"stream" or "file"'
        full = SourceError(
            f"The encoded rows of {self.schema.table.name} need more memory than the limit allows.",
            remedy=f"Raise the limit, or say storage = {places} in the schema's [table].",
        )
        return quiet(full, duckdb.OutOfMemoryException)

    def _stream(self, opened: OpenedSource, rows: Rows, values: list[Any]) -> None:
        """Leaves the rows where they are; reads them once, to refuse what is unreadable before any charge."""
        opened.check_rows()
        opened.relation.create_view("source")
        self._given, self._streamed, self._values = opened.given, rows.sql, values
        counted = ", ".join(f"COUNT({name})" for name in rows.columns)
        self._connection.execute(f"SELECT {counted} FROM ({rows.sql})", values).fetchall()
        self._read_unknown()
        self._connection.execute("SET allowed_paths = ?", [list(opened.files)])

    def _encode(self, opened: OpenedSource, rows: tuple[str, list[Any]], file: EncodedFile | None) -> None:
        """Encodes the rows once, or takes them from the file that an earlier session kept."""
        if file is None or not load_tables(self._connection, file, self._place):
            opened.check_rows()
            opened.relation.create_view("source")
            create_tables(self._connection, self.schema, rows, file, self._place)
            self._read_unknown()
            self._connection.execute("DROP VIEW source")
        trust_statistics(self._connection)
        self._condensed = is_condensed(self._connection)
        opened.release()

    def _read_unknown(self) -> None:
        """Reads the columns that may be discovered: what is unreadable is refused here, before any charge."""
        quote = DuckDBDialect().quote
        texts = [f"COUNT(length(CAST({quote(name)} AS VARCHAR)))" for name in self.schema.unknown]
        if texts:
            self._connection.execute(f"SELECT {', '.join(texts)} FROM source").fetchall()

    def _file(self, source: object, encoding: str, cache: Path | None) -> EncodedFile | None:
        """The file of the encoded rows, if there is to be one; one that is allowed no more is deleted."""
        if cache is not None and not self.schema.table.cache:
            discard(cache, self.schema)
        is_kept = self.schema.table.cache and cache is not None and isinstance(source, str | Path)
        if not is_kept and self._place != "file":
            return None
        return EncodedFile(self._folder, self.schema, encoding, str(source) if is_kept else None)


def _numbers(column: pa.Array[Any]) -> NDArray[Any]:
    """The codes of a batch; what a streamed pass has as NULL is 0."""
    filled = column.fill_null(0) if column.null_count else column
    numbers: NDArray[Any] = filled.to_numpy()
    return numbers
