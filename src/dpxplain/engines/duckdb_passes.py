"""Grouped passes over the encoded rows of a DuckDB connection, wherever these rows are stored.

Many small groupings are counted in dense arrays. A cell's place follows from its codes, so nothing is hashed
or sorted. This takes a fraction of the time of GROUPING SETS, and the time hardly depends on which values the
rows have. All sums are of 64-bit integers.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from functools import lru_cache
from itertools import chain
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dpxplain.engines.duckdb_dialect import DuckDBDialect
from dpxplain.engines.duckdb_source import open_connection, trust_statistics
from dpxplain.engines.encoding import Encoding, Rows
from dpxplain.engines.grouped_rows import grouped_of
from dpxplain.model.cancellation import checking, interruptible
from dpxplain.model.confidential import sealed
from dpxplain.model.grouped_pass import MOST_CELLS, AnyGrouped, Block, DenseGrouped, Grouped, cell_number
from dpxplain.model.query import Query
from dpxplain.model.schema import Schema
from dpxplain.sql.encoded_names import CONDENSED, DERIVED, ENCODED, Parameters, code_column
from dpxplain.sql.render import Rendered, expressions, fits_condensed, grouped_select, row_select

FEW_SUBSETS = 4  # up to this many, grouping in the database is faster than reading the rows out of it
ROWS_AT_ONCE = 2**17  # their places stay in the processor's cache

Codes = Mapping[str, NDArray[np.integer]]


def suits_dense(
    group_by: Sequence[str], subsets: Sequence[tuple[str, ...]], sizes: Mapping[str, int]
) -> bool:
    """Whether dense arrays are faster. Depends on the declared domains only."""
    return len(subsets) > FEW_SUBSETS and cell_number(group_by, subsets, sizes) <= MOST_CELLS


class DenseCounts:
    """The count and total of every (group, cell of a subset), including those with code 0.

    >>> counts = DenseCounts(("g",), (("a",),), {"g": 3, "a": 4})
    >>> codes = {"g": np.array([1, 1, 2]), "a": np.array([3, 3, 0])}
    >>> counts.add(codes, np.array([1, 1, 1]), np.array([5, 6, 7]))
    >>> cells = counts.grouped()
    >>> cells.codes["g"].tolist(), cells.codes["a"].tolist(), cells.count.tolist(), cells.total.tolist()
    ([1, 2], [3, 0], [2, 1], [11, 7])
    """

    def __init__(
        self,
        group_by: tuple[str, ...],
        subsets: Sequence[tuple[str, ...]],
        sizes: Mapping[str, int],
        has_total: bool = True,
    ) -> None:
        """`sizes` says how many codes each column has."""
        self._columns = [(*group_by, *subset) for subset in subsets]
        self._shapes = [tuple(sizes[name] for name in columns) for columns in self._columns]
        self._counts = [np.zeros(math.prod(shape), dtype=np.int64) for shape in self._shapes]
        self._totals = [np.zeros_like(count) if has_total else None for count in self._counts]

    def add(self, codes: Codes, count: NDArray[np.integer], total: NDArray[np.integer] | None) -> None:
        """Adds rows: each row's codes, and the numbers to add to the count and total of its cells."""
        count = count.astype(np.int64)
        total = None if total is None else total.astype(np.int64)
        for columns, shape, counts, totals in zip(
            self._columns, self._shapes, self._counts, self._totals, strict=True
        ):
            place = np.zeros(len(count), dtype=np.int32)  # cells are far fewer than 2^31
            for name, size in zip(columns, shape, strict=True):
                place *= size
                place += codes[name].astype(np.int32)
            place = place.astype(np.intp)
            np.add.at(counts, place, count)
            if total is not None and totals is not None:
                np.add.at(totals, place, total)

    def grouped(self) -> DenseGrouped:
        """All cells, subset by subset."""
        return DenseGrouped(
            tuple(
                Block(columns, counts.reshape(shape), None if totals is None else totals.reshape(shape))
                for columns, shape, counts, totals in zip(
                    self._columns, self._shapes, self._counts, self._totals, strict=True
                )
            )
        )


