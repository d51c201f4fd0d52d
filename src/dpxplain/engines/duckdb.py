"""The embedded engine: DuckDB over files, its own databases, DataFrames or Arrow tables."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, nullcontext
from copy import copy
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

import duckdb
import numpy as np
import pyarrow as pa
from duckdb import DuckDBPyConnection as Connection
from numpy.typing import NDArray

from dpxplain.engines.dialect import Kind
from dpxplain.engines.duckdb_source import (
    DuckDBDialect,
    OpenedSource,
    lasting,
    open_connection,
    open_source,
    trust_statistics,
    unreadable,
)
from dpxplain.engines.encoded_tables import (
    EncodedFile,
    TableSource,
    create_tables,
    discard,
    load_tables,
    spill_folder,
    storage_place,
    table_digest,
    temporary_folder,
    too_large,
)
from dpxplain.engines.encoding import Encoding, Rows, check_columns
from dpxplain.engines.engine import Recognised
from dpxplain.engines.source_kinds import local_files
from dpxplain.engines.source_state import FileSource, PrivateSources, quiet
from dpxplain.engines.statements import Fetch, check_units, fit_counts, grouped_of, joined_rows, value_counts
from dpxplain.errors import DataChanged, InternalError, SourceError
from dpxplain.model.column import ValueCounts
from dpxplain.model.confidential import Confidential, ContentDigest, sealed
from dpxplain.model.expression import quoted_name
from dpxplain.model.groups import MOST_CELLS, AnyGrouped, Block, DenseGrouped, Grouped, cell_count
from dpxplain.model.process import check_stop, interruptible, stoppable_steps
from dpxplain.model.query import CONDENSED, DERIVED, ENCODED, Parameters, Query, Subsets, code_column
from dpxplain.model.schema import Schema, all_parts, parts
from dpxplain.model.schema_fit import FitCounts, FitQuestion
from dpxplain.sql.render import Rendered, code_sizes, expressions, fits_condensed, grouped_select, row_select

# -- Passes ------------------------------------------------------------------------------------------------
#
# Grouped passes over the encoded rows of a DuckDB connection, wherever these rows are stored.
#
# Many small groupings are counted in dense arrays. A cell's place follows from its codes, so nothing is
# hashed or sorted. This takes a fraction of the time of GROUPING SETS, and the time hardly depends on which
# values the rows have. All sums are of 64-bit integers.

FEW_SUBSETS = 4  # up to this many, grouping in the database is faster than reading the rows out of it
ROWS_AT_ONCE = 2**17  # their places stay in the processor's cache

Codes = Mapping[str, NDArray[np.integer]]


def suits_dense(group_by: Sequence[str], subsets: Subsets, sizes: Mapping[str, int]) -> bool:
    """Whether dense arrays are faster. Depends on the declared domains only."""
    return len(subsets) > FEW_SUBSETS and cell_count(group_by, subsets, sizes) <= MOST_CELLS


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
        subsets: Subsets,
        sizes: Mapping[str, int],
        has_total: bool = True,
    ) -> None:
        """`sizes` says how many codes each column has."""
        self._blocks = []
        for subset in subsets:
            columns = (*group_by, *subset)
            counts = np.zeros([sizes[name] for name in columns], dtype=np.int64)
            self._blocks.append(Block(columns, counts, np.zeros_like(counts) if has_total else None))

    def add(self, codes: Codes, count: NDArray[np.integer], total: NDArray[np.integer] | None) -> None:
        """Adds rows: each row's codes, and the numbers to add to the count and total of its cells."""
        count = count.astype(np.int64)
        total = None if total is None else total.astype(np.int64)
        for block in self._blocks:
            place = np.zeros(len(count), dtype=np.int32)  # cells are far fewer than 2^31
            for name, size in zip(block.columns, block.count.shape, strict=True):
                place *= size
                place += codes[name].astype(np.int32)
            place = place.astype(np.intp)
            np.add.at(block.count.reshape(-1), place, count)
            if total is not None and block.total is not None:
                np.add.at(block.total.reshape(-1), place, total)

    def grouped(self) -> DenseGrouped:
        """All cells, subset by subset."""
        return DenseGrouped(tuple(self._blocks))


