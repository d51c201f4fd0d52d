"""Opens a Spark source (a DataFrame, a session's table, or a table at spark:// or sc://) and closes it.

This module asks only the catalog and reads no row. PySpark's errors can quote plans and values, so none of
their text is passed on.
"""

from __future__ import annotations

import logging
import re
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib import import_module
from secrets import token_hex
from typing import Any, TypeVar

from dpxplain.engines.dialect import Kind
from dpxplain.engines.source_kinds import is_spark_frame
from dpxplain.engines.spark_dialect import SparkDialect, kind_of
from dpxplain.errors import SchemaError, SourceError
from dpxplain.model.schema import Schema

T = TypeVar("T")

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
_UNITS: tuple[Kind, ...] = ("whole", "decimal", "long decimal", "text", "boolean", "date")
_CHAR = "__CHAR_VARCHAR_TYPE_STRING"  # the metadata key under which Spark stores that a text column is padded


@dataclass(frozen=True)
class SparkSource:
    """A source as a temporary view of a session. The view's columns have names that the engine chose."""

    session: Any
    view: str
    names: Mapping[str, str]
    kinds: Mapping[str, Kind]
    padded: frozenset[str]
    fields: tuple[Any, ...]  # from the catalog: names, types, and whether they may be NULL
    _release: Callable[[], None]

    def dialect(self) -> SparkDialect:
        return SparkDialect(self.names, self.padded)

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

        def take_back() -> None:
            self.session.catalog.dropTempView(self.view)
            self._release()

        with suppress(SourceError):  # the session may be gone already
            quietly(take_back, SourceError("Spark could not close the source."))


def place_of(source: object, table: str) -> str:
    """The source's lasting name, whichever address leads to it."""
    return "spark DataFrame" if is_spark_frame(source) else f"spark {_named_table(source) or table}"


def check_unit(schema: Schema, kinds: Mapping[str, Kind]) -> None:
    """Raises if other engines might choose other rows of a person by this privacy unit."""
    unit = schema.privacy.unit
    if unit != "row" and kinds.get(unit) not in _UNITS:
        raise SchemaError(
            f"privacy.unit names the column {unit!r}, but different databases write values of its type in "
            "different ways.",
            remedy="Use a column of whole numbers, decimals, text or dates.",
        )


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
        for first in reversed(opened):
            first.close()
        raise


def _beside(own: object, session: Any, source: object, name: str) -> SparkSource:
    """Another table of the session: one of its DataFrames, or a table in its catalog."""
    elsewhere = SchemaError(
        f"tables.{name}: is in another place. Joined tables must be in one Spark session.",
        remedy="Pass a DataFrame of that session, or remove source to read the table with this name.",
    )
    if is_spark_frame(source):
        frame: Any = source
        if frame.sparkSession is not session:
            raise elsewhere
        return _as_view(frame, _nothing)
    if source is None:
        return _as_view(_table_frame(session, name), _nothing)
    address, _, table = str(source).partition("::")
    is_same = isinstance(own, str) and own.partition("::")[0] == address
    if not is_same:
        raise elsewhere
    return _as_view(_table_frame(session, table or name), _nothing)


def open_spark(source: object, table: str) -> SparkSource:
    """Opens a source. `table` is read if the source itself names no table."""
    table = _named_table(source) or table
    frame, release = None, _nothing
    try:
        if is_spark_frame(source):
            frame = source
        else:
            session, release = _session_of(source)
            frame = _table_frame(session, table)
        return _as_view(frame, release)
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
        return session, _nothing
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
            if self._users == 0 and _has_session():
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


def _has_session() -> bool:
    from pyspark.sql import SparkSession

    return SparkSession.getActiveSession() is not None


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


def _as_view(frame: Any, release: Callable[[], None]) -> SparkSource:
    session = frame.sparkSession
    _check_session(session)
    fields = quietly(
        lambda: list(frame.schema.fields),
        SourceError(
            "Spark cannot list the columns of the source.", remedy="Can Spark itself show the table?"
        ),
    )
    if frame.isStreaming:
        raise SourceError("The source is a stream.", remedy="Pass a table, not a stream.")
    twice = {field.name for field in fields if sum(f.name == field.name for f in fields) > 1}
    names = {field.name: f"c{place}" for place, field in enumerate(fields) if field.name not in twice}
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
        field.name
        for field in fields
        if str((field.metadata or {}).get(_CHAR, field.dataType.simpleString())).startswith("char(")
    )
    return SparkSource(session, view, names, kinds, padded & names.keys(), tuple(fields), release)


def _check_session(session: Any) -> None:
    version = str(session.version)
    if int(version.partition(".")[0]) < _OLDEST:
        raise SourceError(f"Spark {version} is too old.", remedy="Use Spark 4.0 or newer.")


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


def _nothing() -> None:
    pass
