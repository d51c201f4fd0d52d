"""The engine for Apache Spark, classic or Connect: a pass is one SQL statement, and only its cells come back.

PySpark's errors can quote plans and values, so none of their text is passed on.
"""

from __future__ import annotations

import logging
import re
import threading
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from secrets import token_hex
from types import MappingProxyType
from typing import Any, TypeVar

from dpxplain.engines.dialect import Kind
from dpxplain.engines.encoding import (
    Encoding,
    Rows,
    check_columns,
    check_unit,
    checked_rows,
    fit_figures,
    read_columns,
)
from dpxplain.engines.source_kinds import is_spark_frame
from dpxplain.engines.source_state import LiveTable
from dpxplain.engines.spark_dialect import SparkDialect, kind_of
from dpxplain.engines.statements import (
    CHARGED,
    TIME_LIMIT,
    Fetch,
    all_rows,
    check_units,
    fit_counts,
    grouped_of,
    grouped_statement,
    merged_cells,
    statement_parts,
    value_counts,
)
from dpxplain.errors import SchemaError, SourceError
from dpxplain.model.column import ValueCounts
from dpxplain.model.confidential import Confidential, sealed
from dpxplain.model.groups import AnyGrouped, Grouped
from dpxplain.model.process import check_stop, interruptible
from dpxplain.model.query import Parameters, Query, Subsets
from dpxplain.model.schema import Schema, all_parts, parts
from dpxplain.model.schema_fit import FitCounts, FitQuestion, SourceFigures
from dpxplain.sql.render import suits_row_cells

# -- The engine --------------------------------------------------------------------------------------------
#
# The encoding is an expression in every statement, or a cached or saved table if the schema's `storage` asks
# for one. It uses no RDDs and runs no Python code in Spark.