class DuckDBPasses:
    """Counts encoded rows in DuckDB. The constructors of subclasses set the connection and the columns."""

    is_live = False
    _connection: Connection
    _columns: tuple[str, ...]
    _has_condensed = False
    _streamed: str | None = None  # SQL of the rows, for passes over the source itself
    _given: Any = None  # the table in memory that this SQL reads, if any

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self._values: list[Any] = []  # the parameters of `_streamed`
        self._empty: _EmptyTables | None = None  # the same tables without rows, created when first needed

    def check_unchanged(self) -> None:
        """Nothing to check: encoded rows belong to this engine, and files are compared after each pass."""

    @sealed
    def _rehearse(self, query: Query, subsets: Subsets) -> AnyGrouped:
        """The result of `_scan` over empty tables with the same columns."""
        with self._cursor() as cursor:  # raises if this engine was closed
            self._empty = self._empty or self._without_rows(cursor)
            return self._empty._scan(query, subsets)

    def _without_rows(self, cursor: Connection) -> _EmptyTables:
        rows = {ENCODED: self._streamed or f"FROM {ENCODED}"}
        if self._has_condensed:
            rows[CONDENSED] = f"FROM {CONDENSED}"
        tables = []
        for table, sql in rows.items():
            described = cursor.execute(f"DESCRIBE {sql}", self._values).fetchall()
            tables.append(f"{table} ({', '.join(f'{name} {kind}' for name, kind, *_ in described)})")
        return _EmptyTables(self.schema, self._columns, self._has_condensed, tables)

    @sealed
    def _scan(self, query: Query, subsets: Subsets) -> AnyGrouped:
        sizes = code_sizes(self.schema, (query.group_by, *subsets))
        scan = self._dense_scan if suits_dense(query.group_by, subsets, sizes) else self._grouping_sets
        return scan(query, subsets, self._has_condensed and fits_condensed(query, self.schema))

    def _dense_scan(self, query: Query, subsets: Subsets, condensed: bool) -> DenseGrouped:
        """Reads the rows out of DuckDB and counts them in dense arrays."""
        attributes = tuple(dict.fromkeys(name for subset in subsets for name in subset))
        parameters = Parameters(list(self._values))
        rendered = row_select(query, self.schema, attributes, condensed=condensed, parameters=parameters)
        sizes = code_sizes(self.schema, (query.group_by, attributes))
        counts = DenseCounts(query.group_by, subsets, sizes, has_total=query.aggregate.kind != "count")
        with self._cursor() as cursor:
            sql = self._statement(rendered, query)
            reader = cursor.sql(sql, params=parameters.values).to_arrow_reader(ROWS_AT_ONCE)
            # Without rows, an empty batch is counted; otherwise the time would show whether the filter admits
            # any row.
            nothing = pa.RecordBatch.from_pylist([], schema=reader.schema)
            for batch in stoppable_steps(chain([next(reader, nothing)], reader)):
                columns = {name: _numbers(batch[name]) for name in batch.schema.names}
                codes = {name: columns[code_column(self.schema, name)] for name in sizes}
                counts.add(codes, columns["count"], columns.get("total"))
        return counts.grouped()

    def _grouping_sets(self, query: Query, subsets: Subsets, condensed: bool) -> Grouped:
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
    def _cursor(self) -> Iterator[Connection]:
        """A cursor for one pass: a connection serves one thread at a time."""
        cursor = self._connection.cursor()
        with closing(cursor), interruptible(cursor.interrupt):
            if self._given is not None:
                cursor.register("given", self._given)
            yield cursor


