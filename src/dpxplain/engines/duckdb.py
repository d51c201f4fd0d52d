"""The embedded engine: DuckDB over files, its own databases, DataFrames or Arrow tables.

Opening encodes the declared columns once, so that every later pass groups small integers. Errors of
DuckDB can quote values, so none of their text is passed on.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, closing
from itertools import chain
from pathlib import Path
from typing import TypeVar

import duckdb
import pyarrow as pa

from dpxplain.engines.dense_counts import ROWS_AT_ONCE, DenseCounts, suits_dense
from dpxplain.engines.duckdb_dialect import DuckDBDialect
from dpxplain.engines.duckdb_source import open_connection, open_source, quiet
from dpxplain.engines.encoded_cache import EncodedCache, cache_file, discard
from dpxplain.engines.encoding import Encoding, Rows, check_columns
from dpxplain.engines.engine import Recognised
from dpxplain.engines.fit_sql import fit_counts, value_counts
from dpxplain.engines.grouped_rows import grouped_of
from dpxplain.engines.source_files import FileSource
from dpxplain.engines.source_kinds import is_path
from dpxplain.engines.source_table import TableSource, table_digest
from dpxplain.errors import DataChanged, SourceError
from dpxplain.model.cancellation import checking, interruptible
from dpxplain.model.confidential import Confidential, ContentDigest, sealed
from dpxplain.model.fit import FitCounts
from dpxplain.model.grouped import AnyGrouped, DenseGrouped, Grouped
from dpxplain.model.query import Query
from dpxplain.model.schema import Schema
from dpxplain.model.unknown_column import ValueCounts
from dpxplain.sql.encoded_names import code_column
from dpxplain.sql.render import (
    CONDENSED,
    DERIVED,
    ENCODED,
    Parameters,
    Rendered,
    condensed_columns,
    expressions,
    fits_condensed,
    grouped_select,
    row_select,
)

T = TypeVar("T")


class DuckDBEngine:
    """One data set, encoded in memory.

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

        `cache` is the folder for encoded tables of files, where the schema allows that they are kept.
        Files that are `recognised` by their state are not digested.
        """
        if isinstance(source, pa.RecordBatchReader):  # could be read only once
            source = source.read_all()
        elif isinstance(source, duckdb.DuckDBPyRelation):  # its rows may come in another order each time
            source = source.to_arrow_table()
        self.schema = schema
        self._source, self._memory = Confidential(source), memory
        self.source: FileSource | TableSource = (
            FileSource(source) if is_path(source) else TableSource(source)  # type: ignore[arg-type]
        )
        self._connection = open_connection(memory)
        self._condensed = False
        self._columns: tuple[str, ...] = ()
        try:
            self._encode(source, cache, recognised)
        except BaseException:
            self._connection.close()
            raise

    def __repr__(self) -> str:
        return f"<DuckDBEngine {self.schema.table.name}>"

    def close(self) -> None:
        self._connection.close()

    def grouped(self, query: Query, subsets: tuple[tuple[str, ...], ...]) -> Confidential[AnyGrouped]:
        return Confidential(self._scan(query, subsets))

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
        connection = open_connection(self._memory)
        with closing(connection), interruptible(connection.interrupt):
            opened = open_source(connection, source, self.schema.table.name)
            opened.check_rows()
            opened.relation.create_view("source")
            encoding = Encoding(self.schema, opened.kinds, DuckDBDialect(connection))
            return fit_counts(encoding, lambda sql, values: connection.execute(sql, values).fetchall()[0])

    @sealed
    def _value_counts(self, source: object, column: str, longest: int) -> ValueCounts:
        connection = open_connection(self._memory)
        with closing(connection), interruptible(connection.interrupt):
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
        parameters = Parameters()
        rendered = row_select(query, self.schema, attributes, condensed=condensed, parameters=parameters)
        names = (*query.group_by, *attributes)
        sizes = {name: len(self.schema.domain(name)) + 1 for name in names}
        counts = DenseCounts(query.group_by, subsets, sizes, has_total=query.aggregate.kind != "count")
        cursor = self._connection.cursor()  # a connection serves one thread at a time
        with closing(cursor), interruptible(cursor.interrupt):
            sql = self._statement(rendered, query)
            reader = cursor.sql(sql, params=parameters.values).to_arrow_reader(ROWS_AT_ONCE)
            # No row is counted like one: otherwise the time would tell whether a filter admits any.
            nothing = pa.RecordBatch.from_pylist([], schema=reader.schema)
            for batch in checking(chain([next(reader, nothing)], reader)):
                columns = {name: batch[name].to_numpy() for name in batch.schema.names}
                codes = {name: columns[code_column(self.schema, name)] for name in names}
                counts.add(codes, columns["count"], columns.get("total"))
        return counts.grouped()

    def _grouping_sets(self, query: Query, subsets: tuple[tuple[str, ...], ...], condensed: bool) -> Grouped:
        """Lets the database count."""
        rendered = grouped_select(query, self.schema, subsets, condensed=condensed)
        cursor = self._connection.cursor()  # a connection serves one thread at a time
        with closing(cursor), interruptible(cursor.interrupt):
            rows = cursor.execute(self._statement(rendered, query), rendered.parameters.values).fetchnumpy()
        return grouped_of(rows, query, self.schema, subsets)

    def _statement(self, rendered: Rendered, query: Query) -> str:
        """SQL with the columns of the query's own expressions added to the table's rows."""
        dialect, names = DuckDBDialect(), expressions(query, self.schema)
        encoding = Encoding(self.schema, {}, dialect, parameters=rendered.parameters)
        rows = encoding.with_derived(names, Rows(f"SELECT * FROM {ENCODED}", self._columns))
        sql = rendered.sql(dialect.name, dialect.placeholder)
        return f"WITH {DERIVED} AS NOT MATERIALIZED ({rows.sql}) {sql}" if names else sql

    def _encode(self, source: object, cache_folder: Path | None, recognised: Recognised) -> None:
        opened = open_source(self._connection, source, self.schema.table.name)
        check_columns(self.schema, opened.kinds, opened.untyped)
        encoding = Encoding(self.schema, opened.kinds, DuckDBDialect(self._connection))
        encoded = encoding.all_rows()
        rows, parameters, self._columns = encoded.sql, encoding.parameters.values, encoded.columns
        unreadable = SourceError(
            f"The source of {self.schema.table.name} could not be read to its end.",
            remedy="Is it damaged, or does a line of it have too few or too many values?",
        )
        with quiet(unreadable), self._reading(opened.relation, recognised):
            cache = self._cache(source, f"{rows} {parameters}", cache_folder)
            if cache is None or not cache.load(self._connection):
                identity = None if cache is None else cache.identity()
                opened.check_rows()
                opened.relation.create_view("source")
                self._connection.execute(f"CREATE TABLE {ENCODED} AS {rows}", parameters)
                self._connection.execute("DROP VIEW source")
                if cache is not None:
                    cache.store(self._connection, identity)
            opened.release()
            self._condensed = self._condense()
            self._connection.execute("SET enable_external_access = false")

    def _reading(
        self, relation: duckdb.DuckDBPyRelation, recognised: Recognised
    ) -> AbstractContextManager[None]:
        """Digests the source while the block reads it."""
        if isinstance(self.source, FileSource):
            return self.source.reading(recognised)
        return self.source.reading(lambda: table_digest(relation.to_arrow_reader()))

    def _cache(self, source: object, rows: str, folder: Path | None) -> EncodedCache | None:
        """The cache of a file's encoded table; what an earlier declaration allowed to be kept is deleted."""
        if folder is None:
            return None
        file = cache_file(folder, self.schema)
        if not self.schema.table.cache:
            discard(file)
            return None
        is_file = isinstance(source, str | Path)
        return EncodedCache(file, str(source), self.schema, rows) if is_file else None

    def _condense(self) -> bool:
        """Adds a table of distinct code combinations if that makes passes much shorter; changes no result."""
        codes, counts = condensed_columns(self.schema)
        if not codes:
            return False
        keys = ", ".join(codes)
        rows, distinct = self._connection.execute(
            f"SELECT COUNT(*), approx_count_distinct(hash({keys})) FROM {ENCODED}"
        ).fetchall()[0]
        if distinct * 3 > rows:
            return False
        further = ", ".join(f"{expression} AS {name}" for name, expression in counts.items())
        self._connection.execute(
            f"CREATE TABLE {CONDENSED} AS SELECT {keys}, {further} FROM {ENCODED} GROUP BY {keys}"
        )
        return True
