"""Grouped passes over the encoded rows of a DuckDB connection, wherever these rows are."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from itertools import chain
from typing import Any

import duckdb
import pyarrow as pa
from numpy.typing import NDArray

from dpxplain.engines.dense_counts import ROWS_AT_ONCE, DenseCounts, suits_dense
from dpxplain.engines.duckdb_dialect import DuckDBDialect
from dpxplain.engines.encoding import Encoding, Rows
from dpxplain.engines.grouped_rows import grouped_of
from dpxplain.model.cancellation import checking, interruptible
from dpxplain.model.confidential import sealed
from dpxplain.model.grouped import AnyGrouped, DenseGrouped, Grouped
from dpxplain.model.query import Query
from dpxplain.model.schema import Schema
from dpxplain.sql.encoded_names import DERIVED, ENCODED, Parameters, code_column
from dpxplain.sql.render import Rendered, expressions, fits_condensed, grouped_select, row_select


class DuckDBPasses:
    """Encoded rows, and how they are counted."""

    schema: Schema
    _connection: duckdb.DuckDBPyConnection
    _columns: tuple[str, ...] = ()
    _condensed: bool = False
    _streamed: str | None = None  # SQL of the rows, for passes over the source itself
    _given: Any = None  # what that SQL reads, if it is in memory

    def __init__(self) -> None:
        self._values: list[Any] = []  # the parameters of that SQL

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
    def _cursor(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """For one pass: a connection serves one thread at a time."""
        cursor = self._connection.cursor()
        with closing(cursor), interruptible(cursor.interrupt):
            if self._given is not None:
                cursor.register("given", self._given)
            yield cursor


def _numbers(column: pa.Array[Any]) -> NDArray[Any]:
    """The codes of a batch; what a streamed pass has as NULL is 0."""
    filled = column.fill_null(0) if column.null_count else column
    numbers: NDArray[Any] = filled.to_numpy()
    return numbers