T = TypeVar("T")

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
                    check_unit(part, opened.kinds, "Use a column of whole numbers, decimals, text or dates.")
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
            quote = opened.dialect.quote
            names = ", ".join(quote(name) for name in read_columns(part) if name in opened.kinds)
            self._measured(partial(self._run, f"SELECT {names} FROM {opened.view}", [], True))

    def grouped(self, query: Query, subsets: Subsets, *, rehearsed: bool = False) -> Confidential[AnyGrouped]:
        self.open()
        return Confidential(self._measured(lambda: self._scan(query, subsets, rehearsed)))

    def fit(self, asked: FitQuestion, *, rehearsed: bool = False) -> Confidential[FitCounts]:
        return self._counted(lambda encoding, fetch: fit_counts(encoding, asked, fetch), rehearsed)

    def value_counts(
        self, column: str, longest: int, *, rehearsed: bool = False
    ) -> Confidential[ValueCounts]:
        return self._counted(
            lambda encoding, fetch: value_counts(encoding, column, longest, fetch), rehearsed
        )

    def _counted(self, count: Callable[[Encoding, Fetch], T], rehearsed: bool) -> Confidential[T]:
        """Counts in the source, because encoded rows have neither undeclared nor unclamped values."""
        self.open()
        encoding, fetch = self._encodings(Parameters())[0], partial(self._fetched, rehearsed=rehearsed)
        return Confidential(self._measured(lambda: count(encoding, fetch)))

    def figures(self) -> SourceFigures:
        """Exact figures of how the rows fit the declarations: for the curator, NOT private."""
        self.open()
        encoding = self._encodings(Parameters())[0]
        rows = f"WITH checked AS ({checked_rows(encoding).sql}) "
        values = encoding.parameters.values
        return self._measured(
            lambda: fit_figures(encoding, lambda select: self._fetched(rows + select, values))
        )

    # -- One pass ------------------------------------------------------------------------------------------

    def _scan(self, query: Query, subsets: Subsets, rehearsed: bool) -> AnyGrouped:
        parts: list[Subsets] = []
        for part in statement_parts(subsets):
            parts += [part] if suits_row_cells(query, self.schema, part) else _groupable(query, part)
        return merged_cells(parts, [self._cells(query, part, rehearsed) for part in parts])

    def _cells(self, query: Query, subsets: Subsets, rehearsed: bool) -> Grouped:
        parameters = Parameters()
        encodings = self._encodings(parameters)
        stored = None
        if self._materialised is not None:
            stored = Rows(f"SELECT * FROM {self._materialised.table}", self._materialised.columns)
        sql = grouped_statement(query, subsets, self.schema, encodings, stored=stored)
        cells = self._run(sql, parameters.values, rehearsed)
        columns = {name: cells[name].fill_null(0).to_numpy() for name in cells.column_names}
        return grouped_of(columns, query, self.schema, subsets)

    def _encodings(self, parameters: Parameters) -> list[Encoding]:
        tables = zip(self._parts.values(), self._opened, strict=False)  # the rest is joined elsewhere
        return [Encoding(part, o.kinds, o.dialect, o.view, parameters) for part, o in tables]

    def _run(self, sql: str, values: list[Any], rehearsed: bool = False) -> Any:
        """The result as an Arrow table: cells, never rows. Rehearsed, the statement is only analysed."""
        with self._statement():
            frame = self._frame(sql, values)
            return (frame.limit(0) if rehearsed else frame).toArrow()

    def _fetched(self, sql: str, values: list[Any], rehearsed: bool = False) -> list[tuple[Any, ...]]:
        columns = [column.to_pylist() for column in self._run(sql, values, rehearsed).columns]
        return list(zip(*columns, strict=True))

    def _frame(self, sql: str, values: list[Any]) -> Any:
        arguments = {f"p{number}": value for number, value in enumerate(values, 1)}
        return self._opened[0].session.sql(sql, args=arguments)

    # -- What can go wrong ---------------------------------------------------------------------------------

    def _measured(self, work: Callable[[], T]) -> T:
        """The result of a pass. If it fails, the error says nothing about the data or Spark."""
        outcome = self._attempt(work)
        if isinstance(outcome, SourceError):
            raise outcome
        return outcome

    @sealed
    def _attempt(self, work: Callable[[], T]) -> T | SourceError:
        try:
            return work()
        except _TookTooLong:
            return SourceError(
                f"Spark took longer than {self._time_limit:g} s. {CHARGED}",
                remedy='Ask the curator. A larger cluster, or storage = "memory", may help.',
            )
        except _Failed:
            return SourceError(
                f"Spark could not answer. {CHARGED}",
                remedy="Ask the curator. Spark's log may have the reason.",
            )

    @contextmanager
    def _statement(self) -> Iterator[None]:
        """A block whose jobs have a tag. They are cancelled by it if the caller leaves or the time is up."""
        source, tag = self._opened[0], f"dpxplain-{token_hex(8)}"
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
        table = _Materialised(self._opened[0].session, f"dpxplain_{token_hex(8)}", rows.columns)
        failed = SourceError(
            f"Spark could not store DPXPlain's copy of {self.schema.table.name}.",
            remedy='Is there enough space? storage = "file" also needs the right to create a table. storage '
            '= "stream" needs neither.',
        )

        def store() -> None:
            with self._statement():
                table.fill(self._frame(rows.sql, parameters.values), self.schema.table.storage == "file")

        try:
            quietly(store, failed)
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
        def drop_table() -> None:
            if self._cached is None:
                self._session.sql(f"DROP TABLE IF EXISTS {self.table}")
            else:
                self._cached.unpersist()
                self._session.catalog.dropTempView(self.table)

        with suppress(SourceError):  # the session may be gone already
            quietly(drop_table, SourceError("Spark could not drop an encoded table."))


def _groupable(query: Query, subsets: Subsets) -> list[Subsets]:
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


# -- Sources -----------------------------------------------------------------------------------------------
#
# Opens a Spark source (a DataFrame, a session's table, or a table at spark:// or sc://) and closes it.
#
# Opening asks only the catalog and reads no row.

_OLDEST = 4  # the first version with try_cast for all types, tags in every kind of session, and toArrow
# Settings of a driver that this process starts: no web page, event log or other log, because these show plans
# and true row counts.
_DRIVER = {
    "spark.app.name": "dpxplain",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.eventLog.enabled": "false",
    "spark.log.level": "OFF",
}
_CHAR = "__CHAR_VARCHAR_TYPE_STRING"  # the metadata key under which Spark stores that a text column is padded


