"""The engine for Apache Spark, classic or Connect: a pass is one SQL statement, and only its cells come back.

The encoding is an expression in every statement, or a cached or saved table if the schema's `storage` asks
for one. It uses no RDDs and runs no Python code in Spark. Spark's errors can quote values and plans, so none
of their text is passed on.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from secrets import token_hex
from types import MappingProxyType
from typing import Any, TypeVar

from dpxplain.engines.check_sql import checked_rows, fit_figures
from dpxplain.engines.encoding import Encoding, Rows, check_columns, read_columns
from dpxplain.engines.fit_sql import fit_counts, value_counts
from dpxplain.engines.grouped_rows import grouped_of, joined
from dpxplain.engines.pass_sql import grouped_statement, statement_parts
from dpxplain.engines.private_join import all_rows, check_units
from dpxplain.engines.source_state import LiveTable
from dpxplain.engines.spark_source import SparkSource, check_unit, open_all, place_of, quietly, silenced
from dpxplain.errors import SourceError
from dpxplain.model.cancellation import check_stop, interruptible
from dpxplain.model.confidential import Confidential, sealed
from dpxplain.model.grouped_pass import AnyGrouped, Grouped
from dpxplain.model.joined_schema import all_parts, parts
from dpxplain.model.query import Query
from dpxplain.model.schema import Schema
from dpxplain.model.schema_fit import FitCounts, FitQuestion, SourceFigures
from dpxplain.model.unknown_column import ValueCounts
from dpxplain.sql.encoded_names import Parameters
from dpxplain.sql.render import suits_row_cells

TIME_LIMIT = 1800.0
"""Seconds that a statement may take, unless the caller says otherwise."""

T = TypeVar("T")

_SPENT = "The charge stays."
_MOST_COLUMNS = 64  # in the GROUPING SETS of one statement


class SparkEngine:
    """One data set in Spark. Connects when data are first needed, or in `open`."""

    is_live = True

    def __init__(
        self,
        source: object,
        schema: Schema,
        *,
        others: Mapping[str, object] = MappingProxyType({}),
        time_limit: float | None = None,
    ) -> None:
        """`others` has the source of each private table (DataFrame or address) by its name in the schema."""
        self._opened: tuple[SparkSource, ...] = ()  # the data set's own, and those that may be joined to it
        self._materialised: _Materialised | None = None
        self._lock = threading.Lock()  # guards the two above
        self._checked = checked = all_parts(schema)
        # The source is kept in a function only, because the text of a DataFrame may show rows.
        self._open_sources: Callable[[], tuple[SparkSource, ...]] = lambda: open_all(source, others, checked)
        self._time_limit = time_limit or TIME_LIMIT
        self.schema = schema
        self._parts = parts(schema)
        self.source = LiveTable(schema, place_of(source, schema.table.name), self.open)

    def __repr__(self) -> str:
        return f"<SparkEngine {self.schema.table.name}>"

    def open(self) -> None:
        """Connects and checks the declarations against the catalog. Reads no rows, unless it stores them."""
        with self._lock:
            if self._opened:
                return
            self._opened = self._open_sources()
            try:
                for part, opened in zip(self._checked.values(), self._opened, strict=True):
                    check_columns(part, opened.kinds)
                    check_unit(part, opened.kinds)
                kinds = [opened.kinds for opened in self._opened]
                check_units(self._checked, dict(zip(self._checked, kinds, strict=True)))
                if self.schema.table.storage in ("memory", "file"):
                    self._materialised = self._materialise()
            except BaseException:
                self._close_sources()
                raise

    def close(self) -> None:
        with self._lock:
            materialised, self._materialised = self._materialised, None
        if materialised is not None:
            materialised.drop()
        with self._lock:
            self._close_sources()

    def __del__(self) -> None:
        self.close()  # an engine of joined tables is dropped while passes may still run on it

    def _close_sources(self) -> None:
        opened, self._opened = self._opened, ()
        for source in reversed(opened):
            source.close()

    def check_unchanged(self) -> None:
        """Lets Spark analyse a SELECT of the columns that are read. Spark Connect looks at the table again
        for this.

        A session in this process resolved its table when it was opened, so no change is noticed there.
        """
        self.open()
        for part, opened in zip(self._checked.values(), self._opened, strict=True):
            quote = opened.dialect().quote
            names = ", ".join(quote(name) for name in read_columns(part) if name in opened.kinds)
            self._measured(partial(self._run, f"SELECT {names} FROM {opened.view}", Parameters(), True))

    def grouped(
        self, query: Query, subsets: tuple[tuple[str, ...], ...], *, rehearsed: bool = False
    ) -> Confidential[AnyGrouped]:
        self.open()
        return Confidential(self._measured(lambda: self._scan(query, subsets, rehearsed)))

    def fit(self, asked: FitQuestion, *, rehearsed: bool = False) -> Confidential[FitCounts]:
        self.open()
        return Confidential(self._measured(lambda: self._fit(asked, rehearsed)))

    def value_counts(
        self, column: str, longest: int, *, rehearsed: bool = False
    ) -> Confidential[ValueCounts]:
        self.open()
        encoding = self._encodings(Parameters())[0]

        def fetch(sql: str, values: list[Any]) -> list[tuple[Any, ...]]:
            return self._fetch(sql, Parameters(values), rehearsed)

        return Confidential(self._measured(lambda: value_counts(encoding, column, longest, fetch)))

    def figures(self) -> SourceFigures:
        """Exact figures of how the rows fit the declarations: for the curator, NOT private."""
        self.open()
        parameters = Parameters()
        encoding = self._encodings(parameters)[0]
        rows = f"WITH checked AS ({checked_rows(encoding).sql}) "
        return self._measured(
            lambda: fit_figures(encoding, lambda select: self._fetch(rows + select, parameters))
        )

    # -- One pass ------------------------------------------------------------------------------------------

    def _scan(self, query: Query, subsets: tuple[tuple[str, ...], ...], rehearsed: bool) -> AnyGrouped:
        parts = [
            part
            for several in statement_parts(subsets)
            for part in (
                [several] if suits_row_cells(query, self.schema, several) else _groupable(query, several)
            )
        ]
        cells = [self._cells(query, part, rehearsed) for part in parts]
        return cells[0] if len(cells) == 1 else joined(cells, [len(part) for part in parts])

    def _cells(self, query: Query, subsets: tuple[tuple[str, ...], ...], rehearsed: bool) -> Grouped:
        parameters = Parameters()
        encodings = self._encodings(parameters)
        stored = None
        if self._materialised is not None:
            stored = Rows(f"SELECT * FROM {self._materialised.table}", self._materialised.columns)
        sql = grouped_statement(query, subsets, self.schema, encodings, stored=stored)
        cells = self._run(sql, parameters, rehearsed)
        columns = {name: cells[name].fill_null(0).to_numpy() for name in cells.column_names}
        return grouped_of(columns, query, self.schema, subsets)

    def _fit(self, asked: FitQuestion, rehearsed: bool) -> FitCounts:
        """Reads the source again: in encoded rows, a clamped value looks like one at its bound."""

        def execute(sql: str, values: list[Any]) -> list[int]:
            counts = self._run(sql, Parameters(values), rehearsed).columns
            return [0 if rehearsed else int(column[0].as_py()) for column in counts]

        return fit_counts(self._encodings(Parameters())[0], asked, execute)

    def _encodings(self, parameters: Parameters) -> list[Encoding]:
        tables = zip(self._parts.values(), self._opened, strict=False)  # the rest is joined elsewhere
        return [Encoding(part, o.kinds, o.dialect(), o.view, parameters) for part, o in tables]

    @property
    def _source(self) -> SparkSource:
        return self._opened[0]

    def _run(self, sql: str, parameters: Parameters, rehearsed: bool = False) -> Any:
        """The result as an Arrow table: cells, never rows. Rehearsed, the statement is only analysed."""
        with self._statement():
            frame = self._frame(sql, parameters)
            return (frame.limit(0) if rehearsed else frame).toArrow()

    def _fetch(self, sql: str, parameters: Parameters, rehearsed: bool = False) -> list[tuple[Any, ...]]:
        columns = [column.to_pylist() for column in self._run(sql, parameters, rehearsed).columns]
        return list(zip(*columns, strict=True))

    def _frame(self, sql: str, parameters: Parameters) -> Any:
        arguments = {f"p{number}": value for number, value in enumerate(parameters.values, 1)}
        return self._source.session.sql(sql, args=arguments)

    # -- What can go wrong ---------------------------------------------------------------------------------

    def _measured(self, work: Callable[[], T]) -> T:
        """The result of a pass. If it fails, the error says nothing about the data or Spark."""
        results: list[T] = []
        problem = self._attempt(work, results)
        if problem is not None:
            raise problem
        return results[0]

    @sealed
    def _attempt(self, work: Callable[[], T], results: list[T]) -> SourceError | None:
        try:
            results.append(work())
            return None
        except _TookTooLong:
            return SourceError(
                f"Spark took longer than {self._time_limit:g} s. {_SPENT}",
                remedy='Ask the curator. A larger cluster, or storage = "memory", may help.',
            )
        except _Failed:
            return SourceError(
                f"Spark could not answer. {_SPENT}",
                remedy="Ask the curator. Spark's log may have the reason.",
            )

    @contextmanager
    def _statement(self) -> Iterator[None]:
        """A block whose jobs have a tag. They are cancelled by it if the caller leaves or the time is up."""
        source, tag = self._source, f"dpxplain-{token_hex(8)}"
        is_late = threading.Event()

        def end() -> None:
            is_late.set()
            source.cancel(tag)

        limit = threading.Timer(self._time_limit, end)
        try:
            with silenced(), source.tagged(tag), interruptible(lambda: source.cancel(tag)):
                limit.start()
                yield
        except Exception:
            check_stop()
            raise (_TookTooLong if is_late.is_set() else _Failed) from None
        finally:
            limit.cancel()

    # -- A table of encoded rows ---------------------------------------------------------------------------

    def _materialise(self) -> _Materialised:
        """Stores the encoded table in Spark as the schema says; `close` drops it."""
        parameters = Parameters()
        rows = all_rows(self.schema, self._encodings(parameters))
        table = _Materialised(self._source.session, f"dpxplain_{token_hex(8)}", rows.columns)
        failed = SourceError(
            f"Spark could not store DPXPlain's copy of {self.schema.table.name}.",
            remedy='Is there enough space? storage = "file" also needs the right to create a table. storage '
            '= "stream" needs neither.',
        )

        def keep() -> None:
            with self._statement():
                table.fill(self._frame(rows.sql, parameters), self.schema.table.storage == "file")

        try:
            quietly(keep, failed)
        except BaseException:
            table.drop()  # drops what was stored before the failure
            raise
        return table


class _TookTooLong(Exception):
    pass


class _Failed(Exception):
    pass


class _Materialised:
    """An encoded table stored in Spark: cached, or saved under a name of its own."""

    def __init__(self, session: Any, table: str, columns: tuple[str, ...]) -> None:
        self.table = table
        self.columns = columns
        self._session = session
        self._cached: Any = None

    def fill(self, frame: Any, is_saved: bool) -> None:
        if is_saved:
            frame.write.saveAsTable(self.table)
            return
        self._cached = frame.persist()
        self._cached.createOrReplaceTempView(self.table)
        self._cached.count()  # reads every row now, so that all passes use the same rows

    def drop(self) -> None:
        def take_back() -> None:
            if self._cached is None:
                self._session.sql(f"DROP TABLE IF EXISTS {self.table}")
            else:
                self._cached.unpersist()
                self._session.catalog.dropTempView(self.table)

        with suppress(SourceError):  # the session may be gone already
            quietly(take_back, SourceError("Spark could not drop an encoded table."))


def _groupable(query: Query, subsets: tuple[tuple[str, ...], ...]) -> list[tuple[tuple[str, ...], ...]]:
    """The subsets in parts, each with few enough columns for one statement."""
    parts: list[list[tuple[str, ...]]] = [[]]
    columns = set(query.group_by)
    for subset in subsets:
        if parts[-1] and len(columns | set(subset)) > _MOST_COLUMNS:
            parts.append([])
            columns = set(query.group_by)
        parts[-1].append(subset)
        columns |= set(subset)
    return [tuple(part) for part in parts]
