"""The embedded engine: DuckDB over files, its own databases, DataFrames or Arrow tables.

Opening encodes the declared columns once, so that every later pass groups small integers; a source that is
larger than memory is encoded while it is read, in every pass (engines/storage.py). Errors of DuckDB can quote
values, so none of their text is passed on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dpxplain.engines.dense_counts import ROWS_AT_ONCE, DenseCounts, suits_dense
from dpxplain.engines.duckdb_encoding import check_columns, encoding, known_unit, unit_identity, with_derived
from dpxplain.engines.duckdb_fit import fit_columns, fit_counts
from dpxplain.engines.duckdb_source import OpenedSource, open_connection, open_source, quiet
from dpxplain.engines.encoded_file import EncodedFile, discard, spill_folder, temporary_folder
from dpxplain.engines.encoded_tables import create_tables, is_condensed, load_tables
from dpxplain.engines.engine import Recognised
from dpxplain.engines.source_files import FileSource
from dpxplain.engines.source_kinds import local_files
from dpxplain.engines.source_table import TableSource, table_digest
from dpxplain.engines.storage import storage_place
from dpxplain.errors import DataChanged, SourceError
from dpxplain.model.cancellation import checking, interruptible
from dpxplain.model.confidential import Confidential, ContentDigest, sealed
from dpxplain.model.fit import FitCounts
from dpxplain.model.grouped import BIN, AnyGrouped, DenseGrouped, Grouped
from dpxplain.model.query import Query
from dpxplain.model.schema import Schema
from dpxplain.sql.encoded_names import code_column
from dpxplain.sql.render import (
    DERIVED,
    ENCODED,
    PERSON,
    Rendered,
    expressions,
    fits_condensed,
    grouped_select,
    grouping_parts,
    row_select,
)


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
        self._streamed: tuple[str, list[Any]] | None = (
            None  # SQL of the rows, for passes over the source itself
        )
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
        is_same = False

        def fit_and_compare(source: object) -> FitCounts:
            nonlocal is_same
            counts = self._fit(source)
            is_same = self.source.holds_same(source, self._digest)
            return counts

        counts = self._source.map(fit_and_compare)
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
            columns = encoding(self.schema, connection)
            rows = self._encoded_rows(columns, fit_columns(self.schema, columns))
            return fit_counts(connection, self.schema, rows)

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
        with self._cursor() as cursor:
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
        with self._cursor() as cursor:
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
        """SQL and parameters, with the rows that it reads where those are not in a table."""
        tables, parameters = [], list(rendered.parameters)
        names = expressions(query, self.schema)
        if names:
            rows, further = with_derived(self.schema, names, f"SELECT * FROM {ENCODED}")
            tables, parameters = [f"{DERIVED} AS NOT MATERIALIZED ({rows})"], [*further, *parameters]
        if self._streamed is not None:
            rows, further = self._streamed
            tables = [f"{ENCODED} AS NOT MATERIALIZED ({rows})", *tables]
            parameters = [*further, *parameters]
        sql = rendered.sql("duckdb")
        return f"WITH {', '.join(tables)} {sql}" if tables else sql, parameters

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
        check_columns(self.schema, opened.types, opened.untyped)
        derived = [name for name, column in self.schema.columns.items() if column.expression is not None]
        rows, parameters = with_derived(
            self.schema, derived, self._encoded_rows(encoding(self.schema, self._connection))
        )
        unreadable = SourceError(
            f"The source of {self.schema.table.name} could not be read to its end.",
            remedy="Is it damaged, or does a line of it have too few or too many values?",
        )
        with quiet(unreadable), self._reading(opened.relation, recognised), self._within_memory():
            if self._place == "stream":
                self._stream(opened, rows, parameters)
            else:
                self._encode(opened, (rows, parameters), self._file(source, f"{rows} {parameters}", cache))
            self._connection.execute("SET enable_external_access = false")

    def _reading(
        self, relation: duckdb.DuckDBPyRelation, recognised: Recognised
    ) -> AbstractContextManager[None]:
        """Digests the source while the block reads it."""
        if isinstance(self.source, FileSource):
            return self.source.reading(recognised)
        return self.source.reading(lambda: table_digest(relation.to_arrow_reader()))

    @contextmanager
    def _within_memory(self) -> Iterator[None]:
        try:
            yield
        except duckdb.OutOfMemoryException:
            is_full = True
        else:
            is_full = False
        if is_full:
            name = self.schema.table.name
            allowed = '"file"' if self.schema.privacy.unit != "row" else '"stream" or "file"'
            raise SourceError(
                f"The encoded rows of {name} need more memory than the limit allows.",
                remedy=f"Raise the limit, or say storage = {allowed} in the schema's [table].",
            )

    def _stream(self, opened: OpenedSource, rows: str, parameters: list[Any]) -> None:
        """Leaves the rows where they are. Reads them once: what cannot be read is refused before any charge."""
        opened.check_rows()
        opened.relation.create_view("source")
        self._given = opened.given
        self._streamed = rows, parameters
        names = [name for name, *_ in self._connection.execute(f"DESCRIBE {rows}", parameters).fetchall()]
        counted = ", ".join(f"COUNT({name})" for name in names)
        self._connection.execute(f"SELECT {counted} FROM ({rows})", parameters).fetchall()
        self._connection.execute("SET allowed_paths = ?", [list(opened.files)])

    def _encode(self, opened: OpenedSource, rows: tuple[str, list[Any]], file: EncodedFile | None) -> None:
        """Encodes the rows once, or takes them from the file that an earlier session kept."""
        if file is None or not load_tables(self._connection, file, self._place):
            opened.check_rows()
            opened.relation.create_view("source")
            create_tables(self._connection, self.schema, rows, file, self._place)
            self._connection.execute("DROP VIEW source")
        self._condensed = is_condensed(self._connection)
        opened.release()

    def _file(self, source: object, encoding: str, cache: Path | None) -> EncodedFile | None:
        """The file of the encoded rows, if there is to be one; one that is allowed no more is deleted."""
        if cache is not None and not self.schema.table.cache:
            discard(cache, self.schema)
        is_kept = self.schema.table.cache and cache is not None and isinstance(source, str | Path)
        if not is_kept and self._place != "file":
            return None
        return EncodedFile(self._folder, self.schema, encoding, str(source) if is_kept else None)

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