class _EmptyTables(DuckDBPasses):
    """Passes over tables without rows, which have the columns of the encoded ones, in another database."""

    def __init__(
        self, schema: Schema, columns: tuple[str, ...], has_condensed: bool, tables: Sequence[str]
    ) -> None:
        super().__init__(schema)
        self._columns, self._has_condensed = columns, has_condensed
        self._connection = _empty_tables(os.getpid(), *tables)


@lru_cache(maxsize=16)
def _empty_tables(process: int, *tables: str) -> Connection:
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


# -- The engine --------------------------------------------------------------------------------------------
#
# Opening encodes the declared columns once, so that every later pass groups small integers. A source that is
# larger than memory may instead be encoded in every pass, while it is read (engines/encoded_tables.py).
# DuckDB's errors can quote values, so none of their text is passed on.

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
        super().__init__(schema)
        source = lasting(source)
        self._data, self._memory = Confidential(source), memory  # `_data`: a path or a table
        self.source = source_of(source)
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

    def grouped(self, query: Query, subsets: Subsets, *, rehearsed: bool = False) -> Confidential[AnyGrouped]:
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
        return self._read_again(lambda encoding, fetch: fit_counts(encoding, asked, fetch), rehearsed)

    def value_counts(
        self, column: str, longest: int, *, rehearsed: bool = False
    ) -> Confidential[ValueCounts]:
        return self._read_again(
            lambda encoding, fetch: value_counts(encoding, column, longest, fetch), rehearsed
        )

    def _read_again(self, count: Callable[[Encoding, Fetch], T], rehearsed: bool) -> Confidential[T]:
        """Counts in the source, because encoded rows have neither undeclared nor unclamped values.

        Raises if the source changed since it was encoded.
        """
        is_same = rehearsed  # a rehearsal reads no rows, so no change of them matters

        def count_and_compare(source: object) -> T:
            nonlocal is_same
            with self._connect() as connection, interruptible(connection.interrupt):
                encoding = self._source_encoding(connection, source, rehearsed)
                counts = count(encoding, lambda sql, values: connection.execute(sql, values).fetchall())
            is_same = rehearsed or self.source.holds_same(source, self._digest)
            return counts

        counts = self._data.map(count_and_compare)
        if not is_same:
            raise DataChanged.of(self.schema.table.name, charged=True)
        return counts

    def _digest(self, table: object) -> ContentDigest:
        with closing(open_connection(self._memory)) as connection:
            opened = open_source(connection, table, self.schema.table.name)
            return table_digest(opened.relation.to_arrow_reader())

    def _source_encoding(self, connection: Connection, source: object, rehearsed: bool) -> Encoding:
        """The encoding of the source. Creates the view `source`, without rows if rehearsed."""
        opened = open_source(connection, source, self.schema.table.name)
        if not rehearsed:
            opened.check_rows()
        (opened.relation.limit(0) if rehearsed else opened.relation).create_view("source")
        return Encoding(self.schema, opened.kinds, DuckDBDialect(connection))

    @contextmanager
    def _connect(self) -> Iterator[Connection]:
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
        digesting = reading(self.source, opened, recognised)
        with quiet(unreadable(self.schema.table.name)), digesting, self._within_memory():
            if self._place == "stream":
                self._stream(opened, rows, values)
            else:
                file = self._file(source, f"{rows.sql} {values}", cache)
                self._encode(opened, (rows.sql, values), file)
            self._connection.execute("SET enable_external_access = false")

    def _within_memory(self) -> AbstractContextManager[None]:
        return quiet(too_large(self.schema), duckdb.OutOfMemoryException)

    def _stream(self, opened: OpenedSource, rows: Rows, values: list[Any]) -> None:
        """Leaves the rows in the source. Reads them once, to refuse unreadable rows before any charge."""
        opened.check_rows()
        opened.relation.create_view("source")
        self._given, self._streamed, self._values = opened.given, rows.sql, values
        _read_all(self._connection, rows, values)
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
        self._has_condensed = CONDENSED in tables
        opened.release()

    def _read_unknown(self) -> None:
        """Reads the columns that may be discovered, so that unreadable text is refused before any charge."""
        texts = [f"COUNT(length(CAST({quoted_name(name)} AS VARCHAR)))" for name in self.schema.unknown]
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