@dataclass(frozen=True)
class SparkSource:
    """A source as a temporary view of a session. The view's columns have names that the engine chose."""

    session: Any
    view: str
    kinds: Mapping[str, Kind]
    dialect: SparkDialect
    fields: tuple[Any, ...]  # from the catalog: names, types, and whether they may be NULL
    _release: Callable[[], None]

    @contextmanager
    def tagged(self, tag: str) -> Iterator[None]:
        """A block whose jobs, in this thread, have the tag, so that they can be cancelled by it."""
        # A classic session's own tags do not reach the thread in which Spark fetches results.
        session = self.session
        add, remove = (
            (session.addTag, session.removeTag)
            if self._is_remote
            else (session.sparkContext.addJobTag, session.sparkContext.removeJobTag)
        )
        add(tag)
        try:
            yield
        finally:
            remove(tag)

    def cancel(self, tag: str) -> None:
        """Ends the jobs that have the tag; called from any thread."""
        cancel = self.session.interruptTag if self._is_remote else self.session.sparkContext.cancelJobsWithTag
        with suppress(SourceError):
            quietly(lambda: cancel(tag), SourceError("Spark could not cancel a statement."))

    @property
    def _is_remote(self) -> bool:
        return type(self.session).__module__.startswith("pyspark.sql.connect")

    def close(self) -> None:
        """Drops the view, and ends the session if it was started here."""

        def drop() -> None:
            self.session.catalog.dropTempView(self.view)
            self._release()

        with suppress(SourceError):  # the session may be gone already
            quietly(drop, SourceError("Spark could not close the source."))


def place_of(source: object, table: str) -> str:
    """The source's lasting name, whichever address leads to it."""
    return "spark DataFrame" if is_spark_frame(source) else f"spark {_named_table(source) or table}"


def open_all(
    source: object, others: Mapping[str, object], parts: Mapping[str, Schema]
) -> tuple[SparkSource, ...]:
    """Opens the data set's own source and the tables that may be joined to it, in the same session."""
    own, *names = parts
    opened = [open_spark(source, own)]
    try:
        for name in names:
            other = others.get(name, parts[name].table.source)
            opened.append(_beside(source, opened[0].session, other, name))
        return tuple(opened)
    except BaseException:
        for spark_source in reversed(opened):
            spark_source.close()
        raise


def _beside(own: object, session: Any, source: object, name: str) -> SparkSource:
    """Another table of the session: one of its DataFrames, or a table in its catalog."""
    elsewhere = SchemaError(
        f"tables.{name}: is in another place. Joined tables must be in one Spark session.",
        remedy="Pass a DataFrame of that session, or remove source to read the table with this name.",
    )
    if is_spark_frame(source):
        frame: Any = source
        is_same = frame.sparkSession is session
    else:
        address, _, table = ("" if source is None else str(source)).partition("::")
        is_same = source is None or (isinstance(own, str) and own.partition("::")[0] == address)
        frame = _table_frame(session, table or name) if is_same else None
    if not is_same:
        raise elsewhere
    return _as_view(frame)


def open_spark(source: object, table: str) -> SparkSource:
    """Opens a source. `table` is read if the source itself names no table."""
    if is_spark_frame(source):
        return _as_view(source)
    session, release = _session_of(source)
    try:
        return _as_view(_table_frame(session, _named_table(source) or table), release)
    except BaseException:
        release()
        raise


def _named_table(source: object) -> str | None:
    if isinstance(source, tuple):
        return str(source[1])
    return source.partition("::")[2] or None if isinstance(source, str) else None


def _session_of(source: object) -> tuple[Any, Callable[[], None]]:
    """The session, and a function that ends it if it was started here."""
    session = source[0] if isinstance(source, tuple) else source
    if not isinstance(session, str):
        return session, lambda: None
    address = session.partition("::")[0]
    failed = SourceError(
        "Spark cannot be reached at the address given.",
        remedy="Is Spark running there? A Spark Connect server has an address like sc://host:15002, a "
        "master one like spark://host:7077.",
    )
    starts = _connect if address.lower().startswith("sc://") else _drivers.start
    return quietly(lambda: starts(address), failed)


def _connect(address: str) -> tuple[Any, Callable[[], None]]:
    # Not through pyspark.sql, which refuses if the process also has a classic session.
    session = _builder("pyspark.sql.connect.session").remote(address).create()
    _ = session.version  # calls the server
    return session, session.stop


