"""The embedded engine: DuckDB over files, its own databases, DataFrames or Arrow tables.

Opening encodes the declared columns once, so that every later pass groups small integers. Errors of
DuckDB can quote values, so none of their text is passed on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, closing
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

import duckdb
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dpxplain.engines.dense_counts import ROWS_AT_ONCE, DenseCounts, suits_dense
from dpxplain.engines.duckdb_encoding import check_columns, encoding, known_unit, unit_identity, with_derived
from dpxplain.engines.duckdb_fit import fit_columns, fit_counts, unit_values
from dpxplain.engines.duckdb_source import open_connection, open_source, quiet
from dpxplain.engines.encoded_cache import EncodedCache, cache_file, discard
from dpxplain.engines.engine import Recognised
from dpxplain.engines.source_files import FileSource
from dpxplain.engines.source_kinds import is_path
from dpxplain.engines.source_table import TableSource, table_digest
from dpxplain.errors import DataChanged, SourceError
from dpxplain.model.cancellation import checking, interruptible
from dpxplain.model.confidential import Confidential, ContentDigest, sealed
from dpxplain.model.discovery import ValueCounts
from dpxplain.model.fit import FitCounts
from dpxplain.model.grouped import BIN, AnyGrouped, DenseGrouped, Grouped
from dpxplain.model.query import Query
from dpxplain.model.schema import Schema
from dpxplain.sql.encoded_names import code_column
from dpxplain.sql.render import (
    CONDENSED,
    DERIVED,
    ENCODED,
    PERSON,
    Rendered,
    condensed_columns,
    expressions,
    fits_condensed,
    grouped_select,
    grouping_parts,
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
            columns = encoding(self.schema, connection)
            rows = self._encoded_rows(columns, fit_columns(self.schema, columns))
            return fit_counts(connection, self.schema, rows)

    @sealed
    def _value_counts(self, source: object, column: str, longest: int) -> ValueCounts:
        connection = open_connection(self._memory)
        with closing(connection), interruptible(connection.interrupt):
            opened = open_source(connection, source, self.schema.table.name)
            opened.check_rows()
            opened.relation.create_view("source")
            counted = connection.execute(unit_values(self.schema, column, longest)).fetchnumpy()
            values = tuple(str(value) for value in counted["value"])
            return ValueCounts(values, np.asarray(counted["units"], dtype=np.int64))

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
        rendered = row_select(query, self.schema, attributes, condensed=condensed)
        names = (*query.group_by, *attributes)
        sizes = {name: len(self.schema.domain(name)) + 1 for name in names}
        counts = DenseCounts(query.group_by, subsets, sizes, has_total=query.aggregate.kind != "count")
        cursor = self._connection.cursor()  # a connection serves one thread at a time
        with closing(cursor), interruptible(cursor.interrupt):
            sql, parameters = self._statement(rendered, query)
            reader = cursor.sql(sql, params=parameters).to_arrow_reader(ROWS_AT_ONCE)
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
            rows = cursor.execute(*self._statement(rendered, query)).fetchnumpy()

        def numbers(name: str) -> NDArray[np.int64]:
            column: Any = rows[name]
            is_masked = hasattr(column, "filled")  # asked so, because numpy.ma is slow to import
            return np.asarray(column.filled(0) if is_masked else column, dtype=np.int64)

        attributes = list(dict.fromkeys(name for subset in subsets for name in subset))
        codes = {name: numbers(code_column(self.schema, name)) for name in (*query.group_by, *attributes)}
        if "bin" in rows:
            codes[BIN] = numbers("bin")
        count = numbers("count")
        total = numbers("total") if "total" in rows else np.zeros_like(count)
        subset = np.zeros_like(count)
        if len(subsets) > 1:
            masks = [numbers(f"missing_{i}") for i in range(len(grouping_parts(attributes)))]
            subset = _subset_numbers(masks, attributes, subsets)
        return Grouped(codes, subset, count, total)

    def _statement(self, rendered: Rendered, query: Query) -> tuple[str, list[Any]]:
        """SQL and parameters, with the columns of the query's own expressions added to the table's rows."""
        sql, parameters = rendered.sql("duckdb"), rendered.parameters
        names = expressions(query, self.schema)
        if not names:
            return sql, parameters
        rows, further = with_derived(self.schema, names, f"SELECT * FROM {ENCODED}")
        return f"WITH {DERIVED} AS NOT MATERIALIZED ({rows}) {sql}", [*further, *parameters]

    def _encode(self, source: object, cache_folder: Path | None, recognised: Recognised) -> None:
        opened = open_source(self._connection, source, self.schema.table.name)
        check_columns(self.schema, opened.types, opened.untyped)
        derived = [name for name, column in self.schema.columns.items() if column.expression is not None]
        rows, parameters = with_derived(
            self.schema, derived, self._encoded_rows(encoding(self.schema, self._connection))
        )
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

    def _encoded_rows(self, columns: dict[str, str], fit: Mapping[str, str] = MappingProxyType({})) -> str:
        """SQL of all rows, or of at most max_rows per person, chosen by that person's rows alone (SPEC 7).

        The choice hashes encoded columns, cast to fixed types: a hash of the source's own columns depends on
        their physical type, which one person's odd value can change for everybody. `fit` adds columns that
        have no part in the choice but break its ties, so that what they say is the person's own too.
        """
        privacy = self.schema.privacy
        encoded = ", ".join(f"{expression} AS {name}" for name, expression in {**columns, **fit}.items())
        if privacy.unit == "row":
            return f"SELECT {encoded} FROM source"
        content = ", ".join(
            f"CAST({name} AS {'DOUBLE' if name.startswith('value_') else 'BIGINT'})" for name in columns
        )
        # The hash spreads the choice and the content settles its ties; rows of equal content are equal.
        place = (
            f"row_number() OVER (PARTITION BY person ORDER BY hash({content}), {', '.join([content, *fit])})"
        )
        person = unit_identity(privacy.unit)
        rows = f"SELECT {encoded}, {person} AS person FROM source WHERE {known_unit(privacy.unit)}"
        # COUNT(DISTINCT unit) needs no more of a person than a hash.
        selected = f"* EXCLUDE (person), hash(person) AS {PERSON}"
        return f"SELECT {selected} FROM ({rows}) QUALIFY {place} <= {privacy.max_rows}"


def _subset_numbers(
    missing: list[NDArray[np.int64]], attributes: list[str], subsets: tuple[tuple[str, ...], ...]
) -> NDArray[np.int64]:
    """The subset of each row, from GROUPING(), which sets the bit of every attribute not in the subset."""
    parts = grouping_parts(attributes)
    number_of = {
        tuple(_missing_bits(part, subset) for part in parts): number for number, subset in enumerate(subsets)
    }
    masks, positions = np.unique(missing[0], return_inverse=True)
    patterns: list[tuple[int, ...]] = [(int(mask),) for mask in masks]
    for part in missing[1:]:  # only with more attributes than one part holds
        masks, inner = np.unique(part, return_inverse=True)
        pairs, positions = np.unique(positions * len(masks) + inner, return_inverse=True)
        patterns = [(*patterns[pair // len(masks)], int(masks[pair % len(masks)])) for pair in pairs.tolist()]
    return np.array([number_of[bits] for bits in patterns], dtype=np.int64)[positions]


def _missing_bits(part: Sequence[str], subset: tuple[str, ...]) -> int:
    return sum(1 << place for place, name in enumerate(reversed(part)) if name not in subset)