# -- Joins of private tables -------------------------------------------------------------------------------
#
# Private tables joined by the person's id in DuckDB: files, DataFrames and Arrow tables in any mixture.
#
# Each table is encoded and cut to its own max_rows in memory, one after the other; then they are joined.


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
        super().__init__(schema)
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

    def grouped(self, query: Query, subsets: Subsets, *, rehearsed: bool = False) -> Confidential[AnyGrouped]:
        scan = self._rehearse if rehearsed and self._has_rows else self._scan
        return Confidential(scan(query, subsets))

    def fit(self, asked: FitQuestion, *, rehearsed: bool = False) -> Confidential[FitCounts]:
        raise InternalError("The data quality of joined tables cannot be measured.")

    def value_counts(
        self, column: str, longest: int, *, rehearsed: bool = False
    ) -> Confidential[ValueCounts]:
        raise InternalError("Values cannot be discovered in joined tables.")

    def _open(self, sources: Mapping[str, object]) -> None:
        described: dict[str, FileSource | TableSource] = {}
        kinds: dict[str, Mapping[str, Kind]] = {}
        tables = []
        for number, (name, part) in enumerate(parts(self.schema).items()):
            described[name] = source = source_of(sources[name])
            opened = open_source(self._connection, sources[name], name)
            check_columns(part, opened.kinds, opened.untyped)
            kinds[name] = opened.kinds
            digesting = reading(source, opened) if self._has_rows else nullcontext()
            with quiet(unreadable(name)), self._within_memory(), digesting:
                tables.append(self._encode(part, opened, f"part_{number}"))
            opened.release()
            if opened.given is not None:
                self._connection.unregister("given")
        check_units(parts(self.schema), kinds)
        self.source = PrivateSources(described)
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
        self._has_condensed = CONDENSED in created

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
                with quiet(unreadable(name)):
                    encoding = Encoding(part, opened.kinds, DuckDBDialect(connection), keeps_unit=True)
                    opened.check_rows()
                    opened.relation.create_view("source")
                    _read_all(connection, encoding.rows(), encoding.parameters.values)
    check_units(all_parts(schema), kinds)


def _read_all(connection: Connection, rows: Rows, values: list[Any]) -> None:
    """Encodes every value once and keeps nothing, so that unreadable rows are refused before any charge."""
    counted = ", ".join(f"COUNT({name})" for name in rows.columns)
    connection.execute(f"SELECT {counted} FROM ({rows.sql})", values).fetchall()


# -- Sources and their digests -----------------------------------------------------------------------------


def source_of(source: object) -> FileSource | TableSource:
    """The object that can tell whether a source has changed since it was read."""
    files = local_files(source)
    return TableSource(source) if files is None else FileSource(files)


def reading(
    source: FileSource | TableSource, opened: OpenedSource, recognised: Recognised = lambda _state: False
) -> AbstractContextManager[None]:
    """Digests the source while the block reads it, unless it is files that are recognised."""
    if isinstance(source, FileSource):
        return source.reading(recognised)
    return source.reading(lambda: table_digest(opened.relation.to_arrow_reader()))


def digested_source(source: Any, table: str) -> FileSource | TableSource:
    """The description of a source that was not encoded: its files, or the table with its present digest."""
    described = source_of(source)
    if isinstance(described, TableSource):
        with (
            closing(open_connection()) as connection,
            quiet(unreadable(table)),
            reading(described, open_source(connection, source, table)),
        ):
            pass
    return described