class _Drivers:
    """The Spark driver of this process. A process can have only one, so all spark:// data sets share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._address = ""
        self._users = 0

    def start(self, address: str) -> tuple[Any, Callable[[], None]]:
        with self._lock:
            builder = _builder()
            if self._users == 0 and import_module("pyspark.sql").SparkSession.getActiveSession() is not None:
                raise SourceError(
                    "This process already has its own Spark session.",
                    remedy="Instead of the address, pass that session or a DataFrame from it.",
                )
            if self._users and address != self._address:
                raise SourceError(
                    "This process already uses another Spark master.",
                    remedy="A process can have one Spark driver. Use sc:// addresses to reach several.",
                )
            for name, value in _DRIVER.items():
                builder = builder.config(name, value)
            shared = builder.master(address).getOrCreate()
            self._address, self._users = address, self._users + 1
            return shared.newSession(), lambda: self._end(shared)

    def _end(self, shared: Any) -> None:
        with self._lock:
            self._users -= 1
            if self._users == 0:
                shared.stop()


_drivers = _Drivers()


def _builder(module: str = "pyspark.sql") -> Any:
    try:
        return import_module(module).SparkSession.Builder()
    except ImportError:
        raise SourceError(
            "Spark is not installed here.", remedy="Install dpxplain[spark], and Java 17 for spark://."
        ) from None


def _table_frame(session: Any, table: str) -> Any:
    missing = SourceError(
        f"Spark has no table {table!r} that you may read.",
        remedy="Name it in the schema's [table] name, or pass (session, 'catalog.database.table').",
    )
    if not re.fullmatch(r"[^`\s][^`]*", table):
        raise missing

    def look_up() -> Any:
        frame = session.table(table)
        _ = frame.schema  # asks the catalog
        return frame

    return quietly(look_up, missing)


def _as_view(frame: Any, release: Callable[[], None] = lambda: None) -> SparkSource:
    session = frame.sparkSession
    version = str(session.version)
    if int(version.partition(".")[0]) < _OLDEST:
        raise SourceError(f"Spark {version} is too old.", remedy="Use Spark 4.0 or newer.")
    fields = quietly(
        lambda: list(frame.schema.fields),
        SourceError(
            "Spark cannot list the columns of the source.", remedy="Can Spark itself show the table?"
        ),
    )
    if frame.isStreaming:
        raise SourceError("The source is a stream.", remedy="Pass a table, not a stream.")
    times = Counter(field.name for field in fields)
    names = {field.name: f"c{place}" for place, field in enumerate(fields) if times[field.name] == 1}
    view = f"dpxplain_{token_hex(8)}"
    quietly(
        lambda: frame.toDF(*(f"c{place}" for place in range(len(fields)))).createOrReplaceTempView(view),
        SourceError(
            "Spark could not create a temporary view of the source.",
            remedy="Can Spark itself show the table?",
        ),
    )
    kinds = {field.name: kind_of(field.dataType.simpleString()) for field in fields if field.name in names}
    padded = frozenset(
        names[field.name]
        for field in fields
        if field.name in names
        and str((field.metadata or {}).get(_CHAR, field.dataType.simpleString())).startswith("char(")
    )
    return SparkSource(session, view, kinds, SparkDialect(names, padded), tuple(fields), release)


def quietly(call: Callable[[], T], replacement: SourceError) -> T:
    """The call's result. Replaces an error, and keeps nothing of its text, causes and frames."""
    try:
        with silenced():
            return call()
    except SourceError as refusal:
        replacement = refusal
    except Exception:
        pass
    raise replacement.with_traceback(None)


class _Silence(logging.Filter):
    """Drops PySpark's log records about failed statements, which have plans, in threads of an engine."""

    def __init__(self) -> None:
        super().__init__()
        self._quiet = threading.local()
        for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
            logging.getLogger(name).addFilter(self)

    def filter(self, record: logging.LogRecord) -> bool:
        return not getattr(self._quiet, "depth", 0)

    @contextmanager
    def __call__(self) -> Iterator[None]:
        self._quiet.depth = getattr(self._quiet, "depth", 0) + 1
        try:
            yield
        finally:
            self._quiet.depth -= 1


_silence = _Silence()


@contextmanager
def silenced() -> Iterator[None]:
    """A block without PySpark's logs, which quote plans, and without warnings, such as on pandas versions."""
    with _silence(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