class DuckDBPasses:
    """Counts encoded rows in DuckDB; the base class of the DuckDB engines."""

    is_live = False
    schema: Schema
    _connection: duckdb.DuckDBPyConnection
    _columns: tuple[str, ...] = ()
    _condensed: bool = False
    _streamed: str | None = None  # SQL of the rows, for passes over the source itself
    _given: Any = None  # the table in memory that this SQL reads, if any

    def __init__(self) -> None:
        self._values: list[Any] = []  # the parameters of `_streamed`
        self._empty: DuckDBPasses | None = None  # the same tables without rows, created when first needed

    def check_unchanged(self) -> None:
        """Nothing to check: encoded rows belong to this engine, and files are compared after each pass."""

    @sealed
    def _rehearse(self, query: Query, subsets: tuple[tuple[str, ...], ...]) -> AnyGrouped:
        """The result of `_scan` over empty tables with the same columns."""
        with self._cursor():  # raises if this engine was closed
            self._empty = self._empty or _without_rows(self)
            return self._empty._scan(query, subsets)

    @sealed
    def _scan(self, query: Query, subsets: tuple[tuple[str, ...], ...]) -> AnyGrouped:
        names = {*query.group_by, *(name for subset in subsets for name in subset)}
        sizes = {name: len(self.schema.domain(name)) + 1 for name in names}
        scan = self._dense_scan if suits_dense(query.group_by, subsets, sizes) else self._grouping_sets
        return scan(query, subsets, self._condensed and fits_condensed(query, self.schema))

    def _dense_scan(
        self, query: Query, subsets: tuple[tuple[str, ...], ...], condensed: bool
    ) -> DenseGrouped:
        """Reads the rows out of DuckDB and counts them in dense arrays."""
        attributes = list(dict.fromkeys(name for subset in subsets for name in subset))
        parameters = Parameters(list(self._values))
        rendered = row_select(query, self.schema, attributes, condensed=condensed, parameters=parameters)
        names = (*query.group_by, *attributes)
        sizes = {name: len(self.schema.domain(name)) + 1 for name in names}
        counts = DenseCounts(query.group_by, subsets, sizes, has_total=query.aggregate.kind != "count")
        with self._cursor() as cursor:
            sql = self._statement(rendered, query)
            reader = cursor.sql(sql, params=parameters.values).to_arrow_reader(ROWS_AT_ONCE)
            # Without rows, an empty batch is counted; otherwise the time would show whether the filter admits
            # any row.
            nothing = pa.RecordBatch.from_pylist([], schema=reader.schema)
            for batch in checking(chain([next(reader, nothing)], reader)):
                columns = {name: _numbers(batch[name]) for name in batch.schema.names}
                codes = {name: columns[code_column(self.schema, name)] for name in names}
                counts.add(codes, columns["count"], columns.get("total"))
        return counts.grouped()

    def _grouping_sets(self, query: Query, subsets: tuple[tuple[str, ...], ...], condensed: bool) -> Grouped:
        """Counts in DuckDB, by GROUPING SETS."""
        parameters = Parameters(list(self._values))
        rendered = grouped_select(query, self.schema, subsets, condensed=condensed, parameters=parameters)
        with self._cursor() as cursor:
            rows = cursor.execute(self._statement(rendered, query), parameters.values).fetchnumpy()
        return grouped_of(rows, query, self.schema, subsets)

    def _statement(self, rendered: Rendered, query: Query) -> str:
        """The SQL of a pass, with a WITH clause for streamed rows and the query's own expressions."""
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
        """A cursor for one pass: a connection serves one thread at a time."""
        cursor = self._connection.cursor()
        with closing(cursor), interruptible(cursor.interrupt):
            if self._given is not None:
                cursor.register("given", self._given)
            yield cursor


def _without_rows(passes: DuckDBPasses) -> DuckDBPasses:
    """Passes over empty tables that have the columns of the encoded ones, in another database."""
    empty = DuckDBPasses()
    empty.schema, empty._columns, empty._condensed = passes.schema, passes._columns, passes._condensed
    rows = {ENCODED: passes._streamed or f"FROM {ENCODED}"}
    if passes._condensed:
        rows[CONDENSED] = f"FROM {CONDENSED}"
    tables = []
    with passes._cursor() as cursor:
        for table, sql in rows.items():
            described = cursor.execute(f"DESCRIBE {sql}", passes._values).fetchall()
            tables.append(f"{table} ({', '.join(f'{name} {kind}' for name, kind, *_ in described)})")
    empty._connection = _empty_tables(os.getpid(), *tables)
    return empty


@lru_cache(maxsize=16)
def _empty_tables(process: int, *tables: str) -> duckdb.DuckDBPyConnection:
    """A database with these tables without rows, shared by engines whose tables have the same columns.

    `process` is the current process: a connection must not be used after a fork.
    """
    connection = open_connection()
    for table in tables:
        connection.execute(f"CREATE TABLE {table}")
    trust_statistics(connection)
    return connection


def _numbers(column: pa.Array[Any]) -> NDArray[Any]:
    """The numbers of a batch's column; the NULL codes of a streamed pass become 0."""
    filled = column.fill_null(0) if column.null_count else column
    numbers: NDArray[Any] = filled.to_numpy()
    return numbers
